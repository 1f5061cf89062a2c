//! Tables, metadata, lists and watches of real objects.

use capt_apiserver::{
    output::{
        list::{ListMeta, ListWriter},
        partial::{partial, partial_list},
        table::{IncludeObject, Printer, TableOptions},
        watch::{self, EventType},
    },
    request::accept::MetaVersion,
    resource::api_version,
    resource::{Column, Resource},
};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{Real, edge, get, real};

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

/// Name, type, JSON path.
const COLUMNS: &[(&str, &str, &str)] = &[
    ("S", "string", ".spec.s"),
    ("SI", "string", ".spec.i"),
    ("SF", "string", ".spec.f"),
    ("SB", "string", ".spec.b"),
    ("SO", "string", ".spec.o"),
    ("SL", "string", ".spec.l"),
    ("SN", "string", ".spec.null"),
    ("SLF", "string", ".spec.lf"),
    ("SBIG", "string", ".spec.big"),
    ("HTML", "string", ".spec.html"),
    ("LHTML", "string", ".spec.lhtml"),
    ("I", "integer", ".spec.i"),
    ("IF", "integer", ".spec.f"),
    ("IS", "integer", ".spec.s"),
    ("N", "number", ".spec.f"),
    ("NI", "number", ".spec.i"),
    ("NBIG", "number", ".spec.big"),
    ("B", "boolean", ".spec.b"),
    ("BS", "boolean", ".spec.s"),
    ("D", "date", ".spec.d"),
    ("DX", "date", ".spec.s"),
    ("DE", "date", ".spec.empty"),
    ("DFRAC", "date", ".spec.dfrac"),
    ("DI", "date", ".spec.i"),
    ("READY", "string", ".status.conditions[?(@.type==\"Ready\")].status"),
    ("NOTREADY", "string", ".status.conditions[?(@.type!='Ready')].status"),
    ("LESS", "string", ".status.conditions[?(@.n<2)].type"),
    ("MIXED", "string", ".status.conditions[?(@.n==1.5)].type"),
    ("HAS", "string", ".status.conditions[?(@.reason)].type"),
    ("LABEL", "string", ".metadata.labels['a\\.b/c']"),
    ("LABEL2", "string", ".metadata.labels.a\\.b/c"),
    ("INDEX", "string", ".spec.l[0]"),
    ("OUTSIDE", "string", ".spec.l[9]"),
    ("LAST", "string", ".spec.l[-1:]"),
    ("LAST1", "string", ".spec.l[-1]"),
    ("SLICE", "string", ".spec.l[1:3]"),
    ("ALL", "string", ".spec.l[*]"),
    ("NAMES", "string", ".spec.c[*].name"),
    ("Age", "date", ".metadata.creationTimestamp"),
];

pub fn columns() -> Vec<Column> {
    let columns = COLUMNS.iter().enumerate().map(|(index, (name, kind, path))| Column {
        name: (*name).to_owned(),
        kind: (*kind).to_owned(),
        format: if index == 0 { "byte".to_owned() } else { String::new() },
        description: if index == 1 { "described".to_owned() } else { String::new() },
        priority: i32::from(index == 2),
        json_path: (*path).to_owned(),
    });
    columns.collect()
}

pub fn crd() -> Value {
    let columns: Vec<_> = columns()
        .into_iter()
        .map(|column| {
            json!({
                "name": column.name, "type": column.kind, "format": column.format, "description": column.description,
                "priority": column.priority, "jsonPath": column.json_path,
            })
        })
        .collect();
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let mut spec = open.clone();
    spec["properties"] =
        json!({"color": {"type": "string"}, "n": {"type": "integer"}, "b": {"type": "boolean"}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.edge.example.com"},
        "spec": {
            "group": "edge.example.com", "scope": "Namespaced",
            "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "selectableFields": [{"jsonPath": ".spec.color"}, {"jsonPath": ".spec.n"}, {"jsonPath": ".spec.b"}],
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": open}}},
                "additionalPrinterColumns": columns,
            }],
        },
    })
}

