//! Fields of a template that replace machines, and those that reach them in place.
//!
//! | Field | A change |
//! |---|---|
//! | `workspaceTemplateRef`, `nodeGroupRef`, `instanceType`, `nodeGroupConfig.name`, `.instanceType` | replaces machines |
//! | labels and annotations, `spec.labels`, `spec.tags`, `nodeGroupConfig.scaling`, `spec.nodeDrainTimeoutSeconds`, `spec.paused` | reaches them in place |
//! | `spec.providerID` | belongs to the machine; that of a template is ignored |

use std::collections::BTreeMap;

use capt_api::machine::{CaptMachineSpec, MachineTemplate, NodeGroupConfig, NodeType, Taint, UpdateConfig};
use capt_api::refs::ObjectRef;
use serde::Serialize;

use crate::hash;

/// The part of a template that makes a machine another one.
#[derive(Debug, PartialEq, Serialize)]
pub struct Relevant<'a> {
    workspace_template_ref: &'a ObjectRef,
    node_group_ref: &'a Option<ObjectRef>,
    instance_type: &'a Option<String>,
    node_group: Option<(&'a str, &'a str)>,
    // Machines that were made before the field was there keep their hash.
    #[serde(skip_serializing_if = "Option::is_none")]
    node_type: Option<NodeType>,
}

/// The part of a template that makes a machine another one.
pub fn relevant(spec: &CaptMachineSpec) -> Relevant<'_> {
    // Every field is named: one that is added later must be put on one side or the other.
    let CaptMachineSpec {
        workspace_template_ref,
        node_group_ref,
        node_group_config,
        node_type,
        scaling: _,
        taints: _,
        instance_type,
        labels: _,
        tags: _,
        additional_tags: _,
        provider_id: _,
        node_drain_timeout_seconds: _,
        paused: _,
    } = spec;
    let node_group = node_group_config.as_ref().map(|config| {
        let NodeGroupConfig { name, instance_type, scaling: _, update_config: _, labels: _, tags: _ } =
            config;
        (name.as_str(), instance_type.as_str())
    });
    Relevant { workspace_template_ref, node_group_ref, instance_type, node_group, node_type: *node_type }
}

/// Returns true if both templates make the same machine.
pub fn same_machine(one: &MachineTemplate, other: &MachineTemplate) -> bool {
    relevant(&one.spec) == relevant(&other.spec)
}

/// Fields that a machine takes from its set without being replaced.
#[derive(Debug, PartialEq, Serialize)]
pub struct InPlace<'a> {
    labels: &'a BTreeMap<String, String>,
    annotations: &'a BTreeMap<String, String>,
    spec_labels: &'a BTreeMap<String, String>,
    tags: &'a BTreeMap<String, String>,
    scaling: Option<(i32, i32, i32)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    taints: Option<&'a [Taint]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    additional_tags: Option<&'a BTreeMap<String, String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<GroupInPlace<'a>>,
    // Machines that were made before the field was there keep their hash.
    #[serde(skip_serializing_if = "Option::is_none")]
    node_drain_timeout_seconds: Option<i32>,
    paused: bool,
}

/// Further fields that a managed group takes in place.
#[derive(Debug, PartialEq, Serialize)]
struct GroupInPlace<'a> {
    labels: &'a BTreeMap<String, String>,
    tags: &'a BTreeMap<String, String>,
    update_config: &'a Option<UpdateConfig>,
}

impl<'a> GroupInPlace<'a> {
    /// Nothing where nothing of it is set: those that were made before keep their hash.
    fn of(config: &'a NodeGroupConfig) -> Option<Self> {
        let NodeGroupConfig { labels, tags, update_config, .. } = config;
        let any = !labels.is_empty() || !tags.is_empty() || update_config.is_some();
        any.then_some(Self { labels, tags, update_config })
    }
}

