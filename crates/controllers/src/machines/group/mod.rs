//! NodeGroup: a group that machines join. CAPT builds it with a workspace of its own, or it exists.
//!
//! ```text
//! observe: the group, its workspace, its members      (here)
//! decide:  what to do next, and why                    (decide; pure)
//! act:     finalizer, workspace, the end               (act)
//! report:  ready, members, outputs, conditions         (report; pure up to the write)
//! ```

mod act;
pub mod decide;
pub mod report;

use std::sync::Arc;

use capt_api::machine::{CaptMachine, NodeGroup, NodeGroupStatus};
use capt_api::names::{finalizers, labels};
use capt_api::workspace::WorkspaceTemplateApply;
use capt_planner::inputs;
use kube::ResourceExt;

use super::context::{CATCH_UP, Context};
use crate::owned_workspace::{self, Wanted};
use crate::runtime::cache::same_but_status;
use crate::runtime::queue::Next;
use crate::runtime::{Error, Name};

/// What a group's workspace has after the group's name.
pub const SUFFIX: &str = "-nodegroup";

/// What is known of one group.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The object.
    pub object: Arc<NodeGroup>,
    /// Its name.
    pub name: Name,
    /// Its status: what was written last, though the cache may not show it yet.
    pub status: Option<NodeGroupStatus>,
    /// What pauses it.
    pub paused: Option<String>,
    /// Whether our finalizer is on it.
    pub finalizer: bool,
    /// The object of its workspace's name.
    pub workspace: Option<Arc<WorkspaceTemplateApply>>,
    /// What its workspace should be; none for a group that exists.
    pub wanted: Option<Wanted>,
    /// How many machines name it.
    pub members: usize,
    /// How many of them are ready.
    pub ready_members: usize,
    /// Their names, where somebody waits for them to leave.
    pub leaving: Vec<String>,
}

/// How many pauses lie between two looks: that many members are one more or one less is not worth a write each time.
pub fn pauses(object: &NodeGroup) -> u32 {
    let members = object.status.as_ref().map_or(0, |status| status.members);
    (members.unsigned_abs() / 100).clamp(1, 10)
}

/// Reconciles one group.
pub async fn reconcile(context: Arc<Context>, object: Arc<NodeGroup>) -> Result<Next, Error> {
    let name = Name::of(object.as_ref());
    if !context.group_writes.caught_up(&name, &context.applies, &context.writer).await? {
        return Ok(CATCH_UP);
    }
    let observed = observe(&context, object, name);
    let decision = decide::decide(&observed);
    if act::act(&context, &observed, &decision.step).await? {
        return Ok(Next::OnChange);
    }
    let held = report::report(&context, &observed, &decision.phase, context.clock.now()).await?;
    Ok(Next::soonest([held]))
}

fn observe(context: &Context, object: Arc<NodeGroup>, name: Name) -> Observed {
    let child = Name::new(name.namespace.clone(), format!("{}{SUFFIX}", name.name));
    let wanted = object.spec.workspace_template_ref.clone().map(|template| Wanted {
        name: child.clone(),
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
    Observed {
        status: context.group_status.current(object.as_ref(), object.status.as_ref()),
        paused: own.or_else(|| context.paused(object.as_ref())),
        finalizer: object.finalizers().iter().any(|known| known == finalizers::NODE_GROUP),
        workspace: context.applies.get(&child),
        wanted,
        members: context.grants.count::<CaptMachine, NodeGroup>(&context.machines, &name),
        ready_members: context.grants.count_ready::<CaptMachine, NodeGroup>(&context.machines, &name),
        leaving,
        name,
        object,
    }
}

/// Whether two versions of a group are the same to its members: how many they are is none of their business.
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

/// Whether a machine counts as a ready member of the group that it names.
pub fn is_ready_member(machine: &CaptMachine) -> bool {
    machine.metadata.deletion_timestamp.is_none()
        && machine.status.as_ref().is_some_and(|status| status.ready)
}
