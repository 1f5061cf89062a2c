//! No reference is forgotten: whoever adds a field that names a namespace finds this test failing until it is attacked and told.

use std::collections::BTreeSet;

use capt_api::crd::{cluster_kind, crds};
use serde_json::Value;

use crate::references;

/// Attacked elsewhere, or refused by name.
const ELSEWHERE: [&str; 7] = [
    // given::a_state_of_another_namespace_needs_a_grant: it is read once, and not asked for again.
    "WorkspaceTemplateApply.spec.importState",
    // clusters::a_cluster_needs_grants_for_its_templates
    "CAPTCluster.spec.vpcTemplateRef",
    "CAPTClusterTemplate.spec.template.spec.vpcTemplateRef",
    "CAPTControlPlane.spec.workspaceTemplateRef",
    "CAPTControlPlaneTemplate.spec.template.spec.workspaceTemplateRef",
    // The parts of a Cluster are in its namespace; tests/clusters_core/life.rs.
    "Cluster.spec.controlPlaneRef",
    "Cluster.spec.infrastructureRef",
];

/// Fields that are called namespace, without that last part.
fn walk(path: &str, node: &Value, found: &mut BTreeSet<String>) {
    for (name, property) in node["properties"].as_object().into_iter().flatten() {
        if name == "namespace" {
            found.insert(path.to_owned());
        }
        walk(&format!("{path}.{name}"), property, found);
    }
    for key in ["items", "additionalProperties"] {
        if node[key].is_object() {
            walk(&format!("{path}[]"), &node[key], found);
        }
    }
}

#[test]
fn every_field_that_names_a_namespace_is_attacked_and_told() {
    let mut found = BTreeSet::new();
    for crd in crds().into_iter().chain([cluster_kind().crd]) {
        let crd = serde_json::to_value(crd).unwrap();
        // A grant names who may refer; it refers to nothing itself.
        if crd["spec"]["names"]["kind"] != "ReferenceGrant" {
            let kind = crd["spec"]["names"]["kind"].as_str().unwrap();
            walk(kind, &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"], &mut found);
        }
    }
    let cases = references::cases(&str::to_owned);
    let mut attacked: BTreeSet<String> =
        cases.iter().flat_map(|case| case.paths).map(|path| (*path).to_owned()).collect();
    attacked.extend(ELSEWHERE.map(str::to_owned));
    let missing: Vec<&String> = found.difference(&attacked).collect();
    assert!(missing.is_empty(), "no case attacks {missing:?}");
    // One that has no namespace of its own crosses with the template that has it.
    assert!(attacked.remove("WorkspaceTemplate.spec.template.spec.providerConfigRef"));
    assert_eq!(attacked, found, "an attack on a field that is not there any more");

    let told = include_str!("../../../../docs/security.md");
    let untold: Vec<&String> = found.iter().filter(|path| !told.contains(&format!("`{path}`"))).collect();
    assert!(untold.is_empty(), "docs/security.md does not tell how these are checked: {untold:#?}");
}
