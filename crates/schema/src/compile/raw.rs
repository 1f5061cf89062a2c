//! The schema as written: JSON decoded into typed keywords, not validated yet.
//!
//! A keyword of the wrong JSON type is an error here, as it is when an API server decodes a
//! CRD; an unknown keyword is ignored, as there. Nesting is bounded so that every later walk
//! over a schema may recurse.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::error::{FieldError, FieldErrorKind};
use crate::path::FieldPath;
use crate::validate::errors::Errors;

/// No schema of a real CRD comes near; the CRDs of Cluster API and Crossplane stay below 40.
const MAX_DEPTH: usize = 128;

/// The keywords of one schema.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "one per keyword")]
pub(crate) struct Props {
    pub kind: String,
    pub format: String,
    pub pattern: String,
    pub has_title: bool,
    pub has_description: bool,
    pub nullable: bool,
    pub default: Option<Value>,
    pub enumeration: Vec<Value>,
    pub minimum: Option<f64>,
    pub maximum: Option<f64>,
    pub exclusive_minimum: bool,
    pub exclusive_maximum: bool,
    pub multiple_of: Option<f64>,
    pub min_length: Option<i64>,
    pub max_length: Option<i64>,
    pub min_items: Option<i64>,
    pub max_items: Option<i64>,
    pub unique_items: bool,
    pub min_properties: Option<i64>,
    pub max_properties: Option<i64>,
    pub required: Vec<String>,
    pub items: Option<Items>,
    pub properties: BTreeMap<String, Props>,
    pub additional_properties: Option<RawAdditional>,
    pub all_of: Vec<Props>,
    pub any_of: Vec<Props>,
    pub one_of: Vec<Props>,
    pub not: Option<Box<Props>>,
    pub preserve_unknown: Option<bool>,
    pub embedded_resource: bool,
    pub int_or_string: bool,
    pub list_type: Option<String>,
    pub list_map_keys: Vec<String>,
    pub map_type: Option<String>,
    pub validations: Vec<RawRule>,
    /// True if it names its dialect, which no CRD may.
    pub names_dialect: bool,
    /// Keywords of JSON Schema that no CRD may use, in the order of [`UNSUPPORTED`].
    pub unsupported: Vec<&'static str>,
}

/// JSON Schema keywords that a CRD may not have.
pub(crate) const UNSUPPORTED: [&str; 6] =
    ["id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref"];

#[derive(Debug)]
pub(crate) enum Items {
    Schema(Box<Props>),
    /// A list of schemas, which no CRD may have.
    Tuple,
}

#[derive(Debug)]
pub(crate) enum RawAdditional {
    Allowed(bool),
    Schema(Box<Props>),
}

/// One entry of `x-kubernetes-validations`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct RawRule {
    pub rule: String,
    pub message: String,
    pub message_expression: String,
    pub reason: Option<String>,
    pub field_path: String,
    pub optional_old_self: Option<bool>,
}

impl Props {
    pub fn items_schema(&self) -> Option<&Props> {
        match &self.items {
            Some(Items::Schema(schema)) => Some(schema),
            _ => None,
        }
    }

    pub fn additional_schema(&self) -> Option<&Props> {
        match &self.additional_properties {
            Some(RawAdditional::Schema(schema)) => Some(schema),
            _ => None,
        }
    }

    /// Returns whether nothing here or below is beyond what a structural schema can express.
    pub fn is_expressible(&self) -> bool {
        let nested = self.properties.values().chain(&self.all_of).chain(&self.any_of).chain(&self.one_of);
        self.unsupported.is_empty()
            && !self.names_dialect
            && !matches!(self.items, Some(Items::Tuple))
            && self.preserve_unknown != Some(false)
            && nested
                .chain(self.items_schema())
                .chain(self.additional_schema())
                .chain(self.not.as_deref())
                .all(Self::is_expressible)
    }

    pub fn preserves_unknown(&self) -> bool {
        self.preserve_unknown == Some(true)
    }
}

