//! Precedence of values for a variable where the template, other objects, the instance and its owner give one.
//!
//! ```text
//! what an owner passes by default < template < variablesFrom < variables of the instance
//! ```
//! `${key}` in a value of the template stands for what the instance gives, and `$${` for `${`.

use std::collections::{BTreeMap, BTreeSet};

use capt_api::names::annotations;
use capt_api::workspace::WorkspaceTemplateApply;
use capt_terraform::inputs::Variable;
use kube::ResourceExt;
use serde_json::Value;

use super::fields::{MOST_TOLD, nearest};

/// Bytes of a key; what is longer stands for itself.
const LONGEST_KEY: usize = 253;

/// The values that a run gets.
#[derive(Default, PartialEq)]
pub struct Merged {
    /// By variable.
    pub variables: BTreeMap<String, Variable>,
    /// Variables whose value in the template differs from what the owner passes by default.
    pub kept: Vec<String>,
    /// Variables and what their value in the template has of `${key}` that nothing gives: the first [`MOST_TOLD`].
    pub unfilled: Vec<Unfilled>,
}

/// A `${key}` that was passed as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfilled {
    /// The variable in whose value it stands.
    pub variable: String,
    /// The key.
    pub key: String,
    /// The given key that it was probably meant to be.
    pub near: Option<String>,
}

/// Values that the instance gives.
#[derive(Clone, Copy)]
pub struct Given<'a> {
    /// From other objects.
    pub from: &'a BTreeMap<String, Variable>,
    /// In its spec.
    pub own: &'a BTreeMap<String, Value>,
    /// Those of its spec that its owner passes without having been told to.
    pub defaults: &'a BTreeSet<String>,
}

/// Merges them. `known` are further keys that `${key}` may name.
pub fn merge(
    template: &BTreeMap<String, Value>,
    given: Given<'_>,
    known: &BTreeMap<String, String>,
) -> Merged {
    let open = given.from.iter().filter(|(_, variable)| !variable.sensitive);
    let given_values = open.map(|(name, variable)| (name, &variable.value)).chain(given.own);
    let plain = template.iter().filter(|(_, value)| !mentions(value));
    let mut keys: BTreeMap<String, String> = plain.map(|(name, value)| (name.clone(), text(value))).collect();
    keys.extend(known.iter().map(|(name, value)| (name.clone(), value.clone())));
    keys.extend(given_values.map(|(name, value)| (name.clone(), text(value))));
    keys.retain(|name, _| is_variable(name));
    let mut merged = Merged::default();
    for (name, value) in given.own.iter().filter(|(name, _)| given.defaults.contains(*name)) {
        merged.variables.insert(name.clone(), plainly(value.clone()));
    }
    for (name, value) in template {
        let mut left = BTreeSet::new();
        let value = filled(value, &keys, &mut left);
        let given_elsewhere = given.own.contains_key(name) && !given.defaults.contains(name);
        if !given_elsewhere && !given.from.contains_key(name) {
            let near = |key: &str| nearest(key, keys.keys().map(String::as_str)).map(str::to_owned);
            let left = left.into_iter().take(MOST_TOLD.saturating_sub(merged.unfilled.len()));
            merged.unfilled.extend(left.map(|key| Unfilled {
                variable: name.clone(),
                near: near(&key),
                key,
            }));
        }
        let passed = given.own.get(name).filter(|_| given.defaults.contains(name));
        if passed.is_some_and(|passed| text(passed) != text(&value)) {
            merged.kept.push(name.clone());
        }
        merged.variables.insert(name.clone(), plainly(value));
    }
    merged.variables.extend(given.from.iter().map(|(name, variable)| (name.clone(), variable.clone())));
    for (name, value) in given.own.iter().filter(|(name, _)| !given.defaults.contains(*name)) {
        merged.variables.insert(name.clone(), plainly(value.clone()));
    }
    merged
}

