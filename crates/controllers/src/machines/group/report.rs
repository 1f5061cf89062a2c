//! Status and events of a group.

use std::time::Duration;

use capt_api::conditions::{reasons, types};
use capt_api::machine::NodeGroupStatus;
use capt_planner::node_group::NodeGroupState;
use jiff::Timestamp;

use super::super::context::MachineContext;
use super::FoundNodeGroup;
use crate::runtime::Error;
use crate::runtime::conditions::{Conditions, find};
use crate::runtime::events::Note;
use crate::runtime::status::without_messages;

/// Writes the status, if it says something new, and an event for what is news.
pub async fn report(
    context: &MachineContext,
    found: &FoundNodeGroup,
    state: &NodeGroupState,
    now: Timestamp,
) -> Result<Option<Duration>, Error> {
    if *state == NodeGroupState::Gone {
        return Ok(None);
    }
    let new = status(found, state, now);
    let note = news(found.status.as_ref(), &new);
    let (client, object) = (context.writer.client(), found.object.as_ref());
    let held = context.group_status.write(client, object, found.status.as_ref(), new).await?;
    if let Some(note) = note.filter(|_| held.is_none()) {
        context.events.publish(object, &note);
    }
    Ok(held)
}

/// A status without its details: members mostly come together.
pub fn gist(status: &mut NodeGroupStatus) {
    without_messages(&mut status.conditions);
    status.members = 0;
    status.ready_members = 0;
}

/// The whole status.
pub fn status(found: &FoundNodeGroup, state: &NodeGroupState, now: Timestamp) -> NodeGroupStatus {
    let old = found.status.clone().unwrap_or_default();
    let generation = found.object.metadata.generation;
    let mut new = NodeGroupStatus {
        observed_generation: generation,
        members: i32::try_from(found.members).unwrap_or(i32::MAX),
        ready_members: i32::try_from(found.ready_members).unwrap_or(i32::MAX),
        failure_reason: None,
        failure_message: None,
        conditions: Vec::new(),
        ..old.clone()
    };
    let mut conditions = Conditions::new(&old.conditions, generation, now);
    conditions.clear(types::STALLED);
    conditions.clear(types::PAUSED);
    match state {
        NodeGroupState::Gone => {}
        NodeGroupState::Paused(by) => {
            conditions.set(types::READY, old.ready, reasons::PAUSED, by.clone());
            conditions.set(types::PAUSED, true, reasons::PAUSED, by.clone());
        }
        NodeGroupState::Exists => {
            new.ready = true;
            conditions.set(
                types::READY,
                true,
                reasons::READY,
                "taken as existing: nothing is built, and nobody looks",
            );
        }
        NodeGroupState::Blocked(message) => {
            new.ready = false;
            conditions.set(types::READY, false, reasons::NAME_TAKEN, message.clone());
        }
        NodeGroupState::Workspace(standing) if standing.built => {
            new.ready = true;
            new.outputs.clone_from(&standing.outputs);
            conditions.set(types::READY, true, reasons::READY, "its workspace is applied");
        }
        NodeGroupState::Workspace(standing) => {
            // A group that was built stays usable while a change is on its way to it.
            new.ready = old.ready && standing.stands && !standing.deleting;
            let (reason, message) = match &standing.failure {
                Some(failure) => (failure.reason.as_str(), failure.message.clone()),
                None if standing.under_way() && new.ready => {
                    (reasons::UPDATING, "a change is on its way".to_owned())
                }
                None if standing.under_way() => {
                    (reasons::CREATING, "its workspace is being built".to_owned())
                }
                None => (standing.reason.as_str(), standing.message.clone()),
            };
            if let Some(failure) = standing.failure.clone().filter(|_| !new.ready) {
                new.failure_reason = Some(failure.reason);
                new.failure_message = Some(failure.message);
            }
            if standing.failure.as_ref().is_some_and(|failure| failure.stalled) {
                conditions.set(types::STALLED, true, reason, message.clone());
            }
            conditions.set(types::READY, new.ready, reason, message);
        }
        NodeGroupState::Deleting(why) => {
            new.ready = false;
            conditions.set(types::READY, false, reasons::DELETING, why.message.clone());
            conditions.set(types::DELETING, true, &why.reason, why.message.clone());
        }
    }
    new.conditions = conditions.into_list();
    new
}

/// An event for what changed since the last report.
fn news(old: Option<&NodeGroupStatus>, new: &NodeGroupStatus) -> Option<Note> {
    let (kind, warning) = if find(&new.conditions, types::DELETING).is_some() {
        (types::DELETING, false)
    } else {
        (types::READY, new.failure_reason.is_some())
    };
    let said = find(&new.conditions, kind)?;
    let before = old.and_then(|old| find(&old.conditions, kind));
    if before.is_some_and(|before| before.status == said.status && before.reason == said.reason) {
        return None;
    }
    match (kind, said.reason.as_str()) {
        (types::DELETING, reasons::IN_USE) => {
            Some(Note::warning(reasons::IN_USE, "Delete", said.message.clone()))
        }
        (types::READY, reasons::READY) => Some(Note::normal(reasons::READY, "Create", said.message.clone())),
        (types::READY, _) if warning => Some(Note::warning("Failed", "Create", said.message.clone())),
        _ => None,
    }
}
