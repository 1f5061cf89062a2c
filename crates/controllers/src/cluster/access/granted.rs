//! Tokens that are signed with credentials of another namespace.
//!
//! A grant lets a tenant run the owner's module with the owner's credentials. Which cluster a token opens is therefore what that module
//! returned, as the engine has it: no Secret, status, annotation or name that the tenant can write decides it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use capt_api::conditions::reasons;
use capt_api::names::annotations;
use capt_api::workspace::{WorkspaceTemplate, WorkspaceTemplateApply};
use kube::ResourceExt;

use super::recipe::{self, EksCluster, Material};
use super::{AccessContext, AccessRequest, Problem};
use crate::runtime::{Error, Looker, Name};
use crate::workspace::apply::said;

/// Outputs of modules, by control plane: while a change is applied, which may take longer than a token lives, nothing else is known.
#[derive(Debug, Default)]
pub struct Said(Mutex<HashMap<Name, Returned>>);

#[derive(Debug)]
struct Returned {
    /// The instance, which has one template for ever.
    instance: Option<String>,
    cluster: EksCluster,
}

impl Said {
    fn note(&self, name: Name, instance: &WorkspaceTemplateApply, cluster: EksCluster) {
        let returned = Returned { instance: instance.uid(), cluster };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(name, returned);
    }

    fn last(&self, name: &Name, instance: &WorkspaceTemplateApply) -> Option<EksCluster> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(name).filter(|last| last.instance == instance.uid()).map(|last| last.cluster.clone())
    }

    pub fn forget(&self, name: &Name) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
    }
}

/// The cluster that a token may be made for: the one that was found, and where the template is in another namespace, the one that its module
/// returned.
pub async fn confirmed(
    context: &AccessContext,
    looker: &mut Looker,
    request: &AccessRequest<'_>,
    template: &Result<Arc<WorkspaceTemplate>, Name>,
    found: EksCluster,
) -> Result<Result<EksCluster, Problem>, Error> {
    let plane = Name::of(request.control_plane);
    let Ok(template) = template else { return Ok(Ok(found)) };
    let named = Name::of(template.as_ref());
    if named.namespace == plane.namespace || context.workspaces.grants.is_open() {
        return Ok(Ok(found));
    }
    let shown = named.seen_from(&plane.namespace);
    let refused = |problem: Problem| Problem {
        message: format!(
            "the credentials of WorkspaceTemplate {shown} sign tokens of EKS only for what its module returns: {}",
            problem.message
        ),
        ..problem
    };
    let waiting = |message: &str| {
        let reason = reasons::WAITING_FOR_WORKSPACE;
        Ok(Err(refused(Problem { reason, message: message.to_owned(), waiting: true })))
    };
    let Some(instance) = request.workspace else { return waiting("its workspace does not exist yet") };
    if Name::mentioned(&instance.spec.template_ref, &plane.namespace) != named {
        return waiting("its workspace is of another template");
    }
    let Some(outputs) = said::outputs(&context.workspaces, looker, instance).await? else {
        let last = context.said.last(&plane, instance);
        return last
            .map_or_else(|| waiting("its workspace is not applied as it is now"), |last| Ok(Ok(last)));
    };
    let shared = template.annotations().get(annotations::CLUSTER_AUTH).map(String::as_str);
    let returned = recipe::returned(&Material::said(&outputs), shared);
    match &returned {
        Ok(cluster) => context.said.note(plane, instance, cluster.clone()),
        Err(_) => context.said.forget(&plane),
    }
    Ok(returned.map_err(refused))
}
