//! State shared by all clones of an engine, and the scheduling of runs.

use std::{
    fs::File,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak, atomic::Ordering},
};

use jiff::Timestamp;
use tokio::{
    runtime::Handle as Runtime,
    sync::{broadcast, oneshot, watch},
    task::JoinSet,
};

use super::{
    Options,
    job::Job,
    table::{Entry, Handle, Table, Ticket, Waiting, Why},
};
use crate::{
    binary::Binaries,
    blocking::blocking,
    executor::WorkspaceError,
    failure::{Failure, Reason},
    folders::Folders,
    init_cache::{self, InitCache, ModuleFiles},
    inputs::{Inputs, Revision, Roots},
    metrics::Snapshot,
    module::Module,
    order::{Operation, Order, Refused, RunId, WorkspaceId},
    pool::{Memory, Urgency},
    view::{Phase, Running, View},
};

pub(super) struct Inner {
    pub options: Options,
    pub folders: Folders,
    /// The id of the data folder; `None` where it cannot be written down.
    pub place: Option<String>,
    pub binaries: Binaries,
    pub init_cache: InitCache,
    pub changes: broadcast::Sender<WorkspaceId>,
    /// Set once: nothing more is started, and nothing more is written.
    pub stopping: watch::Sender<bool>,
    pub runtime: Runtime,
    pub table: Mutex<Table>,
    pub tasks: Mutex<JoinSet<()>>,
    /// Held open for its lock.
    pub lock: Mutex<Option<File>>,
    pub own: Weak<Inner>,
}

/// Room for one process; given back when dropped.
pub(super) struct Room {
    inner: Arc<Inner>,
    estimate: u64,
}

/// A run that waits aside; takes its place again when dropped.
pub(super) struct Aside {
    inner: Arc<Inner>,
}

impl Drop for Aside {
    fn drop(&mut self) {
        self.inner.table().under_way += 1;
    }
}

/// A workspace that is being changed by hand.
pub(super) struct Reserved {
    inner: Arc<Inner>,
    workspace: WorkspaceId,
}

impl Drop for Reserved {
    fn drop(&mut self) {
        if let Some(entry) = self.inner.table().entries.get_mut(&self.workspace) {
            entry.reserved = false;
        }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let mut table = self.inner.table();
        table.gate.leave(self.estimate);
        self.inner.admit(&mut table);
    }
}

impl Inner {
    pub fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn stopping(&self) -> bool {
        *self.stopping.borrow()
    }

    fn own(&self) -> Arc<Self> {
        self.own.upgrade().expect("whoever calls holds the engine")
    }

    /// The revision that an order works towards, known before anything is done for it: so that who is told of its failure knows
    /// what failed. A destroy and a refresh work on what was applied.
    async fn aim(&self, order: &Order) -> Option<Revision> {
        match order.operation {
            Operation::Destroy | Operation::Refresh => None,
            Operation::Plan | Operation::Apply | Operation::ApplyPlan(_) | Operation::Import { .. } => {
                if order.revision.is_some() {
                    return order.revision.clone();
                }
                let (own, inputs) = (self.own(), order.inputs.clone()?);
                blocking(move || own.revision(&inputs)).await.ok()
            }
        }
    }

