//! WorkspaceTemplate: its content hash, who uses it, and that it outlives its users.

use std::sync::Arc;

use capt_api::conditions::{reasons, types};
use capt_api::names::finalizers;
use capt_api::workspace::{WorkspaceTemplate, WorkspaceTemplateApply, WorkspaceTemplateStatus};
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;

use super::apply::definition;
use super::context::{MANAGER, WorkspaceContext};
use crate::runtime::conditions::{Conditions, find};
use crate::runtime::events::Note;
use crate::runtime::queue::Next;
use crate::runtime::{Error, Name};

/// Users that a message names one by one.
const NAMED: usize = 5;

/// Returns the number of pauses between two looks: that many users are one more or one less is not worth a write each time.
pub fn pauses(object: &WorkspaceTemplate) -> u32 {
    let users = object.status.as_ref().and_then(|status| status.used_by).unwrap_or_default();
    (users.unsigned_abs() / 100).clamp(1, 10)
}

/// A status without its details: users mostly come together.
pub fn gist(status: &mut WorkspaceTemplateStatus) {
    status.used_by = None;
}

/// Looks at one template.
pub async fn reconcile(
    context: Arc<WorkspaceContext>,
    object: Arc<WorkspaceTemplate>,
) -> Result<Next, Error> {
    let name = Name::of(object.as_ref());
    let deleting = object.metadata.deletion_timestamp.is_some();
    let users = Users {
        count: context.grants.count::<WorkspaceTemplateApply, WorkspaceTemplate>(&context.applies, &name),
        names: if deleting { names(&context, &name) } else { Vec::new() },
    };
    let held = object.finalizers().iter().any(|known| known == finalizers::WORKSPACE_TEMPLATE);
    match (deleting, held) {
        (true, true) if users.names.is_empty() => {
            set_finalizers(&context, &object, |known| {
                known.retain(|one| one != finalizers::WORKSPACE_TEMPLATE);
            })
            .await?;
            context.template_status.forget(&name);
            return Ok(Next::OnChange);
        }
        (true, false) => return Ok(Next::OnChange),
        (false, false) => {
            set_finalizers(&context, &object, |known| known.push(finalizers::WORKSPACE_TEMPLATE.into()))
                .await?;
        }
        (true | false, true) => {}
    }
    report(&context, &object, &users, deleting).await
}

/// Instances that use a template.
struct Users {
    count: usize,
    /// In order, where somebody waits for them to go.
    names: Vec<String>,
}

fn names(context: &WorkspaceContext, name: &Name) -> Vec<String> {
    let users = context.grants.users::<WorkspaceTemplateApply, WorkspaceTemplate>(&context.applies, name);
    let mut names: Vec<String> = users.iter().map(|user| user.seen_from(&name.namespace)).collect();
    names.sort();
    names
}

async fn report(
    context: &WorkspaceContext,
    object: &WorkspaceTemplate,
    users: &Users,
    deleting: bool,
) -> Result<Next, Error> {
    let current = context.template_status.current(object, object.status.as_ref());
    let old = current.clone().unwrap_or_default();
    let mut conditions = Conditions::new(&old.conditions, object.metadata.generation, context.clock.now());
    match definition::read(object) {
        Ok(_) => conditions.set(types::READY, true, reasons::READY, "the template can be used"),
        Err(blocked) => conditions.set(types::READY, false, blocked.reason, blocked.message),
    }
    let mut note = None;
    if deleting {
        let message =
            format!("used by WorkspaceTemplateApply {}: delete what uses it first", listed(&users.names));
        if find(&old.conditions, types::DELETING).is_none() {
            note = Some(Note::warning(reasons::IN_USE, "Delete", message.clone()));
        }
        conditions.set(types::DELETING, true, reasons::IN_USE, message);
    }
    let status = WorkspaceTemplateStatus {
        observed_generation: object.metadata.generation,
        revision: Some(definition::revision(object)),
        used_by: i32::try_from(users.count).ok(),
        conditions: conditions.into_list(),
    };
    let held = context.template_status.write(&context.client, object, current.as_ref(), status).await?;
    if let Some(note) = note {
        context.events.publish(object, &note);
    }
    Ok(Next::soonest([held]))
}

fn listed(users: &[String]) -> String {
    let mut shown: Vec<String> = users.iter().take(NAMED).cloned().collect();
    if users.len() > NAMED {
        shown.push(format!("and {} more", users.len() - NAMED));
    }
    shown.join(", ")
}

async fn set_finalizers(
    context: &WorkspaceContext,
    object: &WorkspaceTemplate,
    change: impl FnOnce(&mut Vec<String>),
) -> Result<(), Error> {
    let mut all = object.finalizers().to_vec();
    change(&mut all);
    let name = Name::of(object);
    let api: Api<WorkspaceTemplate> = Api::namespaced(context.client.clone(), &name.namespace);
    let body = json!({"metadata": {
        "uid": object.uid(), "resourceVersion": object.resource_version(), "finalizers": all,
    }});
    let params = PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() };
    let patch = Patch::Merge(&body);
    let written = api.patch_metadata(&name.name, &params, &patch).await;
    written.map_err(Error::api(format!("write finalizers of WorkspaceTemplate {name}")))?;
    Ok(())
}
