//! `capt approve`, `retry`, `cancel`, `pause`, `resume` and `import-state`.

use serde_json::json;

use crate::world::{World, workspace};

const ONE: &str =
    "variable \"word\" { default = \"a\" }\nresource \"terraform_data\" \"one\" {\n  input = var.word\n}\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plans_are_approved() {
    let Some(world) = World::start().await else { return };
    world.apply(&workspace("slow", ONE, json!({"approval": "Manual"}))).await;
    let waits = world.ready_is("slow", "WaitingForApproval").await;
    let id = waits.status.unwrap().plan.unwrap().id.unwrap();
    world.capt("approve slow --plan other").bad(&format!("slow waits with plan {id}, not other"));
    let said = world.capt("approve slow").good();
    assert_eq!(said, format!("approved plan {id} of slow: 1 to add, 0 to change, 0 to destroy\n"));
    let ready = world.ready_is("slow", "Ready").await;
    let notes = ready.metadata.annotations.unwrap();
    // Who did it is whom the API knows; and it is used once.
    let by = &notes["infrastructure.cluster.x-k8s.io/approved"];
    let user = by.strip_prefix(&format!("{id} by ")).and_then(|rest| rest.strip_suffix(" with capt approve"));
    assert!(user.is_some_and(|user| !user.is_empty() && !user.contains("unknown")), "{by}");
    assert!(!notes.contains_key("infrastructure.cluster.x-k8s.io/approve"), "{notes:?}");
    let told = capt_e2e::until("events", crate::world::SOON, async || {
        Some(world.capt("events slow").good()).filter(|told| told.contains("Applied"))
    });
    let told = told.await.unwrap();
    assert!(
        told.contains(&format!("plan {id} (1 to add, 0 to change, 0 to destroy) was approved by ")),
        "{told}"
    );
    assert!(
        told.contains("added 1, changed 0, destroyed 0: create terraform_data.one; approved by "),
        "{told}"
    );
    world.capt("approve slow").bad("slow has no plan that waits for approval");
    world.capt("approve pod/slow").bad("unknown kind \"pod\"\n  kinds: cluster, ");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runs_are_cancelled_and_tried_again() {
    let Some(world) = World::start().await else { return };
    let module = "resource \"terraform_data\" \"long\" {\n  provisioner \"local-exec\" {\n    command = \"sleep 600\"\n  }\n}\n";
    world.apply(&workspace("long", module, json!({}))).await;
    world
        .workspace("long", "a run", |long| {
            long.status.as_ref().is_some_and(|status| status.progress.is_some())
        })
        .await;
    let said = world.capt("cancel long").good();
    assert_eq!(said, "the run of long is interrupted; capt retry long runs it again\n");
    world.ready_is("long", "Cancelled").await;
    world.capt("cancel long").bad("long has no run to cancel");
    assert_eq!(world.capt("retry long").good(), "long runs again\n");
    world
        .workspace("long", "another run", |long| {
            long.status.as_ref().is_some_and(|status| status.progress.is_some())
        })
        .await;
    world.capt("cancel wtapply/long").good();
    // A run outlives its controller; nobody is left behind here.
    world.ready_is("long", "Cancelled").await;
    world.capt("retry nobody").bad("no WorkspaceTemplateApply nobody in namespace default");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_is_paused_and_goes_on() {
    let Some(world) = World::start().await else { return };
    world.apply(&workspace("one", ONE, json!({}))).await;
    world.ready_is("one", "Ready").await;
    assert_eq!(world.capt("pause one").good(), "wtapply/one is paused\n");
    assert_eq!(world.capt("pause one").good(), "wtapply/one is paused already\n");
    world.patch("WorkspaceTemplateApply", "one", json!({"spec": {"variables": {"word": "b"}}})).await;
    world.ready_is("one", "Paused").await;
    // Nothing is deleted while it is paused, and that is said.
    let asked = world.capt("delete wtapply/one").bad("no terminal to confirm on: add --yes to delete it");
    assert!(asked.contains("in the way:\n  wtapply/one is paused: capt resume wtapply/one\n"), "{asked}");
    let used = world.capt("delete workspacetemplate/one").bad("no terminal to confirm on");
    assert!(used.contains("workspacetemplate/one is used by wtapply/one: delete that first\n"), "{used}");
    let blocked = world.capt("delete wtapply/one --yes --timeout 1s").bad("not gone in time");
    assert!(blocked.contains("wtapply/one is paused: capt resume wtapply/one"), "{blocked}");
    assert_eq!(world.capt("resume one").good(), "wtapply/one is resumed\n");
    world.until_gone("WorkspaceTemplateApply", "one").await;
    world.capt("resume one").bad("no WorkspaceTemplateApply one");
    // A kind without the field is paused by Cluster API's annotation.
    assert_eq!(world.capt("pause workspacetemplate/one").good(), "workspacetemplate/one is paused\n");
    let template = world.api("WorkspaceTemplate").get("one").await.unwrap();
    assert_eq!(template.metadata.annotations.unwrap()["cluster.x-k8s.io/paused"], "true");
    world.capt("resume workspacetemplate one").good();
    let template = world.api("WorkspaceTemplate").get("one").await.unwrap();
    assert!(!template.metadata.annotations.unwrap_or_default().contains_key("cluster.x-k8s.io/paused"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_state_is_taken_over() {
    let Some(world) = World::start().await else { return };
    world.apply(&workspace("old", ONE, json!({"approval": "Manual"}))).await;
    world.ready_is("old", "WaitingForApproval").await;
    let path = world.folder.path().join("old.tfstate");
    std::fs::write(&path, "{").unwrap();
    let line = format!("import-state old -f {}", path.display());
    world.capt(&line).bad("old.tfstate: ");
    world.capt("import-state old -f /nowhere").bad("read /nowhere: ");
    let state = json!({
        "version": 4, "terraform_version": "1.9.0", "serial": 7, "lineage": "l", "outputs": {},
        "resources": [{
            "mode": "managed", "type": "terraform_data", "name": "one",
            "provider": "provider[\"terraform.io/builtin/terraform\"]",
            "instances": [{"schema_version": 0, "attributes": {
                "id": "x", "input": {"value": "a", "type": "string"}, "output": {"value": "a", "type": "string"},
                "triggers_replace": null,
            }}],
        }],
    });
    std::fs::write(&path, state.to_string()).unwrap();
    let said = world.capt(&line).good();
    assert!(
        said.starts_with("old takes over 1 resource of serial 7\n  next: capt status wtapply/old"),
        "{said}"
    );
    world
        .workspace("old", "taken over", |old| {
            old.status.as_ref().is_some_and(|status| status.resources == Some(1))
        })
        .await;
    world.capt(&line).bad("old has 1 resource already: nothing is taken over");
    // Before there is anything to take it over. That of `old` would be refused: it has one workspace.
    let mut other = state;
    (other["lineage"], other["resources"][0]["instances"][0]["attributes"]["id"]) = (json!("m"), json!("y"));
    std::fs::write(&path, other.to_string()).unwrap();
    let early = world.capt(&format!("import-state early -f {}", path.display())).good();
    assert!(early.contains("waits in Secret capt-import-early"), "{early}");
    assert!(early.contains("next: create it in namespace default"), "{early}");
    world.apply(&workspace("early", ONE, json!({"approval": "Manual"}))).await;
    world
        .workspace("early", "taken over", |early| {
            early.status.as_ref().is_some_and(|status| status.resources == Some(1))
        })
        .await;
}
