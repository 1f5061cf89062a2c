//! The kinds that are compared.

use capt_apiserver::managed_fields::{Kind, TypeInfo};
use serde_json::{Map, Value, json};

use crate::{
    fixtures::{self, API_VERSION},
    generate::Generate,
    model::Preparation,
    real::Real,
};

/// Everything below the root of an object but metadata; `status` only for its subresource.
type Content = fn(&mut Generate, status: bool, percent: u32) -> Map<String, Value>;

/// A kind and how writes to it are made up.
pub struct Subject {
    pub kind: Kind,
    pub api_versions: Vec<String>,
    pub plural: &'static str,
    pub namespaced: bool,
    pub has_status: bool,
    pub status_resets: &'static [&'static str],
    pub preparation: Box<dyn Preparation>,
    pub content: Content,
    /// The root a JSON patch works on.
    pub root: &'static str,
    pub strategic: bool,
}

impl Subject {
    pub fn collection(&self, api_version: &str) -> String {
        let root = if api_version.contains('/') { "apis" } else { "api" };
        let namespace = if self.namespaced { "/namespaces/default" } else { "" };
        format!("/{root}/{api_version}{namespace}/{}", self.plural)
    }
}

pub async fn all(real: &Real) -> Vec<Subject> {
    let mut subjects = vec![custom(real).await];
    let core = real.schemas("api/v1").await;
    subjects.push(config_map(&core));
    subjects.push(secret(&core));
    subjects.push(service_account(&core));
    subjects.push(node(&core));
    subjects.push(lease(&real.schemas("apis/coordination.k8s.io/v1").await));
    subjects.push(cluster_role(&real.schemas("apis/rbac.authorization.k8s.io/v1").await));
    subjects
}

struct Custom(capt_schema::Schema);

impl Preparation for Custom {
    fn default(&self, object: &mut Value) {
        self.0.default(object).unwrap();
    }

    fn normalise(&self, object: &mut Value) {
        normalise_metadata(object);
        // Of custom resources even an empty list of managers is dropped.
        if object["metadata"].get("managedFields").is_some_and(is_empty) {
            object["metadata"].as_object_mut().unwrap().shift_remove("managedFields");
        }
        self.0.prune(object);
    }
}

/// Metadata is decoded into a type that drops what is empty.
pub fn normalise_metadata(object: &mut Value) {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        // An empty list of managers asks to forget them.
        metadata.retain(|name, value| name == "managedFields" || !is_empty(value));
    }
}

pub fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(members) => members.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::String(text) => text.is_empty(),
        _ => false,
    }
}

async fn custom(real: &Real) -> Subject {
    let schema = fixtures::schema();
    let other = "test.capt.dev/v2";
    // Atomic in one version, granular in the other.
    let mut other_schema = schema.clone();
    let spec = &mut other_schema["properties"]["spec"]["properties"];
    spec["entries"]["x-kubernetes-map-type"] = json!("atomic");
    spec["set"]["x-kubernetes-list-type"] = json!("atomic");
    spec["fixed"]["x-kubernetes-map-type"] = json!("granular");
    real.create_crd(
        &fixtures::crd("widgets", "Widget", &[("v1", schema.clone()), ("v2", other_schema.clone())]),
        // The subresource is served a moment after the rest.
        &["v1", "v2"]
            .map(|version| format!("/apis/test.capt.dev/{version}/namespaces/default/widgets/none/status")),
    )
    .await;
    let types = TypeInfo::from_crd_schema(&schema).unwrap();
    let other_types = TypeInfo::from_crd_schema(&other_schema).unwrap();
    Subject {
        kind: Kind::new("Widget").with_version(API_VERSION, types).with_version(other, other_types),
        api_versions: vec![API_VERSION.to_owned(), other.to_owned()],
        plural: "widgets",
        namespaced: true,
        has_status: true,
        status_resets: &["metadata", "spec"],
        preparation: Box::new(Custom(capt_schema::Schema::compile(&schema).unwrap())),
        content: |generate, status, percent| {
            let mut out = Map::new();
            if !status || generate.chance(30) {
                out.insert("spec".to_owned(), generate.spec(percent));
            }
            if status || generate.chance(10) {
                out.insert("status".to_owned(), generate.status());
            }
            out
        },
        root: "spec",
        strategic: false,
    }
}

/// What a member is when nothing is set.
type Empty = fn() -> Value;

/// A builtin kind, whose objects are decoded into types: what is empty is dropped, or always there.
struct Builtin {
    /// Members every object has, with what they are when empty.
    always: &'static [(&'static str, Empty)],
    defaults: &'static [(&'static str, &'static str)],
}

impl Preparation for Builtin {
    fn default(&self, object: &mut Value) {
        for (name, value) in self.defaults {
            if object.get(name).is_none_or(is_empty) {
                object[*name] = json!(value);
            }
        }
    }

    fn normalise(&self, object: &mut Value) {
        normalise_metadata(object);
        object.as_object_mut().unwrap().retain(|_, value| !is_empty(value));
        for (name, empty) in self.always {
            if object.get(name).is_none() {
                object[*name] = empty();
            }
        }
    }
}

