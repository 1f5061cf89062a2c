//! The rules of structural schemas.
//!
//! Types are stated outside of `allOf`, `anyOf`, `oneOf` and `not`; what is inside of these
//! only restricts values, and only of fields stated outside; `metadata` is implied.

use crate::compile::raw::{Items, Props, RawAdditional};
use crate::error::FieldError;
use crate::path::FieldPath;
use crate::patterns;
use crate::validate::errors::Errors;

#[derive(Clone, Copy, PartialEq)]
enum Level {
    Root,
    Item,
    Field,
}

/// All violations, sorted by message.
pub(crate) fn check(root: &Props) -> Vec<FieldError> {
    let mut errors = Errors::default();
    let path = FieldPath::root();
    invariants(root, Level::Root, &path, &mut errors);
    completeness(root, Some(root), &path, &path, &mut errors);
    let mut errors = errors.into_inner();
    errors.sort_by_cached_key(ToString::to_string);
    errors
}

fn invariants(props: &Props, level: Level, path: &FieldPath, errors: &mut Errors) {
    if errors.is_enough() {
        return;
    }
    if props.kind == "array" && props.items.is_none() {
        errors.push(FieldError::required(&path.field("items"), "must be specified"));
    }
    if let Some(items) = props.items_schema() {
        invariants(items, Level::Item, &path.field("items"), errors);
    }
    for (name, property) in &props.properties {
        invariants(property, Level::Field, &path.field("properties").key(name), errors);
    }
    if props.additional_properties.is_some() && level == Level::Root {
        errors
            .push(FieldError::forbidden(&path.field("additionalProperties"), "must not be used at the root"));
    }
    if let Some(schema) = props.additional_schema() {
        invariants(schema, Level::Field, &path.field("additionalProperties"), errors);
    }
    int_or_string(props, path, errors);
    let in_first_all_of = props.all_of.first().is_some_and(|first| is_int_or_string_pattern(&first.any_of));
    value_validations(props, is_int_or_string_pattern(&props.any_of), in_first_all_of, path, errors);
    type_and_metadata(props, level, path, errors);
}

fn int_or_string(props: &Props, path: &FieldPath, errors: &mut Errors) {
    const DETAIL: &str = "must be false if x-kubernetes-int-or-string is true";
    if props.int_or_string && props.preserves_unknown() {
        errors.push(FieldError::invalid(&path.field("x-kubernetes-preserve-unknown-fields"), true, DETAIL));
    }
    if props.int_or_string && props.embedded_resource {
        errors.push(FieldError::invalid(&path.field("x-kubernetes-embedded-resource"), true, DETAIL));
    }
}

fn type_and_metadata(props: &Props, level: Level, path: &FieldPath, errors: &mut Errors) {
    let type_path = path.field("type");
    if props.embedded_resource && props.kind != "object" {
        const DETAIL: &str = "must be object if x-kubernetes-embedded-resource is true";
        errors.push(if props.kind.is_empty() {
            FieldError::required(&type_path, DETAIL)
        } else {
            FieldError::invalid(&type_path, props.kind.as_str(), DETAIL)
        });
    } else if props.kind.is_empty() && !props.int_or_string && !props.preserves_unknown() {
        errors.push(FieldError::required(
            &type_path,
            match level {
                Level::Root => "must not be empty at the root",
                Level::Item => "must not be empty for specified array items",
                Level::Field => "must not be empty for specified object fields",
            },
        ));
    }
    if props.embedded_resource && props.additional_properties.is_some() {
        errors.push(FieldError::forbidden(
            &path.field("additionalProperties"),
            "must not be used if x-kubernetes-embedded-resource is set",
        ));
    }
    if level == Level::Root && !props.kind.is_empty() && props.kind != "object" {
        errors.push(FieldError::invalid(&type_path, props.kind.as_str(), "must be object at the root"));
    }
    metadata(props, level, path, errors);
    if props.embedded_resource && !props.preserves_unknown() && props.properties.is_empty() {
        errors.push(FieldError::required(
            &path.field("properties"),
            "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields",
        ));
    }
}

