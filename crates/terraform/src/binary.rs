//! Finding and knowing the binaries.

use std::path::PathBuf;

/// A binary that can be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binary {
    /// `tofu` or `terraform`.
    pub name: String,
    /// Where it is.
    pub path: PathBuf,
    /// Its version.
    pub version: String,
}
