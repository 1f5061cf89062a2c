//! Rendering: what a run finds in the folder it starts in.
//!
//! The folder is the workspace's own, because a module may write beside itself. What was rendered is listed, so that it can
//! be taken out again without touching what the module made.

use std::{
    collections::BTreeSet,
    io,
    path::{Component, Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::InitEntry;
use crate::generated::VALUES;
use crate::{
    beneath::{Dir, copy_tree, read_optional, remove},
    folders::{WorkspaceFolder, guest},
    inputs::Inputs,
    module::{Format, read_by_terraform},
    private_files::write_private,
};

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
    /// The entry whose package was copied.
    package: Option<String>,
    files: BTreeSet<PathBuf>,
}

/// Renders a workspace, and says where its runs start.
pub(crate) fn render(
    entry: &InitEntry,
    inputs: &Inputs,
    folder: &WorkspaceFolder,
) -> Result<PathBuf, RenderError> {
    let before = rendered(folder)?;
    let work = folder.open_guest()?.make_below(Path::new(guest::WORK))?;
    let mut now = Rendered::default();
    if let Some(package) = &entry.package {
        now.package = Some(entry.key.clone());
        // Copied anew each time: the run before may have changed it.
        now.files.extend(copy_tree(&Dir::open(package)?, &work)?);
    }
    let root = work.make_below(&entry.root)?;
    for (name, bytes) in files(entry, inputs)? {
        // Also what is the same: somebody may still have the file open that the run before found there.
        root.write(&name, &bytes)?;
        now.files.insert(entry.root.join(name));
    }
    for gone in before.files.difference(&now.files) {
        work.remove(gone)?;
    }
    // What the run before put beside the module must not become part of it.
    let folders: BTreeSet<&Path> =
        now.files.iter().filter_map(|file| file.parent()).chain([entry.root.as_path()]).collect();
    for below in folders {
        work.below(below)?.remove_where(|name| {
            read_by_terraform(name.as_encoded_bytes()) && !now.files.contains(&below.join(name))
        })?;
    }
    if before != now {
        write_private(&folder.rendered(), &serde_json::to_vec(&now).map_err(io::Error::from)?)?;
    }
    Ok(folder.guest().join(guest::WORK).join(&entry.root))
}

/// Reads the list of files that were rendered before. A list that cannot be read, or is not ours, names nothing.
fn rendered(folder: &WorkspaceFolder) -> io::Result<Rendered> {
    let bytes = read_optional(&folder.rendered())?;
    Ok(bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default())
}

/// Takes everything out that may be secret.
pub(crate) fn take_out(folder: &WorkspaceFolder) {
    // Best effort: the folder goes as a whole later.
    let _ = folder.open_guest().and_then(|guest| guest.clear());
    let _ = remove(&folder.rendered());
}

fn files(entry: &InitEntry, inputs: &Inputs) -> Result<Vec<(PathBuf, Vec<u8>)>, RenderError> {
    let mut files: Vec<(PathBuf, Vec<u8>)> =
        entry.texts.iter().map(|(name, text)| (PathBuf::from(name), text.clone().into_bytes())).collect();
    if let Some(lock) = &entry.lock {
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
    check_names(inputs)?;
    files.extend(inputs.files.iter().map(|(name, bytes)| (PathBuf::from(name), bytes.clone())));
    Ok(files)
}

/// Refuses files of the inputs that would be part of the module, or lie outside of it.
pub(crate) fn check_names(inputs: &Inputs) -> Result<(), RenderError> {
    let refused = |name: &&String| {
        let path = Path::new(name);
        let relative =
            path.components().all(|part| matches!(part, Component::Normal(_))) && path.file_name().is_some();
        !relative || read_by_terraform(name.as_bytes())
    };
    match inputs.files.keys().find(refused) {
        Some(name) => Err(RenderError::FileName(name.clone())),
        None => Ok(()),
    }
}
