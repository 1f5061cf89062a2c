//! The life of a Cluster, with parts of a provider that CAPT does not know.

use capt_api::machine::{CaptMachineDeployment, NodeGroup};
use capt_e2e::until;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};

use crate::fixture::{Fixture, SOON};
use crate::provider::{condition, message, phase, reference};

fn spec() -> Value {
    json!({"infrastructureRef": reference("DemoCluster", "infra"), "controlPlaneRef": reference("DemoPlane", "plane")})
}

async fn parts(fixture: &Fixture) {
    fixture.put_part("DemoCluster", "infra", json!({})).await;
    fixture
        .put_part(
            "DemoPlane",
            "plane",
            json!({"controlPlaneEndpoint": {"host": "api.example", "port": 6443}}),
        )
        .await;
}

/// Both parts say that they are there.
async fn built(fixture: &Fixture) {
    let domains = json!([{"name": "a", "controlPlane": true, "attributes": {"k": "v"}}, {"name": "b"}]);
    fixture
        .say(
            "DemoCluster",
            "infra",
            json!({"initialization": {"provisioned": true}, "failureDomains": domains}),
        )
        .await;
    fixture
        .say(
            "DemoPlane",
            "plane",
            json!({"initialization": {"controlPlaneInitialized": true}, "ready": true}),
        )
        .await;
}

async fn gone(fixture: &Fixture, name: &str) {
    let gone = until("gone", SOON, async || {
        fixture.clusters("v1beta2").get_opt(name).await.unwrap().is_none().then_some(())
    });
    gone.await.unwrap();
}

async fn delete(fixture: &Fixture, name: &str) {
    fixture.clusters("v1beta2").delete(name, &DeleteParams::default()).await.unwrap();
}

pub async fn a_cluster_lives_and_goes(fixture: &Fixture) {
    parts(fixture).await;
    fixture.put_cluster("v1beta2", "c", spec()).await.unwrap();
    let begun = fixture.cluster("c", "begun", |c| phase(c) == "Provisioning").await;
    assert!(begun.metadata.finalizers.unwrap().contains(&"cluster.cluster.x-k8s.io".to_owned()));
    for (kind, name) in [("DemoCluster", "infra"), ("DemoPlane", "plane")] {
        let owned = until("owned", SOON, async || {
            let part = fixture.parts(kind).get(name).await.unwrap();
            let labels = part.metadata.labels.unwrap_or_default();
            let owner = part.metadata.owner_references.unwrap_or_default().pop()?;
            (labels.get("cluster.x-k8s.io/cluster-name")? == "c").then_some(owner)
        });
        let owner = owned.await.unwrap();
        assert_eq!((owner.kind.as_str(), owner.name.as_str()), ("Cluster", "c"));
        assert_eq!(owner.api_version, "cluster.x-k8s.io/v1beta2");
    }
    built(fixture).await;
    let ready = fixture.cluster("c", "available", |c| condition(c, "Available") == "True Available").await;
    assert_eq!(phase(&ready), "Provisioned");
    assert_eq!(ready.data["spec"]["controlPlaneEndpoint"], json!({"host": "api.example", "port": 6443}));
    let status = &ready.data["status"];
    let first = json!({"infrastructureProvisioned": true, "controlPlaneInitialized": true});
    assert_eq!(status["initialization"], first);
    assert_eq!((&status["infrastructureReady"], &status["controlPlaneReady"]), (&json!(true), &json!(true)));
    assert_eq!(
        status["failureDomains"][0],
        json!({"name": "a", "controlPlane": true, "attributes": {"k": "v"}})
    );
    for (kind, expected) in [
        ("InfrastructureReady", "True Ready"),
        ("ControlPlaneInitialized", "True Initialized"),
        ("ControlPlaneAvailable", "True Available"),
        ("WorkersAvailable", "True NoWorkers"),
        ("Deleting", "False NotDeleting"),
        ("Paused", "False NotPaused"),
    ] {
        assert_eq!(condition(&ready, kind), expected, "{kind}");
    }
    let generation = ready.metadata.generation;
    fixture.cluster("c", "observed", |c| c.data["status"]["observedGeneration"].as_i64() == generation).await;
    fixture.event("c", "Provisioned").await;

    delete(fixture, "c").await;
    fixture.going("DemoPlane", "plane").await;
    let reason = "True WaitingForControlPlaneDeletion";
    let waits = fixture.cluster("c", "waits", |c| condition(c, "Deleting") == reason).await;
    assert_eq!(
        (phase(&waits), message(&waits, "Deleting").as_str()),
        ("Deleting", "waits for DemoPlane plane to go")
    );
    let infra = fixture.parts("DemoCluster").get("infra").await.unwrap();
    assert!(infra.metadata.deletion_timestamp.is_none(), "not before the control plane");
    fixture.let_go("DemoPlane", "plane").await;
    fixture.going("DemoCluster", "infra").await;
    let reason = "True WaitingForInfrastructureDeletion";
    fixture.cluster("c", "waits", |c| condition(c, "Deleting") == reason).await;
    fixture.let_go("DemoCluster", "infra").await;
    gone(fixture, "c").await;
}

