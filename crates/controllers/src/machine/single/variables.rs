//! What a machine's module is told.

use capt_api::machine::{CaptMachine, NodeGroup};
use capt_api::refs::ObjectRef;
use capt_api::workspace::VariablesFrom;
use kube::ResourceExt;
use serde_json::{Value, json};

use super::owner::Ownership;
use crate::child::Variables;
use crate::runtime::owners::Bootstrap;

/// Name of the group that a machine joins or is.
pub fn group_name(machine: &CaptMachine, group: Option<&NodeGroup>) -> Option<String> {
    if let Some(config) = &machine.spec.node_group_config {
        return Some(config.name.clone());
    }
    let Some(group) = group else {
        return machine.spec.node_group_ref.as_ref().map(|reference| reference.name.clone());
    };
    if let Some(external) = &group.spec.external {
        return Some(external.name.clone());
    }
    let built = group.status.as_ref().and_then(|status| status.outputs.get("node_group_name"));
    Some(built.and_then(Value::as_str).map_or_else(|| group.name_any(), str::to_owned))
}

/// The variables of a machine: what its group's module gave, and over that what the machine says.
pub fn variables(machine: &CaptMachine, group: Option<&NodeGroup>, ownership: &Ownership) -> Variables {
    let mut all = group
        .and_then(|group| group.status.as_ref())
        .map_or_else(Variables::new, |status| status.outputs.clone());
    let spec = &machine.spec;
    let mut put = |name: &str, value: Value| drop(all.insert(name.to_owned(), value));
    put("machine_name", json!(machine.name_any()));
    if let Some(cluster) = ownership.cluster(machine) {
        put("cluster_name", json!(cluster));
    }
    if let Some(owner) = ownership.machine() {
        if let Some(domain) = &owner.failure_domain {
            put("failure_domain", json!(domain));
        }
        if let Some(version) = &owner.version {
            put("kubernetes_version", json!(version));
        }
    }
    if let Some(group) = group_name(machine, group) {
        put("node_group", json!(group));
    }
    put("labels", json!(spec.labels));
    put("tags", json!(spec.tags));
    if let Some(config) = &spec.node_group_config {
        put("node_group_name", json!(config.name));
        put("instance_type", json!(config.instance_type));
        put("instance_types", json!([config.instance_type]));
        put("min_size", json!(config.scaling.min_size));
        put("max_size", json!(config.scaling.max_size));
        put("desired_size", json!(config.scaling.desired_size));
    } else if let Some(instance_type) = &spec.instance_type {
        put("instance_type", json!(instance_type));
    }
    all
}

/// What the machine starts with, as the bootstrap provider wrote it. It never stands in an object's spec.
pub fn secrets(ownership: &Ownership) -> Vec<VariablesFrom> {
    let Some(Bootstrap::Secret(name)) = ownership.machine().map(|owner| &owner.bootstrap) else {
        return Vec::new();
    };
    let from = |variable: &str, key: &str, optional| VariablesFrom {
        secret_ref: Some(ObjectRef { name: name.clone(), namespace: None }),
        map: [(variable.to_owned(), key.to_owned())].into(),
        optional,
        ..VariablesFrom::default()
    };
    // Not every provider says which format its data has.
    vec![from("bootstrap_data", "value", false), from("bootstrap_format", "format", true)]
}
