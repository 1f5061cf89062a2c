//! Sets as a deployment makes them.

use capt_api::machine::{CaptMachineDeployment, CaptMachineSet, CaptMachineSetSpec, MachineTemplate};
use capt_api::names::{annotations, finalizers, labels};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::owner::{Kinship, kinship};
use crate::template::same_machine;
use crate::{names, owner};

/// The set of a revision: the same object whenever it is asked for.
pub fn set(deployment: &CaptMachineDeployment, hash: &str, revision: i64, replicas: i32) -> CaptMachineSet {
    let parent = &deployment.metadata;
    let parent_name = parent.name.clone().unwrap_or_default();
    let template = template(deployment, hash);
    let mut selector = deployment.spec.selector.clone();
    selector.match_labels.get_or_insert_default().insert(labels::TEMPLATE_HASH.to_owned(), hash.to_owned());
    let mut set_labels = template.metadata.labels.clone();
    if let Some(cluster) = parent.labels.as_ref().and_then(|all| all.get(labels::CLUSTER_NAME)) {
        set_labels.insert(labels::CLUSTER_NAME.to_owned(), cluster.clone());
    }
    set_labels.insert(labels::DEPLOYMENT_NAME.to_owned(), parent_name.clone());
    let name = names::set_name(&parent_name, hash);
    let spec = CaptMachineSetSpec {
        replicas,
        selector,
        template,
        min_ready_seconds: deployment.spec.min_ready_seconds,
        delete_policy: deployment.spec.delete_policy,
    };
    let mut set = CaptMachineSet::new(&name, spec);
    set.metadata = ObjectMeta {
        name: Some(name),
        namespace: parent.namespace.clone(),
        labels: Some(set_labels),
        annotations: Some(
            [
                (annotations::REVISION.to_owned(), revision.to_string()),
                (annotations::DESIRED_REPLICAS.to_owned(), deployment.spec.replicas.to_string()),
            ]
            .into(),
        ),
        finalizers: Some(vec![finalizers::MACHINE_SET.to_owned()]),
        owner_references: Some(vec![owner::reference("CaptMachineDeployment", parent)]),
        ..ObjectMeta::default()
    };
    set
}

/// Returns true if a set that has the name of a new one is that one, made before, and not another whose hash is equal.
pub fn is_same_set(deployment: &CaptMachineDeployment, existing: &CaptMachineSet) -> bool {
    kinship(&existing.metadata, &deployment.metadata) == Kinship::Ours
        && existing.metadata.deletion_timestamp.is_none()
        && same_machine(&existing.spec.template, &deployment.spec.template)
}

/// The deployment's template with the label that keeps its sets apart.
pub(super) fn template(deployment: &CaptMachineDeployment, hash: &str) -> MachineTemplate {
    let mut template = deployment.spec.template.clone();
    template.metadata.labels.insert(labels::TEMPLATE_HASH.to_owned(), hash.to_owned());
    template
}
