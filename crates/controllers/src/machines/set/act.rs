//! Carries out a set's plan.

use std::collections::HashMap;
use std::time::Duration;

use capt_api::conditions::{reasons, types};
use capt_api::machine::{CaptMachine, CaptMachineSet};
use capt_api::names::finalizers;
use capt_planner::reason::few;
use capt_planner::set::{SetAction, SetPlan, batches, in_place_update, machine};
use futures::future::join_all;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::Resource;
use serde_json::{Value, json};

use super::super::context::MachineContext;
use super::Family;
use crate::runtime::conditions::find;
use crate::runtime::events::Note;
use crate::runtime::owners::controller_uid;
use crate::runtime::status::version;
use crate::runtime::{Error, Name};

/// Deletes that are under way together.
const AT_ONCE: usize = 32;

/// Does what was planned, in order, up to the first failure. Says when to look again though nothing may change.
pub async fn act(
    context: &MachineContext,
    family: &Family,
    plan: &SetPlan,
) -> Result<Option<Duration>, Error> {
    let set = &family.set;
    let name = Name::of(set);
    if plan.fence || plan.status.is_some() {
        let status = plan.status.as_ref().or(set.status.as_ref());
        let version = context.writer.status(set, &status).await?;
        context.own_sets.wrote(&name, name.clone(), version);
        warn(context, set, status.map(|status| status.conditions.as_slice()).unwrap_or_default());
    }
    let mut done: Vec<&SetAction> = Vec::new();
    let outcome = carry_out(context, family, &plan.actions, &mut done).await;
    tell(context, set, &done);
    if let Err(error) = &outcome
        && matches!(error.code(), Some(400 | 403 | 422))
    {
        let note = Note::warning("FailedCreate", "Create", crate::runtime::queue::chain(error));
        context.events.publish(set, &note);
    }
    let again = outcome?;
    Ok(again.then(|| Duration::from_millis(10)))
}

/// Tells of machines that others select, too, when that is news.
fn warn(context: &MachineContext, set: &CaptMachineSet, conditions: &[Condition]) {
    let old = set.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    if let Some(overlap) = find(conditions, types::SELECTOR_OVERLAPS)
        && find(old, types::SELECTOR_OVERLAPS).is_none()
    {
        let note = Note::warning(reasons::SELECTOR_OVERLAPS, "Select", overlap.message.clone());
        context.events.publish(set, &note);
    }
}

async fn carry_out<'a>(
    context: &MachineContext,
    family: &Family,
    actions: &'a [SetAction],
    done: &mut Vec<&'a SetAction>,
) -> Result<bool, Error> {
    let mut again = false;
    let mut rest = actions;
    let members = Members::of(family, actions);
    while let Some(first) = rest.first() {
        let creates = rest.iter().take_while(|action| matches!(action, SetAction::Create { .. })).count();
        if creates > 0 {
            let (now, later) = rest.split_at(creates);
            for batch in batches(now) {
                let made = join_all(batch.iter().map(|action| create(context, &family.set, action))).await;
                for (action, made) in batch.iter().zip(made) {
                    again |= made?;
                    done.push(action);
                }
            }
            rest = later;
            continue;
        }
        let deletes = rest.iter().take_while(|action| matches!(action, SetAction::Delete { .. })).count();
        if deletes > 0 {
            let (now, later) = rest.split_at(deletes.min(AT_ONCE));
            let gone = join_all(now.iter().map(|action| one(context, family, &members, action))).await;
            for (action, gone) in now.iter().zip(gone) {
                again |= gone?;
                done.push(action);
            }
            rest = later;
            continue;
        }
        again |= one(context, family, &members, first).await?;
        done.push(first);
        rest = &rest[1..];
    }
    Ok(again)
}

