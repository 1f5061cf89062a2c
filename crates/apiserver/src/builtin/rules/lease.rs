//! Leases.

use capt_schema::FieldError;
use serde_json::Value;

use super::{get, invalid, path};

/// Coordinated elections are off by default upstream, and their fields are dropped; they would have no effect here.
pub(super) fn prepare(lease: &mut Value) {
    if let Some(Value::Object(spec)) = lease.get_mut("spec") {
        spec.shift_remove("strategy");
        spec.shift_remove("preferredHolder");
    }
}

pub(super) fn validate(lease: &Value) -> Vec<FieldError> {
    let spec = get(lease, &["spec"]);
    let at = path(&["spec"]);
    let mut errors = Vec::new();
    if let Some(seconds) = get(spec, &["leaseDurationSeconds"]).as_i64().filter(|seconds| *seconds <= 0) {
        errors.push(invalid(&at.field("leaseDurationSeconds"), seconds, "must be greater than 0"));
    }
    if let Some(count) = get(spec, &["leaseTransitions"]).as_i64().filter(|count| *count < 0) {
        errors.push(invalid(&at.field("leaseTransitions"), count, "must be greater than or equal to 0"));
    }
    errors
}
