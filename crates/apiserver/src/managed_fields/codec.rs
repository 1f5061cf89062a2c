//! `fieldsV1`: the JSON form of a field set.
//!
//! ```json
//! {"f:metadata": {"f:labels": {".": {}, "f:app": {}}}, "f:spec": {"f:replicas": {}}}
//! ```
//!
//! An empty object is a member; a member with others below it has the key `"."`.

use serde_json::{Map, Value};

use super::{
    element::{ElementError, PathElement},
    set::FieldSet,
};

/// Why a value is no `fieldsV1`.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum CodecError {
    /// A key is no path element.
    #[error(transparent)]
    Element(#[from] ElementError),
    /// Something else than an object below this key.
    #[error("fields are not an object at {0:?}")]
    NotAnObject(String),
}

impl FieldSet {
    /// Reads `fieldsV1`. Elements of unknown kinds are left out.
    pub fn decode(fields: &Value) -> Result<Self, CodecError> {
        match fields {
            Value::Object(members) => Ok(decode(members)?.0),
            Value::Null => Ok(Self::EMPTY),
            _ => Err(CodecError::NotAnObject(String::new())),
        }
    }

    /// Writes `fieldsV1`, in Kubernetes' order.
    pub fn encode(&self) -> Value {
        Value::Object(self.encode_into(Map::with_capacity(self.nodes.len())))
    }

    fn encode_into(&self, mut out: Map<String, Value>) -> Map<String, Value> {
        for node in &self.nodes {
            let mut below = Map::new();
            if node.member && !node.below.is_empty() {
                below.insert(".".to_owned(), Value::Object(Map::new()));
            }
            out.insert(node.element.encode(), Value::Object(node.below.encode_into(below)));
        }
        out
    }
}

/// The members below, and whether the place itself is a member.
fn decode(members: &Map<String, Value>) -> Result<(FieldSet, bool), CodecError> {
    let mut set = FieldSet { nodes: Vec::with_capacity(members.len()) };
    let mut member = false;
    for (key, value) in members {
        if key == "." {
            member = true;
            continue;
        }
        let Some(element) = PathElement::decode(key)? else { continue };
        let Value::Object(below) = value else { return Err(CodecError::NotAnObject(key.clone())) };
        let (below, member) = decode(below)?;
        set.attach(element, member, below);
    }
    set.arrange();
    // Also when all there was is of unknown kinds.
    let member = member || set.is_empty();
    Ok((set, member))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn order_and_dots() {
        let given = json!({
            "v:\"b\"": {}, "f:b": {"f:c": {}, ".": {}}, "k:{\"name\":\"x\"}": {".": {}, "f:name": {}}, "f:a": {},
            "v:10": {}, "v:9": {}, "x:unknown": {},
        });
        let set = FieldSet::decode(&given).unwrap();
        assert_eq!(
            set.encode().to_string(),
            r#"{"f:a":{},"f:b":{".":{},"f:c":{}},"k:{\"name\":\"x\"}":{".":{},"f:name":{}},"v:9":{},"v:10":{},"v:\"b\"":{}}"#
        );
        assert_eq!(set.len(), 8);
        assert_eq!(FieldSet::decode(&json!({})).unwrap(), FieldSet::EMPTY);
        assert!(FieldSet::decode(&json!({"f:a": 1})).is_err());
        assert!(FieldSet::decode(&json!([])).is_err());
    }
}
