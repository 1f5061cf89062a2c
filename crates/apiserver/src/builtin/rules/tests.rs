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
