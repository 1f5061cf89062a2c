//! The owner of one workspace: what a network, a control plane, a machine or a node group does next for the
//! WorkspaceTemplateApply that builds it.
//!
//! ```text
//! WorkspaceOwner -> Lifecycle (whose it is, paused, alive, leaving)
//! Intent + OwnedWorkspace -> OwnerStep (hold, create, correct, pause, resume, delete, retain, release)
//! ```
//!
//! The conditions of its start, and further steps, each kind decides itself; the steps for the workspace are decided here.

mod standing;
mod wanted;

use std::collections::BTreeMap;

use capt_api::cluster::WorkspaceSummary;
use capt_api::conditions::reasons;
use capt_api::refs::ObjectRef;
use capt_api::workspace::WorkspaceTemplateApply;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;
use serde_json::Value;

pub use crate::owner::{Kinship, kinship};
pub use standing::{WorkspaceFailure, WorkspaceStanding};
pub use wanted::{WantedWorkspace, WorkspaceTerms, is_held, paused, resumed, retained};

#[cfg(test)]
mod tests;

/// Finalizer of the garbage collector for `--cascade=orphan`.
const ORPHAN: &str = "orphan";

/// Inputs of a module, or its outputs.
pub type Variables = BTreeMap<String, Value>;

/// The object of the workspace's name, as its would-be owner sees it.
#[allow(clippy::struct_excessive_bools, reason = "four facts, each of its own")]
#[derive(Clone, Debug, PartialEq)]
pub struct OwnedWorkspace {
    /// Its name.
    pub name: String,
    /// Its relation to the owner.
    pub kinship: Kinship,
    /// It is an instance of the template that is wanted.
    pub same_template: bool,
    /// It is not what it should be.
    pub differs: bool,
    /// It stands still with its owner.
    pub held: bool,
    /// A run of it is under way.
    pub running: bool,
    /// Its state, as it says itself.
    pub standing: WorkspaceStanding,
    /// The same, as the owner's status tells it.
    pub summary: WorkspaceSummary,
}

impl OwnedWorkspace {
    /// Reads a workspace. `before` is the failure that its owner reported last.
    pub fn read(
        apply: &WorkspaceTemplateApply,
        owner: &ObjectMeta,
        template: &ObjectRef,
        wanted: Option<&WantedWorkspace>,
        before: Option<&str>,
    ) -> Self {
        let standing = WorkspaceStanding::of(apply, before);
        let status = apply.status.clone().unwrap_or_default();
        let summary = WorkspaceSummary {
            ready: standing.built,
            state: Some(standing.reason.clone()),
            workspace_name: status.workspace_name,
            last_applied_time: status.last_applied_time,
            last_applied_revision: status.last_applied_revision,
            last_failed_revision: status.last_failed_revision,
            last_failure_message: status.last_failure_message,
            outputs: status.outputs,
        };
        Self {
            name: apply.name_any(),
            kinship: kinship(&apply.metadata, owner),
            same_template: apply.spec.template_ref == *template,
            differs: wanted.is_some_and(|wanted| wanted.correction(apply).is_some()),
            held: is_held(apply),
            running: status.progress.is_some(),
            standing,
            summary,
        }
    }

    /// Returns true if it is the owner's, or was left behind and can be.
    pub fn usable(&self) -> bool {
        self.kinship == Kinship::Ours || (self.kinship == Kinship::Orphan && self.same_template)
    }

    /// Returns true if it is the owner's.
    pub fn ours(&self) -> bool {
        self.kinship == Kinship::Ours
    }

    /// Returns true if what it should be is built.
    pub fn built(&self) -> bool {
        self.standing.built && !self.differs
    }

    /// Message for an owner whose workspace cannot have its name.
    pub fn name_taken(&self) -> String {
        format!("WorkspaceTemplateApply {} is controlled by another object", self.name)
    }

    /// Message for an owner that waits for the end of it. Its own message is added where a run does not go its way.
    pub fn waits_to_go(&self) -> String {
        let standing = &self.standing;
        let told = standing.deleting && !standing.under_way() && standing.reason != reasons::READY;
        let how = if told { format!(": {}", standing.message) } else { String::new() };
        format!("waits for WorkspaceTemplateApply {} to go{how}", self.name)
    }
}

/// Message for an owner whose workspace is about to be created.
pub fn builds(workspace: &str) -> String {
    format!("workspace {workspace} builds it")
}

/// An owner, as far as its workspace depends on it.
#[allow(clippy::struct_excessive_bools, reason = "four facts, each of its own")]
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct WorkspaceOwner<'a> {
    /// It is on its way out.
    pub deleting: bool,
    /// Our finalizer is on it, and whatever else is written with that.
    pub held: bool,
    /// It was deleted with `--cascade=orphan`: what it owns stays.
    pub orphans: bool,
    /// Another system takes care of it.
    pub external: bool,
    /// The reason that it is paused.
    pub paused: Option<&'a str>,
}

/// Stage of an owner's life.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Lifecycle<'a> {
    /// Another system takes care of it.
    External,
    /// It is paused, for this reason.
    Paused(&'a str),
    /// It is on its way out, and our finalizer is off.
    Gone,
    /// It is on its way out.
    Leaving,
    /// It is to be there.
    Alive,
}