pub fn things() -> Vec<Value> {
    let thing = |name: &str, spec: Value, status: Value| {
        json!({
            "apiVersion": "edge.example.com/v1", "kind": "Thing", "spec": spec, "status": status,
            "metadata": {"name": name, "labels": {"a.b/c": "label"}},
        })
    };
    vec![
        thing(
            "t1",
            json!({
                "s": "text", "i": 42, "f": 1.75, "b": true, "n": 3, "o": {"z": 1, "a": [1, 2.5], "h": "<&>"},
                "l": ["x", "y", "z"], "null": null, "d": "2020-01-02T03:04:05Z", "empty": "",
                "dfrac": "2020-01-02T03:04:05.123Z", "c": [{"name": "c1"}, {"name": "c2"}], "lf": 1_234_567.5,
                "big": 1e21, "html": "<&>", "lhtml": ["<&>"], "color": "red",
            }),
            json!({"conditions": [
                {"type": "A", "status": "False", "n": 1, "reason": ""},
                {"type": "Ready", "status": "True", "n": 2},
            ]}),
        ),
        thing("t2", json!({"i": -7, "l": ["only"], "o": {}, "f": 0.00001, "color": "red,green"}), json!({})),
        thing(
            "t3",
            json!({"l": "no list", "c": {"name": "n"}, "s": "", "i": 1_000_000}),
            json!({"conditions": []}),
        ),
    ]
}

/// Objects of every built-in kind, with the paths they are created at.
pub fn built_in() -> Vec<(&'static str, Value)> {
    let rbac = "rbac.authorization.k8s.io";
    let subjects = json!([
        {"kind": "User", "apiGroup": rbac, "name": "u1"}, {"kind": "User", "apiGroup": rbac, "name": "u2"},
        {"kind": "Group", "apiGroup": rbac, "name": "g"}, {"kind": "ServiceAccount", "namespace": "edge", "name": "s"},
    ]);
    let pod = json!({"kind": "Pod", "name": "p", "namespace": "edge", "fieldPath": "spec.containers{c}"});
    let events = "/api/v1/namespaces/edge/events";
    vec![
        (
            "/api/v1/namespaces/edge/configmaps",
            json!({"metadata": {"name": "binary"}, "data": {"a": "b"}, "binaryData": {"c": "AA=="}}),
        ),
        (
            "/api/v1/namespaces/edge/secrets",
            json!({"metadata": {"name": "s"}, "type": "example.com/x", "data": {"a": "AA=="}}),
        ),
        ("/api/v1/namespaces/edge/serviceaccounts", json!({"metadata": {"name": "sa"}})),
        (
            "/apis/coordination.k8s.io/v1/namespaces/edge/leases",
            json!({"metadata": {"name": "held"}, "spec": {"holderIdentity": "me"}}),
        ),
        ("/apis/coordination.k8s.io/v1/namespaces/edge/leases", json!({"metadata": {"name": "free"}})),
        ("/apis/rbac.authorization.k8s.io/v1/namespaces/edge/roles", json!({"metadata": {"name": "r"}})),
        (
            "/apis/rbac.authorization.k8s.io/v1/namespaces/edge/rolebindings",
            json!({"metadata": {"name": "rb"}, "roleRef": {"apiGroup": rbac, "kind": "Role", "name": "r"}, "subjects": subjects}),
        ),
        (
            "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
            json!({"metadata": {"name": "crb"}, "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": "r"}}),
        ),
        ("/api/v1/nodes", json!({"metadata": {"name": "bare"}})),
        (
            "/api/v1/nodes",
            json!({
                "metadata": {"name": "full", "labels": {
                    "node-role.kubernetes.io/worker": "", "node-role.kubernetes.io/control-plane": "", "kubernetes.io/role": "old",
                }},
                "spec": {"unschedulable": true},
                "status": {
                    "conditions": [{"type": "Ready", "status": "True"}, {"type": "DiskPressure", "status": "True"}],
                    "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}, {"type": "ExternalIP", "address": "1.2.3.4"}],
                    "nodeInfo": {
                        "kubeletVersion": "v1.36.0", "osImage": "Linux", "kernelVersion": "6.1", "architecture": "amd64",
                        "containerRuntimeVersion": "containerd://2", "machineID": "", "systemUUID": "", "bootID": "",
                        "kubeProxyVersion": "", "operatingSystem": "linux",
                    },
                },
            }),
        ),
        (
            events,
            json!({
                "metadata": {"name": "old"}, "involvedObject": pod, "type": "Warning", "reason": "Bad", "message": " it is\n",
                "source": {"component": "kubelet", "host": "n1"}, "firstTimestamp": "2020-01-01T00:00:00Z",
                "lastTimestamp": "2026-01-01T00:00:00Z", "count": 7,
            }),
        ),
        (
            events,
            json!({"metadata": {"name": "bare"}, "involvedObject": {"kind": "Pod", "namespace": "edge"}}),
        ),
        (
            "/apis/events.k8s.io/v1/namespaces/edge/events",
            json!({
                "metadata": {"name": "new"}, "regarding": pod, "type": "Normal", "reason": "Good", "note": "fine", "action": "Do",
                "eventTime": "2026-01-01T00:00:00.000001Z", "reportingController": "ctrl", "reportingInstance": "ctrl-1",
                "series": {"count": 3, "lastObservedTime": "2026-02-01T00:00:00.000000Z"},
            }),
        ),
    ]
}

