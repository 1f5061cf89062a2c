//! Asks the API of a control plane whether it is ready: `GET /readyz`, with the cluster's own kubeconfig.
//!
//! ```text
//! kubeconfig Secret -> its server: https, its name resolved once -> TCP -> TLS with its CA -> status of the answer
//! ```
//!
//! Whoever builds the cluster decides where that is. So a reconcile never waits for it: it starts a question, which is
//! bounded in time, and reads how the last one ended. Of the answer only the status is read. The credentials go to the
//! kubeconfig's own server and nowhere else: not over plain HTTP, not where certificates are not checked, and no redirect
//! is followed.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use capt_api::conditions::reasons;
use capt_planner::Why;
use capt_planner::cluster::control_plane::Probe;
use capt_planner::machine::DrainOutcome;
use futures::Stream;
use http::{Request, StatusCode};
use kube::client::Body;
use kube::{Client, Config};
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, broadcast};
use tokio::task::JoinSet;
use tokio_rustls::rustls::{self, CertificateError};

use crate::machines::drain::endpoint::{Endpoint, RefusedEndpoint, is_private, pin};
use crate::machines::drain::reach::{self, shortened};
use crate::runtime::queue::chain;
use crate::runtime::{Name, Writer};

/// Questions at the same time: those that nobody answers should not keep the others.
const AT_ONCE: usize = 16;

/// Intervals and timeouts of probes.
#[derive(Clone, Copy, Debug)]
pub struct ProbeSettings {
    /// Time between two questions to one that is ready.
    pub every: Duration,
    /// Time between two questions to one that is not.
    pub again: Duration,
    /// Timeout for resolving a name, and for connecting.
    pub greeting: Duration,
    /// Timeout for the whole probe.
    pub limit: Duration,
}

impl Default for ProbeSettings {
    fn default() -> Self {
        Self {
            every: Duration::from_secs(300),
            again: Duration::from_secs(30),
            greeting: Duration::from_secs(5),
            limit: Duration::from_secs(15),
        }
    }
}

/// A cluster that is probed.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ProbeSubject {
    /// The Cluster; its kubeconfig is in a Secret beside it.
    pub cluster: Name,
    /// Address of its API, as its control plane says: another is asked anew.
    pub endpoint: String,
    /// True if it is meant to be reached from inside its network alone.
    pub private: bool,
}

#[derive(Debug)]
struct Run {
    subject: ProbeSubject,
    running: bool,
    last: Option<(Probe, Instant)>,
}

/// Questions that are under way, and how the last ones ended.
#[derive(Debug)]
pub struct Probes {
    settings: ProbeSettings,
    runs: Arc<Mutex<HashMap<Name, Run>>>,
    changes: broadcast::Sender<Name>,
    room: Arc<Semaphore>,
    tasks: Mutex<JoinSet<()>>,
}

impl Probes {
    /// None yet.
    pub fn new(settings: ProbeSettings) -> Self {
        Self {
            settings,
            runs: Arc::default(),
            changes: broadcast::channel(1024).0,
            room: Arc::new(Semaphore::new(AT_ONCE)),
            tasks: Mutex::default(),
        }
    }

    /// Control planes that have answered, or have not.
    pub fn changes(&self) -> impl Stream<Item = Name> + Send + 'static {
        let runs = Arc::clone(&self.runs);
        crate::runtime::cache::names(self.changes.subscribe(), move || {
            runs.lock().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect()
        })
    }

    /// Returns the last result, and the time until the next look; asks again where that is due.
    pub fn look(
        &self,
        writer: &Writer,
        plane: &Name,
        subject: &ProbeSubject,
    ) -> (Option<Probe>, Option<Duration>) {
        let mut runs = self.runs();
        let fresh = || Run { subject: subject.clone(), running: false, last: None };
        let run = runs.entry(plane.clone()).or_insert_with(fresh);
        if run.subject != *subject {
            *run = fresh();
        }
        let seen = run.last.as_ref().map(|(probe, _)| probe.clone());
        let due = run.last.as_ref().map(|(probe, at)| {
            let pause = if *probe == Probe::Ready { self.settings.every } else { self.settings.again };
            pause.saturating_sub(at.elapsed())
        });
        let due = due.unwrap_or_default();
        // Its end brings us back.
        if run.running {
            return (seen, None);
        }
        if !due.is_zero() {
            return (seen, Some(due));
        }
        run.running = true;
        drop(runs);
        self.start(writer, plane, subject);
        (seen, None)
    }

    fn start(&self, writer: &Writer, plane: &Name, subject: &ProbeSubject) {
        let (runs, changes, room) = (Arc::clone(&self.runs), self.changes.clone(), Arc::clone(&self.room));
        let (writer, plane, subject, settings) =
            (writer.clone(), plane.clone(), subject.clone(), self.settings);
        let question = async move {
            // A closed semaphore is one that nobody closes.
            let _room = room.acquire().await;
            let asked = tokio::time::timeout(settings.limit, ask(&writer, &subject, settings.greeting)).await;
            let probe = asked.unwrap_or_else(|_| {
                let message = format!("no answer within {} s", settings.limit.as_secs());
                silent(subject.private, &subject.endpoint, &message)
            });
            // Another may be meant by now: that is asked for itself.
            let mut runs = runs.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(run) = runs.get_mut(&plane).filter(|run| run.subject == subject) {
                run.running = false;
                run.last = Some((probe, Instant::now()));
            }
            drop(runs);
            // Nobody may be listening any more.
            let _ = changes.send(plane);
        };
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        while tasks.try_join_next().is_some() {}
        tasks.spawn(question);
    }

    /// Drops what is known of a control plane that is gone.
    pub fn forget(&self, plane: &Name) {
        self.runs().remove(plane);
    }

    fn runs(&self) -> MutexGuard<'_, HashMap<Name, Run>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn ask(writer: &Writer, subject: &ProbeSubject, greeting: Duration) -> Probe {
    let mut config = match reach::config(writer, &subject.cluster).await {
        Ok(config) => config,
        Err(DrainOutcome::NoWay(why) | DrainOutcome::Unreachable(why)) => return unasked(why),
        Err(other) => return unasked(format!("{other:?}")),
    };
    let endpoint = match pin(&mut config, greeting).await {
        Ok(endpoint) => endpoint,
        Err(RefusedEndpoint::OffLimits(why)) => return unasked(why),
        Err(unresolved @ RefusedEndpoint::Unresolved(_)) => {
            let message = format!("{unresolved}: it was not asked");
            return Probe::Unknown(Why::new(reasons::ADDRESS_NOT_RESOLVED, message));
        }
    };
    let Endpoint { shown, address } = endpoint;
    let private = subject.private || is_private(address.ip());
    match tokio::time::timeout(greeting, TcpStream::connect(address)).await {
        Ok(Ok(_)) => {}
        Ok(Err(error)) => return silent(private, &shown, &cause(&error)),
        Err(_) => return silent(private, &shown, &format!("no connection within {} s", greeting.as_secs())),
    }
    match readiness(config).await {
        Ok(status) => seen(status, &shown),
        Err(why) => Probe::Failed(format!("GET /readyz at {shown}: {}", shortened(why))),
    }
}

