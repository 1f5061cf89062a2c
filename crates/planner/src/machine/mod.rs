//! CaptMachine: the next thing to do for one, and its state.

mod node_drain;

use std::time::Duration;

use capt_api::conditions::reasons;
use capt_api::machine::{CaptMachine, NodeGroup};
use capt_api::names::{finalizers, labels};
use kube::ResourceExt;

use crate::Why;
use crate::owned_workspace::{
    self, Intent, Lifecycle, OwnedWorkspace, OwnerStep, WorkspaceOwner, WorkspaceStanding, parting_message,
};
pub use node_drain::{
    DrainEnd, DrainOutcome, DrainProgress, DrainSettings, DrainVerdict, NodeDeparture, NodeWork, drained,
    found, removed,
};

/// Suffix of the name of a machine's workspace.
pub const SUFFIX: &str = "-machine";

/// Name of a machine's workspace.
pub fn workspace_of(machine: &str) -> String {
    format!("{machine}{SUFFIX}")
}

/// Observation of one machine.
#[derive(Clone, Debug)]
pub struct MachineObservation<'a> {
    /// The object.
    pub object: &'a CaptMachine,
    /// Another system takes care of it.
    pub external: bool,
    /// The reason that it is paused.
    pub paused: Option<&'a str>,
    /// Reason why it cannot be built yet, besides its group.
    pub waits: Option<&'a Why>,
    /// The group that it joins, where that is an object.
    pub group: Option<&'a NodeGroup>,
    /// The object of its workspace's name.
    pub workspace: Option<OwnedWorkspace>,
    /// Its Node, where CAPT has to look after that.
    pub node: Option<&'a NodeDeparture>,
}

impl MachineObservation<'_> {
    /// The machine as the owner of its workspace. The label of its group is written with the finalizer.
    fn as_owner(&self) -> WorkspaceOwner<'_> {
        let meta = &self.object.metadata;
        let owner = WorkspaceOwner::read(meta, finalizers::MACHINE, self.external, self.paused);
        // Of one that leaves, the label is of no use any more.
        let joins = !owner.deleting && missing_label(self.object).is_some();
        WorkspaceOwner { held: owner.held && !joins, ..owner }
    }
}

/// The value of the label that names a machine's group, where the machine does not have it yet.
pub fn missing_label(machine: &CaptMachine) -> Option<&str> {
    let wanted = machine.spec.node_group_label()?;
    let has = machine.labels().get(labels::NODE_GROUP_NAME);
    (has.map(String::as_str) != Some(wanted)).then_some(wanted)
}

/// The one thing to do for a machine.
#[derive(Clone, Debug, PartialEq)]
pub enum MachineStep {
    /// A step of the owner of a workspace.
    Workspace(OwnerStep),
    /// Writes the providerID that the workspace returned to the machine's spec.
    HandProviderId(String),
    /// Starts a pass over the machine's Node.
    Node(NodeWork),
}

/// State of a machine.
#[derive(Clone, Debug, PartialEq)]
pub enum MachineState {
    /// Another system takes care of it, or it is gone: nothing is said.
    External,
    /// Nothing is done, for this reason.
    Paused(String),
    /// It waits for something.
    Waiting(Why),
    /// It has a workspace, in this state.
    Workspace(WorkspaceStanding),
    /// It is on its way out, and its Node is being drained.
    Draining(String),
    /// It is on its way out: what it waits for, and the end of its Node's drain, where that is news.
    Deleting(String, Option<DrainEnd>),
}

/// Decision for one machine.
#[derive(Clone, Debug, PartialEq)]
pub struct MachineDecision {
    /// The next step.
    pub step: MachineStep,
    /// Its state.
    pub state: MachineState,
    /// Time until the next reconcile, though nothing may change.
    pub again: Option<Duration>,
}

impl MachineDecision {
    fn new(step: OwnerStep, state: MachineState) -> Self {
        Self { step: MachineStep::Workspace(step), state, again: None }
    }

    fn rest(state: MachineState) -> Self {
        Self::new(OwnerStep::Rest, state)
    }
}

/// Decides for one machine.
pub fn decide(observed: &MachineObservation<'_>) -> MachineDecision {
    let owner = observed.as_owner();
    match owner.lifecycle() {
        Lifecycle::External | Lifecycle::Gone => MachineDecision::rest(MachineState::External),
        Lifecycle::Paused(by) => {
            let step = owner.next(Intent::Pause, observed.workspace.as_ref());
            MachineDecision::new(step, MachineState::Paused(by.to_owned()))
        }
        Lifecycle::Leaving => end(observed, &owner),
        Lifecycle::Alive => match &observed.workspace {
            None => begin(observed, &owner),
            Some(workspace) if !workspace.usable() => {
                let why = Why::new(reasons::NAME_TAKEN, workspace.name_taken());
                MachineDecision::rest(MachineState::Waiting(why))
            }
            Some(workspace) => in_step(observed, &owner, workspace),
        },
    }
}

