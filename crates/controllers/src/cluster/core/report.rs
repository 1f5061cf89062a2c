//! Status and events of a Cluster.

use std::time::Duration;

use capt_api::cluster::core::{
    ClusterDeprecated, ClusterInitialization, ClusterPhase, ClusterStatus, ClusterV1beta1,
};
use capt_api::conditions::{reasons, types};
use capt_planner::Why;
use capt_planner::cluster::core::{
    Belongs, ClusterDecision, ClusterObservation, ClusterPart, ClusterState, PresentPart, ReportedCondition,
    Workers, endpoint_after, title,
};
use capt_planner::reason::few;
use jiff::Timestamp;
use kube::ResourceExt;

use super::ClusterContext;
use crate::owned_workspace::OwnerChanges;
use crate::runtime::Error;
use crate::runtime::conditions::{Conditions, Truth};
use crate::runtime::events::Note;
use crate::runtime::status::without_messages;

/// Longest message of a failure that upstream's schema takes.
const LONGEST_FAILURE: usize = 10_000;

/// Writes the status, if it says something new, and an event for what is news.
pub async fn report(
    context: &ClusterContext,
    observed: &ClusterObservation,
    decision: &ClusterDecision,
    acted: &OwnerChanges,
    now: Timestamp,
) -> Result<Option<Duration>, Error> {
    if acted.released || decision.state == ClusterState::Gone {
        return Ok(None);
    }
    let mut new = status(observed, decision, now);
    if let Some(generation) = acted.generation {
        new.observed_generation = Some(generation);
        for condition in &mut new.conditions {
            condition.observed_generation = Some(generation);
        }
    }
    let note = news(observed, &new);
    let (client, object) = (context.writer.client(), observed.object.as_ref());
    let held = context.status.write(client, object, observed.status.as_ref(), new).await?;
    if let Some(note) = note.filter(|_| held.is_none()) {
        context.events.publish(object, &note);
    }
    Ok(held)
}

/// A status without its details: what the objects of a Cluster say of themselves, and how many there are.
pub fn gist(status: &mut ClusterStatus) {
    without_messages(&mut status.conditions);
    for condition in &mut status.conditions {
        condition.reason.clear();
    }
    (status.workers, status.deprecated) = (None, None);
}

/// The whole status.
pub fn status(observed: &ClusterObservation, decision: &ClusterDecision, now: Timestamp) -> ClusterStatus {
    let old = observed.status.clone().unwrap_or_default();
    let generation = observed.object.metadata.generation;
    let mut conditions = Conditions::new(&old.conditions, generation, now);
    if let ClusterState::Paused(by) = &decision.state {
        conditions.set(types::PAUSED, true, reasons::PAUSED, by.clone());
        let conditions = conditions.into_list();
        return ClusterStatus { observed_generation: generation, conditions, ..old };
    }
    conditions.set(types::PAUSED, false, reasons::NOT_PAUSED, "");
    let before = old.initialization.unwrap_or_default();
    let (infrastructure, control_plane) = (&observed.infrastructure, &observed.control_plane);
    let provisioned = before.infrastructure_provisioned == Some(true)
        || begun(infrastructure)
        || *infrastructure == ClusterPart::None && !observed.deleting;
    let initialized = before.control_plane_initialized == Some(true) || begun(control_plane);
    let failure = failure(observed);
    let mut new = ClusterStatus {
        observed_generation: generation,
        phase: None,
        initialization: (provisioned || initialized).then(|| ClusterInitialization {
            infrastructure_provisioned: provisioned.then_some(true),
            control_plane_initialized: initialized.then_some(true),
        }),
        failure_domains: match infrastructure.there() {
            Some(there) if there.begun => there.failure_domains.clone(),
            _ => old.failure_domains,
        },
        workers: Some(observed.workers.counts).filter(|counts| counts.desired_replicas.is_some()),
        infrastructure_ready: provisioned,
        control_plane_ready: control_plane.there().is_some_and(|there| there.ready),
        deprecated: failure.as_ref().map(|(reason, message)| ClusterDeprecated {
            v1beta1: Some(ClusterV1beta1 {
                failure_reason: Some(reason.clone()),
                failure_message: Some(message.clone()),
            }),
        }),
        failure_reason: failure.as_ref().map(|(reason, _)| reason.clone()),
        failure_message: failure.map(|(_, message)| message),
        conditions: Vec::new(),
    };
    new.phase = Some(phase(observed, decision, &new));
    conditions_of_infrastructure(observed, provisioned, &mut conditions);
    conditions_of_control_plane(observed, initialized, &mut conditions);
    let said = workers(&observed.workers);
    conditions.set(types::WORKERS_AVAILABLE, said.truth, &said.reason, said.message);
    match &decision.state {
        ClusterState::Deleting(Why { reason, message }) => {
            conditions.set(types::DELETING, true, reason, message.clone());
        }
        _ => conditions.set(types::DELETING, false, reasons::NOT_DELETING, ""),
    }
    available(observed, &mut conditions);
    new.conditions = conditions.into_list();
    new
}