/// State of the workspace that its owner wants now.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Intent {
    /// It stands still.
    Pause,
    /// It is there, and as it is wanted.
    Keep {
        /// Everything that it is made of is known; else it is neither created nor corrected.
        complete: bool,
    },
    /// It goes, with what it built; then the owner.
    Destroy,
    /// It stays, with what it built; the owner goes.
    Retain,
    /// The owner goes. The workspace is none of its business, or the garbage collector cuts it loose.
    Release,
}

/// The one thing that an owner does next for its workspace. What follows is decided again, from what is then observed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum OwnerStep {
    /// Nothing.
    Rest,
    /// Puts our finalizer on the owner.
    Hold,
    /// Puts our finalizer on the owner, then creates its workspace.
    Create,
    /// Brings the workspace to what is wanted; it goes on with its owner.
    Correct,
    /// Stops the workspace with the owner.
    Pause,
    /// Lets the workspace go on with the owner.
    Resume,
    /// Deletes the workspace.
    Delete,
    /// Cuts the workspace loose, so that it stays.
    Retain,
    /// Takes our finalizer off the owner.
    Release,
}

impl<'a> WorkspaceOwner<'a> {
    /// Reads an object that may have our finalizer.
    pub fn read(meta: &ObjectMeta, finalizer: &str, external: bool, paused: Option<&'a str>) -> Self {
        let has = |wanted: &str| meta.finalizers.iter().flatten().any(|known| known == wanted);
        Self {
            deleting: meta.deletion_timestamp.is_some(),
            held: has(finalizer),
            orphans: has(ORPHAN),
            external,
            paused,
        }
    }

    /// Stage of its life. An external one that we have built something for is still released by us.
    pub fn lifecycle(&self) -> Lifecycle<'a> {
        match *self {
            Self { external: true, deleting: false, .. } | Self { external: true, held: false, .. } => {
                Lifecycle::External
            }
            Self { paused: Some(by), .. } => Lifecycle::Paused(by),
            Self { deleting: true, held: false, .. } => Lifecycle::Gone,
            Self { deleting: true, .. } => Lifecycle::Leaving,
            _ => Lifecycle::Alive,
        }
    }

    /// Returns true if it goes without its workspace, and so waits for nobody.
    pub fn leaves_all(&self) -> bool {
        self.orphans || self.external
    }

    /// The intent of one that leaves. The garbage collector cuts orphans loose itself.
    pub fn parting(&self, retain: bool) -> Intent {
        match self {
            _ if self.leaves_all() => Intent::Release,
            _ if retain => Intent::Retain,
            _ => Intent::Destroy,
        }
    }

    /// Decides the next step for its workspace.
    pub fn next(&self, intent: Intent, workspace: Option<&OwnedWorkspace>) -> OwnerStep {
        let ours = workspace.filter(|workspace| workspace.ours());
        match (intent, ours) {
            (Intent::Pause, Some(workspace)) if !workspace.held => OwnerStep::Pause,
            (Intent::Pause, _) => OwnerStep::Rest,
            (Intent::Keep { complete }, _) => self.keep(complete, workspace),
            (Intent::Destroy, Some(workspace)) if workspace.held => OwnerStep::Resume,
            (Intent::Destroy, Some(workspace)) if workspace.standing.deleting => OwnerStep::Rest,
            (Intent::Destroy, Some(_)) => OwnerStep::Delete,
            (Intent::Retain, Some(workspace)) if !workspace.standing.deleting => OwnerStep::Retain,
            (Intent::Destroy | Intent::Retain | Intent::Release, _) => OwnerStep::Release,
        }
    }

    fn keep(&self, complete: bool, workspace: Option<&OwnedWorkspace>) -> OwnerStep {
        match workspace {
            None if complete => OwnerStep::Create,
            Some(workspace) if !workspace.usable() => OwnerStep::Rest,
            // Before one that was left behind is adopted: the owner must not go before it again.
            Some(_) if !self.held => OwnerStep::Hold,
            Some(workspace) if workspace.standing.deleting => OwnerStep::Rest,
            // One write for both: a run with outdated inputs between them would be in vain.
            Some(workspace) if workspace.differs && complete => OwnerStep::Correct,
            Some(workspace) if workspace.held => OwnerStep::Resume,
            Some(_) | None => OwnerStep::Rest,
        }
    }
}

/// Message for an owner that leaves.
pub fn parting_message(intent: Intent, workspace: Option<&OwnedWorkspace>) -> String {
    match workspace.filter(|workspace| workspace.ours()) {
        Some(workspace) if intent == Intent::Destroy => workspace.waits_to_go(),
        Some(workspace) => format!("WorkspaceTemplateApply {} stays", workspace.name),
        None => "nothing is left".to_owned(),
    }
}

impl OwnerStep {
    /// Returns the fields that the step writes, for documentation.
    pub fn writes(self) -> &'static str {
        match self {
            Self::Rest => "-",
            Self::Hold => "own finalizer",
            Self::Create => "own finalizer; workspace: created",
            Self::Correct => "workspace: spec",
            Self::Pause => "workspace: paused",
            Self::Resume => "workspace: not paused",
            Self::Delete => "workspace: deleted",
            Self::Retain => "workspace: no owner, label `retained`",
            Self::Release => "own finalizer taken off",
        }
    }
}
