//! One run, from its order to its end.
//!
//! ```text
//! prepare ── record the intent ── wait for room ── process ── judge ──(next stage)── settle the state ── record the end
//! ```
//! A run that was adopted enters at "process".

use std::{path::PathBuf, sync::Arc, time::Duration};

use jiff::Timestamp;
use tokio::sync::watch;

use super::{
    arguments::arguments,
    follow::{Followed, Follower},
    inner::{Inner, Room},
    keep::Since,
    latest::{replaced, set_aside},
    prepare::RunContext,
    state_recovery::StateWatch,
    stream_recovery::StreamReport,
    table::{Ticket, Why},
};
use crate::{
    blocking::blocking,
    environment::Use,
    failure::{Failure, Reason},
    folders::{WorkspaceFolder, guest},
    init_cache::InitEntry,
    inputs::{Inputs, Revision},
    log::Log,
    order::{Operation, RunId, WorkspaceId},
    pool::Urgency,
    process::{
        Process, ProcessFiles, Start,
        reserve::{OutputReserve, RemainingOutput},
    },
    record::{Journal, Record, Stage},
    sandbox::Rules,
    stream::{Change, Tally},
    view::{Outcome, Phase, Plan},
};

/// Why a run is not gone on with that was adopted.
pub(super) const SINCE: &str = "another controller has gone on with it since";

/// Why a run goes no further.
pub(super) enum Halt {
    /// The engine stops: whoever starts next goes on.
    Stopping,
    /// It was stopped.
    Stopped(Why),
    /// It failed.
    Failed(Failure),
}

impl From<Failure> for Halt {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// Result of a run.
pub(super) struct Verdict {
    pub outcome: Outcome,
    pub plan: Option<Plan>,
    pub drift: Vec<Change>,
    pub warnings: Vec<String>,
    /// Names of values that the module declares no variable for.
    pub undeclared: Vec<String>,
}

impl Verdict {
    pub fn of(outcome: Outcome) -> Self {
        Self { outcome, plan: None, drift: Vec::new(), warnings: Vec::new(), undeclared: Vec::new() }
    }
}

/// A run.
pub(super) struct Job {
    pub inner: Arc<Inner>,
    pub id: RunId,
    pub workspace: WorkspaceId,
    pub urgency: Urgency,
    pub operation: Operation,
    pub given: Option<Inputs>,
    /// The revision it works towards, where that is known from the order.
    pub aim: Option<Revision>,
    pub timeout: Duration,
    pub max_destroy: Option<u32>,
    /// The backend must hold a state: something else has applied it.
    pub expects_state: bool,
    pub stop: watch::Receiver<Option<Why>>,
    pub folder: WorkspaceFolder,
    pub started: Timestamp,
}

impl Job {
    pub fn new(inner: Arc<Inner>, ticket: Ticket) -> Self {
        let Ticket { id, order, revision, stop } = ticket;
        let folder = inner.folders.workspace(&order.workspace);
        Self {
            inner,
            id,
            urgency: order.urgency(),
            workspace: order.workspace,
            operation: order.operation,
            given: order.inputs,
            aim: revision,
            timeout: order.timeout,
            max_destroy: order.max_destroy,
            expects_state: order.expects_state,
            stop,
            folder,
            started: Timestamp::now(),
        }
    }

    /// A run that another engine began.
    pub fn adopted(
        inner: Arc<Inner>,
        workspace: WorkspaceId,
        journal: &Journal,
        stop: watch::Receiver<Option<Why>>,
    ) -> Self {
        let folder = inner.folders.workspace(&workspace);
        Self {
            inner,
            id: journal.id.clone(),
            workspace,
            urgency: journal.operation.urgency(),
            operation: journal.operation.clone(),
            given: None,
            aim: Some(journal.revision.clone()),
            timeout: journal.timeout,
            max_destroy: journal.max_destroy,
            // It was looked for before the process began.
            expects_state: false,
            stop,
            folder,
            started: journal.started,
        }
    }

    /// Runs it.
    pub async fn conduct(mut self) {
        let mut context = None;
        let ended = self.go(&mut context).await;
        Box::pin(self.end(context, ended)).await;
    }

    /// Goes on with one that was adopted.
    pub async fn resume(mut self, record: Record, journal: Journal, room: Room) {
        let mut context = Some(RunContext::of_journal(record, &journal));
        let ended = Box::pin(self.rejoin(&mut context, journal, room)).await;
        Box::pin(self.end(context, ended)).await;
    }

    async fn go(&mut self, context: &mut Option<RunContext>) -> Result<Verdict, Halt> {
        self.not_stopped()?;
        let prepared = self.prepare().await?;
        let stages = match &self.operation {
            Operation::Plan => vec![Stage::Plan],
            Operation::Apply if self.max_destroy.is_some() => vec![Stage::Plan, Stage::ApplyPlan],
            Operation::Apply => vec![Stage::Apply],
            Operation::ApplyPlan(_) => vec![Stage::ApplyPlan],
            Operation::Destroy if prepared.nothing_to_destroy => vec![],
            Operation::Destroy => vec![Stage::Destroy],
            Operation::Refresh => vec![Stage::Look],
            Operation::Import { .. } => vec![Stage::Import],
        };
        let context = context.insert(prepared);
        let mut warnings = Vec::new();
        if self.has_to_take_in(context) {
            warnings.extend(self.make_up(context, &stages).await?);
        }
        warnings.extend(self.hand_in(context).await?);
        self.find(context).await?;
        let mut verdict = self.stages(context, &stages).await?;
        verdict.warnings.extend(warnings);
        Ok(verdict)
    }

