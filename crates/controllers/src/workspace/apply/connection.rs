//! The connection Secret: all outputs of a workspace, sensitive ones included.

use std::collections::BTreeMap;

use capt_api::names::annotations;
use capt_terraform::state::{Output, Outputs};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{DeleteParams, PostParams, Preconditions};
use kube::{Api, Resource, ResourceExt};

use super::super::context::{MANAGER, WorkspaceContext};
use super::observe::ObservedWorkspace;
use crate::runtime::{Error, Name};

/// Says whose outputs a Secret holds: namespace and name of the instance.
const OF: &str = "infrastructure.cluster.x-k8s.io/workspace";

/// Writes the outputs, where they are not there already. Gives why they cannot be; nothing where no Secret is asked for.
pub async fn write(
    context: &WorkspaceContext,
    observed: &ObservedWorkspace,
) -> Result<Option<Result<(), String>>, Error> {
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
    let secret = Filled { name: &name, instance: &observed.name, owner: owner(observed), data: wanted, open };
    match secret.put(&api, found).await {
        Ok(()) => Ok(Some(Ok(()))),
        // Of another type, immutable, too large, or nothing that this program may write: only a person changes that.
        Err(kube::Error::Api(status)) if matches!(status.code, 403 | 413 | 422) => {
            Ok(Some(Err(format!("the outputs are not written to Secret {shown}: {}", status.message))))
        }
        Err(error) => Err(Error::api(format!("write Secret {name}"))(error)),
    }
}

/// A Secret with these outputs and no others.
struct Filled<'a> {
    name: &'a Name,
    instance: &'a Name,
    owner: OwnerReference,
    data: BTreeMap<String, ByteString>,
    open: String,
}

