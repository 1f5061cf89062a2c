//! What to do next for a group, and why. Pure.

use capt_api::conditions::reasons;
use capt_api::workspace::WorkspaceTemplateApply;
use kube::ResourceExt;

use super::super::context::few;
use super::Observed;
use crate::owned_workspace::{self, Kinship, Standing};

/// What to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Nothing.
    Rest,
    /// Put the finalizer on.
    Hold,
    /// Make the workspace.
    Create,
    /// Replace the workspace by this.
    Change(Box<WorkspaceTemplateApply>),
    /// Delete the workspace that has this uid.
    Delete(String),
    /// Let the group go, once nothing of it is left.
    Release,
}

/// How the group stands.
#[derive(Clone, Debug, PartialEq)]
pub enum Phase {
    /// Nothing is done, and why.
    Paused(String),
    /// It exists; nothing is built.
    Exists,
    /// Its name is another's.
    Blocked(String),
    /// How its workspace is.
    Workspace(Standing),
    /// It is on its way out: a word, and what it waits for.
    Deleting(&'static str, String),
    /// It is gone as far as we are concerned.
    Gone,
}

/// What to do, and how things stand.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// What to do.
    pub step: Step,
    /// The phase.
    pub phase: Phase,
}

/// Decides.
pub fn decide(observed: &Observed) -> Decision {
    let kinship =
        observed.workspace.as_ref().map(|apply| owned_workspace::kinship(apply, observed.object.as_ref()));
    let ours = observed.workspace.as_deref().filter(|_| kinship == Some(Kinship::Ours));
    let rest = |phase| Decision { step: Step::Rest, phase };
    if let Some(by) = &observed.paused {
        let step =
            ours.and_then(owned_workspace::paused).map_or(Step::Rest, |apply| Step::Change(Box::new(apply)));
        return Decision { step, phase: Phase::Paused(by.clone()) };
    }
    if observed.object.metadata.deletion_timestamp.is_some() {
        return end(observed, ours);
    }
    let Some(wanted) = &observed.wanted else {
        let step = if observed.finalizer { Step::Rest } else { Step::Hold };
        return Decision { step, phase: Phase::Exists };
    };
    let (Some(apply), Some(kinship)) = (&observed.workspace, kinship) else {
        let reason = reasons::CREATING.to_owned();
        let standing =
            Standing { reason, message: "its workspace is being built".into(), ..Standing::default() };
        return Decision { step: Step::Create, phase: Phase::Workspace(standing) };
    };
    let left_behind = kinship == Kinship::Orphan && apply.spec.template_ref == wanted.template;
    if kinship != Kinship::Ours && !left_behind {
        let message = format!("WorkspaceTemplateApply {} is controlled by another object", apply.name_any());
        return rest(Phase::Blocked(message));
    }
    let before = observed.status.as_ref().and_then(|status| status.failure_reason.as_deref());
    let standing = Standing::of(apply, before);
    let changed = wanted.correction(apply).filter(|_| !standing.deleting);
    let step = changed.map_or(Step::Rest, |changed| Step::Change(Box::new(changed)));
    Decision { step, phase: Phase::Workspace(standing) }
}

/// Members leave first, then the workspace goes.
fn end(observed: &Observed, ours: Option<&WorkspaceTemplateApply>) -> Decision {
    let rest = |phase| Decision { step: Step::Rest, phase };
    if !observed.finalizer {
        return rest(Phase::Gone);
    }
    let orphans = observed.object.finalizers().iter().any(|known| known == "orphan");
    if !observed.leaving.is_empty() && !orphans {
        let message = format!("waits until CaptMachine {} has left", few(&observed.leaving));
        return rest(Phase::Deleting(reasons::IN_USE, message));
    }
    match ours.filter(|_| !orphans) {
        Some(apply) => {
            let standing = Standing::of(apply, None);
            let told = standing.deleting && !standing.under_way() && standing.reason != reasons::READY;
            let how = if told { format!(": {}", standing.message) } else { String::new() };
            let message = format!("waits for WorkspaceTemplateApply {} to go{how}", apply.name_any());
            let step = match owned_workspace::resumed(apply) {
                Some(resumed) => Step::Change(Box::new(resumed)),
                None if standing.deleting => Step::Rest,
                None => Step::Delete(apply.uid().unwrap_or_default()),
            };
            Decision { step, phase: Phase::Deleting(reasons::DELETING, message) }
        }
        None => Decision {
            step: Step::Release,
            phase: Phase::Deleting(reasons::DELETING, "nothing is left".into()),
        },
    }
}