    /// Takes up the process of a run that was adopted, and what is left of the run after it.
    async fn rejoin(
        &mut self,
        context: &mut Option<RunContext>,
        journal: Journal,
        room: Room,
    ) -> Result<Verdict, Halt> {
        let held = context.as_mut().expect("set by the caller");
        self.await_beside().await?;
        let files = self.files(journal.stage);
        let (since, room) = self.since_with(&held.record, &journal, room).await?;
        if !matches!(since, Since::Nothing) {
            self.inner.fence(&self.workspace, SINCE.to_owned());
        }
        let followed = self.follow(held, journal.stage, Process::find(files), true).await?;
        drop(room);
        if !matches!(since, Since::Nothing) {
            let (folder, here) = (self.folder.clone(), held.record.clone());
            // What this run left behind is older than what is kept, and not written over it.
            let taken = blocking(move || match &since {
                Since::Kept(kept) => replaced(&folder, kept),
                Since::Ended | Since::Nothing => set_aside(&folder, &here),
            });
            held.record = taken.await.map_err(|error| Failure::io("take over what is kept", &error))?;
            // Whoever has gone on with it may still be at it.
            self.inner.table().entry(&self.workspace).known = false;
            return Err(Halt::Stopped(Why::Fenced(SINCE.to_owned())));
        }
        let first = self.judge(held, journal.stage, &followed).await?;
        if journal.stage != Stage::Plan
            || self.operation != Operation::Apply
            || first.outcome != Outcome::Planned
        {
            return Ok(first);
        }
        let Some(inputs) = held.inputs.take() else { return Ok(first) };
        self.given = Some(inputs);
        let prepared = self.prepare().await?;
        self.stages(context.insert(prepared), &[Stage::ApplyPlan]).await.map(|last| merged(first, last))
    }

    async fn stages(&mut self, context: &mut RunContext, stages: &[Stage]) -> Result<Verdict, Halt> {
        let mut verdict = Verdict::of(Outcome::Done);
        for stage in stages {
            let followed = self.stage(context, *stage).await?;
            verdict = merged(verdict, self.judge(context, *stage, &followed).await?);
            // Held, or nothing to do: no second stage.
            if verdict.outcome != Outcome::Planned {
                break;
            }
        }
        Ok(verdict)
    }

    /// Runs one process.
    async fn stage(&mut self, context: &mut RunContext, stage: Stage) -> Result<Followed, Halt> {
        self.intend(context, stage).await?;
        let room = self.room(context).await?;
        self.phase(stage);
        let process = self.start(context, stage)?;
        let followed = self.follow(context, stage, process, false).await?;
        drop(room);
        Ok(followed)
    }

    /// Waits for room for a process.
    pub async fn room(&self, context: &RunContext) -> Result<Room, Halt> {
        let (mut stop, mut stopping) = (self.stop.clone(), self.inner.stopping.subscribe());
        let give_up = async {
            tokio::select! {
                _ = stop.wait_for(Option::is_some) => {}
                _ = stopping.wait_for(|stopping| *stopping) => {}
            }
        };
        let room = self.inner.room(self.urgency, context.estimate(), give_up).await;
        self.not_stopped()?;
        room.ok_or(Halt::Stopping)
    }

    fn start(&self, context: &RunContext, stage: Stage) -> Result<Process, Failure> {
        let (Some(entry), Some(binary), Some(inputs)) =
            (&context.init_entry, &context.binary, &context.inputs)
        else {
            return Err(Failure::new(Reason::BinaryNotFound, "nothing was prepared".to_owned()));
        };
        let environment = &self.inner.init_cache.initializer().environment;
        let data = self.data(entry);
        let scratch = self.scratch();
        let start = Start {
            guard: self.inner.options.guard.clone(),
            fence: if stage.changes() { self.fence(context, true) } else { None },
            program: binary.path.clone(),
            args: arguments(stage, &self.operation, inputs, &self.folder, context.remote),
            folder: context.start.clone(),
            env: environment.of_run(inputs, &data, &scratch, !entry.plugins)?,
            sandbox: self.confinement(entry, inputs)?,
            reserve: if stage.changes() { self.reserve() } else { 0 },
        };
        self.inner.table().numbers.processes += 1;
        Process::start(start, self.files(stage)).map_err(|error| match Failure::not_started(&error) {
            failure if failure.reason == Reason::DiskFull => full(),
            failure => failure,
        })
    }

