//! Inputs of the modules that build machines and node groups: the variables that CAPT passes to each.
//!
//! Controllers pass them, and `capt validate` compares them with what a module requires. Those of networks and control planes
//! are in [`crate::cluster::network`] and [`crate::cluster::control_plane`].

use std::collections::BTreeMap;

use capt_api::machine::{CaptMachine, NodeGroup};
use capt_api::names::labels;
use capt_api::refs::ObjectRef;
use capt_api::workspace::VariablesFrom;
use kube::ResourceExt;
use serde_json::{Value, json};

use crate::owned_workspace::Variables;

/// Variables that depend on a field of the object, and that field.
pub type Fields = &'static [(&'static str, &'static str)];

/// Field of an object that names its cluster.
const CLUSTER_LABEL: &str = "metadata.labels[cluster.x-k8s.io/cluster-name]";

/// Variables that a machine passes only where these fields are set.
pub const MACHINE_FIELDS: Fields = &[
    ("cluster_name", CLUSTER_LABEL),
    ("node_type", "spec.nodeType"),
    ("taints", "spec.nodeType"),
    ("node_group_name", "spec.nodeGroupConfig"),
    ("instance_type", "spec.instanceType"),
    ("instance_types", "spec.nodeGroupConfig"),
    ("min_size", "spec.nodeGroupConfig"),
    ("max_size", "spec.nodeGroupConfig"),
    ("desired_size", "spec.nodeGroupConfig"),
    ("update_config", "spec.nodeGroupConfig.updateConfig"),
];

/// Variables that a node group passes only where these fields are set.
pub const NODE_GROUP_FIELDS: Fields = &[
    ("cluster_name", CLUSTER_LABEL),
    ("instance_types", "spec.instanceTypes"),
    ("min_size", "spec.scaling"),
    ("max_size", "spec.scaling"),
    ("desired_size", "spec.scaling"),
];

/// Facts of a machine that its owner decides: a Machine of Cluster API, or the machine itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct MachineOwner<'a> {
    /// The cluster that the machine belongs to.
    pub cluster: Option<&'a str>,
    /// The Machine's failure domain.
    pub failure_domain: Option<&'a str>,
    /// The Machine's Kubernetes version.
    pub version: Option<&'a str>,
}

