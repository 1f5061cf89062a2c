//! Workspaces that wait for each other, and for Secrets.

use kube::api::PostParams;
use serde_json::json;

use crate::stage::{Stage, condition, truth};

pub async fn a_chain_of_three(stage: &Stage) {
    stage.template("thing", &stage.module()).await;
    let after = |other: &str| json!({"variablesFrom": [{"workspaceRef": {"name": other}, "map": {"name": "label", "token": "password"}}]});
    stage.apply("c", "thing", after("b")).await;
    stage.apply("b", "thing", after("a")).await;
    let waiting = stage.reason("c", "WaitingForWorkspace").await;
    assert!(condition(&waiting, "Ready").1.contains("WorkspaceTemplateApply b"), "{:?}", waiting.status);
    stage.apply("a", "thing", json!({"variables": {"name": "a"}})).await;
    let ready = stage.ready("c").await;
    assert_eq!(stage.traces(), ["created a 1", "created a-1 1", "created a-1-1 1"]);
    assert_eq!(ready.status.unwrap().outputs["label"], "a-1-1-1");

    // A change runs down the chain.
    stage.apply("a", "thing", json!({"variables": {"name": "a", "size": 3}})).await;
    let changed = stage.when("c", "changed", |object| {
        truth(object, "Ready") == "True" && object.status.as_ref().unwrap().outputs["label"] == "a-3-1-1"
    });
    changed.await;

    // They go in the opposite order, whoever is deleted first.
    stage.delete("a").await;
    let held = stage.when("a", "held", |object| truth(object, "Deleting") == "True").await;
    assert!(condition(&held, "Deleting").1.contains("waits for b"), "{:?}", held.status);
    for name in ["b", "c"] {
        stage.delete(name).await;
    }
    for name in ["a", "b", "c"] {
        stage.gone(name).await;
    }
    let destroyed: Vec<String> = stage
        .traces()
        .into_iter()
        .filter(|line| line.starts_with("destroyed") && !line.ends_with("a 1"))
        .collect();
    assert_eq!(destroyed, ["destroyed a-3-1 1", "destroyed a-3 1", "destroyed a 3"]);
}

/// As manifests of the Go version name what they wait for: a workspace has the name of its object without `-apply`.
pub async fn a_workspace_is_awaited_by_its_own_name(stage: &Stage) {
    stage.template("thing", &stage.module()).await;
    let after = json!({"variables": {"name": "b"}, "waitForWorkspaces": [{"name": "demo-vpc"}]});
    stage.apply("b", "thing", after).await;
    stage.reason("b", "WaitingForWorkspace").await;
    stage.apply("demo-vpc-apply", "thing", json!({"variables": {"name": "a"}})).await;
    stage.ready("b").await;
    assert_eq!(stage.traces(), ["created a 1", "created b 1"]);
    // It is not destroyed under the one that depends on it.
    stage.delete("demo-vpc-apply").await;
    let held = stage.when("demo-vpc-apply", "held", |object| truth(object, "Deleting") == "True").await;
    assert!(condition(&held, "Deleting").1.contains("waits for b"), "{:?}", held.status);
    stage.delete("b").await;
    for name in ["b", "demo-vpc-apply"] {
        stage.gone(name).await;
    }
    assert_eq!(stage.traces()[2..], ["destroyed b 1", "destroyed a 1"]);
}

/// Values of a template: `${key}` in them, and over what an owner passes by default.
pub async fn values_of_a_template_count(stage: &Stage) {
    let spec = json!({"forProvider": {
        "source": "Inline", "module": stage.module(), "vars": [{"key": "name", "value": "${cluster_name}-vpc"}],
        "varmap": {"size": 3},
    }});
    stage.put_template("thing", spec).await;
    stage
        .apply("a", "thing", json!({"variables": {"cluster_name": "demo", "size": 1}, "paused": true}))
        .await;
    stage.annotate("a", capt_api::names::annotations::DEFAULT_VARIABLES, "size").await;
    stage.apply("a", "thing", json!({"variables": {"cluster_name": "demo", "size": 1}})).await;
    let ready = stage.ready("a").await;
    assert_eq!(condition(&ready, "Synced").0, "TemplateValuesKept", "{:?}", ready.status);
    assert!(condition(&ready, "Synced").1.contains("size"), "{:?}", ready.status);
    assert_eq!(ready.status.unwrap().outputs["label"], "demo-vpc-3");
}

pub async fn a_circle_is_named(stage: &Stage) {
    stage.template("thing", &stage.module()).await;
    let after = |name: &str, other: &str| json!({"variables": {"name": name}, "waitForWorkspaces": [{"name": other}]});
    stage.apply("a", "thing", after("a", "b")).await;
    stage.apply("b", "thing", after("b", "c")).await;
    stage.apply("c", "thing", after("c", "a")).await;
    for name in ["a", "b", "c"] {
        let stuck = stage.reason(name, "DependencyCycle").await;
        assert_eq!(truth(&stuck, "Stalled"), "True");
    }
    let message = condition(&stage.get("a").await, "Ready").1;
    assert!(message.contains("a -> b -> c -> a"), "{message}");
    stage.apply("c", "thing", json!({"variables": {"name": "c"}, "waitForWorkspaces": []})).await;
    let ready = stage.ready("a").await;
    assert_eq!(truth(&ready, "Stalled"), "absent");
    assert_eq!(stage.traces(), ["created c 1", "created b 1", "created a 1"]);
}

pub async fn secrets_are_awaited(stage: &Stage) {
    stage.template("thing", &stage.module()).await;
    let spec = json!({
        "variables": {"name": "a"}, "waitForSecrets": [{"name": "there"}], "waitForSecret": {"name": "also"},
        "variablesFrom": [{"secretRef": {"name": "there"}, "map": {"token": "key"}}],
    });
    stage.apply("a", "thing", spec).await;
    let waiting = stage.reason("a", "SecretNotFound").await;
    assert!(condition(&waiting, "Ready").1.contains("Secret there does not exist"), "{:?}", waiting.status);
    let secret = |name: &str| {
        serde_json::from_value(json!({"metadata": {"name": name}, "stringData": {"key": "quiet-please"}}))
            .unwrap()
    };
    stage.secrets().create(&PostParams::default(), &secret("there")).await.unwrap();
    let waiting = stage.reason("a", "WaitingForSecrets").await;
    assert!(condition(&waiting, "Ready").1.contains("also"), "{:?}", waiting.status);
    assert!(stage.traces().is_empty());
    stage.secrets().create(&PostParams::default(), &secret("also")).await.unwrap();
    stage.ready("a").await;
    assert_eq!(stage.traces(), ["created a 1"]);
}
