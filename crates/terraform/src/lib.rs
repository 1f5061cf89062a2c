//! Terraform and OpenTofu: their texts, their streams, their states, and running them. Knows no Kubernetes.
//!
//! | Room | What is in it |
//! |---|---|
//! | [`executor`] | the seam: starts, observes, cancels, adopts runs; reads their logs and plans |
//! | [`engine`] | the executor of this machine: runs processes; adopts and finishes what it finds |
//! | [`inputs`] | what a workspace is made from, and its revision |
//! | [`order`], [`view`] | what can be ordered, and what is known |
//! | [`state_backend`] | the durable place beside the folder |
//! | [`binary`] | finds and knows `tofu` and `terraform` |
//! | [`guard`] | the process around a run: clears up after it, and ends it with its lease |
//! | [`sandbox`] | shuts a run in |
//! | [`metrics`] | numbers |
//! | `blocking` | work that takes long, beside the tasks of a runtime |
//! | `beneath` | files of a run, touched without following links |
//! | `folders`, `private_files`, `record`, `log` | the data folder and its files |
//! | `init_cache` | what workspaces of one template share, so that `init` runs once |
//! | `process`, `environment` | one process, which outlives the engine |
//! | `pool` | who is next, and whether there is room |
//! | [`failure`] | why a run failed: class, reason, message |
//! | [`module`] | the text of modules: what they declare, values and configuration put into them |
//! | [`redact`], `secrets` | takes secrets out of texts |
//! | [`state`] | state files: outputs, addresses, secrets |
//! | [`stream`] | what a run prints with `-json`, line by line, and what it adds up to |
//! | [`version`] | versions and constraints as Terraform means them |
//! | [`inspect`] | what people may see of a data folder, without an engine |

#![warn(missing_docs)]

mod beneath;
pub mod binary;
mod blocking;
pub mod engine;
mod environment;
pub mod executor;
mod failed;
pub mod failure;
mod folders;
#[cfg(test)]
mod fuzz;
mod generated;
pub mod guard;
mod hash;
mod init_cache;
pub mod inputs;
pub mod inspect;
mod log;
pub mod metrics;
pub mod module;
pub mod order;
mod pool;
mod private_files;
mod process;
mod record;
pub mod redact;
pub mod sandbox;
mod secrets;
mod seen;
mod settings;
mod signal;
pub mod state;
pub mod state_backend;
pub mod stream;
mod unsaved;
pub mod version;
pub mod view;

pub use engine::{Engine, Options};
pub use executor::{Executor, RunReader, WorkspaceStore};