/// Makes a machine. That it exists is a success; says whether its number turned out to be of no use.
async fn create(context: &MachineContext, set: &CaptMachineSet, action: &SetAction) -> Result<bool, Error> {
    let SetAction::Create { name, number, .. } = action else { return Ok(false) };
    let parent = Name::of(set);
    let child = Name::new(parent.namespace.clone(), name);
    let made = context.writer.apply::<CaptMachine>(&child, &whole(&machine(set, *number)), false).await;
    let error = match made {
        Ok(made) if controller_uid(&made) == set.metadata.uid.as_deref() => {
            context.machine_writes.wrote(&parent, child, version(&made));
            return Ok(false);
        }
        Ok(_) => return settle(context, &parent, &child, set, *number).await,
        Err(error) => error,
    };
    // Refused: by the rules, or since the name belongs to another. Otherwise nobody knows: the name stays given out, and
    // the same create comes again.
    let refused = matches!(error.code(), Some(400..=499));
    if refused && !settle(context, &parent, &child, set, *number).await? { Ok(false) } else { Err(error) }
}

/// Looks whether a name has become a machine of the set; where not, it never will.
async fn settle(
    context: &MachineContext,
    parent: &Name,
    child: &Name,
    set: &CaptMachineSet,
    number: i64,
) -> Result<bool, Error> {
    match context.writer.read::<CaptMachine>(child).await? {
        Some(found) if controller_uid(&found) == set.metadata.uid.as_deref() => {
            context.machine_writes.wrote(parent, child.clone(), version(&found));
            Ok(false)
        }
        _ => {
            context.absent.note(parent, number);
            Ok(true)
        }
    }
}

async fn one(
    context: &MachineContext,
    family: &Family,
    members: &Members<'_>,
    action: &SetAction,
) -> Result<bool, Error> {
    let set = &family.set;
    let parent = Name::of(set);
    let named = |name: &String| Name::new(parent.namespace.clone(), name);
    match action {
        SetAction::Create { .. } => create(context, set, action).await,
        SetAction::Delete { name, uid, .. } => {
            let Some(machine) = members.get(name) else { return Ok(true) };
            let child = named(name);
            // A machine that was chosen because it was not ready may be by now, and then another one should go.
            let deleted = context.writer.delete_seen(machine).await;
            match &deleted {
                Ok(outcome) => context.machine_writes.deleted(&parent, child, uid, *outcome),
                Err(_) => context.machine_writes.unknown(&parent, child),
            }
            deleted.map(|_| false)
        }
        SetAction::Adopt { name, .. } | SetAction::Release { name, .. } => {
            let Some(machine) = members.get(name) else { return Ok(true) };
            let mut owners = machine.metadata.owner_references.clone().unwrap_or_default();
            if matches!(action, SetAction::Adopt { .. }) {
                owners.extend(crate::owned_workspace::owner(set));
            } else {
                owners.retain(|owner| Some(&owner.uid) != set.metadata.uid.as_ref());
            }
            let metadata = [("ownerReferences".to_owned(), json!(owners))].into_iter().collect();
            let written = context.writer.metadata(machine, metadata).await;
            noted(context, &parent, named(name), written)
        }
        SetAction::Update { name, .. } => {
            let Some(machine) = members.get(name) else { return Ok(true) };
            let part = updated(set, machine);
            let written = context.writer.apply::<CaptMachine>(&named(name), &part, true).await;
            noted(context, &parent, named(name), written.map(|stored| version(&stored)))
        }
        SetAction::Probe { name, number, .. } => {
            settle(context, &parent, &named(name), set, *number).await.map(|_| true)
        }
        SetAction::Finish { .. } => {
            context.writer.release(set, finalizers::MACHINE_SET).await?;
            context.own_sets.forget(&parent);
            context.machine_writes.forget(&parent);
            context.absent.forget(&parent);
            Ok(false)
        }
    }
}

fn noted(
    context: &MachineContext,
    parent: &Name,
    child: Name,
    written: Result<u64, Error>,
) -> Result<bool, Error> {
    match written {
        Ok(version) => {
            context.machine_writes.wrote(parent, child, version);
            Ok(false)
        }
        Err(error) => {
            context.machine_writes.unknown(parent, child);
            Err(error)
        }
    }
}

