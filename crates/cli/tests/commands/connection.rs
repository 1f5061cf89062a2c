//! Which API is meant, and what is said when it is not there.

use crate::world::{World, command, run};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_api_that_is_meant_is_found() {
    if !capt_e2e::runs_on("embedded") {
        return;
    }
    let mut world = World::server().await;
    world.install().await;
    let api = "https://127.0.0.1:";
    let doctor = |line: &str| world.capt(&format!("doctor {line}")).out;
    assert!(doctor("").contains("the embedded API: "), "it runs, so it is meant");
    let named = format!("--kubeconfig {}", world.kubeconfig().display());
    assert!(doctor(&named).contains(&format!("({named})")));
    assert!(
        doctor(&format!("--data-dir {}", world.folder.path().join("data").display()))
            .contains("(--data-dir ")
    );
    let mut by_variable = world.command("doctor");
    by_variable.env("KUBECONFIG", world.kubeconfig()).env("CAPT_DATA_DIR", "/nowhere");
    assert!(run(by_variable).out.contains("($KUBECONFIG: "));
    let home = world.folder.path().join("home/.kube");
    std::fs::create_dir_all(&home).unwrap();
    std::fs::copy(world.kubeconfig(), home.join("config")).unwrap();
    let mut by_home = world.command("doctor");
    by_home.env("CAPT_DATA_DIR", "/nowhere");
    assert!(run(by_home).out.contains("(~/.kube/config)"));

    // A context is that of a kubeconfig.
    world.capt("events --context capt").good();
    let said = world.capt("events --context other").bad("there is no context other (~/.kube/config)");
    assert!(said.contains("there are: capt"), "{said}");
    world.capt("logs nobody").bad("no WorkspaceTemplateApply nobody in namespace default");
    world.capt("logs nobody -n there").bad("in namespace there");

    world.stop_server();
    let said = world.capt(&format!("events {named}")).bad("does not answer");
    assert!(said.contains(api) && said.contains(&named) && said.contains("capt up"), "{said}");
    assert_eq!(said.lines().count(), 2, "one clear error: {said}");
    world.capt("events").bad("(~/.kube/config)");
}

#[test]
fn where_there_is_none_it_is_said_how_to_get_one() {
    let folder = tempfile::tempdir().unwrap();
    let capt = |line: &str| {
        let mut command = command(folder.path());
        command.args(line.split(' '));
        run(command)
    };
    for line in ["events", "approve a", "pause a", "scale a --replicas 1", "kubeconfig a", "delete cluster a"]
    {
        let said = capt(line).bad("there is no Kubernetes API to talk to");
        assert!(said.contains("start one: capt up"), "{said}");
    }
    capt("events --kubeconfig /nowhere").bad("No such file");
    capt("events --data-dir /nowhere").bad("capt up --data-dir /nowhere");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_kinds_it_is_said_how_to_install_them() {
    if !capt_e2e::runs_on("embedded") {
        return;
    }
    let world = World::server().await;
    for line in ["logs a", "approve a", "scale a --replicas 1", "rollout status a"] {
        let said = world.capt(line).bad("the API does not know CAPT's kinds");
        assert!(said.contains("capt crds | kubectl apply"), "{said}");
    }
}
