//! Random contents of objects: mostly valid, sometimes of a wrong type, sometimes against a rule.

use serde_json::{Map, Value, json};

use crate::chance::Chance;

type Members = Map<String, Value>;

fn encoded(chance: &mut Chance) -> Value {
    json!(chance.word(&["YQ==", "Yg==", "", "YWI=", "YWI=", "c2VjcmV0", "YWI=", "YQ", "?"]))
}

fn data(chance: &mut Chance, keys: &[&'static str], make: fn(&mut Chance) -> Value) -> Value {
    let mut out = Map::new();
    for _ in 0..chance.below(4) {
        out.insert(chance.word(keys).to_owned(), make(chance));
    }
    out.into()
}

/// Now and then a member that is not there, or null, or of another type.
fn spoil(chance: &mut Chance, mut members: Members) -> Members {
    if chance.percent(4) {
        members.insert(chance.word(&["unknown", "Data", "extra"]).to_owned(), chance.anything(1));
    }
    let names: Vec<String> = members.keys().cloned().collect();
    if !names.is_empty() && chance.percent(4) {
        let name = chance.pick(&names).clone();
        members.insert(name, if chance.percent(50) { Value::Null } else { chance.anything(1) });
    }
    members
}

pub fn config_map(chance: &mut Chance, _: bool) -> Members {
    let mut out = Members::new();
    if chance.percent(70) {
        out.insert("data".into(), data(chance, &["a", "b", "c.d", "k_e-y", "bad key"], Chance::text));
    }
    if chance.percent(25) {
        out.insert("binaryData".into(), data(chance, &["x", "y", "a"], encoded));
    }
    if chance.percent(8) {
        out.insert("immutable".into(), json!(chance.percent(60)));
    }
    spoil(chance, out)
}

pub fn secret(chance: &mut Chance, _: bool) -> Members {
    let mut out = Members::new();
    let keys = &["a", "b", "tls.crt", "tls.key", "username", ".dockerconfigjson"];
    if chance.percent(60) {
        out.insert("data".into(), data(chance, keys, encoded));
    }
    if chance.percent(30) {
        out.insert("stringData".into(), data(chance, keys, Chance::text));
    }
    if chance.percent(30) {
        let kinds = [
            "Opaque",
            "kubernetes.io/tls",
            "kubernetes.io/basic-auth",
            "kubernetes.io/dockerconfigjson",
            "my/own",
            "",
        ];
        out.insert("type".into(), json!(chance.word(&kinds)));
    }
    if chance.percent(6) {
        out.insert("immutable".into(), json!(true));
    }
    spoil(chance, out)
}

pub fn service_account(chance: &mut Chance, _: bool) -> Members {
    let reference = |chance: &mut Chance| json!({"name": chance.word(&["a", "b", "c"])});
    let mut out = Members::new();
    if chance.percent(40) {
        out.insert("imagePullSecrets".into(), chance.list(3, reference));
    }
    if chance.percent(30) {
        out.insert(
            "secrets".into(),
            chance.list(2, |chance| json!({"name": chance.word(&["s", "t"]), "namespace": "x"})),
        );
    }
    if chance.percent(30) {
        out.insert("automountServiceAccountToken".into(), json!(chance.percent(50)));
    }
    spoil(chance, out)
}

fn reference(chance: &mut Chance) -> Value {
    // The namespace must be that of the event.
    json!({"kind": "ConfigMap", "namespace": "@ns@", "name": chance.word(&["m1", "m2"]), "apiVersion": "v1"})
}

pub fn core_event(chance: &mut Chance, _: bool) -> Members {
    let mut out = chance.members(
        60,
        &[
            ("reason", |chance| json!(chance.word(&["Made", "Failed"]))),
            ("message", Chance::text),
            ("type", |chance| json!(chance.word(&["Normal", "Warning"]))),
            ("count", |chance| json!(chance.below(3))),
            ("firstTimestamp", |_| json!("2020-01-01T00:00:00Z")),
            ("lastTimestamp", |chance| json!(chance.word(&["2020-01-01T00:00:01Z", "2020-01-02T00:00:00Z"]))),
            ("source", |chance| json!({"component": chance.word(&["c1", "c2"]), "host": "h"})),
        ],
    );
    out.insert("involvedObject".into(), reference(chance));
    spoil(chance, out)
}

pub fn new_event(chance: &mut Chance, _: bool) -> Members {
    let mut out = chance.members(
        95,
        &[
            ("reason", |chance| json!(chance.word(&["Made", "Failed"]))),
            ("note", Chance::text),
            ("type", |chance| json!(chance.word(&["Normal", "Warning"]))),
            ("eventTime", |_| json!("2020-01-01T00:00:00.123456Z")),
            ("action", |chance| json!(chance.word(&["Do", "Undo"]))),
            ("reportingController", |_| json!("example.com/tester")),
            ("reportingInstance", |chance| json!(chance.word(&["i1", "i2"]))),
        ],
    );
    if chance.percent(20) {
        out.insert(
            "series".into(),
            json!({"count": chance.below(4), "lastObservedTime": "2020-01-01T00:00:05.000000Z"}),
        );
    }
    out.insert("regarding".into(), reference(chance));
    spoil(chance, out)
}

pub fn lease(chance: &mut Chance, _: bool) -> Members {
    let spec = chance.members(
        50,
        &[
            ("holderIdentity", |chance| json!(chance.word(&["a", "b", ""]))),
            ("leaseDurationSeconds", |chance| json!(*chance.pick(&[1, 15, 0, -1]))),
            ("leaseTransitions", |chance| json!(*chance.pick(&[0, 1, -1]))),
            ("renewTime", |chance| {
                json!(chance.word(&[
                    "2020-01-01T00:00:00.000000Z",
                    "2020-01-01T00:00:01.5Z",
                    "2020-01-01T02:00:01+02:00"
                ]))
            }),
        ],
    );
    let mut out = Members::new();
    if chance.percent(80) {
        out.insert("spec".into(), spec.into());
    }
    spoil(chance, out)
}

fn rule(chance: &mut Chance) -> Value {
    if chance.percent(15) {
        return json!({"verbs": ["get"], "nonResourceURLs": ["/healthz", "/metrics/*"]});
    }
    let mut rule =
        json!({"apiGroups": [""], "resources": ["pods"], "verbs": [chance.word(&["get", "list", "*"])]});
    if chance.percent(20) {
        rule["resourceNames"] = json!([chance.word(&["a", "b"])]);
    }
    if chance.percent(8) {
        rule.as_object_mut().unwrap().shift_remove(chance.word(&["apiGroups", "resources", "verbs"]));
    }
    rule
}

pub fn role(chance: &mut Chance, _: bool) -> Members {
    let mut out = Members::new();
    if chance.percent(80) {
        out.insert("rules".into(), chance.list(3, rule));
    }
    spoil(chance, out)
}

pub fn cluster_role(chance: &mut Chance, _: bool) -> Members {
    let mut out = role(chance, false);
    if chance.percent(10) {
        // Aggregation is a controller's work; a selector that selects nothing keeps it out.
        out.insert(
            "aggregationRule".into(),
            json!({"clusterRoleSelectors": [{"matchLabels": {"nobody": "has-it"}}]}),
        );
    }
    out
}

pub fn binding(chance: &mut Chance, _: bool) -> Members {
    let subject = |chance: &mut Chance| match chance.below(4) {
        0 => {
            json!({"kind": "User", "name": chance.word(&["u", "v"]), "apiGroup": "rbac.authorization.k8s.io"})
        }
        1 => json!({"kind": "Group", "name": "g"}),
        2 => json!({"kind": "ServiceAccount", "name": chance.word(&["s", "S_"]), "namespace": "n"}),
        _ => {
            json!({"kind": chance.word(&["User", "ServiceAccount", "Dog"]), "name": chance.word(&["u", ""])})
        }
    };
    let mut out = Members::new();
    if chance.percent(90) {
        let kind = chance.word(&["ClusterRole", "ClusterRole", "ClusterRole", "Role", "Cat"]);
        out.insert("roleRef".into(), json!({"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": chance.word(&["view", "view", "edit"])}));
    }
    if chance.percent(60) {
        out.insert("subjects".into(), chance.list(2, subject));
    }
    spoil(chance, out)
}

pub fn node(chance: &mut Chance, status: bool) -> Members {
    let taint = |chance: &mut Chance| json!({"key": chance.word(&["a", "b", "x/y"]), "effect": chance.word(&["NoExecute", "NoSchedule", "Never"]), "value": "v"});
    let mut out = Members::new();
    if !status {
        let mut spec = Members::new();
        if chance.percent(40) {
            spec.insert("taints".into(), chance.list(2, taint));
        }
        if chance.percent(30) {
            spec.insert("unschedulable".into(), json!(chance.percent(60)));
        }
        if chance.percent(20) {
            spec.insert("providerID".into(), json!(chance.word(&["p://1", "p://2"])));
        }
        out.insert("spec".into(), spec.into());
    }
    if status || chance.percent(10) {
        let condition = |chance: &mut Chance| {
            json!({"type": chance.word(&["Ready", "DiskPressure", "Other"]), "status": chance.word(&["True", "False"]),
                "message": chance.word(&["m", "n"])})
        };
        let mut status = chance.members(
            40,
            &[
                ("addresses", |chance| json!([{"type": "InternalIP", "address": chance.word(&["10.0.0.1", "10.0.0.2"])}])),
                ("capacity", |chance| json!({"cpu": chance.word(&["4", "500m", "x"]), "memory": "1Gi"})),
                ("phase", |chance| json!(chance.word(&["Pending", "Running"]))),
            ],
        );
        let same = |a: &Value, b: &Value| a["type"] == b["type"];
        status.insert("conditions".into(), chance.distinct(2, condition, same));
        out.insert("status".into(), status.into());
    }
    spoil(chance, out)
}

pub fn namespace(chance: &mut Chance, status: bool) -> Members {
    let mut out = Members::new();
    if !status && chance.percent(20) {
        out.insert("spec".into(), json!({"finalizers": ["kubernetes"]}));
    }
    if status || chance.percent(10) {
        out.insert("status".into(), json!({"phase": chance.word(&["Active", "Active", "Terminating", ""])}));
    }
    spoil(chance, out)
}

fn port(chance: &mut Chance) -> Value {
    let mut out = chance.members(
        40,
        &[
            ("protocol", |chance| json!(chance.word(&["TCP", "UDP"]))),
            ("name", Chance::text),
            ("tags", |chance| chance.distinct(2, Chance::text, Value::eq)),
        ],
    );
    if chance.percent(97) {
        out.insert("port".into(), chance.number());
    }
    out.into()
}

fn nested(chance: &mut Chance) -> Value {
    let deep = |chance: &mut Chance| {
        let deep =
            |chance: &mut Chance| chance.members(70, &[("x", Chance::number), ("y", Chance::text)]).into();
        chance.entries(2, deep)
    };
    chance.members(50, &[("a", Chance::text), ("b", Chance::text), ("deep", deep)]).into()
}

fn thing_spec(chance: &mut Chance) -> Value {
    let percent = *chance.pick(&[10, 20, 35]);
    let spec = chance.members(
        percent,
        &[
            ("text", Chance::text),
            ("fixed", |chance| json!(chance.word(&["f", "f", "g"]))),
            ("number", Chance::number),
            ("most", Chance::number),
            ("ratio", |chance| json!(*chance.pick(&[0.5, 1.0, 2.5e-7]))),
            ("flag", |chance| json!(chance.percent(50))),
            ("maybe", |chance| if chance.percent(30) { Value::Null } else { chance.text() }),
            ("color", |chance| json!(chance.word(&["red", "green", "blue", "blue", "pink"]))),
            ("either", |chance| if chance.percent(50) { chance.text() } else { chance.number() }),
            ("replicas", |chance| json!(*chance.pick(&[0, 1, 3, 7, 12]))),
            ("when", |chance| json!(chance.word(&["2020-01-01T00:00:00Z", "2020-01-02T00:00:00Z", "soon"]))),
            ("entries", |chance| chance.entries(3, Chance::text)),
            ("atom", |chance| chance.members(50, &[("a", Chance::text), ("b", Chance::number)]).into()),
            ("nested", nested),
            ("list", |chance| chance.list(4, Chance::text)),
            ("set", |chance| chance.distinct(4, Chance::text, Value::eq)),
            ("numbers", |chance| chance.distinct(4, Chance::number, Value::eq)),
            ("ports", |chance| {
                chance.distinct(3, port, |a, b| {
                    let protocol = |port: &Value| port["protocol"].as_str().unwrap_or("TCP").to_owned();
                    a["port"] == b["port"] && protocol(a) == protocol(b)
                })
            }),
            ("free", |chance| chance.entries(3, |chance| chance.anything(3))),
            ("extra", Chance::text),
        ],
    );
    spoil(chance, spec).into()
}

fn thing_status(chance: &mut Chance) -> Value {
    let condition: fn(&mut Chance) -> Value = |chance| {
        let mut out = json!({"type": chance.word(&["Ready", "Synced", "Other"]), "status": chance.word(&["True", "False", "Maybe"])});
        if chance.percent(50) {
            out["message"] = chance.text();
        }
        out
    };
    let mut out = chance.members(
        40,
        &[
            ("phase", |chance| json!(chance.word(&["Ready", "Failed", "Bad phase"]))),
            ("replicas", Chance::number),
            ("selector", |chance| json!(chance.word(&["a=b", "x in (y)"]))),
        ],
    );
    if chance.percent(50) {
        out.insert("conditions".into(), chance.distinct(3, condition, |a, b| a["type"] == b["type"]));
    }
    spoil(chance, out).into()
}

pub fn thing(chance: &mut Chance, status: bool) -> Members {
    let mut out = Members::new();
    if !status || chance.percent(30) {
        out.insert("spec".into(), thing_spec(chance));
    }
    if status || chance.percent(15) {
        out.insert("status".into(), thing_status(chance));
    }
    if chance.percent(3) {
        out.shift_remove("spec");
    }
    out
}

/// Members of both versions; each knows its own.
pub fn half(chance: &mut Chance, status: bool) -> Members {
    let item: fn(&mut Chance) -> Value = |chance| {
        let mut out =
            chance.members(30, &[("left", Chance::text), ("right", Chance::text), ("port", Chance::number)]);
        out.insert("name".into(), json!(chance.word(&["a", "b", "c"])));
        out.into()
    };
    let nested = |chance: &mut Chance| {
        let truth = |chance: &mut Chance| json!(chance.percent(50));
        chance.members(40, &[("a", Chance::text), ("b", Chance::text), ("c", truth)]).into()
    };
    let mut out = Members::new();
    if !status || chance.percent(30) {
        let mut spec = chance.members(
            35,
            &[
                ("text", Chance::text),
                ("count", Chance::number),
                ("left", Chance::text),
                ("right", Chance::text),
                ("nested", nested),
                ("entries", |chance| chance.entries(2, Chance::text)),
                ("free", |chance| chance.entries(2, |chance| chance.anything(1))),
            ],
        );
        if chance.percent(40) {
            spec.insert("items".into(), chance.distinct(3, item, |a, b| a["name"] == b["name"]));
        }
        out.insert("spec".into(), spoil(chance, spec).into());
    }
    if status || chance.percent(15) {
        let status =
            chance.members(40, &[("phase", Chance::text), ("left", Chance::text), ("right", Chance::text)]);
        out.insert("status".into(), spoil(chance, status).into());
    }
    out
}

pub fn wide(chance: &mut Chance, status: bool) -> Members {
    let name = if status { "status" } else { chance.word(&["spec", "data", "other"]) };
    let mut out = Members::new();
    out.insert(name.into(), chance.anything(3));
    out
}
