//! `metadata.managedFields`: who manages which fields.

use std::{
    borrow::Cow,
    collections::{HashMap, hash_map::Entry},
    fmt,
};

use serde_json::{Map, Value};

use super::{codec::CodecError, set::FieldSet, time::Timestamp};
use crate::status::go;

/// The operation by which a manager owns its fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// By server-side apply.
    Apply,
    /// By any other write.
    Update,
}

impl Operation {
    /// The word of the API.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

/// One entry of `managedFields`.
///
/// An applier is known by its name and the subresource it writes; an updater also by the version it writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManagedFieldsEntry {
    /// The name the client gave itself.
    pub manager: String,
    /// The operation.
    pub operation: Operation,
    /// The version `fields` are of.
    pub api_version: String,
    /// When it last changed the object.
    pub time: Option<Timestamp>,
    /// Empty for the object itself.
    pub subresource: String,
    /// The managed fields.
    pub fields: FieldSet,
}

/// Why `managedFields` cannot be read.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ManagedError {
    /// Not a list of objects with texts in the places of texts.
    #[error("managedFields are malformed at entry {0}")]
    Shape(usize),
    /// Neither of the two operations.
    #[error("operation must be `Apply` or `Update`")]
    Operation,
    /// No version.
    #[error("apiVersion must not be empty")]
    NoApiVersion,
    /// No type of fields.
    #[error("missing fieldsType in managed fields entry {0}")]
    NoFieldsType(usize),
    /// Another type of fields.
    #[error("invalid fieldsType {0:?} in managed fields entry {1}")]
    FieldsType(String, usize),
    /// The fields cannot be read.
    #[error("error decoding set: {0}")]
    Fields(#[from] CodecError),
}

impl ManagedFieldsEntry {
    /// Returns whether `self` and `other` are entries of the same manager.
    pub(crate) fn is_of(&self, other: &Self) -> bool {
        self.manager == other.manager
            && self.operation == other.operation
            && self.subresource == other.subresource
            && (self.operation == Operation::Apply || self.api_version == other.api_version)
    }

    /// The key under which Kubernetes sorts managers.
    pub(crate) fn identifier(&self) -> String {
        let mut out = "{".to_owned();
        let version = if self.operation == Operation::Apply { "" } else { self.api_version.as_str() };
        for (name, value) in [
            ("manager", self.manager.as_str()),
            ("operation", self.operation.as_str()),
            ("apiVersion", version),
            ("subresource", self.subresource.as_str()),
        ] {
            if !value.is_empty() {
                if out.len() > 1 {
                    out.push(',');
                }
                go::write_json_string(name, &mut out);
                out.push(':');
                go::write_json_string(value, &mut out);
            }
        }
        out.push('}');
        out
    }

    fn decode(index: usize, entry: &Value) -> Result<Self, ManagedError> {
        let shape = || ManagedError::Shape(index);
        let entry = entry.as_object().ok_or_else(shape)?;
        let field = |name: &str| match entry.get(name) {
            None | Some(Value::Null) => Ok(""),
            Some(Value::String(text)) => Ok(text.as_str()),
            Some(_) => Err(shape()),
        };
        let operation = match field("operation")? {
            "Apply" => Operation::Apply,
            "Update" => Operation::Update,
            _ => return Err(ManagedError::Operation),
        };
        let api_version = field("apiVersion")?;
        if api_version.is_empty() {
            return Err(ManagedError::NoApiVersion);
        }
        match field("fieldsType")? {
            "FieldsV1" => {}
            "" => return Err(ManagedError::NoFieldsType(index)),
            other => return Err(ManagedError::FieldsType(other.to_owned(), index)),
        }
        let time = match field("time")? {
            "" => None,
            text => Some(Timestamp::parse(text).ok_or_else(shape)?),
        };
        Ok(Self {
            manager: field("manager")?.to_owned(),
            operation,
            api_version: api_version.to_owned(),
            time,
            subresource: field("subresource")?.to_owned(),
            fields: entry.get("fieldsV1").map_or(Ok(FieldSet::EMPTY), FieldSet::decode)?,
        })
    }