fn metadata(props: &Props, level: Level, path: &FieldPath, errors: &mut Errors) {
    let is_resource = level == Level::Root || props.embedded_resource;
    let properties = path.field("properties");
    let mut must_be = |name: &str, kind: &str| {
        if let Some(property) = props.properties.get(name)
            && is_resource
            && property.kind != kind
        {
            let path = properties.key(name).field("type");
            errors.push(FieldError::invalid(&path, property.kind.as_str(), format!("must be {kind}")));
        }
    };
    must_be("kind", "string");
    must_be("apiVersion", "string");
    must_be("metadata", "object");
    if level == Level::Root
        && let Some(metadata) = props.properties.get("metadata")
        && !is_plain_metadata(metadata)
    {
        errors.push(FieldError::forbidden(
            &properties.key("metadata"),
            "must not specify anything other than name and generateName, but metadata is implicitly specified",
        ));
    }
}

/// Returns whether nothing but the name is restricted. Defaults are validated elsewhere.
fn is_plain_metadata(metadata: &Props) -> bool {
    let names_only = metadata.properties.keys().all(|name| name == "name" || name == "generateName");
    names_only
        && metadata.items.is_none()
        && metadata.additional_properties.is_none()
        && !metadata.has_title
        && !metadata.has_description
        && !metadata.nullable
        && metadata.validations.is_empty()
        && has_no_extensions(metadata)
        && has_no_value_validation(metadata)
}

fn has_no_extensions(props: &Props) -> bool {
    !props.preserves_unknown()
        && !props.embedded_resource
        && !props.int_or_string
        && props.list_type.is_none()
        && props.list_map_keys.is_empty()
        && props.map_type.is_none()
}

fn has_no_value_validation(props: &Props) -> bool {
    props.format.is_empty()
        && props.pattern.is_empty()
        && props.enumeration.is_empty()
        && props.minimum.is_none()
        && props.maximum.is_none()
        && !props.exclusive_minimum
        && !props.exclusive_maximum
        && props.multiple_of.is_none()
        && props.min_length.is_none()
        && props.max_length.is_none()
        && props.min_items.is_none()
        && props.max_items.is_none()
        && !props.unique_items
        && props.min_properties.is_none()
        && props.max_properties.is_none()
        && props.required.is_empty()
        && props.all_of.is_empty()
        && props.any_of.is_empty()
        && props.one_of.is_empty()
        && props.not.is_none()
}

/// `anyOf: [{type: integer}, {type: string}]`, the one place where a type may be nested.
fn is_int_or_string_pattern(any_of: &[Props]) -> bool {
    let only_type = |props: &Props, kind: &str| {
        props.kind == kind
            && props.items.is_none()
            && props.properties.is_empty()
            && props.additional_properties.is_none()
            && props.default.is_none()
            && !props.has_title
            && !props.has_description
            && !props.nullable
            && props.validations.is_empty()
            && has_no_extensions(props)
            && has_no_value_validation(props)
    };
    matches!(any_of, [first, second] if only_type(first, "integer") && only_type(second, "string"))
}

fn value_validations(
    props: &Props,
    skip_any_of: bool,
    skip_in_first_all_of: bool,
    path: &FieldPath,
    errors: &mut Errors,
) {
    if !skip_any_of {
        for (i, nested) in props.any_of.iter().enumerate() {
            nested_validation(nested, false, &path.field("anyOf").index(i), errors);
        }
    }
    for (i, nested) in props.all_of.iter().enumerate() {
        let skip = skip_in_first_all_of && i == 0;
        nested_validation(nested, skip, &path.field("allOf").index(i), errors);
    }
    for (i, nested) in props.one_of.iter().enumerate() {
        nested_validation(nested, false, &path.field("oneOf").index(i), errors);
    }
    if let Some(nested) = &props.not {
        nested_validation(nested, false, &path.field("not"), errors);
    }
    if !props.pattern.is_empty()
        && let Err(error) = patterns::of_schema(&props.pattern)
    {
        errors.push(FieldError::invalid(
            &path.field("pattern"),
            props.pattern.as_str(),
            format!("must be a valid regular expression, but isn't: {error}"),
        ));
    }
}

