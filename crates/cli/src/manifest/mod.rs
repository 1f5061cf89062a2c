//! Manifests on disk: which files an argument means, and their text.

mod files;

pub use files::{Origin, Read, Source};