    /// Takes an order.
    pub async fn order(&self, order: Order) -> Result<RunId, Refused> {
        if self.stopping() {
            return Err(Refused::Stopping);
        }
        let revision = self.aim(&order).await;
        let mut table = self.table();
        if table.closed {
            return Err(Refused::Stopping);
        }
        table.orders += 1;
        let id = run_id(table.orders);
        let destroy = order.operation == Operation::Destroy;
        if let Some(run) = &table.entry(&order.workspace).run {
            if !(destroy && run.queued) {
                return Err(Refused::Busy { workspace: order.workspace, run: run.id.clone() });
            }
            let replaced = run.id.clone();
            table.queue.take(|ticket| ticket.id == replaced);
        }
        let (sender, stop) = watch::channel(None);
        let entry = table.entry(&order.workspace);
        if entry.reserved {
            return Err(Refused::Busy {
                workspace: order.workspace,
                run: RunId::from("none: it is being changed"),
            });
        }
        entry.retained = false;
        entry.run = Some(Handle { id: id.clone(), stop: sender, queued: true });
        entry.view.run = Some(Running {
            id: id.clone(),
            operation: order.operation.clone(),
            revision: revision.clone(),
            phase: Phase::Queued,
            progress: crate::stream::Progress::default(),
            since: Timestamp::now(),
            waits_for: None,
        });
        let urgency = order.urgency();
        let (workspace, group) = (order.workspace.clone(), order.group.clone());
        table.queue.push(urgency, &group, Ticket { id: id.clone(), order, revision, stop });
        self.pump(&mut table);
        drop(table);
        self.changed(&workspace);
        Ok(id)
    }

    /// Takes runs from the queue. More than there are slots are under way at a time, so that one can be prepared (which waits
    /// for the disk) while others run. Deletions have places of their own: they never wait for what is prepared already.
    pub fn pump(&self, table: &mut Table) {
        let most = under_way(table.gate.slots());
        while !self.stopping() && !table.closed && table.under_way < 2 * most {
            let next = if table.under_way < most { table.queue.pop() } else { table.queue.pop_deletion() };
            let Some(ticket) = next else { return };
            self.begin(table, ticket);
        }
    }

    fn begin(&self, table: &mut Table, ticket: Ticket) {
        if let Some(run) = &mut table.entry(&ticket.order.workspace).run {
            run.queued = false;
        }
        table.under_way += 1;
        let job = Job::new(self.own(), ticket);
        self.spawn(Box::pin(job.conduct()));
    }

