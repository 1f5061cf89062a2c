//! Draining: pods leave a machine's Node before the machine is destroyed, and the Node goes after it.
//!
//! ```text
//! kubeconfig Secret -> where it may lead (endpoint) -> client (reach) -> find, cordon, evict, remove (node) -> Outcome
//!                      what is read of its answers (answer)
//! ```
//!
//! The cluster may be slow or gone: a reconcile never waits for it. It starts a pass, which is bounded in time, and reads
//! how the last one ended. Passes are repeated until nothing is left; what is due then is decided by the machine.

mod answer;
pub(crate) mod endpoint;
mod node;
pub(crate) mod reach;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use capt_api::machine::NodeRef;
use futures::Stream;
use tokio::sync::{Semaphore, broadcast};
use tokio::task::JoinSet;

use crate::runtime::{Name, Writer};

/// Passes at the same time: enough for clusters that answer, and few enough for those that do not.
const AT_ONCE: usize = 32;

/// How draining goes.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Time between two passes.
    pub poll: Duration,
    /// How long a pass may take.
    pub pass: Duration,
    /// How long a cluster that does not answer is waited for.
    pub unreachable: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            poll: Duration::from_secs(5),
            pass: Duration::from_secs(20),
            unreachable: Duration::from_secs(60),
        }
    }
}

/// Which Node is meant, and where.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Subject {
    /// The Cluster; its kubeconfig is in a Secret beside it.
    pub cluster: Name,
    /// How the cloud calls the machine.
    pub provider_id: Option<String>,
    /// Names that the Node may have, where it has no providerID.
    pub names: Vec<String>,
}

/// What a pass does.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Work {
    /// Moves pods away.
    Drain,
    /// Removes the Node.
    Remove(NodeRef),
}

/// How a pass ended.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Outcome {
    /// Nobody can reach the cluster, and that will not change by itself.
    NoWay(String),
    /// The cluster did not answer, or not as it should.
    Unreachable(String),
    /// It has no Node of the machine.
    NoNode,
    /// These pods are still on the Node: those on their way, and those that may not go yet, with the reason.
    Left(NodeRef, Vec<String>, Vec<String>),
    /// The Node has no pods that matter.
    Empty(NodeRef),
    /// The Node is gone.
    Removed,
}

/// How far the work for a machine is.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Progress {
    /// A pass is under way.
    pub running: bool,
    /// How the last one ended.
    pub last: Option<Outcome>,
    /// Time since then.
    pub age: Duration,
    /// Time since the cluster last answered, or since the work began.
    pub silent: Duration,
}

#[derive(Debug)]
struct Run {
    work: Work,
    running: bool,
    last: Option<(Outcome, Instant)>,
    answered: Instant,
}

/// Passes that are under way, and how the last ones ended.
#[derive(Debug)]
pub struct Drains {
    settings: Settings,
    runs: Arc<Mutex<HashMap<Name, Run>>>,
    changes: broadcast::Sender<Name>,
    room: Arc<Semaphore>,
    tasks: Mutex<JoinSet<()>>,
}

impl Drains {
    /// None yet.
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            runs: Arc::default(),
            changes: broadcast::channel(1024).0,
            room: Arc::new(Semaphore::new(AT_ONCE)),
            tasks: Mutex::default(),
        }
    }

    /// How draining goes.
    pub fn settings(&self) -> Settings {
        self.settings
    }

    /// Machines whose pass ended.
    pub fn changes(&self) -> impl Stream<Item = Name> + Send + 'static {
        let runs = Arc::clone(&self.runs);
        crate::runtime::cache::names(self.changes.subscribe(), move || {
            runs.lock().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect()
        })
    }

    /// How far the work for a machine is.
    pub fn progress(&self, machine: &Name, work: &Work) -> Progress {
        let runs = self.runs();
        let Some(run) = runs.get(machine).filter(|run| run.work == *work) else { return Progress::default() };
        Progress {
            running: run.running,
            last: run.last.as_ref().map(|(outcome, _)| outcome.clone()),
            age: run.last.as_ref().map_or(Duration::ZERO, |(_, at)| at.elapsed()),
            silent: run.answered.elapsed(),
        }
    }

    /// Starts a pass, unless one is under way.
    pub fn start(&self, writer: &Writer, machine: &Name, subject: &Subject, work: &Work) {
        {
            let mut runs = self.runs();
            let fresh = || Run { work: work.clone(), running: false, last: None, answered: Instant::now() };
            let run = runs.entry(machine.clone()).or_insert_with(fresh);
            if run.work != *work {
                *run = fresh();
            }
            if run.running {
                return;
            }
            run.running = true;
        }
        let (runs, changes, room) = (Arc::clone(&self.runs), self.changes.clone(), Arc::clone(&self.room));
        let (writer, machine, subject, work) =
            (writer.clone(), machine.clone(), subject.clone(), work.clone());
        let limit = self.settings.pass;
        let pass = async move {
            // A closed semaphore is one that nobody closes.
            let _room = room.acquire().await;
            let outcome = match tokio::time::timeout(limit, pass(&writer, &subject, &work)).await {
                Ok(outcome) => outcome,
                Err(_) => Outcome::Unreachable(format!("no answer within {} s", limit.as_secs())),
            };
            if let Some(run) = runs.lock().unwrap_or_else(PoisonError::into_inner).get_mut(&machine) {
                run.running = false;
                if !matches!(outcome, Outcome::Unreachable(_)) {
                    run.answered = Instant::now();
                }
                run.last = Some((outcome, Instant::now()));
            }
            // Nobody may be listening any more.
            let _ = changes.send(machine);
        };
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        while tasks.try_join_next().is_some() {}
        tasks.spawn(pass);
    }

    /// Drops what is known of a machine that is done.
    pub fn forget(&self, machine: &Name) {
        self.runs().remove(machine);
    }

    fn runs(&self) -> MutexGuard<'_, HashMap<Name, Run>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn pass(writer: &Writer, subject: &Subject, work: &Work) -> Outcome {
    let workload = match reach::reach(writer, &subject.cluster).await {
        Ok(workload) => workload,
        Err(outcome) => return outcome,
    };
    let done = match work {
        Work::Drain => node::drain(&workload, subject).await,
        Work::Remove(node) => node::remove(&workload, node).await,
    };
    done.unwrap_or_else(|error| Outcome::Unreachable(reach::shortened(crate::runtime::queue::chain(&error))))
}
