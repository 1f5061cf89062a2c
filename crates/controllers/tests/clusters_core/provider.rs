//! A provider of clusters, played by the test: two kinds, whose status and finalizers the test writes itself.

use capt_controllers::cluster::core::install;
use capt_e2e::until;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

use crate::fixture::{Fixture, SOON};

const GROUP: &str = "demo.example.com";

/// A CRD whose objects may hold anything.
fn loose(kind: &str) -> CustomResourceDefinition {
    let plural = format!("{}s", kind.to_lowercase());
    let anything = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    serde_json::from_value(json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{GROUP}")},
        "spec": {
            "group": GROUP, "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase(), "listKind": format!("{kind}List")},
            "versions": [{
                "name": "v1alpha1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": anything, "status": anything}}},
            }],
        },
    }))
    .unwrap()
}

/// Installs the provider's kinds, and CAPT's own Cluster.
pub async fn install(client: &Client) {
    assert_eq!(install::install(client).await.unwrap(), install::Installed::Ours);
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    for kind in ["DemoCluster", "DemoPlane"] {
        let crd = loose(kind);
        crds.patch(&crd.name_any(), &PatchParams::apply("test"), &Patch::Apply(&crd)).await.unwrap();
    }
    for name in [install::NAME, "democlusters.demo.example.com", "demoplanes.demo.example.com"] {
        let served =
            until("a served CRD", SOON, async || crds.get(name).await.ok().filter(install::is_served));
        let served = served.await.unwrap();
        let wanted = capt_api::crd::cluster_kind().crd;
        assert!(name != install::NAME || capt_api::crd::is_installed(&served, &wanted), "{served:?}");
        let spec = served.spec;
        let gvk = GroupVersionKind::gvk(&spec.group, &spec.versions[0].name, &spec.names.kind);
        let kind = ApiResource::from_gvk_with_plural(&gvk, &spec.names.plural);
        let objects: Api<DynamicObject> = Api::all_with(client.clone(), &kind);
        // A kube-apiserver says so a moment before it answers.
        let answers = until("an answer", SOON, async || objects.list(&ListParams::default()).await.ok());
        answers.await.unwrap();
    }
}

/// What a Cluster's reference to a part looks like.
pub fn reference(kind: &str, name: &str) -> Value {
    json!({"apiGroup": GROUP, "kind": kind, "name": name})
}

impl Fixture {
    fn dynamic(&self, group: &str, version: &str, kind: &str) -> Api<DynamicObject> {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        Api::namespaced_with(self.client.clone(), &self.namespace, &resource)
    }

    pub fn parts(&self, kind: &str) -> Api<DynamicObject> {
        self.dynamic(GROUP, "v1alpha1", kind)
    }

    pub fn clusters(&self, version: &str) -> Api<DynamicObject> {
        self.dynamic("cluster.x-k8s.io", version, "Cluster")
    }

    /// Applies a part, with a finalizer as a provider has one.
    pub async fn put_part(&self, kind: &str, name: &str, spec: Value) {
        let body = json!({
            "apiVersion": format!("{GROUP}/v1alpha1"), "kind": kind,
            "metadata": {"name": name, "finalizers": [format!("{GROUP}/provider")]}, "spec": spec,
        });
        let force = PatchParams::apply("provider").force();
        self.parts(kind).patch(name, &force, &Patch::Apply(&body)).await.unwrap();
    }

    /// Writes what the provider says of a part.
    pub async fn say(&self, kind: &str, name: &str, status: Value) {
        let body = json!({ "status": status });
        self.parts(kind).patch_status(name, &PatchParams::default(), &Patch::Merge(&body)).await.unwrap();
    }

    /// The provider lets a part go.
    pub async fn let_go(&self, kind: &str, name: &str) {
        let body = json!({"metadata": {"finalizers": null}});
        self.parts(kind).patch(name, &PatchParams::default(), &Patch::Merge(&body)).await.unwrap();
    }

    /// Applies a Cluster as its user.
    pub async fn put_cluster(
        &self,
        version: &str,
        name: &str,
        spec: Value,
    ) -> Result<DynamicObject, kube::Error> {
        let body = json!({
            "apiVersion": format!("cluster.x-k8s.io/{version}"), "kind": "Cluster",
            "metadata": {"name": name}, "spec": spec,
        });
        let mut force = PatchParams::apply("user").force();
        force.field_validation = Some(kube::api::ValidationDirective::Strict);
        self.clusters(version).patch(name, &force, &Patch::Apply(&body)).await
    }

    /// Waits until a Cluster satisfies `done`.
    pub async fn cluster(
        &self,
        name: &str,
        what: &str,
        done: impl Fn(&DynamicObject) -> bool,
    ) -> DynamicObject {
        let mut last = None;
        let found = until(what, SOON, async || {
            let object = self.clusters("v1beta2").get_opt(name).await.unwrap()?;
            let found = done(&object);
            last = Some(object.clone());
            found.then_some(object)
        });
        match found.await {
            Ok(found) => found,
            Err(error) => panic!("{name}: {error}; {}", serde_json::to_string_pretty(&last).unwrap()),
        }
    }

    /// Waits until an object is on its way out.
    pub async fn going(&self, kind: &str, name: &str) {
        let going = until("deleted", SOON, async || {
            let object = self.parts(kind).get(name).await.unwrap();
            object.metadata.deletion_timestamp.map(drop)
        });
        going.await.unwrap();
    }
}

/// Status and reason of a condition.
pub fn condition(object: &DynamicObject, kind: &str) -> String {
    let list = object.data["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let found = list.iter().find(|condition| condition["type"] == kind);
    found.map_or_else(
        || "absent".to_owned(),
        |found| format!("{} {}", found["status"].as_str().unwrap(), found["reason"].as_str().unwrap()),
    )
}

/// Message of a condition.
pub fn message(object: &DynamicObject, kind: &str) -> String {
    let list = object.data["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let found = list.iter().find(|condition| condition["type"] == kind);
    found.and_then(|found| found["message"].as_str()).unwrap_or_default().to_owned()
}

pub fn phase(object: &DynamicObject) -> &str {
    object.data["status"]["phase"].as_str().unwrap_or_default()
}
