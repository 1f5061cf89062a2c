//! The parts of a request: path, query, headers and body, parsed once into types that later code trusts.

pub mod accept;
pub mod body;
pub mod cursor;
pub mod delete;
pub mod path;
pub mod query;
pub mod selector;
pub mod warnings;
pub mod write;
mod yaml;

#[cfg(test)]
pub(crate) mod tests;
