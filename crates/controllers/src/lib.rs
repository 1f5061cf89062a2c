//! The controllers: each observes objects and what Terraform does, decides, acts and reports.
//!
//! ```text
//! observe (reads caches, API, engine) -> decide (capt-planner; pure) -> act (the only one that changes anything) -> report (one status write)
//! ```
//!
//! | Room | What is in it |
//! |---|---|
//! | [`owned_workspace`] | carries out the steps of whoever owns a workspace: a machine, a group, a network or a control plane |
//! | [`cluster`] | CAPTCluster, CAPTControlPlane; how clusters are reached (kubeconfig and CA Secrets); Cluster, where Cluster API core is not installed |
//! | [`runtime`] | what all controllers share: caches, queues, clock, conditions, events, retries, metrics |
//! | [`machines`] | CaptMachineDeployment, CaptMachineSet, CaptMachine, NodeGroup |
//! | [`workspace`] | WorkspaceTemplate, WorkspaceTemplateApply, WorkspaceProviderConfig |

#![warn(missing_docs)]

pub mod cluster;
pub mod machines;
pub mod manager;
pub mod owned_workspace;
pub mod runtime;
pub mod workspace;

pub use cluster::core::ClusterApi;
pub use manager::{Controllers, Options};
pub use runtime::CrossNamespace;
