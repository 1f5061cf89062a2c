//! `capt logs`, `capt plan` and `capt events`.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use capt_api::workspace::WorkspaceTemplateApply;
use capt_e2e::until;
use serde_json::json;

use crate::world::{Process, SOON, World, workspace};

const MODULE: &str = r#"
variable "word" { type = string }
variable "token" {
  type      = string
  default   = "none"
  sensitive = true
}
resource "terraform_data" "said" {
  input = var.word
  lifecycle {
    precondition {
      condition     = var.word != "no"
      error_message = "the word is no"
    }
  }
}
variable "unmarked" {
  type    = string
  default = "none"
}
resource "terraform_data" "kept" {
  input = [var.token, var.unmarked]
}
"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_terraform_printed_can_be_read() {
    let Some(world) = World::start().await else { return };
    world.apply(&workspace("talk", MODULE, json!({"variables": {"word": "yes"}}))).await;
    world.ready_is("talk", "Ready").await;
    let log = world.capt("logs talk").good();
    assert!(log.contains("terraform_data.said: Creating..."), "{log}");
    assert!(log.contains("Apply complete! Resources: 2 added"), "{log}");
    assert!(!log.contains("T1") || !log.starts_with("20"), "no times unless asked: {log}");
    let stamped = world.capt("logs wtapply/talk --timestamps").good();
    assert!(stamped.starts_with("20"), "{stamped}");

    world.patch("WorkspaceTemplateApply", "talk", json!({"spec": {"variables": {"word": "no"}}})).await;
    world
        .workspace("talk", "a failed run", |talk| {
            talk.status.as_ref().is_some_and(|status| status.last_failure_message.is_some())
        })
        .await;
    // It would be tried again by itself, and its runs would be more.
    world.capt("pause talk").good();
    world.ready_is("talk", "Paused").await;
    let failed = world.capt("logs talk").good();
    assert!(failed.contains("Error: ") && failed.contains("the word is no"), "{failed}");
    assert_eq!(world.capt("logs talk --run 2").good(), log, "the run before the last");
    let list = world.capt("logs talk --run list").good();
    let rows: Vec<&str> = list.lines().collect();
    assert!(rows[0].starts_with("RUN") && rows[1].contains("Failed") && rows[2].contains("done"), "{list}");
    let name = rows[2].split_whitespace().nth(1).unwrap();
    assert_eq!(world.capt(&format!("logs talk --run {name}")).good(), log);
    world.capt("logs talk --run 9").bad("there is no run 9; 2 are kept");

    // A controller that is somewhere else has the logs there; the failure is in the status.
    let mut elsewhere = world.command("logs talk");
    elsewhere.env("KUBECONFIG", world.kubeconfig()).env("CAPT_DATA_DIR", "/nowhere");
    let said = crate::world::run(elsewhere).bad("/nowhere has no runs of talk");
    assert!(said.contains("last failure of talk: ") && said.contains("--data-dir"), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_is_followed_from_run_to_run() {
    let Some(world) = World::start().await else { return };
    world.apply(&workspace("talk", MODULE, json!({"variables": {"word": "yes"}}))).await;
    world.ready_is("talk", "Ready").await;
    let mut follow = world.command("logs -f talk").stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(follow.stdout.take().unwrap()).lines();
    let _follow = Process(follow);
    let mut to = |words: &str| {
        let mut seen = Vec::new();
        loop {
            let line = lines.next().expect(words).unwrap();
            let enough = line.contains(words);
            seen.push(line);
            if enough {
                return seen.join("\n");
            }
        }
    };
    assert!(to("-- apply done").contains("Apply complete! Resources: 2 added"));
    world.patch("WorkspaceTemplateApply", "talk", json!({"spec": {"variables": {"word": "more"}}})).await;
    assert!(to("-- apply done").contains("Apply complete! Resources: 0 added, 1 changed"));
    world.capt("delete wtapply/talk --yes").good();
    to("default/talk is gone");
    assert!(lines.next().is_none(), "it ends with the workspace");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn drift_is_seen_wherever_people_look() {
    let Some(world) = World::start().await else { return };
    // Each look finds another time than was applied.
    let module = "resource \"terraform_data\" \"clock\" {\n  triggers_replace = plantimestamp()\n}\n";
    let calm = "resource \"terraform_data\" \"rock\" {}\n";
    world.apply(&workspace("still", calm, json!({}))).await;
    world.ready_is("still", "Ready").await;
    world
        .capt("plan still --drift")
        .bad("no drift of still is known: drift detection is off: set spec.driftDetection");
    world.apply(&workspace("adrift", module, json!({"driftDetection": {"interval": "2s"}}))).await;
    let drifted = |object: &WorkspaceTemplateApply| {
        let conditions = object.status.as_ref().map(|status| status.conditions.clone()).unwrap_or_default();
        conditions.iter().any(|condition| condition.type_ == "Drifted" && condition.status == "True")
    };
    world.workspace("adrift", "drift", drifted).await;
    // Its next looks would only come between.
    world
        .patch("WorkspaceTemplateApply", "adrift", json!({"spec": {"driftDetection": {"interval": "1h"}}}))
        .await;
    let settled = |object: &WorkspaceTemplateApply| crate::world::ready(object).is_some() && drifted(object);
    world.workspace("adrift", "seen", settled).await;
    let shown = world.capt("plan adrift --drift").good();
    assert!(shown.contains("terraform_data.clock must be replaced"), "{shown}");
    assert!(shown.contains("triggers_replace = "), "a diff: {shown}");
    assert!(shown.contains("adrift has drifted: replace terraform_data.clock"), "{shown}");
    let status = world.capt("status").good();
    assert!(status.contains("~ workspace adrift") && status.contains("Drifted"), "{status}");
    assert!(status.ends_with("2 objects: 1 ready, 1 drifted\n"), "{status}");
    let doctor = world.capt("doctor").good();
    assert!(doctor.contains("warn  drift        1 workspace drifted: adrift"), "{doctor}");
    let none = world.capt("plan adrift").bad("no plan of adrift waits");
    assert!(none.contains("capt plan adrift --drift"), "{none}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plan_is_shown_without_its_secrets() {
    let Some(world) = World::start().await else { return };
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "token"},
        // Terraform knows of one that it is sensitive, CAPT of both: they come from a Secret.
        "stringData": {"token": "hunter2-hunter2", "unmarked": "hunter3-hunter3"},
    });
    let secrets: kube::Api<k8s_openapi::api::core::v1::Secret> =
        kube::Api::default_namespaced(world.client.clone());
    secrets
        .create(&kube::api::PostParams::default(), &serde_json::from_value(secret).unwrap())
        .await
        .unwrap();
    let spec = json!({
        "approval": "Manual", "variables": {"word": "yes"}, "variablesFrom": [{"secretRef": {"name": "token"}}],
    });
    world.apply(&workspace("talk", MODULE, spec)).await;
    world.ready_is("talk", "WaitingForApproval").await;
    let shown = world.capt("plan talk").good();
    assert!(shown.contains("# terraform_data.said will be created"), "{shown}");
    assert!(shown.contains("of talk: 2 to add, 0 to change, 0 to destroy"), "{shown}");
    assert!(shown.contains("apply it: capt approve talk --plan "), "{shown}");
    assert!(!shown.contains("hunter") && shown.contains("(sensitive"), "{shown}");

    // Showing a plan starts what the module brings: that is shut in as a run is, and nothing of it is left.
    if capt_terraform::sandbox::available() {
        let (path, victim, tools) = (
            std::env::var("PATH").unwrap(),
            world.folder.path().join("victim"),
            world.folder.path().join("tools"),
        );
        std::fs::create_dir(&tools).unwrap();
        let seconds = format!("9{:08}", std::process::id());
        let script = format!(
            "#!/bin/sh\nif [ \"$1\" = version ]; then PATH='{path}' exec terraform version -json; fi\n\
             setsid sleep {seconds} >/dev/null 2>&1 &\necho x > '{victim}' && echo wrote\n\
             cat '{data}'/pki/token && echo read\nls '{data}' && echo listed\necho the plan\n",
            victim = victim.display(),
            data = world.folder.path().join("data").display(),
        );
        std::fs::write(tools.join("terraform"), script).unwrap();
        std::fs::set_permissions(
            tools.join("terraform"),
            std::os::unix::fs::PermissionsExt::from_mode(0o755),
        )
        .unwrap();
        let mut looks = world.command("plan talk");
        looks.env("PATH", format!("{}:{path}", tools.display()));
        let said = crate::world::run(looks).good();
        let first: Vec<_> = said.lines().take(1).collect();
        assert_eq!(first, ["the plan"], "{said}");
        assert!(!victim.exists());
        let left = std::fs::read_dir("/proc").unwrap().flatten().any(|process| {
            let line = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
            line.split(|byte| *byte == 0).any(|word| word == seconds.as_bytes())
        });
        assert!(!left, "something is left of it");
    }

    let mut elsewhere = world.command("plan talk");
    elsewhere.env("KUBECONFIG", world.kubeconfig()).env("CAPT_DATA_DIR", "/nowhere");
    let said = crate::world::run(elsewhere).good();
    assert!(said.contains("where the controller runs") && said.contains("2 to add"), "{said}");

    let line = shown.lines().last().unwrap();
    let (_, approve) = line.split_once("capt ").unwrap();
    world.capt(approve).good();
    world.ready_is("talk", "Ready").await;
    let none = world.capt("plan talk").bad("no plan of talk waits: its inputs are applied");
    assert!(none.contains("the last one: 2 to add"), "{none}");
    world.capt("plan captmachine/none").bad("no CaptMachine none in namespace default");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_happened_is_told() {
    let Some(world) = World::start().await else { return };
    world.apply(&workspace("talk", MODULE, json!({"variables": {"word": "no"}}))).await;
    world
        .workspace("talk", "a failed run", |talk| {
            talk.status.as_ref().is_some_and(|status| status.last_failure_message.is_some())
        })
        .await;
    world.apply(&workspace("other", MODULE, json!({"variables": {"word": "yes"}}))).await;
    world.ready_is("other", "Ready").await;
    let of = |line: &str| world.capt(line).good();
    let told = until("the events", SOON, async || {
        let all = of("events");
        let other = all.contains("wtapply/other") || all.contains("workspacetemplateapply/other");
        (other && all.contains("the word is no")).then_some(all)
    });
    let all = told.await.unwrap();
    assert!(all.starts_with("LAST SEEN   TYPE"), "{all}");
    assert!(all.contains("Warning") && all.contains("the word is no"), "{all}");
    let one = of("events other");
    assert!(
        one.contains("workspacetemplateapply/other") && !one.contains("workspacetemplateapply/talk"),
        "{one}"
    );
    let warnings = of("events --types warning");
    assert!(warnings.contains("Warning") && !warnings.contains("Normal"), "{warnings}");
    assert!(of("events -A").starts_with("NAMESPACE"));
    world.capt("events nobody").bad("no WorkspaceTemplateApply nobody");

    let mut watch = world.command("events --watch --types warning").stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let _watch = Process(watch);
    assert!(lines.next().unwrap().unwrap().starts_with("LAST SEEN"));
    world.patch("WorkspaceTemplateApply", "other", json!({"spec": {"variables": {"word": "no"}}})).await;
    let seen =
        lines.map_while(Result::ok).find(|line| line.contains("/other") && line.contains("the word is no"));
    assert!(seen.is_some(), "what happens meanwhile is told");
}

/// What a machine printed that could not be built is read from its owner, after it is gone with its workspace.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_failed_run_outlives_its_machine() {
    let Some(world) = World::start().await else { return };
    // It fails when it is applied: then it has a plan.
    let module = r#"
variable "instance_type" { type = string }
resource "terraform_data" "first" { input = var.instance_type }
resource "terraform_data" "second" {
  input = terraform_data.first.output
  lifecycle {
    precondition {
      condition     = terraform_data.first.output != "no"
      error_message = "the word is no"
    }
  }
}
"#;
    let template = json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "WorkspaceTemplate",
        "metadata": {"name": "broken"}, "spec": {"template": {"spec": {"module": module}}},
    });
    let set = json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "CaptMachineSet", "metadata": {"name": "web"},
        "spec": {
            "replicas": 1, "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {
                "workspaceTemplateRef": {"name": "broken"}, "nodeGroupRef": {"name": "workers"}, "instanceType": "no",
            }},
        },
    });
    world.apply(&format!("{template}\n---\n{set}\n")).await;
    let sets = world.api("CaptMachineSet");
    let failed = async || {
        let set = sets.get("web").await.unwrap();
        set.data.pointer("/status/lastFailure/machine").map(|name| name.as_str().unwrap().to_owned())
    };
    let machine = until("a failure", SOON, failed).await.unwrap();
    world.patch("CaptMachineSet", "web", json!({"spec": {"replicas": 0}})).await;
    world.until_gone("CaptMachine", &machine).await;
    world.until_gone("WorkspaceTemplateApply", &format!("{machine}-machine")).await;
    let log = world.capt("logs captmachineset/web --last-failed").good();
    assert!(log.starts_with(&format!("{machine}-machine, run ")) && log.contains("the word is no"), "{log}");
    let plan = world.capt("plan captmachineset/web --last-failed").good();
    assert!(plan.contains("+ terraform_data.second") && plan.contains("2 to add, 0 to change"), "{plan}");
}
