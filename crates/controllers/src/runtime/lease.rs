//! One controller at a time: a Lease that it holds, renews, and stops working without.
//!
//! Each change of the holder raises the Lease's count of transitions. That number is the fence of whoever holds it: what
//! an earlier holder still writes is told apart from what the present one does. What it has started and cannot stop any more, runs
//! of Terraform, ends by itself with the term that is renewed with the Lease.
//!
//! A Lease is over once a rival has *seen* it unchanged for as long as it lasts, by the rival's own clock, as client-go has it: the
//! times in it are those of another machine's clock, and decide nothing.

use std::sync::Arc;
use std::time::Duration;

use capt_terraform::guard::term::{Moment, Term};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};

use super::clock::{Clock, SystemClock};

mod fence;
mod health;

use fence::WriteFence;
pub use health::LeaseHealth;

/// Default duration of a Lease after its last renewal.
pub const LASTS: Duration = Duration::from_secs(15);

/// Returns the interval at which the holder renews, and at which a candidate that waits looks.
fn every(lasts: Duration) -> Duration {
    lasts * 4 / 15
}

/// Renew deadline of a holder: as client-go has it, it stops working some time before a rival can begin.
fn renew_deadline(lasts: Duration) -> Duration {
    lasts * 2 / 3
}

/// Retry period of a renewal that failed.
fn again(lasts: Duration) -> Duration {
    lasts * 2 / 15
}

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

/// The claim of a holder on its Lease, for whoever writes in its name.
#[derive(Clone)]
pub struct Claim {
    api: Api<Lease>,
    name: String,
    holder: String,
}

impl Claim {
    /// The holder: no two terms have one of the same name.
    pub fn holder(&self) -> &str {
        &self.holder
    }

    /// Returns true if the Lease names this holder now, also where its time is over.
    pub async fn is_held(&self) -> Result<bool, kube::Error> {
        let found = self.api.get_opt(&self.name).await?;
        Ok(found.as_ref().and_then(holder_of).is_some_and(|holder| holder == self.holder))
    }
}

/// Somebody who wants a Lease.
pub struct Candidate {
    /// Namespace of the Lease: the controllers' own.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Identity of the candidate: no two starts have the same name, so that what an earlier one still writes is told apart.
    pub holder: String,
    /// Duration of the Lease after its last renewal.
    pub lasts: Duration,
    /// Tells the times that are written into the Lease, for people.
    pub clock: Arc<dyn Clock>,
    /// Health that probes are told.
    pub health: LeaseHealth,
}

