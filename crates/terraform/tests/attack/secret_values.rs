//! Values of Secrets that a module puts into its outputs, its addresses and its words.

use capt_terraform::{
    Executor,
    inputs::{Inputs, Variable},
    order::WorkspaceId,
    view::{Finished, Outcome, View},
};
use serde_json::json;

use crate::lab::{Lab, reason, tool};

const SECRET: &str = "Tr0ub4dor & 3/é?";

/// The module calls nothing of it sensitive.
const MODULE: &str = r#"
variable "password" {}
variable "user" {}
variable "good" {
  default = true
}
resource "terraform_data" "r" {
  for_each = toset([var.password])
  provisioner "local-exec" {
    command = "echo ${base64encode("u:${var.password}")} ${urlencode(var.password)}"
  }
  lifecycle {
    precondition {
      condition     = var.good
      error_message = "not good: ${jsonencode({ p = var.password })}"
    }
  }
}
output "plain" {
  value = var.password
}
output "url" {
  value = "postgres://app:${urlencode(var.password)}@db.example.com/app"
}
output "encoded" {
  value = base64encode(var.password)
}
output "header" {
  value = "Basic ${base64encode("app:${var.password}")}"
}
output "json" {
  value = jsonencode({ config = jsonencode({ password = var.password }) })
}
output "nested" {
  value = { a = [{ b = "x ${var.password} y" }] }
}
output "key" {
  value = { (var.password) = 1 }
}
output "user" {
  value = var.user
}
output "open" {
  value = "${var.user}-cluster.example.com"
}
"#;

const MASKED: [&str; 8] = ["encoded", "header", "json", "key", "nested", "plain", "url", "user"];

fn inputs(lab: &Lab, password: &str, sensitive: bool) -> Inputs {
    let mut inputs = lab.inputs(MODULE);
    inputs.variables.insert("password".into(), Variable { value: json!(password), sensitive });
    inputs.variables.insert("user".into(), Variable { value: json!("demo"), sensitive });
    inputs
}

/// What of a view may be shown to everybody.
fn open(view: &View) -> Vec<String> {
    view.outputs.iter().filter(|(_, output)| !output.sensitive).map(|(name, _)| name.to_owned()).collect()
}

async fn assert_hidden(lab: &Lab, finished: &Finished) {
    let log = lab.log("a", &finished.id).await;
    let shown = format!("{finished:?}\n{log}");
    for form in ["Tr0ub4dor", "Tr0ub4dor+%26", "VHIwdWI0ZG9y", "OlRyMHViNGRv", "UcjB1YjRkb3"] {
        assert!(!shown.contains(form), "{form} in {shown}");
    }
}

#[tokio::test]
async fn a_value_of_a_secret_is_in_nothing_that_is_shown() {
    let Some(tool) = tool() else { return };
    let lab = Lab::new(&tool).await;
    let done = lab.apply("a", inputs(&lab, SECRET, true)).await;
    assert_eq!(done.outcome, Outcome::Done, "{done:?}");
    assert_hidden(&lab, &done).await;
    let view = lab.look("a");
    assert_eq!(
        (view.masked.as_slice(), open(&view)),
        (&MASKED.map(str::to_owned)[..], vec!["open".to_owned()])
    );
    assert_eq!(view.outputs.get("plain").unwrap().value, SECRET, "known, to be put into a Secret");

    // The Secret has another value by now, and what is there was made from the one before.
    let mut rotated = inputs(&lab, "another-password-of-today", true);
    rotated.variables.insert("good".into(), Variable::from(false));
    let failed = lab.apply("a", rotated).await;
    assert_ne!(reason(&failed), "", "{failed:?}");
    assert_hidden(&lab, &failed).await;
    assert_eq!(open(&lab.look("a")), ["open"]);

    // Another engine knows it too.
    let lab = lab.restart().await;
    let view = lab.engine.adopt(&WorkspaceId::new("a")).await.expect("opened");
    assert_eq!(open(&view), ["open"]);
    assert_eq!(view.masked, MASKED);

    // Whoever says that it is none is believed.
    let done = lab.apply("a", inputs(&lab, "another-password-of-today", false)).await;
    assert_eq!(done.outcome, Outcome::Done, "{done:?}");
    let view = lab.look("a");
    assert_eq!((view.masked.len(), open(&view).len()), (0, 9), "{view:?}");
}
