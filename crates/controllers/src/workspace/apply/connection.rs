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
use crate::runtime::{Error, Name};

/// Says whose outputs a Secret holds: namespace and name of the instance.
const OF: &str = "infrastructure.cluster.x-k8s.io/workspace";

/// Writes the outputs, where they are not there already. Gives why they cannot be; nothing where no Secret is asked for.
pub async fn write(context: &Context, observed: &Observed) -> Result<Option<Result<(), String>>, Error> {
    let Some(name) = observed.prepared.as_ref().ok().and_then(|prepared| prepared.connection.clone()) else {
        return Ok(None);
    };
    let shown = name.seen_from(&observed.name.namespace);
    let api: Api<Secret> = Api::namespaced(context.client.clone(), &name.namespace);
    let found = api.get_opt(&name.name).await.map_err(Error::api(format!("read Secret {name}")))?;
    let wanted = data(&observed.view.outputs);
    let open = open(&observed.view.outputs);
    if let Some(found) = &found {
        if !is_ours(found, &observed.name) {
            return Ok(Some(Err(taken(found, &shown))));
        }
        let told = found.annotations().get(annotations::NOT_SECRET) == Some(&open);
        if told && found.data.clone().unwrap_or_default() == wanted {
            return Ok(Some(Ok(())));
        }
    }
    let secret = Secret {
        metadata: ObjectMeta {
            name: Some(name.name.clone()),
            annotations: Some(
                [(OF.to_owned(), observed.name.to_string()), (annotations::NOT_SECRET.to_owned(), open)]
                    .into(),
            ),
            // An owner in another namespace would let the garbage collector take the Secret at once.
            owner_references: (name.namespace == observed.name.namespace).then(|| vec![owner(observed)]),
            ..ObjectMeta::default()
        },
        type_: Some("Opaque".into()),
        data: Some(wanted),
        ..Secret::default()
    };
    let params = PatchParams::apply(MANAGER).force();
    match api.patch(&name.name, &params, &Patch::Apply(&secret)).await {
        Ok(_) => Ok(Some(Ok(()))),
        // Of another type, immutable, too large, or nothing that this program may write: only a person changes that.
        Err(kube::Error::Api(status)) if matches!(status.code, 403 | 413 | 422) => {
            Ok(Some(Err(format!("the outputs are not written to Secret {shown}: {}", status.message))))
        }
        Err(error) => Err(Error::api(format!("write Secret {name}"))(error)),
    }
}

/// Says that a Secret is not this instance's.
fn taken(secret: &Secret, shown: &str) -> String {
    let owner = secret.owner_references().first();
    let whose = match owner {
        Some(owner) => format!("is controlled by {} {}", owner.kind, owner.name),
        None => "was not made for this workspace".to_owned(),
    };
    format!(
        "Secret {shown} {whose}: the outputs are not written to it; delete it, or name another one in \
         writeConnectionSecretToRef"
    )
}

/// The Secret that is to be in another namespace, where no garbage collector removes it; nothing where that is not known.
pub fn elsewhere(observed: &Observed) -> Option<Option<Name>> {
    let wanted = observed.prepared.as_ref().ok()?.connection.as_ref();
    let wanted = wanted.filter(|name| name.namespace != observed.name.namespace);
    Some(wanted.map(|name| Name::clone(name)))
}

/// The Secret in another namespace that was written last, or is about to be: the template that named it may be gone.
pub fn noted(observed: &Observed) -> Option<Name> {
    let (namespace, name) =
        observed.object.annotations().get(annotations::CONNECTION_SECRET)?.split_once('/')?;
    let noted = Name::new(namespace, name);
    (noted.namespace != observed.name.namespace && noted.problem("Secret").is_none()).then_some(noted)
}

/// Removes a Secret in another namespace, if it is this instance's. That needs no grant, which may be gone by now: the mark on
/// it, which the instance itself made while it was granted, says that nobody else's is removed.
pub async fn remove(context: &Context, observed: &Observed, name: &Name) -> Result<(), Error> {
    let api: Api<Secret> = Api::namespaced(context.client.clone(), &name.namespace);
    let attempt = || format!("delete Secret {name}");
    let Some(found) = api.get_opt(&name.name).await.map_err(Error::api(attempt()))? else { return Ok(()) };
    if !is_of(&found, &observed.name) {
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

/// Whether some instance wrote a Secret.
pub fn is_marked(secret: &Secret) -> bool {
    secret.annotations().contains_key(OF)
}

/// Whether this instance wrote a Secret.
pub fn is_of(secret: &Secret, instance: &Name) -> bool {
    secret.annotations().get(OF).is_some_and(|of| *of == instance.to_string())
}

/// Whether a Secret may be written: it is this instance's, or was made for it and is empty.
fn is_ours(secret: &Secret, instance: &Name) -> bool {
    let is_blank = || !is_marked(secret) && secret.data.as_ref().is_none_or(BTreeMap::is_empty);
    is_of(secret, instance) || is_blank()
}

/// Names of outputs that may be shown: who reads them from the Secret need not hide them.
fn open(outputs: &Outputs) -> String {
    let open = outputs.iter().filter(|(_, output)| !output.sensitive).map(|(name, _)| name);
    open.collect::<Vec<_>>().join(",")
}

/// Text as it is, everything else as JSON.
fn data(outputs: &Outputs) -> BTreeMap<String, ByteString> {
    let bytes = |output: &Output| match output.value.as_str() {
        Some(text) => text.as_bytes().to_vec(),
        None => output.value.to_string().into_bytes(),
    };
    outputs.iter().map(|(name, output)| (name.to_owned(), ByteString(bytes(output)))).collect()
}
