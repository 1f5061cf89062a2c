//! Requests with the answers that kube-apiserver 1.36 gave, and what this crate answers.

#![allow(dead_code, reason = "each test binary uses its part")]

pub mod both;
pub mod server;
pub mod surface;

use std::{fs, path::PathBuf};

use capt_apiserver::builtin;
use capt_apiserver::resource::crd::{Names, accept};
use serde_json::{Value, json};

/// One request: an object to create, or to put in place of `old`.
#[derive(Clone, Debug)]
pub struct Case {
    pub name: String,
    pub group: String,
    pub kind: String,
    pub body: Value,
    pub old: Option<Value>,
    pub status: bool,
    /// What the real server answered: `{object}`, `{causes}` or `{message}`.
    pub want: Value,
}

pub fn data(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

pub fn read(name: &str) -> Vec<Case> {
    let text = fs::read_to_string(data(name)).unwrap();
    let rows: Vec<Value> = serde_json::from_str(&text).unwrap();
    let text = |row: &Value, name: &str| row[name].as_str().unwrap().to_owned();
    rows.iter()
        .map(|row| Case {
            name: text(row, "name"),
            group: text(row, "group"),
            kind: text(row, "kind"),
            body: row["body"].clone(),
            old: row.get("old").cloned(),
            status: row["status"] == true,
            want: row["want"].clone(),
        })
        .collect()
}

/// What we answer, in the form of `want`.
pub fn answer(case: &Case) -> Value {
    let old = case.old.as_ref().map(|old| {
        let old = answer(&Case { body: old.clone(), old: None, status: false, ..case.clone() });
        let mut old = old["object"].clone();
        if case.kind == "CustomResourceDefinition"
            && let Some(status) = accept(&old, &Names::default(), None, "now")
        {
            old["status"] = status;
        }
        old
    });
    let prefix = format!("{} in version \"v1\" cannot be handled as a {}", case.kind, case.kind);
    let decoded = match builtin::decode(&case.group, &case.kind, case.body.clone()) {
        Ok(decoded) => decoded,
        Err(error) => return json!({"message": format!("{prefix}: {error}")}),
    };
    if !decoded.unknown_fields.is_empty() {
        let unknown: Vec<String> =
            decoded.unknown_fields.iter().map(|field| format!("unknown field \"{field}\"")).collect();
        return json!({"message": format!("{prefix}: strict decoding error: {}", unknown.join(", "))});
    }
    let mut object = decoded.object;
    if is_namespaced(&case.group, &case.kind) {
        object["metadata"]["namespace"] = "default".into();
    }
    let is_event = case.group == "events.k8s.io";
    if is_event {
        object = builtin::events::to_core(object);
    }
    let old = old.map(|old| if is_event { builtin::events::to_core(old) } else { old });
    let errors = judge(case, &mut object, old.as_ref());
    if !errors.is_empty() {
        return json!({"causes": errors});
    }
    let object = if is_event { builtin::events::from_core(object) } else { object };
    json!({"object": object})
}

fn judge(case: &Case, object: &mut Value, old: Option<&Value>) -> Vec<Value> {
    let (group, kind) = (case.group.as_str(), case.kind.as_str());
    let mut causes = Vec::new();
    let errors = match old {
        None => {
            builtin::prepare_create(group, kind, object);
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            if kind != "CustomResourceDefinition" {
                for detail in builtin::name_rule(group, kind).check(name) {
                    let message = format!("Invalid value: {name:?}: {detail}");
                    causes.push(json!(["FieldValueInvalid", "metadata.name", message]));
                }
            }
            builtin::validate_create(group, kind, object)
        }
        Some(old) if case.status => {
            builtin::prepare_status_update(group, kind, object, old);
            builtin::validate_status_update(group, kind, object, old)
        }
        Some(old) => {
            builtin::prepare_update(group, kind, object, old);
            builtin::validate_update(group, kind, object, old, None)
        }
    };
    causes.extend(errors.iter().map(|error| json!([error.reason(), error.path.to_string(), error.body()])));
    causes
}

pub fn is_namespaced(group: &str, kind: &str) -> bool {
    let resources = builtin::resources();
    resources.iter().any(|resource| resource.group == group && resource.kind == kind && resource.namespaced)
}

/// What two answers are compared by: not by what only one server can know.
pub fn comparable(answer: &Value) -> Value {
    let mut answer = answer.clone();
    if let Some(object) = answer.get_mut("object").and_then(Value::as_object_mut) {
        object.shift_remove("apiVersion");
        object.shift_remove("kind");
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            for name in ["uid", "resourceVersion", "creationTimestamp", "managedFields", "generation"] {
                metadata.shift_remove(name);
            }
        }
        // The real server runs a controller for these before we can look.
        for condition in object
            .get_mut("status")
            .and_then(|s| s.get_mut("conditions"))
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten()
        {
            if let Some(condition) = condition.as_object_mut().filter(|it| it.contains_key("reason")) {
                condition.shift_remove("lastTransitionTime");
            }
        }
    }
    if let Some(causes) = answer.get_mut("causes").and_then(Value::as_array_mut) {
        causes.sort_by_key(ToString::to_string);
    }
    answer.sort_all_objects();
    answer
}
