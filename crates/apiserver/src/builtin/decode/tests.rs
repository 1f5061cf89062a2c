use serde_json::json;

use super::*;

fn decoded(group: &str, kind: &str, body: Value) -> Decoded {
    decode(group, kind, body).unwrap()
}

#[test]
fn objects_come_back_as_go_would_write_them() {
    let rows = [
        (
            ("", "ConfigMap"),
            json!({"metadata": {"name": "n", "labels": {}, "finalizers": []}, "data": {"a": ""}, "immutable": false, "binaryData": null}),
            json!({"metadata": {"name": "n"}, "data": {"a": ""}, "immutable": false}),
        ),
        (
            ("", "Event"),
            json!({"metadata": {"name": "n"}, "involvedObject": {"namespace": "default", "uid": ""}, "count": 0, "message": ""}),
            json!({
                "metadata": {"name": "n"}, "involvedObject": {"namespace": "default"}, "source": {},
                "firstTimestamp": null, "lastTimestamp": null, "eventTime": null,
                "reportingComponent": "", "reportingInstance": "",
            }),
        ),
        (
            ("events.k8s.io", "Event"),
            json!({"metadata": {"name": "n"}}),
            json!({
                "metadata": {"name": "n"}, "eventTime": null, "regarding": {}, "deprecatedSource": {},
                "deprecatedFirstTimestamp": null, "deprecatedLastTimestamp": null,
            }),
        ),
        (
            ("", "Node"),
            json!({"metadata": {"name": "n"}, "spec": {"unschedulable": false}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}),
            json!({
                "metadata": {"name": "n"}, "spec": {},
                "status": {
                    "conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": null, "lastTransitionTime": null}],
                    "daemonEndpoints": {"kubeletEndpoint": {"Port": 0}},
                    "nodeInfo": {
                        "machineID": "", "systemUUID": "", "bootID": "", "kernelVersion": "", "osImage": "",
                        "containerRuntimeVersion": "", "kubeletVersion": "", "kubeProxyVersion": "",
                        "operatingSystem": "", "architecture": "",
                    },
                },
            }),
        ),
        (("rbac.authorization.k8s.io", "Role"), json!({}), json!({"metadata": {}, "rules": null})),
        (
            ("coordination.k8s.io", "Lease"),
            json!({"spec": {"holderIdentity": "", "renewTime": "2020-01-01T01:00:00.000001+01:00"}}),
            json!({"metadata": {}, "spec": {"holderIdentity": "", "renewTime": "2020-01-01T00:00:00.000001Z"}}),
        ),
        (
            ("", "Secret"),
            json!({"metadata": {"creationTimestamp": "2020-01-01T00:00:00.9Z"}, "data": {"a": "eA\n=="}}),
            json!({"metadata": {"creationTimestamp": "2020-01-01T00:00:00Z"}, "data": {"a": "eA=="}}),
        ),
    ];
    for ((group, kind), body, expected) in rows {
        assert_eq!(decoded(group, kind, body), Decoded { object: expected, unknown_fields: vec![] });
    }
}

