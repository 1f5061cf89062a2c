//! Response formats: lists, tables, metadata, events of watches.
//!
//! Objects come in as the bytes they are stored as and go out as those bytes wherever their form allows it.

pub mod age;
pub mod list;
pub mod partial;
pub mod table;
pub mod watch;

#[cfg(test)]
mod tests;
