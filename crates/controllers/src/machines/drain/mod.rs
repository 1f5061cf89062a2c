//! Draining: pods leave a machine's Node before the machine is destroyed, and the Node goes after it.
//!
//! ```text
//! kubeconfig Secret -> where it may lead (endpoint) -> client (reach) -> find, cordon, evict, remove (node) -> outcome
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

use capt_planner::machine::{DrainOutcome, DrainProgress, DrainSettings, NodeWork};
use futures::Stream;
use tokio::sync::{Semaphore, broadcast};
use tokio::task::JoinSet;

use crate::runtime::{Name, Writer};

/// Passes at the same time: enough for clusters that answer, and few enough for those that do not.
const AT_ONCE: usize = 32;

/// A Node, and its cluster.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct DrainSubject {
    /// The Cluster; its kubeconfig is in a Secret beside it.
    pub cluster: Name,
    /// Id of the machine in its cloud.
    pub provider_id: Option<String>,
    /// Names that the Node may have, where it has no providerID.
    pub names: Vec<String>,
}

#[derive(Debug)]
struct Run {
    work: NodeWork,
    running: bool,
    last: Option<(DrainOutcome, Instant)>,
    answered: Instant,
}

/// Passes that are under way, and how the last ones ended.
#[derive(Debug)]
pub struct Drains {
    settings: DrainSettings,
    runs: Arc<Mutex<HashMap<Name, Run>>>,
    changes: broadcast::Sender<Name>,
    room: Arc<Semaphore>,
    tasks: Mutex<JoinSet<()>>,
}

impl Drains {
    /// None yet.
    pub fn new(settings: DrainSettings) -> Self {
        Self {
            settings,
            runs: Arc::default(),
            changes: broadcast::channel(1024).0,
            room: Arc::new(Semaphore::new(AT_ONCE)),
            tasks: Mutex::default(),
        }
    }

    /// Timing of drains.
    pub fn settings(&self) -> DrainSettings {
        self.settings
    }

    /// Machines whose pass ended.
    pub fn changes(&self) -> impl Stream<Item = Name> + Send + 'static {
        let runs = Arc::clone(&self.runs);
        crate::runtime::cache::names(self.changes.subscribe(), move || {
            runs.lock().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect()
        })
    }

    /// Progress of the work for a machine.
    pub fn progress(&self, machine: &Name, work: &NodeWork) -> DrainProgress {
        let runs = self.runs();
        let Some(run) = runs.get(machine).filter(|run| run.work == *work) else {
            return DrainProgress::default();
        };
        DrainProgress {
            running: run.running,
            last: run.last.as_ref().map(|(outcome, _)| outcome.clone()),
            age: run.last.as_ref().map_or(Duration::ZERO, |(_, at)| at.elapsed()),
            silent: run.answered.elapsed(),
        }
    }

    /// Starts a pass, unless one is under way.
    pub fn start(&self, writer: &Writer, machine: &Name, subject: &DrainSubject, work: &NodeWork) {
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
                Err(_) => DrainOutcome::Unreachable(format!("no answer within {} s", limit.as_secs())),
            };
            if let Some(run) = runs.lock().unwrap_or_else(PoisonError::into_inner).get_mut(&machine) {
                run.running = false;
                if !matches!(outcome, DrainOutcome::Unreachable(_)) {
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

async fn pass(writer: &Writer, subject: &DrainSubject, work: &NodeWork) -> DrainOutcome {
    let workload = match reach::reach(writer, &subject.cluster).await {
        Ok(workload) => workload,
        Err(outcome) => return outcome,
    };
    let done = match work {
        NodeWork::Drain => node::drain(&workload, subject).await,
        NodeWork::Remove(node) => node::remove(&workload, node).await,
    };
    done.unwrap_or_else(|error| {
        DrainOutcome::Unreachable(reach::shortened(crate::runtime::queue::chain(&error)))
    })
}
