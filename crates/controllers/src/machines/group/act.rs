//! The only place that changes anything for a group but its status.

use std::collections::BTreeMap;

use capt_api::names::finalizers;
use capt_planner::owned_workspace::OwnerStep;

use super::super::context::MachineContext;
use super::FoundNodeGroup;
use crate::owned_workspace::{OwnerActions, OwnerChanges};
use crate::runtime::Error;

/// Carries out what was decided.
pub async fn act(
    context: &MachineContext,
    found: &FoundNodeGroup,
    step: OwnerStep,
) -> Result<OwnerChanges, Error> {
    let actions = OwnerActions {
        writer: &context.writer,
        events: &context.events,
        writes: &context.group_writes,
        object: found.object.as_ref(),
        name: &found.name,
        finalizer: finalizers::NODE_GROUP,
        labels: BTreeMap::new(),
        child: &found.child,
        wanted: found.wanted.as_ref(),
        existing: found.existing.as_ref(),
        leaves: false,
    };
    let acted = actions.act(step).await?;
    if acted.released {
        context.group_status.forget(&found.name);
    }
    Ok(acted)
}
