//! The one workspace that a machine or a node group owns: how it is made, kept in step, and read.

use std::collections::BTreeMap;

use capt_api::conditions::{reasons, types};
use capt_api::names::{annotations, finalizers, labels};
use capt_api::refs::ObjectRef;
use capt_api::workspace::{VariablesFrom, WorkspaceTemplateApply, WorkspaceTemplateApplySpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::ResourceExt;
use serde_json::Value;

use super::context::controller_uid;
use crate::runtime::conditions::find;
use crate::runtime::{Kind, Name};

/// Inputs of a module.
pub type Variables = BTreeMap<String, Value>;

/// A reference to a controlling owner.
pub fn owner<K: Kind>(parent: &K) -> Option<OwnerReference> {
    let mut owner = parent.controller_owner_ref(&())?;
    owner.block_owner_deletion = Some(true);
    Some(owner)
}

/// How the object of the workspace's name stands to the one that needs it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kinship {
    /// It is the one.
    Ours,
    /// Nobody controls it: it was left behind, or made by hand.
    Orphan,
    /// Somebody else controls it.
    Foreign,
}

/// How a workspace stands to an object.
pub fn kinship<K: Kind>(apply: &WorkspaceTemplateApply, parent: &K) -> Kinship {
    match controller_uid(apply) {
        None => Kinship::Orphan,
        Some(uid) if parent.meta().uid.as_deref() == Some(uid) => Kinship::Ours,
        Some(_) => Kinship::Foreign,
    }
}

/// What a workspace should be.
#[derive(Clone, Debug, PartialEq)]
pub struct Wanted {
    /// Its name.
    pub name: Name,
    /// The template that it is an instance of.
    pub template: ObjectRef,
    /// Its inputs. The module need not declare them.
    pub variables: Variables,
    /// Inputs that are secret: where they are. The module need not declare them.
    pub secrets: Vec<VariablesFrom>,
    /// The cluster that it belongs to.
    pub cluster: Option<String>,
    /// Who owns it.
    pub owner: Option<OwnerReference>,
}

impl Wanted {
    /// The workspace as it is created. The finalizer is on it from the start: whatever happens after the create,
    /// nothing that it builds is forgotten.
    pub fn object(&self) -> WorkspaceTemplateApply {
        let spec = WorkspaceTemplateApplySpec {
            template_ref: self.template.clone(),
            variables: self.variables.clone(),
            variables_from: self.secrets.clone(),
            ..WorkspaceTemplateApplySpec::default()
        };
        let mut object = WorkspaceTemplateApply::new(&self.name.name, spec);
        let cluster = self.cluster.iter().map(|cluster| (labels::CLUSTER_NAME.to_owned(), cluster.clone()));
        object.metadata = ObjectMeta {
            name: Some(self.name.name.clone()),
            namespace: Some(self.name.namespace.clone()),
            labels: Some(cluster.collect()),
            annotations: Some([(annotations::OPTIONAL_VARIABLES.to_owned(), self.optional())].into()),
            finalizers: Some(vec![finalizers::WORKSPACE_TEMPLATE_APPLY.to_owned()]),
            owner_references: Some(self.owner.iter().cloned().collect()),
            ..ObjectMeta::default()
        };
        object
    }

    /// The workspace as it should be now; none where it is. What people set on it besides stays.
    pub fn correction(&self, existing: &WorkspaceTemplateApply) -> Option<WorkspaceTemplateApply> {
        let mut changed = existing.clone();
        changed.spec.variables.clone_from(&self.variables);
        if !self.secrets.is_empty() {
            changed.spec.variables_from.clone_from(&self.secrets);
        }
        let notes = changed.metadata.annotations.get_or_insert_default();
        notes.insert(annotations::OPTIONAL_VARIABLES.to_owned(), self.optional());
        if notes.get(annotations::PAUSED).is_some_and(|by| by == PAUSED_BY_OWNER) {
            notes.remove(annotations::PAUSED);
        }
        if let Some(cluster) = &self.cluster {
            let labels_now = changed.metadata.labels.get_or_insert_default();
            labels_now.insert(labels::CLUSTER_NAME.to_owned(), cluster.clone());
        }
        if controller_uid(existing).is_none() {
            changed.metadata.owner_references.get_or_insert_default().extend(self.owner.clone());
        }
        (changed != *existing).then_some(changed)
    }

    fn optional(&self) -> String {
        let secret = self.secrets.iter().flat_map(|from| from.map.keys());
        self.variables.keys().chain(secret).map(String::as_str).collect::<Vec<_>>().join(",")
    }
}

