//! What is changed behind Terraform's back: a file that the module owns.

use std::path::PathBuf;

use capt_api::workspace::WorkspaceTemplateApply;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::json;

use crate::fixture::{Fixture, condition, truth};

/// A module that owns a file: when the file's content is not what was applied, a plan replaces the thing.
fn owned_file(fixture: &Fixture) -> (String, PathBuf) {
    let file = fixture.trace.with_extension("owned");
    let module = format!(
        r#"
locals {{ path = "{}" }}
resource "terraform_data" "file" {{
  input            = "content"
  triggers_replace = fileexists(local.path) ? filesha256(local.path) == sha256("content\n") : true
  provisioner "local-exec" {{
    command = "echo content > ${{local.path}}"
  }}
}}
"#,
        file.display()
    );
    (module, file)
}

fn ready_since(object: &WorkspaceTemplateApply) -> Time {
    let conditions = &object.status.as_ref().unwrap().conditions;
    conditions.iter().find(|condition| condition.type_ == "Ready").unwrap().last_transition_time.clone()
}

pub async fn drift_is_reported(fixture: &Fixture) {
    let (module, file) = owned_file(fixture);
    fixture.template("file", &module).await;
    fixture.apply("a", "file", json!({"driftDetection": {"interval": "1s", "policy": "Report"}})).await;
    let in_step = fixture.when("a", "in step", |object| truth(object, "Drifted") == "False").await;
    std::fs::write(&file, "tampered").unwrap();
    // What is applied stays usable, also while somebody looks.
    let drifted = fixture.when("a", "drifted and usable", |object| {
        truth(object, "Drifted") == "True" && truth(object, "Ready") == "True"
    });
    let drifted = drifted.await;
    let (reason, message) = condition(&drifted, "Drifted");
    assert_eq!(reason, "DriftFound");
    assert!(message.contains("terraform_data.file"), "{message}");
    assert_eq!(ready_since(&drifted), ready_since(&in_step), "it was ready all the time");
    fixture.event("a", "DriftFound").await;
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "tampered", "only reported");
    fixture.delete("a").await;
    fixture.gone("a").await;
}

pub async fn drift_is_corrected(fixture: &Fixture) {
    let (module, file) = owned_file(fixture);
    fixture.template("file", &module).await;
    fixture.apply("a", "file", json!({"driftDetection": {"interval": "1s", "policy": "Correct"}})).await;
    fixture.when("a", "in step", |object| truth(object, "Drifted") == "False").await;
    std::fs::write(&file, "tampered").unwrap();
    let healed = capt_e2e::until("the file is as it was", crate::fixture::SOON, async || {
        (std::fs::read_to_string(&file).ok()? == "content\n").then_some(())
    });
    healed.await.unwrap();
    fixture
        .when("a", "in step again", |object| {
            truth(object, "Drifted") == "False" && truth(object, "Ready") == "True"
        })
        .await;
    fixture.delete("a").await;
    fixture.gone("a").await;
}
