//! `capt doctor`: what is wrong is found, and what to do is said.

use capt_e2e::{KubeApiserver, Peers};
use serde_json::{Value, json};

use crate::world::{World, install, workspace};

/// The verdict on each check.
fn verdicts(world: &World) -> (i32, Vec<Value>) {
    let said = world.capt("doctor -o json");
    (
        said.code,
        serde_json::from_str(&said.out).unwrap_or_else(|error| panic!("{error}: {}{}", said.out, said.err)),
    )
}

fn of<'a>(findings: &'a [Value], check: &str, verdict: &str) -> &'a Value {
    let found = findings.iter().find(|finding| finding["check"] == check && finding["verdict"] == verdict);
    found.unwrap_or_else(|| panic!("{check} should be {verdict}: {findings:#?}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_finds_what_is_wrong() {
    let Some(mut world) = World::start().await else { return };
    world.apply(&workspace("one", "resource \"terraform_data\" \"one\" {}\n", json!({}))).await;
    world.ready_is("one", "Ready").await;
    let (code, findings) = verdicts(&world);
    assert_eq!(code, 0, "{findings:#?}");
    for check in [
        "binary",
        "plugins",
        "data folder",
        "api",
        "crds",
        "clusters",
        "permissions",
        "controller",
        "namespaces",
        "deletions",
    ] {
        of(&findings, check, "ok");
    }
    let text = world.capt("doctor").good();
    assert!(text.starts_with("ok    binary"), "{text}");
    assert!(text.contains("host paths") && text.contains("--allow-path"), "{text}");
    // A kernel that cannot confine runs is worth a word.
    let confined = capt_terraform::sandbox::gaps().is_empty();
    assert_eq!(text.ends_with("all is well\n"), confined, "{text}");
    assert!(!text.contains('\u{1b}'), "no colours in a pipe");

    // Credentials that do not exist, a CRD of another version, a deletion that another finalizer holds.
    let config = json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "WorkspaceProviderConfig",
        "metadata": {"name": "cloud"},
        "spec": {
            "credentials": [{"env": "TOKEN", "secretRef": {"name": "keys", "key": "token"}}],
            "plugins": {"mirror": "/no/such/mirror"},
        },
    });
    world.apply(&config.to_string()).await;
    let crds: kube::Api<
        k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    > = kube::Api::all(world.client.clone());
    let older = json!([{"op": "replace", "path": "/spec/versions/0/schema/openAPIV3Schema/description", "value": "older"}]);
    let older = kube::api::Patch::Json::<()>(serde_json::from_value(older).unwrap());
    crds.patch("nodegroups.infrastructure.cluster.x-k8s.io", &kube::api::PatchParams::default(), &older)
        .await
        .unwrap();
    let (code, findings) = verdicts(&world);
    assert_eq!(code, 1);
    let credentials = of(&findings, "credentials", "fail");
    assert_eq!(credentials["message"], "default/cloud: Secret default/keys does not exist");
    assert!(of(&findings, "plugins", "fail")["message"].as_str().unwrap().contains("/no/such/mirror"));
    let crds = of(&findings, "crds", "warn");
    assert_eq!(crds["message"], "not those of this version: nodegroups");
    assert!(crds["do"].as_str().unwrap().starts_with("capt crds | kubectl apply"));

    world.stop_controller();
    world.stop_server();
    let workspaces = place(&world).join("workspaces");
    let workspace = std::fs::read_dir(workspaces).unwrap().next().unwrap().unwrap().path();
    std::fs::write(workspace.join("guest/state/.terraform.tfstate.lock.info"), "{}").unwrap();
    let (code, findings) = verdicts(&world);
    assert_eq!(code, 1);
    let lock = of(&findings, "locks", "warn");
    assert!(
        lock["message"].as_str().unwrap().ends_with("was left behind by a process that is gone"),
        "{lock}"
    );
    assert_eq!(lock["do"], "start the controller: its next run removes it");
    assert!(of(&findings, "api", "fail")["do"].as_str().unwrap().contains("capt up"));
    assert!(
        of(&findings, "data folder", "warn")["message"].as_str().unwrap().contains("no controller uses it")
    );
    let mut poor = world.command("doctor");
    poor.env("PATH", "/nowhere");
    let said = crate::world::run(poor).bad("FAIL  binary");
    assert!(said.contains("tofu or terraform is not installed") && said.contains("make tools"), "{said}");
}