/// Decodes `schema`, collecting what cannot be decoded.
pub(crate) fn decode(schema: &Value) -> Result<Props, Vec<FieldError>> {
    let mut errors = Errors::default();
    let props = Decoder { errors: &mut errors, depth: 0 }.props(schema, &FieldPath::root());
    if errors.is_empty() { Ok(props) } else { Err(errors.into_inner()) }
}

struct Decoder<'a> {
    errors: &'a mut Errors,
    depth: usize,
}

impl Decoder<'_> {
    fn wrong_type(&mut self, path: &FieldPath, expected: &str) {
        self.errors.push(FieldError::new(
            path,
            FieldErrorKind::TypeInvalid,
            None,
            format!("must be of type {expected}"),
        ));
    }

    fn props(&mut self, schema: &Value, path: &FieldPath) -> Props {
        if self.errors.is_enough() {
            return Props::default();
        }
        let Value::Object(members) = schema else {
            self.wrong_type(path, "object");
            return Props::default();
        };
        if self.depth >= MAX_DEPTH {
            self.errors.push(FieldError::forbidden(path, format!("nested deeper than {MAX_DEPTH} levels")));
            return Props::default();
        }
        self.depth += 1;
        let mut keywords = Keywords { decoder: self, members, path };
        let mut props = keywords.scalars();
        keywords.nested(&mut props);
        self.depth -= 1;
        props
    }

    fn props_list(&mut self, value: &Value, path: &FieldPath) -> Vec<Props> {
        let Value::Array(schemas) = value else {
            self.wrong_type(path, "array");
            return Vec::new();
        };
        schemas.iter().enumerate().map(|(i, schema)| self.props(schema, &path.index(i))).collect()
    }
}

/// The members of one schema, read by name; null is the same as absent.
struct Keywords<'d, 'e, 'v> {
    decoder: &'d mut Decoder<'e>,
    members: &'v Map<String, Value>,
    path: &'v FieldPath,
}