pub async fn old_manifests_are_taken(fixture: &Fixture) {
    parts(fixture).await;
    let old = |kind: &str, name: &str| json!({"apiVersion": "demo.example.com/v1alpha1", "kind": kind, "name": name, "namespace": fixture.namespace});
    let spec = json!({
        "paused": false,
        "clusterNetwork": {"pods": {"cidrBlocks": ["192.168.0.0/16"]}, "serviceDomain": "cluster.local"},
        "controlPlaneEndpoint": {"host": "", "port": 0},
        "infrastructureRef": old("DemoCluster", "infra"),
        "controlPlaneRef": old("DemoPlane", "plane"),
    });
    fixture.put_cluster("v1beta1", "c", spec.clone()).await.unwrap();
    built(fixture).await;
    fixture.cluster("c", "there", |c| phase(c) == "Provisioned").await;
    // Nothing of it is lost, in whichever version it is read.
    for version in ["v1beta1", "v1beta2"] {
        let read = fixture.clusters(version).get("c").await.unwrap();
        let mut expected = spec.clone();
        expected["controlPlaneEndpoint"] = json!({"host": "api.example", "port": 6443});
        assert_eq!(read.data["spec"], expected, "{version}");
        assert_eq!(read.data["status"]["infrastructureReady"], true);
    }
    // A part elsewhere is none.
    let mut wrong = spec;
    wrong["infrastructureRef"]["namespace"] = json!("default");
    fixture.put_cluster("v1beta1", "d", wrong).await.unwrap();
    let reason = "False InvalidReference";
    let told = fixture.cluster("d", "told", |c| condition(c, "InfrastructureReady") == reason).await;
    assert!(message(&told, "InfrastructureReady").contains("namespace default"), "{told:?}");
}

pub async fn paused_means_paused(fixture: &Fixture) {
    parts(fixture).await;
    let mut spec = spec();
    spec["paused"] = json!(true);
    fixture.put_cluster("v1beta2", "c", spec.clone()).await.unwrap();
    built(fixture).await;
    let paused = fixture.cluster("c", "paused", |c| condition(c, "Paused") == "True Paused").await;
    assert_eq!(paused.data["status"]["phase"], Value::Null, "only the pause is told");
    assert!(paused.metadata.finalizers.is_none());
    assert!(fixture.parts("DemoCluster").get("infra").await.unwrap().metadata.owner_references.is_none());
    spec["paused"] = json!(false);
    fixture.put_cluster("v1beta2", "c", spec.clone()).await.unwrap();
    fixture.cluster("c", "goes on", |c| phase(c) == "Provisioned").await;
    // A pause in the middle of the end holds it up.
    spec["paused"] = json!(true);
    fixture.put_cluster("v1beta2", "c", spec.clone()).await.unwrap();
    fixture.cluster("c", "paused", |c| condition(c, "Paused") == "True Paused").await;
    delete(fixture, "c").await;
    fixture.cluster("c", "going", |c| c.metadata.deletion_timestamp.is_some()).await;
    fixture.put_cluster("v1beta2", "e", json!({"paused": true})).await.unwrap();
    fixture.cluster("e", "looked at after it", |c| condition(c, "Paused") == "True Paused").await;
    assert!(fixture.parts("DemoPlane").get("plane").await.unwrap().metadata.deletion_timestamp.is_none());
    spec["paused"] = json!(false);
    fixture.put_cluster("v1beta2", "c", spec).await.unwrap();
    fixture.going("DemoPlane", "plane").await;
}