/// Name of the group that a machine joins or is.
pub fn group_name(machine: &CaptMachine, group: Option<&NodeGroup>) -> Option<String> {
    if let Some(config) = &machine.spec.node_group_config {
        return Some(config.name.clone());
    }
    if machine.spec.node_type.is_some() {
        return Some(machine.name_any());
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

/// Variables of a machine: the outputs of its group's module, and over those what the machine says.
pub fn of_machine(machine: &CaptMachine, group: Option<&NodeGroup>, owner: MachineOwner<'_>) -> Variables {
    let mut all = group
        .and_then(|group| group.status.as_ref())
        .map_or_else(Variables::new, |status| status.outputs.clone());
    let spec = &machine.spec;
    let mut put = |name: &str, value: Value| drop(all.insert(name.to_owned(), value));
    put("machine_name", json!(machine.name_any()));
    let of_owner = [
        ("cluster_name", owner.cluster),
        ("failure_domain", owner.failure_domain),
        ("kubernetes_version", owner.version),
    ];
    for (name, value) in of_owner {
        if let Some(value) = value {
            put(name, json!(value));
        }
    }
    if let Some(group) = group_name(machine, group) {
        put("node_group", json!(group));
    }
    let (own_labels, own_tags) = spec
        .node_group_config
        .as_ref()
        .map_or((None, None), |config| (Some(&config.labels), Some(&config.tags)));
    put("labels", json!(merged([Some(&spec.labels), own_labels])));
    put("tags", json!(merged([Some(&spec.additional_tags), Some(&spec.tags), own_tags])));
    if let Some(kind) = &spec.node_type {
        put("node_type", json!(kind));
        put("node_group_name", json!(machine.name_any()));
        put("taints", json!(spec.taints));
        let scaling = spec.scaling.clone().unwrap_or_default();
        put("min_size", json!(scaling.min_size));
        put("max_size", json!(scaling.max_size));
        put("desired_size", json!(scaling.desired_size));
        if let Some(instance_type) = &spec.instance_type {
            put("instance_types", json!([instance_type]));
        }
    }
    if let Some(update) = spec.node_group_config.as_ref().and_then(|config| config.update_config.as_ref()) {
        put("update_config", json!(update));
    }
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

/// All entries; later maps win.
fn merged<const N: usize>(maps: [Option<&BTreeMap<String, String>>; N]) -> BTreeMap<String, String> {
    maps.into_iter().flatten().flatten().map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// Variables of a machine that its spec does not set: values of the template win over them.
pub fn machine_defaults(machine: &CaptMachine) -> Vec<&'static str> {
    let spec = &machine.spec;
    let config = spec.node_group_config.as_ref();
    let labels = spec.labels.is_empty() && config.is_none_or(|config| config.labels.is_empty());
    let tags = spec.tags.is_empty()
        && spec.additional_tags.is_empty()
        && config.is_none_or(|config| config.tags.is_empty());
    let empty =
        [("labels", labels), ("tags", tags), ("taints", spec.node_type.is_some() && spec.taints.is_empty())];
    empty.into_iter().filter_map(|(name, empty)| empty.then_some(name)).collect()
}

/// Variables that come from the Secret of a bootstrap provider. Their values never stand in an object's spec.
pub fn bootstrap(secret: &str) -> Vec<VariablesFrom> {
    let from = |variable: &str, key: &str, optional| VariablesFrom {
        secret_ref: Some(ObjectRef { name: secret.to_owned(), namespace: None }),
        map: [(variable.to_owned(), key.to_owned())].into(),
        optional,
        ..VariablesFrom::default()
    };
    // Not every provider says which format its data has.
    vec![from("bootstrap_data", "value", false), from("bootstrap_format", "format", true)]
}

/// Variables of a node group.
pub fn of_node_group(group: &NodeGroup) -> Variables {
    let spec = &group.spec;
    let mut all = Variables::new();
    let mut put = |name: &str, value: Value| drop(all.insert(name.to_owned(), value));
    if let Some(cluster) = group.labels().get(labels::CLUSTER_NAME) {
        put("cluster_name", json!(cluster));
    }
    put("node_group_name", json!(group.name_any()));
    let one: Vec<&String> = spec.instance_type.iter().chain(&spec.instance_types).collect();
    if !one.is_empty() {
        put("instance_types", json!(one));
    }
    if let Some(scaling) = &spec.scaling {
        put("min_size", json!(scaling.min_size));
        put("max_size", json!(scaling.max_size));
        put("desired_size", json!(scaling.desired_size));
    }
    put("labels", json!(spec.labels));
    put("taints", json!(spec.taints));
    put("tags", json!(spec.tags));
    all
}

/// Variables of a node group that its spec does not set: values of the template win over them.
pub fn node_group_defaults(group: &NodeGroup) -> Vec<&'static str> {
    let spec = &group.spec;
    let empty = [
        ("labels", spec.labels.is_empty()),
        ("taints", spec.taints.is_empty()),
        ("tags", spec.tags.is_empty()),
    ];
    empty.into_iter().filter_map(|(name, empty)| empty.then_some(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(spec: &Value) -> CaptMachine {
        let object = json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "CaptMachine",
            "metadata": {"name": "m", "namespace": "n"}, "spec": spec,
        });
        serde_json::from_value(object).expect("a machine")
    }

    fn group(spec: &Value) -> NodeGroup {
        let object = json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "NodeGroup",
            "metadata": {"name": "g", "labels": {labels::CLUSTER_NAME: "demo"}}, "spec": spec,
        });
        serde_json::from_value(object).expect("a group")
    }

    const NOBODY: MachineOwner<'_> = MachineOwner { cluster: None, failure_domain: None, version: None };

    #[test]
    fn groups_of_older_manifests() {
        let old = machine(&json!({
            "workspaceTemplateRef": {"name": "t"}, "nodeType": "ManagedNodeGroup", "instanceType": "t3.medium",
            "scaling": {"minSize": 1, "maxSize": 5, "desiredSize": 3}, "labels": {"role": "worker"},
            "taints": [{"key": "a", "effect": "NoSchedule"}], "additionalTags": {"Environment": "dev", "a": "1"},
            "tags": {"a": "2"},
        }));
        let told = of_machine(&old, None, NOBODY);
        let expected = [
            ("node_type", json!("ManagedNodeGroup")),
            ("node_group", json!("m")),
            ("node_group_name", json!("m")),
            ("instance_type", json!("t3.medium")),
            ("instance_types", json!(["t3.medium"])),
            ("min_size", json!(1)),
            ("max_size", json!(5)),
            ("desired_size", json!(3)),
            ("labels", json!({"role": "worker"})),
            ("tags", json!({"Environment": "dev", "a": "2"})),
            ("taints", json!([{"key": "a", "effect": "NoSchedule"}])),
        ];
        for (name, value) in expected {
            assert_eq!(told.get(name), Some(&value), "{name}");
        }
        assert_eq!(machine_defaults(&old), Vec::<&str>::new());

        let group = machine(&json!({
            "workspaceTemplateRef": {"name": "t"}, "labels": {"role": "worker"},
            "nodeGroupConfig": {
                "name": "ng", "instanceType": "t3.medium", "updateConfig": {"maxUnavailablePercentage": 33},
                "labels": {"role": "gpu"}, "tags": {"Environment": "dev"},
            },
        }));
        let told = of_machine(&group, None, NOBODY);
        assert_eq!(told["update_config"], json!({"maxUnavailablePercentage": 33}));
        assert_eq!(
            (&told["labels"], &told["tags"]),
            (&json!({"role": "gpu"}), &json!({"Environment": "dev"}))
        );
        assert_eq!(machine_defaults(&group), Vec::<&str>::new());
    }

    /// A table that names a field which does not decide would send its reader to the wrong place.
    #[test]
    fn fields_decide_whether_their_variables_are_passed() {
        let plain = of_machine(&machine(&json!({"workspaceTemplateRef": {"name": "t"}})), None, NOBODY);
        let owner = MachineOwner { cluster: Some("demo"), ..NOBODY };
        let specs = [
            json!({"nodeGroupConfig": {
                "name": "ng", "instanceType": "a", "updateConfig": {"maxUnavailable": 1}
            }}),
            json!({"nodeType": "Fargate", "instanceType": "a"}),
        ];
        let passed = specs.map(|mut spec| {
            spec["workspaceTemplateRef"] = json!({"name": "t"});
            of_machine(&machine(&spec), None, owner)
        });
        for (name, field) in MACHINE_FIELDS {
            assert!(!plain.contains_key(*name), "{name} does not need {field}");
            assert!(passed.iter().any(|passed| passed.contains_key(*name)), "{field} does not pass {name}");
        }

        let mut bare = group(&json!({"workspaceTemplateRef": {"name": "t"}}));
        bare.metadata.labels = None;
        let full = group(
            &json!({"workspaceTemplateRef": {"name": "t"}, "instanceTypes": ["a"], "scaling": {"maxSize": 3}}),
        );
        for (name, field) in NODE_GROUP_FIELDS {
            assert!(!of_node_group(&bare).contains_key(*name), "{name} does not need {field}");
            assert!(of_node_group(&full).contains_key(*name), "{field} does not pass {name}");
        }
    }
}