/// Machines by name: a plan may be about all of ten thousand.
struct Members<'a>(HashMap<&'a str, &'a CaptMachine>);

impl<'a> Members<'a> {
    /// All of them, where an action is about one that exists.
    fn of(family: &'a Family, actions: &[SetAction]) -> Self {
        let needed = actions.iter().any(|action| !matches!(action, SetAction::Create { .. }));
        let machines = family.machines.iter().filter(|_| needed);
        Self(machines.filter_map(|one| Some((one.metadata.name.as_deref()?, one.as_ref()))).collect())
    }

    fn get(&self, name: &str) -> Option<&'a CaptMachine> {
        self.0.get(name).copied()
    }
}

/// A machine as it is applied: what its set wants of it and nothing else.
fn whole(machine: &CaptMachine) -> Value {
    json!({
        "apiVersion": CaptMachine::api_version(&()),
        "kind": CaptMachine::kind(&()),
        "metadata": machine.metadata,
        "spec": machine.spec,
    })
}

/// Builds a machine as it should be by now. It holds all that its creation held: whatever an apply leaves out goes.
fn updated(set: &CaptMachineSet, machine: &CaptMachine) -> Value {
    let mut part = in_place_update(set);
    let mut spec = machine.spec.clone();
    spec.provider_id = None;
    let wanted = &set.spec.template.spec;
    spec.labels.clone_from(&wanted.labels);
    spec.tags.clone_from(&wanted.tags);
    spec.additional_tags.clone_from(&wanted.additional_tags);
    spec.taints.clone_from(&wanted.taints);
    spec.scaling.clone_from(&wanted.scaling);
    spec.node_drain_timeout_seconds = wanted.node_drain_timeout_seconds;
    spec.paused = wanted.paused;
    if let (Some(own), Some(wanted)) = (&mut spec.node_group_config, &wanted.node_group_config) {
        own.scaling = wanted.scaling.clone();
        own.update_config.clone_from(&wanted.update_config);
        own.labels.clone_from(&wanted.labels);
        own.tags.clone_from(&wanted.tags);
    }
    let meta = &mut part["metadata"];
    meta["name"] = json!(machine.metadata.name);
    meta["uid"] = json!(machine.metadata.uid);
    meta["resourceVersion"] = json!(machine.metadata.resource_version);
    meta["finalizers"] = json!([finalizers::MACHINE]);
    meta["ownerReferences"] = json!(crate::owned_workspace::owner(set).into_iter().collect::<Vec<_>>());
    part["apiVersion"] = json!(CaptMachine::api_version(&()));
    part["kind"] = json!(CaptMachine::kind(&()));
    part["spec"] = json!(spec);
    part
}

/// One event for each kind of thing that was done.
fn tell(context: &MachineContext, set: &CaptMachineSet, done: &[&SetAction]) {
    let said = |reason: &'static str, verb: &'static str, which: fn(&SetAction) -> bool| {
        let lines: Vec<String> = done.iter().filter(|one| which(one)).map(ToString::to_string).collect();
        (!lines.is_empty()).then(|| Note::normal(reason, verb, few(&lines)))
    };
    let notes = [
        said("CreatedMachine", "Create", |one| matches!(one, SetAction::Create { .. })),
        said("DeletedMachine", "Delete", |one| matches!(one, SetAction::Delete { .. })),
        said("AdoptedMachine", "Adopt", |one| matches!(one, SetAction::Adopt { .. })),
        said("ReleasedMachine", "Release", |one| matches!(one, SetAction::Release { .. })),
        said("UpdatedMachine", "Update", |one| matches!(one, SetAction::Update { .. })),
    ];
    for note in notes.into_iter().flatten() {
        context.events.publish(set, &note);
    }
}
