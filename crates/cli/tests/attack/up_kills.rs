//! `capt up` is killed again and again while it builds: Terraform runs on, and nothing is made twice or forgotten.

use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::plane::{PAUSE, Plane, SOON, capt};

/// How often to kill; `make soak` sets more.
const ROUNDS: &str = "CAPT_UP_KILLS";
/// Kills before it is left alone until all that was asked for is there.
const TOGETHER: usize = 10;

/// A workspace of so many things, each of which has an id of its own and keeps it for as long as it is known.
fn manifest(things: usize) -> String {
    format!(
        "apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: WorkspaceTemplate
metadata:
  name: things
spec:
  template:
    spec:
      module: |
        variable \"things\" {{
          type = number
        }}
        resource \"terraform_data\" \"thing\" {{
          count = var.things
        }}
        output \"ids\" {{
          value = terraform_data.thing[*].id
        }}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: WorkspaceTemplateApply
metadata:
  name: things
spec:
  templateRef:
    name: things
  variables:
    things: {things}
"
    )
}

struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The ids of all things, once there are so many.
fn ids(folder: &Path, file: &Path, things: usize) -> Vec<Value> {
    let plane = Plane::start(folder, &["-f", file.to_str().unwrap()]);
    let kubeconfig = plane.kubeconfig();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let client = crate::damaged_store::client(&kubeconfig).await;
        let kind = kube::core::GroupVersionKind::gvk(
            "infrastructure.cluster.x-k8s.io",
            "v1beta1",
            "WorkspaceTemplateApply",
        );
        let resource = kube::core::ApiResource::from_gvk_with_plural(&kind, "workspacetemplateapplies");
        let api: kube::Api<kube::core::DynamicObject> = kube::Api::default_namespaced_with(client, &resource);
        let deadline = std::time::Instant::now() + SOON;
        loop {
            let object = api.get("things").await.unwrap();
            let ids = object.data["status"]["outputs"]["ids"].as_array().cloned().unwrap_or_default();
            if ids.len() == things {
                return ids;
            }
            assert!(
                std::time::Instant::now() < deadline,
                "{} of {things}: {:?}",
                ids.len(),
                object.data["status"]
            );
            tokio::time::sleep(PAUSE).await;
        }
    })
}

#[test]
fn nothing_is_made_twice_however_often_it_is_killed() {
    if !capt_e2e::has_terraform() {
        return;
    }
    let rounds: usize = std::env::var(ROUNDS).map_or(5, |rounds| rounds.parse().unwrap());
    let place = tempfile::tempdir().unwrap();
    let (folder, file) = (place.path().join("data"), place.path().join("things.yaml"));
    let (mut known, mut things) = (Vec::new(), 0);
    for round in 1..=rounds {
        things += 1;
        std::fs::write(&file, manifest(things)).unwrap();
        let mut command = capt(&["up", "-o", "json", "--data-dir"]);
        command.arg(&folder).arg("-f").arg(&file).stdout(Stdio::null()).stderr(Stdio::null());
        let killed = Killed(command.spawn().unwrap());
        // Not a wait for anything: the moment of death is to be another in every round.
        std::thread::sleep(Duration::from_millis((round * 379 % 2003) as u64));
        drop(killed);
        if round % TOGETHER == 0 || round == rounds {
            let found = ids(&folder, &file, things);
            assert_eq!(found[..known.len()], known[..], "what was there was made again after {round} kills");
            known = found;
        }
    }
    println!("{rounds} kills of capt up, {things} things, none made twice");
}
