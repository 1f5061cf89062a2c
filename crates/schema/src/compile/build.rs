//! From keywords to compiled nodes. Runs after the structural check, so what that check
//! refuses cannot occur here and is dropped rather than reported again.

use crate::compile::raw::{self, Props};
use crate::node::{Additional, Checks, Kind, ListType, Node, Pattern};
use crate::patterns;
use crate::validate::enumeration::Enumeration;
use crate::validate::formats::Format;

pub(crate) fn node(props: &Props) -> Node {
    let items = props.items_schema().map(|items| Box::new(node(items)));
    let additional = props.additional_properties.as_ref().map(|additional| match additional {
        raw::RawAdditional::Allowed(allowed) => Additional::Allowed(*allowed),
        raw::RawAdditional::Schema(schema) => Additional::Schema(Box::new(node(schema))),
    });
    Node {
        kind: Kind::parse(&props.kind),
        nullable: props.nullable,
        default: props.default.clone(),
        items,
        properties: props
            .properties
            .iter()
            .map(|(name, schema)| (name.clone(), Box::new(node(schema))))
            .collect(),
        additional,
        int_or_string: props.int_or_string,
        preserve_unknown: props.preserves_unknown(),
        embedded_resource: props.embedded_resource,
        list_type: match props.list_type.as_deref() {
            Some("set") => ListType::Set,
            Some("map") => ListType::Map(props.list_map_keys.clone()),
            _ => ListType::Atomic,
        },
        checks: checks(props),
        rules: Vec::new(),
        has_rules: false,
    }
}

fn checks(props: &Props) -> Checks {
    let nodes = |list: &[Props]| list.iter().map(node).collect();
    let pattern = (!props.pattern.is_empty())
        .then(|| patterns::of_schema(&props.pattern).ok())
        .flatten()
        .map(|compiled| Pattern { source: props.pattern.clone(), compiled });
    let kind = if props.int_or_string { "" } else { &props.kind };
    Checks {
        format_name: props.format.clone(),
        format: Format::effective(kind, &props.format),
        enumeration: Enumeration::of(&props.enumeration),
        minimum: props.minimum,
        maximum: props.maximum,
        exclusive_minimum: props.exclusive_minimum,
        exclusive_maximum: props.exclusive_maximum,
        multiple_of: props.multiple_of,
        min_length: props.min_length,
        max_length: props.max_length,
        pattern,
        min_items: props.min_items,
        max_items: props.max_items,
        min_properties: props.min_properties,
        max_properties: props.max_properties,
        required: props.required.clone(),
        all_of: nodes(&props.all_of),
        any_of: nodes(&props.any_of),
        one_of: nodes(&props.one_of),
        not: props.not.as_ref().map(|not| Box::new(node(not))),
    }
}
