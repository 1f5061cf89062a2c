//! From an `openAPIV3Schema` to a compiled schema, or all that is wrong with it.
//!
//! ```text
//! JSON -> raw (keywords) -> structural check -> build (nodes) -> rules attached
//!                                                  -> defaults checked -> openapi check
//! ```

mod build;
mod defaults;
pub(crate) mod field_path;
mod openapi;
pub(crate) mod raw;
mod structural;

use serde_json::Value;

use crate::cel::rules;
use crate::error::{FieldError, FieldErrorKind};
use crate::node::Node;
use crate::path::FieldPath;
use crate::patterns::OneDefinition;

pub(crate) fn compile(schema: &Value) -> Result<Node, Vec<FieldError>> {
    let _patterns = OneDefinition::open();
    let props = raw::decode(schema)?;
    let mut errors = Vec::new();
    if props.nullable {
        errors.push(FieldError::forbidden(
            &FieldPath::root().field("nullable"),
            "nullable cannot be true at the root",
        ));
    }
    // What cannot be expressed is refused below, in words of its own.
    let expressible = props.is_expressible();
    let not_structural = if expressible { structural::check(&props) } else { Vec::new() };
    let node = (expressible && not_structural.is_empty()).then(|| {
        let mut node = build::node(&props);
        rules::attach(&mut node, &props, true);
        node
    });
    errors.extend(not_structural);
    let default_errors = node.as_ref().map(defaults::check).unwrap_or_default();
    // Rules are checked only if their schema is valid.
    let judged = node.as_ref().filter(|_| default_errors.is_empty());
    errors.extend(default_errors);
    errors.extend(openapi::check(&props, judged));
    if errors.is_empty() && !expressible {
        let what = "OpenAPIV3Schema 'schema' is not supported";
        errors.push(FieldError::new(&FieldPath::root(), FieldErrorKind::Invalid, Value::from(""), what));
    }
    match node {
        Some(node) if errors.is_empty() => Ok(node),
        _ => Err(errors),
    }
}
