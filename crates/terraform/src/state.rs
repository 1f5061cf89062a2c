//! Stub.
#![allow(missing_docs)]
#[derive(Clone, Debug, PartialEq)]
pub struct Output {
    pub value: serde_json::Value,
    pub sensitive: bool,
}