impl Candidate {
    /// One by the real time.
    pub fn new(namespace: &str, name: &str, holder: &str, lasts: Duration) -> Self {
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            holder: holder.to_owned(),
            lasts,
            clock: Arc::new(SystemClock),
            health: LeaseHealth::default(),
        }
    }

    /// Takes the Lease, once nobody else holds it; says once whom it waits for. Not for a holder that is `gone`, which
    /// whoever shares a machine with it can tell.
    pub async fn take(self, client: &Client, gone: impl Fn(&str) -> bool) -> Result<Held, LeaseError> {
        let api: Api<Lease> = Api::namespaced(client.clone(), &self.namespace);
        let (mut waits_for, mut observed) = (None, None);
        loop {
            let found = api.get_opt(&self.name).await.map_err(|source| self.failed(source))?;
            let (asked, begun) = (Moment::now(), Instant::now());
            let other = found.as_ref().and_then(holder_of);
            let other = other.filter(|other| *other != self.holder && !gone(other));
            if let (Some(other), Some(lease)) = (other, &found)
                && let Some(left) = Observed::time_left(&mut observed, lease, Instant::now())
            {
                if waits_for.as_ref() != Some(&other) {
                    tracing::info!(lease = self.name, holder = other, "waits for the Lease");
                    self.health.waits_for(&other);
                    waits_for = Some(other);
                }
                sleep(every(self.lasts).min(left)).await;
                continue;
            }
            match self.write(&api, found.as_ref()).await {
                Ok(lease) => {
                    self.health.renewed(self.lasts, begun);
                    let writes = WriteFence::new(asked.after(renew_deadline(self.lasts)));
                    return Ok(Held { candidate: self, api, lease, asked, begun, writes, term: None });
                }
                // Somebody else was faster: look again.
                Err(kube::Error::Api(status)) if status.code == 409 => {}
                Err(error) => return Err(self.failed(error)),
            }
        }
    }

    fn failed(&self, source: kube::Error) -> LeaseError {
        LeaseError::Api { name: self.name.clone(), source: Box::new(source) }
    }

    /// Makes the Lease that was `found` its own, or renews it.
    async fn write(&self, api: &Api<Lease>, found: Option<&Lease>) -> Result<Lease, kube::Error> {
        let old = found.and_then(|lease| lease.spec.clone()).unwrap_or_default();
        let ours = old.holder_identity.as_ref() == Some(&self.holder);
        let now = self.clock.now();
        // Anybody may have written it: where it cannot count on, terms are told apart by their holders.
        let transitions = old.lease_transitions.unwrap_or_default().max(0);
        let spec = LeaseSpec {
            holder_identity: Some(self.holder.clone()),
            lease_duration_seconds: i32::try_from(self.lasts.as_secs().max(1)).ok(),
            acquire_time: if ours { old.acquire_time } else { Some(MicroTime(now)) },
            renew_time: Some(MicroTime(now)),
            lease_transitions: Some(transitions.saturating_add(i32::from(!ours))),
            ..LeaseSpec::default()
        };
        let metadata = ObjectMeta {
            name: Some(self.name.clone()),
            resource_version: found.and_then(ResourceExt::resource_version),
            // What the holder before said of itself is not said of this one.
            annotations: found.filter(|_| ours).and_then(|lease| lease.metadata.annotations.clone()),
            ..ObjectMeta::default()
        };
        let lease = Lease { metadata, spec: Some(spec) };
        match found {
            Some(_) => api.replace(&self.name, &PostParams::default(), &lease).await,
            None => api.create(&PostParams::default(), &lease).await,
        }
    }
}

/// A Lease that is held.
pub struct Held {
    candidate: Candidate,
    api: Api<Lease>,
    lease: Lease,
    /// Time at which its last renewal was asked for.
    asked: Moment,
    /// The same by the clock that waits go by.
    begun: Instant,
    writes: WriteFence,
    term: Option<Term>,
}

impl Held {
    /// Returns the namespace of the Lease: the controllers' own.
    pub fn namespace(&self) -> &str {
        &self.candidate.namespace
    }

    /// Returns the claim by which its holder is known.
    pub fn claim(&self) -> Claim {
        let Candidate { name, holder, .. } = &self.candidate;
        Claim { api: self.api.clone(), name: name.clone(), holder: holder.clone() }
    }

    /// Higher than that of the holder before, as far as this Lease tells: one that was deleted begins anew.
    pub fn fence(&self) -> u64 {
        let transitions =
            self.lease.spec.as_ref().and_then(|spec| spec.lease_transitions).unwrap_or_default();
        u64::try_from(transitions).unwrap_or_default()
    }

    /// A client whose writes end with it, some time before a rival can begin.
    pub fn fenced(&self, client: &Client) -> Client {
        self.writes.client(client, &self.candidate.name)
    }

    /// Writes down beside it how its holder works.
    pub async fn annotate(&mut self, key: &str, value: &str) -> Result<(), LeaseError> {
        let body = json!({"metadata": {"annotations": {key: value}}});
        let params = PatchParams::default();
        let patched = self.api.patch(&self.candidate.name, &params, &Patch::Merge(&body)).await;
        self.lease = patched.map_err(|source| self.candidate.failed(source))?;
        Ok(())
    }

    /// Lets runs of Terraform go on as long as it lasts, and no longer.
    pub fn bind(&mut self, term: Term) -> std::io::Result<()> {
        term.renew(self.asked.after(self.candidate.lasts))?;
        self.term = Some(term);
        Ok(())
    }

    /// Gives it back, so that the next one need not wait.
    pub async fn release(self) {
        let mut lease = self.lease;
        if let Some(spec) = lease.spec.as_mut() {
            spec.holder_identity = Some(String::new());
        }
        lease.metadata.managed_fields = None;
        let params = PostParams::default();
        let replace = self.api.replace(&self.candidate.name, &params, &lease);
        // It runs out by itself.
        let _ = timeout(every(self.candidate.lasts), replace).await;
    }

