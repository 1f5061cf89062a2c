//! Namespaces that are deleted with all that is in them, the Secrets that states are kept in among it.

use std::path::Path;
use std::sync::Arc;

use capt_controllers::workspace::state_secrets::SecretStateBackend;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::Api;
use kube::api::{DeleteParams, ListParams};
use serde_json::{Value, json};

use crate::borders::{Borders, condition};
use crate::fixture::{Harness, SOON};

const APPLY: &str = "WorkspaceTemplateApply";

/// Controllers with states in Secrets.
async fn restart(harness: &mut Harness, folder: &Path, fence: u64, own: &str) {
    let state_backend = Arc::new(SecretStateBackend::new(harness.client.clone(), fence, true, own));
    harness.state_backend = Some(Arc::clone(&state_backend));
    harness.restart(folder, Some(state_backend)).await;
}

fn ready(object: &Value) -> Option<()> {
    (condition(object, "Ready")["status"] == "True").then_some(())
}

fn lines(trace: &Path) -> Vec<String> {
    let mut lines: Vec<String> =
        std::fs::read_to_string(trace).unwrap_or_default().lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

/// Deletes the tenant's namespace, and waits until it has taken the Secrets along.
async fn delete(borders: &Borders) {
    let namespaces: Api<Namespace> = Api::all(borders.client.clone());
    namespaces.delete(&borders.tenant, &DeleteParams::default()).await.unwrap();
    let secrets: Api<Secret> = Api::namespaced(borders.client.clone(), &borders.tenant);
    let taken = async || {
        let left = secrets.list(&ListParams::default()).await.unwrap();
        left.items.is_empty().then_some(())
    };
    capt_e2e::until("the Secrets are gone", SOON, taken).await.unwrap();
}

/// What is built is destroyed: by the controller that runs, and by one that starts again with its folder. One with a folder of its own,
/// which knows nothing of it, does not let it go.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_namespace_does_not_go_before_what_is_built() {
    if !crate::can_run() {
        return;
    }
    let mut harness = Harness::embedded().await;
    let trace = harness.folder.path().join("trace");
    for (name, next) in [("runs", None), ("again", Some("again-first")), ("other", Some("other-second"))] {
        let borders = Borders::new(&harness.client, name).await;
        let (tenant, vault) = (borders.tenant.clone(), borders.vault.clone());
        let first = harness.folder.path().join(format!("{name}-first"));
        restart(&mut harness, &first, 1, &vault).await;
        let module = format!(
            "resource \"terraform_data\" \"a\" {{\n  input = \"{}\"\n  provisioner \"local-exec\" {{\n    when = destroy\n    command = \"echo {name} >> ${{self.input}}\"\n  }}\n}}\n",
            trace.display()
        );
        let template = json!({"spec": {"template": {"spec": {"module": module}}}});
        borders.put(&tenant, "WorkspaceTemplate", "own", &template).await;
        borders.put(&tenant, APPLY, "s", &json!({"spec": {"templateRef": {"name": "own"}}})).await;
        borders.when(APPLY, "s", "ready", ready).await;
        if next.is_some() {
            harness.stop().await;
        }
        delete(&borders).await;
        if let Some(next) = next {
            let folder = harness.folder.path().join(next);
            restart(&mut harness, &folder, 2, &vault).await;
        }
        if name == "other" {
            let held = |object: &Value| (condition(object, "Ready")["reason"] == "StateLost").then_some(());
            borders.when(APPLY, "s", "held", held).await;
        } else {
            borders.gone(&tenant, APPLY, "s").await;
        }
    }
    assert_eq!(lines(&trace), ["again", "runs"]);
}
