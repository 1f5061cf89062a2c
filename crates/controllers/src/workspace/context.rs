//! Context of the workspace controllers.

use std::sync::Arc;

use capt_api::workspace::{
    BackendKind, WorkspaceProviderConfig, WorkspaceProviderConfigStatus, WorkspaceTemplate,
    WorkspaceTemplateApply, WorkspaceTemplateApplyStatus, WorkspaceTemplateStatus,
};
use capt_terraform::Executor;
use capt_terraform::executor::WorkspaceError;
use capt_terraform::order::WorkspaceId;
use capt_terraform::state_backend::StateBackendError;
use capt_terraform::view::View;
use kube::Client;

use super::apply::backends::Backends;
use super::apply::history::RunHistory;
use super::state_secrets::SecretStateBackend;
use crate::runtime::backoff::Backoff;
use crate::runtime::events::Events;
use crate::runtime::metrics::Metrics;
use crate::runtime::status::StatusWriter;
use crate::runtime::{Cache, Clock, DependencyIndex, Error, Grants, Name};

/// Field manager of what these controllers write.
pub const MANAGER: &str = "capt-workspaces";

/// Clients, caches and writers of the workspace controllers.
pub struct WorkspaceContext {
    /// Talks to the API.
    pub client: Client,
    /// Runs Terraform.
    pub executor: Arc<dyn Executor>,
    /// Keeps states in Secrets, where the engine has such a state backend.
    pub state_backend: Option<Arc<SecretStateBackend>>,
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
    /// Delay before a run that failed is tried again.
    pub backoff: Backoff,
    /// Writes events.
    pub events: Events,
    /// Counters of the controllers.
    pub metrics: Arc<Metrics>,
    /// All templates.
    pub templates: Cache<WorkspaceTemplate>,
    /// All instances.
    pub applies: Cache<WorkspaceTemplateApply>,
    /// All provider configs.
    pub configs: Cache<WorkspaceProviderConfig>,
    /// Grants for references to other namespaces.
    pub grants: Grants,
    /// Objects that each instance depends on.
    pub dependents: Arc<DependencyIndex>,
    /// Objects that each provider config depends on.
    pub config_interests: Arc<DependencyIndex>,
    /// History of the runs of each instance.
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

impl WorkspaceContext {
    /// Opens the workspace of an instance. It is read from where it is kept, if this process has not seen it yet: after a restart a
    /// workspace that nobody opened would look as if it had never been.
    pub async fn open(&self, name: &Name) -> Result<View, Error> {
        self.expect(name);
        self.executor.adopt(&workspace_id(name)).await.map_err(|error| Error::Engine {
            attempt: format!("open workspace {name}"),
            problem: error.to_string(),
        })
    }

    /// Takes up again what was retained when an earlier object of this name went.
    pub async fn take_up(&self, name: &Name) -> Result<(), Error> {
        self.executor.take_up(&workspace_id(name)).await.map_err(|error| Error::Engine {
            attempt: format!("take up workspace {name}"),
            problem: error.to_string(),
        })
    }

    /// Tells the state backend where the state of an instance is: Secrets that nothing is kept in are not read, though somebody gave them such a
    /// name.
    fn expect(&self, name: &Name) {
        if let (Some(state_backend), Some(backend)) = (&self.state_backend, self.backend_of(name)) {
            state_backend.expect(&workspace_id(name), backend);
        }
    }

    /// Makes the workspace of another instance known to the engine, as far as nobody but a controller can say how it stands. What is
    /// damaged, or looks as if another controller were still at it, says nothing: whoever may write Secrets beside the instance can have
    /// made it look so.
    pub async fn look_at(&self, name: &Name) -> Result<Option<View>, Error> {
        self.expect(name);
        match self.executor.adopt(&workspace_id(name)).await {
            Ok(view) => Ok(Some(view)),
            Err(error @ WorkspaceError::StateBackend(StateBackendError::Failed(_))) => {
                Err(Error::Engine { attempt: format!("open workspace {name}"), problem: error.to_string() })
            }
            Err(_) => Ok(None),
        }
    }

    /// Makes the workspaces of all instances known to the engine.
    pub async fn look_at_all(&self) -> Result<(), Error> {
        for name in self.applies.names() {
            self.look_at(&name).await?;
        }
        Ok(())
    }

    /// Returns true if an instance has begun to build.
    pub async fn has_begun(&self, name: &Name) -> Result<bool, Error> {
        Ok(self.look_at(name).await?.is_some_and(|view| view.begun))
    }

    /// Returns the kind of backend that the provider config of an instance wants for states; none while it or the template is not
    /// there, or not granted: what there is in another namespace must not show in what becomes of the instance.
    fn backend_of(&self, name: &Name) -> Option<BackendKind> {
        let object = self.applies.get(name)?;
        let template = Name::mentioned(&object.spec.template_ref, &name.namespace);
        if !self.grants.admitted::<WorkspaceTemplateApply, WorkspaceTemplate>(name, &template) {
            return None;
        }
        let spec = &self.templates.get(&template)?.spec.template.spec;
        let Some(config) = &spec.provider_config_ref else { return Some(BackendKind::Auto) };
        let config = Name::new(template.namespace, config.name.clone());
        if !self.grants.admitted::<WorkspaceTemplateApply, WorkspaceProviderConfig>(name, &config) {
            return None;
        }
        Some(self.configs.get(&config)?.spec.backend.kind)
    }
}

/// Returns the engine's name of the workspace of an instance. Two instances never share one, in whatever namespaces they
/// are; and one that is created again under its old name finds what was retained.
pub fn workspace_id(name: &Name) -> WorkspaceId {
    WorkspaceId::new(format!("{}/{}", name.namespace, name.name))
}

/// The instance that a workspace belongs to.
pub fn instance_of(workspace: &WorkspaceId) -> Option<Name> {
    let (namespace, name) = workspace.as_str().split_once('/')?;
    Some(Name::new(namespace, name))
}