fn nested_validation(nested: &Props, skip_any_of: bool, path: &FieldPath, errors: &mut Errors) {
    value_validations(nested, skip_any_of, false, path, errors);
    if let Some(items) = nested.items_schema() {
        nested_validation(items, false, &path.field("items"), errors);
    }
    for (name, property) in &nested.properties {
        nested_validation(property, false, &path.field("properties").key(name), errors);
    }
    let allows_more = !matches!(nested.additional_properties, None | Some(RawAdditional::Allowed(false)));
    let forbidden: [(bool, &str, &str); 13] = [
        (!nested.kind.is_empty(), "type", "must be empty to be structural"),
        (allows_more, "additionalProperties", "must be undefined to be structural"),
        (nested.default.is_some(), "default", "must be undefined to be structural"),
        (nested.has_title, "title", "must be empty to be structural"),
        (nested.has_description, "description", "must be empty to be structural"),
        (nested.nullable, "nullable", "must be false to be structural"),
        (
            nested.preserves_unknown(),
            "x-kubernetes-preserve-unknown-fields",
            "must be false to be structural",
        ),
        (nested.embedded_resource, "x-kubernetes-embedded-resource", "must be false to be structural"),
        (nested.int_or_string, "x-kubernetes-int-or-string", "must be false to be structural"),
        (!nested.list_map_keys.is_empty(), "x-kubernetes-list-map-keys", "must be empty to be structural"),
        (nested.list_type.is_some(), "x-kubernetes-list-type", "must be undefined to be structural"),
        (nested.map_type.is_some(), "x-kubernetes-map-type", "must be undefined to be structural"),
        (!nested.validations.is_empty(), "x-kubernetes-validations", "must be empty to be structural"),
    ];
    for (violated, keyword, detail) in forbidden {
        if violated {
            errors.push(FieldError::forbidden(&path.field(keyword), detail));
        }
    }
    if nested.properties.contains_key("metadata") {
        errors.push(FieldError::forbidden(
            &path.field("properties").key("metadata"),
            "must not be specified in a nested context",
        ));
    }
}

/// Whatever `nested` restricts must be stated by `stated`, the schema outside of it.
fn completeness(
    nested: &Props,
    stated: Option<&Props>,
    stated_path: &FieldPath,
    path: &FieldPath,
    errors: &mut Errors,
) {
    let Some(stated) = stated else {
        errors.push(FieldError::required(stated_path, format!("because it is defined in {path}")));
        return;
    };
    let mut compare = |clause: &Props, path: FieldPath| {
        completeness(clause, Some(stated), stated_path, &path, errors);
        members_completeness(clause, stated, stated_path, &path, errors);
    };
    if let Some(not) = &nested.not {
        compare(not, path.field("not"));
    }
    for (keyword, clauses) in
        [("allOf", &nested.all_of), ("anyOf", &nested.any_of), ("oneOf", &nested.one_of)]
    {
        for (i, clause) in clauses.iter().enumerate() {
            compare(clause, path.field(keyword).index(i));
        }
    }
}

fn members_completeness(
    clause: &Props,
    stated: &Props,
    stated_path: &FieldPath,
    path: &FieldPath,
    errors: &mut Errors,
) {
    let mut descend = |inner: &Props, stated: Option<&Props>, stated_path: FieldPath, path: FieldPath| {
        completeness(inner, stated, &stated_path, &path, errors);
        if let Some(stated) = stated {
            members_completeness(inner, stated, &stated_path, &path, errors);
        }
    };
    if let Some(Items::Schema(items)) = &clause.items {
        descend(items, stated.items_schema(), stated_path.field("items"), path.field("items"));
    }
    for (name, property) in &clause.properties {
        descend(
            property,
            stated.properties.get(name),
            stated_path.field("properties").key(name),
            path.field("properties").key(name),
        );
    }
}
