//! Tokens of EKS: a grant for a template lends its credentials to its module, and to nothing that a tenant says of a cluster.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use capt_api::cluster::CAPTControlPlane;
use capt_api::names::annotations;
use capt_controllers::cluster::access::eks;
use capt_controllers::cluster::access::sigv4::Signer;
use capt_e2e::until;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::borders::Borders;
use crate::cluster_fixture::{self, CA, message, said};
use crate::fixture::{Fixture, Harness, SOON};

const KEY: (&str, &str) = ("AKIAVAULTVAULT", "wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEY");
const APPLY: &str = "WorkspaceTemplateApply";
const WORKSPACE: &str = "cp-eks-controlplane-apply";
const MINE: &str = "made-by-vault";

/// What the tenant would like to be let in to.
fn wishes() -> Value {
    json!({
        "cluster_name": "payroll-prod", "cluster_auth": "eks", "region": "us-east-1",
        "cluster_endpoint": "https://payroll.gr7.us-east-1.eks.amazonaws.com",
        "cluster_certificate_authority_data": STANDARD.encode(CA),
    })
}

/// A template with credentials in the vault, granted; and a control plane of the tenant's that uses it, with all that the tenant can say.
async fn begin(module: &str) -> Option<(Fixture, Borders)> {
    if !crate::can_run() {
        return None;
    }
    let harness = Arc::new(cluster_fixture::open(Harness::embedded().await).await);
    let borders = Borders::new(&harness.client, "tokens").await;
    let fixture = Fixture {
        client: harness.client.clone(),
        namespace: borders.tenant.clone(),
        trace: harness.folder.path().join("trace"),
        harness,
    };
    let (vault, tenant) = (&borders.vault, &borders.tenant);
    borders.put(vault, "Secret", "aws", &json!({"stringData": {"id": KEY.0, "key": KEY.1}})).await;
    let key = |env: &str, key: &str| json!({"env": env, "secretRef": {"name": "aws", "key": key}});
    let config = json!({"spec": {"credentials": [key("AWS_ACCESS_KEY_ID", "id"), key("AWS_SECRET_ACCESS_KEY", "key")]}});
    borders.put(vault, "WorkspaceProviderConfig", "aws", &config).await;
    let spec = json!({"module": module, "providerConfigRef": {"name": "aws"}});
    borders.put(vault, "WorkspaceTemplate", "shared", &json!({"spec": {"template": {"spec": spec}}})).await;
    let group = "infrastructure.cluster.x-k8s.io";
    let grant = json!({"spec": {
        "from": [{"group": group, "kind": APPLY, "namespace": tenant}],
        "to": [
            {"group": group, "kind": "WorkspaceTemplate", "name": "shared"},
            {"group": group, "kind": "WorkspaceProviderConfig", "name": "aws"},
        ],
    }});
    borders.put(vault, "ReferenceGrant", "shared", &grant).await;

    borders.put(tenant, "Secret", "cp-eks-connection", &json!({"stringData": wishes()})).await;
    let reference =
        json!({"apiGroup": "controlplane.cluster.x-k8s.io", "kind": "CAPTControlPlane", "name": "cp"});
    fixture.put_cluster(json!({"name": "x"}), json!({"controlPlaneRef": reference})).await;
    let plane = json!({
        "version": "1.33", "workspaceTemplateRef": {"name": "shared", "namespace": vault},
        "controlPlaneConfig": {"region": "us-east-1"},
        "controlPlaneEndpoint": {"host": "payroll.gr7.us-east-1.eks.amazonaws.com", "port": 443},
    });
    let note = json!({"name": "cp", "annotations": {annotations::CLUSTER_AUTH: "eks"}});
    fixture.put_with::<CAPTControlPlane>(note, plane).await;
    Some((fixture, borders))
}

/// The token in the cluster's kubeconfig.
async fn token(fixture: &Fixture) -> Option<String> {
    let secret = fixture.secrets().get_opt("x-kubeconfig").await.unwrap()?;
    let text = String::from_utf8(secret.data?.remove("value")?.0).unwrap();
    let config: Value = serde_saphyr::from_str(&text).unwrap();
    Some(config["users"][0]["user"]["token"].as_str().unwrap_or_default().to_owned())
}

/// The token that the vault's key makes for a cluster, at the time of another one.
fn minted(cluster: &str, region: &str, like: &str) -> String {
    let signer = Signer { key_id: KEY.0, secret: KEY.1, session: None };
    eks::mint(&signer, region, cluster, eks::TokenFacts::of(like).unwrap().made)
}

/// Puts the wishes where a run would have put its outputs.
async fn forge(borders: &Borders) {
    let api = borders.api(&borders.tenant, APPLY);
    let forged = json!({"status": {"outputs": wishes(), "applied": true}});
    api.patch_status(WORKSPACE, &PatchParams::default(), &Patch::Merge(&forged)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_token_is_signed_for_what_no_module_returned() {
    let bucket = "resource \"terraform_data\" \"bucket\" {}\n\
                  output \"cluster_endpoint\" { value = \"https://bucket.example\" }\n";
    let Some((fixture, borders)) = begin(bucket).await else { return };
    let refused =
        |plane: &CAPTControlPlane| said(plane, "SecretsReady") == "False KubeconfigGenerationFailed";
    for forged in [false, true] {
        if forged {
            forge(&borders).await;
            fixture.nudge::<CAPTControlPlane>("cp").await;
        }
        let mut last = None;
        let plane = until("refused", SOON, async || {
            assert_eq!(token(&fixture).await, None, "the vault's key has signed");
            last = fixture.api::<CAPTControlPlane>().get_opt("cp").await.unwrap();
            last.clone().filter(refused)
        });
        let plane = plane.await.unwrap_or_else(|error| panic!("{error}: {last:#?}"));
        let told = message(&plane, "SecretsReady");
        assert!(
            told.contains("only for what its module returns: the module has no output cluster_auth"),
            "{told}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_is_signed_for_what_the_module_returned() {
    let module = format!(
        "resource \"terraform_data\" \"cluster\" {{ input = \"{MINE}\" }}\n\
         output \"cluster_name\" {{ value = terraform_data.cluster.output }}\n\
         output \"cluster_endpoint\" {{ value = \"https://a.gr7.eu-west-1.eks.amazonaws.com\" }}\n\
         output \"cluster_certificate_authority_data\" {{ value = \"{}\" }}\n",
        STANDARD.encode(CA)
    );
    let Some((fixture, borders)) = begin(&module).await else { return };
    let first = until("a token", SOON, async || token(&fixture).await).await.unwrap();
    assert_eq!(first, minted(MINE, "eu-west-1", &first));
    // Nor does it help to wait for the next one, while nobody can tell what the module would return now.
    forge(&borders).await;
    let module = json!({"spec": {"template": {"spec": {"module": "this is no module"}}}});
    let api = borders.api(&borders.vault, "WorkspaceTemplate");
    api.patch("shared", &PatchParams::default(), &Patch::Merge(&module)).await.unwrap();
    fixture.harness.clock.turn(12);
    let second = until("another token", SOON, async || {
        fixture.nudge::<CAPTControlPlane>("cp").await;
        token(&fixture).await.filter(|token| *token != first)
    });
    let second = second.await.unwrap();
    assert_eq!(second, minted(MINE, "eu-west-1", &second));
}