impl Filled<'_> {
    /// Puts it in the place of exactly the Secret that was found, or of none: what somebody makes there meanwhile is theirs.
    async fn put(self, api: &Api<Secret>, found: Option<Secret>) -> kube::Result<()> {
        let name = self.name.name.clone();
        let params = PostParams { field_manager: Some(MANAGER.into()), ..PostParams::default() };
        let written = match found {
            None => api.create(&params, &self.over(Secret::default())).await,
            Some(found) => api.replace(&name, &params, &self.over(found)).await,
        };
        written.map(drop)
    }

    /// Keeps the labels that people gave a Secret.
    fn over(self, mut secret: Secret) -> Secret {
        secret.metadata.name = Some(self.name.name.clone());
        secret.annotations_mut().insert(OF.to_owned(), self.instance.to_string());
        secret.annotations_mut().insert(annotations::NOT_SECRET.to_owned(), self.open);
        // An owner in another namespace would let the garbage collector take the Secret at once.
        if self.name.namespace == self.instance.namespace {
            let owners = secret.metadata.owner_references.get_or_insert_default();
            // One of an earlier object of this name is not waited for.
            owners.retain(|other| (&other.kind, &other.name) != (&self.owner.kind, &self.owner.name));
            owners.push(self.owner);
        }
        Secret { type_: Some("Opaque".into()), data: Some(self.data), ..secret }
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
pub fn elsewhere(observed: &ObservedWorkspace) -> Option<Option<Name>> {
    let wanted = observed.prepared.as_ref().ok()?.connection.as_ref();
    let wanted = wanted.filter(|name| name.namespace != observed.name.namespace);
    Some(wanted.map(|name| Name::clone(name)))
}

/// The Secret in another namespace that was written last, or is about to be: the template that named it may be gone.
pub fn noted(observed: &ObservedWorkspace) -> Option<Name> {
    let (namespace, name) =
        observed.object.annotations().get(annotations::CONNECTION_SECRET)?.split_once('/')?;
    let noted = Name::new(namespace, name);
    (noted.namespace != observed.name.namespace && noted.problem("Secret").is_none()).then_some(noted)
}

/// Removes a Secret in another namespace, if it is this instance's. That needs no grant, which may be gone by now: the mark on
/// it, which the instance itself made while it was granted, says that nobody else's is removed.
pub async fn remove(
    context: &WorkspaceContext,
    observed: &ObservedWorkspace,
    name: &Name,
) -> Result<(), Error> {
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

fn owner(observed: &ObservedWorkspace) -> OwnerReference {
    observed.object.controller_owner_ref(&()).unwrap_or_default()
}

/// Returns true if some instance wrote the Secret.
pub fn is_marked(secret: &Secret) -> bool {
    secret.annotations().contains_key(OF)
}

/// Returns true if this instance wrote the Secret.
pub fn is_of(secret: &Secret, instance: &Name) -> bool {
    secret.annotations().get(OF).is_some_and(|of| *of == instance.to_string())
}

/// Returns true if the Secret may be written: it is this instance's, or was made for it and is empty.
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

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::api::ObjectMeta;

    use super::*;

    fn filled<'a>(name: &'a Name, instance: &'a Name, owner: &OwnerReference, data: &[&str]) -> Filled<'a> {
        let data = data.iter().map(|key| ((*key).to_owned(), ByteString(b"x".to_vec()))).collect();
        Filled { name, instance, owner: owner.clone(), data, open: String::new() }
    }

    #[tokio::test]
    async fn a_secret_that_somebody_makes_meanwhile_is_theirs() {
        let server = capt_apiserver::Server::in_memory().await.unwrap();
        let client = server.client("default");
        let api: Api<Secret> = Api::default_namespaced(client.clone());
        // Any object will do, as long as it is there.
        let owner = ConfigMap {
            metadata: ObjectMeta { name: Some("a".into()), ..ObjectMeta::default() },
            ..ConfigMap::default()
        };
        let owner = Api::default_namespaced(client).create(&PostParams::default(), &owner).await.unwrap();
        let owner = owner.controller_owner_ref(&()).unwrap();
        let (name, instance) = (Name::new("default", "outputs"), Name::new("default", "a"));
        let theirs: Secret = serde_json::from_value(
            serde_json::json!({"metadata": {"name": "outputs"}, "stringData": {"password": "theirs"}}),
        )
        .unwrap();
        let code = |result: kube::Result<()>| match result {
            Err(kube::Error::Api(status)) => status.code,
            other => panic!("{other:?}"),
        };

        // Nothing was there when it was looked at.
        let made = api.create(&PostParams::default(), &theirs).await.unwrap();
        assert_eq!(code(filled(&name, &instance, &owner, &["id"]).put(&api, None).await), 409);

        // Ours was there, and they made one of the same name.
        api.delete("outputs", &DeleteParams::default()).await.unwrap();
        filled(&name, &instance, &owner, &["id", "zone"]).put(&api, None).await.unwrap();
        let ours = api.get("outputs").await.unwrap();
        assert_ne!(ours.uid(), made.uid());
        api.delete("outputs", &DeleteParams::default()).await.unwrap();
        let made = api.create(&PostParams::default(), &theirs).await.unwrap();
        assert_eq!(code(filled(&name, &instance, &owner, &["id"]).put(&api, Some(ours)).await), 409);
        assert_eq!(api.get("outputs").await.unwrap().data, made.data);

        // One that is ours is replaced, and what people labelled it with stays.
        api.delete("outputs", &DeleteParams::default()).await.unwrap();
        filled(&name, &instance, &owner, &["id", "zone"]).put(&api, None).await.unwrap();
        let mut labelled = api.get("outputs").await.unwrap();
        labelled.labels_mut().insert("team".into(), "a".into());
        let labelled = api.replace("outputs", &PostParams::default(), &labelled).await.unwrap();
        filled(&name, &instance, &owner, &["id"]).put(&api, Some(labelled)).await.unwrap();
        let after = api.get("outputs").await.unwrap();
        assert_eq!(after.data.as_ref().unwrap().keys().collect::<Vec<_>>(), ["id"]);
        assert_eq!((after.labels()["team"].as_str(), after.owner_references().len()), ("a", 1));
    }
}
