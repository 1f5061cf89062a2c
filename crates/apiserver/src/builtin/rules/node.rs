//! Nodes, as plain objects: what identifies them stays, taints and addresses make sense.

use std::collections::HashSet;

use capt_schema::{FieldError, FieldErrorKind, FieldPath, is_enough};
use serde_json::{Value, json};

use super::{complaints, forbidden, get, invalid, list, not_supported, path, required, text};
use crate::object::names::{label_value, qualified_name};

const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

pub(super) fn apply_defaults(node: &mut Value) {
    join_ranges(node);
    let capacity = get(node, &["status", "capacity"]).clone();
    if get(node, &["status", "allocatable"]).is_null() && !capacity.is_null() {
        node["status"]["allocatable"] = capacity;
    }
}

/// The range that was once the only one and the first of several are the same; of two that differ, the former counts.
fn join_ranges(node: &mut Value) {
    let single = text(node, &["spec", "podCIDR"]).to_owned();
    let first = list(node, &["spec", "podCIDRs"]).first().cloned();
    match first {
        first if !single.is_empty() && first != Some(Value::from(single.as_str())) => {
            node["spec"]["podCIDRs"] = json!([single]);
        }
        Some(first) => node["spec"]["podCIDR"] = first,
        None => {}
    }
}

/// Drops `spec.configSource` and `status.config`, which are no longer supported.
pub(super) fn drop_configuration(node: &mut Value) {
    for (part, name) in [("spec", "configSource"), ("status", "config")] {
        if let Some(part) = node.get_mut(part).and_then(Value::as_object_mut) {
            part.remove(name);
        }
    }
}

/// Taints a new node as not ready, as admission does.
pub(super) fn admit_create(node: &mut Value) {
    let taint = json!({"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"});
    let same = |other: &Value| other["key"] == taint["key"] && other["effect"] == taint["effect"];
    if list(node, &["spec", "taints"]).iter().any(same) {
        return;
    }
    match node["spec"].get_mut("taints").and_then(Value::as_array_mut) {
        Some(taints) => taints.push(taint),
        None => node["spec"]["taints"] = json!([taint]),
    }
}

pub(super) fn validate_create(node: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    taints(node, &mut errors);
    swap(node, &mut errors);
    features(node, &mut errors);
    pod_ranges(node, &mut errors);
    errors
}

pub(super) fn validate_update(node: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut seen = HashSet::new();
    for (index, address) in list(node, &["status", "addresses"]).iter().enumerate() {
        if is_enough(&errors) {
            break;
        }
        if !seen.insert((text(address, &["type"]), text(address, &["address"]))) {
            let at = path(&["status", "addresses"]).index(index);
            errors.push(FieldError::new(&at, FieldErrorKind::Duplicate, address.clone(), ""));
        }
    }
    let (ranges, old_ranges) = (list(node, &["spec", "podCIDRs"]), list(old, &["spec", "podCIDRs"]));
    if !old_ranges.is_empty() && ranges != old_ranges {
        let detail = "node updates may not change podCIDR except from \"\" to valid";
        errors.push(forbidden(&path(&["spec", "podCIDRs"]), detail));
    }
    let (id, old_id) = (text(node, &["spec", "providerID"]), text(old, &["spec", "providerID"]));
    if !old_id.is_empty() && id != old_id {
        let detail = "node updates may not change providerID except from \"\" to valid";
        errors.push(forbidden(&path(&["spec", "providerID"]), detail));
    }
    taints(node, &mut errors);
    if text(node, &["spec", "externalID"]) != text(old, &["spec", "externalID"]) {
        errors.push(forbidden(&path(&["spec", "externalID"]), "may not be updated"));
    }
    errors.extend(validate_create(node));
    errors
}

fn taints(node: &Value, errors: &mut Vec<FieldError>) {
    let mut seen = HashSet::new();
    for (index, taint) in list(node, &["spec", "taints"]).iter().enumerate() {
        if is_enough(errors) {
            break;
        }
        // Upstream looks for taints in the metadata when it names them.
        let at = path(&["metadata", "taints"]).index(index);
        let (key, value, effect) = (text(taint, &["key"]), text(taint, &["value"]), text(taint, &["effect"]));
        errors.extend(complaints(&at.field("key"), key, qualified_name(key)));
        let complaint = label_value(value).join(";");
        if !complaint.is_empty() {
            errors.push(invalid(&at.field("value"), value, complaint));
        }
        taint_effect(effect, &at.field("effect"), errors);
        if !seen.insert((key, effect)) {
            let detail = "taints must be unique by key and effect pair";
            let shown = [("Key", key), ("Value", value), ("Effect", effect)]
                .map(|(name, value)| format!("\"{name}\":{}", Value::from(value)))
                .join(",");
            let error = FieldError::new(&at, FieldErrorKind::Duplicate, taint.clone(), detail);
            errors.push(error.showing(format!("{{{shown},\"TimeAdded\":null}}")));
        }
    }
}

