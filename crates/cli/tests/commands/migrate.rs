//! `capt migrate`: from the Go version, which ran Terraform by Crossplane, to this one.

use kube::api::{ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

use crate::world::{SOON, World, run, workspace};
use capt_e2e::until;

const INFRASTRUCTURE: &str = "infrastructure.cluster.x-k8s.io";
const CONTROL_PLANE: &str = "controlplane.cluster.x-k8s.io";

/// A kind as somebody else defines it.
fn kind(group: &str, kind: &str, plural: &str, scope: &str) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group, "scope": scope,
            "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase()},
            "versions": [{
                "name": "v1beta1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            }],
        },
    })
}

fn api(
    client: &Client,
    (group, version, kind, plural): (&str, &str, &str, &str),
    namespace: Option<&str>,
) -> Api<DynamicObject> {
    let gvk = GroupVersionKind::gvk(group, version, kind);
    let resource = ApiResource::from_gvk_with_plural(&gvk, plural);
    match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    }
}

async fn put(world: &World, of: (&str, &str, &str, &str), namespace: Option<&str>, object: Value) {
    let name = object["metadata"]["name"].as_str().unwrap().to_owned();
    let force = PatchParams::apply("user").force();
    let mut body = object;
    let version = if of.0.is_empty() { of.1.to_owned() } else { format!("{}/{}", of.0, of.1) };
    (body["apiVersion"], body["kind"]) = (version.into(), of.2.into());
    let api = api(&world.client, of, namespace);
    let put = until(&name, SOON, async || api.patch(&name, &force, &Patch::Apply(&body)).await.ok());
    put.await.unwrap();
}

fn encoded(state: &Value) -> String {
    use base64::Engine as _;
    base64::prelude::BASE64_STANDARD.encode(state.to_string())
}

const TEMPLATE: (&str, &str, &str, &str) =
    (INFRASTRUCTURE, "v1beta1", "WorkspaceTemplate", "workspacetemplates");
const APPLY: (&str, &str, &str, &str) =
    (INFRASTRUCTURE, "v1beta1", "WorkspaceTemplateApply", "workspacetemplateapplies");
const OLD_TEMPLATE: (&str, &str, &str, &str) =
    (CONTROL_PLANE, "v1beta1", "CaptControlPlaneTemplate", "captcontrolplanetemplates");
const CONFIG: (&str, &str, &str, &str) = ("tf.upbound.io", "v1beta1", "ProviderConfig", "providerconfigs");
const WORKSPACE: (&str, &str, &str, &str) = ("tf.upbound.io", "v1beta1", "Workspace", "workspaces");
const SECRET: (&str, &str, &str, &str) = ("", "v1", "Secret", "secrets");

