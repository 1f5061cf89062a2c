//! Additions of the controllers to the conditions that the planner made: facts that it does not see.

use capt_api::conditions::types;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

/// Says what it is that pauses an object.
pub fn paused(conditions: &mut [Condition], by: Option<&str>) {
    let paused = conditions.iter_mut().find(|one| one.type_ == types::PAUSED && one.status == "True");
    if let (Some(condition), Some(by)) = (paused, by) {
        by.clone_into(&mut condition.message);
    }
}
