//! Machines: deployments, their sets, the machines of those, and the groups that machines join.
//!
//! ```text
//! CaptMachineDeployment -> CaptMachineSet -> CaptMachine -> WorkspaceTemplateApply <- NodeGroup
//! ```
//!
//! The plans for deployments and sets come from `capt-planner`; here they are carried out, on caches that show
//! what was written before.

pub mod context;
pub mod deployment;
pub mod drain;
pub mod group;
pub mod machine;
mod remarks;
pub mod set;
mod start;

pub use context::MachineContext;
pub(crate) use start::without_suffix;
pub use start::{index, start};
