//! Values at run time. What comes from the object stays there: lists and maps of JSON are
//! views that convert an element when it is asked for, guided by its schema.

use std::borrow::Cow;
use std::hash::{Hash, Hasher};
use std::net::IpAddr;
use std::ops::Deref;
use std::rc::Rc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::{Map, Value};

use crate::cel::budget::Cost;
use crate::cel::escape;
use crate::cel::keys::Entries;
use crate::cel::library::{Cidr, Quantity, Semver, size_of};
use crate::cel::types::ObjectType;
use crate::go::time;
use crate::go::url::Url;
use crate::node::{Kind, ListType, Node};

/// Why an evaluation has no result, in the words of an API server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum EvalError {
    #[error("no such overload{0}")]
    NoSuchOverload(String),
    #[error("no such key: {0}")]
    NoSuchKey(String),
    #[error("operation cancelled: actual cost limit exceeded")]
    CostLimit,
    #[error("{0}")]
    Other(String),
}

impl EvalError {
    pub fn other(message: impl Into<String>) -> Self {
        Self::Other(message.into())
    }

    pub fn overload(function: &str) -> Self {
        Self::NoSuchOverload(format!(": {function}"))
    }

    pub fn bare_overload() -> Self {
        Self::NoSuchOverload(String::new())
    }
}

pub(crate) type Evaluated<'a> = Result<Val<'a>, EvalError>;

/// Text of the object or of the rule, or made on the way.
#[derive(Clone, Debug)]
pub(crate) enum Str<'a> {
    Borrowed(&'a str),
    Shared(Rc<str>),
}

impl PartialEq for Str<'_> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Str<'_> {}

impl Hash for Str<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}

