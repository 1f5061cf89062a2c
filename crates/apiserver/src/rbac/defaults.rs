//! The roles and bindings that are always there, as far as they are about what this server serves.
//!
//! As kube-apiserver does, every start adds what is missing: an object that was deleted, a rule or a subject that
//! was taken away. Added rules stay, and an object annotated
//! `rbac.authorization.kubernetes.io/autoupdate: "false"` is left alone.

use serde_json::{Value, json};

use super::GROUP;
use super::coverage;
use super::rule::Rule;

const AUTO_UPDATE: &str = "rbac.authorization.kubernetes.io/autoupdate";
const READ: [&str; 3] = ["get", "list", "watch"];
const WRITE: [&str; 5] = ["create", "delete", "deletecollection", "patch", "update"];
const ALL: [&str; 8] = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];

fn rule(verbs: &[&str], groups: &[&str], resources: &[&str]) -> Value {
    json!({"verbs": verbs, "apiGroups": groups, "resources": resources})
}

fn urls(urls: &[&str]) -> Value {
    json!({"verbs": ["get"], "nonResourceURLs": urls})
}

fn object(kind: &str, name: &str, labels: &[(&str, &str)]) -> Value {
    let mut object = json!({
        "apiVersion": format!("{GROUP}/v1"), "kind": kind,
        "metadata": {
            "name": name,
            "annotations": {AUTO_UPDATE: "true"},
            "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"},
        },
    });
    for (label, value) in labels {
        object["metadata"]["labels"][*label] = (*value).into();
    }
    object
}

fn role(name: &str, labels: &[(&str, &str)], rules: Value) -> Value {
    let mut role = object("ClusterRole", name, labels);
    role["rules"] = rules;
    role
}

/// A role that collects those with a label.
fn collecting(name: &str, labels: &[(&str, &str)], label: &str) -> Value {
    let mut role = object("ClusterRole", name, labels);
    role["aggregationRule"] = json!({"clusterRoleSelectors": [{"matchLabels": {label: "true"}}]});
    role["rules"] = json!([]);
    role
}

const TO_ADMIN: &str = "rbac.authorization.k8s.io/aggregate-to-admin";
const TO_EDIT: &str = "rbac.authorization.k8s.io/aggregate-to-edit";
const TO_VIEW: &str = "rbac.authorization.k8s.io/aggregate-to-view";

/// The cluster roles.
pub fn roles() -> Vec<Value> {
    let health = ["/healthz", "/livez", "/readyz"];
    let version = ["/version", "/version/"];
    let authorization = "authorization.k8s.io";
    vec![
        role(
            "cluster-admin",
            &[],
            json!([rule(&["*"], &["*"], &["*"]), {"verbs": ["*"], "nonResourceURLs": ["*"]}]),
        ),
        role(
            "system:discovery",
            &[],
            json!([urls(
                &[
                    &["/api", "/api/*", "/apis", "/apis/*"][..],
                    &health[..1],
                    &["/livez", "/openapi", "/openapi/*", "/readyz"],
                    &version
                ]
                .concat()
            )]),
        ),
        role(
            "system:monitoring",
            &[],
            json!([
                urls(&[
                    "/healthz",
                    "/healthz/*",
                    "/livez",
                    "/livez/*",
                    "/metrics",
                    "/metrics/slis",
                    "/readyz",
                    "/readyz/*"
                ]),
                rule(&["get"], &[""], &["nodes/metrics"]),
            ]),
        ),
        role(
            "system:basic-user",
            &[],
            json!([
                rule(&["create"], &[authorization], &["selfsubjectaccessreviews", "selfsubjectrulesreviews"]),
                rule(&["create"], &["authentication.k8s.io"], &["selfsubjectreviews"]),
            ]),
        ),
        role("system:public-info-viewer", &[], json!([urls(&[&health[..], &version].concat())])),
        collecting("admin", &[], TO_ADMIN),
        collecting("edit", &[(TO_ADMIN, "true")], TO_EDIT),
        collecting("view", &[(TO_EDIT, "true")], TO_VIEW),
        role(
            "system:aggregate-to-admin",
            &[(TO_ADMIN, "true")],
            json!([
                rule(&["create"], &[authorization], &["localsubjectaccessreviews"]),
                rule(&ALL, &[GROUP], &["rolebindings", "roles"]),
            ]),
        ),
        role(
            "system:aggregate-to-edit",
            &[(TO_EDIT, "true")],
            json!([
                rule(&READ, &[""], &["secrets"]),
                rule(&["impersonate"], &[""], &["serviceaccounts"]),
                rule(&WRITE, &[""], &["configmaps", "secrets", "serviceaccounts"]),
                rule(&["create"], &[""], &["serviceaccounts/token"]),
                rule(&WRITE, &["", "events.k8s.io"], &["events"]),
                rule(&ALL, &["coordination.k8s.io"], &["leases"]),
            ]),
        ),
        role(
            "system:aggregate-to-view",
            &[(TO_VIEW, "true")],
            json!([
                rule(&READ, &[""], &["configmaps", "namespaces", "namespaces/status", "serviceaccounts"]),
                rule(&READ, &["", "events.k8s.io"], &["events"]),
            ]),
        ),
    ]
}

/// The bindings of those roles to groups.
pub fn bindings() -> Vec<Value> {
    let everybody = ["system:authenticated", "system:unauthenticated"];
    [
        ("cluster-admin", &["system:masters"][..]),
        ("system:monitoring", &["system:monitoring"]),
        ("system:discovery", &everybody[..1]),
        ("system:basic-user", &everybody[..1]),
        ("system:public-info-viewer", &everybody),
    ]
    .into_iter()
    .map(|(name, groups)| {
        let subjects: Vec<Value> =
            groups.iter().map(|group| json!({"kind": "Group", "apiGroup": GROUP, "name": group})).collect();
        let mut binding = object("ClusterRoleBinding", name, &[]);
        binding["roleRef"] = json!({"apiGroup": GROUP, "kind": "ClusterRole", "name": name});
        binding["subjects"] = subjects.into();
        binding
    })
    .collect()
}

/// The default values that an object lacks, as a merge patch; `None` if it lacks nothing or is not to be changed.
pub fn repair(live: &Value, default: &Value) -> Option<Value> {
    if live["metadata"]["annotations"][AUTO_UPDATE] != "true" {
        return None;
    }
    let list = |object: &Value, name: &str| object[name].as_array().cloned().unwrap_or_default();
    let mut patch = json!({});
    let parsed = |object: &Value| -> Vec<Rule> {
        serde_json::from_value(list(object, "rules").into()).unwrap_or_default()
    };
    // What a role collects is its own business.
    if default.get("aggregationRule").is_none() && coverage::check(&parsed(live), &parsed(default)).is_err() {
        patch["rules"] = list(live, "rules").into_iter().chain(list(default, "rules")).collect();
    }
    let (mut subjects, wanted) = (list(live, "subjects"), list(default, "subjects"));
    let before = subjects.len();
    for subject in wanted {
        if !subjects.contains(&subject) {
            subjects.push(subject);
        }
    }
    if subjects.len() > before {
        patch["subjects"] = subjects.into();
    }
    patch.as_object().is_some_and(|patch| !patch.is_empty()).then_some(patch)
}
