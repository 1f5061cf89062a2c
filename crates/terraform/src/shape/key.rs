//! When two workspaces are of one shape.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use serde_json::json;

use crate::{
    binary::Program,
    inputs::{Backend, Inputs, canonical, sha256},
    module::{self, Module},
    order::WorkspaceId,
};

/// The folder of a module that lies on this machine, with the part below it that is the root.
pub(crate) fn local_folder(module: &Module) -> Option<(PathBuf, PathBuf)> {
    let Module::Source { source, .. } = module else { return None };
    let path = source.strip_prefix("file://").unwrap_or(source);
    if !path.starts_with('/') {
        return None;
    }
    let (package, below) = path.split_once("//").unwrap_or((path, ""));
    Some((PathBuf::from(package), PathBuf::from(below)))
}

/// A hash of the files of a module that lies on this machine: an edit there must reach the infrastructure.
pub(crate) fn content(module: &Module) -> io::Result<Option<String>> {
    fn walk(folder: &Path, parts: &mut Vec<Vec<u8>>) -> io::Result<()> {
        let mut entries = fs::read_dir(folder)?.collect::<io::Result<Vec<_>>>()?;
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let name = entry.file_name();
            if name == ".git"
                || name == ".terraform"
                || name.to_string_lossy().starts_with("terraform.tfstate")
            {
                continue;
            }
            parts.push(name.as_encoded_bytes().to_vec());
            let path = entry.path();
            if fs::metadata(&path)?.is_dir() {
                walk(&path, parts)?;
                parts.push(b"/".to_vec());
            } else {
                parts.push(fs::read(&path)?);
            }
        }
        Ok(())
    }
    let Some((package, _)) = local_folder(module) else { return Ok(None) };
    let mut parts = Vec::new();
    walk(&package, &mut parts)?;
    Ok(Some(sha256(parts.iter().map(Vec::as_slice))))
}

/// Whether nothing has to be initialised, as far as the inputs tell: then any version of the binary does the same.
pub(crate) fn is_plain(inputs: &Inputs) -> bool {
    let Module::Inline { text, format } = &inputs.module else { return false };
    inputs.configuration.is_none()
        && inputs.backend == Backend::Local
        && inputs.args.init.is_empty()
        && module::declared(text, *format)
            .is_ok_and(|declared| declared.builtin_only && declared.backend.is_none())
}

/// The name of a shape. Workspaces with a backend of their own are never of one shape: what `init` leaves behind names the backend.
pub(crate) fn key(
    inputs: &Inputs,
    binary: &Program,
    content: Option<&str>,
    workspace: Option<&WorkspaceId>,
) -> String {
    let backend = match &inputs.backend {
        Backend::Local => None,
        Backend::Hcl(text) => Some(text),
    };
    let version = binary.version.as_ref().filter(|_| !is_plain(inputs));
    let all = json!({
        "module": inputs.module, "content": content, "configuration": inputs.configuration, "backend": backend,
        "workspace": workspace, "binary": binary.path, "version": version,
        "plugins": inputs.plugins, "init": inputs.args.init,
    });
    sha256([canonical(&all).as_bytes()])[..24].to_owned()
}
