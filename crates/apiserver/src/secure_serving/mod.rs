//! Secure serving: TLS, connections and their limits, impersonation, budgets of users, metrics and the audit log.
//!
//! ```text
//! TCP -> a place    -> TLS 1.3 -> HTTP/1.1 or HTTP/2 -> who is it? -> share of the budgets -> body, bounded -> Api
//!        listener      connection, timeouts             authn         shares                  service, turns
//!        connection_slots
//!                                                     metrics, audit <- recorded <- response
//! ```
//!
//! Guarantees to handlers:
//! - An [`Api`] is asked only by somebody who is authenticated; only the paths of [`is_public`] see the anonymous user.
//! - It gets no credential: `Authorization` and the `Impersonate-*` headers end here.
//! - It gets a whole body of at most [`Limits::body_bytes`], and a [`Turn`] to decode it; with a method that reads, none.
//! - A response body of unknown length is a watch, unless its response is marked [`Finite`], and each of its events a
//!   line: when the server stops, secure serving ends it after a frame that ends one.
//! - A response that is [`Made`] for its client alone takes room as the body of a request does; without room, it is refused.
//! - Whoever is no administrator is answered on threads of their own (user_runtime), so that an administrator waits behind none.
//! - A body is polled only when the connection has room for more, so a client that reads slowly costs a bounded
//!   buffer here; how many events may wait behind the body is the API's to limit.

mod audit;
mod connection;
mod connection_slots;
mod connection_timeouts;
mod impersonation;
mod limits;
mod listener;
mod metrics;
mod recorded;
mod service;
mod shares;
mod status;
mod turns;
mod user_runtime;
mod verb;

#[cfg(test)]
mod tests;

use std::{convert::Infallible, sync::Arc};

use bytes::Bytes;

use crate::authn::User;
use crate::rbac::{Resource, Verdict};

pub(crate) use self::shares::{Share, Shares};
#[cfg(test)]
pub(crate) use self::turns::Turns;
pub use self::{
    audit::{AuditError, AuditLog, Rotation},
    impersonation::is_public,
    limits::Limits,
    listener::{SecureServer, ServingError, Settings},
    metrics::Metrics,
    turns::Turn,
};

/// Marks a response, in its extensions, whose body has an end although its length is not known.
#[derive(Clone, Copy, Debug)]
pub struct Finite;

/// Tells of a response, in its extensions, how many bytes were made for it alone and are in memory until it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Made(pub usize);

/// Tells of a request for somebody else, in its extensions, who asks. Budgets are theirs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asking(pub User);

/// A response body: whole, or a stream of watch events.
pub type Body = http_body_util::combinators::UnsyncBoxBody<Bytes, Infallible>;

/// The API that answers requests.
pub trait Api: Send + Sync + 'static {
    /// Answers a request of somebody who was let in.
    ///
    /// The future is dropped when the client goes away before the answer.
    fn respond(
        self: Arc<Self>,
        user: User,
        request: http::Request<Bytes>,
    ) -> impl Future<Output = http::Response<Body>> + Send;

    /// Whether somebody may act as a user, as a member of a group, with a uid or with something extra.
    fn may_impersonate(&self, user: &User, wish: &Resource<'_>) -> Verdict {
        let _ = wish;
        Verdict { allowed: user.is_master(), reason: String::new() }
    }
}