fn config_map(schemas: &Map<String, Value>) -> Subject {
    let types = TypeInfo::from_definitions(schemas, "io.k8s.api.core.v1.ConfigMap").unwrap();
    Subject {
        kind: Kind::new("ConfigMap").with_version("v1", types),
        api_versions: vec!["v1".to_owned()],
        plural: "configmaps",
        namespaced: true,
        has_status: false,
        status_resets: &[],
        preparation: Box::new(Builtin { always: &[], defaults: &[] }),
        content: |generate, _, percent| {
            let mut out = Map::new();
            for name in ["data", "binaryData"] {
                if generate.chance(percent + 30) {
                    let count = *generate.pick(&[0, 1, 2, 3]);
                    let mut data = Map::new();
                    for _ in 0..count {
                        let key = *generate.pick(&["a", "b", "c", "x.y"]);
                        // Keys of the two must differ, and the values of one are base64.
                        data.insert(format!("{key}-{name}"), json!(*generate.pick(&["YQ==", "Yg==", ""])));
                    }
                    out.insert(name.to_owned(), Value::Object(data));
                }
            }
            out
        },
        root: "data",
        strategic: true,
    }
}

/// A builtin kind without anything special.
fn builtin(
    kind: Kind,
    api_version: &str,
    plural: &'static str,
    preparation: Builtin,
    content: Content,
) -> Subject {
    Subject {
        kind,
        api_versions: vec![api_version.to_owned()],
        plural,
        namespaced: true,
        has_status: false,
        status_resets: &[],
        preparation: Box::new(preparation),
        content,
        root: "data",
        strategic: true,
    }
}

fn kind(schemas: &Map<String, Value>, name: &str, definition: &str, api_version: &str) -> Kind {
    let types = TypeInfo::from_definitions(schemas, definition).unwrap();
    Kind::new(name).with_version(api_version, types)
}

fn object(members: &[(&str, Option<Value>)]) -> Map<String, Value> {
    let stated = members.iter().filter_map(|(name, value)| Some(((*name).to_owned(), value.clone()?)));
    stated.collect()
}

fn secret(schemas: &Map<String, Value>) -> Subject {
    builtin(
        kind(schemas, "Secret", "io.k8s.api.core.v1.Secret", "v1"),
        "v1",
        "secrets",
        Builtin { always: &[], defaults: &[("type", "Opaque")] },
        |generate, _, percent| {
            let mut data = Map::new();
            for key in ["a", "b", "c"] {
                if generate.chance(percent + 20) {
                    data.insert(key.to_owned(), json!(*generate.pick(&["YQ==", "Yg==", ""])));
                }
            }
            object(&[("data", (!data.is_empty()).then_some(json!(data)))])
        },
    )
}

fn service_account(schemas: &Map<String, Value>) -> Subject {
    builtin(
        kind(schemas, "ServiceAccount", "io.k8s.api.core.v1.ServiceAccount", "v1"),
        "v1",
        "serviceaccounts",
        Builtin { always: &[], defaults: &[] },
        |generate, _, percent| {
            let mut references = |percent: u32| {
                let names: Vec<_> =
                    ["a", "b", "c"].into_iter().filter(|_| generate.chance(percent)).collect();
                names.into_iter().map(|name| json!({"name": name})).collect::<Vec<_>>()
            };
            let (secrets, pulls) = (references(percent), references(percent));
            object(&[
                ("secrets", (!secrets.is_empty()).then_some(json!(secrets))),
                ("imagePullSecrets", (!pulls.is_empty()).then_some(json!(pulls))),
                ("automountServiceAccountToken", generate.chance(30).then_some(json!(percent > 20))),
            ])
        },
    )
}

fn lease(schemas: &Map<String, Value>) -> Subject {
    let api_version = "coordination.k8s.io/v1";
    let kind = kind(schemas, "Lease", "io.k8s.api.coordination.v1.Lease", api_version)
        .with_zero(json!({"spec": {}}));
    let always: &[(&str, Empty)] = &[("spec", || json!({}))];
    builtin(kind, api_version, "leases", Builtin { always, defaults: &[] }, |generate, _, percent| {
        let mut spec = Map::new();
        for (name, values) in [
            ("holderIdentity", [json!("a"), json!("b")]),
            ("leaseDurationSeconds", [json!(1), json!(15)]),
            ("leaseTransitions", [json!(0), json!(1)]),
            ("renewTime", [json!("2026-01-01T00:00:00.000000Z"), json!("2026-01-01T00:00:01.500000Z")]),
        ] {
            if generate.chance(percent + 20) {
                spec.insert(name.to_owned(), generate.pick(&values).clone());
            }
        }
        object(&[("spec", (!spec.is_empty()).then_some(json!(spec)))])
    })
}