/// What fails is counted, and its cause told.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_counts_failing_workspaces() {
    let Some(world) = World::start().await else { return };
    world.apply(&workspace("good", "resource \"terraform_data\" \"one\" {}\n", json!({}))).await;
    world.apply(&workspace("bad", "resource \"no_such\" \"one\" {\n", json!({}))).await;
    world.ready_is("good", "Ready").await;
    let failed = |bad: &capt_api::workspace::WorkspaceTemplateApply| {
        let conditions = bad.status.as_ref().map(|status| status.conditions.clone()).unwrap_or_default();
        conditions.iter().any(|one| one.type_ == "Stalled" && one.status == "True")
    };
    world.workspace("bad", "a failure", failed).await;
    let (code, findings) = verdicts(&world);
    assert_eq!(code, 1, "{findings:#?}");
    let found = of(&findings, "workspaces", "fail");
    assert_eq!(found["message"], "1 of 2 workspaces fails");
    let detail = found["details"][0].as_str().unwrap();
    assert!(detail.starts_with("bad: ") && detail.len() > 12, "{detail}");
    assert_eq!(found["do"], "see why: capt logs bad; once it is fixed: capt retry bad");
    let text = world.capt("doctor").bad("FAIL  workspaces   1 of 2 workspaces fails");
    assert!(text.contains(&format!("\n                   {detail}\n")), "{text}");
}

/// Before the first start nothing is wrong.
#[test]
fn nothing_is_started_yet() {
    if !capt_e2e::has_terraform() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let ask = |line: &str| {
        let mut command = crate::world::command(folder.path());
        command.args(line.split_whitespace());
        crate::world::run(command)
    };
    let said = ask("doctor").good();
    assert!(said.contains("ok    api          nothing is started yet"), "{said}");
    assert!(said.contains("do: start it: capt up --demo, or capt up -f FILE\n"), "{said}");
    let there = folder.path().join("new");
    let said = ask(&format!("doctor --data-dir {}", there.display())).good();
    assert!(said.contains(&format!("start it: capt up --data-dir {} --demo", there.display())), "{said}");
    // Once there is something, that nothing works on it is wrong.
    std::fs::create_dir_all(there.join("terraform")).unwrap();
    ask(&format!("doctor --data-dir {}", there.display())).bad("FAIL  api");
}

/// Where the engine of the world keeps its workspaces.
fn place(world: &World) -> std::path::PathBuf {
    world.folder.path().join("data/terraform")
}

/// What a real API makes of the CRDs (defaults, order, numbers) is no other version.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_real_kube_apiserver_is_in_order() {
    if !capt_e2e::runs_on("kube-apiserver") {
        return;
    }
    let Some(peers) = Peers::find_or_skip(KubeApiserver::NEEDS) else { return };
    let server = KubeApiserver::start(&peers).await.expect("kube-apiserver starts");
    install(&server.client()).await;
    let folder = tempfile::tempdir().unwrap();
    let ask = |line: &str| {
        let mut command = crate::world::command(folder.path());
        command.args(line.split(' ')).arg("--kubeconfig").arg(server.kubeconfig_path());
        crate::world::run(command)
    };
    let said = ask("doctor -o json");
    let findings: Vec<Value> = serde_json::from_str(&said.out).unwrap();
    for check in ["api", "crds", "permissions", "deletions"] {
        of(&findings, check, "ok");
    }
    assert_eq!(of(&findings, "controller", "fail")["message"], "none has ever worked on this API");
    assert_eq!(ask("events").good(), "");
    ask("logs nobody").bad("no WorkspaceTemplateApply nobody in namespace default");
    ask("delete cluster/demo").bad("the API has no Clusters");
}
