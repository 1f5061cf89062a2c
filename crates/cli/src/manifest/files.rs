//! Files of a `-f` argument, and their text.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use capt_yaml::Position;

/// Far above any real manifest; a larger file is a mistake and not worth the memory.
const LARGEST_FILE: u64 = 32 * 1024 * 1024;
const STDIN: &str = "standard input";

/// Source that a `-f` argument names.
#[derive(Clone, Debug)]
pub enum Origin {
    /// Standard input.
    Stdin,
    /// A file, whatever its name.
    File(PathBuf),
    /// A folder, and whether its folders count too.
    Folder(PathBuf, bool),
}

/// The text of one file.
#[derive(Debug)]
pub struct Source {
    /// Name in messages.
    pub name: String,
    /// Its text.
    pub text: String,
}

/// A file that was read, or its name and why it could not be.
pub type Read = Result<Source, (String, FileError)>;

/// Why a file gave no text.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    #[error("cannot be read: {0}")]
    Read(#[from] std::io::Error),
    #[error("is larger than {} MiB: not a manifest", LARGEST_FILE / 1024 / 1024)]
    TooLarge,
    #[error("is not text: byte {offset} of the file is not UTF-8")]
    NotText { offset: usize, at: Position },
    #[error("has no *.yaml, *.yml or *.json file")]
    EmptyFolder,
}

impl FileError {
    /// Position in the file, if the error is about one.
    pub fn position(&self) -> Option<Position> {
        match self {
            Self::NotText { at, .. } => Some(*at),
            Self::Read(_) | Self::TooLarge | Self::EmptyFolder => None,
        }
    }
}

impl Origin {
    /// Understands a `-f` argument; whether the path exists shows when it is read.
    pub fn from_argument(path: &Path, recursive: bool) -> Self {
        if path == Path::new("-") {
            Self::Stdin
        } else if path.is_dir() {
            Self::Folder(path.into(), recursive)
        } else {
            Self::File(path.into())
        }
    }

    /// Name in messages.
    pub fn name(&self) -> String {
        match self {
            Self::Stdin => STDIN.to_owned(),
            Self::File(path) | Self::Folder(path, _) => name(path),
        }
    }

    /// Reads every file; each that cannot be read is named with the reason.
    pub fn read(&self) -> Vec<Read> {
        match self {
            Self::Stdin => vec![read_all(STDIN, std::io::stdin().lock())],
            Self::File(path) => vec![read_file(path)],
            Self::Folder(path, recursive) => {
                let mut files = Vec::new();
                match list(path, *recursive, &mut files) {
                    Err((place, error)) => vec![Err((name(&place), error.into()))],
                    Ok(()) if files.is_empty() => vec![Err((name(path), FileError::EmptyFolder))],
                    Ok(()) => files.iter().map(|file| read_file(file)).collect(),
                }
            }
        }
    }
}

fn list(folder: &Path, recursive: bool, files: &mut Vec<PathBuf>) -> Result<(), (PathBuf, std::io::Error)> {
    let here = |error| (folder.to_path_buf(), error);
    let mut entries: Vec<PathBuf> = std::fs::read_dir(folder)
        .and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect())
        .map_err(here)?;
    entries.sort();
    for entry in entries {
        // A link to a folder is not followed: it could lead back here.
        let is_folder = entry.symlink_metadata().is_ok_and(|metadata| metadata.is_dir());
        if is_folder && recursive {
            list(&entry, recursive, files)?;
        } else if !is_folder && is_manifest(&entry) {
            files.push(entry);
        }
    }
    Ok(())
}

fn is_manifest(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ["yaml", "yml", "json"].iter().any(|known| ending == *known))
}

fn read_file(path: &Path) -> Read {
    match std::fs::File::open(path) {
        Ok(file) => read_all(&name(path), file),
        Err(error) => Err((name(path), error.into())),
    }
}

fn read_all(name: &str, input: impl std::io::Read) -> Read {
    let failed = |error| (name.to_owned(), error);
    let mut bytes = Vec::new();
    input.take(LARGEST_FILE + 1).read_to_end(&mut bytes).map_err(|error| failed(error.into()))?;
    if bytes.len() as u64 > LARGEST_FILE {
        return Err(failed(FileError::TooLarge));
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let offset = error.utf8_error().valid_up_to();
        let valid = String::from_utf8_lossy(&error.as_bytes()[..offset]).into_owned();
        failed(FileError::NotText { offset: offset + 1, at: Position::at_end_of(&valid) })
    })?;
    Ok(Source { name: name.to_owned(), text })
}

fn name(path: &Path) -> String {
    path.display().to_string()
}
