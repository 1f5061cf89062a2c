//! Addresses as Terraform writes them.

use std::fmt::Write as _;

use serde_json::Value;

use super::{Instance, Object};

pub(super) fn of(object: &Object<'_>, instance: &Instance<'_>) -> String {
    let mut address = String::new();
    if let Some(module) = object.module.as_deref().filter(|module| !module.is_empty()) {
        address.push_str(module);
        address.push('.');
    }
    address.push_str(&object.kind);
    address.push('.');
    address.push_str(&object.name);
    match &instance.index_key {
        None | Some(Value::Null) => {}
        Some(Value::String(key)) => {
            address.push_str("[\"");
            quote(key, &mut address);
            address.push_str("\"]");
        }
        Some(key) => write!(address, "[{key}]").expect("writing to a String never fails"),
    }
    address
}

/// As in HCL: a key such as `${x}` must not read as a template.
fn quote(key: &str, to: &mut String) {
    let mut rest = key.chars().peekable();
    while let Some(next) = rest.next() {
        match next {
            '\n' => to.push_str("\\n"),
            '\r' => to.push_str("\\r"),
            '\t' => to.push_str("\\t"),
            '"' => to.push_str("\\\""),
            '\\' => to.push_str("\\\\"),
            '$' | '%' if rest.peek() == Some(&'{') => {
                to.push(next);
                to.push(next);
            }
            control if control.is_control() => {
                write!(to, "\\u{:04x}", u32::from(control)).expect("writing to a String never fails");
            }
            other => to.push(other),
        }
    }
}