    /// The JSON of the API.
    pub fn encode(&self) -> Value {
        let mut out = Map::with_capacity(7);
        let mut text = |name: &str, value: Cow<'_, str>| {
            if !value.is_empty() {
                out.insert(name.to_owned(), Value::String(value.into_owned()));
            }
        };
        text("manager", Cow::Borrowed(&self.manager));
        text("operation", Cow::Borrowed(self.operation.as_str()));
        text("apiVersion", Cow::Borrowed(&self.api_version));
        text("time", self.time.map_or_else(Cow::default, |time| Cow::Owned(time.to_string())));
        text("fieldsType", Cow::Borrowed("FieldsV1"));
        out.insert("fieldsV1".to_owned(), self.fields.encode());
        if !self.subresource.is_empty() {
            out.insert("subresource".to_owned(), Value::String(self.subresource.clone()));
        }
        Value::Object(out)
    }
}

/// The manager in the words of a conflict: `"kubectl" using apps/v1`.
impl fmt::Display for ManagedFieldsEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&go::quote(&self.manager))?;
        if !self.subresource.is_empty() {
            write!(f, " with subresource {}", go::quote(&self.subresource))?;
        }
        match self.operation {
            Operation::Apply => Ok(()),
            Operation::Update => write!(f, " using {}", self.api_version),
        }
    }
}

/// The managers of one object, at most one entry each, in no particular order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Managed {
    /// The entries.
    pub entries: Vec<ManagedFieldsEntry>,
}

impl Managed {
    /// Reads `managedFields`; nothing, null and an empty list are all empty.
    pub fn decode(managed_fields: Option<&Value>) -> Result<Self, ManagedError> {
        let mut out = Self::default();
        let entries = match managed_fields {
            None | Some(Value::Null) => return Ok(out),
            Some(Value::Array(entries)) => entries,
            Some(_) => return Err(ManagedError::Shape(0)),
        };
        out.entries.reserve(entries.len() + 1);
        let mut places = HashMap::with_capacity(entries.len());
        for (index, stated) in entries.iter().enumerate() {
            let entry = ManagedFieldsEntry::decode(index, stated)?;
            // Who it is of, as `ManagedFieldsEntry::is_of` has it, in the texts that were read.
            let text = |name: &str| stated.get(name).and_then(Value::as_str).unwrap_or_default();
            let version = if entry.operation == Operation::Apply { "" } else { text("apiVersion") };
            let of = (text("manager"), entry.operation, text("subresource"), version);
            match places.entry(of) {
                Entry::Occupied(place) => out.entries[*place.get()] = entry,
                Entry::Vacant(place) => {
                    place.insert(out.entries.len());
                    out.entries.push(entry);
                }
            }
        }
        Ok(out)
    }

    /// The place of the entry of the same manager.
    pub(crate) fn find(&self, like: &ManagedFieldsEntry) -> Option<usize> {
        self.entries.iter().position(|entry| entry.is_of(like))
    }

    /// Writes `managedFields`, sorted as Kubernetes does; nothing if there are no managers.
    pub fn encode(mut self) -> Option<Value> {
        if self.entries.is_empty() {
            return None;
        }
        self.entries.sort_by(|left, right| {
            let key = |entry: &ManagedFieldsEntry| (entry.operation, entry.time.map_or(0, Timestamp::unix));
            key(left)
                .cmp(&key(right))
                .then_with(|| left.manager.cmp(&right.manager))
                .then_with(|| left.api_version.cmp(&right.api_version))
                .then_with(|| left.subresource.cmp(&right.subresource))
        });
        Some(Value::Array(self.entries.iter().map(ManagedFieldsEntry::encode).collect()))
    }
}
