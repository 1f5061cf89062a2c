//! Bodies that say things twice, in JSON and in YAML.

use serde_json::Value;

use crate::chance::Chance;

/// How a body is written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Style {
    Narrow,
    /// One line for each member, for the sake of lines in messages.
    Wide,
    /// YAML without braces.
    Block,
}

impl Style {
    /// One that is JSON.
    pub fn json(chance: &mut Chance) -> Self {
        *chance.pick(&[Self::Narrow, Self::Wide])
    }

    /// One that is YAML.
    pub fn yaml(chance: &mut Chance) -> Self {
        *chance.pick(&[Self::Narrow, Self::Wide, Self::Block, Self::Block])
    }
}

/// What upstream reads with readers of their own, which do not look, or does not read at all.
const UNREAD: [&str; 5] = ["schema", "unknown", "unknownMeta", "Data", "extra"];

/// The text of a value in which some members are there again, with the value that counts at the end.
pub fn text(chance: &mut Chance, value: &Value, style: Style) -> String {
    let mut out = String::new();
    write(chance, value, style, 0, &mut out);
    out
}

fn write(chance: &mut Chance, value: &Value, style: Style, depth: usize, out: &mut String) {
    let indent = |out: &mut String, depth: usize| {
        if style != Style::Narrow {
            out.push('\n');
            out.push_str(&"  ".repeat(depth));
        }
    };
    let block = style == Style::Block;
    match value {
        Value::Object(members) if !members.is_empty() => {
            if !block {
                out.push('{');
            }
            let mut first = true;
            for (name, member) in members {
                // Not the kind, which is looked for by a reader of its own.
                let again = !["kind", "apiVersion"].contains(&name.as_str()) && chance.percent(8);
                // Of JSON upstream reads every one, into the same place.
                let other = block && chance.percent(50);
                let before = again.then(|| if other { chance.anything(1) } else { member.clone() });
                for member in before.iter().chain([member]) {
                    if !first && !block {
                        out.push(',');
                    }
                    if !first || !block || depth > 0 {
                        indent(out, if block { depth } else { depth + 1 });
                    }
                    first = false;
                    out.push_str(&Value::from(name.as_str()).to_string());
                    out.push(':');
                    if style != Style::Narrow && !(block && is_open(member)) {
                        out.push(' ');
                    }
                    if UNREAD.contains(&name.as_str()) && !block {
                        out.push_str(&member.to_string());
                    } else {
                        write(chance, member, style, depth + 1, out);
                    }
                }
            }
            if !block {
                indent(out, depth);
                out.push('}');
            }
        }
        Value::Array(items) if !items.is_empty() => {
            if !block {
                out.push('[');
            }
            for (index, item) in items.iter().enumerate() {
                if index > 0 && !block {
                    out.push(',');
                }
                indent(out, if block { depth } else { depth + 1 });
                if block {
                    out.push_str(if is_open(item) { "-" } else { "- " });
                }
                write(chance, item, style, depth + 1, out);
            }
            if !block {
                indent(out, depth);
                out.push(']');
            }
        }
        other => out.push_str(&other.to_string()),
    }
}

/// Whether a value goes over lines of its own.
fn is_open(value: &Value) -> bool {
    match value {
        Value::Object(members) => !members.is_empty(),
        Value::Array(items) => !items.is_empty(),
        _ => false,
    }
}
