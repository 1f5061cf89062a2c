//! One controller at a time: a Lease that it holds, renews, and stops working without.
//!
//! Each change of the holder raises the Lease's count of transitions. That number is the fence of whoever holds it: what
//! an earlier holder still writes is told apart from what the present one does. What it has started and cannot stop any more, runs
//! of Terraform, ends by itself with the term that is renewed with the Lease.
//!
//! A Lease is over once a rival has *seen* it unchanged for as long as it lasts, by the rival's own clock, as client-go has it: the
//! times in it are those of another machine's clock, and decide nothing.

use std::time::Duration;

use capt_terraform::guard::term::{Moment, Term};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};

/// How long a Lease lasts after its last renewal, where nobody says.
pub const LASTS: Duration = Duration::from_secs(15);

/// How often it is renewed, and how often somebody who waits looks.
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

/// A Lease that is held.
pub struct Held {
    api: Api<Lease>,
    namespace: String,
    name: String,
    holder: String,
    lease: Lease,
    lasts: Duration,
    /// When its last renewal was asked for.
    asked: Moment,
    /// The same by the clock that waits go by.
    begun: Instant,
    term: Option<Term>,
}

impl Held {
    /// Takes a Lease, once nobody else holds it; says once whom it waits for. Not for a holder that is `gone`, which
    /// whoever shares a machine with it can tell.
    pub async fn take(
        client: &Client,
        namespace: &str,
        name: &str,
        holder: &str,
        lasts: Duration,
        gone: impl Fn(&str) -> bool,
    ) -> Result<Self, LeaseError> {
        let api: Api<Lease> = Api::namespaced(client.clone(), namespace);
        let (mut waits_for, mut observed) = (None, None);
        loop {
            let failed = |source| LeaseError::Api { name: name.to_owned(), source: Box::new(source) };
            let found = api.get_opt(name).await.map_err(failed)?;
            let (now, asked, begun) = (Timestamp::now(), Moment::now(), Instant::now());
            let other = found.as_ref().and_then(holder_of).filter(|other| other != holder && !gone(other));
            if let (Some(other), Some(lease)) = (other, &found)
                && let Some(left) = Observed::time_left(&mut observed, lease, Instant::now())
            {
                if waits_for.as_ref() != Some(&other) {
                    tracing::info!(lease = name, holder = other, "waits for the Lease");
                    waits_for = Some(other);
                }
                sleep(every(lasts).min(left)).await;
                continue;
            }
            match write(&api, found.as_ref(), name, holder, lasts, now).await {
                Ok(lease) => {
                    let (name, holder) = (name.to_owned(), holder.to_owned());
                    return Ok(Self {
                        api,
                        namespace: namespace.to_owned(),
                        name,
                        holder,
                        lease,
                        lasts,
                        asked,
                        begun,
                        term: None,
                    });
                }
                // Somebody else was faster: look again.
                Err(kube::Error::Api(status)) if status.code == 409 => {}
                Err(error) => return Err(failed(error)),
            }
        }
    }

    /// Where it is: the controllers' own namespace.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// What its holder goes by.
    pub fn claim(&self) -> Claim {
        Claim { api: self.api.clone(), name: self.name.clone(), holder: self.holder.clone() }
    }

    /// Higher than that of the holder before, as far as this Lease tells: one that was deleted begins anew.
    pub fn fence(&self) -> u64 {
        let transitions =
            self.lease.spec.as_ref().and_then(|spec| spec.lease_transitions).unwrap_or_default();
        u64::try_from(transitions).unwrap_or_default()
    }

    /// Writes down beside it how its holder works.
    pub async fn annotate(&mut self, key: &str, value: &str) -> Result<(), LeaseError> {
        let body = json!({"metadata": {"annotations": {key: value}}});
        let patched = self.api.patch(&self.name, &PatchParams::default(), &Patch::Merge(&body)).await;
        let failed = |source| LeaseError::Api { name: self.name.clone(), source: Box::new(source) };
        self.lease = patched.map_err(failed)?;
        Ok(())
    }

    /// Lets runs of Terraform go on as long as it lasts, and no longer.
    pub fn bind(&mut self, term: Term) -> std::io::Result<()> {
        term.renew(self.asked.after(self.lasts))?;
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
        let replace = self.api.replace(&self.name, &params, &lease);
        // It runs out by itself.
        let _ = timeout(every(self.lasts), replace).await;
    }

    /// Renews it until it is lost: at the latest when it could not be renewed for two thirds of its duration.
    pub async fn keep(&mut self) -> LeaseError {
        let mut pause = every(self.lasts);
        loop {
            let deadline = self.begun + renew_deadline(self.lasts);
            sleep_until(deadline.min(Instant::now() + pause)).await;
            pause = again(self.lasts);
            let (now, asked, begun) = (Timestamp::now(), Moment::now(), Instant::now());
            if begun >= deadline {
                return LeaseError::Lost(self.name.clone());
            }
            let write = write(&self.api, Some(&self.lease), &self.name, &self.holder, self.lasts, now);
            match timeout_at(deadline.min(begun + every(self.lasts)), write).await {
                Ok(Ok(lease)) => {
                    self.lease = lease;
                    self.renewed(asked);
                    (self.begun, pause) = (begun, every(self.lasts));
                }
                Ok(Err(kube::Error::Api(status))) if status.code == 409 => {
                    if let Some(holder) = self.taken_by().await {
                        return LeaseError::Taken { name: self.name.clone(), holder };
                    }
                }
                Ok(Err(error)) => tracing::warn!(lease = self.name, %error, "the Lease was not renewed"),
                Err(_) => tracing::warn!(lease = self.name, "the Lease was not renewed in time"),
            }
        }
    }