fn begun(part: &ClusterPart) -> bool {
    part.there().is_some_and(|there| there.begun && !matches!(there.belongs, Belongs::Elsewhere(_)))
}

/// The failure of a part, the infrastructure's first.
fn failure(observed: &ClusterObservation) -> Option<(String, String)> {
    let parts = [&observed.infrastructure, &observed.control_plane];
    let (reason, mut message) =
        parts.into_iter().filter_map(ClusterPart::there).find_map(|there| there.failure.clone())?;
    if message.len() > LONGEST_FAILURE {
        let end = (0..=LONGEST_FAILURE).rev().find(|end| message.is_char_boundary(*end)).unwrap_or(0);
        message.truncate(end);
        message.push('…');
    }
    Some((reason, message))
}

fn phase(observed: &ClusterObservation, decision: &ClusterDecision, new: &ClusterStatus) -> ClusterPhase {
    let spec = &observed.object.spec;
    if observed.deleting {
        ClusterPhase::Deleting
    } else if new.failure_reason.is_some() {
        ClusterPhase::Failed
    } else if new.infrastructure_ready && endpoint_after(observed, &decision.steps).is_some() {
        ClusterPhase::Provisioned
    } else if spec.infrastructure_ref.is_some() || spec.control_plane_ref.is_some() {
        ClusterPhase::Provisioning
    } else {
        ClusterPhase::Pending
    }
}

/// Returns reason and message for a part that is not there, or not the Cluster's.
fn trouble(part: &ClusterPart, was_there: bool, deleting: bool) -> Option<(&'static str, String)> {
    match part {
        ClusterPart::None => None,
        ClusterPart::Wrong(message) => Some((reasons::INVALID_REFERENCE, message.clone())),
        ClusterPart::Absent(reference) => Some(match (was_there, deleting) {
            (true, true) => (reasons::OBJECT_DELETED, format!("{} is gone", title(reference))),
            (true, false) => (
                reasons::OBJECT_DELETED,
                format!("{} is gone, while the Cluster is still there", title(reference)),
            ),
            (false, _) => (reasons::OBJECT_DOES_NOT_EXIST, format!("{} does not exist", title(reference))),
        }),
        ClusterPart::There(there) => match &there.belongs {
            Belongs::Elsewhere(other) => {
                Some((reasons::INVALID_REFERENCE, format!("{} belongs to Cluster {other}", there.title())))
            }
            Belongs::Here | Belongs::Free(_) => None,
        },
    }
}

fn conditions_of_infrastructure(
    observed: &ClusterObservation,
    provisioned: bool,
    conditions: &mut Conditions,
) {
    let part = &observed.infrastructure;
    if let Some((reason, message)) = trouble(part, provisioned, observed.deleting) {
        conditions.set(types::INFRASTRUCTURE_READY, false, reason, message);
    } else if let Some(there) = part.there() {
        let said = mirrored(there, types::READY, (reasons::READY, reasons::NOT_READY), "complete");
        conditions.set(types::INFRASTRUCTURE_READY, said.truth, &said.reason, said.message);
    } else {
        conditions.clear(types::INFRASTRUCTURE_READY);
    }
}

