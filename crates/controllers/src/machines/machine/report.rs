//! Status and events of a machine.

use capt_api::cluster::InfrastructureInitialization;
use capt_api::conditions::{reasons, types};
use capt_api::machine::{CaptMachineStatus, MachineAddress, MachineAddressKind, MachinePhase};
use capt_planner::Why;
use capt_planner::machine::{MachineState, found};
use capt_planner::owned_workspace::{WorkspaceFailure, WorkspaceStanding};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::super::context::MachineContext;
use super::observe::FoundMachine;
use crate::owned_workspace::OwnerChanges;
use crate::runtime::conditions::{Conditions, find, seconds};
use crate::runtime::events::Note;
use crate::runtime::{Error, Refused};

/// Writes the status, if it says something new, and an event for what is news.
pub async fn report(
    context: &MachineContext,
    observed: &FoundMachine,
    state: &MachineState,
    acted: &OwnerChanges,
    now: Timestamp,
) -> Result<(), Error> {
    if acted.released || *state == MachineState::External {
        return Ok(());
    }
    let mut new = status(observed, state, now);
    if let Some(generation) = acted.generation {
        new.observed_generation = Some(generation);
        for condition in &mut new.conditions {
            condition.observed_generation = Some(generation);
        }
    }
    let note = news(observed.status.as_ref(), &new);
    let (client, object) = (context.writer.client(), observed.object.as_ref());
    context.machine_status.write(client, object, observed.status.as_ref(), new).await?;
    if let Some(note) = note {
        context.events.publish(object, &note);
    }
    Ok(())
}

/// The whole status.
pub fn status(observed: &FoundMachine, state: &MachineState, now: Timestamp) -> CaptMachineStatus {
    let old = observed.status.clone().unwrap_or_default();
    let mut new = CaptMachineStatus {
        observed_generation: observed.object.metadata.generation,
        conditions: Vec::new(),
        failure_reason: None,
        failure_message: None,
        ..old.clone()
    };
    let mut conditions = Conditions::new(&old.conditions, observed.object.metadata.generation, now);
    conditions.clear(types::STALLED);
    conditions.clear(types::PAUSED);
    match state {
        MachineState::External => {}
        MachineState::Paused(by) => {
            new.failure_reason.clone_from(&old.failure_reason);
            new.failure_message.clone_from(&old.failure_message);
            conditions.set(types::READY, old.ready, reasons::PAUSED, by.clone());
            conditions.set(types::PAUSED, true, reasons::PAUSED, by.clone());
        }
        MachineState::Waiting(Why { reason, message }) => {
            new.ready = false;
            new.phase = Some(MachinePhase::Pending);
            conditions.set(types::READY, false, reason, message.clone());
        }
        MachineState::Draining(message) => {
            new.ready = false;
            new.phase = Some(MachinePhase::Deleting);
            conditions.set(types::READY, false, reasons::DELETING, message.clone());
            conditions.set(types::DELETING, true, reasons::DRAINING, message.clone());
            conditions.set(types::DRAINED, false, reasons::DRAINING, message.clone());
        }
        MachineState::Workspace(standing) => {
            of_workspace(observed, standing, &old, &mut new, &mut conditions);
        }
        MachineState::Deleting(message, end) => {
            if let Some(end) = end {
                conditions.set(types::DRAINED, end.well, end.reason, end.message.clone());
            }
            new.ready = false;
            new.phase = Some(MachinePhase::Deleting);
            conditions.set(types::READY, false, reasons::DELETING, message.clone());
            conditions.set(types::DELETING, true, reasons::DELETING, message.clone());
        }
    }
    if let Some(node) = observed.node.as_ref().and_then(|(_, node)| found(&node.drain)) {
        new.node_ref = Some(node.clone());
    }
    if new.ready != old.ready || new.last_transition_time.is_none() {
        new.last_transition_time = Some(Time(seconds(now)));
    }
    new.conditions = conditions.into_list();
    new
}

