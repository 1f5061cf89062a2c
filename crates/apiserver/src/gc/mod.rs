//! Garbage collection: who owns whom.

pub mod graph;
