//! Machines as a set makes them.

use std::collections::BTreeMap;

use capt_api::machine::{CaptMachine, CaptMachineSet, CaptMachineSpec};
use capt_api::names::{annotations, finalizers, labels};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::{names, owner, template};

/// The machine of a number: the same object whenever it is asked for.
pub fn machine(set: &CaptMachineSet, number: i64) -> CaptMachine {
    let name = names::machine_name(set.metadata.name.as_deref().unwrap_or_default(), number);
    let (labels, annotations) = metadata(set);
    let mut machine =
        CaptMachine::new(&name, CaptMachineSpec { provider_id: None, ..set.spec.template.spec.clone() });
    machine.metadata = ObjectMeta {
        name: Some(name),
        namespace: set.metadata.namespace.clone(),
        labels: Some(labels),
        annotations: Some(annotations),
        finalizers: Some(vec![finalizers::MACHINE.to_owned()]),
        owner_references: Some(vec![owner::reference("CaptMachineSet", &set.metadata)]),
        ..ObjectMeta::default()
    };
    machine
}

/// What every machine of the set should have without being replaced: labels, annotations, and these fields of `spec`.
/// A server-side apply of it under one field manager also takes away what the template dropped.
pub fn in_place_update(set: &CaptMachineSet) -> serde_json::Value {
    let (labels, annotations) = metadata(set);
    let spec = &set.spec.template.spec;
    let mut value = serde_json::json!({
        "metadata": { "labels": labels, "annotations": annotations },
        "spec": { "labels": spec.labels, "tags": spec.tags, "paused": spec.paused },
    });
    if let Some(seconds) = spec.node_drain_timeout_seconds {
        value["spec"]["nodeDrainTimeoutSeconds"] = seconds.into();
    }
    if let Some(config) = &spec.node_group_config {
        value["spec"]["nodeGroupConfig"] = serde_json::json!({ "scaling": config.scaling });
    }
    value
}

fn metadata(set: &CaptMachineSet) -> (BTreeMap<String, String>, BTreeMap<String, String>) {
    let template = &set.spec.template;
    let mut all_labels = template.metadata.labels.clone();
    let own = set.metadata.labels.as_ref();
    for key in [labels::CLUSTER_NAME, labels::DEPLOYMENT_NAME] {
        if let Some(value) = own.and_then(|own| own.get(key)) {
            all_labels.entry(key.to_owned()).or_insert_with(|| value.clone());
        }
    }
    if let Some(group) = template.spec.node_group_label() {
        all_labels.insert(labels::NODE_GROUP_NAME.to_owned(), group.to_owned());
    }
    all_labels.insert(labels::SET_NAME.to_owned(), set.metadata.name.clone().unwrap_or_default());
    let mut all_annotations = template.metadata.annotations.clone();
    all_annotations.insert(annotations::IN_PLACE_HASH.to_owned(), template::in_place_hash(template));
    (all_labels, all_annotations)
}

/// Whether a machine has what its set's template says, `hash` being the template's.
pub(super) fn is_up_to_date(machine: &CaptMachine, set: &CaptMachineSet, hash: &str) -> bool {
    let marked = machine
        .metadata
        .annotations
        .as_ref()
        .and_then(|all| all.get(annotations::IN_PLACE_HASH))
        .is_some_and(|marked| marked == hash);
    marked && fully_labeled(machine, set)
}

/// Whether a machine has all labels of its set's template.
pub(super) fn fully_labeled(machine: &CaptMachine, set: &CaptMachineSet) -> bool {
    let own = machine.metadata.labels.as_ref();
    set.spec
        .template
        .metadata
        .labels
        .iter()
        .all(|(key, value)| own.and_then(|own| own.get(key)) == Some(value))
}
