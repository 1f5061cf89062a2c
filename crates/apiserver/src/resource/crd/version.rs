//! One version of a definition: schema, columns, selectable fields, scale, deprecation.

use std::collections::HashSet;

use capt_schema::{FieldError, FieldErrorKind, FieldPath};
use serde_json::Value;

use super::{is_true, list, text};
use crate::bounds::MAX_DEPTH;
use crate::object::fields::{get, invalid, required};
use crate::resource::{MAX_COLUMNS, schema_cache};

const MAX_SELECTABLE_FIELDS: usize = 8;
const MAX_WARNING: usize = 256;

/// Keywords that a schema may have at its root where `/status` is served: the schema of the status is cut out of
/// it, and must not lose anything.
const AT_ROOT: [&str; 22] = [
    "description",
    "type",
    "format",
    "title",
    "maximum",
    "exclusiveMaximum",
    "minimum",
    "exclusiveMinimum",
    "maxLength",
    "minLength",
    "pattern",
    "maxItems",
    "minItems",
    "uniqueItems",
    "multipleOf",
    "required",
    "items",
    "properties",
    "externalDocs",
    "example",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-validations",
];
const AT_ROOT_IN_WORDS: &str = "[Description Type Format Title Maximum ExclusiveMaximum Minimum ExclusiveMinimum MaxLength MinLength Pattern MaxItems MinItems UniqueItems MultipleOf Required Items Properties ExternalDocs Example XPreserveUnknownFields XValidations]";

/// The parts that are the same in all versions; Kubernetes validates them once, at the top.
#[expect(clippy::struct_excessive_bools, reason = "each says it of one part")]
pub(super) struct CommonParts {
    schema: bool,
    subresources: bool,
    columns: bool,
    selectable: bool,
}

impl CommonParts {
    pub(super) fn of(versions: &[Value]) -> Self {
        let same = |name: &str| {
            let first = versions.first().map_or(&Value::Null, |version| get(version, &[name]));
            versions.iter().all(|version| get(version, &[name]) == first)
        };
        Self {
            schema: same("schema"),
            subresources: same("subresources"),
            columns: same("additionalPrinterColumns"),
            selectable: same("selectableFields"),
        }
    }
}

/// Validates a version, except for the parts that all versions share.
pub(super) fn validate(version: &Value, shared: &CommonParts, at: &FieldPath, errors: &mut Vec<FieldError>) {
    let warning = get(version, &["deprecationWarning"]);
    if let Some(text) = warning.as_str() {
        for detail in deprecation_warning(text, is_true(version, "deprecated")) {
            errors.push(invalid(&at.field("deprecationWarning"), text, detail));
        }
    }
    if !shared.schema {
        schema(version, has_status(version), &at.field("schema"), errors);
    }
    if !shared.subresources {
        scale(version, &at.field("subresources"), errors);
    }
    if !shared.columns {
        columns(version, &at.field("additionalPrinterColumns"), errors);
    }
    let fields = at.field("selectableFields");
    if !shared.selectable && !list(version, &["selectableFields"]).is_empty() {
        if shared.schema || get(version, &["schema", "openAPIV3Schema"]).is_null() {
            let detail = "may only be set when `version.schema.openAPIV3Schema` is not included";
            errors.push(invalid(&fields, "", detail));
        } else {
            selectable_fields(version, at, errors);
        }
    }
}

/// Validates the parts that all versions share, in the first version.
pub(super) fn validate_shared(
    first: &Value,
    versions: &[Value],
    shared: &CommonParts,
    at: &FieldPath,
    errors: &mut Vec<FieldError>,
) {
    if shared.schema {
        schema(first, versions.iter().any(has_status), &at.field("validation"), errors);
    }
    if shared.subresources {
        scale(first, &at.field("subresources"), errors);
    }
    if shared.columns {
        columns(first, &at.field("additionalPrinterColumns"), errors);
    }
    if shared.selectable && !list(first, &["selectableFields"]).is_empty() {
        let fields = at.field("selectableFields");
        if shared.schema && !get(first, &["schema"]).is_null() {
            selectable_fields(first, at, errors);
        } else {
            errors.push(invalid(&fields, "", "may only be set when validations.schema is included"));
        }
    }
}

