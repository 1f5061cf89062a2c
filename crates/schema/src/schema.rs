//! The compiled schema of one CRD version.

use std::sync::Arc;

use serde_json::Value;

use crate::compile;
use crate::default::{self, TooLarge};
use crate::error::FieldError;
use crate::node::Node;
use crate::path::FieldPath;
use crate::prune::{self, Resource};
use crate::validate;
use crate::weight;

/// The compiled structural schema of one `CustomResourceDefinition` version.
#[derive(Debug)]
pub struct Schema {
    root: Node,
}

/// A field an object has and its schema does not know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownField {
    /// The field; displays as in `unknown field "spec.foo"`.
    pub path: FieldPath,
    /// The names the schema knows at that place, sorted.
    pub known: Arc<[String]>,
}

impl Schema {
    /// Compiles an `openAPIV3Schema`.
    ///
    /// # Errors
    ///
    /// All that an API server would refuse, with paths that start at the schema itself
    /// (see [`FieldPath::under`] to place them in a CRD): what is not structural, forbidden
    /// keywords, defaults that do not fit, rules that do not compile.
    pub fn compile(open_api_v3_schema: &Value) -> Result<Self, Vec<FieldError>> {
        compile::compile(open_api_v3_schema).map(|root| Self { root })
    }

    /// About how many bytes it takes in memory, and rather more than fewer.
    pub fn weight(&self) -> usize {
        weight::of(&self.root)
    }

    /// Fills in defaults, also in place of a null where the field is not nullable, and drops
    /// such nulls where there is no default.
    ///
    /// # Errors
    ///
    /// Where that would be more than an object may be; it has some of them then.
    pub fn default(&self, object: &mut Value) -> Result<(), TooLarge> {
        default::apply(object, &self.root)
    }

    /// Returns whether there is any default.
    pub fn has_defaults(&self) -> bool {
        default::is_any(&self.root)
    }

    /// As [`Schema::default`], but keeps a null that has no default: what server-side apply makes keeps them, to be
    /// refused.
    ///
    /// # Errors
    ///
    /// As [`Schema::default`].
    pub fn fill(&self, object: &mut Value) -> Result<(), TooLarge> {
        default::fill(object, &self.root)
    }

    /// Drops the fields the schema does not know and tells which, sorted by path.
    pub fn prune(&self, object: &mut Value) -> Vec<UnknownField> {
        prune::apply(object, &self.root, Resource(true))
    }

    /// The fields that [`Schema::prune`] would drop.
    pub fn unknown_fields(&self, object: &Value) -> Vec<UnknownField> {
        prune::find(object, &self.root, Resource(true))
    }

    /// Validates an object on creation, or on update if `old` is given.
    ///
    /// The object is expected as an API server validates it: defaulted and pruned.
    pub fn validate(&self, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        self.validate_after(Vec::new(), new, old)
    }

    /// As [`Schema::validate`], for an object in which errors were found before: after some of them rules are not
    /// checked. Gives all errors.
    pub fn validate_after(
        &self,
        errors: Vec<FieldError>,
        new: &Value,
        old: Option<&Value>,
    ) -> Vec<FieldError> {
        validate::object(&self.root, errors, new, old)
    }
}