fn of_workspace(
    observed: &FoundMachine,
    standing: &WorkspaceStanding,
    old: &CaptMachineStatus,
    new: &mut CaptMachineStatus,
    conditions: &mut Conditions,
) {
    let name = &observed.wanted.name;
    if standing.built {
        outputs(observed, standing, new);
        new.ready = true;
        new.phase = Some(MachinePhase::Running);
        new.initialization = Some(InfrastructureInitialization { provisioned: Some(true) });
        match observed.waits.as_ref().filter(|why| why.reason == Refused::REASON) {
            // Its group was granted, and is not any more: no change of that reaches it.
            Some(Why { reason, message }) => {
                conditions.set(types::READY, true, reason, format!("workspace {name} is applied; {message}"));
            }
            None => {
                conditions.set(types::READY, true, reasons::READY, format!("workspace {name} is applied"));
            }
        }
        return;
    }
    // What runs goes on running while a change is on its way to it, and also where that fails.
    if old.ready && standing.stands && !standing.deleting {
        let what = match &standing.failure {
            Some(failure) => &failure.message,
            None if standing.under_way() => "a change is on its way",
            None => &standing.message,
        };
        let message = format!("it was applied before; workspace {name}: {what}");
        let reason = standing.failure.as_ref().map_or(reasons::UPDATING, |failure| &failure.reason);
        conditions.set(types::READY, true, reason, message.clone());
        if standing.failure.as_ref().is_some_and(|failure| failure.stalled) {
            conditions.set(types::STALLED, true, reason, message);
        }
        return;
    }
    new.ready = false;
    if let Some(WorkspaceFailure { reason, message: failure, stalled }) = &standing.failure {
        new.phase = Some(MachinePhase::Failed);
        new.failure_reason = Some(reason.clone());
        new.failure_message = Some(failure.clone());
        // Without the time of the next try, which moves.
        conditions.set(types::READY, false, reason, format!("workspace {name}: {failure}"));
        if *stalled {
            conditions.set(types::STALLED, true, reason, failure.clone());
        }
        return;
    }
    new.phase = Some(MachinePhase::Provisioning);
    if standing.under_way() {
        conditions.set(types::READY, false, reasons::CREATING, format!("workspace {name} builds it"));
    } else {
        let message = format!("workspace {name}: {}", standing.message);
        conditions.set(types::READY, false, &standing.reason, message);
    }
}

/// Outputs of the module.
fn outputs(observed: &FoundMachine, standing: &WorkspaceStanding, new: &mut CaptMachineStatus) {
    use MachineAddressKind::{ExternalDNS, ExternalIP, Hostname, InternalDNS, InternalIP};
    new.instance_id = standing.text("instance_id");
    new.private_ip = standing.text("private_ip");
    let known = [
        (InternalIP, "private_ip"),
        (ExternalIP, "public_ip"),
        (InternalDNS, "private_dns"),
        (ExternalDNS, "public_dns"),
        (Hostname, "hostname"),
    ];
    let address = |(kind, output)| standing.text(output).map(|address| MachineAddress { kind, address });
    new.addresses = known.into_iter().filter_map(address).collect();
    new.failure_domain = standing.text("failure_domain").or_else(|| observed.failure_domain.clone());
    new.node_group.clone_from(&observed.group_name);
}

/// An event for what changed since the last report.
fn news(old: Option<&CaptMachineStatus>, new: &CaptMachineStatus) -> Option<Note> {
    if new.phase == Some(MachinePhase::Deleting) {
        return of_node(old, new);
    }
    let ready = find(&new.conditions, types::READY)?;
    let before = old.and_then(|old| find(&old.conditions, types::READY));
    if before.is_some_and(|before| before.status == ready.status && before.reason == ready.reason) {
        return None;
    }
    match new.phase? {
        MachinePhase::Running if ready.reason == reasons::READY => {
            let id = new.instance_id.as_deref().map_or_else(String::new, |id| format!(": {id}"));
            Some(Note::normal("Provisioned", "Create", format!("its workspace is applied{id}")))
        }
        MachinePhase::Failed => Some(Note::warning("Failed", "Create", ready.message.clone())),
        MachinePhase::Pending => Some(Note::normal("Waiting", "Wait", ready.message.clone())),
        MachinePhase::Running | MachinePhase::Provisioning | MachinePhase::Deleting => None,
    }
}

/// An event about the drain of the machine's Node.
fn of_node(old: Option<&CaptMachineStatus>, new: &CaptMachineStatus) -> Option<Note> {
    let drained = find(&new.conditions, types::DRAINED)?;
    let before = old.and_then(|old| find(&old.conditions, types::DRAINED));
    let message = drained.message.clone();
    // That a Node is looked for is no news; that one was found is.
    if drained.reason == reasons::DRAINING {
        let found = new.node_ref.is_some() && old.is_none_or(|old| old.node_ref.is_none());
        return found.then(|| Note::normal(reasons::DRAINING, "Drain", message));
    }
    if before.is_some_and(|before| before.reason == drained.reason) {
        return None;
    }
    match drained.reason.as_str() {
        reasons::DRAINED => Some(Note::normal(reasons::DRAINED, "Drain", message)),
        reasons::DRAIN_TIMEOUT => Some(Note::warning(reasons::DRAIN_TIMEOUT, "Drain", message)),
        _ => Some(Note::warning(reasons::NOT_DRAINED, "Drain", message)),
    }
}