fn has_status(version: &Value) -> bool {
    get(version, &["subresources", "status"]).is_object()
}

fn deprecation_warning(text: &str, deprecated: bool) -> Vec<String> {
    if !deprecated {
        return vec!["can only be set for deprecated versions".into()];
    }
    let mut details = Vec::new();
    if text.len() > MAX_WARNING {
        details.push(format!("must be <= {MAX_WARNING} characters long"));
    }
    if text.is_empty() {
        details.push("must not be an empty string".into());
    }
    // What Go holds for printable, as far as a warning goes: no control character, and no space but the plain one.
    let odd = |c: char| c.is_control() || (c.is_whitespace() && c != ' ');
    if let Some((index, _)) = text.char_indices().find(|(_, c)| odd(*c)) {
        details.push(format!(
            "must only contain printable UTF-8 characters; non-printable character found at index {index}"
        ));
    }
    details
}

fn schema(version: &Value, status: bool, at: &FieldPath, errors: &mut Vec<FieldError>) {
    let schema = get(version, &["schema", "openAPIV3Schema"]);
    let Value::Object(keywords) = schema else { return };
    if status {
        let kind = text(schema, &["type"]);
        if !kind.is_empty() && kind != "object" {
            let detail = "only \"object\" is allowed as the type at the root of the schema if the status subresource is enabled";
            errors.push(invalid(&at.field("openAPIV3Schema.type"), kind, detail));
        } else if keywords.keys().any(|keyword| !AT_ROOT.contains(&keyword.as_str())) {
            let detail = format!(
                "only {AT_ROOT_IN_WORDS} fields are allowed at the root of the schema if the status subresource is enabled"
            );
            errors.push(invalid(&at.field("openAPIV3Schema"), schema.clone(), detail));
        }
    }
    if let Err(found) = schema_cache::validate(schema) {
        let at = at.field("openAPIV3Schema");
        errors.extend(found.into_iter().map(|error| error.under(&at)));
    }
}

fn scale(version: &Value, at: &FieldPath, errors: &mut Vec<FieldError>) {
    let scale = get(version, &["subresources", "scale"]);
    if !scale.is_object() {
        return;
    }
    let mut check = |name: &str, roots: &[&str], detail: &str, is_required: bool| {
        // One step, as upstream has it.
        let at = at.field(&format!("scale.{name}"));
        let value = text(scale, &[name]);
        if value.is_empty() {
            if is_required {
                errors.push(required(&at, ""));
            }
        } else if let Some(error) = simple_path_error(value) {
            errors.push(invalid(&at, value, error));
        } else if !roots.iter().any(|root| value.starts_with(root)) {
            errors.push(invalid(&at, value, detail));
        } else if is_too_deep(value) {
            errors.push(invalid(&at, value, format!("must have at most {MAX_DEPTH} steps")));
        }
    };
    check("specReplicasPath", &[".spec."], "should be a json path under .spec", true);
    check("statusReplicasPath", &[".status."], "should be a json path under .status", true);
    let either = "should be a json path under either .spec or .status";
    check("labelSelectorPath", &[".spec.", ".status."], either, false);
}

/// Returns whether a path of a scale leads deeper than any object goes: each of its steps becomes an object in another, and those are
/// walked by recursion.
pub(super) fn is_too_deep(path: &str) -> bool {
    path.split('.').count() > MAX_DEPTH + 1
}

fn simple_path_error(path: &str) -> Option<&'static str> {
    (!path.starts_with('.')).then_some("must be a simple json path starting with .")
}

