//! The CRDs: thirteen, structural, complete, and what `config/crd` holds.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

fn capt(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_capt")).args(arguments).output().expect("capt runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

fn crds() -> BTreeMap<String, Value> {
    let text = capt(&["crds"]);
    let parts = text.split("---\n").filter(|part| !part.is_empty());
    let crds = parts.map(|part| serde_saphyr::from_str::<Value>(part).expect("YAML"));
    crds.map(|crd| (crd["spec"]["names"]["kind"].as_str().expect("a kind").to_owned(), crd)).collect()
}

fn schema(crd: &Value) -> &Value {
    &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
}

#[test]
fn there_are_thirteen_and_each_is_structural() {
    let crds = crds();
    let kinds: Vec<&str> = crds.keys().map(String::as_str).collect();
    assert_eq!(
        kinds,
        [
            "CAPTCluster",
            "CAPTClusterTemplate",
            "CAPTControlPlane",
            "CAPTControlPlaneTemplate",
            "CaptMachine",
            "CaptMachineDeployment",
            "CaptMachineSet",
            "CaptMachineTemplate",
            "NodeGroup",
            "ReferenceGrant",
            "WorkspaceProviderConfig",
            "WorkspaceTemplate",
            "WorkspaceTemplateApply",
        ]
    );
    for (kind, crd) in &crds {
        if let Err(errors) = capt_schema::Schema::compile(schema(crd)) {
            panic!("{kind}: {errors:#?}");
        }
    }
}

#[test]
fn each_is_what_cluster_api_and_kubectl_look_for() {
    for (kind, crd) in crds() {
        let (spec, version) = (&crd["spec"], &crd["spec"]["versions"][0]);
        let plural = spec["names"]["plural"].as_str().expect("a plural");
        assert_eq!(crd["metadata"]["name"], format!("{plural}.{}", spec["group"].as_str().expect("a group")));
        assert_eq!(crd["metadata"]["labels"]["cluster.x-k8s.io/v1beta2"], "v1beta1", "{kind}");
        assert_eq!(crd["metadata"]["labels"]["visualizer.cluster.x-k8s.io"], "", "{kind}");
        let expected = if kind == "WorkspaceTemplateApply" {
            "workspacetemplateapplies".into()
        } else {
            format!("{}s", kind.to_lowercase())
        };
        assert_eq!(plural, expected);
        assert_eq!(spec["scope"], "Namespaced");
        // A grant is what it says; nothing becomes of it.
        let status = if kind == "ReferenceGrant" { Value::Null } else { json!({}) };
        assert_eq!(version["subresources"]["status"], status, "{kind}");
        let categories = spec["names"]["categories"].as_array().expect("categories");
        assert!(
            ["capt", "cluster-api"].iter().all(|category| categories.contains(&json!(category))),
            "{kind}"
        );
        let columns = version["additionalPrinterColumns"].as_array().expect("columns");
        assert_eq!(columns.last().expect("a column")["name"], "AGE", "{kind}");
    }
}

#[test]
fn columns_are_those_of_the_specification() {
    let rows: [(&str, &[&str]); 5] = [
        ("CAPTCluster", &["VPC-ID", "READY", "ENDPOINT", "AGE"]),
        ("CAPTControlPlane", &["READY", "PHASE", "VERSION", "ENDPOINT", "AGE"]),
        ("CaptMachineSet", &["DESIRED", "CURRENT", "READY", "AVAILABLE", "STATUS", "PAUSED", "AGE"]),
        (
            "CaptMachineDeployment",
            &["DESIRED", "CURRENT", "READY", "AVAILABLE", "UP-TO-DATE", "STATUS", "PAUSED", "AGE"],
        ),
        ("NodeGroup", &["READY", "STATUS", "MEMBERS", "READY-MEMBERS", "DESIRED-SIZE", "EXTERNAL", "AGE"]),
    ];
    let crds = crds();
    for (kind, expected) in rows {
        let columns =
            crds[kind]["spec"]["versions"][0]["additionalPrinterColumns"].as_array().expect("columns");
        let names: Vec<&str> = columns.iter().filter_map(|column| column["name"].as_str()).collect();
        assert_eq!(names, expected, "{kind}");
    }
}

/// A column without a field behind it would be empty for ever.
#[test]
fn every_column_shows_a_field_of_the_schema() {
    for (kind, crd) in crds() {
        let version = &crd["spec"]["versions"][0];
        for column in version["additionalPrinterColumns"].as_array().expect("columns") {
            let mut path = column["jsonPath"].as_str().expect("a path").to_owned();
            // Filters and indexes choose among the items of a list.
            while let (Some(open), Some(close)) = (path.find('['), path.find(']')) {
                path.replace_range(open..=close, "");
            }
            let fields = path.trim_start_matches('.');
            if fields.starts_with("metadata.") {
                continue;
            }
            let mut schema = &version["schema"]["openAPIV3Schema"];
            for field in fields.split('.') {
                schema = &schema["properties"][field];
                if schema["type"] == "array" {
                    schema = &schema["items"];
                }
                assert!(schema.is_object(), "{kind}: {} shows no field: {field} of {path}", column["name"]);
            }
        }
    }
}

#[test]
fn sets_and_deployments_scale() {
    for (kind, crd) in crds() {
        let scale = &crd["spec"]["versions"][0]["subresources"]["scale"];
        let expected = match kind.as_str() {
            "CaptMachineSet" | "CaptMachineDeployment" => json!({
                "specReplicasPath": ".spec.replicas",
                "statusReplicasPath": ".status.replicas",
                "labelSelectorPath": ".status.selector",
            }),
            _ => Value::Null,
        };
        assert_eq!(*scale, expected, "{kind}");
    }
}

#[test]
fn cluster_is_apart_and_marked_as_capts() {
    let text = capt(&["crds", "--cluster"]);
    let crd: Value = serde_saphyr::from_str(text.trim_start_matches("---\n")).expect("one CRD");
    assert_eq!(crd["metadata"]["name"], "clusters.cluster.x-k8s.io");
    assert_eq!(crd["metadata"]["labels"], json!({"infrastructure.cluster.x-k8s.io/installed-by": "capt"}));
    let versions = crd["spec"]["versions"].as_array().expect("versions");
    let stored: Vec<_> = versions.iter().map(|version| (&version["name"], &version["storage"])).collect();
    assert_eq!(stored, [(&json!("v1beta2"), &json!(true)), (&json!("v1beta1"), &json!(false))]);
    // Without conversion what one version does not know would be lost to the other.
    assert_eq!(versions[0]["schema"], versions[1]["schema"]);
    if let Err(errors) = capt_schema::Schema::compile(schema(&crd)) {
        panic!("{errors:#?}");
    }
}

/// Walks every node of a schema with its path.
fn walk<'a>(path: &str, node: &'a Value, visit: &mut impl FnMut(&str, &'a Value)) {
    visit(path, node);
    for (name, property) in node["properties"].as_object().into_iter().flatten() {
        walk(&format!("{path}.{name}"), property, visit);
    }
    for key in ["items", "additionalProperties"] {
        if node[key].is_object() {
            walk(&format!("{path}[]"), &node[key], visit);
        }
    }
}

#[test]
fn every_field_is_described_and_every_list_has_a_merge_strategy() {
    let mut missing = Vec::new();
    let cluster = serde_saphyr::from_str(capt(&["crds", "--cluster"]).trim_start_matches("---\n"));
    for (kind, crd) in crds().into_iter().chain([("Cluster".to_owned(), cluster.expect("one CRD"))]) {
        walk(&kind, schema(&crd), &mut |path, node| {
            if !path.ends_with("[]")
                && node["description"].as_str().is_none_or(|text| text.contains('\n') || !text.ends_with('.'))
            {
                missing.push(format!("{path}: no description, or none in one paragraph"));
            }
            if node["type"] == "array" && node["x-kubernetes-list-type"].is_null() {
                missing.push(format!("{path}: no x-kubernetes-list-type"));
            }
            if path.ends_with(".conditions") && node["x-kubernetes-list-map-keys"] != json!(["type"]) {
                missing.push(format!("{path}: not a map by type"));
            }
            if !node["nullable"].is_null() {
                missing.push(format!("{path}: nullable"));
            }
        });
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

#[test]
fn labels_of_templates_are_kept_and_defaults_are_filled_in() {
    let crds = crds();
    let schema = capt_schema::Schema::compile(schema(&crds["CaptMachineDeployment"])).expect("structural");
    let labels = json!({"role": "worker", "example.com/any": "thing"});
    let mut object = json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1",
        "kind": "CaptMachineDeployment",
        "metadata": {"name": "demo"},
        "spec": {
            "selector": {"matchLabels": {"role": "worker"}},
            "template": {
                "metadata": {"labels": labels, "annotations": {"a": "b"}},
                "spec": {"workspaceTemplateRef": {"name": "m"}, "nodeGroupRef": {"name": "n"}, "instanceType": "t3.medium"},
            },
        },
    });
    assert_eq!(schema.prune(&mut object), []);
    schema.default(&mut object).unwrap();
    let spec = &object["spec"];
    assert_eq!(spec["template"]["metadata"], json!({"labels": labels, "annotations": {"a": "b"}}));
    let defaults = [
        ("replicas", json!(1)),
        ("strategy", json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}})),
        ("minReadySeconds", json!(0)),
        ("revisionHistoryLimit", json!(10)),
        ("progressDeadlineSeconds", json!(600)),
        ("deletePolicy", json!("Random")),
        ("paused", json!(false)),
    ];
    for (field, expected) in defaults {
        assert_eq!(spec[field], expected, "{field}");
    }
    assert_eq!(schema.validate(&object, None), []);
}

#[test]
fn config_crd_holds_what_capt_crds_prints() {
    let fresh = tempfile::tempdir().expect("a folder");
    capt(&["crds", "--output-dir", fresh.path().to_str().expect("text")]);
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config/crd");
    let read = |folder: &Path| -> BTreeMap<String, String> {
        let entries =
            std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
        let yaml = entries.filter(|path| path.extension().is_some_and(|ending| ending == "yaml"));
        yaml.map(|path| {
            (
                path.file_name().expect("a name").to_string_lossy().into_owned(),
                std::fs::read_to_string(path).expect("text"),
            )
        })
        .collect()
    };
    let (fresh, kept) = (read(fresh.path()), read(&kept));
    assert_eq!(fresh.keys().collect::<Vec<_>>(), kept.keys().collect::<Vec<_>>(), "run `make crds`");
    for (name, text) in &fresh {
        assert!(kept[name] == *text, "{name} is stale: run `make crds`");
    }
}
