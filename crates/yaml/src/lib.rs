//! YAML as kubectl reads it, with the position of every value.
//!
//! Manifests are checked and bodies of requests are read by the same rules: what a checker accepts is what an API
//! would be sent. No IO.

#![warn(missing_docs)]

mod document;
mod scalar;

pub use document::{
    Document, Member, Node, NodeValue, Position, Repeated, YamlError, YamlProblem, documents, lenient, single,
};
pub use scalar::ScalarError;
