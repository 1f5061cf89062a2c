use serde_json::json;

use super::*;
use crate::{builtin, resource::crd};

fn resources() -> Vec<Arc<Resource>> {
    let definition = |group: &str, plural: &str, versions: &[&str]| {
        let version = |name: &&str| json!({"name": name, "served": true, "storage": *name == versions[0]});
        let crd = json!({"spec": {
            "group": group, "scope": "Cluster", "names": {"plural": plural, "kind": plural, "singular": plural},
            "versions": versions.iter().map(version).collect::<Vec<_>>(),
        }});
        Arc::new(crd::resource(&crd).unwrap())
    };
    let mut resources = vec![
        definition("z.example.com", "ones", &["v1alpha1", "v1"]),
        definition("a.example.com", "ones", &["v1beta1"]),
        definition("z.example.com", "twos", &["v2"]),
    ];
    resources.extend(builtin::resources());
    resources
}

#[test]
fn groups_are_in_order_and_versions_best_first() {
    let document = api_groups(&resources());
    let names: Vec<&str> =
        document["groups"].as_array().unwrap().iter().map(|group| group["name"].as_str().unwrap()).collect();
    assert_eq!(
        names,
        [
            "events.k8s.io",
            "rbac.authorization.k8s.io",
            "apiextensions.k8s.io",
            "coordination.k8s.io",
            "a.example.com",
            "z.example.com"
        ]
    );
    let group = api_group("z.example.com", &resources()).unwrap();
    assert_eq!(group["preferredVersion"], json!({"groupVersion": "z.example.com/v2", "version": "v2"}));
    assert_eq!(group["versions"].as_array().unwrap().len(), 3);
    assert_eq!(api_group("nobody.example.com", &resources()), None);
}

#[test]
fn a_version_lists_only_what_it_has() {
    let listed = |version: &str| {
        let document = api_resources("z.example.com", version, &resources())?;
        Some(
            document["resources"].as_array().unwrap().iter().map(|it| it["name"].clone()).collect::<Vec<_>>(),
        )
    };
    assert_eq!(listed("v1"), Some(vec![json!("ones")]));
    assert_eq!(listed("v2"), Some(vec![json!("twos")]));
    assert_eq!(listed("v3"), None);
    let core = api_resources("", "v1", &resources()).unwrap();
    let namespaces: Vec<&Value> = core["resources"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|it| it["name"].as_str().unwrap().starts_with("namespaces"))
        .map(|it| &it["name"])
        .collect();
    assert_eq!(namespaces, ["namespaces", "namespaces/finalize", "namespaces/status"]);
}

#[test]
fn both_forms_name_the_same_resources() {
    let resources = resources();
    let aggregated = aggregated_groups(&resources);
    for group in aggregated["items"].as_array().unwrap() {
        let name = group["metadata"]["name"].as_str().unwrap();
        for version in group["versions"].as_array().unwrap() {
            let legacy = api_resources(name, version["version"].as_str().unwrap(), &resources).unwrap();
            let plain = legacy["resources"].as_array().unwrap().iter().map(|it| &it["name"]);
            let plain: Vec<&Value> = plain.filter(|name| !name.as_str().unwrap().contains('/')).collect();
            let other: Vec<&Value> =
                version["resources"].as_array().unwrap().iter().map(|it| &it["resource"]).collect();
            assert_eq!(plain, other);
        }
    }
}

#[test]
fn what_is_stored_says_in_which_version() {
    let hash = |group: &str, version: &str, name: &str| {
        let resources: Vec<Arc<Resource>> =
            resources().into_iter().chain(builtin::virtual_resources()).collect();
        let document = api_resources(group, version, &resources).unwrap();
        let entries = document["resources"].as_array().unwrap();
        entries.iter().find(|it| it["name"] == name).unwrap().get("storageVersionHash").cloned()
    };
    let stored =
        |group: &str, version: &str, kind: &str| Some(json!(storage_version_hash(group, version, kind)));
    assert_eq!(hash("", "v1", "configmaps"), stored("", "v1", "ConfigMap"));
    assert_eq!(hash("", "v1", "namespaces/status"), None);
    // Read-only here, and nobody stores one.
    assert_eq!(hash("", "v1", "services"), None);
    assert_eq!(hash("authorization.k8s.io", "v1", "selfsubjectaccessreviews"), None);
    assert_eq!(hash("events.k8s.io", "v1", "events"), stored("", "v1", "Event"));
    // Every version of a resource says in which one it is stored.
    for version in ["v1", "v1alpha1"] {
        assert_eq!(hash("z.example.com", version, "ones"), stored("z.example.com", "v1alpha1", "ones"));
    }
}
