//! What to do next for a machine, and why. Pure.

use std::time::Duration;

use capt_api::conditions::reasons;
use capt_api::workspace::WorkspaceTemplateApply;
use kube::ResourceExt;

use super::super::drain::Work;
use super::node_drain::{self, End, Verdict};
use super::observe::Observed;
use crate::owned_workspace::{self, Kinship, Standing};

/// What to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Nothing.
    Rest,
    /// Make the workspace.
    Create,
    /// Replace the workspace by this.
    Change(Box<WorkspaceTemplateApply>),
    /// Give the machine our finalizer, and the label that names its group.
    Hold,
    /// Hand on what the workspace built: the providerID.
    Hand,
    /// Look after the machine's Node.
    Node(Work),
    /// Delete the workspace that has this uid.
    Delete(String),
    /// Let the machine go, once nothing of it is left.
    Release,
}

/// How the machine stands.
#[derive(Clone, Debug, PartialEq)]
pub enum Phase {
    /// Somebody else takes care of it: nothing is said.
    External,
    /// Nothing is done, and why.
    Paused(String),
    /// It waits for something: a word and a sentence.
    Waiting(&'static str, String),
    /// Its workspace is being built, or has failed to be, or is in step.
    Workspace(Standing),
    /// It is on its way out, and its Node is being emptied: how that stands.
    Draining(String),
    /// It is on its way out: what it waits for, and how its Node was left, where that is news.
    Deleting(String, Option<End>),
}

/// What to do, and how things stand.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// What to do.
    pub step: Step,
    /// The phase.
    pub phase: Phase,
    /// When to look again, though nothing may change.
    pub again: Option<Duration>,
}

impl Decision {
    fn new(step: Step, phase: Phase) -> Self {
        Self { step, phase, again: None }
    }
}

/// Decides.
pub fn decide(observed: &Observed) -> Decision {
    let kinship =
        observed.workspace.as_ref().map(|apply| owned_workspace::kinship(apply, observed.object.as_ref()));
    if observed.external && !(observed.deleting && observed.finalizer) {
        return rest(Phase::External);
    }
    if let Some(by) = &observed.paused {
        let ours = observed.workspace.as_deref().filter(|_| kinship == Some(Kinship::Ours));
        let step = match ours.and_then(owned_workspace::paused) {
            Some(changed) => Step::Change(Box::new(changed)),
            None => Step::Rest,
        };
        return Decision::new(step, Phase::Paused(by.clone()));
    }
    if observed.deleting {
        return end(observed, kinship);
    }
    match (&observed.workspace, kinship) {
        (Some(apply), Some(Kinship::Ours)) => in_step(observed, apply),
        (Some(apply), Some(Kinship::Orphan)) if apply.spec.template_ref == observed.wanted.template => {
            in_step(observed, apply)
        }
        (Some(apply), _) => {
            let message =
                format!("WorkspaceTemplateApply {} is controlled by another object", apply.name_any());
            rest(Phase::Waiting(reasons::NAME_TAKEN, message))
        }
        (None, _) => begin(observed),
    }
}

/// Makes the workspace, once all is there that it needs.
fn begin(observed: &Observed) -> Decision {
    if let Some((reason, message)) = waits(observed) {
        // A member is one from the start; what was made for a Machine is not touched before that owns it.
        let joins = reason != reasons::WAITING_FOR_MACHINE && observed.missing_label().is_some();
        let step = if joins { Step::Hold } else { Step::Rest };
        return Decision::new(step, Phase::Waiting(reason, message));
    }
    let message = format!("workspace {} builds it", observed.wanted.name.name);
    let standing = Standing { reason: reasons::CREATING.into(), message, ..Standing::default() };
    Decision::new(Step::Create, Phase::Workspace(standing))
}

fn rest(phase: Phase) -> Decision {
    Decision::new(Step::Rest, phase)
}

