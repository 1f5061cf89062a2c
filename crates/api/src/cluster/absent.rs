//! Kinds of Cluster API core that CAPT does not reconcile, for an API where core is not installed.
//!
//! Clients of Cluster API list them wherever there is a Cluster: `clusterctl describe cluster` fails where it cannot. So they
//! are served, and always empty: an object of them would wait for a controller that is not there, so none is taken, and the
//! refusal names the kind that does the work here.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};

use crate::names::crd_labels;

/// Kind, plural, short name, and CAPT's kind for the same.
const KINDS: [(&str, &str, &str, &str); 4] = [
    ("Machine", "machines", "ma", "CaptMachine"),
    ("MachineSet", "machinesets", "ms", "CaptMachineSet"),
    ("MachineDeployment", "machinedeployments", "md", "CaptMachineDeployment"),
    ("MachinePool", "machinepools", "mp", "NodeGroup"),
];

/// Their CRDs. The label tells them from upstream's.
pub fn crds() -> Vec<CustomResourceDefinition> {
    let read = |crd| serde_json::from_value(crd).expect("a test reads it");
    KINDS.iter().map(|(kind, plural, short, own)| read(definition(kind, plural, short, own))).collect()
}

fn definition(kind: &str, plural: &str, short: &str, own: &str) -> Value {
    let group = "cluster.x-k8s.io";
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let described = |about: &str| {
        let mut schema = open.clone();
        schema["description"] = about.into();
        schema
    };
    let message = format!("Cluster API core, which reconciles a {kind}, is not installed: use a {own}");
    let schema = json!({
        "type": "object",
        "description": format!(
            "{kind} of Cluster API core, which is not installed. No object of it exists or can be created here: use {own}, CAPT's own kind."
        ),
        "properties": {
            "spec": described("Not served: needs Cluster API core."),
            "status": described("Not served: needs Cluster API core."),
        },
        "x-kubernetes-validations": [{"rule": "false", "message": message, "reason": "FieldValueForbidden"}],
    });
    let version = |name: &str, storage: bool| json!({"name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema": schema}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}"), "labels": {crd_labels::INSTALLED_BY: crd_labels::CAPT}},
        "spec": {
            "group": group,
            "names": {
                "kind": kind, "listKind": format!("{kind}List"), "plural": plural, "singular": kind.to_lowercase(),
                "shortNames": [short], "categories": ["cluster-api"],
            },
            "scope": "Namespaced",
            "versions": [version("v1beta2", true), version("v1beta1", false)],
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_a_crd_with_both_versions_of_cluster() {
        let cluster = crate::crd::cluster_kind().crd;
        for crd in crds() {
            assert_eq!(crd.spec.group, cluster.spec.group);
            let versions = |crd: &CustomResourceDefinition| {
                crd.spec.versions.iter().map(|it| (it.name.clone(), it.storage)).collect::<Vec<_>>()
            };
            assert_eq!(versions(&crd), versions(&cluster));
            assert_eq!(crd.metadata.labels, cluster.metadata.labels);
        }
    }
}
