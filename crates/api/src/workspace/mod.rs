//! Workspaces: a template holds a Terraform module, an apply is one instance of it.

mod apply;
mod provider_config;
pub(crate) mod template;

pub use apply::*;
pub use provider_config::*;
pub use template::*;