/// Keeps the workspace in step. While what the machine waits for is not there, inputs may be missing: then nothing
/// changes.
fn in_step(observed: &Observed, apply: &WorkspaceTemplateApply) -> Decision {
    let before = observed.status.as_ref().and_then(|status| status.failure_reason.as_deref());
    let standing = Standing::of(apply, before);
    let step = if !observed.finalizer || observed.missing_label().is_some() {
        // First: a workspace that is taken up has been built, and must not be forgotten.
        Step::Hold
    } else if standing.deleting || waits(observed).is_some() {
        Step::Rest
    } else if let Some(changed) = observed.wanted.correction(apply) {
        Step::Change(Box::new(changed))
    } else if standing.built
        && let Some(id) = standing.text("provider_id")
        && observed.object.spec.provider_id.as_deref() != Some(&id)
    {
        Step::Hand
    } else {
        Step::Rest
    };
    Decision::new(step, Phase::Workspace(standing))
}

/// What must be there before the machine is built: a word and a sentence.
fn waits(observed: &Observed) -> Option<(&'static str, String)> {
    let group = || {
        let group = observed.group.as_ref()?;
        if group.metadata.deletion_timestamp.is_some() && observed.workspace.is_none() {
            return Some(format!("NodeGroup {} is being deleted", group.name_any()));
        }
        let ready = group.status.as_ref().is_some_and(|status| status.ready);
        let own = group.namespace().as_deref() == Some(observed.name.namespace.as_str());
        // A grant lends the group, not what its module says.
        let why = group.status.as_ref().filter(|_| own).and_then(|status| status.failure_message.as_deref());
        let why = why.map_or_else(String::new, |why| format!(": {why}"));
        (!ready).then(|| format!("NodeGroup {} is not ready{why}", group.name_any()))
    };
    observed.waits.clone().or_else(|| group().map(|message| (reasons::WAITING_FOR_NODE_GROUP, message)))
}

/// Pods leave first, then the workspace goes, then the Node; a machine that nobody's work depends on goes at once.
fn end(observed: &Observed, kinship: Option<Kinship>) -> Decision {
    if !observed.finalizer {
        return rest(Phase::External);
    }
    if observed.orphans() || observed.external {
        return Decision::new(Step::Release, Phase::Deleting("what it built stays".into(), None));
    }
    match &observed.workspace {
        Some(apply) if kinship == Some(Kinship::Ours) => take_down(observed, apply),
        _ => match observed.node.as_ref().map(node_drain::removed) {
            Some(Verdict::Ask(work, message)) => {
                Decision::new(Step::Node(work), Phase::Deleting(message, None))
            }
            Some(Verdict::Wait(again, message)) => {
                Decision { step: Step::Rest, phase: Phase::Deleting(message, None), again }
            }
            Some(Verdict::Over(_)) | None => {
                Decision::new(Step::Release, Phase::Deleting("nothing is left".into(), None))
            }
        },
    }
}

/// Destroys what was built, once its Node is empty, or has had its time.
fn take_down(observed: &Observed, apply: &WorkspaceTemplateApply) -> Decision {
    let going = |end| {
        let standing = Standing::of(apply, None);
        let told = standing.deleting && !standing.under_way() && standing.reason != reasons::READY;
        let how = if told { format!(": {}", standing.message) } else { String::new() };
        let message = format!("waits for WorkspaceTemplateApply {} to go{how}", apply.name_any());
        Phase::Deleting(message, end)
    };
    if let Some(resumed) = owned_workspace::resumed(apply) {
        return Decision::new(Step::Change(Box::new(resumed)), going(None));
    }
    if apply.metadata.deletion_timestamp.is_some() {
        return rest(going(None));
    }
    let end = match observed.node.as_ref().map(node_drain::drained) {
        Some(Verdict::Ask(work, message)) => {
            return Decision::new(Step::Node(work), Phase::Draining(message));
        }
        Some(Verdict::Wait(again, message)) => {
            return Decision { step: Step::Rest, phase: Phase::Draining(message), again };
        }
        Some(Verdict::Over(end)) => Some(end),
        None => None,
    };
    Decision::new(Step::Delete(apply.uid().unwrap_or_default()), going(end))
}

#[cfg(test)]
mod tests;
