//! Warnings about valid values that are likely mistakes.

use std::net::IpAddr;

use serde_json::Value;

use super::{get, list, namespace::STANDARD_FINALIZERS, secret, text};
use crate::object::names::qualified_name;
use crate::status::go;

/// Formats of texts that validation knows, without their dashes.
const FORMATS: [&str; 26] = [
    "bsonobjectid",
    "uri",
    "email",
    "hostname",
    "ipv4",
    "ipv6",
    "cidr",
    "mac",
    "uuid",
    "uuid3",
    "uuid4",
    "uuid5",
    "isbn",
    "isbn10",
    "isbn13",
    "creditcard",
    "ssn",
    "hexcolor",
    "rgbcolor",
    "byte",
    "password",
    "date",
    "duration",
    "datetime",
    "k8sshortname",
    "k8slongname",
];

const MOUNTABLE_SECRETS: &str = "kubernetes.io/enforce-mountable-secrets";

/// Warnings about an object of a built-in kind that is about to be stored, in place of `old`.
pub(crate) fn warnings(group: &str, kind: &str, object: &Value, old: Option<&Value>) -> Vec<String> {
    match (group, kind) {
        ("", "Secret") => secret::warning(object).into_iter().collect(),
        ("", "Node") => of_node(object),
        ("", "ServiceAccount") => of_account(object, old),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => {
            let known = old.map(unknown_formats).unwrap_or_default();
            let new = unknown_formats(object).into_iter().filter(|format| !known.contains(format));
            new.map(|format| format!("unrecognized format {}", go::quote(&format))).collect()
        }
        _ => Vec::new(),
    }
}

/// Warnings about the finalizers that a custom object gets.
pub(crate) fn of_finalizers(object: &Value, old: Option<&Value>) -> Vec<String> {
    let finalizers = |object: &Value| -> Vec<String> {
        let names = list(object, &["metadata", "finalizers"]).iter();
        names.filter_map(Value::as_str).map(ToOwned::to_owned).collect()
    };
    let known = old.map(finalizers).unwrap_or_default();
    let mut new = finalizers(object);
    new.retain(|name| !known.contains(name));
    new.sort();
    new.dedup();
    let mut warnings = Vec::new();
    for name in new {
        let about = |what: &str| format!("metadata.finalizers: {}: {what}", go::quote(&name));
        warnings.extend(qualified_name(&name).iter().map(|complaint| about(complaint)));
        if !name.contains('/') && !STANDARD_FINALIZERS.contains(&name.as_str()) {
            let path = if name.contains('.') { " including a path (/)" } else { "" };
            warnings.push(about(&format!(
                "prefer a domain-qualified finalizer name{path} to avoid accidental conflicts with other finalizer writers"
            )));
        }
    }
    warnings
}

fn of_node(node: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    if !text(node, &["spec", "externalID"]).is_empty() {
        warnings.push("spec.externalID: this field is deprecated, and is unused by Kubernetes".to_owned());
    }
    let ranges = list(node, &["spec", "podCIDRs"]).iter().filter_map(Value::as_str);
    warnings.extend(
        ranges
            .enumerate()
            .filter_map(|(index, range)| Some(format!("spec.podCIDRs[{index}]: {}", of_range(range)?))),
    );
    warnings
}

/// A range should begin where it says, and be written as everybody writes it.
fn of_range(range: &str) -> Option<String> {
    let (address, length) = range.split_once('/')?;
    let (address, length): (IpAddr, u32) = (address.parse().ok()?, length.parse().ok()?);
    let (network, bits): (IpAddr, u32) = match address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(32_u32.checked_sub(length)?).unwrap_or(0);
            (IpAddr::from((u32::from(address) & mask).to_be_bytes()), 32)
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(128_u32.checked_sub(length)?).unwrap_or(0);
            (IpAddr::from((u128::from(address) & mask).to_be_bytes()), 128)
        }
    };
    let quoted = go::quote(range);
    if network != address {
        return Some(format!(
            "CIDR value {quoted} is ambiguous in this context (should be \"{network}/{length}\" or \"{address}/{bits}\"?)"
        ));
    }
    let canonical = format!("{address}/{length}");
    (address.is_ipv6() && canonical != range)
        .then(|| format!("IPv6 CIDR value {quoted} should be in RFC 5952 canonical format (\"{canonical}\")"))
}

