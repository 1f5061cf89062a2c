//! The only place that changes anything for a machine but its status.

use capt_api::machine::CaptMachine;
use capt_api::names::{finalizers, labels};
use capt_planner::machine::{DrainEnd, DrainVerdict, MachineStep, missing_label, removed};
use serde_json::json;

use super::super::context::MachineContext;
use super::observe::FoundMachine;
use crate::owned_workspace::{OwnerActions, OwnerChanges};
use crate::runtime::Error;
use crate::runtime::events::Note;

/// Carries out what was decided.
pub async fn act(
    context: &MachineContext,
    found: &FoundMachine,
    step: &MachineStep,
) -> Result<OwnerChanges, Error> {
    match step {
        MachineStep::Workspace(step) => {
            let acted = actions(context, found).act(*step).await?;
            if acted.released {
                released(context, found);
            }
            Ok(acted)
        }
        MachineStep::HandProviderId(id) => {
            let body = json!({"spec": {"providerID": id}});
            let stored = context.writer.merge(found.object.as_ref(), body).await?;
            Ok(OwnerChanges { generation: stored.metadata.generation, ..OwnerChanges::default() })
        }
        MachineStep::Node(work) => {
            if let Some((subject, _)) = &found.node {
                context.drains.start(&context.writer, &found.name, subject, work);
            }
            Ok(OwnerChanges::default())
        }
    }
}

/// Those of the owner of a workspace. With the finalizer it gets the label by which people find the members of a group;
/// machines of sets have both from the start.
fn actions<'a>(context: &'a MachineContext, found: &'a FoundMachine) -> OwnerActions<'a, CaptMachine> {
    let label = missing_label(&found.object).map(|group| (labels::NODE_GROUP_NAME, group));
    OwnerActions {
        writer: &context.writer,
        events: &context.events,
        writes: &context.apply_writes,
        object: found.object.as_ref(),
        name: &found.name,
        finalizer: finalizers::MACHINE,
        labels: label.into_iter().collect(),
        child: &found.child,
        wanted: Some(&found.wanted),
        existing: found.existing.as_ref(),
        leaves: found.external,
    }
}

/// Forgets a machine, and tells of a Node that it left behind.
fn released(context: &MachineContext, found: &FoundMachine) {
    let left = found.node.as_ref().filter(|_| !found.leaves_all());
    if let Some(DrainVerdict::Over(DrainEnd { well: false, message, .. })) =
        left.map(|(_, departure)| removed(departure))
    {
        let note = Note::warning("NodeLeft", "Delete", format!("its Node was not removed: {message}"));
        context.events.publish(found.object.as_ref(), &note);
    }
    context.machine_status.forget(&found.name);
    context.dependents.forget(&found.name);
    context.drains.forget(&found.name);
}
