//! A day of work with CAPT's kinds.

use crate::tool::{Kubectl, in_project};

/// What people do with kubectl, from installing the CRDs to deleting what they made.
pub fn a_day_of_work(kubectl: &Kubectl) {
    kubectl.good(&["apply", "--server-side", "-f", &in_project("config/crd")]);
    // Until the server has looked at a definition its conditions are null, which kubectl takes for a mistake.
    kubectl.until(&["wait", "--for=condition=Established", "crd", "--all", "--timeout=60s"], |_| true);
    // A kube-apiserver describes what a definition defines, and lists it, some time after it serves it.
    kubectl.until(
        &["explain", "captmachinedeployment.spec.strategy.rollingUpdate.maxUnavailable"],
        |explained| explained.contains("Maximum number of machines that may be unavailable"),
    );
    kubectl.until(&["api-resources", "--categories=capt", "-o", "name"], |kinds| kinds.lines().count() == 13);

    // Kinds of Cluster API core are not installed here; everything of ours is applied.
    for example in ["machine-deployment.yaml", "machine-set.yaml", "machine-node-group-config.yaml"] {
        kubectl.good(&["apply", "-f", &in_project(&format!("examples/{example}"))]);
    }
    let seen = kubectl.good(&["get", "captmachinedeployments"]);
    let header: Vec<&str> = seen.lines().next().unwrap_or_default().split_whitespace().collect();
    assert_eq!(header, ["NAME", "DESIRED", "CURRENT", "READY", "AVAILABLE", "UP-TO-DATE", "STATUS", "AGE"]);

    let deployment = "captmachinedeployment/worker-deployment";
    kubectl.good(&["scale", deployment, "--replicas=5"]);
    let one = |path: &str| kubectl.good(&["get", deployment, "-o", &format!("jsonpath={{{path}}}")]);
    assert_eq!(one(".spec.replicas"), "5");
    assert_eq!(
        one(".spec.strategy"),
        r#"{"rollingUpdate":{"maxSurge":1,"maxUnavailable":0},"type":"RollingUpdate"}"#
    );
    kubectl.good(&["label", deployment, "team=platform"]);
    kubectl.good(&["annotate", deployment, "note=hello"]);
    kubectl.good(&["patch", deployment, "--type=merge", "-p", r#"{"spec":{"paused":true}}"#]);
    kubectl.good(&[
        "patch",
        deployment,
        "--type=json",
        "-p",
        r#"[{"op":"replace","path":"/spec/paused","value":false}]"#,
    ]);
    assert_eq!(one(".metadata.labels.team"), "platform");
    assert_eq!(kubectl.good(&["get", "cmd", "-l", "team=platform", "-o", "name"]).lines().count(), 1);
    assert_eq!(kubectl.good(&["get", "cmd", "--field-selector", "metadata.name=nobody", "-o", "name"]), "");
    let described = kubectl.good(&["describe", deployment]);
    assert!(described.contains("worker-deployment") && described.contains("Max Surge"), "{described}");
    kubectl.good(&["wait", deployment, "--for=jsonpath={.spec.replicas}=5", "--timeout=120s"]);
    let (same, said) = kubectl.run(&["diff", "-f", &in_project("examples/machine-set.yaml")]);
    assert!(same, "{said}");
    assert_eq!(kubectl.good(&["auth", "can-i", "create", "captmachines"]).trim(), "yes");

    kubectl.refused(
        &["apply", "-f", &in_project("docs/demo/mistakes.yaml")],
        "set exactly one of vpcTemplateRef (CAPT builds the VPC) or existingVpcId",
    );
    kubectl
        .refused(&["apply", "-f", &in_project("docs/demo/mistakes.yaml")], r#"unknown field "spec.replica""#);
    kubectl.refused(
        &["get", "captmachines", "nobody"],
        r#"captmachines.infrastructure.cluster.x-k8s.io "nobody" not found"#,
    );
    kubectl.good(&["delete", "captmachineset", "--all", "--timeout=120s"]);
    assert_eq!(kubectl.good(&["get", "captmachinesets", "-o", "name"]), "");
}
