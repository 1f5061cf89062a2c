//! The connection Secret: all outputs of a workspace, sensitive ones included.

use std::collections::BTreeMap;

use capt_api::names::annotations;
use capt_terraform::state::{Output, Outputs};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{DeleteParams, ObjectMeta, Patch, PatchParams, Preconditions};
use kube::{Api, Resource, ResourceExt};

use super::super::context::{Context, MANAGER};
use super::observe::Observed;
use crate::runtime::events::Note;
use crate::runtime::{Error, Name};

/// Says whose outputs a Secret holds: namespace and name of the instance.
const OF: &str = "infrastructure.cluster.x-k8s.io/workspace";

/// Writes the outputs, where they are not there already.
pub async fn write(context: &Context, observed: &Observed) -> Result<(), Error> {
    let Some(name) = observed.prepared.as_ref().ok().and_then(|prepared| prepared.connection.clone()) else {
        return Ok(());
    };
    let api: Api<Secret> = Api::namespaced(context.client.clone(), &name.namespace);
    let found = api.get_opt(&name.name).await.map_err(Error::api(format!("read Secret {name}")))?;
    let wanted = data(&observed.view.outputs);
    if let Some(found) = &found {
        if !is_ours(found, &observed.name) {
            let text = format!("Secret {name} belongs to somebody else: outputs are not written to it");
            context.events.publish(observed.object.as_ref(), &Note::warning("SecretError", "Write", text));
            return Ok(());
        }
        if found.data.clone().unwrap_or_default() == wanted {
            return Ok(());
        }
    }
    let secret = Secret {
        metadata: ObjectMeta {
            name: Some(name.name.clone()),
            annotations: Some([(OF.to_owned(), observed.name.to_string())].into()),
            // An owner in another namespace would let the garbage collector take the Secret at once.
            owner_references: (name.namespace == observed.name.namespace).then(|| vec![owner(observed)]),
            ..ObjectMeta::default()
        },
        type_: Some("Opaque".into()),
        data: Some(wanted),
        ..Secret::default()
    };
    let params = PatchParams::apply(MANAGER).force();
    api.patch(&name.name, &params, &Patch::Apply(&secret))
        .await
        .map_err(Error::api(format!("write Secret {name}")))?;
    Ok(())
}

/// The Secret that is to be in another namespace, where no garbage collector removes it; nothing where that is not known.
pub fn elsewhere(observed: &Observed) -> Option<Option<Name>> {
    let wanted = observed.prepared.as_ref().ok()?.connection.clone();
    Some(wanted.filter(|name| name.namespace != observed.name.namespace))
}

/// The Secret in another namespace that was written last, or is about to be: the template that named it may be gone.
pub fn noted(observed: &Observed) -> Option<Name> {
    let (namespace, name) =
        observed.object.annotations().get(annotations::CONNECTION_SECRET)?.split_once('/')?;
    Some(Name::new(namespace, name)).filter(|name| name.namespace != observed.name.namespace)
}

/// Removes a Secret in another namespace, if it is this instance's.
pub async fn remove(context: &Context, observed: &Observed, name: &Name) -> Result<(), Error> {
    let api: Api<Secret> = Api::namespaced(context.client.clone(), &name.namespace);
    let attempt = || format!("delete Secret {name}");
    let Some(found) = api.get_opt(&name.name).await.map_err(Error::api(attempt()))? else { return Ok(()) };
    if !is_ours(&found, &observed.name) {
        return Ok(());
    }
    let exactly = Preconditions { uid: found.uid(), resource_version: None };
    let params = DeleteParams { preconditions: Some(exactly), ..DeleteParams::default() };
    match api.delete(&name.name, &params).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        Err(error) => Err(Error::api(attempt())(error)),
    }
}

fn owner(observed: &Observed) -> OwnerReference {
    observed.object.controller_owner_ref(&()).unwrap_or_default()
}

/// Whether a Secret may be written: it is this instance's, or was made for it and is empty.
fn is_ours(secret: &Secret, instance: &Name) -> bool {
    match secret.annotations().get(OF) {
        Some(of) => *of == instance.to_string(),
        None => secret.data.as_ref().is_none_or(BTreeMap::is_empty),
    }
}

/// Text as it is, everything else as JSON.
fn data(outputs: &Outputs) -> BTreeMap<String, ByteString> {
    let bytes = |output: &Output| match output.value.as_str() {
        Some(text) => text.as_bytes().to_vec(),
        None => output.value.to_string().into_bytes(),
    };
    outputs.iter().map(|(name, output)| (name.to_owned(), ByteString(bytes(output)))).collect()
}
