//! The audit log of the embedded API.

use std::io;
use std::path::PathBuf;

use capt_apiserver::secure_serving::{AuditLog, Rotation};

use super::client::in_words;

/// Where requests are logged.
#[derive(Debug, clap::Args)]
pub struct Audit {
    /// Log every request to this file, one JSON line each; never a body.
    #[arg(long, value_name = "FILE")]
    audit_log: Option<PathBuf>,
}

impl Audit {
    /// Opens the log, where one is wanted.
    pub fn open(&self) -> io::Result<Option<AuditLog>> {
        let open = |path: &PathBuf| AuditLog::open(path, Rotation::default()).map_err(in_words);
        self.audit_log.as_ref().map(open).transpose()
    }
}
