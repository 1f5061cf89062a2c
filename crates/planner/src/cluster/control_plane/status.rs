//! Status of a control plane.

use capt_api::cluster::{
    AtProvider, CAPTControlPlaneStatus, ControlPlaneInitialization, ControlPlanePhase, RunningVersion,
    WorkspaceStatus,
};
use capt_api::conditions::{reasons, types};
use jiff::Timestamp;

use super::super::{endpoint, version};
use super::{ControlPlaneObservation, ControlPlaneState, Network, Probe, Why, timing};
use crate::conditions::{Conditions, Truth};

/// The whole status.
pub fn status(
    observed: &ControlPlaneObservation<'_>,
    state: &ControlPlaneState,
    now: Timestamp,
) -> CAPTControlPlaneStatus {
    let old = observed.status.cloned().unwrap_or_default();
    let generation = observed.object.metadata.generation;
    let mut conditions = Conditions::new(&old.conditions, generation, now);
    for kind in [types::STALLED, types::PAUSED, types::DELETING, types::WAITING_FOR_CLUSTER] {
        conditions.clear(kind);
    }
    let mut new = CAPTControlPlaneStatus {
        observed_generation: generation,
        external_managed_control_plane: Some(true),
        conditions: Vec::new(),
        ..old
    };
    if let Some(workspace) = observed.workspace.as_ref().filter(|workspace| workspace.usable()) {
        let summary = workspace.summary.clone();
        let at_provider = AtProvider { outputs: summary.outputs.clone() };
        new.workspace_status = Some(WorkspaceStatus {
            ready: summary.ready,
            state: summary.state.clone(),
            at_provider: Some(at_provider),
        });
        new.workspace_template_status = Some(summary);
    }
    if let Some(endpoint) = observed.object.spec.control_plane_endpoint.as_ref() {
        new.endpoint = Some(endpoint::show(endpoint));
    }
    if !matches!(state, ControlPlaneState::Paused(_) | ControlPlaneState::Deleting(_)) {
        network(observed, state, &mut conditions);
    }
    fill(observed, state, &mut new, &mut conditions);
    probed(observed, state, &mut conditions);
    new.conditions = conditions.into_list();
    new
}

/// Beginning of a message about a control plane that was built before.
const STOOD: &str = "it was applied before";

/// RemoteConnectionProbe: what was seen when it was asked, and nothing else. Until somebody has asked again, what was seen before.
fn probed(observed: &ControlPlaneObservation<'_>, state: &ControlPlaneState, conditions: &mut Conditions) {
    let kind = types::REMOTE_CONNECTION_PROBE;
    match state {
        ControlPlaneState::Paused(_) => {}
        ControlPlaneState::Ready(_)
        | ControlPlaneState::Updating(_)
        | ControlPlaneState::UpdateTimeout(_)
        | ControlPlaneState::UpdateFailed { .. } => match &observed.probe {
            None if conditions.get(kind).is_some() => {}
            None => conditions.set(kind, Truth::Unknown, reasons::NOT_PROBED, "it was not asked yet"),
            Some(Probe::Ready) => {
                conditions.set(kind, true, reasons::PROBE_SUCCEEDED, "GET /readyz answered 200");
            }
            Some(Probe::Failed(why)) => conditions.set(kind, false, reasons::PROBE_FAILED, why.clone()),
            Some(Probe::Unknown(why)) => {
                conditions.set(kind, Truth::Unknown, &why.reason, why.message.clone());
            }
        },
        _ => conditions.clear(kind),
    }
}

/// VPCReady, where there is a network.
fn network(observed: &ControlPlaneObservation<'_>, state: &ControlPlaneState, conditions: &mut Conditions) {
    match (&observed.network, state) {
        (_, ControlPlaneState::WaitingForCluster(_)) | (Network::None, _) => {
            conditions.clear(types::VPC_READY);
        }
        (Network::Ready(_), _) => {
            conditions.set(types::VPC_READY, true, reasons::READY, "the network is ready");
        }
        (Network::Awaited(what), ControlPlaneState::VpcTimeout(_)) => {
            conditions.set(types::VPC_READY, false, reasons::VPC_READY_TIMEOUT, what.clone());
        }
        (Network::Awaited(what), _) => {
            conditions.set(types::VPC_READY, false, reasons::WAITING_FOR_VPC, what.clone());
        }
    }
}

