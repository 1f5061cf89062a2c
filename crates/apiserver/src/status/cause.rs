//! The causes of a `Status`: one for each invalid field.

use std::{borrow::Cow, collections::HashSet};

use capt_schema::FieldError;
use serde_json::{Map, Value};

use super::go;

/// Causes that are told of one object.
const MOST: usize = 100;
/// Bytes of all causes of one object, beyond which none is added.
const ALL: usize = 64 << 10;
/// Bytes of one text of a cause, or of a name.
pub(super) const TEXT: usize = 32 << 10;

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

    /// The first of these causes, and how many more there are: every mistake in an object is told up to a hundred and
    /// `ALL` bytes. An object has room for hundreds of thousands, and the answer is in memory until it is read. Where a
    /// cause quotes much, it is to be made by the iterator: those that are not told are then not made.
    pub fn bounded<I>(causes: I) -> Vec<Self>
    where
        I: IntoIterator<Item = Self, IntoIter: ExactSizeIterator>,
    {
        let causes = causes.into_iter();
        let (count, mut bytes) = (causes.len(), 0);
        let mut told = Vec::new();
        for cause in causes.take(MOST) {
            let (message, field) = (shortened(cause.message, TEXT), shortened(cause.field, TEXT));
            bytes += message.len() + field.len();
            told.push(Self { message, field, ..cause });
            if bytes >= ALL {
                break;
            }
        }
        if told.len() < count {
            told.push(Self::new("", format!("and {} more, which are not told", count - told.len()), ""));
        }
        told
    }

    pub(super) fn to_json(&self) -> Value {
        let Self { reason, message, field } = self;
        let texts = [("reason", reason.as_ref()), ("message", message), ("field", field)];
        let texts = texts.into_iter().filter(|(_, text)| !text.is_empty());
        let short = |text: &str| Value::from(shortened(text.to_owned(), TEXT));
        texts.map(|(key, text)| (key.to_owned(), short(text))).collect::<Map<_, _>>().into()
    }

    fn text(&self) -> String {
        let Self { message, field, .. } = self;
        if field.is_empty() { message.clone() } else { format!("{field}: {message}") }
    }
}

/// The first `most` bytes of a text, and how many more there are.
pub(crate) fn shortened(text: String, most: usize) -> String {
    if text.len() <= most {
        return text;
    }
    let (told, rest) = text.split_at(text.floor_char_boundary(most));
    format!("{told}... ({} more bytes)", rest.len())
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
    let texts: Vec<_> = causes.iter().map(Cause::text).filter(|text| seen.insert(text.clone())).collect();
    match texts.as_slice() {
        [only] => only.clone(),
        several => format!("[{}]", several.join(", ")),
    }
}
