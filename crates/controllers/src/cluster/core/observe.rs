//! What is known of one Cluster when its next step is decided.

use std::sync::Arc;

use capt_api::cluster::core::{Cluster, ClusterStatus};
use capt_api::names::{annotations, finalizers};
use kube::ResourceExt;

use super::Context;
use super::contract_ref::Part;
use super::workers::{self, Workers};
use crate::runtime::{Error, Name};

/// What is known of one Cluster.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The object.
    pub object: Arc<Cluster>,
    /// Its name.
    pub name: Name,
    /// Its status: what was written last, though the cache may not show it yet.
    pub status: Option<ClusterStatus>,
    /// What pauses it.
    pub paused: Option<String>,
    /// Whether it is on its way out.
    pub deleting: bool,
    /// Whether the finalizer is on it.
    pub finalizer: bool,
    /// Whether its parts should stay when it goes.
    pub orphans: bool,
    /// Its infrastructure.
    pub infrastructure: Part,
    /// Its control plane.
    pub control_plane: Part,
    /// Its machines.
    pub workers: Workers,
}

/// Observes. A Cluster that is paused is not looked into any further.
pub async fn observe(context: &Context, object: Arc<Cluster>) -> Result<Observed, Error> {
    let name = Name::of(object.as_ref());
    let has = |wanted: &str| object.finalizers().iter().any(|known| known == wanted);
    let (finalizer, orphans) = (has(finalizers::CORE_CLUSTER), has("orphan"));
    let deleting = object.metadata.deletion_timestamp.is_some();
    let paused = paused(&object);
    let (mut infrastructure, mut control_plane, mut workers) = (Part::None, Part::None, Workers::default());
    if paused.is_none() {
        infrastructure = context.parts.find(object.spec.infrastructure_ref.as_ref(), &object).await?;
        control_plane = context.parts.find(object.spec.control_plane_ref.as_ref(), &object).await?;
        workers = workers::observe(context, &name, deleting).await?;
    }
    Ok(Observed {
        status: context.status.current(object.as_ref(), object.status.as_ref()),
        name,
        paused,
        deleting,
        finalizer,
        orphans,
        infrastructure,
        control_plane,
        workers,
        object,
    })
}

fn paused(object: &Cluster) -> Option<String> {
    let field = object.spec.paused == Some(true);
    let note = object.annotations().contains_key(annotations::PAUSED);
    let by = [
        field.then(|| "spec.paused is true".to_owned()),
        note.then(|| format!("the annotation {} is set", annotations::PAUSED)),
    ];
    let by: Vec<String> = by.into_iter().flatten().collect();
    (!by.is_empty()).then(|| by.join("; "))
}
