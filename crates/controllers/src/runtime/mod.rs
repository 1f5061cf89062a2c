//! What all controllers share.

mod agenda;
pub mod backoff;
pub mod brief;
pub mod cache;
pub mod clock;
pub mod clusters;
pub mod conditions;
pub mod error;
pub mod events;
pub mod followed;
pub mod grants;
pub mod hex;
pub mod interests;
pub mod lease;
pub mod metrics;
pub mod name;
pub mod own_writes;
pub mod owners;
pub mod queue;
pub mod status;
pub mod writer;

pub use cache::Cache;
pub use clock::{Clock, SystemClock};
pub use clusters::{ClusterFacts, Clusters, Reference};
pub use error::{Class, Error};
pub use grants::{CrossNamespace, Grants, Readable, Referrer, Refused, Writable};
pub use interests::{Interests, Looker, Watched};
pub use name::Name;
pub use own_writes::OwnWrites;
pub use owners::Owners;
pub use writer::{Kind, Writer};
