//! The order of merged lists.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::{DIRECTIVE, Outcome, SET_ORDER, StrategicError, list::Elements};
use crate::managed_fields::text;

/// Items of the patch in the order of `wanted`, those only the server has between them, as in `server_order`.
pub(super) fn arrange(
    merged: Vec<Value>,
    wanted: &[Value],
    server_order: &[Value],
    elements: &Elements<'_>,
) -> Outcome<Vec<Value>> {
    elements.check(&merged)?;
    elements.check(wanted)?;
    let (wanted, server_order) = (places(wanted, elements), places(server_order, elements));
    let place = |order: &HashMap<&Value, usize>, item: &Value| order.get(elements.key(item)).copied();
    let (mut of_patch, mut of_server): (Vec<_>, Vec<_>) =
        merged.into_iter().partition(|item| place(&wanted, item).is_some());
    of_patch.sort_by_cached_key(|item| place(&wanted, item));
    // What is not in the live list was not known to have an order; it stays where it is.
    of_server.sort_by_cached_key(|item| place(&server_order, item));

    let mut out = Vec::with_capacity(of_patch.len() + of_server.len());
    let mut of_server = of_server.into_iter().peekable();
    for item in of_patch {
        let here = place(&server_order, &item);
        while let Some(before) = of_server.next_if(|other| match (place(&server_order, other), here) {
            (Some(there), Some(here)) => there < here,
            _ => false,
        }) {
            out.push(before);
        }
        out.push(item);
    }
    out.extend(of_server);
    Ok(out)
}

/// The position of each item of a list; the first of several with one key.
fn places<'v>(items: &'v [Value], elements: &Elements<'_>) -> HashMap<&'v Value, usize> {
    let mut places = HashMap::with_capacity(items.len());
    for (place, item) in items.iter().enumerate() {
        places.entry(elements.key(item)).or_insert(place);
    }
    places
}

/// Returns whether the items of the patch are among `wanted`, in that order.
pub(super) fn check(patch: &[Value], wanted: &[Value], merge_key: Option<&str>) -> Outcome<()> {
    if patch.is_empty() || wanted.is_empty() {
        return Ok(());
    }
    let mut wanted_rest = wanted.iter();
    for item in patch {
        if merge_key.is_some() {
            let Value::Object(members) = item else {
                return Err(StrategicError::bad_type(&Value::Object(Map::new()), item));
            };
            if members.contains_key(DIRECTIVE) {
                continue;
            }
        }
        let mut found = false;
        for other in wanted_rest.by_ref() {
            if same_key(item, other, merge_key)? {
                found = true;
                break;
            }
        }
        if !found {
            let list = |items: &[Value]| text::in_message(&Value::Array(items.to_vec()));
            return Err(StrategicError::Other(format!(
                "The order in patch list:\n{}\n doesn't match {SET_ORDER} list:\n{}\n",
                list(patch),
                list(wanted)
            )));
        }
    }
    Ok(())
}

fn same_key(left: &Value, right: &Value, merge_key: Option<&str>) -> Outcome<bool> {
    let Some(key) = merge_key else { return Ok(left == right) };
    let value = |item: &Value| match item {
        Value::Object(members) => {
            members.get(key).cloned().ok_or_else(|| StrategicError::no_merge_key(members, key))
        }
        other => Err(StrategicError::bad_type(&Value::Object(Map::new()), other)),
    };
    Ok(value(left)? == value(right)?)
}