    async fn follow(
        &mut self,
        context: &mut RunContext,
        stage: Stage,
        process: Process,
        adopted: bool,
    ) -> Result<Followed, Halt> {
        let mut log = Log::open(self.log(), self.inner.options.log_bytes);
        if adopted {
            log.restart();
        }
        let follower = Follower {
            inner: &self.inner,
            workspace: &self.workspace,
            files: self.files(stage),
            stop: self.stop.clone(),
            deadline: self.deadline(adopted),
            redactor: context.redactor().await,
            stage,
            log,
            tally: Tally::new(),
            state: StateWatch::new(&self.folder),
            peak: 0,
            report: StreamReport::default(),
            ahead: stage.changes().then(|| OutputReserve::of(&self.files(stage).output(), self.reserve())),
        };
        let mirror = stage.changes().then(|| self.mirror(context)).flatten();
        let doubted = async {
            if context.binary.as_ref().is_none_or(|binary| binary.version.is_some()) {
                std::future::pending::<()>().await;
            }
            // What hangs would not end before its run's timeout.
            tokio::time::sleep(self.inner.options.version_timeout).await;
            if self.ask(context).await.is_ok() {
                std::future::pending::<()>().await;
            }
        };
        let followed = follower.follow(process, doubted).await;
        if let Some(mirror) = mirror {
            mirror.abort();
        }
        if let (Some(entry), Some(followed)) = (&context.init_entry, &followed)
            && followed.peak > 0
        {
            entry.learn(followed.peak);
        }
        let mut followed = followed.ok_or(Halt::Stopping)?;
        context.report = std::mem::take(&mut followed.report);
        Ok(followed)
    }

    /// Space that a process must have before it starts.
    fn reserve(&self) -> u64 {
        let state = std::fs::metadata(self.folder.state()).map_or(0, |metadata| metadata.len());
        RemainingOutput { state, steps: 0 }.ample(self.inner.options.reserve_bytes)
    }

    /// The time left: of a run that was adopted, what it has used up already counts.
    fn deadline(&self, adopted: bool) -> tokio::time::Instant {
        let used = if adopted {
            Duration::try_from(Timestamp::now().duration_since(self.started)).unwrap_or_default()
        } else {
            Duration::ZERO
        };
        tokio::time::Instant::now() + self.timeout.saturating_sub(used)
    }

    pub fn files(&self, stage: Stage) -> ProcessFiles {
        ProcessFiles::new(self.folder.run(&self.id), stage.as_str())
    }

    /// HOME and TMPDIR of the run.
    pub fn scratch(&self) -> PathBuf {
        self.inner.folders.scratch(self.workspace.as_str())
    }

    /// `TF_DATA_DIR`: what was initialised, or nothing at all.
    pub fn data(&self, entry: &InitEntry) -> PathBuf {
        entry.data.clone().unwrap_or_else(|| self.folder.guest().join(guest::DATA))
    }

    /// The run writes its guest folder and its scratch, and nothing else.
    pub fn confinement(&self, entry: &InitEntry, inputs: &Inputs) -> Result<Option<Rules>, Failure> {
        let environment = &self.inner.init_cache.initializer().environment;
        let (guest, scratch) = (self.folder.guest(), self.scratch());
        let shared = self.inner.folders.init_entry(&entry.key);
        environment.sandbox(&[&guest, &scratch], &[&shared], inputs, Use::default())
    }

    pub fn log(&self) -> PathBuf {
        self.folder.run(&self.id).join("log")
    }

    fn phase(&mut self, stage: Stage) {
        let phase = phase(stage, false);
        self.started = Timestamp::now();
        let (id, since) = (&self.id, self.started);
        self.inner.update(&self.workspace, |view| {
            if let Some(run) = view.run.as_mut().filter(|run| run.id == *id) {
                run.phase = phase;
                run.since = since;
            }
        });
    }

    pub fn not_stopped(&self) -> Result<(), Halt> {
        if let Some(why) = self.stop.borrow().clone() {
            return Err(Halt::Stopped(why));
        }
        if self.inner.stopping() {
            return Err(Halt::Stopping);
        }
        Ok(())
    }
}

fn full() -> Failure {
    let message = "the disk is full: there is no space to write down what a run makes, so none is started";
    Failure::new(Reason::DiskFull, message)
}

/// Phase of a process; `planned`: its plan is made.
pub(super) fn phase(stage: Stage, planned: bool) -> Phase {
    match stage {
        Stage::Plan => Phase::Planning,
        Stage::Apply if !planned => Phase::Planning,
        Stage::Apply | Stage::ApplyPlan => Phase::Applying,
        Stage::Look => Phase::Refreshing,
        Stage::Destroy => Phase::Destroying,
        Stage::Import => Phase::Importing,
    }
}

fn merged(first: Verdict, last: Verdict) -> Verdict {
    let mut warnings = first.warnings;
    warnings.extend(last.warnings);
    warnings.dedup();
    let mut drift = first.drift;
    drift.extend(last.drift);
    let mut undeclared = first.undeclared;
    undeclared.extend(last.undeclared);
    undeclared.sort();
    undeclared.dedup();
    Verdict { outcome: last.outcome, plan: last.plan.or(first.plan), drift, warnings, undeclared }
}