/// Value of the annotation that pauses a workspace with its owner; a person's own has another.
const PAUSED_BY_OWNER: &str = "owner";

/// A workspace that stands still with its owner; none where it does.
pub fn paused(existing: &WorkspaceTemplateApply) -> Option<WorkspaceTemplateApply> {
    if existing.annotations().contains_key(annotations::PAUSED) {
        return None;
    }
    let mut changed = existing.clone();
    let notes = changed.metadata.annotations.get_or_insert_default();
    notes.insert(annotations::PAUSED.to_owned(), PAUSED_BY_OWNER.to_owned());
    Some(changed)
}

/// A workspace that goes on with its owner; none where nothing of the owner's stops it.
pub fn resumed(existing: &WorkspaceTemplateApply) -> Option<WorkspaceTemplateApply> {
    let by_owner = existing.annotations().get(annotations::PAUSED).is_some_and(|by| by == PAUSED_BY_OWNER);
    by_owner.then(|| {
        let mut changed = existing.clone();
        changed.metadata.annotations.get_or_insert_default().remove(annotations::PAUSED);
        changed
    })
}

/// What a workspace says of itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Standing {
    /// Its current inputs are applied.
    pub built: bool,
    /// It is on its way out.
    pub deleting: bool,
    /// One word for how it is.
    pub reason: String,
    /// The same in a sentence.
    pub message: String,
    /// Its last run failed, and it was the module's or the provider's doing.
    pub failure: Option<Failure>,
    /// Something was built.
    pub stands: bool,
    /// What everybody may see of its outputs.
    pub outputs: Variables,
}

/// How a run failed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Failure {
    /// One word for it.
    pub reason: String,
    /// The same in a sentence.
    pub message: String,
    /// Nothing happens until a person changes something.
    pub stalled: bool,
}

/// Faults of the world around a run: they pass, and say nothing about what is being built.
const PASSING: [&str; 8] =
    ["Network", "Throttled", "Credentials", "StateLocked", "DiskFull", "Killed", "PlanStale", "Cancelled"];
/// What a workspace does between two runs that fail.
const UNDER_WAY: [&str; 5] =
    [reasons::QUEUED, reasons::PLANNING, reasons::APPLYING, reasons::REFRESHING, reasons::DESTROYING];

impl Standing {
    /// Reads a workspace. `before` is the failure that was reported last: it counts until a run has succeeded, also
    /// while the next one is under way.
    pub fn of(apply: &WorkspaceTemplateApply, before: Option<&str>) -> Self {
        let deleting = apply.metadata.deletion_timestamp.is_some();
        let Some(status) = &apply.status else {
            return Self {
                deleting,
                reason: reasons::CREATING.into(),
                message: format!("workspace {} is new", apply.name_any()),
                ..Self::default()
            };
        };
        let current = status.observed_generation == apply.metadata.generation;
        let ready = find(&status.conditions, types::READY);
        let reason = ready.map_or_else(String::new, |ready| ready.reason.clone());
        let message = ready.map_or_else(String::new, |ready| ready.message.clone());
        let built = current && !deleting && ready.is_some_and(|ready| ready.status == "True");
        let stalled = find(&status.conditions, types::STALLED);
        let failed = |reason: &str, message: &str, stalled| Failure {
            reason: reason.to_owned(),
            message: message.to_owned(),
            stalled,
        };
        let failure = match (stalled, &status.last_failure_message) {
            _ if built => None,
            (Some(stalled), _) => Some(failed(&stalled.reason, &stalled.message, true)),
            (None, None) => None,
            (None, Some(_)) if PASSING.contains(&reason.as_str()) => None,
            (None, Some(failure)) if UNDER_WAY.contains(&reason.as_str()) => {
                before.map(|before| failed(before, failure, false))
            }
            (None, Some(failure)) => Some(failed(&reason, failure, false)),
        };
        Self {
            built,
            deleting,
            failure,
            stands: status.last_applied_revision.is_some(),
            outputs: status.outputs.clone(),
            reason: if reason.is_empty() { reasons::CREATING.to_owned() } else { reason },
            message,
        }
    }

    /// Whether a run goes its way: how far it is, the workspace itself tells.
    pub fn under_way(&self) -> bool {
        self.reason == reasons::CREATING || UNDER_WAY.contains(&self.reason.as_str())
    }

    /// An output that is text.
    pub fn text(&self, output: &str) -> Option<String> {
        self.outputs.get(output)?.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
    }
}