    /// Whether the Lease still names this holder, also where its time is over.
    pub async fn is_held(&self) -> bool {
        self.claim().is_held().await.unwrap_or_default()
    }

    fn renewed(&mut self, asked: Moment) {
        self.asked = asked;
        if let Some(Err(error)) = self.term.as_ref().map(|term| term.renew(asked.after(self.lasts))) {
            tracing::warn!(lease = self.name, %error, "the term of runs was not renewed: they will be interrupted");
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

async fn write(
    api: &Api<Lease>,
    found: Option<&Lease>,
    name: &str,
    holder: &str,
    lasts: Duration,
    now: Timestamp,
) -> Result<Lease, kube::Error> {
    let old = found.and_then(|lease| lease.spec.clone()).unwrap_or_default();
    let ours = old.holder_identity.as_deref() == Some(holder);
    // Anybody may have written it: where it cannot count on, terms are told apart by their holders.
    let transitions = old.lease_transitions.unwrap_or_default().max(0);
    let spec = LeaseSpec {
        holder_identity: Some(holder.to_owned()),
        lease_duration_seconds: i32::try_from(lasts.as_secs().max(1)).ok(),
        acquire_time: if ours { old.acquire_time } else { Some(MicroTime(now)) },
        renew_time: Some(MicroTime(now)),
        lease_transitions: Some(transitions.saturating_add(i32::from(!ours))),
        ..LeaseSpec::default()
    };
    let metadata = ObjectMeta {
        name: Some(name.to_owned()),
        resource_version: found.and_then(ResourceExt::resource_version),
        // What the holder before said of itself is not said of this one.
        annotations: found.filter(|_| ours).and_then(|lease| lease.metadata.annotations.clone()),
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

    fn lease(holder: &str, renewed: i64) -> Lease {
        let renewed = Timestamp::from_second(renewed).expect("a time");
        let spec = LeaseSpec {
            holder_identity: Some(holder.into()),
            lease_duration_seconds: Some(15),
            renew_time: Some(MicroTime(renewed)),
            ..LeaseSpec::default()
        };
        Lease { spec: Some(spec), ..Lease::default() }
    }

    #[test]
    fn a_lease_that_was_given_back_is_nobodys() {
        assert_eq!(holder_of(&lease("a", 0)).as_deref(), Some("a"));
        assert_eq!(holder_of(&lease("", 0)), None);
        assert_eq!(holder_of(&Lease::default()), None);
    }

    #[test]
    fn a_lease_is_over_when_it_was_seen_unchanged_for_its_duration() {
        let start = Instant::now();
        let mut observed = None;
        // The time that it says is of another clock: years behind, or ahead.
        let mut left = |seconds, lease: &Lease| {
            let left = Observed::time_left(&mut observed, lease, start + Duration::from_secs(seconds));
            left.map(|left| left.as_secs())
        };
        assert_eq!(left(0, &lease("a", 1_000)), Some(15), "seen for the first time");
        assert_eq!(left(14, &lease("a", 1_000)), Some(1));
        assert_eq!(left(15, &lease("a", 9_000_000_000)), Some(15), "renewed, whatever its clock says");
        assert_eq!(left(29, &lease("a", 9_000_000_000)), Some(1));
        assert_eq!(left(30, &lease("a", 9_000_000_000)), None);
        assert_eq!(left(31, &lease("b", 9_000_000_000)), Some(15), "another one took it");
        assert_eq!(left(46, &lease("b", 9_000_000_000)), None);
    }

    /// An API that renews a Lease for some seconds, and refuses everything from then on.
    fn held(answers: Duration) -> Held {
        let start = Instant::now();
        let service = tower::service_fn(move |request: http::Request<kube::client::Body>| async move {
            use http_body_util::BodyExt as _;
            let body = request.into_body().collect().await?.to_bytes();
            let refused = start.elapsed() > answers;
            let status = if refused { 503 } else { 200 };
            let answer = if refused { b"{}".to_vec() } else { body.to_vec() };
            let answer = http::Response::builder().status(status).body(kube::client::Body::from(answer));
            Ok::<_, Box<dyn std::error::Error + Send + Sync>>(answer.expect("a response"))
        });
        let client = Client::new(service, "n");
        Held {
            api: Api::namespaced(client, "n"),
            namespace: "n".into(),
            name: "capt".into(),
            holder: "a".into(),
            lease: lease("a", 0),
            lasts: LASTS,
            asked: Moment::now(),
            begun: start,
            term: None,
        }
    }

    /// A rival begins 15 s after the last renewal that it saw, at the earliest.
    #[tokio::test(start_paused = true)]
    async fn a_holder_stops_before_a_rival_can_begin() {
        for answers in [0, 9, 30] {
            let start = Instant::now();
            let lost = held(Duration::from_secs(answers)).keep().await;
            assert!(matches!(lost, LeaseError::Lost(_)), "{lost}");
            let last_renewal = answers / 4 * 4;
            assert_eq!(start.elapsed().as_secs(), last_renewal + 10, "renewed for {answers} s");
        }
    }
}
