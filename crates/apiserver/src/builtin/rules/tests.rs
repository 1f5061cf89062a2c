//! Most rules are compared with recorded answers of the real server; here is what those do not reach.

use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::json;

use super::*;

fn messages(errors: &[FieldError]) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

#[test]
fn data_is_bounded() {
    let text = "x".repeat(MAX_DATA);
    let config = |data: &str| json!({"metadata": {"name": "a"}, "data": {"a": data}});
    assert_eq!(validate_create("", "ConfigMap", &config(&text)), []);
    assert_eq!(
        messages(&validate_create("", "ConfigMap", &config(&format!("{text}y")))),
        [": Too long: may not be more than 1048576 bytes"]
    );
    let secret = |data: &str| json!({"metadata": {"name": "a"}, "data": {"a": BASE64_STANDARD.encode(data)}});
    assert_eq!(validate_create("", "Secret", &secret(&text)), []);
    assert_eq!(
        messages(&validate_create("", "Secret", &secret(&format!("{text}y")))),
        ["data: Too long: may not be more than 1048576 bytes"]
    );
    let both = json!({"data": {"a": text}, "binaryData": {"b": "eA=="}});
    assert_eq!(validate_create("", "ConfigMap", &both).len(), 1, "both count");
}

#[test]
fn a_namespace_that_goes_is_terminating() {
    let namespace = |phase: &str| json!({"metadata": {"name": "a", "deletionTimestamp": "2020-01-01T00:00:00Z"}, "status": {"phase": phase}});
    let old = namespace("Active");
    assert_eq!(validate_status_update("", "Namespace", &namespace("Terminating"), &old), []);
    assert_eq!(
        messages(&validate_status_update("", "Namespace", &namespace("Active"), &old)),
        [
            "status.Phase: Invalid value: \"Active\": may only be 'Terminating' if `deletionTimestamp` is not empty"
        ]
    );
}

#[test]
fn kinds_differ_in_how_they_are_written() {
    assert!(allows_create_on_update("coordination.k8s.io", "Lease"));
    assert!(!allows_create_on_update("", "ConfigMap"));
    assert!(!allows_unconditional_update("coordination.k8s.io", "Lease"));
    assert!(allows_unconditional_update("", "Secret"));
    assert!(tracks_generation("apiextensions.k8s.io", "CustomResourceDefinition"));
    assert_eq!(name_rule("rbac.authorization.k8s.io", "Role"), NameRule::PathSegment);
    assert_eq!(name_rule("", "Namespace"), NameRule::Label);
}

#[test]
fn mistakes_are_told_in_bounds() {
    const MANY: usize = 20_000;
    let wrong: serde_json::Map<String, Value> =
        (0..MANY).map(|n| (format!("no good {n}"), "eA==".into())).collect();
    let no = |value: Value| vec![value; MANY];
    for (group, kind, object) in [
        ("", "ConfigMap", json!({"data": wrong})),
        ("", "ConfigMap", json!({"binaryData": wrong})),
        ("", "Secret", json!({"data": wrong})),
        ("", "Namespace", json!({"spec": {"finalizers": no("no good".into())}})),
        ("", "Node", json!({"spec": {"taints": no(json!({}))}})),
        ("", "Node", json!({"spec": {"podCIDRs": no("x".into())}})),
        ("", "Node", json!({"status": {"declaredFeatures": no("x".into())}})),
        (RBAC, "Role", json!({"rules": no(json!({}))})),
        (RBAC, "RoleBinding", json!({"subjects": no(json!({}))})),
        (
            RBAC,
            "ClusterRole",
            json!({"aggregationRule": {"clusterRoleSelectors": no(json!({"matchExpressions": [{}]}))}}),
        ),
        (RBAC, "ClusterRole", json!({"aggregationRule": {"clusterRoleSelectors": [{"matchLabels": wrong}]}})),
        (
            RBAC,
            "ClusterRole",
            json!({"aggregationRule": {"clusterRoleSelectors": [{"matchExpressions": no(json!({}))}]}}),
        ),
        (
            RBAC,
            "ClusterRole",
            json!({"aggregationRule": {"clusterRoleSelectors": [
                {"matchExpressions": [{"operator": "In", "key": "a", "values": no("no good".into())}]}
            ]}}),
        ),
    ] {
        let found = validate_create(group, kind, &object).len();
        assert!((1_000..1_010).contains(&found), "{kind}: {found}");
    }
    let node = json!({"status": {"addresses": no(json!({}))}});
    assert!(validate_update("", "Node", &node, &json!({}), None).len() < 1_010);
    assert!(finalizers("", "ConfigMap", &vec!["no-good"; MANY]).len() < 1_010);
}
