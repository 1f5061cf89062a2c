//! What is known of one machine when its next step is decided.

use std::sync::Arc;

use capt_api::machine::{CaptMachine, CaptMachineStatus, NodeGroup};
use capt_api::names::{annotations, finalizers, labels};
use capt_api::workspace::WorkspaceTemplateApply;
use kube::ResourceExt;

use super::super::context::Context;
use super::{variables, workspace_of};
use crate::child::{self, Wanted};
use crate::runtime::{Error, Name};

/// What is known of one machine.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The object.
    pub object: Arc<CaptMachine>,
    /// Its name.
    pub name: Name,
    /// Its status: what was written last, though the cache may not show it yet.
    pub status: Option<CaptMachineStatus>,
    /// Somebody else takes care of it.
    pub external: bool,
    /// What pauses it.
    pub paused: Option<String>,
    /// Whether it is on its way out.
    pub deleting: bool,
    /// Whether our finalizer is on it.
    pub finalizer: bool,
    /// The object of its workspace's name.
    pub workspace: Option<Arc<WorkspaceTemplateApply>>,
    /// What its workspace should be.
    pub wanted: Wanted,
    /// The group that it joins, where that is an object.
    pub group: Option<Arc<NodeGroup>>,
    /// Name of the group that it joins or is.
    pub group_name: Option<String>,
}

impl Observed {
    /// Whether what it built should stay when it goes.
    pub fn orphans(&self) -> bool {
        self.object.finalizers().iter().any(|known| known == "orphan")
    }
}

/// Observes; nothing while the cache is behind our own writes.
pub async fn observe(context: &Context, object: Arc<CaptMachine>) -> Result<Option<Observed>, Error> {
    let name = Name::of(object.as_ref());
    if !context.apply_writes.caught_up(&name, &context.applies, &context.writer).await? {
        return Ok(None);
    }
    let mut looker = context.interests.looker(name.clone());
    let group = object.spec.node_group_ref.as_ref().and_then(|reference| {
        let group = Name::referred(reference, &name.namespace);
        looker.at("NodeGroup", &group);
        context.groups.get(&group)
    });
    let child = Name::new(name.namespace.clone(), workspace_of(&name.name));
    let wanted = Wanted {
        name: child.clone(),
        template: object.spec.workspace_template_ref.clone(),
        variables: variables::variables(&object, group.as_deref()),
        cluster: object.labels().get(labels::CLUSTER_NAME).cloned(),
        owner: child::owner(object.as_ref()),
        terms: None,
    };
    let own = object.spec.paused.then(|| "spec.paused is true".to_owned());
    Ok(Some(Observed {
        status: context.machine_status.current(object.as_ref(), object.status.as_ref()),
        external: object.annotations().contains_key(annotations::MANAGED_BY),
        paused: own.or_else(|| context.paused(object.as_ref())),
        deleting: object.metadata.deletion_timestamp.is_some(),
        finalizer: object.finalizers().iter().any(|known| known == finalizers::MACHINE),
        workspace: context.applies.get(&child),
        group_name: variables::group_name(&object, group.as_deref()),
        wanted,
        group,
        name,
        object,
    }))
}
