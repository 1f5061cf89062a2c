//! Observation of one Cluster.

use std::sync::Arc;

use capt_api::cluster::core::Cluster;
use capt_api::names::{annotations, finalizers};
use capt_planner::cluster::core::{ClusterObservation, ClusterPart, Workers};
use kube::ResourceExt;

use super::ClusterContext;
use super::workers;
use crate::runtime::{Error, Name};

/// Observes. A Cluster that is paused is not looked into any further.
pub async fn observe(context: &ClusterContext, object: Arc<Cluster>) -> Result<ClusterObservation, Error> {
    let name = Name::of(object.as_ref());
    let has = |wanted: &str| object.finalizers().iter().any(|known| known == wanted);
    let (finalizer, orphans) = (has(finalizers::CORE_CLUSTER), has("orphan"));
    let deleting = object.metadata.deletion_timestamp.is_some();
    let paused = paused(&object);
    let (mut infrastructure, mut control_plane, mut workers) =
        (ClusterPart::None, ClusterPart::None, Workers::default());
    if paused.is_none() {
        infrastructure = context.parts.find(object.spec.infrastructure_ref.as_ref(), &object).await?;
        control_plane = context.parts.find(object.spec.control_plane_ref.as_ref(), &object).await?;
        workers = workers::observe(context, &name, deleting).await?;
    }
    Ok(ClusterObservation {
        status: context.status.current(object.as_ref(), object.status.as_ref()),
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