/// Ready, Available, Creating, Failed.
fn four(conditions: &mut Conditions, holds: [bool; 4], reason: &str, message: &str) {
    let kinds = [types::READY, types::AVAILABLE, types::CREATING, types::FAILED];
    for (kind, holds) in kinds.into_iter().zip(holds) {
        conditions.set(kind, holds, reason, message);
    }
}

fn fill(
    observed: &ControlPlaneObservation<'_>,
    state: &ControlPlaneState,
    new: &mut CAPTControlPlaneStatus,
    conditions: &mut Conditions,
) {
    let late = || timing::minutes(observed.object, state);
    if !matches!(
        state,
        ControlPlaneState::Updating(_) | ControlPlaneState::UpdateTimeout(_) | ControlPlaneState::Paused(_)
    ) {
        conditions.clear(types::ROLLING_OUT);
    }
    match state {
        ControlPlaneState::External | ControlPlaneState::Gone => {}
        ControlPlaneState::Paused(by) => paused(by, new, conditions),
        ControlPlaneState::WaitingForCluster(why) => {
            waiting(new, conditions, why, false);
            conditions.set(types::WAITING_FOR_CLUSTER, true, &why.reason, why.message.clone());
        }
        ControlPlaneState::Invalid(problem) => {
            let ready = new.ready;
            failed(new, conditions, &Why::new(reasons::INVALID, problem), ready, true);
        }
        ControlPlaneState::WaitingForVpc(what) => {
            waiting(new, conditions, &Why::new(reasons::WAITING_FOR_VPC, what), false);
        }
        ControlPlaneState::VpcTimeout(what) => {
            let message = format!("waited {} for the network: {what}", late());
            failed(new, conditions, &Why::new(reasons::VPC_READY_TIMEOUT, message), false, false);
        }
        ControlPlaneState::Creating(why) => waiting(new, conditions, why, true),
        ControlPlaneState::CreateTimeout(what) => {
            let message = format!("not ready after {}: {what}", late());
            // It goes on; and since when, the condition Creating tells.
            fail(new, conditions, &Why::new(reasons::CONTROL_PLANE_TIMEOUT, message), [false, true]);
        }
        ControlPlaneState::Failed { why, stalled } => failed(new, conditions, why, false, *stalled),
        ControlPlaneState::WaitingForSecrets(why) => {
            waiting(new, conditions, why, false);
            secrets(new, conditions, Some(why));
        }
        ControlPlaneState::SecretTimeout(why) => {
            let message = format!("waited {} for its Secrets: {}", late(), why.message);
            failed(new, conditions, &Why::new(reasons::SECRET_TIMEOUT, message), false, false);
            secrets(new, conditions, Some(why));
        }
        ControlPlaneState::Ready(trouble) => ready(observed, trouble.as_ref(), new, conditions),
        ControlPlaneState::Updating(why) => {
            new.phase = Some(ControlPlanePhase::Updating);
            clear_failure(new);
            let message = format!("{STOOD}; {}", why.message);
            four(conditions, [true, true, false, false], &why.reason, &message);
            conditions.set(types::ROLLING_OUT, true, reasons::UPDATING, why.message.clone());
        }
        ControlPlaneState::UpdateTimeout(what) => {
            let message = format!("not changed after {}: {what}", late());
            fail(new, conditions, &Why::new(reasons::CONTROL_PLANE_TIMEOUT, message), [true, false]);
            // It goes on; and since when, this tells.
            conditions.set(types::ROLLING_OUT, true, reasons::UPDATING, what.clone());
        }
        ControlPlaneState::UpdateFailed { why, stalled } => failed(new, conditions, why, true, *stalled),
        ControlPlaneState::Deleting(why) => {
            new.ready = false;
            new.phase = Some(ControlPlanePhase::Deleting);
            clear_failure(new);
            conditions.set(types::READY, false, reasons::DELETING, why.message.clone());
            conditions.set(types::DELETING, true, &why.reason, why.message.clone());
        }
    }
    initialized(new, conditions);
}

fn clear_failure(new: &mut CAPTControlPlaneStatus) {
    new.failure_reason = None;
    new.failure_message = None;
}

