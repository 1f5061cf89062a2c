//! What both machines look at: the Cluster, and the workspace.

use capt_api::cluster::WorkspaceSummary;
use capt_api::refs::{Endpoint, ObjectRef};
use capt_api::workspace::WorkspaceTemplateApply;
use kube::ResourceExt;

use crate::workspace::{Kinship, Standing};

/// The Cluster that an object belongs to.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Owner {
    /// No owner reference yet.
    Awaited,
    /// The owner reference names a Cluster that is not there.
    Missing(String),
    /// It is there.
    Found(Box<Cluster>),
}

impl Owner {
    /// Name of the Cluster, there or not.
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::Awaited => None,
            Self::Missing(name) => Some(name),
            Self::Found(cluster) => Some(&cluster.name),
        }
    }

    /// The Cluster, if it is there.
    pub fn cluster(&self) -> Option<&Cluster> {
        match self {
            Self::Found(cluster) => Some(cluster),
            Self::Awaited | Self::Missing(_) => None,
        }
    }
}

/// What matters of a Cluster API Cluster, of whatever version.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Cluster {
    /// Its name.
    pub name: String,
    /// It is on its way out.
    pub deleting: bool,
    /// The annotation with the region.
    pub region: Option<String>,
    /// `spec.infrastructureRef`.
    pub infrastructure: Option<Reference>,
    /// `spec.controlPlaneRef`.
    pub control_plane: Option<Reference>,
    /// `spec.controlPlaneEndpoint`, where it is filled in.
    pub endpoint: Option<Endpoint>,
    /// Its infrastructure is provisioned, as its status says.
    pub provisioned: bool,
}

/// A reference to an object beside the Cluster.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Reference {
    /// API group.
    pub group: String,
    /// Kind.
    pub kind: String,
    /// Name.
    pub name: String,
}

impl Reference {
    /// Whether it names an object of this group and kind.
    pub fn is(&self, group: &str, kind: &str) -> bool {
        self.group == group && self.kind == kind
    }
}

/// The object of the workspace's name, as its would-be owner sees it.
#[allow(clippy::struct_excessive_bools, reason = "four facts, each of its own")]
#[derive(Clone, Debug, PartialEq)]
pub struct Workspace {
    /// Its name.
    pub name: String,
    /// Whose it is.
    pub kinship: Kinship,
    /// It is an instance of the template that is wanted.
    pub same_template: bool,
    /// It is not what it should be.
    pub differs: bool,
    /// It stands still with its owner.
    pub held: bool,
    /// A run of it is under way.
    pub running: bool,
    /// What it says of itself.
    pub standing: Standing,
    /// The same, as the owner's status tells it.
    pub summary: WorkspaceSummary,
}

impl Workspace {
    /// Reads a workspace. `before` is the failure that its owner reported last.
    pub fn read(
        apply: &WorkspaceTemplateApply,
        kinship: Kinship,
        template: &ObjectRef,
        before: Option<&str>,
    ) -> Self {
        let standing = Standing::of(apply, before);
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
            kinship,
            same_template: apply.spec.template_ref == *template,
            differs: false,
            held: false,
            running: status.progress.is_some(),
            standing,
            summary,
        }
    }

    /// Whether it is the owner's, or was left behind and can be.
    pub fn usable(&self) -> bool {
        self.kinship == Kinship::Ours || (self.kinship == Kinship::Orphan && self.same_template)
    }

    /// Whether it is the owner's.
    pub fn ours(&self) -> bool {
        self.kinship == Kinship::Ours
    }

    /// Whether what it should be is built.
    pub fn built(&self) -> bool {
        self.standing.built && !self.differs
    }
}
