//! What to do next for a machine, and why. Pure.

use capt_api::conditions::reasons;
use capt_api::workspace::WorkspaceTemplateApply;
use kube::ResourceExt;

use super::observe::Observed;
use crate::child::{self, Kinship, Standing};

/// What to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Nothing.
    Rest,
    /// Make the workspace.
    Create,
    /// Replace the workspace by this.
    Change(Box<WorkspaceTemplateApply>),
    /// Hand on what the workspace built: the providerID.
    Hand,
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
    /// It is on its way out, and what it waits for.
    Deleting(String),
}

/// What to do, and how things stand.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// What to do.
    pub step: Step,
    /// How things stand.
    pub phase: Phase,
}

/// Decides.
pub fn decide(observed: &Observed) -> Decision {
    let kinship = observed.workspace.as_ref().map(|apply| child::kinship(apply, observed.object.as_ref()));
    if observed.external && !(observed.deleting && observed.finalizer) {
        return Decision { step: Step::Rest, phase: Phase::External };
    }
    if let Some(by) = &observed.paused {
        let ours = observed.workspace.as_deref().filter(|_| kinship == Some(Kinship::Ours));
        let step = match ours.and_then(child::paused) {
            Some(changed) => Step::Change(Box::new(changed)),
            None => Step::Rest,
        };
        return Decision { step, phase: Phase::Paused(by.clone()) };
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
            let message = format!("WorkspaceTemplateApply {} belongs to another", apply.name_any());
            rest(Phase::Waiting(reasons::NAME_TAKEN, message))
        }
        (None, _) => match waits_for_group(observed) {
            Some(message) => rest(Phase::Waiting(reasons::WAITING_FOR_NODE_GROUP, message)),
            None => Decision {
                step: Step::Create,
                phase: Phase::Workspace(Standing {
                    reason: reasons::CREATING.into(),
                    message: format!("workspace {} is made", observed.wanted.name.name),
                    ..Standing::default()
                }),
            },
        },
    }
}

fn rest(phase: Phase) -> Decision {
    Decision { step: Step::Rest, phase }
}

/// Keeps the workspace in step. While the group is not ready its outputs may be missing: then nothing changes.
fn in_step(observed: &Observed, apply: &WorkspaceTemplateApply) -> Decision {
    let before = observed.status.as_ref().and_then(|status| status.failure_reason.as_deref());
    let standing = Standing::of(apply, before);
    let step = if standing.deleting || waits_for_group(observed).is_some() {
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
    Decision { step, phase: Phase::Workspace(standing) }
}

fn waits_for_group(observed: &Observed) -> Option<String> {
    let group = observed.group.as_ref()?;
    if group.metadata.deletion_timestamp.is_some() && observed.workspace.is_none() {
        return Some(format!("NodeGroup {} is being deleted", group.name_any()));
    }
    let ready = group.status.as_ref().is_some_and(|status| status.ready);
    (!ready).then(|| format!("NodeGroup {} is not ready", group.name_any()))
}

/// The workspace goes first; a machine that nobody's work depends on goes at once.
fn end(observed: &Observed, kinship: Option<Kinship>) -> Decision {
    if !observed.finalizer {
        return rest(Phase::External);
    }
    let going = |apply: &WorkspaceTemplateApply| {
        let standing = Standing::of(apply, None);
        let told = standing.deleting && !standing.under_way() && standing.reason != reasons::READY;
        let how = if told { format!(": {}", standing.message) } else { String::new() };
        Phase::Deleting(format!("waits for WorkspaceTemplateApply {} to go{how}", apply.name_any()))
    };
    match &observed.workspace {
        Some(apply) if kinship == Some(Kinship::Ours) && !observed.orphans() && !observed.external => {
            let step = match child::resumed(apply) {
                Some(resumed) => Step::Change(Box::new(resumed)),
                None if apply.metadata.deletion_timestamp.is_some() => Step::Rest,
                None => Step::Delete(apply.uid().unwrap_or_default()),
            };
            Decision { step, phase: going(apply) }
        }
        _ => Decision { step: Step::Release, phase: Phase::Deleting("nothing is left".into()) },
    }
}

#[cfg(test)]
mod tests;
