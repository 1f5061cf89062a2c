//! Manifests on disk: which files an argument means, and their YAML with the position of every value.
//!
//! ```text
//! Origin --files--> Source --documents--> Document { Node with positions }
//! ```

mod files;
mod scalar;
mod yaml;

pub use files::{Origin, Source};
pub use yaml::{Node, NodeValue, Position, documents};
