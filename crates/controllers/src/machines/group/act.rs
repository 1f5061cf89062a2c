//! The only place that changes anything for a group but its status.

use capt_api::names::finalizers;
use capt_api::workspace::WorkspaceTemplateApply;
use kube::ResourceExt;

use super::super::context::Context;
use super::decide::Step;
use super::{Observed, SUFFIX};
use crate::owned_workspace::{Kinship, kinship};
use crate::runtime::events::Note;
use crate::runtime::status::version;
use crate::runtime::{Error, Name};

/// Does what was decided; whether the group is gone, or soon will be.
pub async fn act(context: &Context, observed: &Observed, step: &Step) -> Result<bool, Error> {
    let writer = &context.writer;
    let (name, object) = (&observed.name, observed.object.as_ref());
    let child = Name::new(name.namespace.clone(), format!("{}{SUFFIX}", name.name));
    match step {
        Step::Rest => {}
        Step::Hold => drop(writer.hold(object, finalizers::NODE_GROUP).await?),
        Step::Create => {
            let Some(wanted) = &observed.wanted else { return Ok(false) };
            if !observed.finalizer {
                writer.hold(object, finalizers::NODE_GROUP).await?;
            }
            let made = writer.create(&wanted.object()).await;
            match &made {
                Ok(made) => context.group_writes.wrote(name, child.clone(), version(made)),
                Err(_) => context.group_writes.unknown(name, child.clone()),
            }
            made?;
            let text = format!("workspace {} builds it", child.name);
            context.events.publish(object, &Note::normal("CreatedWorkspace", "Create", text));
        }
        Step::Change(changed) => {
            // A workspace that was left behind is taken up: the group must not go before it again.
            if !observed.finalizer && object.metadata.deletion_timestamp.is_none() {
                writer.hold(object, finalizers::NODE_GROUP).await?;
            }
            let stored = writer.replace(changed.as_ref()).await?;
            context.group_writes.wrote(name, child, version(&stored));
        }
        Step::Delete(uid) => {
            let Some(apply) = &observed.workspace else { return Ok(false) };
            let outcome = writer.delete_seen(apply.as_ref()).await?;
            context.group_writes.deleted(name, child, uid, outcome);
        }
        Step::Release => return release(context, observed, &child).await,
    }
    Ok(false)
}

/// Lets the group go. The cache may not show a workspace that was made a moment ago by a process that is no more.
async fn release(context: &Context, observed: &Observed, child: &Name) -> Result<bool, Error> {
    let (name, object) = (&observed.name, observed.object.as_ref());
    let orphans = object.finalizers().iter().any(|known| known == "orphan");
    if !orphans
        && let Some(found) = context.writer.read::<WorkspaceTemplateApply>(child).await?
        && kinship(&found, object) == Kinship::Ours
    {
        let uid = found.uid().unwrap_or_default();
        let outcome = context.writer.delete_seen(&found).await?;
        context.group_writes.deleted(name, child.clone(), &uid, outcome);
        return Ok(false);
    }
    context.writer.release(object, finalizers::NODE_GROUP).await?;
    context.group_writes.forget(name);
    context.group_status.forget(name);
    Ok(true)
}
