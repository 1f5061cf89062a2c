//! The compiled schema: what a walk over an object needs, decided once.

use std::collections::BTreeMap;

use crate::go::regexp::CompiledPattern;
use serde_json::Value;

use crate::cel::rules::Rule;
use crate::validate::enumeration::Enumeration;
use crate::validate::formats::Format;

/// A JSON type a schema can ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
}

impl Kind {
    pub const ALL: [Self; 6] =
        [Self::Array, Self::Boolean, Self::Integer, Self::Number, Self::Object, Self::String];

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    pub const fn name(self) -> &'static str {
        match self {
            Self::Object => "object",
            Self::Array => "array",
            Self::String => "string",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
        }
    }
}

/// The list type: how elements are told apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum ListType {
    #[default]
    Atomic,
    Set,
    /// By the values of these members.
    Map(Vec<String>),
}

#[derive(Debug)]
pub(crate) enum Additional {
    Allowed(bool),
    Schema(Box<Node>),
}

#[derive(Debug)]
pub(crate) struct Pattern {
    pub source: String,
    pub compiled: CompiledPattern,
}

/// One schema, on the structural spine or nested in `allOf` and its kin.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "one per keyword")]
pub(crate) struct Node {
    pub kind: Option<Kind>,
    pub nullable: bool,
    pub default: Option<Value>,
    pub items: Option<Box<Node>>,
    /// Apart from the map, which has room for eleven where it has one.
    pub properties: BTreeMap<String, Box<Node>>,
    pub additional: Option<Additional>,
    pub int_or_string: bool,
    pub preserve_unknown: bool,
    pub embedded_resource: bool,
    pub list_type: ListType,
    pub checks: Checks,
    pub rules: Vec<Rule>,
    /// True if there is a rule here or below.
    pub has_rules: bool,
}

/// The keywords that restrict values.
#[derive(Debug, Default)]
pub(crate) struct Checks {
    /// The format as written; CEL types strings by it.
    pub format_name: String,
    /// The format, where values are checked against it.
    pub format: Option<Format>,
    pub enumeration: Enumeration,
    pub minimum: Option<f64>,
    pub maximum: Option<f64>,
    pub exclusive_minimum: bool,
    pub exclusive_maximum: bool,
    pub multiple_of: Option<f64>,
    pub min_length: Option<i64>,
    pub max_length: Option<i64>,
    pub pattern: Option<Pattern>,
    pub min_items: Option<i64>,
    pub max_items: Option<i64>,
    pub min_properties: Option<i64>,
    pub max_properties: Option<i64>,
    pub required: Vec<String>,
    pub all_of: Vec<Node>,
    pub any_of: Vec<Node>,
    pub one_of: Vec<Node>,
    pub not: Option<Box<Node>>,
}

impl Node {
    pub fn additional_schema(&self) -> Option<&Node> {
        match &self.additional {
            Some(Additional::Schema(node)) => Some(node),
            _ => None,
        }
    }

    /// The schema of a member: a stated property, else what applies to all others.
    pub fn member(&self, name: &str) -> Option<&Node> {
        self.properties.get(name).map(Box::as_ref).or_else(|| self.additional_schema())
    }
}

/// The members every resource has, whether its schema states them or not.
pub(crate) fn is_type_or_object_meta(name: &str) -> bool {
    matches!(name, "apiVersion" | "kind" | "metadata")
}
