//! The one workspace that a machine, a node group, a network or a control plane owns: carries out what
//! [`capt_planner::owned_workspace`] decides for it.

use std::collections::BTreeMap;
use std::sync::Arc;

use capt_api::workspace::WorkspaceTemplateApply;
use capt_planner::owned_workspace::{
    Kinship, OwnerStep, WantedWorkspace, builds, kinship, paused, resumed, retained,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::ResourceExt;
use serde_json::{Map, json};

use crate::runtime::events::{Events, Note};
use crate::runtime::status::version;
use crate::runtime::{Error, Expectations, Kind, Name, Writer};

/// A reference to a controlling owner.
pub fn owner<K: Kind>(parent: &K) -> Option<OwnerReference> {
    let mut owner = parent.controller_owner_ref(&())?;
    owner.block_owner_deletion = Some(true);
    Some(owner)
}

/// Changes that were made for an owner.
#[derive(Debug, Default)]
pub struct OwnerChanges {
    /// The owner is gone, or soon will be.
    pub released: bool,
    /// The generation that the owner has now, where that changed.
    pub generation: Option<i64>,
}

/// Carries out the steps of one owner. Nothing else writes to a workspace for its owner.
pub struct OwnerActions<'a, K> {
    /// Talks to the API.
    pub writer: &'a Writer,
    /// Writes events.
    pub events: &'a Events,
    /// Writes to workspaces that the cache may not show yet.
    pub writes: &'a Expectations<WorkspaceTemplateApply>,
    /// The owner.
    pub object: &'a K,
    /// Its name.
    pub name: &'a Name,
    /// The finalizer that it has while it may own something.
    pub finalizer: &'static str,
    /// Labels that it gets with the finalizer.
    pub labels: BTreeMap<&'static str, &'a str>,
    /// Name of its workspace.
    pub child: &'a Name,
    /// Its workspace as it should be; none where nobody knows.
    pub wanted: Option<&'a WantedWorkspace>,
    /// Its workspace as it is.
    pub existing: Option<&'a Arc<WorkspaceTemplateApply>>,
    /// True if its infrastructure is left alone when it goes.
    pub leaves: bool,
}

impl<K: Kind> OwnerActions<'_, K> {
    /// Carries out one step.
    pub async fn act(&self, step: OwnerStep) -> Result<OwnerChanges, Error> {
        match (step, self.existing) {
            (OwnerStep::Hold, _) => self.hold().await?,
            (OwnerStep::Create, _) => self.create().await?,
            (OwnerStep::Correct, Some(existing)) => {
                self.replace(self.wanted.and_then(|wanted| wanted.correction(existing))).await?;
            }
            (OwnerStep::Pause, Some(existing)) => self.replace(paused(existing)).await?,
            (OwnerStep::Resume, Some(existing)) => self.replace(resumed(existing)).await?,
            (OwnerStep::Delete, Some(existing)) => self.delete(existing).await?,
            (OwnerStep::Retain, Some(existing)) => {
                self.replace(Some(retained(existing, self.object.meta()))).await?;
                let text = format!("workspace {} stays, with what it built", self.child.name);
                self.tell(&Note::normal("RetainedWorkspace", "Delete", text));
            }
            (OwnerStep::Release, _) => return self.release().await,
            // Nothing is decided about a workspace that is not there.
            (OwnerStep::Rest, _) | (_, None) => {}
        }
        Ok(OwnerChanges::default())
    }

    fn tell(&self, note: &Note) {
        self.events.publish(self.object, note);
    }

    /// Before anything is built: the finalizer, and the labels; one write for both.
    async fn hold(&self) -> Result<(), Error> {
        let mut metadata = Map::new();
        if !self.object.finalizers().iter().any(|known| known == self.finalizer) {
            let mut all = self.object.finalizers().to_vec();
            all.push(self.finalizer.to_owned());
            metadata.insert("finalizers".to_owned(), json!(all));
        }
        if !self.labels.is_empty() {
            metadata.insert("labels".to_owned(), json!(self.labels));
        }
        if !metadata.is_empty() {
            self.writer.metadata(self.object, metadata).await?;
        }
        Ok(())
    }

    async fn create(&self) -> Result<(), Error> {
        let Some(wanted) = self.wanted else { return Ok(()) };
        self.hold().await?;
        let made = self.writer.create(&wanted.object()).await;
        match &made {
            Ok(made) => self.writes.wrote(self.name, self.child.clone(), version(made)),
            Err(_) => self.writes.unknown(self.name, self.child.clone()),
        }
        made?;
        self.tell(&Note::normal("CreatedWorkspace", "Create", builds(&self.child.name)));
        Ok(())
    }

    async fn replace(&self, changed: Option<WorkspaceTemplateApply>) -> Result<(), Error> {
        let Some(changed) = changed else { return Ok(()) };
        let stored = self.writer.replace(&changed).await?;
        self.writes.wrote(self.name, self.child.clone(), version(&stored));
        Ok(())
    }

    async fn delete(&self, existing: &WorkspaceTemplateApply) -> Result<(), Error> {
        let outcome = self.writer.delete_seen(existing).await?;
        let uid = existing.uid().unwrap_or_default();
        self.writes.deleted(self.name, self.child.clone(), &uid, outcome);
        let text = format!("workspace {} is destroyed", self.child.name);
        self.tell(&Note::normal("DeletedWorkspace", "Delete", text));
        Ok(())
    }

    /// Removes the finalizer. The cache may not show a workspace that was made a moment ago by a process that is no more.
    async fn release(&self) -> Result<OwnerChanges, Error> {
        let orphans = self.object.finalizers().iter().any(|known| known == "orphan");
        if !orphans
            && !self.leaves
            && let Some(found) = self.writer.read::<WorkspaceTemplateApply>(self.child).await?
            && kinship(&found.metadata, self.object.meta()) == Kinship::Ours
        {
            self.delete(&found).await?;
            return Ok(OwnerChanges::default());
        }
        self.writer.release(self.object, self.finalizer).await?;
        self.writes.forget(self.name);
        Ok(OwnerChanges { released: true, ..OwnerChanges::default() })
    }
}
