//! Secrets are in 0600 files that a run needs, and nowhere else.

use std::{fs, os::unix::fs::PermissionsExt};

use capt_terraform::{
    Executor,
    inputs::{EnvValue, VarFile, Variable},
    module::Format,
    order::{Operation, Order, WorkspaceId},
    view::Outcome,
};
use serde_json::json;

use crate::lab::{Lab, files_with, tools};

const MODULE: &str = r#"
variable "password" {
  type = string
}
variable "from_file" {
  type = string
}
resource "terraform_data" "a" {
  input = nonsensitive(sha256(var.password))
  provisioner "local-exec" {
    command = "echo var $P; echo env $TOKEN; echo file $(cat creds/key); echo file2 $F; echo made of-the-state"
    environment = {
      P = var.password
      F = var.from_file
    }
  }
}
output "secret" {
  value     = "made of-the-state"
  sensitive = true
}
"#;

#[tokio::test]
async fn secrets_are_nowhere_to_be_seen() {
    for tool in tools() {
        let lab = Lab::new(&tool).await;
        let mut inputs = lab.inputs(MODULE);
        inputs
            .variables
            .insert("password".into(), Variable { value: json!("pass-of-variable"), sensitive: true });
        let content = "from_file = \"value-of-var-file\"\n".to_owned();
        inputs.var_files.push(VarFile { format: Format::Hcl, content, sensitive: true });
        inputs.env.insert("TOKEN".into(), EnvValue { value: "token-of-env".into(), sensitive: true });
        inputs.files.insert("creds/key".into(), b"key-of-file".to_vec());
        assert!(!format!("{inputs:?}").contains("pass-of-variable"));
        let done = lab.apply("a", inputs.clone()).await;
        assert_eq!(done.outcome, Outcome::Done, "{done:?}");
        let log = lab.log("a", &done.id).await;
        assert!(log.contains("(local-exec)"), "what was said is in the log: {log}");
        let secrets =
            ["pass-of-variable", "value-of-var-file", "token-of-env", "key-of-file", "made of-the-state"];
        for secret in secrets {
            assert!(!log.contains(secret), "{secret} in the log:\n{log}");
            assert!(!format!("{done:?}").contains(secret), "{secret} in {done:?}");
        }
        assert_eq!(
            lab.look("a").outputs.get("secret").unwrap().value,
            json!("made of-the-state"),
            "known, to be put into a Secret"
        );
        // On disk: record, values, state; nothing that anybody else could read, and no stream.
        for secret in secrets {
            for path in files_with(&lab.path("data"), secret) {
                let mode = fs::metadata(&path).expect("a file").permissions().mode() & 0o777;
                assert!(!path.to_string_lossy().contains("/runs/"), "{secret} in {}", path.display());
                assert!(
                    mode == 0o600 || path.ends_with("terraform.tfstate"),
                    "{} has mode {mode:o}",
                    path.display()
                );
            }
        }
        let mode = fs::metadata(lab.path("data")).expect("a folder").permissions().mode() & 0o777;
        assert_eq!(mode, 0o700);

        // A failing run says no secret either.
        inputs.module = lab.inputs(&MODULE.replace("echo var $P;", "echo $P $TOKEN >&2; exit 3;")).module;
        inputs.variables.insert("password".into(), Variable { value: json!("other-pass"), sensitive: true });
        lab.run("a", Operation::Destroy, None).await;
        let failed = lab.apply("a", inputs).await;
        let text = format!("{failed:?}{}", lab.log("a", &failed.id).await);
        assert!(text.contains("ApplyFailed"), "{text}");
        for secret in ["other-pass", "token-of-env"] {
            assert!(!text.contains(secret), "{secret} in {text}");
        }
    }
}

#[tokio::test]
async fn the_environment_is_an_allow_list() {
    for tool in tools() {
        let lab = Lab::new(&tool).await;
        let out = lab.path("env");
        let text = format!(
            "resource \"terraform_data\" \"a\" {{\n  provisioner \"local-exec\" {{\n    command = \"env > {}\"\n  }}\n}}\n",
            out.display()
        );
        let mut inputs = lab.inputs(&text);
        inputs.env.insert("REGION".into(), EnvValue { value: "here".into(), sensitive: false });
        lab.apply("a", inputs).await;
        let env = fs::read_to_string(out).expect("an environment");
        assert!(env.contains("REGION=here"));
        // Cargo sets these for tests; a run has no use for them.
        assert!(!env.contains("CARGO_"), "{env}");
    }
}

#[tokio::test]
async fn after_a_destroy_no_secret_is_left() {
    for tool in tools() {
        let lab = Lab::new(&tool).await;
        let mut inputs =
            lab.inputs("variable \"p\" {}\nresource \"terraform_data\" \"a\" {\n  input = var.p\n}\n");
        inputs.variables.insert("p".into(), Variable { value: json!("gone-after-destroy"), sensitive: true });
        lab.apply("a", inputs).await;
        lab.run("a", Operation::Destroy, None).await;
        assert_eq!(files_with(&lab.path("data"), "gone-after-destroy"), Vec::<std::path::PathBuf>::new());
    }
}

#[tokio::test]
async fn a_log_has_no_secret_while_it_grows() {
    for tool in tools() {
        let lab = Lab::new(&tool).await;
        let text = format!(
            "resource \"terraform_data\" \"a\" {{\n  provisioner \"local-exec\" {{\n    command = \"echo said $TOKEN; until [ -e {} ]; do sleep 0.05; done\"\n  }}\n}}\n",
            lab.path("gate").display()
        );
        let mut inputs = lab.inputs(&text);
        inputs.env.insert("TOKEN".into(), EnvValue { value: "token-of-env".into(), sensitive: true });
        let workspace = WorkspaceId::new("a");
        lab.engine
            .start_run(Order::new(workspace.clone(), Operation::Apply, Some(inputs)))
            .await
            .expect("taken");
        let log = capt_e2e::until("it speaks", crate::lab::PATIENCE, async || {
            let run = lab.look("a").run?.id;
            Some(lab.log("a", &run).await).filter(|log| log.contains("): said"))
        })
        .await
        .expect("a log");
        assert!(!log.contains("token-of-env"), "{log}");
        fs::write(lab.path("gate"), "").expect("write");
        lab.ended(&workspace).await;
    }
}
