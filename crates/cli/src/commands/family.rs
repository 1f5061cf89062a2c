//! Dependents of an object: its own, theirs in turn, and for a Cluster all that carries its name.

use std::collections::HashSet;
use std::io;

use capt_api::names::labels;
use capt_api::workspace::WorkspaceTemplateApply;
use kube::ResourceExt;
use kube::api::{DynamicObject, ListParams};

use super::client::{Connection, in_words};
use super::object::{Reference, ResourceKind};

/// Kinds that can belong to another object, an owner before what it owns.
const KINDS: [&str; 7] = [
    "CAPTCluster",
    "CAPTControlPlane",
    "NodeGroup",
    "CaptMachineDeployment",
    "CaptMachineSet",
    "CaptMachine",
    "WorkspaceTemplateApply",
];

/// An object with its kind.
#[derive(Clone)]
pub struct Member {
    pub kind: &'static ResourceKind,
    pub object: DynamicObject,
}

impl Member {
    pub fn reference(&self) -> Reference {
        Reference { kind: self.kind, name: self.object.name_any() }
    }

    /// Depth of its kind below a Cluster: nothing is deleted before deeper kinds. 0 for the Cluster itself, and for what belongs
    /// to none.
    pub fn depth(&self) -> usize {
        KINDS.iter().position(|name| *name == self.kind.name).map_or(0, |at| at + 1)
    }

    /// The workspace it is, if it is one.
    pub fn workspace(&self) -> Option<WorkspaceTemplateApply> {
        if self.kind.name != "WorkspaceTemplateApply" {
            return None;
        }
        self.object.clone().try_parse().ok()
    }
}

/// An object and all that belongs to it, the object first.
pub async fn family(connection: &Connection, head: &Reference) -> io::Result<Vec<Member>> {
    let object = head.get(connection).await?;
    let head = Member { kind: head.kind, object };
    below(connection, head).await
}

/// The same, of an object that is at hand.
pub async fn below(connection: &Connection, head: Member) -> io::Result<Vec<Member>> {
    let cluster = head.kind.is_cluster().then(|| head.object.name_any());
    let mut uids: HashSet<String> = head.object.uid().into_iter().collect();
    let first = head.depth();
    // Templates and provider configs own nothing.
    let owns = head.kind.is_cluster() || first > 0;
    let mut all = vec![head];
    for name in KINDS.iter().skip(if owns { first } else { KINDS.len() }) {
        let kind = ResourceKind::named(name);
        let api = kind.api(connection, Some(&connection.namespace)).await?;
        for object in api.list(&ListParams::default()).await.map_err(in_words)?.items {
            let owned = object.owner_references().iter().any(|owner| uids.contains(&owner.uid));
            let labelled = cluster.is_some() && object.labels().get(labels::CLUSTER_NAME) == cluster.as_ref();
            if owned || labelled {
                uids.extend(object.uid());
                all.push(Member { kind, object });
            }
        }
    }
    Ok(all)
}
