//! Terraform and OpenTofu: their texts, their streams, their states, and running them. Knows no Kubernetes.
//!
//! | Room | What is in it |
//! |---|---|
//! | [`inputs`] | what a workspace is made from, and its revision |
//! | [`order`], [`view`] | what can be ordered, and what is known |
//! | [`engine`] | runs orders |
//! | [`keeper`] | the durable place beside the folder |
//! | [`binary`] | finds and knows `tofu` and `terraform` |
//! | [`sandbox`] | shuts a run in |
//! | [`metrics`] | numbers |
//! | [`redact`] | takes secrets out of texts |
//! | [`state`] | state files: outputs, addresses, secrets |
//! | [`stream`] | what a run prints with `-json`, line by line, and what it adds up to |
//! | [`version`] | versions and constraints as Terraform means them |

#![warn(missing_docs)]

pub mod binary;
pub mod engine;
pub mod failure;
pub mod inputs;
pub mod keeper;
pub mod metrics;
pub mod module;
pub mod order;
pub mod redact;
pub mod state;
pub mod stream;
pub mod version;
pub mod view;

pub use engine::{Engine, Options};
