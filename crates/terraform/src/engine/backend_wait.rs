//! Waits of a run for its state backend: aside, told, and without end only where something was done already.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::{
    inner::Aside,
    job::{Halt, Job},
};
use crate::{
    failure::{Failure, Reason},
    state_backend::StateBackendError,
};

/// The first wait before it is tried again.
const FIRST: Duration = Duration::from_millis(100);
/// The longest wait before it is tried again.
pub(super) const LONGEST: Duration = Duration::from_secs(5);
/// How long a process that is to start waits: as long as a controller goes on without its API.
const PATIENCE: Duration = Duration::from_secs(10);

/// Moment at which a run needs its state backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Moment {
    /// Before a process starts: nothing was done yet, and the run can fail.
    Start,
    /// After it: what it did must not be in one place alone.
    End,
}

/// The wait of one run. It holds no place that others wait for.
pub(super) struct Wait<'a> {
    job: &'a Job,
    at: Moment,
    began: Instant,
    next: Duration,
    told: Option<String>,
    aside: Option<Aside>,
}

impl<'a> Wait<'a> {
    pub fn new(job: &'a Job, at: Moment) -> Self {
        Self { job, at, began: Instant::now(), next: FIRST, told: None, aside: None }
    }

    /// Waits before the next try, or fails.
    pub async fn pause(&mut self, error: StateBackendError) -> Result<(), Halt> {
        if self.at == Moment::Start && (!passes(&error) || self.began.elapsed() >= PATIENCE) {
            return Err(not_kept(error).into());
        }
        let inner = &self.job.inner;
        self.aside.get_or_insert_with(|| inner.aside());
        self.tell(Some(error.to_string()));
        let (mut stop, mut stopping) = (self.job.stop.clone(), inner.stopping.subscribe());
        tokio::select! {
            () = sleep(self.next) => {}
            _ = stopping.wait_for(|stopping| *stopping) => return Err(Halt::Stopping),
            _ = stop.wait_for(Option::is_some), if self.at == Moment::Start => self.job.not_stopped()?,
        }
        self.next = (self.next * 2).min(LONGEST);
        Ok(())
    }

    /// Says in the view what the run waits for.
    fn tell(&mut self, why: Option<String>) {
        if self.told == why {
            return;
        }
        self.told.clone_from(&why);
        let id = &self.job.id;
        self.job.inner.update(&self.job.workspace, |view| {
            if let Some(run) = view.run.as_mut().filter(|run| run.id == *id) {
                run.waits_for = why;
            }
        });
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        self.tell(None);
    }
}

/// Returns true if it may pass while nobody does anything about it.
fn passes(error: &StateBackendError) -> bool {
    match error {
        StateBackendError::Failed(_) => true,
        StateBackendError::Fenced(_)
        | StateBackendError::Unsettled(_)
        | StateBackendError::Damaged(_)
        | StateBackendError::TooLarge(_)
        | StateBackendError::Closed(_) => false,
    }
}

/// Why no process starts.
fn not_kept(error: StateBackendError) -> Failure {
    match error {
        StateBackendError::Damaged(why) => Failure::new(Reason::StateDamaged, why),
        StateBackendError::TooLarge(why) => Failure::new(Reason::StateUnreadable, why),
        StateBackendError::Fenced(why) | StateBackendError::Unsettled(why) => {
            Failure::new(Reason::StateLocked, why)
        }
        StateBackendError::Failed(why) | StateBackendError::Closed(why) => Failure::new(
            Reason::StateNotKept,
            format!("the state cannot be kept, so nothing is started: {why}"),
        ),
    }
}