/// Everything stays as it was, but the clocks of what is waited for start anew afterwards.
fn paused(by: &str, new: &mut CAPTControlPlaneStatus, conditions: &mut Conditions) {
    conditions.set(types::READY, new.ready, reasons::PAUSED, by);
    conditions.set(types::PAUSED, true, reasons::PAUSED, by);
    let clocks = [
        (types::VPC_READY, "False"),
        (types::CREATING, "True"),
        (types::ROLLING_OUT, "True"),
        (types::SECRETS_READY, "False"),
    ];
    for (kind, meanwhile) in clocks {
        if conditions.get(kind).is_some_and(|known| known.status == meanwhile) {
            conditions.set(kind, Truth::Unknown, reasons::PAUSED, by);
        }
    }
}

fn waiting(new: &mut CAPTControlPlaneStatus, conditions: &mut Conditions, why: &Why, creating: bool) {
    new.ready = false;
    new.phase = Some(ControlPlanePhase::Creating);
    clear_failure(new);
    four(conditions, [false, false, creating, false], &why.reason, &why.message);
}

/// `stood`: what was built before stays, though a change of it failed.
fn failed(
    new: &mut CAPTControlPlaneStatus,
    conditions: &mut Conditions,
    why: &Why,
    stood: bool,
    stalled: bool,
) {
    fail(new, conditions, why, [stood, false]);
    if stalled {
        conditions.set(types::STALLED, true, &why.reason, why.message.clone());
    }
}

fn fail(
    new: &mut CAPTControlPlaneStatus,
    conditions: &mut Conditions,
    why: &Why,
    [stood, creating]: [bool; 2],
) {
    new.ready = stood;
    new.phase = Some(ControlPlanePhase::Failed);
    new.failure_reason = Some(why.reason.clone());
    new.failure_message = Some(why.message.clone());
    let message = if stood { format!("{STOOD}; {}", why.message) } else { why.message.clone() };
    four(conditions, [stood, stood, creating, true], &why.reason, &message);
}

fn ready(
    observed: &ControlPlaneObservation<'_>,
    trouble: Option<&Why>,
    new: &mut CAPTControlPlaneStatus,
    conditions: &mut Conditions,
) {
    new.ready = true;
    new.initialized = true;
    new.initialization = Some(ControlPlaneInitialization { control_plane_initialized: Some(true) });
    new.phase = Some(ControlPlanePhase::Ready);
    clear_failure(new);
    let returned =
        observed.workspace.as_ref().and_then(|workspace| workspace.standing.text("cluster_version"));
    let version = version::running(&observed.object.spec.version, returned.as_deref());
    new.versions = vec![RunningVersion { version: version.clone(), replicas: None }];
    new.version = Some(version);
    let (reason, message) = match trouble {
        None => (reasons::READY, "its workspace is applied, and its Secrets are there".to_owned()),
        Some(why) => (why.reason.as_str(), format!("its workspace is applied; its Secrets: {}", why.message)),
    };
    four(conditions, [true, true, false, false], reason, &message);
    secrets(new, conditions, trouble);
    // What is there is still good, though no newer one could be made.
    let old =
        observed.access.as_ref().and_then(|access| access.problem.as_ref()).filter(|_| trouble.is_none());
    if let Some(problem) = old {
        conditions.set(types::SECRETS_READY, true, &problem.reason, problem.message.clone());
    }
}

fn secrets(new: &mut CAPTControlPlaneStatus, conditions: &mut Conditions, trouble: Option<&Why>) {
    new.secrets_ready = trouble.is_none();
    match trouble {
        None => conditions.set(types::SECRETS_READY, true, reasons::READY, "CA and kubeconfig are there"),
        Some(why) => conditions.set(types::SECRETS_READY, false, &why.reason, why.message.clone()),
    }
}

/// Initialized follows the field, which never turns back.
fn initialized(new: &CAPTControlPlaneStatus, conditions: &mut Conditions) {
    if new.initialized {
        conditions.set(types::INITIALIZED, true, reasons::READY, "it was applied once, with its Secrets");
    } else {
        conditions.set(
            types::INITIALIZED,
            false,
            reasons::CREATING,
            "it was not applied yet, or its Secrets are missing",
        );
    }
}
