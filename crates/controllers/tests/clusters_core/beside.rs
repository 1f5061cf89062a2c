//! The kinds of Cluster API core that its clients look for beside a Cluster, where nobody reconciles them.

use capt_controllers::cluster::core::install::{self, Installed};
use capt_e2e::until;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams, PostParams};
use serde_json::json;

use crate::fixture::{Fixture, SOON};

pub async fn kinds_of_core_are_listed_and_take_nothing(fixture: &Fixture) {
    for (kind, own) in [
        ("Machine", "CaptMachine"),
        ("MachineSet", "CaptMachineSet"),
        ("MachineDeployment", "CaptMachineDeployment"),
        ("MachinePool", "NodeGroup"),
    ] {
        for version in ["v1beta2", "v1beta1"] {
            let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("cluster.x-k8s.io", version, kind));
            let api: Api<DynamicObject> =
                Api::namespaced_with(fixture.client.clone(), &fixture.namespace, &resource);
            // A kube-apiserver says that a CRD is established a moment before it answers.
            let listed = until("a list", SOON, async || api.list(&ListParams::default()).await.ok());
            assert!(listed.await.unwrap().items.is_empty(), "{kind}");
            let object = json!({"apiVersion": resource.api_version, "kind": kind, "metadata": {"name": "one"},
                "spec": {"clusterName": "c", "anything": [1]}});
            let object = serde_json::from_value(object).unwrap();
            let refused = api.create(&PostParams::default(), &object).await.unwrap_err();
            let kube::Error::Api(status) = refused else { panic!("{kind}: {refused}") };
            assert_eq!(status.code, 422, "{kind}: {}", status.message);
            let why = format!("Cluster API core, which reconciles a {kind}, is not installed: use a {own}");
            assert!(status.message.contains(&why), "{kind}: {}", status.message);
        }
    }
}

/// One that Cluster API brought, or anybody, is not written to, whatever Cluster is.
pub async fn a_kind_of_core_that_is_anothers_stays(fixture: &Fixture) {
    let crds: Api<CustomResourceDefinition> = Api::all(fixture.client.clone());
    let name = "machinepools.cluster.x-k8s.io";
    let unlabel = json!({"metadata": {"labels": null}, "spec": {"names": {"shortNames": ["theirs"]}}});
    crds.patch(name, &PatchParams::default(), &Patch::Merge(&unlabel)).await.unwrap();
    assert_eq!(install::install(&fixture.client).await.unwrap(), Installed::Ours);
    let found = crds.get(name).await.unwrap();
    assert_eq!(found.spec.names.short_names, Some(vec!["theirs".to_owned()]));
    assert_eq!(found.metadata.labels, None);
}