pub fn path_of(resource: &Resource) -> String {
    let prefix =
        if resource.group.is_empty() { "/api".to_owned() } else { format!("/apis/{}", resource.group) };
    let namespace = if resource.namespaced { "namespaces/edge/" } else { "" };
    format!("{prefix}/v1/{namespace}{}", resource.plural)
}

/// The objects of a list, each with its kind and version, and the metadata of the list.
async fn objects(real: &Real, resource: &Resource) -> (Vec<Value>, ListMeta) {
    let list = real.ask(&get(path_of(resource))).await.json();
    let items = list["items"].as_array().unwrap().iter().map(|item| {
        let mut object = json!({"kind": resource.kind, "apiVersion": api_version(&resource.group, "v1")});
        object.as_object_mut().unwrap().extend(item.as_object().unwrap().clone());
        object
    });
    (items.collect(), meta(&list))
}

fn meta(list: &Value) -> ListMeta {
    let text = |key: &str| list["metadata"][key].as_str().unwrap_or_default().to_owned();
    ListMeta {
        resource_version: text("resourceVersion"),
        continue_token: text("continue"),
        remaining: list["metadata"]["remainingItemCount"].as_u64(),
    }
}

fn read(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap()
}

/// Every second in which an answer may have been written that was asked for at a time.
fn seconds_since(asked: Timestamp) -> impl Iterator<Item = Timestamp> {
    let (first, last) = (asked.as_second(), Timestamp::now().as_second());
    (first..=last).map(|second| Timestamp::from_second(second).unwrap())
}

#[tokio::test]
async fn tables() {
    let Some(real) = real().await else { return };
    for resource in edge::resources() {
        let printer = Printer::new(&resource, &resource.versions[0]);
        let (objects, _) = objects(&real, &resource).await;
        assert!(!objects.is_empty(), "{}", resource.plural);
        for (name, include) in [
            ("Metadata", IncludeObject::Metadata),
            ("None", IncludeObject::None),
            ("Object", IncludeObject::Object),
        ] {
            let sent = get(format!("{}?includeObject={name}", path_of(&resource))).accept(TABLE);
            let options = TableOptions { include, ..TableOptions::default() };
            // Ages go on while the answer is on its way, and within it.
            for attempt in 1.. {
                let before = Timestamp::now();
                let theirs = real.ask(&sent).await.json();
                let ours = |now| read(&printer.list(&objects, &meta(&theirs), options, now));
                if seconds_since(before).any(|now| ours(now) == theirs) {
                    break;
                }
                assert!(
                    attempt < 5,
                    "{} {name}\n  ours: {}\ntheirs: {theirs}",
                    resource.plural,
                    ours(before)
                );
            }
        }
    }
}

