//! `capt scale`, `kubeconfig` and `delete` on a cluster that is really built.

use std::io::Write;
use std::process::{Command, Stdio};

use capt_e2e::until;
use serde_json::{Value, json};

use crate::world::{SOON, World, workspace};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_from_its_first_machine_to_its_end() {
    let Some(world) = World::start().await else { return };
    world.capt("kubeconfig demo").bad("no Cluster demo in namespace default");
    for file in ["cluster/00-templates.yaml", "cluster/10-cluster.yaml", "cluster/20-workers.yaml"] {
        world.apply_example(file).await;
    }
    let clusters = world.api("Cluster");
    let available = until("the cluster", SOON, async || {
        let conditions = clusters.get("demo").await.unwrap().data["status"]["conditions"].clone();
        let all = conditions.as_array().cloned().unwrap_or_default();
        all.iter().any(|one| one["type"] == "Available" && one["status"] == "True").then_some(())
    });
    available.await.unwrap();
    let kubeconfig = world.capt("kubeconfig demo").good();
    assert!(kubeconfig.contains("kind: Config") && kubeconfig.contains("eks.example"), "{kubeconfig}");

    let said = world.capt("scale demo-workers --replicas 4 --wait --timeout 10m").good();
    assert!(said.starts_with("captmachinedeployment/demo-workers scaled from 3 to 4\n"), "{said}");
    assert!(said.ends_with("captmachinedeployment/demo-workers: 4 of 4 available\n"), "{said}");
    let sets = world.api("CaptMachineSet").list(&kube::api::ListParams::default()).await.unwrap();
    let set = sets.items[0].metadata.name.clone().unwrap();
    let said = world.capt(&format!("scale captmachineset/{set} --replicas 1"));
    said.bad("belongs to CaptMachineDeployment demo-workers, which would undo it");
    world
        .capt("scale cluster/demo --replicas 1")
        .bad("cluster/demo does not fit here: this command takes captmachinedeployment, captmachineset");
    world.capt("scale nobody --replicas 1").bad("no CaptMachineDeployment nobody");

    what_is_asked_of_a_cluster_reaches_its_workspaces(&world).await;

    world.capt("delete demo").bad("no kind given for demo: write KIND/demo, for example cluster/demo");
    world.capt(&format!("delete captmachineset/{set} --yes")).bad("which would make it again");
    let said = world.capt("delete cluster demo").bad("add --yes to delete it");
    assert!(said.contains("captmachinedeployment/demo-workers   4 machines"), "{said}");
    assert!(said.contains("destroys 26 resources in 7 workspaces"), "{said}");
    assert!(clusters.get("demo").await.unwrap().metadata.deletion_timestamp.is_none(), "only looked at");
    let said = world.capt("delete cluster demo --yes --timeout 10m").good();
    let at = |words: &str| said.find(words).unwrap_or_else(|| panic!("{words:?} is not in {said}"));
    assert!(at("nodegroup/demo-workers is gone") < at("captcontrolplane/demo is gone"), "{said}");
    at("cluster/demo is gone");
    for kind in ["Cluster", "CAPTCluster", "CAPTControlPlane", "CaptMachine", "WorkspaceTemplateApply"] {
        let left = world.api(kind).list(&kube::api::ListParams::default()).await.unwrap();
        assert!(left.items.is_empty(), "{kind}: {left:?}");
    }
    world.capt("delete cluster demo --yes").bad("no Cluster demo in namespace default");
}

async fn what_is_asked_of_a_cluster_reaches_its_workspaces(world: &World) {
    let said = world.capt("logs cluster/demo").bad("cluster/demo has 7 workspaces; name one: ");
    assert!(said.contains("demo-vpc"), "{said}");
    assert!(world.capt("logs captcluster/demo").good().contains("terraform_data.vpc"));
    world.capt("retry cluster/demo").bad("nothing of cluster/demo has failed");
    world.capt("approve cluster/demo").bad("demo has no plan that waits for approval");
    assert_eq!(world.capt("pause cluster/demo").good(), "cluster/demo is paused\n");
    let paused = world.api("Cluster").get("demo").await.unwrap().data["spec"]["paused"].clone();
    assert_eq!(paused, Value::Bool(true));
    let said = world.capt("resume captcontrolplane/demo").good();
    assert!(said.contains("its Cluster demo is paused and holds it: capt resume cluster/demo"), "{said}");
    assert_eq!(world.capt("resume cluster/demo").good(), "cluster/demo is resumed\n");
    let said = world.capt("events captcluster/demo").good();
    assert!(said.contains("captcluster/demo") && !said.contains("captmachine/"), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deletion_can_be_left_alone() {
    let Some(world) = World::start().await else { return };
    world.apply_example("machine-deployment.yaml").await;
    world.capt("scale worker-deployment --replicas 1 --wait --timeout 10m").good();
    let said = world.capt("delete captmachinedeployment/worker-deployment --yes --wait=false").good();
    assert!(
        said.ends_with("captmachinedeployment/worker-deployment: the deletion continues in the background\n"),
        "{said}"
    );
    world.until_gone("CaptMachineDeployment", "worker-deployment").await;
}

/// A terminal, as `script` makes one, and somebody who answers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_person_is_asked() {
    let Some(world) = World::start().await else { return };
    if Command::new("script").arg("--version").output().is_err() {
        capt_e2e::skip("script (util-linux) is not installed");
        return;
    }
    let module = "resource \"terraform_data\" \"one\" {}\n";
    world.apply(&workspace("one", module, json!({}))).await;
    world.ready_is("one", "Ready").await;
    let answer = |answer: &str| {
        let mut script = Command::new("script");
        let line = format!("{} delete wtapply one --timeout 10m", env!("CARGO_BIN_EXE_capt"));
        script.args(["-qec", &line, "/dev/null"]).env("CAPT_DATA_DIR", world.folder.path().join("data"));
        script.env_remove("KUBECONFIG").env("NO_COLOR", "1").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = script.spawn().unwrap();
        child.stdin.take().unwrap().write_all(answer.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        (output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap())
    };
    let (code, said) = answer("n\n");
    assert!(
        code == 1 && said.contains("Delete wtapply/one? [y/N]") && said.contains("nothing is deleted"),
        "{said}"
    );
    world.ready_is("one", "Ready").await;
    let (code, said) = answer("y\n");
    assert!(code == 0 && said.contains("wtapply/one is gone"), "{said}");
}