/// Makes the workspace, once all is there that it needs.
fn begin(observed: &MachineObservation<'_>, owner: &WorkspaceOwner<'_>) -> MachineDecision {
    if let Some(why) = waits(observed) {
        // A member is one from the start; what was made for a Machine is not touched before that owns it.
        let joins = why.reason != reasons::WAITING_FOR_MACHINE && missing_label(observed.object).is_some();
        let step = if joins { OwnerStep::Hold } else { OwnerStep::Rest };
        return MachineDecision::new(step, MachineState::Waiting(why));
    }
    let message = owned_workspace::builds(&workspace_of(&observed.object.name_any()));
    let standing =
        WorkspaceStanding { reason: reasons::CREATING.into(), message, ..WorkspaceStanding::default() };
    let step = owner.next(Intent::Keep { complete: true }, None);
    MachineDecision::new(step, MachineState::Workspace(standing))
}

/// Keeps the workspace in step. While what the machine waits for is not there, inputs may be missing: then nothing
/// changes.
fn in_step(
    observed: &MachineObservation<'_>,
    owner: &WorkspaceOwner<'_>,
    workspace: &OwnedWorkspace,
) -> MachineDecision {
    let complete = waits(observed).is_none();
    let standing = workspace.standing.clone();
    let step = owner.next(Intent::Keep { complete }, Some(workspace));
    let rests = step == OwnerStep::Rest && complete && standing.built;
    let step = match new_provider_id(observed.object, &standing).filter(|_| rests) {
        Some(id) => MachineStep::HandProviderId(id),
        None => MachineStep::Workspace(step),
    };
    MachineDecision { step, state: MachineState::Workspace(standing), again: None }
}

/// The providerID that the workspace returned, where the machine has another one.
fn new_provider_id(machine: &CaptMachine, standing: &WorkspaceStanding) -> Option<String> {
    standing.text("provider_id").filter(|id| machine.spec.provider_id.as_deref() != Some(id))
}

/// Reason why the machine cannot be built yet.
fn waits(observed: &MachineObservation<'_>) -> Option<Why> {
    let of_group = || {
        let group = observed.group?;
        if group.metadata.deletion_timestamp.is_some() && observed.workspace.is_none() {
            return Some(format!("NodeGroup {} is being deleted", group.name_any()));
        }
        let ready = group.status.as_ref().is_some_and(|status| status.ready);
        let own = group.namespace() == observed.object.namespace();
        // A grant lends the group, not what its module says.
        let why = group.status.as_ref().filter(|_| own).and_then(|status| status.failure_message.as_deref());
        let why = why.map_or_else(String::new, |why| format!(": {why}"));
        (!ready).then(|| format!("NodeGroup {} is not ready{why}", group.name_any()))
    };
    let of_group = || of_group().map(|message| Why::new(reasons::WAITING_FOR_NODE_GROUP, message));
    observed.waits.cloned().or_else(of_group)
}

/// Pods leave first, then the workspace goes, then the Node; a machine that nobody's work depends on goes at once.
fn end(observed: &MachineObservation<'_>, owner: &WorkspaceOwner<'_>) -> MachineDecision {
    let (intent, workspace) = (owner.parting(false), observed.workspace.as_ref());
    let step = owner.next(intent, workspace);
    let message = parting_message(intent, workspace);
    match (step, observed.node.filter(|_| intent == Intent::Destroy)) {
        (OwnerStep::Delete, Some(node)) => match drained(node) {
            DrainVerdict::Ask(work, message) => MachineDecision {
                step: MachineStep::Node(work),
                state: MachineState::Draining(message),
                again: None,
            },
            DrainVerdict::Wait(again, message) => {
                MachineDecision { again, ..MachineDecision::rest(MachineState::Draining(message)) }
            }
            DrainVerdict::Over(end) => MachineDecision::new(step, MachineState::Deleting(message, Some(end))),
        },
        (OwnerStep::Release, Some(node)) => match removed(node) {
            DrainVerdict::Ask(work, message) => MachineDecision {
                step: MachineStep::Node(work),
                state: MachineState::Deleting(message, None),
                again: None,
            },
            DrainVerdict::Wait(again, message) => {
                MachineDecision { again, ..MachineDecision::rest(MachineState::Deleting(message, None)) }
            }
            DrainVerdict::Over(_) => MachineDecision::new(step, MachineState::Deleting(message, None)),
        },
        _ => MachineDecision::new(step, MachineState::Deleting(message, None)),
    }
}

#[cfg(test)]
mod tests;