#[tokio::test]
async fn lists_and_metadata() {
    let Some(real) = real().await else { return };
    for resource in edge::resources() {
        let (objects, _) = objects(&real, &resource).await;
        let path = path_of(&resource);
        let list = real.ask(&get(path.as_str())).await.json();
        let mut writer = ListWriter::new(&resource, "v1", &meta(&list), 0);
        for object in &objects {
            writer.push(object.to_string().as_bytes());
        }
        assert_eq!(read(&writer.finish()), list, "{}", resource.plural);

        // A piece of it says how much is left.
        let piece = real.ask(&get(format!("{path}?limit=1"))).await.json();
        let mut writer = ListWriter::new(&resource, "v1", &meta(&piece), 0);
        writer.push(objects[0].to_string().as_bytes());
        assert_eq!(read(&writer.finish()), piece, "{}", resource.plural);

        let accept = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
        let list = real.ask(&get(path.as_str()).accept(accept)).await.json();
        assert_eq!(read(&partial_list(&objects, &meta(&list), MetaVersion::V1)), list, "{}", resource.plural);

        let name = objects[0]["metadata"]["name"].as_str().unwrap();
        let accept = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
        let one = real.ask(&get(format!("{path}/{name}")).accept(accept)).await.json();
        assert_eq!(partial(&objects[0], MetaVersion::V1), one);
    }
}

/// The events of a watch up to the bookmark that says that there is nothing older. A server that is busy takes longer for
/// them than the watch is asked to last, so then it is asked to last longer.
async fn initial(real: &Real, watch: &str) -> Vec<Value> {
    for seconds in [1, 5, 25, 125] {
        let watch = watch.replace("timeoutSeconds=1&", &format!("timeoutSeconds={seconds}&"));
        let text = real.ask(&get(watch)).await.text;
        let mut lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        if let Some(end) = lines.iter().position(|line| line["type"] == "BOOKMARK") {
            lines.truncate(end + 1);
            return lines;
        }
    }
    panic!("no bookmark: {watch}");
}

#[tokio::test]
async fn watches() {
    let Some(real) = real().await else { return };
    for resource in edge::resources()
        .into_iter()
        .filter(|resource| matches!(resource.plural.as_str(), "configmaps" | "things"))
    {
        let (objects, _) = objects(&real, &resource).await;
        let kind = (resource.kind.as_str(), api_version(&resource.group, "v1"));
        let watch = format!("{}?watch=1&timeoutSeconds=1&allowWatchBookmarks=true", path_of(&resource));
        let lines = initial(&real, &watch).await;
        let (end, events) = lines.split_last().unwrap();
        let revision = end["object"]["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
        assert_eq!(&read(&watch::bookmark(kind.0, &kind.1, revision, true)), end);
        assert_eq!(events.len(), objects.len());
        for event in events {
            let object =
                objects.iter().find(|object| object["metadata"]["uid"] == event["object"]["metadata"]["uid"]);
            let ours = watch::event(EventType::Added, object.unwrap().to_string().as_bytes());
            assert_eq!(&read(&ours), event);
        }

        // In tables, only the first event has columns.
        let printer = Printer::new(&resource, &resource.versions[0]);
        for attempt in 1.. {
            let asked = Timestamp::now();
            let lines = real.ask(&get(watch.as_str()).accept(TABLE)).await.text;
            let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
            let event = |now: Timestamp, (index, line): (usize, &Value)| {
                let row = &line["object"]["rows"][0]["object"];
                let object =
                    objects.iter().find(|object| object["metadata"]["uid"] == row["metadata"]["uid"]);
                let options = TableOptions { no_headers: index > 0, ..TableOptions::default() };
                let end = json!({"kind": kind.0, "apiVersion": kind.1, "metadata": row["metadata"]});
                let event = if object.is_some() { EventType::Added } else { EventType::Bookmark };
                read(&watch::event(event, &printer.one(object.unwrap_or(&end), options, now)))
            };
            let ours = |now| lines.iter().enumerate().map(|line| event(now, line)).collect::<Vec<_>>();
            if !lines.is_empty() && seconds_since(asked).any(|now| ours(now) == lines) {
                break;
            }
            assert!(attempt < 5, "  ours: {}\ntheirs: {}", json!(ours(asked)), json!(lines));
        }
    }
}