#[test]
fn unknown_fields_are_dropped_and_named() {
    let body = json!({
        "metadata": {"name": "q", "foo": 1},
        "spec": {"versions": [{"schema": {"openAPIV3Schema": {
            "foo": 1, "properties": {"spec": {"foo": 1, "items": {"bar": 1}, "not": {"qux": 2}, "type": "object"}},
        }}}]},
        "other": 1,
    });
    let decoded = decoded("apiextensions.k8s.io", "CustomResourceDefinition", body);
    let schema = "spec.versions[0].schema.openAPIV3Schema";
    assert_eq!(
        decoded.unknown_fields,
        [
            "metadata.foo".to_owned(),
            format!("{schema}.foo"),
            format!("{schema}.properties.spec.foo"),
            format!("{schema}.properties.spec.not.qux"),
            "other".to_owned(),
        ]
    );
    let spec = &decoded.object["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
    assert_eq!(*spec, json!({"items": {}, "not": {}, "type": "object"}));
}

#[test]
fn wrong_types_are_refused_in_gos_words() {
    let lease = ("coordination.k8s.io", "Lease");
    let rows = [
        (
            ("", "ConfigMap"),
            json!({"data": {"b": 1}}),
            "json: cannot unmarshal number into Go struct field ConfigMap.data of type string",
        ),
        (
            ("", "ConfigMap"),
            json!({"data": ["x"]}),
            "json: cannot unmarshal array into Go struct field ConfigMap.data of type map[string]string",
        ),
        (
            ("", "ConfigMap"),
            json!({"metadata": "x"}),
            "json: cannot unmarshal string into Go struct field ConfigMap.metadata of type v1.ObjectMeta",
        ),
        (
            ("", "ConfigMap"),
            json!({"metadata": {"labels": {"b": true}}}),
            "json: cannot unmarshal bool into Go struct field ObjectMeta.metadata.labels of type string",
        ),
        (("", "Secret"), json!({"data": {"b": "!!"}}), "illegal base64 data at input byte 0"),
        (("", "Secret"), json!({"data": {"b": "line\nbreak"}}), "illegal base64 data at input byte 9"),
        (("", "Secret"), json!({"data": {"b": "ab\n!d"}}), "illegal base64 data at input byte 3"),
        (
            ("", "Secret"),
            json!({"data": {"b": 1}}),
            "json: cannot unmarshal number into Go struct field Secret.data of type []uint8",
        ),
        (
            ("", "Secret"),
            json!({"metadata": {"creationTimestamp": "nope"}}),
            "parsing time \"nope\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"nope\" as \"2006\"",
        ),
        (
            ("", "Secret"),
            json!({"metadata": {"creationTimestamp": 1}}),
            "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.creationTimestamp of type string",
        ),
        (
            ("", "Secret"),
            json!({"metadata": {"generation": 1.5}}),
            "json: cannot unmarshal number 1.5 into Go struct field ObjectMeta.metadata.generation of type int64",
        ),
        (
            lease,
            json!({"spec": {"leaseDurationSeconds": 3_000_000_000_i64}}),
            "json: cannot unmarshal number 3000000000 into Go struct field LeaseSpec.spec.leaseDurationSeconds of type int32",
        ),
        (
            lease,
            json!({"spec": {"renewTime": "2020-01-01T00:00:00.1Z"}}),
            "parsing time \"2020-01-01T00:00:00.1Z\" as \"2006-01-02T15:04:05.000000Z07:00\": cannot parse \".1Z\" as \".000000\"",
        ),
        (
            lease,
            json!({"spec": []}),
            "json: cannot unmarshal array into Go struct field Lease.spec of type v1.LeaseSpec",
        ),
        (
            ("rbac.authorization.k8s.io", "Role"),
            json!({"rules": [{"verbs": "get"}]}),
            "json: cannot unmarshal string into Go struct field PolicyRule.rules.verbs of type []string",
        ),
        (
            ("", "Node"),
            json!({"status": {"capacity": {"cpu": "x"}}}),
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
    ];
    for ((group, kind), body, expected) in rows {
        assert_eq!(decode(group, kind, body).unwrap_err().to_string(), expected);
    }
}

#[test]
fn times_have_words_and_an_order_of_their_own() {
    let lease = ("coordination.k8s.io", "Lease");
    let rows = [
        (
            lease,
            json!({"spec": {"renewTime": "ü\"\n"}}),
            "parsing time \"\\xc3\\xbc\\\"\\x0a\" as \"2006-01-02T15:04:05.000000Z07:00\": cannot parse \"\\xc3\\xbc\\\"\\x0a\" as \"2006\"",
        ),
        (
            ("", "Secret"),
            json!({"metadata": {"creationTimestamp": "2020-13-01T00:00:00Z"}}),
            "parsing time \"2020-13-01T00:00:00Z\": month out of range",
        ),
        (
            ("", "Secret"),
            json!({"metadata": {"creationTimestamp": "2020-02-30T00:00:00Z"}}),
            "parsing time \"2020-02-30T00:00:00Z\": day out of range",
        ),
        (
            ("", "Secret"),
            json!({"metadata": {"creationTimestamp": "2020-01-01T00:60:00Z"}}),
            "parsing time \"2020-01-01T00:60:00Z\": minute out of range",
        ),
        (
            lease,
            json!({"metadata": {"labels": {"a": 1}, "name": 2}, "spec": {"renewTime": "soon"}}),
            "parsing time \"soon\" as \"2006-01-02T15:04:05.000000Z07:00\": cannot parse \"soon\" as \"2006\"",
        ),
        (
            lease,
            json!({"metadata": {"labels": {"a": 1}, "name": 2}, "spec": {"holderIdentity": 1}}),
            "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of type string",
        ),
    ];
    for ((group, kind), body, expected) in rows {
        assert_eq!(decode(group, kind, body).unwrap_err().to_string(), expected);
    }
}
