//! Well-known scenarios with the `managedFields` Kubernetes has after them.

use serde_json::json;

use super::*;
use crate::managed_fields::{Managed, TypeInfo};

const VERSION: &str = "apps/v1";

fn kind() -> Kind {
    let schema = json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {
            "replicas": {"type": "integer"},
            "selector": {"type": "object", "additionalProperties": {"type": "string"}},
            "containers": {
                "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                "items": {"type": "object", "properties": {"name": {"type": "string"}, "image": {"type": "string"}}},
            },
            "args": {"type": "array", "items": {"type": "string"}},
        }},
        "status": {"type": "object", "properties": {"ready": {"type": "integer"}}},
    }});
    Kind::new("Deployment").with_version(VERSION, TypeInfo::from_crd_schema(&schema).unwrap())
}

/// One object and its writers.
struct Scene {
    kind: Kind,
    live: Option<Value>,
    second: i64,
}

impl Scene {
    fn new() -> Self {
        Self { kind: kind(), live: None, second: 0 }
    }

    fn write<T>(
        &mut self,
        manager: &str,
        subresource: &str,
        act: impl FnOnce(&Write<'_>, Option<&Value>) -> T,
    ) -> T {
        self.second += 1;
        let reset = if subresource.is_empty() {
            ResetFields::of_main(VERSION)
        } else {
            ResetFields::of_status(VERSION)
        };
        let write = Write {
            kind: &self.kind,
            api_version: VERSION,
            subresource,
            reset: &reset,
            manager,
            now: Timestamp::from_unix(self.second),
        };
        act(&write, self.live.as_ref())
    }

    #[expect(clippy::needless_pass_by_value, reason = "reads better in the scenes")]
    fn apply(&mut self, manager: &str, spec: Value, force: bool) -> Result<&mut Self, FieldsError> {
        let applied = object(&spec);
        let new = self.write(manager, "", |write, live| apply(write, live, &applied, force))?;
        let new = match &self.live {
            Some(live) => {
                let mut new = new;
                keep_times(live, &mut new);
                new
            }
            None => new,
        };
        self.live = Some(new);
        Ok(self)
    }

    fn update(&mut self, manager: &str, subresource: &str, change: impl FnOnce(&mut Value)) -> &mut Self {
        let mut new = self.live.clone().unwrap_or_else(|| object(&json!({})));
        change(&mut new);
        self.write(manager, subresource, |write, live| update(write, live, &mut new)).unwrap();
        self.live = Some(new);
        self
    }

    /// Manager, operation, subresource, second and fields of every entry.
    fn managed(&self) -> Value {
        let managed = Managed::decode(self.live.as_ref().and_then(managed_fields)).unwrap();
        let encoded = managed.encode();
        assert_eq!(encoded.as_ref(), self.live.as_ref().and_then(managed_fields), "sorted and stable");
        let entry = |entry: &Value| {
            let second = entry["time"].as_str().and_then(Timestamp::parse).map(Timestamp::unix);
            let subresource = entry.get("subresource").cloned().unwrap_or_default();
            json!([entry["manager"], entry["operation"], subresource, second, entry["fieldsV1"]])
        };
        Value::Array(encoded.as_ref().and_then(Value::as_array).into_iter().flatten().map(entry).collect())
    }

    fn spec(&self) -> &Value {
        &self.live.as_ref().unwrap()["spec"]
    }
}

fn object(spec: &Value) -> Value {
    json!({"apiVersion": VERSION, "kind": "Deployment", "metadata": {"name": "a", "namespace": "b"}, "spec": spec})
}

#[test]
fn create_by_apply() {
    let mut scene = Scene::new();
    scene
        .apply(
            "kubectl",
            json!({"replicas": 1, "args": ["x"], "containers": [{"name": "c", "image": "i"}]}),
            false,
        )
        .unwrap();
    assert_eq!(
        scene.managed(),
        json!([["kubectl", "Apply", null, 1, {"f:spec": {
            "f:args": {},
            "f:containers": {"k:{\"name\":\"c\"}": {".": {}, "f:image": {}, "f:name": {}}},
            "f:replicas": {},
        }}]])
    );
}

#[test]
fn create_by_update_owns_the_maps_on_the_way() {
    let mut scene = Scene::new();
    scene.update("curl", "", |new| {
        new["spec"] = json!({"replicas": 1, "selector": {"a": "b"}});
        new["metadata"]["labels"] = json!({"l": "1"});
    });
    assert_eq!(
        scene.managed(),
        json!([["curl", "Update", null, 1, {
            "f:metadata": {"f:labels": {".": {}, "f:l": {}}},
            "f:spec": {".": {}, "f:replicas": {}, "f:selector": {".": {}, "f:a": {}}},
        }]])
    );
}

#[test]
fn conflict_and_force() {
    let mut scene = Scene::new();
    scene.apply("a", json!({"replicas": 1}), false).unwrap();
    scene.update("hpa", "", |new| new["spec"]["replicas"] = json!(3));
    let error = scene.apply("a", json!({"replicas": 1}), false).err().unwrap();
    assert_eq!(
        error.to_string(),
        "Apply failed with 1 conflict: conflict with \"hpa\" using apps/v1: .spec.replicas"
    );
    let FieldsError::Conflicts(conflicts) = error else { panic!("conflicts") };
    assert_eq!(
        conflicts.causes().collect::<Vec<_>>(),
        [ConflictCause {
            message: "conflict with \"hpa\" using apps/v1".to_owned(),
            field: ".spec.replicas".to_owned()
        }]
    );
    scene.apply("a", json!({"replicas": 1}), true).unwrap();
    assert_eq!(scene.managed(), json!([["a", "Apply", null, 4, {"f:spec": {"f:replicas": {}}}]]));
}

#[test]
fn several_conflicts_are_grouped_by_manager() {
    let mut scene = Scene::new();
    scene.apply("b", json!({"replicas": 1, "args": ["b"]}), false).unwrap();
    scene.apply("a", json!({"selector": {"x": "1"}}), false).unwrap();
    let wanted = json!({"replicas": 2, "args": ["c"], "selector": {"x": "2"}});
    let error = scene.apply("c", wanted, false).err().unwrap();
    assert_eq!(
        error.to_string(),
        "Apply failed with 3 conflicts: conflicts with \"a\":\n- .spec.selector.x\nconflicts with \"b\":\n\
         - .spec.args\n- .spec.replicas"
    );
}

#[test]
fn ownership_is_shared_and_given_up() {
    let mut scene = Scene::new();
    let both = json!({"replicas": 1, "selector": {"x": "1", "y": "2"}});
    scene.apply("a", both.clone(), false).unwrap().apply("b", both, false).unwrap();
    // The second changed nothing, so it has no time.
    assert_eq!(scene.managed()[0][3], Value::Null);
    scene.apply("a", json!({"selector": {"x": "1"}}), false).unwrap();
    assert_eq!(scene.spec(), &json!({"replicas": 1, "selector": {"x": "1", "y": "2"}}));
    scene.apply("b", json!({"selector": {"x": "1"}}), false).unwrap();
    assert_eq!(scene.spec(), &json!({"selector": {"x": "1"}}));
}

#[test]
fn items_are_removed_when_given_up() {
    let mut scene = Scene::new();
    scene.apply("a", json!({"containers": [{"name": "x"}, {"name": "y", "image": "1"}]}), false).unwrap();
    scene.apply("b", json!({"containers": [{"name": "z"}]}), false).unwrap();
    scene.apply("a", json!({"containers": [{"name": "y"}]}), false).unwrap();
    assert_eq!(scene.spec(), &json!({"containers": [{"name": "y"}, {"name": "z"}]}));
}

#[test]
fn status_is_an_entry_of_its_own() {
    let mut scene = Scene::new();
    scene.apply("a", json!({"replicas": 1}), false).unwrap();
    scene.update("a", "status", |new| {
        new["status"] = json!({"ready": 1});
        new["spec"]["replicas"] = json!(9);
        new["metadata"]["managedFields"] = json!([]);
    });
    assert_eq!(
        scene.managed(),
        json!([
            ["a", "Apply", null, 1, {"f:spec": {"f:replicas": {}}}],
            ["a", "Update", "status", 2, {"f:status": {".": {}, "f:ready": {}}}],
        ])
    );
}

#[test]
fn nothing_changes_when_applied_again() {
    let mut scene = Scene::new();
    let spec = json!({"replicas": 1, "containers": [{"name": "c"}]});
    scene.apply("a", spec.clone(), false).unwrap();
    let before = scene.live.clone();
    scene.apply("a", spec, false).unwrap();
    assert_eq!(scene.live, before);
}

#[test]
fn resets() {
    for reset in [json!([]), json!([{}])] {
        let mut scene = Scene::new();
        scene.apply("a", json!({"replicas": 1}), false).unwrap();
        scene.update("b", "", |new| {
            new["metadata"]["managedFields"] = reset;
            new["spec"]["replicas"] = json!(2);
        });
        assert_eq!(scene.managed(), json!([]));
        // Not tracked until it is applied to.
        scene.update("b", "", |new| new["spec"]["replicas"] = json!(3));
        assert_eq!(scene.managed(), json!([]));
        scene.apply("a", json!({"args": []}), false).unwrap();
        assert_eq!(
            scene.managed(),
            json!([
                ["a", "Apply", null, 4, {"f:spec": {"f:args": {}}}],
                ["before-first-apply", "Update", null, 4, {"f:spec": {".": {}, "f:replicas": {}}}],
            ])
        );
    }
}

#[test]
fn old_updaters_are_merged() {
    let mut scene = Scene::new();
    for writer in 0..12 {
        scene.update(&format!("w{writer}"), "", |new| {
            new["metadata"]["labels"][format!("l{writer}")] = json!("x");
        });
    }
    let managed = scene.managed();
    let managed = managed.as_array().unwrap();
    assert_eq!(managed.len(), 10);
    assert_eq!(managed[0][0], "ancient-changes");
    assert_eq!(managed[0][3], 3);
    assert_eq!(
        managed[0][4],
        json!({"f:metadata": {"f:labels": {".": {}, "f:l0": {}, "f:l1": {}, "f:l2": {}}}, "f:spec": {}})
    );
}

#[test]
fn client_side_apply_becomes_server_side() {
    const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";
    let mut scene = Scene::new();
    scene.update("kubectl-client-side-apply", "", |new| {
        new["spec"] = json!({"replicas": 1, "args": ["x"]});
        new["metadata"]["annotations"] =
            json!({ANNOTATION: object(&json!({"replicas": 1, "args": ["x"]})).to_string()});
    });
    // Others conflict, kubectl does not where the annotation is right.
    assert!(scene.apply("other", json!({"replicas": 2}), false).is_err());
    scene.apply("kubectl", json!({"replicas": 2, "args": ["x"]}), false).unwrap();
    assert_eq!(
        scene.live.as_ref().unwrap()["metadata"]["annotations"][ANNOTATION],
        "{\"apiVersion\":\"apps/v1\",\"kind\":\"Deployment\",\"metadata\":{\"name\":\"a\",\"namespace\":\"b\"},\
         \"spec\":{\"args\":[\"x\"],\"replicas\":2}}\n"
    );
    scene.update("hpa", "", |new| new["spec"]["replicas"] = json!(5));
    let error = scene.apply("kubectl", json!({"replicas": 2, "args": ["x"]}), false).err().unwrap();
    assert!(error.to_string().contains("conflict with \"hpa\" using apps/v1: .spec.replicas"), "{error}");
}

#[test]
fn refusals() {
    let mut scene = Scene::new();
    let mut other = object(&json!({}));
    other["kind"] = json!("Other");
    let error = scene.write("a", "", |write, live| apply(write, live, &other, false)).unwrap_err();
    assert_eq!(error.to_string(), "invalid object type: apps/v1, Kind=Other");
    let mut managed = object(&json!({}));
    managed["metadata"]["managedFields"] = json!([]);
    let error = scene.write("a", "", |write, live| apply(write, live, &managed, false)).unwrap_err();
    assert_eq!(error, FieldsError::HasManagedFields);
    let error = scene.apply("a", json!({"unknown": 1}), false).err().unwrap();
    assert_eq!(
        error.to_string(),
        "failed to create typed patch object (b/a; apps/v1, Kind=Deployment): .spec.unknown: field not declared in schema"
    );
}

#[test]
fn a_map_that_became_atomic_is_owned_whole() {
    let schema = |map_type: &str| {
        json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
            "selector": {
                "type": "object", "x-kubernetes-map-type": map_type, "additionalProperties": {"type": "string"},
            },
        }}}})
    };
    let of = |map_type: &str| {
        Kind::new("Deployment").with_version(VERSION, TypeInfo::from_crd_schema(&schema(map_type)).unwrap())
    };
    let mut scene = Scene::new();
    scene.kind = of("granular");
    scene.apply("a", json!({"selector": {"x": "1"}}), false).unwrap();
    scene.kind = of("atomic");
    let error = scene.apply("b", json!({"selector": {"x": "2"}}), false).err().unwrap();
    assert_eq!(error.to_string(), "Apply failed with 1 conflict: conflict with \"a\": .spec.selector");
}

