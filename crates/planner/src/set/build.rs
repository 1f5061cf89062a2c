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

/// Builds the fields that every machine of the set should have without being replaced: labels, annotations, and these of `spec`.
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
        let mut part = serde_json::json!({ "scaling": config.scaling });
        if let Some(update) = &config.update_config {
            part["updateConfig"] = serde_json::json!(update);
        }
        for (name, map) in [("labels", &config.labels), ("tags", &config.tags)] {
            if !map.is_empty() {
                part[name] = serde_json::json!(map);
            }
        }
        value["spec"]["nodeGroupConfig"] = part;
    }
    if let Some(scaling) = &spec.scaling {
        value["spec"]["scaling"] = serde_json::json!(scaling);
    }
    if !spec.taints.is_empty() {
        value["spec"]["taints"] = serde_json::json!(spec.taints);
    }
    if !spec.additional_tags.is_empty() {
        value["spec"]["additionalTags"] = serde_json::json!(spec.additional_tags);
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

/// Returns true if the machine was last updated from the template of this hash.
pub(super) fn is_marked(machine: &CaptMachine, hash: &str) -> bool {
    let annotations = machine.metadata.annotations.as_ref();
    annotations.and_then(|all| all.get(annotations::IN_PLACE_HASH)).is_some_and(|marked| marked == hash)
}

/// Returns true if the machine has all labels of its set's template.
pub(super) fn fully_labeled(machine: &CaptMachine, set: &CaptMachineSet) -> bool {
    let own = machine.metadata.labels.as_ref();
    set.spec
        .template
        .metadata
        .labels
        .iter()
        .all(|(key, value)| own.and_then(|own| own.get(key)) == Some(value))
}