    /// Renews it until it is lost: at the latest when it could not be renewed for two thirds of its duration.
    pub async fn keep(&mut self) -> LeaseError {
        let lasts = self.candidate.lasts;
        let mut pause = every(lasts);
        loop {
            let deadline = self.begun + renew_deadline(lasts);
            sleep_until(deadline.min(Instant::now() + pause)).await;
            pause = again(lasts);
            let (asked, begun) = (Moment::now(), Instant::now());
            let name = &self.candidate.name;
            if begun >= deadline {
                return LeaseError::Lost(name.clone());
            }
            let write = self.candidate.write(&self.api, Some(&self.lease));
            match timeout_at(deadline.min(begun + every(lasts)), write).await {
                Ok(Ok(lease)) => {
                    self.lease = lease;
                    self.renewed(asked, begun);
                    pause = every(lasts);
                }
                Ok(Err(kube::Error::Api(status))) if status.code == 409 => {
                    if let Some(holder) = self.taken_by().await {
                        let lost = LeaseError::Taken { name: self.candidate.name.clone(), holder };
                        self.candidate.health.lost(&lost);
                        return lost;
                    }
                }
                Ok(Err(error)) => tracing::warn!(lease = name, %error, "the Lease was not renewed"),
                Err(_) => tracing::warn!(lease = name, "the Lease was not renewed in time"),
            }
        }
    }

    /// Returns true if the Lease still names this holder, also where its time is over. Where nobody else can have taken it
    /// meanwhile, as in an API of its own process that cannot write, [`Self::keep`] may go on then, and tries again for as long.
    pub async fn confirm(&mut self) -> bool {
        let is_held = self.claim().is_held().await.unwrap_or_default();
        if is_held {
            self.begun = Instant::now();
            self.candidate.health.confirmed(self.begun);
        }
        is_held
    }

    fn renewed(&mut self, asked: Moment, begun: Instant) {
        let Candidate { name, lasts, health, .. } = &self.candidate;
        (self.asked, self.begun) = (asked, begun);
        self.writes.extend(asked.after(renew_deadline(*lasts)));
        health.renewed(*lasts, begun);
        if let Some(Err(error)) = self.term.as_ref().map(|term| term.renew(asked.after(*lasts))) {
            tracing::warn!(lease = name, %error, "the term of runs was not renewed: they will be interrupted");
        }
    }

    /// Returns the holder that took it; none when only our view of it was old.
    async fn taken_by(&mut self) -> Option<String> {
        let found = self.api.get_opt(&self.candidate.name).await.ok()??;
        let holder = found.spec.as_ref().and_then(|spec| spec.holder_identity.clone()).unwrap_or_default();
        if holder == self.candidate.holder {
            self.lease = found;
            return None;
        }
        Some(holder)
    }
}

/// The holder that a Lease names; none once it was given back.
fn holder_of(lease: &Lease) -> Option<String> {
    lease.spec.as_ref()?.holder_identity.clone().filter(|holder| !holder.is_empty())
}

/// A Lease of somebody else as a rival saw it last, and since when it is so.
struct Observed {
    spec: Option<LeaseSpec>,
    since: Instant,
}

impl Observed {
    /// The time that the holder still has by the rival's clock; `None` once the Lease was unchanged for as long as it says that it
    /// lasts.
    fn time_left(observed: &mut Option<Self>, lease: &Lease, now: Instant) -> Option<Duration> {
        let seen = match observed.take() {
            Some(seen) if seen.spec == lease.spec => seen,
            _ => Self { spec: lease.spec.clone(), since: now },
        };
        let lasts = lease.spec.as_ref().and_then(|spec| spec.lease_duration_seconds).unwrap_or_default();
        let over = seen.since + Duration::from_secs(u64::try_from(lasts).unwrap_or_default());
        *observed = Some(seen);
        over.checked_duration_since(now).filter(|left| !left.is_zero())
    }
}

#[cfg(test)]
mod tests;
