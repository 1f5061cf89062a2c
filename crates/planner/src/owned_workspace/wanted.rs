//! The workspace that an owner wants: its object, and what has to change of the one that is there.

use std::collections::BTreeMap;

use capt_api::names::{annotations, finalizers, labels};
use capt_api::refs::ObjectRef;
use capt_api::workspace::{VariablesFrom, WorkspaceTemplateApply, WorkspaceTemplateApplySpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::ResourceExt;

use super::Variables;
use crate::owner::is_controlled;

/// A workspace as its owner wants it.
#[derive(Clone, Debug, PartialEq)]
pub struct WantedWorkspace {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The template that it is an instance of.
    pub template: ObjectRef,
    /// Its inputs. The module need not declare them.
    pub variables: Variables,
    /// Names of its inputs that are defaults of the owner: a value of the template wins over them.
    pub defaults: Vec<&'static str>,
    /// References to secret inputs. The module need not declare them.
    pub secrets: Vec<VariablesFrom>,
    /// The cluster that it belongs to.
    pub cluster: Option<String>,
    /// Its controlling owner.
    pub owner: Option<OwnerReference>,
    /// Other fields that its owner decides; none: those are left to people.
    pub terms: Option<WorkspaceTerms>,
}

/// Fields of a workspace that its owner decides beside the inputs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WorkspaceTerms {
    /// The Secret that receives the outputs; none: that of the template.
    pub connection: Option<ObjectRef>,
    /// Workspaces that it builds upon: they are there before it, and go after it.
    pub after: Vec<ObjectRef>,
    /// Its infrastructure stays when it is deleted.
    pub retain: bool,
}

impl WorkspaceTerms {
    fn set(&self, spec: &mut WorkspaceTemplateApplySpec) {
        if self.connection.is_some() {
            spec.write_connection_secret_to_ref.clone_from(&self.connection);
        }
        spec.wait_for_workspaces.clone_from(&self.after);
        spec.retain_workspace_on_delete = self.retain;
    }
}

impl WantedWorkspace {
    /// The workspace as it is created. The finalizer is on it from the start: whatever happens after the create,
    /// nothing that it builds is forgotten.
    pub fn object(&self) -> WorkspaceTemplateApply {
        let mut spec = WorkspaceTemplateApplySpec {
            template_ref: self.template.clone(),
            variables: self.variables.clone(),
            variables_from: self.secrets.clone(),
            ..WorkspaceTemplateApplySpec::default()
        };
        if let Some(terms) = &self.terms {
            terms.set(&mut spec);
        }
        let mut object = WorkspaceTemplateApply::new(&self.name, spec);
        let cluster = self.cluster.iter().map(|cluster| (labels::CLUSTER_NAME.to_owned(), cluster.clone()));
        object.metadata = ObjectMeta {
            name: Some(self.name.clone()),
            namespace: Some(self.namespace.clone()),
            labels: Some(cluster.collect()),
            annotations: Some(self.notes().collect()),
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
        if let Some(terms) = &self.terms {
            terms.set(&mut changed.spec);
        }
        let notes = changed.metadata.annotations.get_or_insert_default();
        notes.remove(annotations::DEFAULT_VARIABLES);
        notes.extend(self.notes());
        if is_by_owner(notes) {
            notes.remove(annotations::PAUSED);
        }
        if let Some(cluster) = &self.cluster {
            let labels_now = changed.metadata.labels.get_or_insert_default();
            labels_now.insert(labels::CLUSTER_NAME.to_owned(), cluster.clone());
        }
        if !is_controlled(&existing.metadata) {
            changed.metadata.owner_references.get_or_insert_default().extend(self.owner.clone());
            if let Some(labels_now) = &mut changed.metadata.labels {
                labels_now.remove(labels::RETAINED);
            }
        }
        (changed != *existing).then_some(changed)
    }

    /// Annotations about its inputs.
    fn notes(&self) -> impl Iterator<Item = (String, String)> {
        let defaults = (!self.defaults.is_empty()).then(|| self.defaults.join(","));
        let defaults = defaults.map(|list| (annotations::DEFAULT_VARIABLES.to_owned(), list));
        [(annotations::OPTIONAL_VARIABLES.to_owned(), self.optional())].into_iter().chain(defaults)
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
    is_held(existing).then(|| {
        let mut changed = existing.clone();
        changed.metadata.annotations.get_or_insert_default().remove(annotations::PAUSED);
        changed
    })
}

/// A workspace that outlives its owner: no garbage collector takes it, and another owner can take it up.
pub fn retained(existing: &WorkspaceTemplateApply, owner: &ObjectMeta) -> WorkspaceTemplateApply {
    let mut changed = existing.clone();
    changed.spec.retain_workspace_on_delete = true;
    let uid = owner.uid.as_deref();
    changed.metadata.owner_references.get_or_insert_default().retain(|known| Some(known.uid.as_str()) != uid);
    let labels_now = changed.metadata.labels.get_or_insert_default();
    labels_now.insert(labels::RETAINED.to_owned(), "true".to_owned());
    let notes = changed.metadata.annotations.get_or_insert_default();
    if is_by_owner(notes) {
        notes.remove(annotations::PAUSED);
    }
    changed
}

/// Returns true if a workspace stands still with its owner.
pub fn is_held(existing: &WorkspaceTemplateApply) -> bool {
    is_by_owner(existing.annotations())
}

fn is_by_owner(notes: &BTreeMap<String, String>) -> bool {
    notes.get(annotations::PAUSED).is_some_and(|by| by == PAUSED_BY_OWNER)
}