/// The status of the answer.
async fn readiness(config: Config) -> Result<StatusCode, String> {
    let client = Client::try_from(config).map_err(|error| cause(&error))?;
    let request = Request::get("/readyz").body(Body::empty()).map_err(|error| chain(&error))?;
    // What else it says is not read.
    client.send(request).await.map(|answer| answer.status()).map_err(|error| cause(&error))
}

/// Why nobody answered, without the names of the layers that it came through.
fn cause(error: &(dyn std::error::Error + 'static)) -> String {
    let mut deepest = error;
    loop {
        // An I/O error gives the error it holds in its own place, and not as its source.
        let held = deepest.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
        let inner = held.map(|held| held as &(dyn std::error::Error + 'static)).or_else(|| deepest.source());
        let Some(inner) = inner else { break };
        deepest = inner;
    }
    if let Some(rustls::Error::InvalidCertificate(problem)) = deepest.downcast_ref() {
        return certificate(problem);
    }
    // Without the system's number.
    let words = deepest.to_string();
    words.split_once(" (os error").map_or(words.as_str(), |(words, _)| words).to_owned()
}

/// Describes the problem of a certificate.
fn certificate(problem: &CertificateError) -> String {
    match problem {
        CertificateError::UnknownIssuer => {
            "its certificate is not of the certificate authority in the kubeconfig".to_owned()
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "its certificate has expired".to_owned()
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "its certificate is not valid yet".to_owned()
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "its certificate is for another name".to_owned()
        }
        other => format!("its certificate does not do: {other}"),
    }
}

/// Returns the result that an answer stands for. A redirect is one that is not followed.
fn seen(status: StatusCode, shown: &str) -> Probe {
    match status {
        StatusCode::OK => Probe::Ready,
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Probe::Failed(format!(
            "GET /readyz at {shown} answered {}: the kubeconfig's credentials do not do",
            status.as_u16()
        )),
        other => Probe::Failed(format!("GET /readyz at {shown} answered {}", other.as_u16())),
    }
}

/// Nobody answered: that means something only where anybody could be expected to hear it.
fn silent(private: bool, shown: &str, why: &str) -> Probe {
    if private {
        let message = format!("{shown} is private, and did not answer from here: {why}");
        return Probe::Unknown(Why::new(reasons::ENDPOINT_PRIVATE, message));
    }
    Probe::Failed(format!("{shown} did not answer: {why}"))
}

fn unasked(message: String) -> Probe {
    Probe::Unknown(Why::new(reasons::NOT_PROBED, message))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn what_an_answer_says() {
        let shown = |status: u16| match seen(StatusCode::from_u16(status).unwrap(), "api:443") {
            Probe::Ready => "ready".to_owned(),
            Probe::Failed(message) => message,
            Probe::Unknown(why) => why.message,
        };
        assert_eq!(shown(200), "ready");
        assert_eq!(shown(401), "GET /readyz at api:443 answered 401: the kubeconfig's credentials do not do");
        for other in [204, 301, 302, 307, 404, 500, 503] {
            assert_eq!(shown(other), format!("GET /readyz at api:443 answered {other}"));
        }
    }

    #[test]
    fn a_cause_is_told_without_the_layers_above_it() {
        let wrapped = |inner: rustls::Error| std::io::Error::other(std::io::Error::other(inner));
        for (problem, told) in [
            (
                CertificateError::UnknownIssuer,
                "its certificate is not of the certificate authority in the kubeconfig",
            ),
            (CertificateError::Expired, "its certificate has expired"),
            (CertificateError::NotValidForName, "its certificate is for another name"),
        ] {
            assert_eq!(cause(&wrapped(rustls::Error::InvalidCertificate(problem))), told);
        }
        let refused = std::io::Error::from_raw_os_error(111);
        assert_eq!(cause(&std::io::Error::other(refused)), "Connection refused");
    }

    #[test]
    fn silence_means_something_only_in_public() {
        assert!(
            matches!(silent(true, "a:1", "refused"), Probe::Unknown(why) if why.reason == "EndpointPrivate")
        );
        assert_eq!(silent(false, "a:1", "refused"), Probe::Failed("a:1 did not answer: refused".into()));
    }
}
