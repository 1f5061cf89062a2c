//! About how many bytes a compiled schema takes.
//!
//! Nobody counts allocations here: the numbers were measured, and are meant to be too large rather than too small.

use std::collections::HashMap;
use std::mem::size_of;

use serde_json::Value;

use crate::node::Node;

/// A node in the map of its parent, with its name's own allocation.
const NODE: usize = size_of::<Node>() + 160;
/// A value of a default or an enumeration, besides its text.
const VALUE: usize = 256;
/// A byte of a rule: `1+1` is three nodes of an expression.
const RULE_BYTE: usize = 96;

#[derive(Default)]
struct Scale<'n> {
    bytes: usize,
    /// Equal ones of a schema share what was compiled.
    patterns: HashMap<&'n str, usize>,
}

pub(crate) fn of(root: &Node) -> usize {
    let mut scale = Scale::default();
    scale.node(root);
    scale.patterns.iter().fold(scale.bytes, |sum, (source, size)| sum + source.len() + size)
}

impl<'n> Scale<'n> {
    fn node(&mut self, node: &'n Node) {
        let checks = &node.checks;
        self.bytes += NODE;
        self.bytes += checks.required.iter().map(|name| size_of::<String>() + name.len()).sum::<usize>();
        self.bytes += node.default.as_ref().map_or(0, value);
        // Each is there to be told, and to be found.
        self.bytes += checks.enumeration.values.iter().map(|one| 2 * value(one)).sum::<usize>();
        if let Some(pattern) = &checks.pattern {
            self.bytes += pattern.source.len();
            self.patterns.insert(&pattern.source, pattern.compiled.size);
        }
        for rule in &node.rules {
            self.bytes += rule.text() * RULE_BYTE;
            self.patterns.extend(rule.patterns().map(|(source, compiled)| (source, compiled.size)));
        }
        let nested = checks.all_of.iter().chain(&checks.any_of).chain(&checks.one_of);
        nested.chain(checks.not.as_deref()).for_each(|node| self.node(node));
        for (name, property) in &node.properties {
            self.bytes += name.len();
            self.node(property);
        }
        node.items.as_deref().into_iter().chain(node.additional_schema()).for_each(|node| self.node(node));
    }
}

fn value(value: &Value) -> usize {
    VALUE
        + match value {
            Value::String(text) => text.len(),
            Value::Array(items) => items.iter().map(self::value).sum(),
            Value::Object(members) => {
                members.iter().map(|(name, member)| name.len() + self::value(member)).sum()
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::Schema;

    #[test]
    fn what_takes_memory_counts() {
        let weight = |spec: serde_json::Value| {
            Schema::compile(&json!({"type": "object", "properties": {"spec": spec}})).unwrap().weight()
        };
        let text = json!({"type": "string"});
        let plain = weight(text.clone());
        let pattern = |n: usize| json!({"type": "string", "pattern": format!("^[a-z]{n}{{9}}$")});
        let object = |members: Vec<serde_json::Value>| {
            let members = members.into_iter().enumerate();
            let members: serde_json::Map<_, _> =
                members.map(|(n, member)| (format!("f{n}"), member)).collect();
            json!({"type": "object", "properties": members})
        };
        let words: Vec<String> = (0..1_000).map(|n| format!("w{n}")).collect();
        let rule = json!({"type": "object", "x-kubernetes-validations": [{"rule": "1 + 1 == 2"}]});
        for (spec, least) in [
            (object(vec![text; 100]), 100 * super::NODE),
            (object((0..10).map(pattern).collect()), 10 * (16 << 10)),
            (json!({"type": "string", "enum": words}), 1_000 * super::VALUE),
            (json!({"type": "string", "default": "x".repeat(10_000)}), 10_000),
            (rule, 10 * super::RULE_BYTE),
        ] {
            assert!(weight(spec.clone()) >= plain + least, "{spec}");
        }
        let once = weight(object(vec![pattern(1)]));
        assert!(weight(object(vec![pattern(1); 2])) < once + (16 << 10), "the same pattern counts once");
    }
}
