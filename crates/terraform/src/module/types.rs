//! Checks values against the declared types of variables, by Terraform's rules of conversion.

use std::fmt;

use hcl_edit::expr::{Expression, ObjectKey};
use serde_json::Value;

use super::hcl;

/// Why a value does not fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misfit {
    /// The part of the value, as Terraform writes it: `[0].name`; empty for all of it.
    pub part: String,
    /// The type that it should have.
    pub wanted: String,
    /// Kind of the value. Never the value itself: it may be a secret.
    pub found: &'static str,
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { part, wanted, found } = self;
        if part.is_empty() {
            write!(f, "must be {wanted}, is {found}")
        } else {
            write!(f, "{part} must be {wanted}, is {found}")
        }
    }
}

/// Why a value cannot become the type of this text (`list(string)`); nothing where it can, or where nobody but Terraform can tell.
pub fn misfit(type_text: &str, value: &Value) -> Option<Misfit> {
    let body = hcl::parse(&format!("type = {type_text}\n")).ok()?;
    let wanted = &body.get_attribute("type")?.value;
    // Text for a list or a map: what it is as JSON, as with `-var`.
    let parsed = value.as_str().filter(|_| is_compound(wanted));
    let parsed = parsed.and_then(|text| serde_json::from_str::<Value>(text).ok());
    let parsed = parsed.filter(|parsed| parsed.is_array() || parsed.is_object());
    fit(wanted, parsed.as_ref().unwrap_or(value), "")
}

fn is_compound(wanted: &Expression) -> bool {
    !matches!(name_of(wanted), Some("string" | "number" | "bool" | "any"))
}

/// `list` of `list(string)`, `string` of `string` and, as written before Terraform 0.12, of `"string"`.
fn name_of(wanted: &Expression) -> Option<&str> {
    match wanted {
        Expression::Variable(name) => Some(name.as_str()),
        Expression::String(name) => Some(name.as_str()),
        Expression::FuncCall(call) => Some(call.name.name.as_str()),
        _ => None,
    }
}

fn fit(wanted: &Expression, value: &Value, part: &str) -> Option<Misfit> {
    if value.is_null() {
        return None;
    }
    let inner = match wanted {
        Expression::FuncCall(call) => call.args.iter().next(),
        _ => None,
    };
    let wrong = |wanted: &str| {
        Some(Misfit { part: part.to_owned(), wanted: wanted.to_owned(), found: described(value) })
    };
    match (name_of(wanted)?, value) {
        ("optional", _) => fit(inner?, value, part),
        ("string", Value::Array(_) | Value::Object(_)) => wrong("a string"),
        ("number", Value::String(text)) if is_number(text) => None,
        ("number", value) if !value.is_number() => wrong("a number"),
        ("bool", Value::String(text)) if matches!(text.as_str(), "true" | "false" | "1" | "0") => None,
        ("bool", value) if !value.is_boolean() => wrong("a boolean"),
        ("list" | "set", Value::Array(items)) => {
            let inner = inner?;
            items.iter().enumerate().find_map(|(index, item)| fit(inner, item, &format!("{part}[{index}]")))
        }
        ("map", Value::Object(fields)) => {
            let inner = inner?;
            fields.iter().find_map(|(name, field)| fit(inner, field, &format!("{part}[{name:?}]")))
        }
        ("map", _) => wrong("a map"),
        ("object", Value::Object(fields)) => fit_object(inner?, fields, part),
        ("object", _) => wrong("an object"),
        ("tuple", Value::Array(items)) => {
            let types = inner?.as_array()?;
            if types.len() != items.len() {
                return Some(Misfit {
                    part: part.to_owned(),
                    wanted: format!("a list of {} items", types.len()),
                    found: "a list of another length",
                });
            }
            let mut pairs = types.iter().zip(items).enumerate();
            pairs.find_map(|(index, (inner, item))| fit(inner, item, &format!("{part}[{index}]")))
        }
        ("list" | "set" | "tuple", _) => wrong("a list"),
        _ => None,
    }
}

