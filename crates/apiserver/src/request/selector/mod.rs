//! Selectors: which objects of a collection are meant, by label and by field.
//!
//! Both print as they parse: `parse(selector.to_string())` is the same selector.

mod field;
mod key;
mod label;

pub use field::{FieldRequirement, FieldSelector, FieldSelectorError, field_value};
pub use key::{label_key_problems, label_value_problems};
pub use label::{LabelRequirement, LabelSelector, LabelSelectorError, Operator};
