//! Workspaces that wait for each other, and for Secrets.

use kube::api::PostParams;
use serde_json::json;

use crate::fixture::{Fixture, condition, truth};

pub async fn a_chain_of_three(fixture: &Fixture) {
    fixture.template("thing", &fixture.module()).await;
    let after = |other: &str| json!({"variablesFrom": [{"workspaceRef": {"name": other}, "map": {"name": "label", "token": "password"}}]});
    fixture.apply("c", "thing", after("b")).await;
    fixture.apply("b", "thing", after("a")).await;
    let waiting = fixture.reason("c", "WaitingForWorkspace").await;
    assert!(condition(&waiting, "Ready").1.contains("WorkspaceTemplateApply b"), "{:?}", waiting.status);
    fixture.apply("a", "thing", json!({"variables": {"name": "a"}})).await;
    let ready = fixture.ready("c").await;
    assert_eq!(fixture.traces(), ["created a 1", "created a-1 1", "created a-1-1 1"]);
    assert_eq!(ready.status.unwrap().outputs["label"], "a-1-1-1");

    // A change runs down the chain.
    fixture.apply("a", "thing", json!({"variables": {"name": "a", "size": 3}})).await;
    let changed = fixture.when("c", "changed", |object| {
        truth(object, "Ready") == "True" && object.status.as_ref().unwrap().outputs["label"] == "a-3-1-1"
    });
    changed.await;

    // They go in the opposite order, whoever is deleted first.
    fixture.delete("a").await;
    let held = fixture.when("a", "held", |object| truth(object, "Deleting") == "True").await;
    assert!(condition(&held, "Deleting").1.contains("waits for b"), "{:?}", held.status);
    for name in ["b", "c"] {
        fixture.delete(name).await;
    }
    for name in ["a", "b", "c"] {
        fixture.gone(name).await;
    }
    let destroyed: Vec<String> = fixture
        .traces()
        .into_iter()
        .filter(|line| line.starts_with("destroyed") && !line.ends_with("a 1"))
        .collect();
    assert_eq!(destroyed, ["destroyed a-3-1 1", "destroyed a-3 1", "destroyed a 3"]);
}

/// As manifests of the Go version name what they wait for: a workspace has the name of its object without `-apply`.
pub async fn a_workspace_is_awaited_by_its_own_name(fixture: &Fixture) {
    fixture.template("thing", &fixture.module()).await;
    let after = json!({"variables": {"name": "b"}, "waitForWorkspaces": [{"name": "demo-vpc"}]});
    fixture.apply("b", "thing", after).await;
    fixture.reason("b", "WaitingForWorkspace").await;
    fixture.apply("demo-vpc-apply", "thing", json!({"variables": {"name": "a"}})).await;
    fixture.ready("b").await;
    assert_eq!(fixture.traces(), ["created a 1", "created b 1"]);
    // It is not destroyed under the one that depends on it.
    fixture.delete("demo-vpc-apply").await;
    let held = fixture.when("demo-vpc-apply", "held", |object| truth(object, "Deleting") == "True").await;
    assert!(condition(&held, "Deleting").1.contains("waits for b"), "{:?}", held.status);
    fixture.delete("b").await;
    for name in ["b", "demo-vpc-apply"] {
        fixture.gone(name).await;
    }
    assert_eq!(fixture.traces()[2..], ["destroyed b 1", "destroyed a 1"]);
}

/// Values of a template: `${key}` in them, and over what an owner passes by default.
pub async fn values_of_a_template_count(fixture: &Fixture) {
    let spec = json!({"forProvider": {
        "source": "Inline", "module": fixture.module(), "vars": [{"key": "name", "value": "${cluster_name}-vpc"}],
        "varmap": {"size": 3},
    }});
    fixture.put_template("thing", spec).await;
    fixture
        .apply("a", "thing", json!({"variables": {"cluster_name": "demo", "size": 1}, "paused": true}))
        .await;
    fixture.annotate("a", capt_api::names::annotations::DEFAULT_VARIABLES, "size").await;
    fixture.apply("a", "thing", json!({"variables": {"cluster_name": "demo", "size": 1}})).await;
    let ready = fixture.ready("a").await;
    assert_eq!(condition(&ready, "Synced").0, "TemplateValuesKept", "{:?}", ready.status);
    assert!(condition(&ready, "Synced").1.contains("size"), "{:?}", ready.status);
    assert_eq!(ready.status.unwrap().outputs["label"], "demo-vpc-3");
}

pub async fn a_circle_is_named(fixture: &Fixture) {
    fixture.template("thing", &fixture.module()).await;
    let after = |name: &str, other: &str| json!({"variables": {"name": name}, "waitForWorkspaces": [{"name": other}]});
    fixture.apply("a", "thing", after("a", "b")).await;
    fixture.apply("b", "thing", after("b", "c")).await;
    fixture.apply("c", "thing", after("c", "a")).await;
    for name in ["a", "b", "c"] {
        let stuck = fixture.reason(name, "DependencyCycle").await;
        assert_eq!(truth(&stuck, "Stalled"), "True");
    }
    let message = condition(&fixture.get("a").await, "Ready").1;
    assert!(message.contains("a -> b -> c -> a"), "{message}");
    fixture.apply("c", "thing", json!({"variables": {"name": "c"}, "waitForWorkspaces": []})).await;
    let ready = fixture.ready("a").await;
    assert_eq!(truth(&ready, "Stalled"), "absent");
    assert_eq!(fixture.traces(), ["created c 1", "created b 1", "created a 1"]);
}

pub async fn secrets_are_awaited(fixture: &Fixture) {
    fixture.template("thing", &fixture.module()).await;
    let spec = json!({
        "variables": {"name": "a"}, "waitForSecrets": [{"name": "there"}], "waitForSecret": {"name": "also"},
        "variablesFrom": [{"secretRef": {"name": "there"}, "map": {"token": "key"}}],
    });
    fixture.apply("a", "thing", spec).await;
    let waiting = fixture.reason("a", "SecretNotFound").await;
    assert!(condition(&waiting, "Ready").1.contains("Secret there does not exist"), "{:?}", waiting.status);
    let secret = |name: &str| {
        serde_json::from_value(json!({"metadata": {"name": name}, "stringData": {"key": "quiet-please"}}))
            .unwrap()
    };
    fixture.secrets().create(&PostParams::default(), &secret("there")).await.unwrap();
    let waiting = fixture.reason("a", "WaitingForSecrets").await;
    assert!(condition(&waiting, "Ready").1.contains("also"), "{:?}", waiting.status);
    assert!(fixture.traces().is_empty());
    fixture.secrets().create(&PostParams::default(), &secret("also")).await.unwrap();
    fixture.ready("a").await;
    assert_eq!(fixture.traces(), ["created a 1"]);
}
