//! The patches that are not apply: JSON Patch, JSON Merge Patch and strategic merge.
//!
//! Each takes the current object in the version of the request and the decoded body, and returns the new object.
//! Decoding it, field management and validation are the caller's.

mod json;
mod merge;
mod strategic;

pub use json::{JsonPatchError, MAX_COPIED, MAX_OPERATIONS, json_patch};
pub use merge::{MergePatchError, merge_patch};
pub use strategic::{StrategicError, strategic_merge_patch};
