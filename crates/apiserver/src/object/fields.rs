//! Members of objects that were not parsed into types, and errors that name a field, in the words of Kubernetes.

use capt_schema::{FieldError, FieldErrorKind, FieldPath};
use serde_json::Value;

/// Puts back a member of `old`.
pub(crate) fn keep(object: &mut Value, old: &Value, name: &str) {
    let Value::Object(members) = object else { return };
    match old.get(name) {
        Some(value) => {
            members.insert(name.to_owned(), value.clone());
        }
        None => {
            members.shift_remove(name);
        }
    }
}

pub(crate) fn path(fields: &[&str]) -> FieldPath {
    fields.iter().fold(FieldPath::root(), |path, name| path.field(name))
}

/// A member of an object, through several levels.
pub(crate) fn get<'a>(object: &'a Value, fields: &[&str]) -> &'a Value {
    fields.iter().try_fold(object, |value, name| value.get(name)).unwrap_or(&Value::Null)
}

/// A text member, through several levels; empty when it is not there.
pub(crate) fn text<'a>(object: &'a Value, fields: &[&str]) -> &'a str {
    get(object, fields).as_str().unwrap_or_default()
}

/// A list member, through several levels; empty when it is not there.
pub(crate) fn list<'a>(object: &'a Value, fields: &[&str]) -> &'a [Value] {
    get(object, fields).as_array().map_or(&[], Vec::as_slice)
}

pub(crate) fn invalid(path: &FieldPath, value: impl Into<Value>, detail: impl Into<String>) -> FieldError {
    FieldError::new(path, FieldErrorKind::Invalid, value.into(), detail)
}

pub(crate) fn required(path: &FieldPath, detail: &str) -> FieldError {
    FieldError::new(path, FieldErrorKind::Required, Value::from(""), detail)
}

pub(crate) fn forbidden(path: &FieldPath, detail: &str) -> FieldError {
    FieldError::new(path, FieldErrorKind::Forbidden, Value::from(""), detail)
}

pub(crate) fn not_supported(path: &FieldPath, value: &str, supported: &[&str]) -> FieldError {
    let quoted: Vec<String> = supported.iter().map(|value| format!("{value:?}")).collect();
    let detail = format!("supported values: {}", quoted.join(", "));
    FieldError::new(path, FieldErrorKind::NotSupported, Value::from(value), detail)
}

/// An error for each of `names`' complaints.
pub(crate) fn complaints(
    path: &FieldPath,
    value: &str,
    details: Vec<String>,
) -> impl Iterator<Item = FieldError> {
    details.into_iter().map(move |detail| invalid(path, value, detail))
}

/// An error if a field changed that may not.
pub(crate) fn immutable(path: &FieldPath, new: &Value, old: &Value) -> Option<FieldError> {
    (new != old).then(|| invalid(path, new.clone(), "field is immutable"))
}
