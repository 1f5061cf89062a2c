//! Field errors, with Kubernetes' messages.

use serde_json::Value;

use crate::go::text;
use crate::path::FieldPath;

/// How many mistakes are told where each is as short as what is wrong: more than anybody reads. Each takes some hundred bytes,
/// and an object has room for hundreds of thousands.
const MOST_MISTAKES: usize = 1_000;

/// Returns whether so many mistakes were found that no more are looked for.
pub fn is_enough(errors: &[FieldError]) -> bool {
    errors.len() >= MOST_MISTAKES
}

/// The kind of a [`FieldError`]; each is one reason of a Kubernetes `Status` cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FieldErrorKind {
    /// The value is malformed or out of bounds.
    Invalid,
    /// The value is of another type than the schema says.
    TypeInvalid,
    /// A value must be given.
    Required,
    /// The value is not one of the supported ones.
    NotSupported,
    /// The value must be unique and is not.
    Duplicate,
    /// The value is not permitted here.
    Forbidden,
    /// The string is too long.
    TooLong,
    /// The list or map has too many entries.
    TooMany,
    /// The check itself failed; not the user's fault.
    Internal,
}

impl FieldErrorKind {
    /// The reason of a `Status` cause, such as `FieldValueInvalid`.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Invalid => "FieldValueInvalid",
            Self::TypeInvalid => "FieldValueTypeInvalid",
            Self::Required => "FieldValueRequired",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Duplicate => "FieldValueDuplicate",
            Self::Forbidden => "FieldValueForbidden",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
            Self::Internal => "InternalError",
        }
    }

    const fn label(self) -> &'static str {
        match self {
            Self::Invalid | Self::TypeInvalid => "Invalid value",
            Self::Required => "Required value",
            Self::NotSupported => "Unsupported value",
            Self::Duplicate => "Duplicate value",
            Self::Forbidden => "Forbidden",
            Self::TooLong => "Too long",
            Self::TooMany => "Too many",
            Self::Internal => "Internal error",
        }
    }

    /// Returns whether the message repeats the offending value.
    const fn shows_value(self) -> bool {
        matches!(
            self,
            Self::Invalid | Self::TypeInvalid | Self::NotSupported | Self::Duplicate | Self::TooMany
        )
    }
}

/// One thing wrong with one field of an object or of a schema.
///
/// `Display` is the whole message (`spec.version: Required value`), [`FieldError::body`] is
/// the message without the path, as a `Status` cause carries it.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{path}: {}", self.body())]
pub struct FieldError {
    /// The field.
    pub path: FieldPath,
    /// The kind of error.
    pub kind: FieldErrorKind,
    /// The offending value as the message shows it; for some errors a stand-in such as the
    /// type's name, for some none.
    pub value: Option<Value>,
    /// The detail of the error.
    pub detail: String,
    /// The value as the message shows it, where that is not how it is written otherwise.
    shown: Option<String>,
}

impl FieldError {
    /// An error of any kind.
    pub fn new(
        path: &FieldPath,
        kind: FieldErrorKind,
        value: impl Into<Option<Value>>,
        detail: impl Into<String>,
    ) -> Self {
        Self { path: path.clone(), kind, value: value.into(), detail: detail.into(), shown: None }
    }

    pub(crate) fn invalid(path: &FieldPath, value: impl Into<Value>, detail: impl Into<String>) -> Self {
        Self::new(path, FieldErrorKind::Invalid, value.into(), detail)
    }

    pub(crate) fn required(path: &FieldPath, detail: impl Into<String>) -> Self {
        Self::new(path, FieldErrorKind::Required, Value::from(""), detail)
    }

    pub(crate) fn forbidden(path: &FieldPath, detail: impl Into<String>) -> Self {
        Self::new(path, FieldErrorKind::Forbidden, Value::from(""), detail)
    }

    pub(crate) fn not_supported(path: &FieldPath, value: Value, supported: &[String]) -> Self {
        let quoted: Vec<String> = supported.iter().map(|s| text::quote(s)).collect();
        let detail = if quoted.is_empty() {
            String::new()
        } else {
            format!("supported values: {}", quoted.join(", "))
        };
        Self::new(path, FieldErrorKind::NotSupported, value, detail)
    }

    /// The same error seen from further up: its path under `prefix`.
    #[must_use]
    pub fn under(mut self, prefix: &FieldPath) -> Self {
        self.path = self.path.under(prefix);
        self
    }

    /// The same error, with the value shown as `text`.
    #[must_use]
    pub fn showing(mut self, text: String) -> Self {
        self.shown = Some(text);
        self
    }

    /// The reason of a `Status` cause, such as `FieldValueInvalid`.
    pub const fn reason(&self) -> &'static str {
        self.kind.reason()
    }

    /// The message without the path.
    pub fn body(&self) -> String {
        let mut body = self.kind.label().to_owned();
        if self.kind.shows_value()
            && let Some(value) = &self.value
        {
            body.push_str(": ");
            match &self.shown {
                Some(shown) => body.push_str(shown),
                None => body.push_str(&text::bad_value(value)),
            }
        }
        if !self.detail.is_empty() {
            body.push_str(": ");
            body.push_str(&self.detail);
        }
        body
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn messages_are_worded_as_kubernetes_does() {
        let path = FieldPath::root().field("spec").field("labels").key("a/b");
        let rows = [
            (FieldError::required(&path, ""), "spec.labels[a/b]: Required value"),
            (FieldError::forbidden(&path, "no"), "spec.labels[a/b]: Forbidden: no"),
            (FieldError::invalid(&path, "x\n", "bad"), "spec.labels[a/b]: Invalid value: \"x\\n\": bad"),
            (FieldError::invalid(&path, 1e21, "bad"), "spec.labels[a/b]: Invalid value: 1e+21: bad"),
            (FieldError::invalid(&FieldPath::root(), Value::Null, "bad"), "<nil>: Invalid value: null: bad"),
            (
                FieldError::invalid(&path, json!({"b": "<", "a": [1, 0.5]}), ""),
                "spec.labels[a/b]: Invalid value: {\"a\":[1,0.5],\"b\":\"\\u003c\"}",
            ),
            (
                FieldError::not_supported(&path, json!("C"), &["A".into(), "B".into()]),
                "spec.labels[a/b]: Unsupported value: \"C\": supported values: \"A\", \"B\"",
            ),
            (
                FieldError::new(&path, FieldErrorKind::TooMany, None, "must have at most 1 item"),
                "spec.labels[a/b]: Too many: must have at most 1 item",
            ),
        ];
        for (error, expected) in rows {
            assert_eq!(error.to_string(), expected);
        }
    }
}
