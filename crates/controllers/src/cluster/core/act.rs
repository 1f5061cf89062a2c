//! The only place that changes anything for a Cluster but its status.

use capt_api::names::finalizers;
use serde_json::json;

use super::Context;
use super::decide::Step;
use super::observe::Observed;
use super::workers;
use crate::runtime::Error;

/// What was done.
#[derive(Debug, Default)]
pub struct Acted {
    /// The Cluster is gone, or soon will be.
    pub released: bool,
    /// The generation that the Cluster has now, where that changed.
    pub generation: Option<i64>,
}

/// Does what was decided.
pub async fn act(context: &Context, observed: &Observed, steps: &[Step]) -> Result<Acted, Error> {
    let mut acted = Acted::default();
    let object = observed.object.as_ref();
    let namespace = &observed.name.namespace;
    for step in steps {
        match step {
            Step::Hold => drop(context.writer.hold(object, finalizers::CORE_CLUSTER).await?),
            Step::Adopt(part, metadata) => context.parts.adopt(namespace, part, metadata).await?,
            Step::Endpoint(endpoint) => {
                let body = json!({"spec": {"controlPlaneEndpoint": endpoint}});
                acted.generation = context.writer.merge(object, body).await?.metadata.generation;
            }
            Step::DeleteWorkers(due) => {
                for worker in due {
                    workers::delete(&context.writer, namespace, worker).await?;
                }
            }
            Step::Delete(part) => context.parts.delete(namespace, part).await?,
            Step::Release => {
                context.writer.release(object, finalizers::CORE_CLUSTER).await?;
                context.status.forget(&observed.name);
                acted.released = true;
            }
        }
    }
    Ok(acted)
}
