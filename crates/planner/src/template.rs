//! What of a template makes a machine another one, and what reaches it in place.
//!
//! | Field | A change |
//! |---|---|
//! | `workspaceTemplateRef`, `nodeGroupRef`, `instanceType`, `nodeGroupConfig.name`, `.instanceType` | replaces machines |
//! | labels and annotations, `spec.labels`, `spec.tags`, `nodeGroupConfig.scaling`, `spec.nodeDrainTimeoutSeconds`, `spec.paused` | reaches them in place |
//! | `spec.providerID` | belongs to the machine; that of a template is ignored |

use std::collections::BTreeMap;

use capt_api::machine::{CaptMachineSpec, MachineTemplate, NodeGroupConfig};
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
}

/// The part of a template that makes a machine another one.
pub fn relevant(spec: &CaptMachineSpec) -> Relevant<'_> {
    // Every field is named: one that is added later must be put on one side or the other.
    let CaptMachineSpec {
        workspace_template_ref,
        node_group_ref,
        node_group_config,
        instance_type,
        labels: _,
        tags: _,
        provider_id: _,
        node_drain_timeout_seconds: _,
        paused: _,
    } = spec;
    let node_group = node_group_config.as_ref().map(|config| {
        let NodeGroupConfig { name, instance_type, scaling: _ } = config;
        (name.as_str(), instance_type.as_str())
    });
    Relevant { workspace_template_ref, node_group_ref, instance_type, node_group }
}

/// Whether both templates make the same machine.
pub fn same_machine(one: &MachineTemplate, other: &MachineTemplate) -> bool {
    relevant(&one.spec) == relevant(&other.spec)
}

/// What a machine takes from its set without being replaced.
#[derive(Debug, PartialEq, Serialize)]
pub struct InPlace<'a> {
    labels: &'a BTreeMap<String, String>,
    annotations: &'a BTreeMap<String, String>,
    spec_labels: &'a BTreeMap<String, String>,
    tags: &'a BTreeMap<String, String>,
    scaling: Option<(i32, i32, i32)>,
    // Machines that were made before the field was there keep their hash.
    #[serde(skip_serializing_if = "Option::is_none")]
    node_drain_timeout_seconds: Option<i32>,
    paused: bool,
}

/// What a machine takes from its set without being replaced.
pub fn in_place(template: &MachineTemplate) -> InPlace<'_> {
    let spec = &template.spec;
    InPlace {
        labels: &template.metadata.labels,
        annotations: &template.metadata.annotations,
        spec_labels: &spec.labels,
        tags: &spec.tags,
        scaling: spec
            .node_group_config
            .as_ref()
            .map(|config| (config.scaling.min_size, config.scaling.max_size, config.scaling.desired_size)),
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
        });
        template
    }

    #[test]
    fn each_field_is_on_one_side() {
        type Edit = fn(&mut MachineTemplate);
        let replacing: [Edit; 5] = [
            |t| t.spec.workspace_template_ref.name = "other".into(),
            |t| t.spec.node_group_ref = Some(ObjectRef { name: "g".into(), namespace: None }),
            |t| t.spec.instance_type = Some("large".into()),
            |t| t.spec.node_group_config.as_mut().unwrap().name = "other".into(),
            |t| t.spec.node_group_config.as_mut().unwrap().instance_type = "large".into(),
        ];
        let in_place: [Edit; 7] = [
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
