//! One-resource workspaces through WorkspaceTemplateApply objects and controllers, beside a plain parallel shell loop.
//!
//! `WORKSPACES` (200) of them; the loop runs over folders that need no `init`, as many at a time as there are cores.

#![allow(clippy::print_stdout, reason = "a bench prints what it measured")]
#![allow(clippy::cast_precision_loss, reason = "bytes of memory, rounded anyway")]

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use capt_api::workspace::WorkspaceTemplateApply;
use capt_controllers::runtime::conditions;
use capt_controllers::{Controllers, Options};
use capt_terraform::Engine;
use futures::StreamExt;
use kube::api::{Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;

/// As the program has it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const MODULE: &str = "variable \"name\" {\n  type = string\n}\nresource \"terraform_data\" \"thing\" {\n  input = var.name\n}\noutput \"id\" {\n  value = terraform_data.thing.id\n}\n";

#[tokio::main]
async fn main() {
    // `cargo test` runs benches too, with this argument and without wanting a measurement.
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    let count: usize = std::env::var("WORKSPACES").ok().and_then(|text| text.parse().ok()).unwrap_or(200);
    let Some(program) =
        ["tofu", "terraform"].into_iter().find(|name| Command::new(name).arg("version").output().is_ok())
    else {
        println!("neither tofu nor terraform is on PATH: nothing is measured");
        return;
    };
    let rounds = 3;
    let (mut bare, mut ours) = (Vec::new(), Vec::new());
    let mut memory = 0;
    for _ in 0..rounds {
        bare.push(shell_loop(program, count));
        let (took, rss) = controllers(count).await;
        ours.push(took);
        memory = memory.max(rss);
    }
    let best = |times: &[Duration]| times.iter().min().copied().unwrap_or_default();
    let (bare, ours) = (best(&bare), best(&ours));
    println!("{count} one-resource workspaces ({program}), best of {rounds}");
    println!("  plain shell loop          {:7.2} s", bare.as_secs_f64());
    println!(
        "  objects and controllers   {:7.2} s   {:.2}x (aim: at most 1.25x)",
        ours.as_secs_f64(),
        ours.as_secs_f64() / bare.as_secs_f64()
    );
    println!("  memory of this process    {:7.1} MB, the embedded API included", memory as f64 / 1e6);
}

/// `apply` in each of `count` folders, as many at a time as there are cores.
fn shell_loop(program: &str, count: usize) -> Duration {
    let folder = tempfile::tempdir().expect("a folder");
    for number in 0..count {
        let path = folder.path().join(number.to_string());
        std::fs::create_dir(&path).expect("a folder");
        std::fs::write(path.join("main.tf"), MODULE).expect("a file");
        std::fs::write(path.join("v.auto.tfvars.json"), format!("{{\"name\": \"w{number}\"}}"))
            .expect("a file");
    }
    let script = format!(
        "seq 0 {} | xargs -P {} -I {{}} {program} -chdir={{}} apply -json -auto-approve -input=false >/dev/null",
        count - 1,
        cores()
    );
    let start = Instant::now();
    let status =
        Command::new("sh").args(["-c", &script]).current_dir(folder.path()).status().expect("sh runs");
    assert!(status.success(), "the loop failed");
    let took = start.elapsed();
    for number in 0..count {
        assert!(
            folder.path().join(number.to_string()).join("terraform.tfstate").exists(),
            "{number} was not applied"
        );
    }
    took
}

async fn controllers(count: usize) -> (Duration, u64) {
    let folder = tempfile::tempdir().expect("a folder");
    let server = capt_apiserver::Server::open(&folder.path().join("api")).await.expect("an API");
    let client = server.client("default");
    install(&client).await;
    let engine = start_engine(folder.path()).await;
    let controllers = Controllers::start(&client, std::sync::Arc::new(engine.clone()), &Options::default());
    let template = json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "WorkspaceTemplate",
        "metadata": {"name": "thing"}, "spec": {"template": {"spec": {"module": MODULE}}},
    });
    let templates: Api<capt_api::workspace::WorkspaceTemplate> = Api::default_namespaced(client.clone());
    templates
        .patch("thing", &PatchParams::apply("bench"), &Patch::Apply(&template))
        .await
        .expect("a template");
    let applies: Api<WorkspaceTemplateApply> = Api::default_namespaced(client.clone());
    let mut events = applies.watch(&WatchParams::default(), "0").await.expect("a watch").boxed();
    let start = Instant::now();
    for number in 0..count {
        let name = format!("w{number}");
        let spec = json!({"templateRef": {"name": "thing"}, "variables": {"name": name}});
        let object =
            serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec})).expect("an object");
        applies.create(&PostParams::default(), &object).await.expect("it is created");
    }
    let mut ready = std::collections::HashSet::new();
    while ready.len() < count {
        match events.next().await.expect("the watch goes on").expect("an event") {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                let status = object.status.clone().unwrap_or_default();
                if conditions::is_true(&status.conditions, "Ready") {
                    ready.insert(object.name_any());
                }
            }
            _ => {}
        }
    }
    let took = start.elapsed();
    let memory = rss();
    drop(controllers);
    engine.stop().await;
    (took, memory)
}

async fn start_engine(folder: &Path) -> Engine {
    let mut options = capt_terraform::Options::new(folder.join("engine"));
    options.guard = env!("CARGO_BIN_EXE_capt-controllers-guard").into();
    Engine::start(options).await.expect("an engine")
}

async fn install(client: &Client) {
    let crds: Api<
        k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    > = Api::all(client.clone());
    for crd in capt_api::crds() {
        crds.patch(&crd.name_any(), &PatchParams::apply("bench"), &Patch::Apply(&crd)).await.expect("a CRD");
    }
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Memory of this process.
fn rss() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap_or_default() * 1024
}
