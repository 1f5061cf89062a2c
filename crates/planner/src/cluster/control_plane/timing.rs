//! Timeouts. Waiting has begun when the condition that speaks of it took its status; what is late is still
//! taken when it arrives.

use capt_api::cluster::CAPTControlPlane;
use capt_api::conditions::types;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::super::since;
use super::{ControlPlaneObservation, ControlPlaneState};

/// Returns the condition that tells since when something is awaited, its status meanwhile, and the timeout in minutes.
fn wait(object: &CAPTControlPlane, what: Wait) -> (&'static str, &'static str, i32) {
    let limits = &object.spec.control_plane_config.timeouts;
    match what {
        Wait::Vpc => (types::VPC_READY, "False", limits.vpc_ready_timeout),
        Wait::Create => (types::CREATING, "True", limits.control_plane_timeout),
        Wait::Update => (types::ROLLING_OUT, "True", limits.control_plane_timeout),
        Wait::Secrets => (types::SECRETS_READY, "False", limits.secret_timeout),
    }
}

#[derive(Clone, Copy)]
enum Wait {
    Vpc,
    Create,
    Update,
    Secrets,
}

fn deadline(object: &CAPTControlPlane, what: Wait, conditions: &[Condition]) -> Option<Timestamp> {
    let (kind, status, minutes) = wait(object, what);
    since(conditions, kind, status)?.checked_add(SignedDuration::from_mins(minutes.into())).ok()
}

fn late(observed: &ControlPlaneObservation<'_>, what: Wait, now: Timestamp) -> bool {
    let conditions = observed.status.map(|status| status.conditions.as_slice()).unwrap_or_default();
    deadline(observed.object, what, conditions).is_some_and(|deadline| now >= deadline)
}

/// The network is late.
pub fn vpc_late(observed: &ControlPlaneObservation<'_>, now: Timestamp) -> bool {
    late(observed, Wait::Vpc, now)
}

/// The control plane is late.
pub fn create_late(observed: &ControlPlaneObservation<'_>, now: Timestamp) -> bool {
    late(observed, Wait::Create, now)
}

/// A change of the control plane is late.
pub fn update_late(observed: &ControlPlaneObservation<'_>, now: Timestamp) -> bool {
    late(observed, Wait::Update, now)
}

/// The Secrets are late.
pub fn secrets_late(observed: &ControlPlaneObservation<'_>, now: Timestamp) -> bool {
    late(observed, Wait::Secrets, now)
}

/// Returns the time at which the awaited thing will be late: somebody must look then.
pub fn wake(
    object: &CAPTControlPlane,
    state: &ControlPlaneState,
    conditions: &[Condition],
) -> Option<Timestamp> {
    let what = match state {
        ControlPlaneState::WaitingForVpc(_) => Wait::Vpc,
        ControlPlaneState::Creating(_) => Wait::Create,
        ControlPlaneState::Updating(_) => Wait::Update,
        ControlPlaneState::WaitingForSecrets(_) | ControlPlaneState::Ready(Some(_)) => Wait::Secrets,
        _ => return None,
    };
    deadline(object, what, conditions)
}

/// In words.
pub fn minutes(object: &CAPTControlPlane, state: &ControlPlaneState) -> String {
    let limits = &object.spec.control_plane_config.timeouts;
    let minutes = match state {
        ControlPlaneState::VpcTimeout(_) => limits.vpc_ready_timeout,
        ControlPlaneState::SecretTimeout(_) => limits.secret_timeout,
        _ => limits.control_plane_timeout,
    };
    if minutes == 1 { "a minute".to_owned() } else { format!("{minutes} minutes") }
}
