//! Clusters whose templates are in another namespace: their workspaces ask, and what is made of a template's credentials does too.

use std::sync::Arc;

use capt_api::cluster::{CAPTCluster, CAPTControlPlane};
use capt_api::grant::ReferenceGrant;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;

use crate::borders::{REFUSED, grant_in};
use crate::cluster_fixture::{self, Told, cluster_spec, message, network_spec, plane_spec, said};
use crate::fixture::{Fixture, Harness};

/// Applies the grant that a condition names.
async fn grant(fixture: &Fixture, object: &impl Told) -> ReferenceGrant {
    let grant = grant_in(&message(object, "Ready"));
    let from = &grant.spec.from[0];
    assert_eq!((&*from.kind, &from.namespace), ("WorkspaceTemplateApply", &fixture.namespace), "{grant:?}");
    assert_eq!(grant.spec.to[0].kind, "WorkspaceTemplate");
    let api: Api<ReferenceGrant> = Api::namespaced(fixture.client.clone(), &grant.namespace().unwrap());
    api.patch(&grant.name_any(), &PatchParams::apply("owner"), &Patch::Apply(&grant)).await.unwrap();
    grant
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_needs_grants_for_its_templates() {
    if !crate::can_run() {
        return;
    }
    let harness = Arc::new(cluster_fixture::open(Harness::embedded().await).await);
    let vault = Fixture::new(Arc::clone(&harness), "vault").await;
    let tenant = Fixture::new(harness, "tenant").await;
    vault.template("network", &tenant.network_module()).await;
    vault.template("plane", &tenant.plane_module()).await;
    let (mut network, mut plane) = (network_spec(), plane_spec("1.31"));
    network["vpcTemplateRef"]["namespace"] = json!(vault.namespace);
    plane["workspaceTemplateRef"]["namespace"] = json!(vault.namespace);
    tenant.put_cluster(json!({"name": "demo"}), cluster_spec("demo", "demo")).await;
    tenant.put::<CAPTCluster>("demo", network).await;
    tenant.put::<CAPTControlPlane>("demo", plane).await;
    let refused = format!("False {REFUSED}");
    grant(&tenant, &tenant.network(&refused).await).await;
    let of_plane = grant(&tenant, &tenant.plane(&refused).await).await;
    tenant.both_ready().await;

    // The cluster runs on, and no kubeconfig is made any more by what the vault has taken back.
    let grants: Api<ReferenceGrant> = Api::namespaced(tenant.client.clone(), &vault.namespace);
    grants.delete(&of_plane.name_any(), &DeleteParams::default()).await.unwrap();
    // Once that is known: until then it counts.
    let held = |plane: &CAPTControlPlane| said(plane, "SecretsReady").ends_with(REFUSED);
    tenant.told::<CAPTControlPlane>("demo", "no kubeconfig", held).await;
    tenant.secrets().delete("demo-kubeconfig", &DeleteParams::default()).await.unwrap();
    assert!(tenant.secrets().get_opt("demo-kubeconfig").await.unwrap().is_none());
    tenant.remove_cluster().await;
    tenant.nothing_is_left().await;
}
