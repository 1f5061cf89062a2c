//! Clusters: how others reach them, and what Cluster API's own part is where that is not installed.

pub mod access;
pub mod core;
