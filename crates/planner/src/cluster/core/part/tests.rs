#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use capt_api::cluster::core::ClusterSpec;

use super::*;

fn cluster() -> Cluster {
    let mut cluster = Cluster::new("c", ClusterSpec::default());
    cluster.metadata.uid = Some("u".into());
    cluster
}

fn reference() -> ClusterPartRef {
    ClusterPartRef {
        api_group: Some("g.io".into()),
        kind: "K".into(),
        name: "k".into(),
        ..ClusterPartRef::default()
    }
}

fn read(metadata: &Value, rest: &Value) -> PresentPart {
    let mut object = json!({"apiVersion": "g.io/v1", "kind": "K", "metadata": {"name": "k", "uid": "k"}});
    object["metadata"].as_object_mut().unwrap().extend(metadata.as_object().unwrap().clone());
    object.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
    PresentPart::of(&serde_json::from_value(object).unwrap(), &reference(), &cluster())
}

fn owner(name: &str, uid: &str) -> Value {
    json!({"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Cluster", "name": name, "uid": uid})
}

#[test]
fn both_contracts_are_read() {
    let rows = [
        (json!({}), false, false),
        (json!({"initialization": {"provisioned": true}}), true, true),
        (json!({"initialization": {"controlPlaneInitialized": true}, "ready": false}), true, false),
        (json!({"initialization": {"provisioned": false}, "ready": true}), false, true),
        (json!({"ready": true}), true, true),
        (json!({"initialized": true, "ready": false}), true, false),
    ];
    for (status, begun, ready) in rows {
        let there = read(&json!({}), &json!({"status": status}));
        assert_eq!((there.begun, there.ready), (begun, ready), "{status}");
    }
    let list = json!([{"name": "a", "controlPlane": true}, {"name": "b"}]);
    let map = json!({"a": {"controlPlane": true}, "b": {}});
    for domains in [list, map] {
        let there = read(&json!({}), &json!({"status": {"failureDomains": domains}}));
        let names: Vec<_> = there.failure_domains.iter().map(|domain| domain.name.as_str()).collect();
        assert_eq!(names, ["a", "b"]);
        assert_eq!(there.failure_domains[0].control_plane, Some(true));
    }
}

#[test]
fn failures_and_endpoints_are_read() {
    let there = read(
        &json!({}),
        &json!({
            "spec": {"controlPlaneEndpoint": {"host": "h", "port": 6443}},
            "status": {"failureReason": "Broken", "failureMessage": "it broke"},
        }),
    );
    assert_eq!(there.failure, Some(("Broken".into(), "K k: it broke".into())));
    assert_eq!(there.endpoint, Some(Endpoint { host: "h".into(), port: 6443 }));
    let empty = read(&json!({}), &json!({"spec": {"controlPlaneEndpoint": {"host": "", "port": 0}}}));
    assert_eq!((empty.endpoint, empty.failure), (None, None));
}

#[test]
fn what_is_free_is_taken() {
    let label = json!({"cluster.x-k8s.io/cluster-name": "c"});
    let here = read(&json!({"ownerReferences": [owner("c", "u")], "labels": label}), &json!({}));
    assert_eq!(here.belongs, Belongs::Here);
    let other = read(&json!({"ownerReferences": [owner("d", "x")], "labels": label}), &json!({}));
    assert_eq!(other.belongs, Belongs::Elsewhere("d".into()));
    let theirs = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "m", "uid": "m"});
    let rows = [
        (json!([]), vec!["u"]),
        (json!([owner("c", "u")]), vec!["u"]),
        (json!([owner("c", "former"), theirs]), vec!["m", "u"]),
    ];
    for (owners, expected) in rows {
        let there = read(&json!({"ownerReferences": owners, "resourceVersion": "7"}), &json!({}));
        let Belongs::Free(metadata) = there.belongs else { panic!("it is free") };
        let uids: Vec<_> = metadata["ownerReferences"]
            .as_array()
            .unwrap()
            .iter()
            .map(|owner| owner["uid"].as_str().unwrap())
            .collect();
        assert_eq!(uids, expected);
        assert_eq!(metadata["labels"], label);
        assert_eq!((&metadata["resourceVersion"], &metadata["uid"]), (&json!("7"), &json!("k")));
        assert!(
            metadata["ownerReferences"].as_array().unwrap().iter().all(|owner| owner["controller"].is_null())
        );
    }
}