fn of_account(account: &Value, old: Option<&Value>) -> Vec<String> {
    let enforces = |account: &Value| !get(account, &["metadata", "annotations", MOUNTABLE_SECRETS]).is_null();
    if !enforces(account) || old.is_some_and(enforces) {
        return Vec::new();
    }
    vec![format!(
        "metadata.annotations[{MOUNTABLE_SECRETS}]: deprecated in v1.32+; prefer separate namespaces to isolate access \
         to mounted secrets"
    )]
}

fn unknown_formats(crd: &Value) -> Vec<String> {
    let mut found = Vec::new();
    for version in list(crd, &["spec", "versions"]) {
        collect_formats(get(version, &["schema", "openAPIV3Schema"]), &mut found);
    }
    found
}

fn collect_formats(schema: &Value, found: &mut Vec<String>) {
    if !schema.is_object() {
        return;
    }
    let format = text(schema, &["format"]);
    let known = match text(schema, &["type"]) {
        "" | "string" => FORMATS.contains(&format.replace('-', "").as_str()),
        "integer" => matches!(format, "int32" | "int64"),
        "number" => matches!(format, "float" | "double"),
        _ => false,
    };
    if !format.is_empty() && !known {
        found.push(format.to_owned());
    }
    for part in ["items", "not", "additionalProperties"] {
        collect_formats(get(schema, &[part]), found);
    }
    for part in ["allOf", "anyOf", "oneOf"] {
        for schema in list(schema, &[part]) {
            collect_formats(schema, found);
        }
    }
    for (_, schema) in get(schema, &["properties"]).as_object().into_iter().flatten() {
        collect_formats(schema, found);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_is_new_is_warned_about() {
        let crd = |format: &str| {
            json!({"spec": {"versions": [{"schema": {"openAPIV3Schema": {
                "properties": {"a": {"type": "string", "format": format}, "b": {"type": "string", "format": "date-time"}},
            }}}]}})
        };
        let of =
            |object: &Value, old| warnings("apiextensions.k8s.io", "CustomResourceDefinition", object, old);
        let (x, y) = (crd("x"), crd("y"));
        assert_eq!(of(&x, None), ["unrecognized format \"x\""]);
        assert_eq!(of(&x, Some(&x)), [""; 0]);
        assert_eq!(of(&x, Some(&y)), ["unrecognized format \"x\""]);
        let object = |names: &[&str]| json!({"metadata": {"finalizers": names}});
        let old = object(&["old"]);
        let said = of_finalizers(&object(&["old", "orphan", "a/b", "c.d"]), Some(&old));
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(
            said[0].starts_with(
                "metadata.finalizers: \"c.d\": prefer a domain-qualified finalizer name including"
            )
        );
    }

    #[test]
    fn ranges_begin_where_they_say() {
        for (range, expected) in [
            ("10.0.0.0/8", None),
            ("2001:db8::/64", None),
            ("0.0.0.0/0", None),
            (
                "10.1.0.0/8",
                Some(
                    "CIDR value \"10.1.0.0/8\" is ambiguous in this context (should be \"10.0.0.0/8\" or \"10.1.0.0/32\"?)",
                ),
            ),
            (
                "2001:DB8::/64",
                Some(
                    "IPv6 CIDR value \"2001:DB8::/64\" should be in RFC 5952 canonical format (\"2001:db8::/64\")",
                ),
            ),
        ] {
            assert_eq!(of_range(range).as_deref(), expected, "{range}");
        }
    }
}