fn swap(node: &Value, errors: &mut Vec<FieldError>) {
    let capacity = get(node, &["status", "nodeInfo", "swap", "capacity"]).as_i64();
    if let Some(capacity) = capacity.filter(|capacity| *capacity <= 0) {
        // Upstream looks for it in the metadata, too.
        let at = path(&["metadata", "nodeSwapStatus", "capacity"]);
        errors.push(invalid(&at, capacity, "must be greater than zero"));
    }
}

/// Names of features are sorted, and read like `MyFeature/mySubFeature`.
fn features(node: &Value, errors: &mut Vec<FieldError>) {
    let features: Vec<&str> =
        list(node, &["status", "declaredFeatures"]).iter().filter_map(Value::as_str).collect();
    let at = path(&["status", "declaredFeatures"]);
    for (index, feature) in features.iter().enumerate() {
        if is_enough(errors) {
            break;
        }
        let parts = feature.split('/').enumerate().all(|(place, part)| {
            part.starts_with(|c: char| c.is_ascii_uppercase() || (place > 0 && c.is_ascii_lowercase()))
                && part.bytes().all(|byte| byte.is_ascii_alphanumeric())
        });
        let name = crate::status::go::quote(feature);
        if feature.len() > 253 {
            let detail = format!("invalid feature name {name}: must be no more than 253 characters");
            errors.push(invalid(&at.index(index), *feature, detail));
        } else if !parts {
            let detail = format!(
                "invalid feature name {name}: must start with an UpperCamelCase segment, with subsequent segments \
                 separated by '/' (e.g., MyFeature or MyFeature/mySubFeature), and contain only alphanumeric \
                 characters and slashes"
            );
            errors.push(invalid(&at.index(index), *feature, detail));
        }
        let Some(next) = features.get(index + 1) else { continue };
        if next == feature {
            errors.push(FieldError::new(
                &at.index(index + 1),
                FieldErrorKind::Duplicate,
                Value::from(*next),
                "",
            ));
        } else if next < feature {
            errors.push(invalid(&at.index(index + 1), *next, "list must be sorted alphabetically"));
        }
    }
}

fn taint_effect(effect: &str, at: &FieldPath, errors: &mut Vec<FieldError>) {
    if effect.is_empty() {
        errors.push(required(at, ""));
    } else if !EFFECTS.contains(&effect) {
        errors.push(not_supported(at, effect, &EFFECTS));
    }
}

fn pod_ranges(node: &Value, errors: &mut Vec<FieldError>) {
    let ranges = list(node, &["spec", "podCIDRs"]);
    let at = path(&["spec", "podCIDRs"]);
    let mut families = HashSet::new();
    let mut unreadable = None;
    for (index, range) in ranges.iter().filter_map(Value::as_str).enumerate() {
        if is_enough(errors) {
            break;
        }
        if let Some(is_v6) = address_family(range) {
            families.insert(is_v6);
        } else {
            let detail = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
            errors.push(invalid(&at.index(index), range, detail));
            unreadable.get_or_insert((index, range));
        }
    }
    if let Some((index, range)) = unreadable.filter(|_| ranges.len() > 1) {
        let detail = format!(
            "invalid PodCIDRs. failed to check with dual stack with error:invalid CIDR[{index}]: <nil> (invalid CIDR address: {range})"
        );
        errors.push(FieldError::new(&at, FieldErrorKind::Internal, None, detail));
    }
    if ranges.len() > 1 && (families.len() < 2 || ranges.len() > 2) {
        let detail = "may specify no more than one CIDR for each IP family";
        errors.push(invalid(&at, ranges.to_vec(), detail));
    }
}

fn address_family(range: &str) -> Option<bool> {
    let (address, length) = range.split_once('/')?;
    let address: std::net::IpAddr = address.parse().ok()?;
    let length: u8 = length.parse().ok()?;
    (length <= if address.is_ipv6() { 128 } else { 32 }).then_some(address.is_ipv6())
}
