//! Carries out a deployment's plan.

use std::time::Duration;

use capt_api::machine::{CaptMachineDeployment, CaptMachineSet};
use capt_api::names::finalizers;
use capt_planner::deployment::{DeploymentAction, DeploymentPlan, is_same_set, set};
use kube::ResourceExt;
use serde_json::json;

use super::super::context::MachineContext;
use super::Family;
use crate::runtime::events::Note;
use crate::runtime::status::version;
use crate::runtime::{Error, Name};

/// Does what was planned, in order, up to the first failure; the status last. Says when to look again though nothing
/// may change.
pub async fn act(
    context: &MachineContext,
    family: &Family,
    plan: &DeploymentPlan,
) -> Result<Option<Duration>, Error> {
    let deployment = &family.deployment;
    let name = Name::of(deployment);
    for action in &plan.actions {
        match one(context, family, action).await? {
            Done::Well => {
                let (reason, verb) = words(action);
                context.events.publish(deployment, &Note::normal(reason, verb, action.to_string()));
            }
            Done::Again => return Ok(Some(Duration::from_millis(10))),
            // The deployment was written, or is gone: its status is the next plan's matter.
            Done::Last => return Ok(None),
        }
    }
    if let Some(status) = &plan.status {
        let version = context.writer.status(deployment, status).await?;
        context.own_deployments.wrote(&name, name.clone(), version);
    }
    Ok(None)
}

enum Done {
    Well,
    Again,
    Last,
}

async fn one(context: &MachineContext, family: &Family, action: &DeploymentAction) -> Result<Done, Error> {
    let deployment = &family.deployment;
    let parent = Name::of(deployment);
    let named = |name: &String| Name::new(parent.namespace.clone(), name);
    match action {
        DeploymentAction::CreateSet { name, hash, revision, replicas, .. } => {
            let wanted = set(deployment, hash, *revision, *replicas);
            create(context, deployment, &named(name), &wanted).await
        }
        DeploymentAction::ChangeSet { name, resource_version, change, .. } => {
            let Some(known) = member(family, name) else { return Ok(Done::Again) };
            let mut changed = known.clone();
            change.apply(&mut changed);
            changed.metadata.resource_version = Some(resource_version.clone());
            let written = context.writer.replace(&changed).await.map(|stored| version(&stored));
            noted(context, &parent, named(name), written)
        }
        DeploymentAction::DeleteSet { name, uid, .. } => {
            let Some(known) = member(family, name) else { return Ok(Done::Again) };
            let deleted = context.writer.delete_seen(known).await;
            match &deleted {
                Ok(outcome) => context.set_writes.deleted(&parent, named(name), uid, *outcome),
                Err(_) => context.set_writes.unknown(&parent, named(name)),
            }
            deleted.map(|_| Done::Well)
        }
        DeploymentAction::AdoptSet { name, .. } | DeploymentAction::ReleaseSet { name, .. } => {
            let Some(known) = member(family, name) else { return Ok(Done::Again) };
            let mut owners = known.metadata.owner_references.clone().unwrap_or_default();
            if matches!(action, DeploymentAction::AdoptSet { .. }) {
                owners.extend(crate::owned_workspace::owner(deployment));
            } else {
                owners.retain(|owner| Some(&owner.uid) != deployment.metadata.uid.as_ref());
            }
            let metadata = [("ownerReferences".to_owned(), json!(owners))].into_iter().collect();
            let written = context.writer.metadata(known, metadata).await;
            noted(context, &parent, named(name), written)
        }
        DeploymentAction::Undo { template, .. } => {
            let mut changed = deployment.clone();
            capt_planner::deployment::undo(&mut changed, template);
            let stored = context.writer.replace(&changed).await?;
            context.own_deployments.wrote(&parent, parent.clone(), version(&stored));
            let (reason, verb) = words(action);
            context.events.publish(deployment, &Note::normal(reason, verb, action.to_string()));
            Ok(Done::Last)
        }
        DeploymentAction::Finish { .. } => {
            context.writer.release(deployment, finalizers::MACHINE_DEPLOYMENT).await?;
            context.own_deployments.forget(&parent);
            context.set_writes.forget(&parent);
            Ok(Done::Last)
        }
    }
}

/// Makes a set. Where its name is another's, that is counted, and the next plan takes another name.
async fn create(
    context: &MachineContext,
    deployment: &CaptMachineDeployment,
    name: &Name,
    wanted: &CaptMachineSet,
) -> Result<Done, Error> {
    let parent = Name::of(deployment);
    let error = match context.writer.create(wanted).await {
        Ok(made) => {
            context.set_writes.wrote(&parent, name.clone(), version(&made));
            return Ok(Done::Well);
        }
        Err(error) => error,
    };
    match error.code() {
        Some(409) => match context.writer.read::<CaptMachineSet>(name).await? {
            Some(found) if is_same_set(deployment, &found) => {
                context.set_writes.wrote(&parent, name.clone(), version(&found));
                Ok(Done::Well)
            }
            Some(_) => {
                let mut status = deployment.status.clone().unwrap_or_default();
                status.collision_count = Some(status.collision_count.unwrap_or(0) + 1);
                let written = context.writer.status(deployment, &status).await?;
                context.own_deployments.wrote(&parent, parent.clone(), written);
                Ok(Done::Again)
            }
            None => Err(error),
        },
        Some(400..=499) => {
            let note = Note::warning("FailedCreate", "Create", crate::runtime::queue::chain(&error));
            context.events.publish(deployment, &note);
            Err(error)
        }
        _ => {
            context.set_writes.unknown(&parent, name.clone());
            Err(error)
        }
    }
}

fn noted(
    context: &MachineContext,
    parent: &Name,
    child: Name,
    written: Result<u64, Error>,
) -> Result<Done, Error> {
    match written {
        Ok(version) => {
            context.set_writes.wrote(parent, child, version);
            Ok(Done::Well)
        }
        Err(error) => {
            context.set_writes.unknown(parent, child);
            Err(error)
        }
    }
}

fn member<'a>(family: &'a Family, name: &str) -> Option<&'a CaptMachineSet> {
    family.sets.iter().map(AsRef::as_ref).find(|set| set.name_any() == name)
}

fn words(action: &DeploymentAction) -> (&'static str, &'static str) {
    match action {
        DeploymentAction::CreateSet { .. } => ("CreatedSet", "Create"),
        DeploymentAction::ChangeSet { change, .. } if change.replicas.is_some() => ("ScaledSet", "Scale"),
        DeploymentAction::ChangeSet { .. } => ("UpdatedSet", "Update"),
        DeploymentAction::DeleteSet { .. } => ("DeletedSet", "Delete"),
        DeploymentAction::AdoptSet { .. } => ("AdoptedSet", "Adopt"),
        DeploymentAction::ReleaseSet { .. } => ("ReleasedSet", "Release"),
        DeploymentAction::Undo { .. } => ("UndidRollout", "Undo"),
        DeploymentAction::Finish { .. } => ("Finished", "Delete"),
    }
}
