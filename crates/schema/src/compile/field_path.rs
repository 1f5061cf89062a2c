//! The `fieldPath` of a rule: `.a.b`, or `['a']` where a name needs quotes.

use crate::node::Node;
use crate::path::Segment;

/// The fields a path names, if the schema has them. A map is entered by key, which only its
/// values' schema can follow; a list cannot be entered.
pub(crate) fn parse(path: &str, node: &Node) -> Option<Vec<Segment>> {
    let mut segments = Vec::new();
    let mut rest = path;
    let mut current = Some(node);
    while !rest.is_empty() {
        let (name, after) = if let Some(inner) = rest.strip_prefix("['") {
            let end = closing_quote(inner)?;
            (unescape(&inner[..end])?, inner[end + 1..].strip_prefix(']')?)
        } else {
            let inner = rest.strip_prefix('.')?;
            let end = inner.find(['.', '[', ']']).unwrap_or(inner.len());
            if end == 0 {
                return None;
            }
            (inner[..end].to_owned(), &inner[end..])
        };
        let node = current?;
        if node.properties.is_empty() {
            node.additional.as_ref()?;
            current = node.additional_schema();
            segments.push(Segment::Key(name));
        } else {
            current = Some(node.properties.get(&name)?);
            segments.push(Segment::Field(name));
        }
        rest = after;
    }
    Some(segments)
}

fn closing_quote(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    (0..bytes.len()).find(|&i| bytes[i] == b'\'' && (i == 0 || bytes[i - 1] != b'\\'))
}

fn unescape(text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        out.push(match c {
            '\\' => match chars.next()? {
                'a' => '\u{7}',
                'b' => '\u{8}',
                'f' => '\u{c}',
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                'v' => '\u{b}',
                c @ ('\'' | '\\') => c,
                _ => return None,
            },
            c => c,
        });
    }
    Some(out)
}
