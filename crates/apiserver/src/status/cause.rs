//! What is wrong with one field, as a `Status` lists it.

use std::{borrow::Cow, collections::HashSet};

use capt_schema::FieldError;
use serde_json::{Map, Value};

use super::go;

/// One entry of `details.causes`.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Cause {
    /// A word for programs, such as `FieldValueInvalid`; empty where there is none.
    pub reason: Cow<'static, str>,
    /// Words for people, without the field.
    pub message: String,
    /// The field; empty where the cause is not about one.
    pub field: String,
}

impl From<&FieldError> for Cause {
    fn from(error: &FieldError) -> Self {
        Self::new(error.reason(), error.body(), error.path.to_string())
    }
}

impl Cause {
    /// A cause of any kind.
    pub fn new(reason: &'static str, message: impl Into<String>, field: impl Into<String>) -> Self {
        Self { reason: Cow::Borrowed(reason), message: message.into(), field: field.into() }
    }

    /// The value is malformed or out of bounds.
    pub fn invalid(field: &str, value: &Value, detail: &str) -> Self {
        Self::new(
            "FieldValueInvalid",
            with_detail(&format!("Invalid value: {}", shown(value)), detail),
            field,
        )
    }

    /// The value is not one of those supported.
    pub fn not_supported(field: &str, value: &Value, supported: &[&str]) -> Self {
        let supported: Vec<_> = supported.iter().map(|value| go::quote(value)).collect();
        let message =
            format!("Unsupported value: {}: supported values: {}", shown(value), supported.join(", "));
        Self::new("FieldValueNotSupported", message, field)
    }

    /// A value must be given.
    pub fn required(field: &str, detail: &str) -> Self {
        Self::new("FieldValueRequired", with_detail("Required value", detail), field)
    }

    /// No value may be given.
    pub fn forbidden(field: &str, detail: &str) -> Self {
        Self::new("FieldValueForbidden", with_detail("Forbidden", detail), field)
    }

    /// The value has more than `limit` bytes.
    pub fn too_long(field: &str, limit: usize) -> Self {
        let bytes = if limit == 1 { "byte" } else { "bytes" };
        Self::new("FieldValueTooLong", format!("Too long: may not be more than {limit} {bytes}"), field)
    }

    pub(super) fn to_json(&self) -> Value {
        let Self { reason, message, field } = self;
        let texts = [("reason", reason.as_ref()), ("message", message), ("field", field)];
        let texts = texts.into_iter().filter(|(_, text)| !text.is_empty());
        texts.map(|(key, text)| (key.to_owned(), Value::from(text))).collect::<Map<_, _>>().into()
    }
}

fn with_detail(message: &str, detail: &str) -> String {
    if detail.is_empty() { message.to_owned() } else { format!("{message}: {detail}") }
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => go::quote(text),
        other => go::plain(other),
    }
}

/// All causes in one text: each once, in brackets if they are several.
pub fn joined(causes: &[Cause]) -> String {
    let mut seen = HashSet::new();
    let texts: Vec<_> = causes
        .iter()
        .map(|cause| format!("{}: {}", cause.field, cause.message))
        .filter(|text| seen.insert(text.clone()))
        .collect();
    match texts.as_slice() {
        [only] => only.clone(),
        several => format!("[{}]", several.join(", ")),
    }
}