fn columns(version: &Value, at: &FieldPath, errors: &mut Vec<FieldError>) {
    const TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
    const FORMATS: [&str; 8] = ["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];
    let columns = list(version, &["additionalPrinterColumns"]);
    if columns.len() > MAX_COLUMNS {
        return errors.push(too_many(at, columns.len(), MAX_COLUMNS));
    }
    for (index, column) in columns.iter().enumerate() {
        let at = at.index(index);
        let [name, kind, format, json_path] =
            ["name", "type", "format", "jsonPath"].map(|field| text(column, &[field]));
        if name.is_empty() {
            errors.push(required(&at.field("name"), ""));
        }
        let types = format!("must be one of {}", TYPES.join(","));
        if kind.is_empty() {
            errors.push(required(&at.field("type"), &types));
        } else if !TYPES.contains(&kind) {
            errors.push(invalid(&at.field("type"), kind, types));
        }
        if !format.is_empty() && !FORMATS.contains(&format) {
            let formats = format!("must be one of {}", FORMATS.join(","));
            errors.push(invalid(&at.field("format"), format, formats));
        }
        if json_path.is_empty() {
            errors.push(required(&at.field("JSONPath"), ""));
        } else if let Some(error) = simple_path_error(json_path) {
            errors.push(invalid(&at.field("JSONPath"), json_path, error));
        }
    }
}

fn selectable_fields(version: &Value, at: &FieldPath, errors: &mut Vec<FieldError>) {
    let mut schema = get(version, &["schema", "openAPIV3Schema"]);
    if refers(schema) {
        // Fields are looked up in a form of the schema that has no such thing.
        let detail = "OpenAPIV3Schema '$ref' is not supported";
        errors.push(invalid(&at.field("schema.openAPIV3Schema"), "", detail));
        schema = &Value::Null;
    }
    let at = &at.field("selectableFields");
    let mut seen = HashSet::new();
    for (index, field) in list(version, &["selectableFields"]).iter().enumerate() {
        let at = at.index(index).field("jsonPath");
        let json_path = text(field, &["jsonPath"]);
        if json_path.is_empty() {
            errors.push(required(&at, ""));
            continue;
        }
        let found = match schema_at(schema, json_path) {
            Ok(found) => found,
            Err(error) => {
                errors.push(invalid(&at, json_path, format!("is an invalid path: {error}")));
                continue;
            }
        };
        if json_path == ".metadata" || json_path.starts_with(".metadata.") {
            errors.push(invalid(&at, json_path, "must not point to fields in metadata"));
        }
        if !matches!(text(found, &["type"]), "string" | "boolean" | "integer") {
            let detail = "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed.";
            errors.push(invalid(&at, json_path, detail));
        }
        if !seen.insert(json_path) {
            errors.push(FieldError::new(&at, FieldErrorKind::Duplicate, Value::from(json_path), ""));
        }
    }
    if seen.len() > MAX_SELECTABLE_FIELDS {
        errors.push(too_many(at, seen.len(), MAX_SELECTABLE_FIELDS));
    }
}

pub(super) fn too_many(at: &FieldPath, count: usize, most: usize) -> FieldError {
    FieldError::new(
        at,
        FieldErrorKind::TooMany,
        Value::from(count),
        format!("must have at most {most} items"),
    )
}

/// Returns whether a schema refers to others; a property may be called so.
fn refers(schema: &Value) -> bool {
    let Value::Object(members) = schema else { return false };
    members.iter().any(|(name, value)| match (name.as_str(), value) {
        ("$ref", Value::String(_)) => true,
        ("properties", Value::Object(properties)) => properties.values().any(refers),
        ("items" | "additionalProperties", value) => refers(value),
        _ => false,
    })
}

/// The schema that a path of names leads to.
fn schema_at<'a>(root: &'a Value, json_path: &str) -> Result<&'a Value, String> {
    let missing = || "does not refer to a valid field".to_owned();
    let mut schema = root;
    let mut rest = json_path;
    while !rest.is_empty() {
        if rest.starts_with('[') {
            return Err("array notation is not allowed".into());
        }
        let Some(after) = rest.strip_prefix('.') else {
            return Err(format!("expected [ or . but got: {}", next_token(rest)));
        };
        let name = next_token(after);
        if name.is_empty() {
            return Err("unexpected end of JSON path".into());
        }
        schema = match schema.get("properties").filter(|properties| properties.is_object()) {
            Some(properties) => properties.get(name).ok_or_else(missing)?,
            None => schema.get("additionalProperties").filter(|any| any.is_object()).ok_or_else(missing)?,
        };
        rest = &after[name.len()..];
    }
    Ok(schema)
}

/// A name up to the next delimiter, or a delimiter.
fn next_token(text: &str) -> &str {
    match text.find(['.', '[', ']']) {
        Some(0) => &text[..1],
        Some(end) => &text[..end],
        None => text,
    }
}
