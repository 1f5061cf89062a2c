//! Settings of a started engine, for programs that inspect its folder.

use std::{
    io,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use crate::beneath::read_optional;
use crate::private_files::write_private;

/// Settings that an engine was started with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Settings {
    /// Confines runs, if the kernel can.
    pub sandbox: bool,
    /// Folders of the host that inputs may name.
    pub allow_paths: Vec<PathBuf>,
    /// Folders that they may not, besides the engine's own.
    #[serde(default)]
    pub refuse_paths: Vec<PathBuf>,
}

impl Settings {
    pub(crate) fn write(&self, path: &Path) -> io::Result<()> {
        write_private(path, &serde_json::to_vec(self).map_err(io::Error::from)?)
    }

    /// Those of the engine that was started last, where it left any.
    pub(crate) fn read(path: &Path) -> Option<Self> {
        serde_json::from_slice(&read_optional(path).ok()??).ok()
    }
}