impl Deref for Str<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Self::Borrowed(text) => text,
            Self::Shared(text) => text,
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Val<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(Str<'a>),
    Bytes(Rc<[u8]>),
    /// Nanoseconds.
    Duration(i64),
    Timestamp(Timestamp),
    List(List<'a>),
    Map(MapVal<'a>),
    Optional(Option<Rc<Val<'a>>>),
    /// A type, by its name.
    Type(&'static str),
    /// A value whose schema states no type: it can only be compared.
    Preserved(&'a Value),
    Url(Rc<Url>),
    Ip(IpAddr),
    Cidr(Cidr),
    Quantity(Quantity),
    Semver(Rc<Semver>),
    Format(&'static str),
}

impl<'a> Val<'a> {
    pub fn text(text: impl Into<Rc<str>>) -> Self {
        Self::String(Str::Shared(text.into()))
    }

    pub fn list(elements: Vec<Val<'a>>) -> Self {
        Self::List(List { elements: Elements::Made(elements.into()), identity: None })
    }

    pub fn some(value: Val<'a>) -> Self {
        Self::Optional(Some(Rc::new(value)))
    }

    pub fn type_name(&self) -> &'static str {
        match self {
            Self::Null => "null_type",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Uint(_) => "uint",
            Self::Double(_) => "double",
            Self::String(_) => "string",
            Self::Bytes(_) => "bytes",
            Self::Duration(_) => "google.protobuf.Duration",
            Self::Timestamp(_) => "google.protobuf.Timestamp",
            Self::List(_) => "list",
            Self::Map(_) => "map",
            Self::Optional(_) => "optional_type",
            Self::Type(_) => "type",
            Self::Preserved(_) => "unknown",
            Self::Url(_) => crate::cel::signatures::URL,
            Self::Ip(_) => crate::cel::signatures::IP,
            Self::Cidr(_) => crate::cel::signatures::CIDR,
            Self::Quantity(_) => crate::cel::signatures::QUANTITY,
            Self::Semver(_) => crate::cel::signatures::SEMVER,
            Self::Format(_) => crate::cel::signatures::FORMAT,
        }
    }

    /// The type an API server's messages name in its own language.
    pub fn go_type(&self) -> &'static str {
        match self {
            Self::Null => "types.Null",
            Self::Bool(_) => "types.Bool",
            Self::Int(_) => "types.Int",
            Self::Uint(_) => "types.Uint",
            Self::Double(_) => "types.Double",
            Self::String(_) => "types.String",
            Self::Bytes(_) => "types.Bytes",
            Self::Duration(_) => "types.Duration",
            Self::Timestamp(_) => "types.Timestamp",
            Self::Optional(_) => "*types.Optional",
            Self::Type(_) => "*types.Type",
            Self::Preserved(_) => "*common.unknownPreserved",
            other => other.type_name(),
        }
    }

    /// The value of a part of the object.
    pub fn of(value: &'a Value, node: &'a Node, cost: &Cost) -> Evaluated<'a> {
        Self::of_resource(value, node, node.embedded_resource, cost)
    }

    /// Same, where `resource` says whether `value` has what every resource has.
    pub fn of_resource(value: &'a Value, node: &'a Node, resource: bool, cost: &Cost) -> Evaluated<'a> {
        if value.is_null() {
            return if node.nullable {
                Ok(Self::Null)
            } else {
                Err(EvalError::other("invalid data, got null for schema with nullable=false"))
            };
        }
        if node.int_or_string {
            return match (value, value.as_i64()) {
                (Value::String(text), _) => Ok(Self::String(Str::Borrowed(text))),
                (_, Some(int)) => Ok(Self::Int(int)),
                _ => Err(EvalError::other(
                    "invalid data, expected XIntOrString value to be either a string or integer",
                )),
            };
        }
        let Some(kind) = node.kind else {
            return Ok(Self::Preserved(value));
        };
        match (kind, value) {
            (Kind::Object, Value::Object(members)) => {
                Ok(Self::Map(MapVal::Json(JsonMap { members, object: ObjectType { node, resource } })))
            }
            (Kind::Array, Value::Array(elements)) => match &node.items {
                Some(items) => Ok(Self::List(List {
                    elements: Elements::Json(elements, items),
                    identity: Some(&node.list_type),
                })),
                None => Err(EvalError::other("invalid array type, expected Items with a non-empty Schema")),
            },
            (Kind::String, Value::String(text)) => string(text, &node.checks.format_name, cost),
            (Kind::Number, Value::Number(number)) => Ok(Self::Double(number.as_f64().unwrap_or(f64::NAN))),
            (Kind::Integer, Value::Number(number)) if number.is_i64() => {
                Ok(Self::Int(number.as_i64().unwrap_or_default()))
            }
            (Kind::Boolean, Value::Bool(b)) => Ok(Self::Bool(*b)),
            (kind, value) => Err(wrong_data(kind, value)),
        }
    }
}

fn wrong_data(kind: Kind, value: &Value) -> EvalError {
    let expected = match kind {
        Kind::Object => {
            return EvalError::other("invalid data, expected a map for the provided schema with type=object");
        }
        Kind::Array => {
            return EvalError::other(
                "invalid data, expected an array for the provided schema with type=array",
            );
        }
        Kind::String => "string",
        Kind::Number => "float",
        Kind::Integer => "int",
        Kind::Boolean => "bool",
    };
    let actual = match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_i64() => "int64",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    };
    EvalError::other(format!("invalid data, expected {expected}, got {actual}"))
}

fn string<'a>(text: &'a str, format: &str, cost: &Cost) -> Evaluated<'a> {
    // These are read whenever they are asked for.
    if matches!(format, "duration" | "date" | "date-time" | "byte") {
        cost.spend_on_bytes(text.len())?;
    }
    let invalid = |what: &str| EvalError::other(format!("Invalid {what} {text}"));
    match format {
        "duration" => time::parse_format_duration(text).map(Val::Duration).ok_or_else(|| invalid("duration")),
        "date" => time::parse_date(text)
            .and_then(|date| date.to_zoned(TimeZone::UTC).ok())
            .map(|zoned| Val::Timestamp(zoned.timestamp()))
            .ok_or_else(|| invalid("date formatted string")),
        "date-time" if text.is_empty() => Ok(Val::Timestamp(Timestamp::UNIX_EPOCH)),
        "date-time" => time::parse_time(text, true)
            .map(Val::Timestamp)
            .ok_or_else(|| invalid("date-time formatted string")),
        "byte" => URL_SAFE
            .decode(text)
            .map(|bytes| Val::Bytes(bytes.into()))
            .map_err(|_| invalid("byte formatted string")),
        _ => Ok(Val::String(Str::Borrowed(text))),
    }
}

#[derive(Clone, Debug)]
pub(crate) struct List<'a> {
    elements: Elements<'a>,
    /// The list type, by which elements are compared; it decides on equality and addition.
    pub identity: Option<&'a ListType>,
}