#[test]
fn managers_of_versions_that_are_gone_are_forgotten() {
    let mut scene = Scene::new();
    scene.apply("a", json!({"replicas": 1}), false).unwrap();
    scene.live.as_mut().unwrap()["metadata"]["managedFields"][0]["apiVersion"] = json!("apps/v0");
    scene.apply("b", json!({"replicas": 2}), false).unwrap();
    assert_eq!(scene.managed(), json!([["b", "Apply", null, 2, {"f:spec": {"f:replicas": {}}}]]));
}

#[test]
fn managers_meet_across_versions() {
    let types = |also: &str| {
        let number = json!({"type": "integer"});
        let spec = json!({"type": "object", "properties": {"size": number, "other": number, also: number}});
        TypeInfo::from_crd_schema(&json!({"type": "object", "properties": {"spec": spec}})).unwrap()
    };
    let kind = Kind::new("Rope").with_version("x/v1", types("old")).with_version("x/v2", types("new"));
    let object = |version: &str, spec: Value| json!({"apiVersion": version, "kind": "Rope", "metadata": {"name": "a"}, "spec": spec});
    let reset = ResetFields::NONE;
    let write = |api_version, manager, now| Write {
        kind: &kind,
        api_version,
        subresource: "",
        reset: &reset,
        manager,
        now: Timestamp::from_unix(now),
    };
    let first = object("x/v1", json!({"size": 1, "other": 1}));
    let live = apply(&write("x/v1", "a", 1), None, &first, false).unwrap();
    let live =
        json!({"apiVersion": "x/v2", "kind": "Rope", "metadata": live["metadata"], "spec": live["spec"]});

    let error =
        apply(&write("x/v2", "b", 2), Some(&live), &object("x/v2", json!({"size": 2})), false).unwrap_err();
    assert_eq!(error.to_string(), "Apply failed with 1 conflict: conflict with \"a\": .spec.size");
    // What was applied in one version is given up in the other.
    let live =
        apply(&write("x/v2", "a", 3), Some(&live), &object("x/v2", json!({"other": 1})), false).unwrap();
    assert_eq!(live["spec"], json!({"other": 1}));
    assert_eq!(live["apiVersion"], "x/v2");
    assert_eq!(live["metadata"]["managedFields"][0]["fieldsV1"], json!({"f:spec": {"f:other": {}}}));
}
