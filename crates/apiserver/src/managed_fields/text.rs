//! Kubernetes' notations of values: in keys of `fieldsV1`, in the paths of conflicts and in error messages.
//!
//! Clients compare these texts byte by byte, so numbers, quotes and escapes follow the formats of the language the
//! API server is written in, not those of `serde_json`.

use serde_json::Value;

use crate::status::go;

/// A value inside a path: `[name="a",port=80]`.
pub(crate) fn in_path(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(bool) => bool.to_string(),
        Value::Number(number) => go::number(number),
        Value::String(text) => go::quote(text),
        Value::Array(items) => {
            let items: Vec<_> = items.iter().map(in_path).collect();
            format!("[{}]", items.join(","))
        }
        Value::Object(members) => {
            let members: Vec<_> =
                members.iter().map(|(name, member)| format!("{name}={}", in_path(member))).collect();
            members.concat()
        }
    }
}

/// A value in a message, as in `expected map, got &{[a b]}`.
pub(crate) fn in_message(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::Bool(bool) => bool.to_string(),
        Value::Number(number) => go::number(number),
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            let items: Vec<_> = items.iter().map(in_message).collect();
            format!("[{}]", items.join(" "))
        }
        Value::Object(members) => {
            let mut sorted: Vec<_> = members.iter().collect();
            sorted.sort_unstable_by_key(|(name, _)| *name);
            let members: Vec<_> =
                sorted.into_iter().map(|(name, member)| format!("{name}:{}", in_message(member))).collect();
            format!("map[{}]", members.join(" "))
        }
    }
}

/// A value as a literal of the API server's language, where its messages have one.
pub(crate) fn literal(value: &Value) -> String {
    match value {
        Value::Null => "interface {}(nil)".to_owned(),
        Value::Bool(bool) => bool.to_string(),
        Value::Number(number) => go::number(number),
        Value::String(text) => go::quote(text),
        Value::Array(items) => {
            let items: Vec<_> = items.iter().map(literal).collect();
            format!("[]interface {{}}{{{}}}", items.join(", "))
        }
        Value::Object(members) => {
            let mut sorted: Vec<_> = members.iter().collect();
            sorted.sort_unstable_by_key(|(name, _)| *name);
            let members: Vec<_> = sorted
                .into_iter()
                .map(|(name, member)| format!("{}:{}", go::quote(name), literal(member)))
                .collect();
            format!("map[string]interface {{}}{{{}}}", members.join(", "))
        }
    }
}

/// The name of a value's type in messages.
pub(crate) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_i64() => "int64",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_of_messages() {
        for (value, expected) in [
            (json!(8080), "8080"),
            (json!(8080.0), "8080"),
            (json!(999_999.0), "999999"),
            (json!(1_000_000.0), "1e+06"),
            (json!(1_234_567.0), "1.234567e+06"),
            (json!(0.5), "0.5"),
            (json!(0.00001), "1e-05"),
            (json!(-3.25), "-3.25"),
        ] {
            assert_eq!(in_path(&value), expected);
        }
    }
}