#[derive(Clone, Debug)]
enum Elements<'a> {
    Json(&'a [Value], &'a Node),
    Made(Rc<[Val<'a>]>),
}

impl<'a> List<'a> {
    pub fn made(elements: Vec<Val<'a>>, identity: Option<&'a ListType>) -> Self {
        Self { elements: Elements::Made(elements.into()), identity }
    }

    pub fn len(&self) -> usize {
        match &self.elements {
            Elements::Json(elements, _) => elements.len(),
            Elements::Made(elements) => elements.len(),
        }
    }

    /// The sum of no elements. A list made by a rule has lost the type of elements it could
    /// have had, so an empty one adds up to an integer, which compares with any number.
    pub fn zero(&self) -> Val<'a> {
        match &self.elements {
            Elements::Json(_, node) if node.kind == Some(Kind::Number) => Val::Double(0.0),
            Elements::Json(_, node) if node.checks.format_name == "duration" => Val::Duration(0),
            _ => Val::Int(0),
        }
    }

    /// Returns whether it is a part of the object.
    pub fn is_json(&self) -> bool {
        matches!(self.elements, Elements::Json(..))
    }

    pub fn get(&self, index: usize, cost: &Cost) -> Option<Evaluated<'a>> {
        match &self.elements {
            Elements::Json(elements, node) => elements.get(index).map(|element| Val::of(element, node, cost)),
            Elements::Made(elements) => elements.get(index).cloned().map(Ok),
        }
    }

    pub fn iter<'s>(&'s self, cost: &'s Cost) -> impl Iterator<Item = Evaluated<'a>> + use<'s, 'a> {
        (0..self.len()).filter_map(move |index| self.get(index, cost))
    }

    pub fn to_vec(&self, cost: &Cost) -> Result<Vec<Val<'a>>, EvalError> {
        self.iter(cost).collect()
    }
}

#[derive(Clone, Debug)]
pub(crate) enum MapVal<'a> {
    Json(JsonMap<'a>),
    Made(Rc<Entries<'a>>),
}

/// An object, seen through its schema.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JsonMap<'a> {
    pub members: &'a Map<String, Value>,
    pub object: ObjectType<'a>,
}

impl<'a> JsonMap<'a> {
    /// Returns whether members are properties, written as identifiers, rather than keys of a map.
    fn has_properties(&self) -> bool {
        self.object.resource || !self.object.node.properties.is_empty()
    }

    fn schema(&self, name: &str) -> Option<&'a Node> {
        if self.has_properties() { self.object.property(name) } else { self.object.node.additional_schema() }
    }

    fn find(&self, key: &str, cost: &Cost) -> Result<Option<Val<'a>>, EvalError> {
        cost.spend_on_bytes(key.len())?;
        let name = match (self.has_properties(), key) {
            (true, key) => escape::unescape(key),
            (false, key) => Some(Cow::Borrowed(key)),
        };
        let Some(name) = name else { return Ok(None) };
        let Some(value) = self.members.get(&*name) else { return Ok(None) };
        if self.has_properties() && value.is_null() {
            return Ok(None);
        }
        self.schema(&name).map(|node| Val::of(value, node, cost)).transpose()
    }

    /// The keys, made one by one. Members that the schema does not state are passed over, which costs at once.
    fn keys(&self, cost: &Cost) -> Result<impl Iterator<Item = Str<'a>> + use<'a>, EvalError> {
        let this = *self;
        if this.has_properties() {
            for name in this.members.keys() {
                cost.spend(1)?;
                cost.spend_on_bytes(name.len())?;
            }
        }
        let stated = this.members.keys().filter(move |name| this.schema(name).is_some());
        Ok(stated.map(move |name| match this.has_properties().then(|| escape::escape(name)) {
            Some(Some(Cow::Owned(identifier))) => Str::Shared(identifier.into()),
            _ => Str::Borrowed(name.as_str()),
        }))
    }
}

impl<'a> MapVal<'a> {
    pub fn len(&self) -> usize {
        match self {
            Self::Json(map) => map.members.len(),
            Self::Made(entries) => entries.len(),
        }
    }

    /// The value under a key; none if there is none. A key of the wrong type is an error for
    /// an object, and no key of a made map.
    pub fn find(&self, key: &Val<'a>, cost: &Cost) -> Result<Option<Val<'a>>, EvalError> {
        match (self, key) {
            (Self::Json(map), Val::String(key)) => map.find(key, cost),
            (Self::Json(_), _) => Err(EvalError::bare_overload()),
            (Self::Made(entries), key) => {
                cost.spend_on_bytes(size_of(key))?;
                Ok(entries.get(key).cloned())
            }
        }
    }

    pub fn find_text(&self, key: &str, cost: &Cost) -> Result<Option<Val<'a>>, EvalError> {
        match self {
            Self::Json(map) => map.find(key, cost),
            Self::Made(_) => {
                cost.spend_on_bytes(key.len())?;
                self.find(&Val::text(key), cost)
            }
        }
    }

    pub fn keys(&self, cost: &Cost) -> Result<Keys<'a>, EvalError> {
        Ok(match self {
            Self::Json(map) => Box::new(map.keys(cost)?.map(Val::String)),
            Self::Made(entries) => {
                let entries = Rc::clone(entries);
                Box::new((0..entries.len()).filter_map(move |index| entries.key(index).cloned()))
            }
        })
    }
}

/// Keys of a map, made as they are asked for: what stops at the first has not paid for the rest.
pub(crate) type Keys<'a> = Box<dyn Iterator<Item = Val<'a>> + 'a>;
