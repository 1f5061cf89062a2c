//! Kubernetes structural schemas: parse, default, prune, validate, and CEL rules.
//!
//! A [`Schema`] is compiled once from the `openAPIV3Schema` of one `CustomResourceDefinition`
//! version and then applied to any number of objects. It gives the verdict, the paths and
//! the words of kube-apiserver 1.36. Nothing here does IO or knows a Kubernetes client.
//!
//! ```
//! # use serde_json::json;
//! let schema = capt_schema::Schema::compile(&json!({
//!     "type": "object",
//!     "properties": {"spec": {"type": "object", "properties": {
//!         "replicas": {"type": "integer", "minimum": 1, "default": 1},
//!     }}},
//! }))
//! .expect("the schema is structural");
//! let errors = schema.validate(&json!({"spec": {"replicas": 0}}), None);
//! assert_eq!(
//!     errors[0].to_string(),
//!     "spec.replicas: Invalid value: 0: spec.replicas in body should be greater than or equal to 1"
//! );
//! ```

#![warn(missing_docs)]

mod cel;
mod compile;
mod default;
mod error;
pub mod go;
pub mod metadata;
mod node;
mod path;
mod patterns;
mod prune;
mod schema;
mod validate;
mod weight;

pub use default::TooLarge;
pub use error::{FieldError, FieldErrorKind, is_enough};
pub use path::{FieldPath, Segment};
pub use patterns::OneDefinition;
pub use schema::{Schema, UnknownField};
