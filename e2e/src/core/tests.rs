use std::{
    env,
    io::{BufRead as _, BufReader},
    path::PathBuf,
    process::{Command, Stdio},
};

use super::*;
use crate::process::tests::exists;

/// For what is a matter of milliseconds on an idle machine.
const SOON: Duration = Duration::from_secs(120);

fn needs() -> Vec<Peer> {
    [KubeApiserver::NEEDS, ClusterApiCore::NEEDS].concat()
}

fn health_check(selector: &Value) -> DynamicObject {
    serde_json::from_value(json!({
        "apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "MachineHealthCheck", "metadata": {"name": "c"},
        "spec": {"clusterName": "demo", "selector": selector, "nodeStartupTimeout": "1m30s"},
    }))
    .unwrap()
}

/// Its webhooks refuse and convert: without them neither would happen.
#[tokio::test]
async fn its_webhooks_answer_and_it_leaves_nothing() {
    let Some(peers) = Peers::find_or_skip(&needs()) else { return };
    let server = KubeApiserver::start(&peers).await.unwrap();
    let core = ClusterApiCore::start(&peers, &server).await.unwrap();
    let checks = |version: &str| {
        let kind = resource("cluster.x-k8s.io", version, "MachineHealthCheck");
        Api::<DynamicObject>::default_namespaced_with(server.client(), &kind)
    };
    let new = PostParams::default();
    let refused = checks("v1beta1").create(&new, &health_check(&json!({}))).await.unwrap_err();
    assert!(refused.to_string().contains("selector must not be empty"), "{refused}");

    let selector = json!({"matchLabels": {"pool": "a"}});
    checks("v1beta1").create(&new, &health_check(&selector)).await.unwrap();
    let converted = checks("v1beta2").get("c").await.unwrap();
    assert_eq!(converted.data["spec"]["checks"]["nodeStartupTimeoutSeconds"], 90);

    let (pid, folder) = (core.process().pid(), core.process().folder().path().to_owned());
    assert!(exists(pid) && folder.is_dir());
    drop(core);
    assert!(!exists(pid) && !folder.exists());
}

/// Set for the process that [`it_does_not_outlive_a_killed_test`] is going to kill.
const HOLD: &str = "CAPT_E2E_HOLD_CORE";

#[tokio::test]
async fn it_does_not_outlive_a_killed_test() {
    let Some(_) = Peers::find_or_skip(&needs()) else { return };
    let mut holder = Command::new(env::current_exe().unwrap())
        .args(["--exact", "--nocapture", "core::tests::hold_until_killed"])
        .env(HOLD, "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(holder.stdout.take().unwrap()).lines();
    let held = lines.find_map(|line| {
        let line = line.unwrap();
        let (pid, folder) = line.split_once("holding ")?.1.split_once(' ')?;
        Some((pid.parse().unwrap(), PathBuf::from(folder)))
    });
    let (pid, folder) = held.expect("the holder starts core");
    assert!(exists(pid) && folder.is_dir());
    holder.kill().unwrap();
    holder.wait().unwrap();
    let gone =
        until("process and folder are gone", SOON, async || (!exists(pid) && !folder.exists()).then_some(()));
    gone.await.unwrap();
}

#[tokio::test]
async fn hold_until_killed() {
    if env::var_os(HOLD).is_none() {
        return;
    }
    let peers = Peers::find(&needs()).unwrap();
    let server = KubeApiserver::start(&peers).await.unwrap();
    let core = ClusterApiCore::start(&peers, &server).await.unwrap();
    println!("holding {} {}", core.process().pid(), core.process().folder().path().display());
    std::future::pending::<()>().await;
}
