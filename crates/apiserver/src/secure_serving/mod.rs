//! Secure serving: TLS, connections and their limits, impersonation, budgets of users, metrics and the audit log.
//!
//! ```text
//! TCP -> slot       -> TLS 1.3 -> HTTP/1.1 or HTTP/2 -> authn -> impersonation -> budgets -> bounded body -> RequestHandler
//!        listener      connection, timeouts                                       user_budget  service, decode_permits
//!        connection_slots
//!                                                      metrics, audit <- recorded <- response
//! ```
//!
//! Guarantees to handlers:
//! - A [`RequestHandler`] gets requests of authenticated users; only the paths of [`is_public`] see the anonymous user.
//! - It gets no credentials: `Authorization` and the `Impersonate-*` headers are removed here.
//! - It gets a whole body of at most [`Limits::body_bytes`], with a [`DecodePermit`]; requests that read have no body.
//! - A response body of unknown length is a watch, unless its response is marked [`Finite`], and each of its events a
//!   line: when the server stops, secure serving ends it after a frame that ends one.
//! - A response with [`UnsharedBytes`] takes room in the budget as the body of a request does; without room it is refused.
//! - Users other than administrators are served on threads of their own (user_runtime), so that an administrator waits
//!   behind none of them.
//! - A body is polled only when the connection has room for more, so a client that reads slowly costs a bounded
//!   buffer here; how many events may wait behind the body is the handler's to limit.

mod audit;
mod connection;
mod connection_slots;
mod connection_timeouts;
mod decode_permits;
mod impersonation;
mod limits;
mod listener;
mod metrics;
mod recorded;
mod service;

mod status;
mod user_budget;
mod user_runtime;
mod verb;

#[cfg(test)]
mod tests;

use std::{convert::Infallible, sync::Arc};

use bytes::Bytes;

use crate::authn::User;
use crate::rbac::{ResourceAttributes, Verdict};

#[cfg(test)]
pub(crate) use self::decode_permits::DecodePermits;
pub(crate) use self::user_budget::{BudgetShare, UserBudget};
pub use self::{
    audit::{AuditError, AuditLog, Rotation},
    decode_permits::DecodePermit,
    impersonation::is_public,
    limits::Limits,
    listener::{SecureServer, ServingError, Settings},
    metrics::Metrics,
};

/// Marks a response, in its extensions, whose body has an end although its length is not known.
#[derive(Clone, Copy, Debug)]
pub struct Finite;

/// Declares, in the extensions of a response, how many bytes are in memory for it alone until it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnsharedBytes(pub usize);

/// The user who impersonates another one, in the extensions of a request. It counts against their budgets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Impersonator(pub User);

/// A response body: whole, or a stream of watch events.
pub type Body = http_body_util::combinators::UnsyncBoxBody<Bytes, Infallible>;

/// Answers authenticated requests.
pub trait RequestHandler: Send + Sync + 'static {
    /// Answers a request of an authenticated user.
    ///
    /// The future is dropped when the client goes away before the answer.
    fn respond(
        self: Arc<Self>,
        user: User,
        request: http::Request<Bytes>,
    ) -> impl Future<Output = http::Response<Body>> + Send;

    /// Decides whether a user may impersonate a user, a group, a uid or an extra field.
    fn may_impersonate(&self, user: &User, resource: &ResourceAttributes<'_>) -> Verdict {
        let _ = resource;
        Verdict { allowed: user.is_master(), reason: String::new() }
    }
}
