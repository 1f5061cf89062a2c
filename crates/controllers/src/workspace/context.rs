//! What the workspace controllers work with.

use std::sync::Arc;

use capt_api::workspace::{
    WorkspaceProviderConfig, WorkspaceProviderConfigStatus, WorkspaceTemplate, WorkspaceTemplateApply,
    WorkspaceTemplateApplyStatus, WorkspaceTemplateStatus,
};
use capt_terraform::Engine;
use capt_terraform::order::WorkspaceId;
use capt_terraform::view::View;
use kube::Client;

use super::apply::backends::Backends;
use super::apply::history::RunHistory;
use super::keeper::SecretKeeper;
use crate::runtime::backoff::Backoff;
use crate::runtime::events::Events;
use crate::runtime::status::StatusWriter;
use crate::runtime::{Cache, Clock, Error, Interests, Name};

/// Field manager of what these controllers write.
pub const MANAGER: &str = "capt-workspaces";

/// What the workspace controllers work with.
pub struct Context {
    /// Talks to the API.
    pub client: Client,
    /// Runs Terraform.
    pub engine: Engine,
    /// Keeps states in Secrets, where the engine has such a keeper.
    pub keeper: Option<Arc<SecretKeeper>>,
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
    /// How long to wait after a run that failed.
    pub backoff: Backoff,
    /// Writes events.
    pub events: Events,
    /// All templates.
    pub templates: Cache<WorkspaceTemplate>,
    /// All instances.
    pub applies: Cache<WorkspaceTemplateApply>,
    /// All provider configs.
    pub configs: Cache<WorkspaceProviderConfig>,
    /// What each instance looked at.
    pub interests: Arc<Interests>,
    /// What each provider config looked at.
    pub config_interests: Arc<Interests>,
    /// How the runs of each instance went.
    pub history: RunHistory,
    /// Backends that instances use.
    pub backends: Backends,
    /// Writes the status of instances.
    pub apply_status: StatusWriter<WorkspaceTemplateApplyStatus>,
    /// Writes the status of templates.
    pub template_status: StatusWriter<WorkspaceTemplateStatus>,
    /// Writes the status of provider configs.
    pub config_status: StatusWriter<WorkspaceProviderConfigStatus>,
}

impl Context {
    /// How the workspace of an instance stands. Read from where it is kept, if this process has not seen it yet: after a
    /// restart a workspace that nobody opened would look as if it had never been.
    pub async fn open(&self, name: &Name) -> Result<View, Error> {
        self.engine.open(&workspace_id(name)).await.map_err(|error| Error::Engine {
            attempt: format!("open workspace {name}"),
            problem: error.to_string(),
        })
    }
}

/// What the engine calls the workspace of an instance. Two instances never share one, in whatever namespaces they
/// are; and one that is created again under its old name finds what was retained.
pub fn workspace_id(name: &Name) -> WorkspaceId {
    WorkspaceId::new(format!("{}/{}", name.namespace, name.name))
}

/// The instance that a workspace belongs to.
pub fn instance_of(workspace: &WorkspaceId) -> Option<Name> {
    let (namespace, name) = workspace.as_str().split_once('/')?;
    Some(Name::new(namespace, name))
}
