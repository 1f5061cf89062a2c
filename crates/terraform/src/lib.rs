//! Terraform and OpenTofu: their texts, their streams, their states, and running them. Knows no Kubernetes.
//!
//! | Room | What is in it |
//! |---|---|
//! | [`failure`] | why a run failed: class, reason, a message of one line |
//! | [`module`] | the text of modules: what they declare, values and provider configuration put in |
//! | [`redact`] | takes secrets out of texts |
//! | [`state`] | state files: outputs, addresses, secrets |
//! | [`stream`] | what a run prints with `-json`, line by line, and what it adds up to |
//! | [`version`] | versions and constraints as Terraform means them |

#![warn(missing_docs)]

pub mod failure;
pub mod module;
pub mod redact;
pub mod state;
pub mod stream;
pub mod version;