/// Returns the fields that a machine takes from its set without being replaced.
pub fn in_place(template: &MachineTemplate) -> InPlace<'_> {
    let spec = &template.spec;
    InPlace {
        labels: &template.metadata.labels,
        annotations: &template.metadata.annotations,
        spec_labels: &spec.labels,
        tags: &spec.tags,
        scaling: spec
            .group_scaling()
            .map(|scaling| (scaling.min_size, scaling.max_size, scaling.desired_size)),
        taints: Some(spec.taints.as_slice()).filter(|taints| !taints.is_empty()),
        additional_tags: Some(&spec.additional_tags).filter(|tags| !tags.is_empty()),
        group: spec.node_group_config.as_ref().and_then(GroupInPlace::of),
        node_drain_timeout_seconds: spec.node_drain_timeout_seconds,
        paused: spec.paused,
    }
}

/// Ten characters that change when something should reach machines in place.
pub fn in_place_hash(template: &MachineTemplate) -> String {
    hash::text(&in_place(template))
}

#[cfg(test)]
mod tests {
    use super::*;
    use capt_api::machine::Scaling;

    fn base() -> MachineTemplate {
        let mut template = MachineTemplate::default();
        template.spec.instance_type = Some("small".into());
        template.spec.node_group_config = Some(NodeGroupConfig {
            name: "group".into(),
            instance_type: "small".into(),
            scaling: Scaling::default(),
            ..NodeGroupConfig::default()
        });
        template
    }

    #[test]
    fn each_field_is_on_one_side() {
        type Edit = fn(&mut MachineTemplate);
        let replacing: [Edit; 6] = [
            |t| t.spec.node_type = Some(NodeType::Fargate),
            |t| t.spec.workspace_template_ref.name = "other".into(),
            |t| t.spec.node_group_ref = Some(ObjectRef { name: "g".into(), namespace: None }),
            |t| t.spec.instance_type = Some("large".into()),
            |t| t.spec.node_group_config.as_mut().unwrap().name = "other".into(),
            |t| t.spec.node_group_config.as_mut().unwrap().instance_type = "large".into(),
        ];
        let in_place: [Edit; 12] = [
            |t| drop(t.spec.additional_tags.insert("a".into(), "b".into())),
            |t| {
                t.spec.taints.push(Taint {
                    key: "a".into(),
                    value: None,
                    effect: capt_api::machine::TaintEffect::NoSchedule,
                });
            },
            |t| {
                let group = t.spec.node_group_config.as_mut().unwrap();
                group.labels.insert("a".into(), "b".into());
            },
            |t| {
                let group = t.spec.node_group_config.as_mut().unwrap();
                group.tags.insert("a".into(), "b".into());
            },
            |t| {
                let group = t.spec.node_group_config.as_mut().unwrap();
                group.update_config =
                    Some(UpdateConfig { max_unavailable: Some(1), ..UpdateConfig::default() });
            },
            |t| drop(t.metadata.labels.insert("a".into(), "b".into())),
            |t| drop(t.metadata.annotations.insert("a".into(), "b".into())),
            |t| drop(t.spec.labels.insert("a".into(), "b".into())),
            |t| drop(t.spec.tags.insert("a".into(), "b".into())),
            |t| t.spec.node_group_config.as_mut().unwrap().scaling.desired_size = 2,
            |t| t.spec.node_drain_timeout_seconds = Some(30),
            |t| t.spec.paused = true,
        ];
        for (edits, replaces) in [(&replacing[..], true), (&in_place[..], false)] {
            for edit in edits {
                let mut edited = base();
                edit(&mut edited);
                assert_eq!(!same_machine(&base(), &edited), replaces, "{edited:?}");
                assert_eq!(in_place_hash(&base()) != in_place_hash(&edited), !replaces, "{edited:?}");
            }
        }
        let mut known = base();
        known.spec.provider_id = Some("aws:///i-1".into());
        assert!(same_machine(&base(), &known) && in_place_hash(&base()) == in_place_hash(&known));
    }
}
