//! Clusters: their networks and control planes, how others reach them, and what Cluster API's own part is where that is
//! not installed.
//!
//! ```text
//! Cluster -> CAPTCluster      -> WorkspaceTemplateApply
//!         -> CAPTControlPlane -> WorkspaceTemplateApply -> kubeconfig and CA
//! ```
//!
//! What networks and control planes need is decided by `capt-planner`; here its plans are carried out.

pub mod access;
mod act;
pub mod context;
pub mod control_plane;
pub mod core;
pub mod network;
mod start;

pub use context::Context;
pub use start::start;
