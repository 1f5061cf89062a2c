//! One controller at a time: a Lease that it holds, renews, and stops working without.
//!
//! Each change of the holder raises the Lease's count of transitions. That number is the fence of whoever holds it: what
//! an earlier holder still writes is told apart from what the present one does.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client, ResourceExt};
use tokio::time::{Instant, sleep, timeout};

/// How long a Lease lasts after its last renewal.
const LASTS: Duration = Duration::from_secs(15);
/// How often it is renewed, and how often somebody who waits looks.
const EVERY: Duration = Duration::from_secs(4);

/// Why a Lease cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LeaseError {
    /// The API refused.
    #[error("use Lease {name}")]
    Api {
        /// Its name.
        name: String,
        /// Why.
        #[source]
        source: Box<kube::Error>,
    },
    /// It was not renewed in time, so somebody else may hold it.
    #[error("Lease {0} could not be renewed in time: somebody else may hold it now")]
    Lost(String),
    /// Somebody else took it.
    #[error("Lease {name} is held by {holder} now")]
    Taken {
        /// Its name.
        name: String,
        /// By whom.
        holder: String,
    },
}

/// A Lease that is held.
pub struct Held {
    api: Api<Lease>,
    name: String,
    holder: String,
    lease: Lease,
}

impl Held {
    /// Takes a Lease, once nobody else holds it; says once whom it waits for. Not for a holder that is `gone`, which
    /// whoever shares a machine with it can tell.
    pub async fn take(
        client: &Client,
        namespace: &str,
        name: &str,
        holder: &str,
        gone: impl Fn(&str) -> bool,
    ) -> Result<Self, LeaseError> {
        let api: Api<Lease> = Api::namespaced(client.clone(), namespace);
        let mut waits_for = None;
        loop {
            let failed = |source| LeaseError::Api { name: name.to_owned(), source: Box::new(source) };
            let found = api.get_opt(name).await.map_err(failed)?;
            let now = Timestamp::now();
            let other = found.as_ref().and_then(|lease| holder_of(lease, now));
            if let Some(other) = other.filter(|other| other != holder && !gone(other)) {
                if waits_for.as_ref() != Some(&other) {
                    tracing::info!(lease = name, holder = other, "waits for the Lease");
                    waits_for = Some(other);
                }
                sleep(EVERY).await;
                continue;
            }
            match write(&api, found.as_ref(), name, holder, now).await {
                Ok(lease) => {
                    return Ok(Self { api, name: name.to_owned(), holder: holder.to_owned(), lease });
                }
                // Somebody else was faster: look again.
                Err(kube::Error::Api(status)) if status.code == 409 => {}
                Err(error) => return Err(failed(error)),
            }
        }
    }

    /// Higher than that of every holder before.
    pub fn fence(&self) -> u64 {
        let transitions =
            self.lease.spec.as_ref().and_then(|spec| spec.lease_transitions).unwrap_or_default();
        u64::try_from(transitions).unwrap_or_default()
    }

    /// Gives it back, so that the next one need not wait.
    pub async fn release(self) {
        let mut lease = self.lease;
        if let Some(spec) = lease.spec.as_mut() {
            spec.holder_identity = Some(String::new());
        }
        lease.metadata.managed_fields = None;
        let params = PostParams::default();
        let replace = self.api.replace(&self.name, &params, &lease);
        // It runs out by itself.
        let _ = timeout(EVERY, replace).await;
    }

    /// Renews it for ever; ends when it is lost.
    pub async fn keep(&mut self) -> LeaseError {
        let mut renewed = Instant::now();
        loop {
            sleep(EVERY).await;
            let write = write(&self.api, Some(&self.lease), &self.name, &self.holder, Timestamp::now());
            match timeout(EVERY, write).await {
                Ok(Ok(lease)) => {
                    self.lease = lease;
                    renewed = Instant::now();
                }
                Ok(Err(kube::Error::Api(status))) if status.code == 409 => {
                    if let Some(holder) = self.taken_by().await {
                        return LeaseError::Taken { name: self.name.clone(), holder };
                    }
                }
                // Tried again, while the Lease still lasts.
                Ok(Err(error)) => tracing::warn!(lease = self.name, %error, "the Lease was not renewed"),
                Err(_) => tracing::warn!(lease = self.name, "the Lease was not renewed in time"),
            }
            if renewed.elapsed() > LASTS {
                return LeaseError::Lost(self.name.clone());
            }
        }
    }

    /// Who took it; nobody when only our view of it was old.
    async fn taken_by(&mut self) -> Option<String> {
        let found = self.api.get_opt(&self.name).await.ok()??;
        let holder = found.spec.as_ref().and_then(|spec| spec.holder_identity.clone()).unwrap_or_default();
        if holder == self.holder {
            self.lease = found;
            return None;
        }
        Some(holder)
    }
}

/// Who holds a Lease; nobody once it has run out.
fn holder_of(lease: &Lease, now: Timestamp) -> Option<String> {
    let spec = lease.spec.as_ref()?;
    let holder = spec.holder_identity.clone().filter(|holder| !holder.is_empty())?;
    let lasts = spec.lease_duration_seconds.unwrap_or_default();
    let renewed = spec.renew_time.as_ref()?.0;
    let over = renewed + Duration::from_secs(u64::try_from(lasts).unwrap_or_default());
    (now < over).then_some(holder)
}

async fn write(
    api: &Api<Lease>,
    found: Option<&Lease>,
    name: &str,
    holder: &str,
    now: Timestamp,
) -> Result<Lease, kube::Error> {
    let old = found.and_then(|lease| lease.spec.clone()).unwrap_or_default();
    let ours = old.holder_identity.as_deref() == Some(holder);
    let spec = LeaseSpec {
        holder_identity: Some(holder.to_owned()),
        lease_duration_seconds: i32::try_from(LASTS.as_secs()).ok(),
        acquire_time: if ours { old.acquire_time } else { Some(MicroTime(now)) },
        renew_time: Some(MicroTime(now)),
        lease_transitions: Some(old.lease_transitions.unwrap_or_default() + i32::from(!ours)),
        ..LeaseSpec::default()
    };
    let metadata = ObjectMeta {
        name: Some(name.to_owned()),
        resource_version: found.and_then(ResourceExt::resource_version),
        ..ObjectMeta::default()
    };
    let lease = Lease { metadata, spec: Some(spec) };
    match found {
        Some(_) => api.replace(name, &PostParams::default(), &lease).await,
        None => api.create(&PostParams::default(), &lease).await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_that_ran_out_is_nobodys() {
        let at = |second| Timestamp::from_second(second).expect("a time");
        let lease = |holder: &str| Lease {
            spec: Some(LeaseSpec {
                holder_identity: Some(holder.into()),
                lease_duration_seconds: Some(15),
                renew_time: Some(MicroTime(at(100))),
                ..LeaseSpec::default()
            }),
            ..Lease::default()
        };
        assert_eq!(holder_of(&lease("a"), at(114)).as_deref(), Some("a"));
        assert_eq!(holder_of(&lease("a"), at(115)), None);
        assert_eq!(holder_of(&lease(""), at(101)), None, "given back");
        assert_eq!(holder_of(&Lease::default(), at(101)), None);
    }
}