fn conditions_of_control_plane(
    observed: &ClusterObservation,
    initialized: bool,
    conditions: &mut Conditions,
) {
    let part = &observed.control_plane;
    if *part == ClusterPart::None {
        conditions.clear(types::CONTROL_PLANE_AVAILABLE);
        conditions.clear(types::CONTROL_PLANE_INITIALIZED);
        return;
    }
    if let Some((reason, message)) = trouble(part, initialized, observed.deleting) {
        conditions.set(types::CONTROL_PLANE_AVAILABLE, false, reason, message.clone());
        if !initialized {
            conditions.set(types::CONTROL_PLANE_INITIALIZED, Truth::Unknown, reason, message);
        }
        return;
    }
    if let Some(there) = part.there() {
        let words = (reasons::AVAILABLE, reasons::NOT_AVAILABLE);
        let said = mirrored(there, types::AVAILABLE, words, "initialized");
        conditions.set(types::CONTROL_PLANE_AVAILABLE, said.truth, &said.reason, said.message);
        let reason = if initialized { reasons::INITIALIZED } else { reasons::NOT_INITIALIZED };
        let message =
            if initialized { String::new() } else { format!("{} is not initialized yet", there.title()) };
        conditions.set(types::CONTROL_PLANE_INITIALIZED, initialized, reason, message);
    }
}

/// Mirrors a condition of the part; where the part has none, the contract's field decides.
fn mirrored(there: &PresentPart, kind: &str, (yes, no): (&str, &str), word: &str) -> ReportedCondition {
    let fallback = if there.begun { yes } else { no };
    match there.conditions.get(kind) {
        Some(said) if said.reason.is_empty() => {
            let reason = if said.truth == Truth::True { yes } else { no };
            ReportedCondition { reason: reason.to_owned(), ..said.clone() }
        }
        Some(said) => said.clone(),
        None => ReportedCondition {
            truth: there.begun.into(),
            reason: fallback.to_owned(),
            message: if there.begun { String::new() } else { format!("{} is not {word} yet", there.title()) },
        },
    }
}

fn workers(workers: &Workers) -> ReportedCondition {
    if workers.deployments.is_empty() && workers.others.is_empty() {
        return ReportedCondition {
            truth: Truth::True,
            reason: reasons::NO_WORKERS.into(),
            message: String::new(),
        };
    }
    let deployments =
        workers.deployments.iter().map(|(name, said)| (format!("CaptMachineDeployment {name}"), said));
    let others = workers.others.iter().map(|(title, said)| (title.clone(), said));
    // Without their group machines wait: what it lacks comes first.
    let missing = others.chain(deployments).filter_map(|(title, said)| match said {
        Some(said) if said.truth == Truth::True => None,
        Some(said) => Some(format!("{title}: {}", said.message)),
        None => Some(format!("{title} does not say yet")),
    });
    let missing: Vec<String> = missing.collect();
    if missing.is_empty() {
        ReportedCondition { truth: Truth::True, reason: reasons::AVAILABLE.into(), message: String::new() }
    } else {
        let message = few(&missing);
        ReportedCondition { truth: Truth::False, reason: reasons::NOT_AVAILABLE.into(), message }
    }
}

/// Everything together.
fn available(observed: &ClusterObservation, conditions: &mut Conditions) {
    if observed.deleting {
        conditions.set(
            types::AVAILABLE,
            false,
            reasons::NOT_AVAILABLE,
            "Deleting: the Cluster is being deleted",
        );
        return;
    }
    let needed = [types::INFRASTRUCTURE_READY, types::CONTROL_PLANE_AVAILABLE, types::WORKERS_AVAILABLE];
    let missing: Vec<String> = needed
        .iter()
        .filter_map(|kind| conditions.get(kind))
        .filter(|condition| condition.status != "True")
        .map(|condition| format!("{}: {}", condition.type_, condition.message))
        .collect();
    let reason = if missing.is_empty() { reasons::AVAILABLE } else { reasons::NOT_AVAILABLE };
    conditions.set(types::AVAILABLE, missing.is_empty(), reason, missing.join("; "));
}

/// An event for a new phase.
fn news(observed: &ClusterObservation, new: &ClusterStatus) -> Option<Note> {
    let phase = new.phase?;
    if observed.status.as_ref().and_then(|old| old.phase) == Some(phase) {
        return None;
    }
    let name = observed.object.name_any();
    Some(match &new.failure_message {
        Some(message) if phase == ClusterPhase::Failed => {
            Note::warning("Failed", "Reconcile", message.clone())
        }
        _ => Note::normal(phase.as_str(), "Reconcile", format!("Cluster {name} is {}", phase.as_str())),
    })
}

#[cfg(test)]
#[path = "report/tests.rs"]
mod tests;