pub async fn a_failure_is_told_and_passes(fixture: &Fixture) {
    parts(fixture).await;
    fixture.put_cluster("v1beta2", "c", spec()).await.unwrap();
    let broken = json!({"failureReason": "Broken", "failureMessage": "no such zone"});
    fixture.say("DemoCluster", "infra", broken).await;
    let failed = fixture.cluster("c", "failed", |c| phase(c) == "Failed").await;
    let status = &failed.data["status"];
    assert_eq!(status["failureReason"], "Broken");
    assert_eq!(status["failureMessage"], "DemoCluster infra: no such zone");
    assert_eq!(status["deprecated"]["v1beta1"]["failureReason"], "Broken");
    fixture.event("c", "Failed").await;
    fixture.say("DemoCluster", "infra", json!({"failureReason": null, "failureMessage": null})).await;
    built(fixture).await;
    let well = fixture.cluster("c", "well", |c| phase(c) == "Provisioned").await;
    assert_eq!(well.data["status"]["failureReason"], Value::Null);
    assert_eq!(well.data["status"]["deprecated"], Value::Null);
}

pub async fn machines_go_first(fixture: &Fixture) {
    parts(fixture).await;
    fixture.put_cluster("v1beta2", "c", spec()).await.unwrap();
    let label = json!({"cluster.x-k8s.io/cluster-name": "c"});
    let group = json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "NodeGroup",
        "metadata": {"name": "g", "labels": label, "finalizers": ["demo.example.com/held"]},
        "spec": {"external": {"name": "there"}},
    });
    let machine = json!({"workspaceTemplateRef": {"name": "t"}, "nodeGroupRef": {"name": "g"}, "instanceType": "t3.medium"});
    let deployment = json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "CaptMachineDeployment",
        "metadata": {"name": "md", "labels": label, "finalizers": ["demo.example.com/held"]},
        "spec": {
            "replicas": 0, "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": machine},
        },
    });
    let groups: Api<NodeGroup> = Api::namespaced(fixture.client.clone(), &fixture.namespace);
    let deployments: Api<CaptMachineDeployment> = Api::namespaced(fixture.client.clone(), &fixture.namespace);
    let apply = PatchParams::apply("user").force();
    groups.patch("g", &apply, &Patch::Apply(&group)).await.unwrap();
    deployments.patch("md", &apply, &Patch::Apply(&deployment)).await.unwrap();
    fixture.cluster("c", "counted", |c| c.data["status"]["workers"]["desiredReplicas"] == 0).await;

    delete(fixture, "c").await;
    let waits = "waits for CaptMachineDeployment md to go";
    fixture.cluster("c", waits, |c| message(c, "Deleting") == waits).await;
    let going =
        until("deleted", SOON, async || deployments.get("md").await.unwrap().metadata.deletion_timestamp);
    going.await.unwrap();
    assert!(groups.get("g").await.unwrap().metadata.deletion_timestamp.is_none(), "not before the machines");
    let free = json!({"metadata": {"finalizers": []}});
    deployments.patch("md", &PatchParams::default(), &Patch::Merge(&free)).await.unwrap();
    let waits = "waits for NodeGroup g to go";
    let object = fixture.cluster("c", waits, |c| message(c, "Deleting") == waits).await;
    assert_eq!(condition(&object, "Deleting"), "True WaitingForWorkersDeletion");
    assert!(fixture.parts("DemoPlane").get("plane").await.unwrap().metadata.deletion_timestamp.is_none());
    let going = until("deleted", SOON, async || groups.get("g").await.unwrap().metadata.deletion_timestamp);
    going.await.unwrap();
    groups.patch("g", &PatchParams::default(), &Patch::Merge(&free)).await.unwrap();
    fixture.going("DemoPlane", "plane").await;
    fixture.let_go("DemoPlane", "plane").await;
    fixture.going("DemoCluster", "infra").await;
    fixture.let_go("DemoCluster", "infra").await;
    gone(fixture, "c").await;
}

