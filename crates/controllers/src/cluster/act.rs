//! The only place that changes anything for a network or a control plane but its status.

use capt_api::names::annotations;
use capt_planner::cluster::{ClusterPartStep, News};
use kube::ResourceExt;
use serde_json::{Value, json};

use super::context::{ClusterPartContext, cluster_of};
use super::core::workers;
use crate::owned_workspace::{OwnerActions, OwnerChanges};
use crate::runtime::events::Note;
use crate::runtime::{Error, Kind};

/// Value of the annotation by which `clusterctl move` is kept away.
const RUN_UNDER_WAY: &str = "capt: a run is under way";

/// Carries out the steps of one network or control plane.
pub struct ClusterPartActions<'a, K> {
    pub context: &'a ClusterPartContext,
    /// Those of the owner of a workspace.
    pub owner: OwnerActions<'a, K>,
}

impl<K: Kind> ClusterPartActions<'_, K> {
    /// Carries out one step.
    pub async fn act(&self, step: &ClusterPartStep) -> Result<OwnerChanges, Error> {
        match step {
            ClusterPartStep::Workspace(step) => return self.owner.act(*step).await,
            ClusterPartStep::HandEndpoint(endpoint) => {
                let body = json!({"spec": {"controlPlaneEndpoint": endpoint}});
                let stored = self.context.writer.merge(self.owner.object, body).await?;
                return Ok(OwnerChanges {
                    generation: stored.metadata.generation,
                    ..OwnerChanges::default()
                });
            }
            ClusterPartStep::DismissWorkers => self.dismiss().await?,
        }
        Ok(OwnerChanges::default())
    }

    /// Keeps `clusterctl move` away while a run is under way.
    pub async fn guard_move(&self, running: bool) -> Result<(), Error> {
        let guarded = self.owner.object.annotations().get(annotations::BLOCK_MOVE);
        let value = match guarded {
            None if running => json!(RUN_UNDER_WAY),
            // Somebody else's reason to stay is left alone.
            Some(by) if !running && by == RUN_UNDER_WAY => Value::Null,
            _ => return Ok(()),
        };
        let body = json!({"metadata": {"annotations": {annotations::BLOCK_MOVE: value}}});
        self.context.writer.merge(self.owner.object, body).await.map(drop)
    }

    /// Publishes news as an event.
    pub fn publish(&self, news: &News) {
        let (reason, text) = (news.reason.clone(), news.message.clone());
        let note = if news.warning {
            Note::warning(reason, "Reconcile", text)
        } else {
            Note::normal(reason, "Reconcile", text)
        };
        self.tell(&note);
    }

    fn tell(&self, note: &Note) {
        self.context.events.publish(self.owner.object, note);
    }

    async fn dismiss(&self) -> Result<(), Error> {
        let Some(cluster) = cluster_of(self.owner.object) else { return Ok(()) };
        for worker in self.context.due(&cluster) {
            workers::delete(&self.context.writer, &cluster.namespace, &worker).await?;
            let text = format!("{} {} goes with Cluster {}", worker.kind.as_str(), worker.name, cluster.name);
            self.tell(&Note::normal("DeletedWorker", "Delete", text));
        }
        Ok(())
    }
}
