//! WorkspaceProviderConfig: says whether what it names is there, before somebody needs it.

use std::sync::Arc;

use capt_api::conditions::{reasons, types};
use capt_api::workspace::{WorkspaceProviderConfig, WorkspaceProviderConfigStatus};
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, ResourceExt};

use super::apply::prepare::choice;
use super::context::WorkspaceContext;
use crate::runtime::conditions::Conditions;
use crate::runtime::queue::Next;
use crate::runtime::{Error, Name, Referrer, Refused};

/// Looks at one provider config.
pub async fn reconcile(
    context: Arc<WorkspaceContext>,
    object: Arc<WorkspaceProviderConfig>,
) -> Result<Next, Error> {
    if object.metadata.deletion_timestamp.is_some() {
        context.config_status.forget(&Name::of(object.as_ref()));
        return Ok(Next::OnChange);
    }
    let current = context.config_status.current(object.as_ref(), object.status.as_ref());
    let old = current.clone().unwrap_or_default();
    let mut conditions = Conditions::new(&old.conditions, object.metadata.generation, context.clock.now());
    let binary = context.executor.binary(&choice(&object)).await;
    let missing = missing_secrets(&context, &object).await?;
    match (&binary, missing) {
        (Err(failure), _) => {
            conditions.set(types::READY, false, failure.reason.as_str(), failure.message.clone());
        }
        (Ok(_), Err(refused)) => conditions.set(types::READY, false, refused.reason, refused.message),
        (Ok(_), Ok(missing)) if missing.is_empty() => {
            conditions.set(types::READY, true, reasons::READY, "what it names is there");
        }
        (Ok(_), Ok(missing)) => {
            conditions.set(types::READY, false, reasons::SECRET_NOT_FOUND, missing.join("; "));
        }
    }
    let status = WorkspaceProviderConfigStatus {
        observed_generation: object.metadata.generation,
        binary: binary.ok().map(|binary| format!("{} {}", binary.name, binary.version)),
        conditions: conditions.into_list(),
    };
    context.config_status.write(&context.client, object.as_ref(), current.as_ref(), status).await?;
    Ok(Next::OnChange)
}

/// Secrets that are not there; or the first that the config may not even ask for.
async fn missing_secrets(
    context: &WorkspaceContext,
    object: &WorkspaceProviderConfig,
) -> Result<Result<Vec<String>, Refused>, Error> {
    let beside = object.namespace().unwrap_or_default();
    let mut looker = context.config_interests.looker(Name::of(object));
    let mut missing = Vec::new();
    for credential in &object.spec.credentials {
        let reference = &credential.secret_ref;
        let named = Name::new(reference.namespace.as_deref().unwrap_or(&beside), reference.name.clone());
        let from = Referrer::of::<WorkspaceProviderConfig>(&beside);
        let name = match context.grants.read::<Secret>(&mut looker, from, named) {
            Ok(name) => name,
            Err(refused) => return Ok(Err(refused)),
        };
        looker.at("Secret", &name);
        let api: Api<Secret> = Api::namespaced(context.client.clone(), &name.namespace);
        let found = api.get_opt(&name.name).await.map_err(Error::api(format!("read Secret {name}")))?;
        let shown = name.seen_from(&beside);
        match found.map(|secret| secret.data.unwrap_or_default().contains_key(&reference.key)) {
            Some(true) => {}
            Some(false) => missing.push(format!("Secret {shown} has no key {:?}", reference.key)),
            None => missing.push(format!("Secret {shown} does not exist")),
        }
    }
    Ok(Ok(missing))
}
