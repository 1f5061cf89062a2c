//! What is changed behind Terraform's back: a file that the module owns.

use std::path::PathBuf;

use capt_api::workspace::WorkspaceTemplateApply;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::json;

use crate::stage::{Stage, condition, truth};

/// A module that owns a file: when the file's content is not what was applied, a plan replaces the thing.
fn owned_file(stage: &Stage) -> (String, PathBuf) {
    let file = stage.trace.with_extension("owned");
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

pub async fn drift_is_reported(stage: &Stage) {
    let (module, file) = owned_file(stage);
    stage.template("file", &module).await;
    stage.apply("a", "file", json!({"driftDetection": {"interval": "1s", "policy": "Report"}})).await;
    let in_step = stage.when("a", "in step", |object| truth(object, "Drifted") == "False").await;
    std::fs::write(&file, "tampered").unwrap();
    // What is applied stays usable, also while somebody looks.
    let drifted = stage.when("a", "drifted and usable", |object| {
        truth(object, "Drifted") == "True" && truth(object, "Ready") == "True"
    });
    let drifted = drifted.await;
    let (reason, message) = condition(&drifted, "Drifted");
    assert_eq!(reason, "DriftFound");
    assert!(message.contains("terraform_data.file"), "{message}");
    assert_eq!(ready_since(&drifted), ready_since(&in_step), "it was ready all the time");
    stage.event("a", "DriftFound").await;
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "tampered", "only reported");
    stage.delete("a").await;
    stage.gone("a").await;
}

pub async fn drift_is_corrected(stage: &Stage) {
    let (module, file) = owned_file(stage);
    stage.template("file", &module).await;
    stage.apply("a", "file", json!({"driftDetection": {"interval": "1s", "policy": "Correct"}})).await;
    stage.when("a", "in step", |object| truth(object, "Drifted") == "False").await;
    std::fs::write(&file, "tampered").unwrap();
    let healed = capt_e2e::until("the file is as it was", crate::stage::SOON, async || {
        (std::fs::read_to_string(&file).ok()? == "content\n").then_some(())
    });
    healed.await.unwrap();
    stage
        .when("a", "in step again", |object| {
            truth(object, "Drifted") == "False" && truth(object, "Ready") == "True"
        })
        .await;
    stage.delete("a").await;
    stage.gone("a").await;
}
