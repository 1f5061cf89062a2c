//! The only place that changes anything for a machine but its status.

use capt_api::names::{finalizers, labels};
use capt_api::workspace::WorkspaceTemplateApply;
use kube::ResourceExt;
use serde_json::{Map, json};

use super::super::context::Context;
use super::decide::Step;
use super::node_drain::{self, End, Verdict};
use super::observe::Observed;
use crate::owned_workspace::{self, Kinship, Standing};
use crate::runtime::Error;
use crate::runtime::events::Note;
use crate::runtime::status::version;

/// What was done.
#[derive(Debug, Default)]
pub struct Acted {
    /// The machine is gone, or soon will be.
    pub released: bool,
    /// The generation that the machine has now, where that changed.
    pub generation: Option<i64>,
}

/// Does what was decided.
pub async fn act(context: &Context, observed: &Observed, step: &Step) -> Result<Acted, Error> {
    let writer = &context.writer;
    let (name, child) = (&observed.name, &observed.wanted.name);
    match step {
        Step::Rest => {}
        Step::Create => {
            hold(context, observed).await?;
            let made = writer.create(&observed.wanted.object()).await;
            match &made {
                Ok(made) => context.apply_writes.wrote(name, child.clone(), version(made)),
                Err(_) => context.apply_writes.unknown(name, child.clone()),
            }
            made?;
            let text = format!("workspace {} builds it", child.name);
            context
                .events
                .publish(observed.object.as_ref(), &Note::normal("CreatedWorkspace", "Create", text));
        }
        Step::Change(changed) => {
            // A workspace that was left behind is taken up: the machine must not go before it again.
            if !observed.finalizer && !observed.deleting {
                writer.hold(observed.object.as_ref(), finalizers::MACHINE).await?;
            }
            let stored = writer.replace(changed.as_ref()).await?;
            context.apply_writes.wrote(name, child.clone(), version(&stored));
        }
        Step::Hold => hold(context, observed).await?,
        Step::Hand => return hand(context, observed).await,
        Step::Node(work) => {
            if let Some(node) = &observed.node {
                context.drains.start(writer, name, &node.subject, work);
            }
        }
        Step::Delete(uid) => {
            let Some(apply) = &observed.workspace else { return Ok(Acted::default()) };
            let outcome = writer.delete_seen(apply.as_ref()).await?;
            context.apply_writes.deleted(name, child.clone(), uid, outcome);
        }
        Step::Release => return release(context, observed).await,
    }
    Ok(Acted::default())
}

/// Before anything is built: the finalizer, and the label by which people find the members of a group. One write for
/// both; machines of sets have them from the start.
async fn hold(context: &Context, observed: &Observed) -> Result<(), Error> {
    let object = observed.object.as_ref();
    let mut metadata = Map::new();
    if !observed.finalizer {
        let mut all = object.finalizers().to_vec();
        all.push(finalizers::MACHINE.to_owned());
        metadata.insert("finalizers".to_owned(), json!(all));
    }
    if let Some(group) = observed.missing_label() {
        metadata.insert("labels".to_owned(), json!({labels::NODE_GROUP_NAME: group}));
    }
    if !metadata.is_empty() {
        context.writer.metadata(object, metadata).await?;
    }
    Ok(())
}

/// Hands on the name that Kubernetes and the cloud have for the machine.
async fn hand(context: &Context, observed: &Observed) -> Result<Acted, Error> {
    let Some(apply) = &observed.workspace else { return Ok(Acted::default()) };
    let id = Standing::of(apply, None).text("provider_id");
    let body = json!({"spec": {"providerID": id}});
    let stored = context.writer.merge(observed.object.as_ref(), body).await?;
    Ok(Acted { generation: stored.metadata.generation, ..Acted::default() })
}

/// Lets the machine go. The cache may not show a workspace that was made a moment ago by a process that is no more.
async fn release(context: &Context, observed: &Observed) -> Result<Acted, Error> {
    let (name, child) = (&observed.name, &observed.wanted.name);
    if !observed.orphans()
        && !observed.external
        && let Some(found) = context.writer.read::<WorkspaceTemplateApply>(child).await?
        && owned_workspace::kinship(&found, observed.object.as_ref()) == Kinship::Ours
    {
        let uid = found.uid().unwrap_or_default();
        let outcome = context.writer.delete_seen(&found).await?;
        context.apply_writes.deleted(name, child.clone(), &uid, outcome);
        return Ok(Acted::default());
    }
    let left = observed.node.as_ref().filter(|_| !observed.orphans() && !observed.external);
    if let Some(Verdict::Over(End { well: false, message, .. })) = left.map(node_drain::removed) {
        let note = Note::warning("NodeLeft", "Delete", format!("its Node was not removed: {message}"));
        context.events.publish(observed.object.as_ref(), &note);
    }
    context.writer.release(observed.object.as_ref(), finalizers::MACHINE).await?;
    context.apply_writes.forget(name);
    context.machine_status.forget(name);
    context.dependents.forget(name);
    context.drains.forget(name);
    Ok(Acted { released: true, ..Acted::default() })
}
