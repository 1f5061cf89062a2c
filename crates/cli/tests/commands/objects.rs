//! Objects on the command line: `NAME`, `KIND/NAME` and `KIND NAME`, the same with every command.

use serde_json::json;

use crate::world::{World, command, run, workspace};

/// Every command that takes an object: its line before and after the object.
const COMMANDS: [(&str, &str); 22] = [
    ("approve", ""),
    ("cancel", ""),
    ("delete", "--yes"),
    ("events", ""),
    ("import-state", "-f /nowhere"),
    ("kubeconfig", ""),
    ("logs", ""),
    ("logs", "--last-failed"),
    ("pause", ""),
    ("plan", ""),
    ("resume", ""),
    ("retry", ""),
    ("rollout history", ""),
    ("rollout pause", ""),
    ("rollout restart", ""),
    ("rollout resume", ""),
    ("rollout simulate", ""),
    ("rollout status", ""),
    ("rollout undo", ""),
    ("scale", "--replicas 1"),
    ("state restore", ""),
    ("status", ""),
];

fn capt(line: &str) -> crate::world::Said {
    let folder = tempfile::tempdir().unwrap();
    let mut command = command(folder.path());
    command.args(line.split_whitespace());
    run(command)
}

#[test]
fn every_command_answers_an_unknown_kind_alike() {
    for (before, after) in COMMANDS {
        // Without an API: what is wrong with the words is said first.
        let said = capt(&format!("{before} Clutser/demo {after}")).bad("unknown kind \"Clutser\"");
        assert!(said.contains("; did you mean cluster?\n  kinds: cluster, "), "{before}: {said}");
        capt(&format!("{before} pod/demo {after}")).bad("capt: unknown kind \"pod\"\n  kinds: cluster, ");
        capt(&format!("{before} cluster/ {after}")).bad("no name after cluster: write cluster/NAME");
    }
}

#[test]
fn every_command_tells_of_objects_alike() {
    for (before, _) in COMMANDS {
        let help = capt(&format!("{before} --help")).good();
        let words = help.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains("[OBJECT]...") || words.contains("<OBJECT>..."), "{before}: {help}");
        let same = "KIND is a singular, plural or short name, with or without its API group";
        assert!(words.contains(same), "{before}: {help}");
        assert!(words.contains("KIND/NAME") && words.contains("KIND NAME"), "{before}: {help}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_object_has_many_names() {
    let Some(world) = World::start().await else { return };
    world.apply(&workspace("one", "resource \"terraform_data\" \"it\" {}\n", json!({}))).await;
    world.ready_is("one", "Ready").await;
    let names = [
        "wtapply/one",
        "WTA/one",
        "workspacetemplateapplies one",
        "workspace/one",
        "WorkspaceTemplateApply.infrastructure.cluster.x-k8s.io/one",
    ];
    for name in names {
        let log = world.capt(&format!("logs {name}")).good();
        assert!(log.contains("terraform_data.it: Creating..."), "{name}: {log}");
        let tree = world.capt(&format!("status {name}")).good();
        assert!(tree.contains("workspace one") && tree.ends_with("1 object: 1 ready\n"), "{name}: {tree}");
        assert!(world.capt(&format!("events {name}")).good().contains("/one"), "{name}");
        world.capt(&format!("plan {name}")).bad("no plan of one waits");
        world
            .capt(&format!("rollout status {name}"))
            .bad("wtapply/one does not fit here: this command takes captmachinedeployment");
    }
    // A name alone is that of a cluster; what else has it is said.
    let said = world.capt("status one").bad("no cluster one in namespace default: there is none");
    assert!(said.contains("did you mean capt status wtapply/one?"), "{said}");
    world.capt("status wtapply/two").bad("no wtapply two in namespace default: there is one");
    world
        .capt("status workspacetemplate/one")
        .bad("workspacetemplate/one does not fit here: this command takes cluster, ");
    world.capt("rollout status cmd/web").bad("no CaptMachineDeployment web in namespace default");
    world.capt("kubeconfig cluster demo").bad("no Cluster demo in namespace default");
}
