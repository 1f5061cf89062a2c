//! `capt rollout simulate` on a deployment that lives.

use serde_json::Value;

use crate::plane::{Plane, said};

/// A deployment whose machines wait: their template is not there.
fn deployment(name: &str, replicas: i32) -> String {
    format!(
        "apiVersion: infrastructure.cluster.x-k8s.io/v1beta1\nkind: CaptMachineDeployment\nmetadata: {{name: {name}}}\nspec:\n  \
         replicas: {replicas}\n  selector: {{matchLabels: {{app: {name}}}}}\n  template:\n    metadata: {{labels: {{app: {name}}}}}\n    \
         spec: {{workspaceTemplateRef: {{name: none}}, nodeGroupRef: {{name: group}}, instanceType: a}}\n"
    )
}

#[test]
fn a_deployment_that_lives_is_simulated_with_its_own_machines() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.yaml");
    std::fs::write(&file, [deployment("web", 3), deployment("other", 2)].join("---\n")).unwrap();
    let plane = Plane::start(&folder.path().join("data"), &["-f", file.to_str().unwrap()]);
    let simulate = ["rollout", "simulate", "cmd/web", "-o", "json"];
    let read =
        |text: &str| serde_json::from_str::<Value>(text).unwrap_or_else(|_| panic!("not JSON: {text}"));
    // Until its machines are there: then nothing has to be created, only to become ready.
    plane.until(&simulate, |text| read(text)["summary"]["created"] == 0);
    let edit = ["--set", "template.spec.instanceType=b", "--ready-after", "4m"];
    let report = read(&plane.run(&[&simulate[..], &edit].concat()));
    assert_eq!(report["violations"], serde_json::json!([]), "{report}");
    assert_eq!(report["summary"]["finished"], true, "{report}");
    assert_eq!(report["summary"]["created"], 3, "{report}");
    assert_eq!(report["summary"]["peak"], 4, "only its own machines: {report}");
    // Machines that are replaced one after the other, each in four minutes; the clock is that of now.
    assert!(report["summary"]["finishesAfter"].as_i64().unwrap() >= 3 * 240, "{report}");
    let sets = report["moments"][0]["sets"].as_array().unwrap();
    assert!(sets.iter().all(|set| set["name"].as_str().unwrap().starts_with("web-")), "{report}");
    for (name, set, words) in [
        ("cmd/web", "template.spec.instanceTyp=b", "unknown field (did you mean instanceType?)"),
        ("cmd/web", "strategy.rollingUpdate.maxSurge=abc", "spec.strategy.rollingUpdate.maxSurge"),
        ("cmd/web", "replicas=1000000000", "spec.replicas"),
        ("cmd/web", "template.metadata.labels.app=b", "spec.template.metadata.labels"),
        ("nobody", "replicas=1", "no CaptMachineDeployment nobody in namespace default"),
        ("cluster/web", "replicas=1", "this command takes captmachinedeployment"),
    ] {
        let output = plane.command(&["rollout", "simulate", name, "--set", set]);
        assert_eq!(output.status.code(), Some(1), "{}", said(&output));
        assert!(said(&output).contains(words), "{set}: {}", said(&output));
    }
    // Nothing was changed.
    assert!(plane.run(&["rollout", "history", "web"]).contains("1*"));
    plane.interrupt();
    assert!(plane.end().success());
}
