//! Maximal sizes of values, by the bounds of their schema and of a request.

use crate::cel::types::{ObjectType, Type};
use crate::node::{Kind, Node};

/// The largest request an API server takes.
pub(super) const MAX_REQUEST: u64 = 3 * 1024 * 1024;

/// The value that a path leads to.
#[derive(Clone, Copy)]
pub(super) enum Place<'n> {
    Node {
        node: &'n Node,
        resource: bool,
    },
    /// A key of a map; its size is not bounded, which counts as none.
    Key,
}

/// The place a path leads to. Its first step is a variable, whichever.
pub(super) fn find<'n>(root: Place<'n>, path: &[String]) -> Option<Place<'n>> {
    path.iter().skip(1).try_fold(root, |place, name| step(place, name))
}

fn step<'n>(place: Place<'n>, name: &str) -> Option<Place<'n>> {
    let Place::Node { node, resource } = place else { return None };
    let inner = |node: &'n Node| Place::Node { node, resource: node.embedded_resource };
    match name {
        "@items" | "@values" => node.items.as_deref().or_else(|| node.additional_schema()).map(inner),
        "@keys" => node.additional_schema().map(|_| Place::Key),
        field => {
            let object = ObjectType { node, resource };
            object.field(field)?;
            let name = crate::cel::escape::unescape(field)?;
            object.property(&name).map(inner)
        }
    }
}

fn unsigned(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}

/// The maximal number of elements or characters; none for other types.
pub(super) fn max_elements(place: Place<'_>) -> u64 {
    let Place::Node { node, .. } = place else { return 0 };
    let checks = &node.checks;
    if node.int_or_string {
        return checks.max_length.map_or(MAX_REQUEST - 2, |max| unsigned(max).saturating_mul(4));
    }
    match node.kind {
        Some(Kind::Array) => match (checks.max_items, &node.items) {
            (Some(max), _) => unsigned(max),
            (None, Some(items)) => (MAX_REQUEST - 2) / (min_size(items) + 1),
            (None, None) => 0,
        },
        Some(Kind::Object) => match (node.additional_schema(), checks.max_properties) {
            (Some(_), Some(max)) => unsigned(max),
            (Some(values), None) => (MAX_REQUEST - 2) / (min_size(values) + 6),
            (None, _) => 0,
        },
        Some(Kind::String) => max_text(node),
        _ => 0,
    }
}

fn max_text(node: &Node) -> u64 {
    let checks = &node.checks;
    match (checks.format_name.as_str(), checks.max_length) {
        ("duration" | "date-time", _) => 32,
        ("date", _) => 12,
        ("byte", Some(max)) => unsigned(max),
        (_, Some(max)) => unsigned(max).saturating_mul(4),
        ("byte", None) => MAX_REQUEST - 2,
        (_, None) if !checks.enumeration.values.is_empty() => {
            let lengths = checks.enumeration.values.iter().filter_map(|value| value.as_str()).map(str::len);
            lengths.max().unwrap_or(0) as u64
        }
        _ => MAX_REQUEST - 2,
    }
}

/// The fewest bytes of JSON a value can have.
pub(crate) fn min_size(node: &Node) -> u64 {
    if node.int_or_string {
        return 1;
    }
    match node.kind {
        Some(Kind::Array) | None => 2,
        Some(Kind::Object) if node.additional.is_some() => 2,
        Some(Kind::Object) => node
            .properties
            .iter()
            .filter(|(name, property)| {
                property.default.is_none()
                    && node.checks.required.contains(name)
                    && Type::of(property, property.embedded_resource).is_some()
            })
            .fold(2, |size, (name, property)| size + name.len() as u64 + min_size(property) + 4),
        Some(Kind::String) => match node.checks.format_name.as_str() {
            "duration" => 3,
            "date" => 12,
            "date-time" => 21,
            _ => 2,
        },
        Some(Kind::Boolean) => 4,
        Some(Kind::Number | Kind::Integer) => 1,
    }
}