fn cluster_role(schemas: &Map<String, Value>) -> Subject {
    let api_version = "rbac.authorization.k8s.io/v1";
    let kind = kind(schemas, "ClusterRole", "io.k8s.api.rbac.v1.ClusterRole", api_version)
        .with_zero(json!({"rules": null}));
    let always: &[(&str, Empty)] = &[("rules", || Value::Null)];
    let subject = builtin(
        kind,
        api_version,
        "clusterroles",
        Builtin { always, defaults: &[] },
        |generate, _, percent| {
            let verbs = *generate.pick(&["get", "list", "*"]);
            let rule = json!({"apiGroups": [""], "resources": ["pods"], "verbs": [verbs]});
            object(&[("rules", generate.chance(percent + 20).then(|| json!([rule])))])
        },
    );
    Subject { namespaced: false, ..subject }
}

struct Node;

/// What the status of a node has before anything is set.
fn node_status() -> Value {
    let info: Map<String, Value> = [
        "machineID",
        "systemUUID",
        "bootID",
        "kernelVersion",
        "osImage",
        "containerRuntimeVersion",
        "kubeletVersion",
        "kubeProxyVersion",
        "operatingSystem",
        "architecture",
    ]
    .into_iter()
    .map(|name| (name.to_owned(), json!("")))
    .collect();
    json!({"daemonEndpoints": {"kubeletEndpoint": {"Port": 0}}, "nodeInfo": info})
}

impl Preparation for Node {
    fn admit(&self, object: &mut Value) {
        let taint = json!({"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"});
        match object["spec"].get_mut("taints").and_then(Value::as_array_mut) {
            Some(taints) => taints.push(taint),
            None => object["spec"]["taints"] = json!([taint]),
        }
    }

    fn default(&self, object: &mut Value) {
        // Allocatable is the capacity where it is not stated.
        let status = object["status"].as_object_mut();
        if let Some(status) = status
            && let Some(capacity) = status.get("capacity").cloned()
            && status.get("allocatable").is_none_or(is_empty)
            && !is_empty(&capacity)
        {
            status.insert("allocatable".to_owned(), capacity);
        }
    }

    fn normalise(&self, object: &mut Value) {
        normalise_metadata(object);
        let zero = json!({"spec": {}, "status": node_status()});
        for (name, zero) in zero.as_object().unwrap() {
            if !object[name].is_object() {
                object[name] = zero.clone();
            }
            let members = object[name].as_object_mut().unwrap();
            members.retain(|_, value| !is_empty(value) && *value != json!(false));
            for (name, zero) in zero.as_object().unwrap() {
                members.entry(name.clone()).or_insert_with(|| zero.clone());
            }
        }
        fill(object, "conditions", &["lastHeartbeatTime", "lastTransitionTime"], &Value::Null);
        fill(object, "conditions", &["type", "status"], &json!(""));
        fill(object, "addresses", &["type", "address"], &json!(""));
    }
}

/// Gives the items of a list in a status the members they always have.
fn fill(object: &mut Value, list: &str, names: &[&str], with: &Value) {
    let items = object["status"].get_mut(list).and_then(Value::as_array_mut);
    for item in items.into_iter().flatten().filter_map(Value::as_object_mut) {
        for name in names {
            item.entry(*name).or_insert_with(|| with.clone());
        }
    }
}

fn node(schemas: &Map<String, Value>) -> Subject {
    Subject {
        kind: kind(schemas, "Node", "io.k8s.api.core.v1.Node", "v1")
            .with_zero(json!({"spec": {}, "status": node_status()})),
        api_versions: vec!["v1".to_owned()],
        plural: "nodes",
        namespaced: false,
        has_status: true,
        status_resets: &["spec"],
        preparation: Box::new(Node),
        content: |generate, status, percent| {
            let mut out = Map::new();
            if !status {
                let taints: Vec<_> = ["a", "b"].into_iter().filter(|_| generate.chance(percent)).collect();
                let taints: Vec<_> =
                    taints.into_iter().map(|key| json!({"key": key, "effect": "NoExecute"})).collect();
                if !taints.is_empty() {
                    out.insert("spec".to_owned(), json!({"taints": taints}));
                }
                return out;
            }
            let mut conditions = Vec::new();
            for of in ["Ready", "DiskPressure", "Other"] {
                if generate.chance(40) {
                    let mut condition = json!({"type": of, "status": *generate.pick(&["True", "False"])});
                    if generate.chance(50) {
                        condition["message"] = json!(*generate.pick(&["m", "n"]));
                    }
                    conditions.push(condition);
                }
            }
            let mut members = Map::new();
            if !conditions.is_empty() {
                members.insert("conditions".to_owned(), json!(conditions));
            }
            if generate.chance(40) {
                let address = *generate.pick(&["10.0.0.1", "10.0.0.2"]);
                members.insert("addresses".to_owned(), json!([{"type": "InternalIP", "address": address}]));
            }
            if generate.chance(30) {
                members.insert("phase".to_owned(), json!(*generate.pick(&["Pending", "Running"])));
            }
            out.insert("status".to_owned(), Value::Object(members));
            out
        },
        root: "spec",
        strategic: true,
    }
}