fn fit_object(wanted: &Expression, fields: &serde_json::Map<String, Value>, part: &str) -> Option<Misfit> {
    let key = |key: &ObjectKey| match key {
        ObjectKey::Ident(name) => Some(name.as_str().to_owned()),
        ObjectKey::Expression(expression) => expression.as_str().map(str::to_owned),
    };
    wanted.as_object()?.iter().find_map(|(name, wanted)| {
        let (name, wanted) = (key(name)?, wanted.expr());
        match fields.get(&name) {
            Some(field) => fit(wanted, field, &format!("{part}.{name}")),
            None if name_of(wanted) == Some("optional") => None,
            None => Some(Misfit {
                part: part.to_owned(),
                wanted: format!("an object with {name}"),
                found: "one without it",
            }),
        }
    })
}

/// As Terraform reads text for a number.
fn is_number(text: &str) -> bool {
    let digits = |text: &str| {
        text.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'+' | b'-' | b'.' | b'e' | b'E'))
    };
    let infinite = matches!(text.trim_start_matches(['+', '-']), "inf" | "Inf");
    infinite || (digits(text) && text.parse::<f64>().is_ok())
}

fn described(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "a map",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Each row as `terraform plan` takes or refuses it.
    #[test]
    fn values_fit_as_terraform_converts_them() {
        let rows = [
            ("string", json!("a"), ""),
            ("string", json!(1), ""),
            ("string", json!(true), ""),
            ("string", json!(null), ""),
            ("string", json!(["a"]), "must be a string, is a list"),
            ("\"string\"", json!({}), "must be a string, is a map"),
            ("number", json!(1.5), ""),
            ("number", json!("15"), ""),
            ("number", json!("1e3"), ""),
            ("number", json!("many"), "must be a number, is text"),
            ("number", json!("inf"), ""),
            ("number", json!("+5"), ""),
            ("number", json!(" 5"), "must be a number, is text"),
            ("number", json!("0x10"), "must be a number, is text"),
            ("number", json!(""), "must be a number, is text"),
            ("number", json!(true), "must be a number, is a boolean"),
            ("bool", json!("true"), ""),
            ("bool", json!("1"), ""),
            ("bool", json!("yes"), "must be a boolean, is text"),
            ("bool", json!(1), "must be a boolean, is a number"),
            ("any", json!({"a": [1]}), ""),
            ("list(string)", json!(["a", 1]), ""),
            ("list(string)", json!("a"), "must be a list, is text"),
            ("list(string)", json!("[\"a\"]"), ""),
            ("list(string)", json!({"a": "b"}), "must be a list, is a map"),
            ("list(number)", json!([1, "x"]), "[1] must be a number, is text"),
            ("set(string)", json!(["a", ["b"]]), "[1] must be a string, is a list"),
            ("map(number)", json!({"a": 1, "b": "x"}), "[\"b\"] must be a number, is text"),
            ("map(string)", json!("a=b"), "must be a map, is text"),
            ("list", json!(["a"]), ""),
            ("map", json!(1), "must be a map, is a number"),
            ("object({ a = string, b = optional(number, 3) })", json!({"a": "x", "c": 1}), ""),
            ("object({ a = string })", json!({"b": "x"}), "must be an object with a, is one without it"),
            (
                "object({\n  a = object({ b = bool })\n})",
                json!({"a": {"b": "x"}}),
                ".a.b must be a boolean, is text",
            ),
            ("tuple([string, number])", json!(["a", 1]), ""),
            (
                "tuple([string, number])",
                json!(["a"]),
                "must be a list of 2 items, is a list of another length",
            ),
            ("tuple([string, number])", json!(["a", "b"]), "[1] must be a number, is text"),
            ("nonsense(", json!("a"), ""),
            ("thing", json!("a"), ""),
        ];
        for (wanted, value, expected) in rows {
            let said = misfit(wanted, &value).as_ref().map(ToString::to_string).unwrap_or_default();
            assert_eq!(said, expected, "{wanted}: {value}");
        }
    }
}
