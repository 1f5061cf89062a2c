//! Values of Secrets in outputs: not shown, unless their owner says so.

use capt_api::names::annotations::NOT_SECRET;
use k8s_openapi::api::core::v1::{ConfigMap, Event};
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use serde_json::json;

use crate::fixture::{Fixture, condition, truth};

const MODULE: &str = r#"
variable "password" { type = string }
variable "url" {
  type    = string
  default = ""
}
output "url" { value = "postgres://app:${urlencode(var.password)}@db.example.com/app" }
output "label" { value = "open-${length(var.password)}" }
output "taken" { value = var.url }
"#;

pub async fn an_output_with_a_value_of_a_secret_is_not_shown(fixture: &Fixture) {
    fixture.template("thing", MODULE).await;
    let secret =
        json!({"metadata": {"name": "db"}, "stringData": {"password": "s3cr3t & more", "other": "x"}});
    let secret = serde_json::from_value(secret).unwrap();
    fixture.secrets().create(&PostParams::default(), &secret).await.unwrap();
    let from = json!({
        "variablesFrom": [{"secretRef": {"name": "db"}, "map": {"password": "password"}}],
        "writeConnectionSecretToRef": {"name": "out"},
    });
    fixture.apply("a", "thing", from).await;
    let ready = fixture.ready("a").await;
    let message = condition(&ready, "Ready").1;
    assert!(message.contains("output url") && message.contains(NOT_SECRET), "{message}");
    let status = ready.status.clone().unwrap();
    assert_eq!(status.outputs["label"], "open-13");
    assert!(!status.outputs.contains_key("url"), "{status:?}");

    // Who takes it from there hides it as well.
    let taken = json!({"variablesFrom": [
        {"secretRef": {"name": "db"}, "map": {"password": "other"}},
        {"workspaceRef": {"name": "a"}, "map": {"url": "url"}},
    ]});
    fixture.apply("b", "thing", taken).await;
    let other = fixture.ready("b").await;
    assert!(!other.status.clone().unwrap().outputs.contains_key("taken"), "{:?}", other.status);

    let written = fixture.secrets().get("out").await.unwrap();
    let data = written.data.unwrap();
    assert_eq!(data["url"].0, b"postgres://app:s3cr3t+%26+more@db.example.com/app");
    let open = written.metadata.annotations.unwrap().remove(NOT_SECRET).unwrap();
    assert_eq!(open, "label,taken");

    let maps: Api<ConfigMap> = Api::namespaced(fixture.client.clone(), &fixture.namespace);
    let events: Api<Event> = Api::namespaced(fixture.client.clone(), &fixture.namespace);
    let all = serde_json::to_string(&(
        fixture.applies().list(&ListParams::default()).await.unwrap().items,
        events.list(&ListParams::default()).await.unwrap().items,
        maps.list(&ListParams::default()).await.unwrap().items,
    ));
    assert!(!all.unwrap().contains("s3cr3t"), "nowhere but in Secrets");

    // The owner of the Secret says that it is none.
    let note = json!({"metadata": {"annotations": {NOT_SECRET: "password"}}});
    fixture.secrets().patch("db", &PatchParams::default(), &Patch::Merge(&note)).await.unwrap();
    let shown = fixture.when("a", "shown", |object| {
        truth(object, "Ready") == "True" && object.status.as_ref().unwrap().outputs.contains_key("url")
    });
    assert!(!condition(&shown.await, "Ready").1.contains("not shown"));
}
