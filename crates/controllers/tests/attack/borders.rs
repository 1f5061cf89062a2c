//! Two namespaces: a tenant's, and one whose Secrets are none of the tenant's business.

use capt_api::grant::ReferenceGrant;
use capt_e2e::until;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

use crate::fixture::SOON;

pub const REFUSED: &str = "ReferenceNotGranted";

/// Both namespaces.
pub struct Borders {
    pub client: Client,
    pub tenant: String,
    pub vault: String,
}

impl Borders {
    pub async fn new(client: &Client, name: &str) -> Self {
        let [tenant, vault] = ["tenant", "vault"].map(|side| format!("{name}-{side}"));
        let namespaces: Api<Namespace> = Api::all(client.clone());
        for namespace in [&tenant, &vault] {
            let body = serde_json::from_value(json!({"metadata": {"name": namespace}})).unwrap();
            namespaces.create(&PostParams::default(), &body).await.unwrap();
        }
        Self { client: client.clone(), tenant, vault }
    }

    pub fn api(&self, namespace: &str, kind: &str) -> Api<DynamicObject> {
        let gvk = match kind {
            "Secret" | "ConfigMap" => GroupVersionKind::gvk("", "v1", kind),
            _ => GroupVersionKind::gvk("infrastructure.cluster.x-k8s.io", "v1beta1", kind),
        };
        let plural = match kind {
            "WorkspaceTemplateApply" => "workspacetemplateapplies".to_owned(),
            _ => format!("{}s", kind.to_lowercase()),
        };
        Api::namespaced_with(
            self.client.clone(),
            namespace,
            &ApiResource::from_gvk_with_plural(&gvk, &plural),
        )
    }

    /// Puts an object; `content` is what it has beside its metadata.
    pub async fn put(&self, namespace: &str, kind: &str, name: &str, content: &Value) {
        let api = self.api(namespace, kind);
        let version = if matches!(kind, "Secret" | "ConfigMap") {
            "v1"
        } else {
            "infrastructure.cluster.x-k8s.io/v1beta1"
        };
        let mut body = json!({"apiVersion": version, "kind": kind, "metadata": {"name": name}});
        // Metadata of the content, where it has some, is whole.
        body.as_object_mut().unwrap().extend(content.as_object().unwrap().clone());
        api.patch(name, &PatchParams::apply("user").force(), &Patch::Apply(&body)).await.unwrap();
    }

    /// Changes an object of the tenant's.
    pub async fn change(&self, kind: &str, name: &str, body: &Value) {
        let api = self.api(&self.tenant, kind);
        api.patch(name, &PatchParams::default(), &Patch::Merge(body)).await.unwrap();
    }

    /// Waits until an object of the tenant's is as it should be.
    pub async fn when<T>(&self, kind: &str, name: &str, what: &str, look: impl Fn(&Value) -> Option<T>) -> T {
        self.when_in(&self.tenant, kind, name, what, look).await
    }

    pub async fn when_in<T>(
        &self,
        namespace: &str,
        kind: &str,
        name: &str,
        what: &str,
        look: impl Fn(&Value) -> Option<T>,
    ) -> T {
        let mut last = Value::Null;
        let found = until(what, SOON, async || {
            let object = self.api(namespace, kind).get_opt(name).await.unwrap()?;
            last = serde_json::to_value(&object).unwrap();
            look(&last)
        })
        .await;
        found.unwrap_or_else(|error| panic!("{namespace}: {kind} {name}: {error}: {last:#}"))
    }

    /// The next grant that an object asks for, which is not among those it has asked for; nothing once it is ready.
    pub async fn asked(&self, kind: &str, name: &str, before: &[ReferenceGrant]) -> Option<ReferenceGrant> {
        let known: Vec<String> = before.iter().map(ResourceExt::name_any).collect();
        self.when(kind, name, "refused or ready", |object| {
            if let Some(grant) = refusal(object).map(|message| grant_in(&message))
                && !known.contains(&grant.name_any())
            {
                return Some(Some(grant));
            }
            (condition(object, "Ready")["status"] == "True" && refusal(object).is_none()).then_some(None)
        })
        .await
    }

    /// Applies a grant as it is, where it says.
    pub async fn grant(&self, grant: &ReferenceGrant) {
        let grants: Api<ReferenceGrant> = Api::namespaced(self.client.clone(), &grant.namespace().unwrap());
        grants.patch(&grant.name_any(), &PatchParams::apply("owner"), &Patch::Apply(grant)).await.unwrap();
    }

    pub async fn revoke(&self, grant: &ReferenceGrant) {
        let grants: Api<ReferenceGrant> = Api::namespaced(self.client.clone(), &grant.namespace().unwrap());
        grants.delete(&grant.name_any(), &DeleteParams::default()).await.unwrap();
    }

    pub async fn delete(&self, namespace: &str, kind: &str, name: &str) {
        self.api(namespace, kind).delete(name, &DeleteParams::background()).await.unwrap();
    }

    pub async fn gone(&self, namespace: &str, kind: &str, name: &str) {
        let mut last = None;
        let gone = until("gone", SOON, async || {
            last = self.api(namespace, kind).get_opt(name).await.unwrap();
            last.is_none().then_some(())
        })
        .await;
        assert!(gone.is_ok(), "{namespace}: {kind} {name} is not gone: {last:#?}");
    }
}

/// A condition, or null.
pub fn condition<'a>(object: &'a Value, kind: &str) -> &'a Value {
    let mut list = object["status"]["conditions"].as_array().into_iter().flatten();
    list.find(|condition| condition["type"] == kind).unwrap_or(&Value::Null)
}

/// The message of a refusal of the current generation.
pub fn refusal(object: &Value) -> Option<String> {
    if object["status"]["observedGeneration"] != object["metadata"]["generation"] {
        return None;
    }
    let mut list = object["status"]["conditions"].as_array()?.iter();
    let found = list.find(|condition| condition["reason"] == REFUSED)?;
    found["message"].as_str().map(str::to_owned)
}

/// The grant in a message, word for word.
pub fn grant_in(message: &str) -> ReferenceGrant {
    let (_, text) =
        message.split_once("to allow it, apply: ").unwrap_or_else(|| panic!("no grant: {message}"));
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}
