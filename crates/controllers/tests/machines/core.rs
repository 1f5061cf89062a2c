//! Kinds of Cluster API core, as far as tests need them: any field is kept, and nobody acts on them.

use capt_e2e::until;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use crate::fixture::{Fixture, SOON};

pub fn api(fixture: &Fixture, kind: &str) -> Api<DynamicObject> {
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("cluster.x-k8s.io", "v1beta2", kind));
    Api::namespaced_with(fixture.client.clone(), &fixture.namespace, &kind)
}

/// Serves a kind, if nobody has done so.
async fn serve(fixture: &Fixture, kind: &str) {
    let plural = format!("{}s", kind.to_lowercase());
    let name = format!("{plural}.cluster.x-k8s.io");
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {
            "name": name,
            // The group is protected, as x-k8s.io groups are.
            "annotations": {"api-approved.kubernetes.io": "unapproved, for tests"},
        },
        "spec": {
            "group": "cluster.x-k8s.io", "scope": "Namespaced", "names": {"kind": kind, "plural": plural},
            "versions": [{
                "name": "v1beta2", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            }],
        },
    });
    let crds: Api<CustomResourceDefinition> = Api::all(fixture.client.clone());
    crds.patch(&name, &PatchParams::apply("user").force(), &Patch::Apply(&crd)).await.unwrap();
}

/// Makes an object what it should be; its kind is served from then on.
pub async fn put(fixture: &Fixture, kind: &str, name: &str, spec: Value, status: Value) -> String {
    serve(fixture, kind).await;
    let body = json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": kind, "metadata": {"name": name},
        "spec": spec, "status": status,
    });
    let force = PatchParams::apply("user").force();
    let objects = api(fixture, kind);
    let stored = until("the kind is served", SOON, async || {
        objects.patch(name, &force, &Patch::Apply(&body)).await.ok()
    });
    stored.await.unwrap().uid().unwrap()
}