/// Variables of an instance that its owner passes without having been told to.
pub fn defaults(object: &WorkspaceTemplateApply) -> BTreeSet<String> {
    let list = object.annotations().get(annotations::DEFAULT_VARIABLES);
    let names = list.iter().flat_map(|list| list.split(',')).map(str::trim);
    names.filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

/// Returns true if the API would take it as the name of a variable. What `${key}` stands for is what `spec.variables` takes: another
/// one, as ConfigMaps and maps may have them, would be spelled like an expression of the template (`a.b.id`), which is not the
/// instance's to change.
pub fn is_variable(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'))
}

/// A value as text.
pub fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Returns true if any value of a template names a key.
pub fn names(template: &BTreeMap<String, Value>, key: &str) -> bool {
    let key = format!("${{{key}}}");
    template.values().any(|value| value.to_string().contains(&key))
}

fn plainly(value: Value) -> Variable {
    Variable { value, sensitive: false }
}

fn mentions(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains("${"),
        Value::Array(items) => items.iter().any(mentions),
        Value::Object(members) => members.values().any(mentions),
        _ => false,
    }
}

/// A value with `${key}` of known keys replaced in its texts; those that are not known are noted.
fn filled(value: &Value, keys: &BTreeMap<String, String>, left: &mut BTreeSet<String>) -> Value {
    match value {
        Value::String(text) => Value::String(filled_text(text, keys, left)),
        Value::Array(items) => items.iter().map(|item| filled(item, keys, left)).collect(),
        Value::Object(members) => {
            members.iter().map(|(name, member)| (name.clone(), filled(member, keys, left))).collect()
        }
        scalar => scalar.clone(),
    }
}

/// The key of a `${key}`, from behind its brace; keys of ConfigMaps have 253 letters at most.
pub fn key_of(text: &str) -> Option<&str> {
    let end = text.bytes().take(LONGEST_KEY + 1).position(|byte| byte == b'}')?;
    text.get(..end)
}

