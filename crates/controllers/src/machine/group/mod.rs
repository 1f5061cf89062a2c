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
use kube::ResourceExt;
use serde_json::json;

use super::context::{CATCH_UP, Context};
use crate::child::{self, Variables, Wanted};
use crate::runtime::cache::{Key, same_but_status};
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
    /// Their names, where somebody waits for them to leave.
    pub leaving: Vec<String>,
}

/// How many pauses lie between two looks: that many members are one more or one less is not worth a write each time.
pub fn pauses(object: &NodeGroup) -> u32 {
    let members = object.status.as_ref().map_or(0, |status| status.members);
    (members.unsigned_abs() / 100).clamp(1, 10)
}

/// Looks at one group, and does the next thing for it.
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
        variables: variables(&object),
        secrets: Vec::new(),
        cluster: object.labels().get(labels::CLUSTER_NAME).cloned(),
        owner: child::owner(object.as_ref()),
        terms: None,
    });
    let own = object.spec.paused.then(|| "spec.paused is true".to_owned());
    let joined = Key::Refers("NodeGroup", name.clone());
    let mut leaving = Vec::new();
    if object.metadata.deletion_timestamp.is_some() {
        let machines = context.machines.names_by(std::slice::from_ref(&joined));
        leaving.extend(machines.iter().map(|one| one.seen_from(&name.namespace)));
        leaving.sort();
    }
    Observed {
        status: context.group_status.current(object.as_ref(), object.status.as_ref()),
        paused: own.or_else(|| context.paused(object.as_ref())),
        finalizer: object.finalizers().iter().any(|known| known == finalizers::NODE_GROUP),
        workspace: context.applies.get(&child),
        wanted,
        members: context.machines.count(&joined),
        leaving,
        name,
        object,
    }
}

/// Whether two versions of a group are the same to its members: how many they are is none of their business.
pub fn same_to_members(one: &NodeGroup, other: &NodeGroup) -> bool {
    let uncounted =
        |group: &NodeGroup| group.status.clone().map(|status| NodeGroupStatus { members: 0, ..status });
    same_but_status(one, other) && uncounted(one) == uncounted(other)
}

/// The group that a machine names.
pub fn group_of(machine: &CaptMachine) -> Option<Name> {
    let namespace = machine.namespace().unwrap_or_default();
    machine.spec.node_group_ref.as_ref().map(|reference| Name::referred(reference, &namespace))
}

/// What a group's module is told.
fn variables(group: &NodeGroup) -> Variables {
    let spec = &group.spec;
    let mut all = Variables::new();
    let mut put = |name: &str, value: serde_json::Value| drop(all.insert(name.to_owned(), value));
    if let Some(cluster) = group.labels().get(labels::CLUSTER_NAME) {
        put("cluster_name", json!(cluster));
    }
    put("node_group_name", json!(group.name_any()));
    let one: Vec<&String> = spec.instance_type.iter().chain(&spec.instance_types).collect();
    if !one.is_empty() {
        put("instance_types", json!(one));
    }
    if let Some(scaling) = &spec.scaling {
        put("min_size", json!(scaling.min_size));
        put("max_size", json!(scaling.max_size));
        put("desired_size", json!(scaling.desired_size));
    }
    put("labels", json!(spec.labels));
    put("taints", json!(spec.taints));
    put("tags", json!(spec.tags));
    all
}
