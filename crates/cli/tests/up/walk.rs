//! The walk of the demo: up, scale, roll, break, undo, delete.

use std::path::Path;

use kube::api::{DynamicObject, Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::GroupVersionKind;
use kube::{Api, Client, Config};
use serde_json::json;

use crate::plane::{Plane, capt, said};

const DEPLOYMENT: &str = "demo-workers";

/// Merges into the deployment of the demo, as the hint of the demo does with kubectl.
fn patch(plane: &Plane, instance_type: &str) {
    let kubeconfig = Kubeconfig::read_from(plane.kubeconfig()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
        let kind =
            GroupVersionKind::gvk("infrastructure.cluster.x-k8s.io", "v1beta1", "CaptMachineDeployment");
        let kind = kube::api::ApiResource::from_gvk_with_plural(&kind, "captmachinedeployments");
        let api: Api<DynamicObject> = Api::default_namespaced_with(Client::try_from(config).unwrap(), &kind);
        let body = json!({"spec": {"template": {"spec": {"instanceType": instance_type}}}});
        api.patch(DEPLOYMENT, &PatchParams::default(), &Patch::Merge(&body)).await.unwrap();
    });
}

#[test]
fn the_demo_from_up_to_gone() {
    if !capt_e2e::has_terraform() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let plane = Plane::start(folder.path(), &["--demo"]);
    plane.event("ready", |_| true);
    let text = plane.until(&["status"], |text| text.contains("15 objects: 15 ready"));
    for part in [
        "cluster demo",
        "network demo",
        "control plane demo",
        "node group demo-workers",
        "deployment demo-workers",
        "workspace demo-vpc",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }

    plane.run(&["scale", "cmd/demo-workers", "--replicas", "5"]);
    plane.until(&["status"], |text| text.contains("5/5 available") && text.contains("19 objects: 19 ready"));

    plane.run(&["rollout", "restart", DEPLOYMENT]);
    let text = plane.run(&["rollout", "status", DEPLOYMENT]);
    assert!(text.contains("rolled out"), "{text}");

    patch(&plane, "none");
    let cause = "There is no instance type none.";
    let text = plane.until(&["status", "demo"], |text| text.contains(cause));
    assert!(text.contains("(main.tf:"), "{text}");
    plane.run(&["rollout", "undo", DEPLOYMENT]);
    let text = plane.run(&["rollout", "status", DEPLOYMENT]);
    assert!(text.contains("rolled out"), "{text}");
    plane.until(&["status"], |text| text.contains("21 objects: 21 ready"));

    let text = plane.run(&["delete", "cluster", "demo", "--yes"]);
    assert!(text.contains("demo"), "{text}");
    plane.until(&["status"], |text| text.starts_with("nothing"));
    plane.interrupt();
    assert!(plane.end().success());
}

#[test]
fn wait_ends_with_the_tree() {
    if !capt_e2e::has_terraform() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let up = |folder: &Path| capt(&["up", "--demo", "--wait", "--data-dir"]).arg(folder).output().unwrap();
    for time in ["first", "second"] {
        let output = up(folder.path());
        let text = said(&output);
        assert!(output.status.success(), "{time}: {text}");
        assert!(
            text.contains("export KUBECONFIG=") && text.contains("└─ ✓ workspace demo-vpc"),
            "{time}: {text}"
        );
        assert!(
            text.contains("all is ready") && text.contains("capt rollout undo demo-workers"),
            "{time}: {text}"
        );
        assert_eq!(text.contains("created Cluster demo"), time == "first", "{text}");
        // Nothing runs any more: how to start it again comes before what to try.
        let end = text.split("\nstopped").nth(1).expect("it stopped");
        let at =
            |words: &str| end.find(words).unwrap_or_else(|| panic!("{words:?} is not at the end: {end}"));
        assert!(at("Next, start it again:") < at("capt scale cmd/demo-workers"), "{end}");
        let again = format!("capt up --data-dir {}\n", folder.path().display());
        assert!(at("Next, start it again:") < end.rfind(&again).expect("the command"), "{end}");
    }
}

/// What is ready still, from the last time, is not what is waited for: the template is another one.
#[test]
fn wait_waits_for_what_a_changed_template_makes() {
    if !capt_e2e::has_terraform() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (data, file) = (folder.path().join("data"), folder.path().join("one.yaml"));
    for value in ["first", "second", "third"] {
        let text = format!(
            "apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: WorkspaceTemplate
metadata: {{name: t}}
spec: {{template: {{spec: {{module: 'resource \"terraform_data\" \"a\" {{ input = \"{value}\" }}'}}}}}}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: WorkspaceTemplateApply
metadata: {{name: w}}
spec: {{templateRef: {{name: t}}}}
"
        );
        std::fs::write(&file, text).unwrap();
        let output = capt(&["up", "--wait", "--data-dir"]).arg(&data).arg("-f").arg(&file).output().unwrap();
        assert!(output.status.success(), "{value}: {}", said(&output));
        let workspaces = std::fs::read_dir(data.join("terraform/workspaces")).unwrap();
        let states: Vec<String> = workspaces
            .map(|entry| entry.unwrap().path().join("state/terraform.tfstate"))
            .map(|path| std::fs::read_to_string(path).unwrap())
            .collect();
        assert!(states.len() == 1 && states[0].contains(value), "{value}: {states:?}");
    }
}