pub async fn what_is_anothers_stays(fixture: &Fixture) {
    parts(fixture).await;
    fixture.put_cluster("v1beta2", "first", spec()).await.unwrap();
    built(fixture).await;
    fixture.cluster("first", "there", |c| phase(c) == "Provisioned").await;
    let mut second = spec();
    second.as_object_mut().unwrap().remove("controlPlaneRef");
    fixture.put_cluster("v1beta2", "second", second).await.unwrap();
    let reason = "False InvalidReference";
    let told = fixture.cluster("second", "told", |c| condition(c, "InfrastructureReady") == reason).await;
    assert_eq!(message(&told, "InfrastructureReady"), "DemoCluster infra belongs to Cluster first");
    delete(fixture, "second").await;
    gone(fixture, "second").await;
    assert!(fixture.parts("DemoCluster").get("infra").await.unwrap().metadata.deletion_timestamp.is_none());
}

pub async fn parts_come_late(fixture: &Fixture) {
    fixture.put_cluster("v1beta2", "c", spec()).await.unwrap();
    let reason = "False ObjectDoesNotExist";
    fixture.cluster("c", "told", |c| condition(c, "InfrastructureReady") == reason).await;
    parts(fixture).await;
    built(fixture).await;
    fixture.cluster("c", "there", |c| phase(c) == "Provisioned").await;
    // A part that goes while the Cluster stays.
    fixture.parts("DemoCluster").delete("infra", &DeleteParams::default()).await.unwrap();
    fixture.let_go("DemoCluster", "infra").await;
    fixture.cluster("c", "told", |c| condition(c, "InfrastructureReady") == "False ObjectDeleted").await;
    // A Cluster that names what was never there goes at once.
    let nothing = json!({"infrastructureRef": reference("DemoCluster", "never")});
    fixture.put_cluster("v1beta2", "d", nothing).await.unwrap();
    fixture.cluster("d", "told", |c| condition(c, "InfrastructureReady") == reason).await;
    delete(fixture, "d").await;
    gone(fixture, "d").await;
    // A kind that nobody installed is named.
    let unknown =
        json!({"infrastructureRef": {"apiGroup": "nobody.example.com", "kind": "NoCluster", "name": "x"}});
    fixture.put_cluster("v1beta2", "e", unknown).await.unwrap();
    let told = fixture
        .cluster("e", "told", |c| condition(c, "InfrastructureReady") == "False InvalidReference")
        .await;
    assert!(
        message(&told, "InfrastructureReady").contains("no kind NoCluster in the group nobody.example.com")
    );
}

pub async fn what_is_not_served_is_refused(fixture: &Fixture) {
    let rows = [
        ("v1beta2", json!({"topology": {"classRef": {"name": "k"}, "version": "v1.33.0"}}), "ClusterClass"),
        ("v1beta1", json!({"topology": {"class": "k", "version": "v1.33.0"}}), "ClusterClass"),
        ("v1beta2", json!({"availabilityGates": [{"conditionType": "X"}]}), "availabilityGates"),
        ("v1beta2", json!({"infrastructureRef": {"kind": "K", "name": "x"}}), "apiGroup"),
        ("v1beta2", json!({"infrastructureRef": {"apiVersion": "v1", "kind": "K", "name": "x"}}), "apiGroup"),
    ];
    for (version, spec, expected) in rows {
        let refused = fixture.put_cluster(version, "c", spec.clone()).await.unwrap_err().to_string();
        assert!(refused.contains(expected), "{spec}: {refused}");
    }
}
