//! One step of a path into an object, and its text in `fieldsV1` and in messages.

use std::{cmp::Ordering, fmt};

use serde_json::{Number, Value};

use super::{order, text};
use crate::status::go;

/// A path element: it selects a value from the one that contains it.
#[derive(Clone, Debug)]
pub enum PathElement {
    /// A member of a map: `f:name`.
    Field(Box<str>),
    /// The item of a list with these key fields, sorted by name: `k:{"name":"a"}`.
    Key(Vec<(Box<str>, Value)>),
    /// The item of a set with this value: `v:"a"`.
    Value(Value),
    /// The item of a list at this place: `i:0`. Kubernetes reads it and never writes it.
    Index(i64),
}

/// Why a key of `fieldsV1` is no path element.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ElementError {
    /// Shorter than any element.
    #[error("key must be 2 characters long:")]
    Short,
    /// No colon after the letter.
    #[error("missing colon: {0}")]
    NoColon(String),
    /// The part after the colon is no JSON value, object or number.
    #[error("parse path element {0:?}")]
    Content(String),
}

impl PathElement {
    /// A member of a map.
    pub fn field(name: &str) -> Self {
        Self::Field(name.into())
    }

    /// Reads a key of `fieldsV1`; `None` is an element of a kind this version does not know, which is ignored.
    pub fn decode(text: &str) -> Result<Option<Self>, ElementError> {
        let bytes = text.as_bytes();
        let (Some(kind), Some(colon)) = (bytes.first(), bytes.get(1)) else {
            return Err(ElementError::Short);
        };
        if *colon != b':' {
            return Err(ElementError::NoColon(text.to_owned()));
        }
        let content = || ElementError::Content(text.to_owned());
        let rest = text.get(2..).ok_or_else(content)?;
        Ok(Some(match kind {
            b'f' => Self::Field(rest.into()),
            b'v' => Self::Value(decode_value(serde_json::from_str(rest).map_err(|_| content())?)),
            b'i' => Self::Index(rest.parse().map_err(|_| content())?),
            b'k' => {
                let Ok(Value::Object(members)) = serde_json::from_str(rest) else { return Err(content()) };
                let mut keys: Vec<_> =
                    members.into_iter().map(|(name, value)| (name.into(), decode_value(value))).collect();
                keys.sort_by(|(left, _): &(Box<str>, Value), (right, _)| left.cmp(right));
                Self::Key(keys)
            }
            _ => return Ok(None),
        }))
    }

    /// The key of `fieldsV1`.
    pub fn encode(&self) -> String {
        match self {
            Self::Field(name) => {
                let mut out = String::with_capacity(name.len() + 2);
                out.push_str("f:");
                out.push_str(name);
                out
            }
            Self::Key(fields) => {
                let mut out = "k:{".to_owned();
                for (index, (name, value)) in fields.iter().enumerate() {
                    if index > 0 {
                        out.push(',');
                    }
                    go::write_json_string(name, &mut out);
                    out.push(':');
                    go::write_json(value, &mut out);
                }
                out.push('}');
                out
            }
            Self::Value(value) => {
                let mut out = "v:".to_owned();
                go::write_json(value, &mut out);
                out
            }
            Self::Index(index) => format!("i:{index}"),
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Field(_) => 0,
            Self::Key(_) => 1,
            Self::Value(_) => 2,
            Self::Index(_) => 3,
        }
    }
}

/// Numbers read from `fieldsV1` are floats to Kubernetes, and are printed as such in conflicts.
fn decode_value(value: Value) -> Value {
    match value {
        Value::Number(number) => {
            number.as_f64().and_then(Number::from_f64).map_or(Value::Number(number), Value::Number)
        }
        other => other,
    }
}

impl Ord for PathElement {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Field(left), Self::Field(right)) => left.cmp(right),
            (Self::Key(left), Self::Key(right)) => {
                let pairs = left.iter().zip(right);
                pairs
                    .map(|((left_name, left), (right_name, right))| {
                        left_name.cmp(right_name).then_with(|| order::compare(left, right))
                    })
                    .find(|order| order.is_ne())
                    .unwrap_or_else(|| left.len().cmp(&right.len()))
            }
            (Self::Value(left), Self::Value(right)) => order::compare(left, right),
            (Self::Index(left), Self::Index(right)) => left.cmp(right),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PartialOrd for PathElement {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for PathElement {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for PathElement {}

/// The form for people: `.spec`, `[name="a"]`, `[="a"]`, `[0]`.
impl fmt::Display for PathElement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(f, ".{name}"),
            Self::Key(fields) => {
                f.write_str("[")?;
                for (index, (name, value)) in fields.iter().enumerate() {
                    let comma = if index > 0 { "," } else { "" };
                    write!(f, "{comma}{name}={}", text::in_path(value))?;
                }
                f.write_str("]")
            }
            Self::Value(value) => write!(f, "[={}]", text::in_path(value)),
            Self::Index(index) => write!(f, "[{index}]"),
        }
    }
}

/// The form of a whole path for people: `.spec.ports[port=80]`.
pub fn display_path(path: &[PathElement]) -> String {
    path.iter().map(ToString::to_string).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn texts() {
        for text in [
            "f:",
            "f:spec",
            "f: spaces ",
            "i:12",
            r#"k:{"name":"a"}"#,
            r#"k:{"containerPort":8080,"protocol":"TCP"}"#,
            r#"k:{"name":null}"#,
            r#"v:"a""#,
            "v:1234",
            "v:1.5",
            "v:true",
            r#"v:"a\u003cb""#,
        ] {
            assert_eq!(PathElement::decode(text).unwrap().unwrap().encode(), text);
        }
        assert_eq!(PathElement::decode("x:new"), Ok(None));
        assert_eq!(PathElement::decode("f"), Err(ElementError::Short));
        assert_eq!(PathElement::decode("foo"), Err(ElementError::NoColon("foo".to_owned())));
        assert_eq!(PathElement::decode("k:[]"), Err(ElementError::Content("k:[]".to_owned())));
    }

    #[test]
    fn display() {
        let key = PathElement::decode(r#"k:{"protocol":"TCP","containerPort":8080}"#).unwrap().unwrap();
        let path = [PathElement::field("spec"), key, PathElement::Value(json!("a")), PathElement::Index(3)];
        assert_eq!(display_path(&path), r#".spec[containerPort=8080,protocol="TCP"][="a"][3]"#);
    }

    #[test]
    fn numbers_are_equal_in_any_form() {
        assert_eq!(PathElement::Value(json!(1)), PathElement::decode("v:1").unwrap().unwrap());
    }
}
