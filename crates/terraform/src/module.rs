//! Stub.
#![allow(missing_docs)]
use serde::{Deserialize, Serialize};
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Format {
    #[serde(rename = "HCL")]
    Hcl,
    #[serde(rename = "JSON")]
    Json,
}
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Module {
    Inline { text: String, format: Format },
    Source { source: String, version: Option<String>, entrypoint: Option<String> },
}