/// A cluster as the Go version leaves it: its CRDs and objects, Crossplane's beside them, a state in a Secret.
async fn old_world(world: &World) {
    let crds = ("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions");
    for of in [TEMPLATE, APPLY, OLD_TEMPLATE] {
        put(world, crds, None, kind(of.0, of.2, of.3, "Namespaced")).await;
    }
    for of in [CONFIG, WORKSPACE] {
        put(world, crds, None, kind(of.0, of.2, of.3, "Cluster")).await;
    }
    for name in ["upbound-system", "crossplane-system"] {
        put(world, ("", "v1", "Namespace", "namespaces"), None, json!({"metadata": {"name": name}})).await;
    }
    let configuration = "terraform {\n  backend \"kubernetes\" {\n    secret_suffix     = \"eks\"\n    namespace         = \"upbound-system\"\n    in_cluster_config = true\n  }\n}\n";
    let config = json!({"metadata": {"name": "aws"}, "spec": {
        "configuration": configuration,
        "credentials": [{
            "filename": "creds.ini", "source": "Secret",
            "secretRef": {"namespace": "crossplane-system", "name": "aws-creds", "key": "credentials"},
        }],
    }});
    put(world, CONFIG, None, config).await;
    let credentials = json!({"metadata": {"name": "aws-creds"}, "stringData": {"credentials": "[default]"}});
    put(world, SECRET, Some("crossplane-system"), credentials).await;
    let module = "variable \"word\" {}\nresource \"terraform_data\" \"one\" {\n  input = var.word\n}\noutput \"id\" {\n  value = terraform_data.one.id\n}\n";
    let template = json!({"metadata": {"name": "vpc"}, "spec": {"template": {"spec": {
        "providerConfigRef": {"name": "aws"}, "managementPolicies": ["*"], "deletionPolicy": "Delete",
        "forProvider": {"source": "Inline", "module": module, "vars": [{"key": "word", "value": "${cluster_name}-x"}]},
    }}}});
    put(world, TEMPLATE, Some("default"), template).await;
    let apply = json!({"metadata": {"name": "demo-vpc-apply"}, "spec": {
        "templateRef": {"name": "vpc", "namespace": "default"}, "variables": {"cluster_name": "demo"},
    }});
    put(world, APPLY, Some("default"), apply).await;
    let status = json!({"status": {"applied": true, "workspaceName": "demo-vpc"}});
    let applies = api(&world.client, APPLY, Some("default"));
    applies.patch_status("demo-vpc-apply", &PatchParams::default(), &Patch::Merge(&status)).await.unwrap();
    let workspace = json!({"metadata": {"name": "demo-vpc"}, "spec": {"providerConfigRef": {"name": "aws"}}});
    put(world, WORKSPACE, None, workspace).await;
    let state = json!({
        "version": 4, "terraform_version": "1.5.7", "serial": 3, "lineage": "l",
        "outputs": {"id": {"value": "x", "type": "string"}},
        "resources": [{
            "mode": "managed", "type": "terraform_data", "name": "one",
            "provider": "provider[\"terraform.io/builtin/terraform\"]",
            "instances": [{"schema_version": 0, "attributes": {
                "id": "x", "input": {"value": "demo-x", "type": "string"},
                "output": {"value": "demo-x", "type": "string"}, "triggers_replace": null,
            }}],
        }],
    });
    let secret = json!({"metadata": {"name": "tfstate-demo-vpc-eks"}, "data": {"tfstate": encoded(&state)}});
    put(world, SECRET, Some("upbound-system"), secret).await;
    let plane = json!({"metadata": {"name": "eks"}, "spec": {"template": {"spec": {"workspaceTemplateRef": {"name": "vpc"}}}}});
    put(world, OLD_TEMPLATE, Some("default"), plane).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_go_version_is_left_behind_and_nothing_is_built_twice() {
    if !capt_e2e::runs_on("embedded") || !capt_e2e::has_terraform() {
        return;
    }
    let mut world = World::server().await;
    old_world(&world).await;
    let migrate = |world: &World, line: &str| {
        let mut command = world.command(line);
        command.current_dir(world.folder.path());
        run(command).good()
    };
    // First it only tells.
    let told = migrate(&world, "migrate");
    for expected in [
        "would: replace the CRD of CaptControlPlaneTemplate",
        "would: install 13 CRDs over the old ones",
        "would: create WorkspaceProviderConfig default/aws",
        "would: create ReferenceGrant crossplane-system/capt-migrate-default-aws-creds",
        "would: pause Crossplane's Workspace demo-vpc",
        "would: give WorkspaceTemplateApply default/demo-vpc-apply the state of Secret upbound-system/tfstate-demo-vpc-eks: 1 resource",
        "nothing was changed",
    ] {
        assert!(told.contains(expected), "{expected:?} is not in:\n{told}");
    }
    let secrets = api(&world.client, SECRET, Some("default"));
    assert!(secrets.get_opt("capt-import-demo-vpc-apply").await.unwrap().is_none());

    let done = migrate(&world, "migrate --apply");
    assert!(done.contains("next: start capt controller"), "{done}");
    // What people have changed since stays.
    let merge = Patch::Merge(json!({"spec": {"configuration": "# mine"}}));
    let configs = world.api("WorkspaceProviderConfig");
    configs.patch("aws", &PatchParams::default(), &merge).await.unwrap();
    let again = migrate(&world, "migrate --apply");
    assert!(!again.contains("WorkspaceProviderConfig"), "{again}");
    assert_eq!(configs.get("aws").await.unwrap().data["spec"]["configuration"], "# mine");
    let paused = api(&world.client, WORKSPACE, None).get("demo-vpc").await.unwrap();
    assert_eq!(paused.annotations()["crossplane.io/paused"], "true");
    assert_eq!(paused.data["spec"]["deletionPolicy"], "Orphan");
    assert!(world.api("CAPTControlPlaneTemplate").get_opt("eks").await.unwrap().is_some());

    world.start_controller();
    // The plan has no changes, so it waits for nobody; what was built is what it was.
    let ready = world.ready_is("demo-vpc-apply", "Ready").await;
    let status = ready.status.unwrap();
    assert_eq!(status.outputs["id"], "x", "{status:?}");
    assert_eq!((status.resources, status.workspace_name.as_deref()), (Some(1), Some("demo-vpc")));
    let plan = status.plan.unwrap_or_default();
    assert_eq!((plan.add, plan.change, plan.destroy), (0, 0, 0), "{plan:?}");
    // One that CAPT applied itself needs no state from anybody.
    world.apply(&workspace("own", "resource \"terraform_data\" \"it\" {}\n", json!({}))).await;
    world.ready_is("own", "Ready").await;
    let told = migrate(&world, "migrate");
    assert!(!told.contains("default/own "), "{told}");

    // What is destroyed, and created again, does not come back from the old state.
    let applies = api(&world.client, APPLY, Some("default"));
    let secrets = api(&world.client, SECRET, Some("default"));
    applies.delete("demo-vpc-apply", &DeleteParams::default()).await.unwrap();
    let gone = until("it goes", SOON, async || {
        applies.get_opt("demo-vpc-apply").await.unwrap().is_none().then_some(())
    });
    gone.await.unwrap();
    let again = json!({"metadata": {"name": "demo-vpc-apply"}, "spec": {
        "templateRef": {"name": "vpc"}, "variables": {"cluster_name": "demo"}, "paused": true,
    }});
    put(&world, APPLY, Some("default"), again).await;
    let told = migrate(&world, "migrate --apply");
    assert!(told.contains("was handed over to default/demo-vpc-apply before"), "{told}");
    assert!(secrets.get_opt("capt-import-demo-vpc-apply").await.unwrap().is_none());
}

/// Whoever may create objects in a namespace can call one like somebody else's Workspace.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_workspace_that_two_claim_is_handed_over_to_none() {
    if !capt_e2e::runs_on("embedded") || !capt_e2e::has_terraform() {
        return;
    }
    let world = World::server().await;
    old_world(&world).await;
    let tenant = Some("aaa-tenant");
    put(&world, ("", "v1", "Namespace", "namespaces"), None, json!({"metadata": {"name": "aaa-tenant"}}))
        .await;
    let template = json!({"metadata": {"name": "mine"}, "spec": {"template": {"spec": {
        "providerConfigRef": {"name": "aws"}, "forProvider": {"source": "Inline", "module": "locals {}"},
    }}}});
    put(&world, TEMPLATE, tenant, template).await;
    let take = |name: &str| json!({"metadata": {"name": name}, "spec": {"templateRef": {"name": "mine"}}});
    put(&world, APPLY, tenant, take("else")).await;
    let status = json!({"status": {"workspaceName": "demo-vpc"}});
    let applies = api(&world.client, APPLY, tenant);
    applies.patch_status("else", &PatchParams::default(), &Patch::Merge(&status)).await.unwrap();
    let migrate = |line: &str| {
        let mut command = world.command(line);
        command.current_dir(world.folder.path());
        run(command)
    };
    for by_status in [true, false] {
        if !by_status {
            applies.delete("else", &DeleteParams::default()).await.unwrap();
            put(&world, APPLY, tenant, take("demo-vpc")).await;
        }
        let told = migrate("migrate").bad("warning: ");
        let both = told.contains("default/demo-vpc-apply") && told.contains("aaa-tenant/");
        assert!(
            told.contains("warning: Crossplane's Workspace demo-vpc may be of each of") && both,
            "{told}"
        );
        for refused in ["ReferenceGrant crossplane-system/", "the state of Secret", "would: pause"] {
            assert!(!told.contains(refused), "{refused:?} is in:\n{told}");
        }
    }
    migrate("migrate --apply").bad("warning: ");
    for namespace in ["default", "aaa-tenant"] {
        let secrets = api(&world.client, SECRET, Some(namespace)).list(&ListParams::default()).await.unwrap();
        let given = secrets.iter().any(|secret| secret.name_any().starts_with("capt-import-"));
        assert!(!given, "{namespace}");
    }
    // Once the other one is gone, it goes to its own, and the tenant gets no grant.
    applies.delete("demo-vpc", &DeleteParams::default()).await.unwrap();
    let done = migrate("migrate --apply").good();
    assert!(done.contains("now: give WorkspaceTemplateApply default/demo-vpc-apply the state"), "{done}");
    assert!(done.contains("capt-migrate-default-aws-creds"), "{done}");
    assert!(
        !done.contains("capt-migrate-aaa-tenant") && done.contains("templates of aaa-tenant name"),
        "{done}"
    );
}
