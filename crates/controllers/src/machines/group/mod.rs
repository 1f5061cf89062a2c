//! NodeGroup: a group that machines join. CAPT builds it with a workspace of its own, or it exists.
//!
//! ```text
//! observe: the group, its workspace, its members      (here)
//! decide:  what to do next, and why            (capt_planner::node_group; pure)
//! act:     finalizer, workspace, the end               (act)
//! report:  ready, members, outputs, conditions         (report; pure up to the write)
//! ```

mod act;
pub mod report;

use std::sync::Arc;

use capt_api::machine::{CaptMachine, NodeGroup, NodeGroupStatus};
use capt_api::names::labels;
use capt_api::workspace::WorkspaceTemplateApply;
use capt_planner::inputs;
use capt_planner::node_group::{NodeGroupObservation, decide};
use capt_planner::owned_workspace::{OwnedWorkspace, WantedWorkspace};
use kube::ResourceExt;

use super::context::{CATCH_UP, MachineContext};
use crate::owned_workspace;
use crate::runtime::cache::same_but_status;
use crate::runtime::queue::Next;
use crate::runtime::{Error, Name};

/// Suffix of the name of a group's workspace.
pub const SUFFIX: &str = "-nodegroup";

/// A group, with everything that its next step depends on.
#[derive(Clone, Debug)]
pub struct FoundNodeGroup {
    /// The object.
    pub object: Arc<NodeGroup>,
    /// Its name.
    pub name: Name,
    /// Its status: what was written last, though the cache may not show it yet.
    pub status: Option<NodeGroupStatus>,
    /// The reason that it is paused.
    paused: Option<String>,
    /// Name of its workspace.
    child: Name,
    /// The object of that name.
    existing: Option<Arc<WorkspaceTemplateApply>>,
    /// Its workspace as it should be; none for a group that exists.
    wanted: Option<WantedWorkspace>,
    /// Number of machines that name it.
    pub members: usize,
    /// Number of them that are ready.
    pub ready_members: usize,
    /// Their names, where somebody waits for them to leave.
    leaving: Vec<String>,
}

/// Number of pauses between two looks: that many members are one more or one less is not worth a write each time.
pub fn pauses(object: &NodeGroup) -> u32 {
    let members = object.status.as_ref().map_or(0, |status| status.members);
    (members.unsigned_abs() / 100).clamp(1, 10)
}

/// Reconciles one group.
pub async fn reconcile(context: Arc<MachineContext>, object: Arc<NodeGroup>) -> Result<Next, Error> {
    let name = Name::of(object.as_ref());
    if !context.group_writes.caught_up(&name, &context.applies, &context.writer).await? {
        return Ok(CATCH_UP);
    }
    let found = observe(&context, object, name);
    let decision = decide(&found.observed());
    if act::act(&context, &found, decision.step).await?.released {
        return Ok(Next::OnChange);
    }
    let held = report::report(&context, &found, &decision.state, context.clock.now()).await?;
    Ok(Next::soonest([held]))
}

fn observe(context: &MachineContext, object: Arc<NodeGroup>, name: Name) -> FoundNodeGroup {
    let child = Name::new(name.namespace.clone(), format!("{}{SUFFIX}", name.name));
    let wanted = object.spec.workspace_template_ref.clone().map(|template| WantedWorkspace {
        namespace: child.namespace.clone(),
        name: child.name.clone(),
        template,
        variables: inputs::of_node_group(&object),
        defaults: inputs::node_group_defaults(&object),
        secrets: Vec::new(),
        cluster: object.labels().get(labels::CLUSTER_NAME).cloned(),
        owner: owned_workspace::owner(object.as_ref()),
        terms: None,
    });
    let own = object.spec.paused.then(|| "spec.paused is true".to_owned());
    let mut leaving = Vec::new();
    if object.metadata.deletion_timestamp.is_some() {
        let machines = context.grants.users::<CaptMachine, NodeGroup>(&context.machines, &name);
        leaving.extend(machines.iter().map(|one| one.seen_from(&name.namespace)));
        leaving.sort();
    }
    FoundNodeGroup {
        status: context.group_status.current(object.as_ref(), object.status.as_ref()),
        paused: own.or_else(|| context.paused(object.as_ref())),
        existing: context.applies.get(&child),
        child,
        wanted,
        members: context.grants.count::<CaptMachine, NodeGroup>(&context.machines, &name),
        ready_members: context.grants.count_ready::<CaptMachine, NodeGroup>(&context.machines, &name),
        leaving,
        name,
        object,
    }
}

impl FoundNodeGroup {
    /// As the planner wants it.
    fn observed(&self) -> NodeGroupObservation<'_> {
        let template = self.object.spec.workspace_template_ref.clone().unwrap_or_default();
        let before = self.status.as_ref().and_then(|status| status.failure_reason.as_deref());
        let read = |apply: &Arc<WorkspaceTemplateApply>| {
            OwnedWorkspace::read(apply, &self.object.metadata, &template, self.wanted.as_ref(), before)
        };
        NodeGroupObservation {
            object: self.object.as_ref(),
            paused: self.paused.as_deref(),
            workspace: self.existing.as_ref().map(read),
            leaving: &self.leaving,
        }
    }
}

/// Returns true if two versions of a group are the same to its members: how many they are is none of their business.
pub fn same_to_members(one: &NodeGroup, other: &NodeGroup) -> bool {
    let uncounted = |group: &NodeGroup| {
        group.status.clone().map(|status| NodeGroupStatus { members: 0, ready_members: 0, ..status })
    };
    same_but_status(one, other) && uncounted(one) == uncounted(other)
}

/// The group that a machine names.
pub fn group_of(machine: &CaptMachine) -> Option<Name> {
    let namespace = machine.namespace().unwrap_or_default();
    machine.spec.node_group_ref.as_ref().map(|reference| Name::mentioned(reference, &namespace))
}

/// Returns true if a machine counts as a ready member of the group that it names.
pub fn is_ready_member(machine: &CaptMachine) -> bool {
    machine.metadata.deletion_timestamp.is_none()
        && machine.status.as_ref().is_some_and(|status| status.ready)
}
