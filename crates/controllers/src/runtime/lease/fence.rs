//! Ends the writes of a holder with its Lease.
//!
//! A process that stood still, or a machine that was suspended, goes on in the middle of a reconcile before it notices that another
//! one holds the Lease. The clock is that of the machine's boot, which goes on meanwhile.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use capt_terraform::guard::term::Moment;
use http::Request;
use kube::Client;
use kube::client::Body;

use super::LeaseError;

/// Until when a holder writes.
#[derive(Clone, Debug)]
pub(super) struct WriteFence(Arc<Mutex<Moment>>);

impl WriteFence {
    pub fn new(until: Moment) -> Self {
        Self(Arc::new(Mutex::new(until)))
    }

    pub fn extend(&self, until: Moment) {
        *self.until() = until;
    }

    /// A client that reads what `client` reads, and writes before that moment alone.
    pub fn client(&self, client: &Client, lease: &str) -> Client {
        let (fence, inner, lease) = (self.clone(), client.clone(), lease.to_owned());
        let service = tower::service_fn(move |request: Request<Body>| {
            let is_late = !request.method().is_safe() && Moment::now() >= *fence.until();
            let (inner, lease) = (inner.clone(), lease.clone());
            async move {
                if is_late {
                    return Err(kube::Error::Service(Box::new(LeaseError::Lost(lease))));
                }
                inner.send(request).await
            }
        });
        Client::new(service, client.default_namespace())
    }

    fn until(&self) -> MutexGuard<'_, Moment> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
