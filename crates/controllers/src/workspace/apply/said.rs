//! Outputs that the module of an instance's template itself returned.

use capt_api::workspace::WorkspaceTemplateApply;
use capt_terraform::state::Outputs;

use super::super::context::WorkspaceContext;
use super::{observe, prepare};
use crate::runtime::{Error, Looker, Name};

/// The outputs of an instance, sensitive ones too, where the last apply was one of the inputs that it has now. They are the engine's: a
/// status, or a connection Secret, may have been written by anybody who may write in that namespace, and a state that somebody gave has not been
/// applied yet.
pub async fn outputs(
    context: &WorkspaceContext,
    looker: &mut Looker,
    object: &WorkspaceTemplateApply,
) -> Result<Option<Outputs>, Error> {
    let status = context.apply_status.current(object, object.status.as_ref());
    let workspace_name = observe::workspace_name(context, object, status.as_ref());
    let view = context.open(&Name::of(object)).await?;
    let known =
        prepare::KnownInstance { workspace_name: &workspace_name, view: &view, applied_elsewhere: false };
    let (_, prepared) = prepare::prepare(context, looker, object, &known).await?;
    let Ok(prepared) = prepared else { return Ok(None) };
    let is_applied = view.trouble.is_none() && view.applied.as_ref() == Some(&prepared.revision);
    // The same code may have been applied with credentials of the tenant's own, or its state be of the tenant's making.
    let is_theirs = view.origin == prepared.inputs.origin;
    Ok((is_applied && is_theirs).then_some(view.outputs))
}
