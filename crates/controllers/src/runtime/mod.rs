//! Runtime that all controllers share.

pub mod backoff;
pub mod brief;
pub mod cache;
pub mod clock;
pub mod clusters;
pub mod conditions;
pub mod dependency_index;
pub mod error;
pub mod events;
pub mod expectations;
pub mod first_list;
pub mod grants;
pub mod hex;
pub mod lease;
pub mod metrics;
pub mod name;
pub mod optional_watch;
pub mod owners;
pub mod queue;
pub mod status;
mod workqueue;
pub mod writer;

pub use cache::Cache;
pub use clock::{Clock, SystemClock};
pub use clusters::{ClusterFacts, Clusters, Reference};
pub use dependency_index::{DependencyIndex, Looker, Watched};
pub use error::{Class, Error};
pub use expectations::Expectations;
pub use first_list::FirstList;
pub use grants::{CrossNamespace, Grants, Readable, Referrer, Refused, Writable};
pub use name::Name;
pub use owners::Owners;
pub use writer::{Kind, Writer};
