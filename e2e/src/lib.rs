//! Real peers for tests: the programs CAPT talks to in production, started on this machine.
//!
//! [`Peers`] finds the binaries that `make peers` built, [`KubeApiserver`] runs one kube-apiserver with its etcd,
//! [`ClusterApiCore`] the core of Cluster API beside it, and [`Process`] runs anything else that must not outlive the
//! test. Everything (but for core's webhooks) listens on loopback or on a unix socket, keeps its files in a fresh
//! folder, and is gone when the test process is gone, however that ended.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let Some(peers) = capt_e2e::Peers::find_or_skip(capt_e2e::KubeApiserver::NEEDS) else { return Ok(()) };
//! let server = capt_e2e::KubeApiserver::start(&peers).await?;
//! let version = server.client().apiserver_version().await?;
//! # let _ = version; Ok(())
//! # }
//! ```

mod apiserver;
mod aws;
mod choice;
mod core;
mod peers;
mod pki;
mod process;
mod skip;
mod wait;

pub use apiserver::{KubeApiserver, StartError};
pub use aws::{Moto, MotoError, aws_mirror};
pub use choice::{has_terraform, runs_on};
pub use core::{ClusterApiCore, CoreError};
pub use peers::{MissingPeers, Peer, Peers, required};
pub use process::{Folder, Process, ProcessError};
pub use skip::skip;
pub use wait::{TimedOut, until};
