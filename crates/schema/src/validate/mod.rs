//! Validation of objects, in the order of an API server.
//!
//! First the values against the schema's keywords, then embedded resources, then list types,
//! and then, unless an error so far makes rules meaningless, the CEL rules. On update, an
//! error in a part that did not change is forgiven (ratcheting).

mod compositions;
mod correlate;
pub(crate) mod enumeration;
pub(crate) mod errors;
pub(crate) mod formats;
mod lists;
mod numbers;
mod resource;
mod value;

pub(crate) use correlate::{Correlated, MapList};
pub(crate) use errors::Errors;
pub(crate) use resource::{check as check_resources, check_one as check_resource};
pub(crate) use value::{Matching, check_within as check_values};

use serde_json::Value;

use crate::cel::budget::Budget;
use crate::cel::rules;
use crate::error::{FieldError, FieldErrorKind};
use crate::node::Node;
use crate::path::{FieldPath, Trail};

pub(crate) fn object(
    node: &Node,
    mut errors: Vec<FieldError>,
    new: &Value,
    old: Option<&Value>,
) -> Vec<FieldError> {
    let correlated = old.map(|old| Correlated::new(new, old, node));
    value::check(node, new, correlated.as_ref(), &mut errors);
    resource::check(node, new, Trail::ROOT, &mut errors);
    if old.is_none_or(|old| !lists::is_violated(node, old)) {
        lists::check(node, new, Trail::ROOT, &mut errors);
    }
    if node.has_rules {
        if errors.iter().any(is_blocking) {
            errors.push(FieldError::invalid(
                &FieldPath::root(),
                Value::Null,
                "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation",
            ));
        } else {
            rules::check(node, new, old, correlated.as_ref(), &mut Budget::default(), &mut errors);
        }
    }
    errors
}

/// About how many bytes errors may have together, far more than anybody reads.
const MOST_TOLD: usize = 16 << 20;

/// Returns whether so much was found that no more is looked for below `trail`.
fn is_enough(errors: &[FieldError], trail: Trail<'_>) -> bool {
    // What an error takes besides its path is about as much as a short one.
    !errors.is_empty() && errors.len().saturating_mul(64 + trail.len()) > MOST_TOLD
}

/// Errors after which a rule could not trust the types it was compiled for.
fn is_blocking(error: &FieldError) -> bool {
    use FieldErrorKind::{NotSupported, Required, TooLong, TooMany, TypeInvalid};
    matches!(error.kind, NotSupported | Required | TooLong | TooMany | TypeInvalid)
}
