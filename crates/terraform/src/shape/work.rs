//! Rendering: what a run finds in the folder it starts in.
//!
//! The folder is the workspace's own, because a module may write beside itself. What was rendered is listed, so that it can
//! be taken out again without touching what the module made.

use std::{
    collections::BTreeSet,
    fs, io,
    path::{Component, Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::Shape;
use crate::{
    folders::{WorkspaceFolder, copy_tree, make_private, read_optional, remove, write_private},
    inputs::Inputs,
    module::Format,
};

/// Names of our value files: the last in the alphabet win, and these come after a module's own.
const VALUES: &str = "zzz-capt";

/// Why a workspace could not be rendered.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RenderError {
    #[error("the file {0:?} must have a relative path, and no name that Terraform reads")]
    FileName(String),
    #[error("write the working folder")]
    Write(#[from] io::Error),
}

#[derive(Default, PartialEq, Serialize, Deserialize)]
struct Rendered {
    /// The shape whose package was copied.
    package: Option<String>,
    files: BTreeSet<PathBuf>,
}

/// Renders a workspace, and says where its runs start.
pub(crate) fn render(
    shape: &Shape,
    inputs: &Inputs,
    folder: &WorkspaceFolder,
) -> Result<PathBuf, RenderError> {
    let before: Rendered = read_optional(&folder.rendered())?
        .and_then(|bytes| serde_json::from_slice(&bytes).ok())
        .unwrap_or_default();
    let root = folder.work().join(&shape.root);
    let mut now = Rendered::default();
    if let Some(package) = &shape.package {
        now.package = Some(shape.key.clone());
        if before.package == now.package {
            now.files.extend(before.files.iter().filter(|file| package.join(file).exists()).cloned());
        } else {
            now.files.extend(copy_tree(package, &folder.work())?);
        }
    }
    make_private(&root)?;
    for (name, bytes) in files(shape, inputs)? {
        let path = root.join(&name);
        if path.parent().is_some_and(|parent| parent != root) {
            make_private(path.parent().expect("just seen"))?;
        }
        // What is the same stays: most runs of a workspace differ in nothing here.
        if read_optional(&path)?.as_deref() != Some(&bytes) {
            write_private(&path, &bytes)?;
        }
        now.files.insert(shape.root.join(name));
    }
    for gone in before.files.difference(&now.files) {
        remove(&folder.work().join(gone))?;
    }
    if before != now {
        write_private(&folder.rendered(), &serde_json::to_vec(&now).map_err(io::Error::from)?)?;
    }
    Ok(root)
}

/// Takes everything out that may be secret.
pub(crate) fn take_out(folder: &WorkspaceFolder) {
    let rendered: Option<Rendered> =
        fs::read(folder.rendered()).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
    for file in rendered.map(|rendered| rendered.files).unwrap_or_default() {
        let _ = remove(&folder.work().join(file));
    }
    let _ = remove(&folder.rendered());
}

fn files(shape: &Shape, inputs: &Inputs) -> Result<Vec<(PathBuf, Vec<u8>)>, RenderError> {
    let mut files: Vec<(PathBuf, Vec<u8>)> =
        shape.texts.iter().map(|(name, text)| (PathBuf::from(name), text.clone().into_bytes())).collect();
    if let Some(lock) = &shape.lock {
        files.push((".terraform.lock.hcl".into(), lock.clone()));
    }
    for (at, file) in inputs.var_files.iter().enumerate() {
        let ending = match file.format {
            Format::Hcl => "tfvars",
            Format::Json => "tfvars.json",
        };
        files.push((format!("{VALUES}-{at:04}.auto.{ending}").into(), file.content.clone().into_bytes()));
    }
    if !inputs.variables.is_empty() {
        let values: serde_json::Map<_, _> =
            inputs.variables.iter().map(|(name, variable)| (name.clone(), variable.value.clone())).collect();
        let values = serde_json::to_vec(&values).map_err(io::Error::from)?;
        files.push((format!("{VALUES}-variables.auto.tfvars.json").into(), values));
    }
    for (name, bytes) in &inputs.files {
        let path = Path::new(name);
        let relative =
            path.components().all(|part| matches!(part, Component::Normal(_))) && path.file_name().is_some();
        let read_by_terraform =
            [".tf", ".tf.json", ".tofu", ".tofu.json", ".tfvars", ".tfvars.json", ".tfstate", ".lock.hcl"]
                .iter()
                .any(|ending| name.ends_with(ending));
        if !relative || read_by_terraform {
            return Err(RenderError::FileName(name.clone()));
        }
        files.push((path.to_owned(), bytes.clone()));
    }
    Ok(files)
}
