//! The only place that changes anything for a Cluster but its status.

use capt_api::names::finalizers;
use capt_planner::cluster::core::{ClusterObservation, ClusterStep};
use serde_json::json;

use super::ClusterContext;
use super::workers;
use crate::owned_workspace::OwnerChanges;
use crate::runtime::{Error, Name};

/// Carries out what was decided.
pub async fn act(
    context: &ClusterContext,
    observed: &ClusterObservation,
    steps: &[ClusterStep],
) -> Result<OwnerChanges, Error> {
    let mut acted = OwnerChanges::default();
    let object = observed.object.as_ref();
    let name = Name::of(object);
    let namespace = &name.namespace;
    for step in steps {
        match step {
            ClusterStep::Hold => drop(context.writer.hold(object, finalizers::CORE_CLUSTER).await?),
            ClusterStep::Adopt(part, metadata) => context.parts.adopt(namespace, part, metadata).await?,
            ClusterStep::SetEndpoint(endpoint) => {
                let body = json!({"spec": {"controlPlaneEndpoint": endpoint}});
                acted.generation = context.writer.merge(object, body).await?.metadata.generation;
            }
            ClusterStep::DeleteWorkers(due) => {
                for worker in due {
                    workers::delete(&context.writer, namespace, worker).await?;
                }
            }
            ClusterStep::Delete(part) => context.parts.delete(namespace, part).await?,
            ClusterStep::Release => {
                context.writer.release(object, finalizers::CORE_CLUSTER).await?;
                context.status.forget(&name);
                acted.released = true;
            }
        }
    }
    Ok(acted)
}
