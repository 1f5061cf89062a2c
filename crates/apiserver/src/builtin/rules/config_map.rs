//! ConfigMaps: keys that may be file names, no key twice, a bound on the size.

use capt_schema::{FieldError, FieldPath, is_enough};
use serde_json::{Map, Value};

use super::{MAX_DATA, complaints, invalid, path, secret, too_long};
use crate::object::names::config_key;

pub(super) fn validate(config: &Value) -> Vec<FieldError> {
    let none = Map::new();
    let of = |name: &str| config.get(name).and_then(Value::as_object).unwrap_or(&none);
    let (data, binary) = (of("data"), of("binaryData"));
    let mut errors = Vec::new();
    let mut size = 0;
    for (key, value) in data {
        if is_enough(&errors) {
            break;
        }
        let at = path(&["data"]).key(key);
        errors.extend(complaints(&at, key, config_key(key)));
        if binary.contains_key(key) {
            errors.push(invalid(&at, key.as_str(), "duplicate of key present in binaryData"));
        }
        size += value.as_str().map_or(0, str::len);
    }
    for (key, value) in binary {
        if is_enough(&errors) {
            break;
        }
        errors.extend(complaints(&path(&["binaryData"]).key(key), key, config_key(key)));
        size += value.as_str().map_or(0, decoded_length);
    }
    if size > MAX_DATA {
        // An empty name stands for the whole object.
        errors.push(too_long(&FieldPath::root().field(""), MAX_DATA));
    }
    errors
}

pub(super) fn validate_update(config: &Value, old: &Value, emptied: Option<&str>) -> Vec<FieldError> {
    let mut errors = secret::changed_immutable(config, old, &["data", "binaryData"], emptied);
    errors.extend(validate(config));
    errors
}

fn decoded_length(base64: &str) -> usize {
    let padding = base64.bytes().rev().take_while(|b| *b == b'=').count();
    (base64.len() / 4 * 3).saturating_sub(padding)
}
