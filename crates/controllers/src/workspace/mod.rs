//! Workspaces: templates, their instances, and what they run with.

pub mod apply;
pub mod context;
pub mod provider_config;
pub mod state_secrets;
pub mod template;

pub use context::WorkspaceContext;