impl<'v> Keywords<'_, '_, 'v> {
    fn get(&self, name: &str) -> Option<&'v Value> {
        self.members.get(name).filter(|value| !value.is_null())
    }

    fn read<T>(&mut self, name: &str, expected: &str, convert: impl Fn(&'v Value) -> Option<T>) -> Option<T> {
        let value = self.get(name)?;
        let converted = convert(value);
        if converted.is_none() {
            self.decoder.wrong_type(&self.path.field(name), expected);
        }
        converted
    }

    fn text(&mut self, name: &str) -> String {
        self.optional_text(name).unwrap_or_default()
    }

    fn optional_text(&mut self, name: &str) -> Option<String> {
        self.read(name, "string", |v| v.as_str().map(str::to_owned))
    }

    fn flag(&mut self, name: &str) -> bool {
        self.optional_flag(name).unwrap_or_default()
    }

    fn optional_flag(&mut self, name: &str) -> Option<bool> {
        self.read(name, "boolean", Value::as_bool)
    }

    fn number(&mut self, name: &str) -> Option<f64> {
        self.read(name, "number", Value::as_f64)
    }

    fn integer(&mut self, name: &str) -> Option<i64> {
        self.read(name, "integer", Value::as_i64)
    }

    fn texts(&mut self, name: &str) -> Vec<String> {
        self.read(name, "array of strings", |v| {
            v.as_array()?.iter().map(|item| item.as_str().map(str::to_owned)).collect()
        })
        .unwrap_or_default()
    }

    fn scalars(&mut self) -> Props {
        Props {
            kind: self.text("type"),
            format: self.text("format"),
            pattern: self.text("pattern"),
            has_title: !self.text("title").is_empty(),
            has_description: !self.text("description").is_empty(),
            nullable: self.flag("nullable"),
            default: self.get("default").cloned(),
            enumeration: self.read("enum", "array", |v| v.as_array().cloned()).unwrap_or_default(),
            minimum: self.number("minimum"),
            maximum: self.number("maximum"),
            exclusive_minimum: self.flag("exclusiveMinimum"),
            exclusive_maximum: self.flag("exclusiveMaximum"),
            multiple_of: self.number("multipleOf"),
            min_length: self.integer("minLength"),
            max_length: self.integer("maxLength"),
            min_items: self.integer("minItems"),
            max_items: self.integer("maxItems"),
            unique_items: self.flag("uniqueItems"),
            min_properties: self.integer("minProperties"),
            max_properties: self.integer("maxProperties"),
            required: self.texts("required"),
            preserve_unknown: self.optional_flag("x-kubernetes-preserve-unknown-fields"),
            embedded_resource: self.flag("x-kubernetes-embedded-resource"),
            int_or_string: self.flag("x-kubernetes-int-or-string"),
            list_type: self.optional_text("x-kubernetes-list-type"),
            list_map_keys: self.texts("x-kubernetes-list-map-keys"),
            map_type: self.optional_text("x-kubernetes-map-type"),
            names_dialect: self.has_content("$schema"),
            unsupported: UNSUPPORTED.iter().filter(|name| self.has_content(name)).copied().collect(),
            ..Props::default()
        }
    }

    fn has_content(&self, name: &str) -> bool {
        match self.get(name) {
            None => false,
            Some(Value::String(text)) => !text.is_empty() || name == "$ref",
            Some(Value::Object(members)) => {
                !members.is_empty() || matches!(name, "dependencies" | "additionalItems")
            }
            Some(_) => true,
        }
    }

    fn nested(&mut self, props: &mut Props) {
        if let Some(value) = self.get("items") {
            let path = self.path.field("items");
            props.items = Some(match value {
                Value::Array(_) => Items::Tuple,
                schema => Items::Schema(Box::new(self.decoder.props(schema, &path))),
            });
        }
        if let Some(value) = self.get("additionalProperties") {
            let path = self.path.field("additionalProperties");
            props.additional_properties = Some(match value {
                Value::Bool(allowed) => RawAdditional::Allowed(*allowed),
                schema => RawAdditional::Schema(Box::new(self.decoder.props(schema, &path))),
            });
        }
        if let Some(members) = self.read("properties", "object", Value::as_object) {
            let path = self.path.field("properties");
            props.properties = members
                .iter()
                .map(|(name, schema)| (name.clone(), self.decoder.props(schema, &path.key(name))))
                .collect();
        }
        props.all_of = self.schemas("allOf");
        props.any_of = self.schemas("anyOf");
        props.one_of = self.schemas("oneOf");
        if let Some(value) = self.get("not") {
            props.not = Some(Box::new(self.decoder.props(value, &self.path.field("not"))));
        }
        props.validations = self.validations();
    }

    fn schemas(&mut self, name: &str) -> Vec<Props> {
        match self.get(name) {
            Some(value) => self.decoder.props_list(value, &self.path.field(name)),
            None => Vec::new(),
        }
    }

    fn validations(&mut self) -> Vec<RawRule> {
        const NAME: &str = "x-kubernetes-validations";
        let Some(rules) = self.read(NAME, "array", Value::as_array) else {
            return Vec::new();
        };
        let path = self.path.field(NAME);
        let mut decoded = Vec::with_capacity(rules.len());
        for (i, rule) in rules.iter().enumerate() {
            let path = path.index(i);
            let Value::Object(members) = rule else {
                self.decoder.wrong_type(&path, "object");
                continue;
            };
            let mut keywords = Keywords { decoder: &mut *self.decoder, members, path: &path };
            decoded.push(RawRule {
                rule: keywords.text("rule"),
                message: keywords.text("message"),
                message_expression: keywords.text("messageExpression"),
                reason: keywords.optional_text("reason"),
                field_path: keywords.text("fieldPath"),
                optional_old_self: keywords.optional_flag("optionalOldSelf"),
            });
        }
        decoded
    }
}