/// A text with `${key}` of known keys replaced, once.
fn filled_text(text: &str, keys: &BTreeMap<String, String>, left: &mut BTreeSet<String>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        let (before, from) = rest.split_at(at);
        let escaped = before.ends_with('$');
        out.push_str(before.strip_suffix('$').filter(|_| escaped).unwrap_or(before));
        let key = key_of(&from[2..]).filter(|_| !escaped);
        if let Some((key, value)) = key.and_then(|key| keys.get_key_value(key)) {
            out.push_str(value);
            rest = &from[key.len() + "${}".len()..];
        } else {
            // Anything else is the text's own: `${aws:username}`.
            left.extend(key.filter(|key| is_variable(key)).map(str::to_owned));
            out.push_str("${");
            rest = &from[2..];
        }
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn map(value: &Value) -> BTreeMap<String, Value> {
        serde_json::from_value(value.clone()).expect("an object")
    }

    fn values(merged: &Merged) -> Value {
        merged.variables.iter().map(|(name, variable)| (name.clone(), variable.value.clone())).collect()
    }

    #[test]
    fn keys_are_replaced_in_values_of_a_template() {
        let own = map(&json!({"cluster_name": "demo", "zones": ["a", "b"], "size": 2}));
        let from = BTreeMap::from([
            ("region".to_owned(), plainly(json!("eu"))),
            ("token".to_owned(), Variable { value: json!("hunter2"), sensitive: true }),
            ("a.b".to_owned(), plainly(json!("evil"))),
        ]);
        let known = BTreeMap::from([("WORKSPACE_NAME".to_owned(), "demo-vpc".to_owned())]);
        let rows = [
            (json!("${cluster_name}-vpc"), json!("demo-vpc")),
            (json!("${WORKSPACE_NAME}/${region}"), json!("demo-vpc/eu")),
            (
                json!({"Name": "${cluster_name}", "list": ["${size}", 3, true]}),
                json!({"Name": "demo", "list": ["2", 3, true]}),
            ),
            (json!("${zones}"), json!("[\"a\",\"b\"]")),
            (json!("${literal}"), json!("as it is")),
            (json!("${token} ${unknown} ${a.b} ${"), json!("${token} ${unknown} ${a.b} ${")),
            (json!("$${cluster_name} $${x}"), json!("${cluster_name} ${x}")),
            (json!(5), json!(5)),
        ];
        let none = BTreeSet::new();
        for (value, expected) in rows {
            let template = map(&json!({"it": value, "literal": "as it is"}));
            let merged = merge(&template, Given { from: &from, own: &own, defaults: &none }, &known);
            assert_eq!(values(&merged)["it"], expected, "{value}");
        }
    }

    #[test]
    fn keys_that_nothing_gives_are_noted() {
        let own = map(&json!({"cluster_name": "demo", "other": "own"}));
        let from = BTreeMap::from([
            ("token".to_owned(), Variable { value: json!("hunter2"), sensitive: true }),
            ("mapped".to_owned(), plainly(json!("eu"))),
        ]);
        let defaults = BTreeSet::from(["cluster_name".to_owned()]);
        let template = map(&json!({
            "it": {"deep": ["${clustername} ${cluster_name} ${clustername}", "$${escaped} ${aws:username} ${token}"]},
            "mapped": "${gone}", "other": "${gone}", "open": "${",
        }));
        let merged =
            merge(&template, Given { from: &from, own: &own, defaults: &defaults }, &BTreeMap::new());
        let told: Vec<_> =
            merged.unfilled.iter().map(|left| (&*left.variable, &*left.key, left.near.as_deref())).collect();
        assert_eq!(told, [("it", "clustername", Some("cluster_name")), ("it", "token", None)]);
    }

    /// Two objects of a tenant hold up nobody.
    #[test]
    fn many_unknown_keys_and_many_known_ones_are_little_work() {
        let keys: Vec<String> = (0..12_000).map(|number| format!("${{a_key_{number}_of_nobody}}")).collect();
        let template = map(&json!({"it": keys.join(""), "open": "${".repeat(500_000)}));
        let offered = (0..40_000).map(|number| (format!("a_key_{number}_of_mine"), "x".to_owned())).collect();
        let none = (BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
        let merged = merge(&template, Given { from: &none.0, own: &none.1, defaults: &none.2 }, &offered);
        assert_eq!(merged.unfilled.len(), MOST_TOLD);
        assert_eq!(values(&merged)["open"], "${".repeat(500_000));
    }

    #[test]
    fn a_template_wins_over_defaults_alone() {
        let given = |template: Value, own: Value| {
            let defaults = BTreeSet::from(["environment".to_owned(), "tags".to_owned()]);
            let none = BTreeMap::new();
            let (template, own) = (map(&template), map(&own));
            let given = Given { from: &none, own: &own, defaults: &defaults };
            let merged = merge(&template, given, &BTreeMap::new());
            (values(&merged), merged.kept.join(","))
        };
        let rows = [
            // Template, instance -> value of environment, what differs.
            (
                json!({"environment": "dev"}),
                json!({"environment": "production"}),
                json!("dev"),
                "environment",
            ),
            (
                json!({"environment": "production"}),
                json!({"environment": "production"}),
                json!("production"),
                "",
            ),
            (
                json!({"environment": "${environment}"}),
                json!({"environment": "production"}),
                json!("production"),
                "",
            ),
            (json!({}), json!({"environment": "production"}), json!("production"), ""),
            (json!({"environment": "dev"}), json!({}), json!("dev"), ""),
        ];
        for (template, own, expected, kept) in rows {
            let (values, differs) = given(template.clone(), own.clone());
            assert_eq!((&values["environment"], differs.as_str()), (&expected, kept), "{template} {own}");
        }
        let (values, kept) = given(json!({"region": "eu"}), json!({"region": "us"}));
        assert_eq!((&values["region"], kept.as_str()), (&json!("us"), ""), "what somebody said wins");
    }
}
