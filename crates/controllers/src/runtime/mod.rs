//! What all controllers share.

pub mod backoff;
pub mod cache;
pub mod clock;
pub mod conditions;
pub mod error;
pub mod events;
pub mod hex;
pub mod interests;
pub mod lease;
pub mod metrics;
pub mod name;
pub mod queue;
pub mod status;

pub use cache::Cache;
pub use clock::{Clock, SystemClock};
pub use error::{Class, Error};
pub use interests::{Interests, Looker, Watched};
pub use name::Name;
