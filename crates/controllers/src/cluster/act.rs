//! The only place that changes anything for a network or a control plane but its status.

use std::sync::Arc;

use capt_api::names::annotations;
use capt_api::workspace::WorkspaceTemplateApply;
use capt_planner::cluster::{News, Step};
use kube::ResourceExt;
use serde_json::{Value, json};

use super::context::{Context, cluster_of};
use super::core::workers;
use crate::owned_workspace::{self, Kinship, Wanted};
use crate::runtime::events::Note;
use crate::runtime::status::version;
use crate::runtime::{Error, Expectations, Kind, Name};

/// Value of the annotation by which `clusterctl move` is kept away.
const RUN_UNDER_WAY: &str = "capt: a run is under way";

/// One object, its workspace, and how its writes are noted.
pub struct Hands<'a, K> {
    pub context: &'a Context,
    pub object: &'a K,
    pub name: &'a Name,
    pub finalizer: &'static str,
    /// Name of its workspace.
    pub child: &'a Name,
    /// What its workspace should be; none where nobody knows.
    pub wanted: Option<&'a Wanted>,
    /// Its workspace as it is.
    pub existing: Option<&'a Arc<WorkspaceTemplateApply>>,
    pub writes: &'a Expectations<WorkspaceTemplateApply>,
    /// What it built is left alone.
    pub leaves: bool,
}

/// What was done.
#[derive(Debug, Default)]
pub struct Acted {
    /// The object is gone, or soon will be.
    pub released: bool,
    /// The generation that the object has now, where that changed.
    pub generation: Option<i64>,
}

impl<K: Kind> Hands<'_, K> {
    /// Does what was decided.
    pub async fn act(&self, step: &Step) -> Result<Acted, Error> {
        let writer = &self.context.writer;
        match step {
            Step::Rest => {}
            Step::Hold => drop(writer.hold(self.object, self.finalizer).await?),
            Step::Create => self.create().await?,
            Step::Correct => {
                if let (Some(wanted), Some(existing)) = (self.wanted, self.existing)
                    && let Some(changed) = wanted.correction(existing)
                {
                    self.replace(&changed).await?;
                }
            }
            Step::Pause => {
                if let Some(changed) = self.existing.and_then(|existing| owned_workspace::paused(existing)) {
                    self.replace(&changed).await?;
                }
            }
            Step::Resume => {
                if let Some(changed) = self.existing.and_then(|existing| owned_workspace::resumed(existing)) {
                    self.replace(&changed).await?;
                }
            }
            Step::Hand(endpoint) => {
                let body = json!({"spec": {"controlPlaneEndpoint": endpoint}});
                let stored = writer.merge(self.object, body).await?;
                return Ok(Acted { generation: stored.metadata.generation, ..Acted::default() });
            }
            Step::Dismiss => self.dismiss().await?,
            Step::Delete => {
                if let Some(existing) = self.existing {
                    self.delete(&existing.uid().unwrap_or_default()).await?;
                }
            }
            Step::Retain => {
                if let Some(existing) = self.existing {
                    self.replace(&owned_workspace::retained(existing.as_ref(), self.object)).await?;
                    let text = format!("workspace {} stays, with what it built", self.child.name);
                    self.tell(&Note::normal("RetainedWorkspace", "Delete", text));
                }
            }
            Step::Release => return self.release().await,
        }
        Ok(Acted::default())
    }

    /// Keeps `clusterctl move` away while a run is under way; whether anything was written.
    pub async fn guard_move(&self, running: bool) -> Result<(), Error> {
        let guarded = self.object.annotations().get(annotations::BLOCK_MOVE);
        let value = match guarded {
            None if running => json!(RUN_UNDER_WAY),
            // Somebody else's reason to stay is left alone.
            Some(by) if !running && by == RUN_UNDER_WAY => Value::Null,
            _ => return Ok(()),
        };
        let body = json!({"metadata": {"annotations": {annotations::BLOCK_MOVE: value}}});
        self.context.writer.merge(self.object, body).await.map(drop)
    }

    /// Tells what is news.
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
        self.context.events.publish(self.object, note);
    }

    async fn create(&self) -> Result<(), Error> {
        let Some(wanted) = self.wanted else { return Ok(()) };
        let writer = &self.context.writer;
        if !self.object.finalizers().iter().any(|known| known == self.finalizer) {
            writer.hold(self.object, self.finalizer).await?;
        }
        let made = writer.create(&wanted.object()).await;
        match &made {
            Ok(made) => self.writes.wrote(self.name, self.child.clone(), version(made)),
            Err(_) => self.writes.unknown(self.name, self.child.clone()),
        }
        made?;
        let text = format!("workspace {} builds it", self.child.name);
        self.tell(&Note::normal("CreatedWorkspace", "Create", text));
        Ok(())
    }

    async fn replace(&self, changed: &WorkspaceTemplateApply) -> Result<(), Error> {
        let stored = self.context.writer.replace(changed).await?;
        self.writes.wrote(self.name, self.child.clone(), version(&stored));
        Ok(())
    }

    async fn dismiss(&self) -> Result<(), Error> {
        let Some(cluster) = cluster_of(self.object) else { return Ok(()) };
        for worker in self.context.due(&cluster) {
            workers::delete(&self.context.writer, &cluster.namespace, &worker).await?;
            let text = format!("{} {} goes with Cluster {}", worker.kind.as_str(), worker.name, cluster.name);
            self.tell(&Note::normal("DeletedWorker", "Delete", text));
        }
        Ok(())
    }

    async fn delete(&self, uid: &str) -> Result<(), Error> {
        let outcome = self.context.writer.delete::<WorkspaceTemplateApply>(self.child, uid).await?;
        self.writes.deleted(self.name, self.child.clone(), uid, outcome);
        let text = format!("workspace {} is destroyed", self.child.name);
        self.tell(&Note::normal("DeletedWorkspace", "Delete", text));
        Ok(())
    }

    /// Removes the finalizer. The cache may not show a workspace that was made a moment ago by a process that is no more.
    async fn release(&self) -> Result<Acted, Error> {
        let orphans = self.object.finalizers().iter().any(|known| known == "orphan");
        if !orphans
            && !self.leaves
            && let Some(found) = self.context.writer.read::<WorkspaceTemplateApply>(self.child).await?
            && owned_workspace::kinship(&found, self.object) == Kinship::Ours
        {
            self.delete(&found.uid().unwrap_or_default()).await?;
            return Ok(Acted::default());
        }
        self.context.writer.release(self.object, self.finalizer).await?;
        self.writes.forget(self.name);
        Ok(Acted { released: true, ..Acted::default() })
    }
}