    /// Gives up the place of a run that waits for something slow, so that it holds up nobody else.
    pub fn aside(&self) -> Aside {
        let mut table = self.table();
        table.under_way -= 1;
        self.pump(&mut table);
        drop(table);
        Aside { inner: self.own() }
    }

    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        while tasks.try_join_next().is_some() {}
        tasks.spawn_on(task, &self.runtime);
    }

    /// Waits for room for a process that is expected to use `estimate` bytes. `None`: the wait was given up.
    pub async fn room(
        &self,
        urgency: Urgency,
        estimate: u64,
        give_up: impl Future<Output = ()>,
    ) -> Option<Room> {
        let (sender, receiver) = oneshot::channel();
        {
            let mut table = self.table();
            let at = table.waiting.iter().take_while(|waiting| waiting.urgency <= urgency).count();
            table.waiting.insert(at, Waiting { urgency, estimate, sender });
            self.admit(&mut table);
        }
        // Once admitted, dropping the room gives it back; so the answer is looked at whatever else happened.
        tokio::pin!(receiver);
        tokio::select! {
            biased;
            answer = &mut receiver => answer.ok().map(|()| Room { inner: self.own(), estimate }),
            () = give_up => {
                receiver.close();
                receiver.try_recv().ok().map(|()| Room { inner: self.own(), estimate }).and(None)
            }
        }
    }

    /// Room that is taken already, by a run that was adopted.
    pub fn taken(&self, estimate: u64) -> Room {
        self.table().gate.force(estimate);
        Room { inner: self.own(), estimate }
    }

    fn admit(&self, table: &mut Table) {
        if table.waiting.is_empty() {
            return;
        }
        let memory = Memory::now(self.options.memory);
        while let Some(Waiting { estimate, .. }) = table.waiting.front() {
            let estimate = *estimate;
            if !table.gate.enter(estimate, memory) {
                return;
            }
            let Waiting { sender, .. } = table.waiting.pop_front().expect("just seen");
            if sender.send(()).is_err() {
                table.gate.leave(estimate);
            }
        }
    }

    /// Changes the view of a workspace, and says so.
    pub fn update(&self, workspace: &WorkspaceId, change: impl FnOnce(&mut View)) {
        change(&mut self.table().entry(workspace).view);
        self.changed(workspace);
    }

    pub fn changed(&self, workspace: &WorkspaceId) {
        // Nobody listens: nobody minds.
        let _ = self.changes.send(workspace.clone());
    }

    /// Interrupts that run of a workspace; whichever there is, where none is named.
    pub fn interrupt(&self, workspace: &WorkspaceId, run: Option<&RunId>, reason: Why) -> bool {
        let mut table = self.table();
        let Some(Entry { run: Some(running), .. }) = table.entries.get(workspace).map(AsRef::as_ref) else {
            return false;
        };
        let (id, run) = match run {
            Some(wanted) if *wanted != running.id => return false,
            _ => (running.id.clone(), running),
        };
        run.stop.send_if_modified(|why| {
            let first = why.is_none();
            why.get_or_insert(reason);
            first
        });
        // One that waits is let through at once: it ends as cancelled without a process.
        if let Some(ticket) = table.queue.take(|ticket| ticket.id == id) {
            self.begin(&mut table, ticket);
        }
        true
    }

    /// Keeps runs away from a workspace while it is changed by hand.
    pub fn reserve(&self, workspace: &WorkspaceId) -> Result<Reserved, WorkspaceError> {
        let mut table = self.table();
        let entry = table.entry(workspace);
        let busy = |run: RunId| WorkspaceError::Busy { workspace: workspace.clone(), run };
        if let Some(run) = &entry.run {
            return Err(busy(run.id.clone()));
        }
        if entry.reserved {
            return Err(busy(RunId::from("none: it is being changed")));
        }
        entry.reserved = true;
        Ok(Reserved { inner: self.own(), workspace: workspace.clone() })
    }

    /// Refuses inputs that would change what a run means, or that name a path of the host that is not theirs to name.
    pub fn admit_inputs(&self, inputs: &Inputs) -> Result<(), Failure> {
        inputs.check_words()?;
        inputs.check_paths(self.roots())
    }

    fn roots(&self) -> &Roots {
        &self.init_cache.initializer().environment.roots
    }

    /// Hashes the module, where it lies on this machine. A run reads it once: the files may change at any moment, and what is recorded
    /// must be what was applied. It is found and judged once, too: links may be led elsewhere.
    pub fn files_of(&self, inputs: &Inputs) -> Result<Option<ModuleFiles>, Failure> {
        let Some(_) = init_cache::local_folder(&inputs.module) else { return Ok(None) };
        let Some(folder) = inputs.real_source(self.roots())? else { return Ok(None) };
        let missing = |error| match &inputs.module {
            Module::Source { source, .. } => format!("read the module {source}: {error}"),
            Module::Inline { .. } => format!("read the module: {error}"),
        };
        let files = ModuleFiles::of(folder);
        files.map(Some).map_err(|error| Failure::new(Reason::ModuleNotFound, missing(error)))
    }

    pub fn revision(&self, inputs: &Inputs) -> Result<Revision, Failure> {
        self.admit_inputs(inputs)?;
        let binary = self.binaries.find_to_run(&inputs.binary, init_cache::is_plain(inputs))?;
        let files = self.files_of(inputs)?;
        Ok(Revision::of(inputs, &binary.name, files.as_ref().map(|files| files.hash.as_str())))
    }

    pub fn metrics(&self) -> Snapshot {
        let table = self.table();
        Snapshot {
            queued: table.queue.len(),
            running: table.under_way,
            inits: self.init_cache.initializer().inits.load(Ordering::Relaxed),
            ..table.numbers.clone()
        }
    }
}

/// Runs that are prepared, run or concluded at a time.
fn under_way(slots: usize) -> usize {
    slots * 3
}

/// Sorts by time; the number tells those of one microsecond apart.
pub(super) fn run_id(number: u64) -> RunId {
    RunId(format!("{}-{number}", Timestamp::now().strftime("%Y%m%dT%H%M%S.%6f")))
}
