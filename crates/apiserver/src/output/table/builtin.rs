//! The columns of built-in kinds, as people know them.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::describe::{self, ColumnDefinition};
use crate::output::{age, partial::text};

/// The columns of a kind, and how an object fills them.
pub(super) struct BuiltIn {
    pub columns: &'static [ColumnDefinition],
    pub cells: fn(&Value, Timestamp) -> Vec<Value>,
}

const NAME: ColumnDefinition = ColumnDefinition::text("Name", describe::NAME).format("name");
const AGE: ColumnDefinition = ColumnDefinition::text("Age", describe::CREATED);

/// The columns of a resource; kinds without columns of their own have name and age.
pub(super) fn find(group: &str, plural: &str) -> BuiltIn {
    match (group, plural) {
        ("", "namespaces") => BuiltIn { columns: NAMESPACE, cells: namespace },
        ("", "configmaps") => BuiltIn { columns: CONFIG_MAP, cells: config_map },
        ("", "secrets") => BuiltIn { columns: SECRET, cells: secret },
        ("" | "events.k8s.io", "events") => BuiltIn { columns: EVENT, cells: event },
        ("", "services") => BuiltIn { columns: SERVICE, cells: service },
        ("", "nodes") => BuiltIn { columns: NODE, cells: node },
        ("coordination.k8s.io", "leases") => BuiltIn { columns: LEASE, cells: lease },
        ("rbac.authorization.k8s.io", "rolebindings") => BuiltIn { columns: ROLE_BINDING, cells: binding },
        ("rbac.authorization.k8s.io", "clusterrolebindings") => {
            BuiltIn { columns: CLUSTER_ROLE_BINDING, cells: binding }
        }
        ("rbac.authorization.k8s.io", "roles" | "clusterroles")
        | ("apiextensions.k8s.io", "customresourcedefinitions") => BuiltIn { columns: DATED, cells: dated },
        _ => BuiltIn { columns: PLAIN, cells: plain },
    }
}

fn name(object: &Value) -> Value {
    text(object, &["metadata", "name"]).into()
}

fn age(object: &Value, now: Timestamp) -> Value {
    age::since_text(text(object, &["metadata", "creationTimestamp"]), now).into()
}

fn size(object: &Value, member: &str) -> usize {
    object[member].as_object().map_or(0, Map::len)
}

const PLAIN: &[ColumnDefinition] = &[NAME, AGE];

fn plain(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), age(object, now)]
}

const DATED: &[ColumnDefinition] = &[NAME, ColumnDefinition::new("Created At", "date", describe::CREATED)];

fn dated(object: &Value, _now: Timestamp) -> Vec<Value> {
    let created = text(object, &["metadata", "creationTimestamp"]);
    let created = if created.is_empty() { "0001-01-01T00:00:00Z" } else { created };
    vec![name(object), created.into()]
}

const NAMESPACE: &[ColumnDefinition] =
    &[NAME, ColumnDefinition::text("Status", "The status of the namespace"), AGE];

fn namespace(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), text(object, &["status", "phase"]).into(), age(object, now)]
}

const CONFIG_MAP: &[ColumnDefinition] =
    &[NAME, ColumnDefinition::text("Data", describe::CONFIG_MAP_DATA), AGE];

fn config_map(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), (size(object, "data") + size(object, "binaryData")).into(), age(object, now)]
}

const SECRET: &[ColumnDefinition] = &[
    NAME,
    ColumnDefinition::text("Type", describe::SECRET_TYPE),
    ColumnDefinition::text("Data", describe::SECRET_DATA),
    AGE,
];

fn secret(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), text(object, &["type"]).into(), size(object, "data").into(), age(object, now)]
}

const SERVICE: &[ColumnDefinition] = &[
    NAME,
    ColumnDefinition::text("Type", "How the service is reached"),
    ColumnDefinition::text("Cluster-IP", "Address of the service inside of the cluster"),
    ColumnDefinition::text("External-IP", "Addresses outside of it"),
    ColumnDefinition::text("Port(s)", "Ports of the service"),
    AGE,
    ColumnDefinition::text("Selector", "Labels of the pods behind it").wide(),
];

/// There are no services, so what is printed has no contents: the object of a bookmark.
fn service(object: &Value, now: Timestamp) -> Vec<Value> {
    let texts = ["", "<none>", "<unknown>", "<none>"].map(Value::from);
    let [kind, address, external, ports] = texts;
    vec![name(object), kind, address, external, ports, age(object, now), "<none>".into()]
}

const LEASE: &[ColumnDefinition] = &[NAME, ColumnDefinition::text("Holder", describe::HOLDER), AGE];

fn lease(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), text(object, &["spec", "holderIdentity"]).into(), age(object, now)]
}

const ROLE_BINDING: &[ColumnDefinition] = &[
    NAME,
    ColumnDefinition::text("Role", describe::ROLE_REF),
    AGE,
    ColumnDefinition::text("Users", "Users in the roleBinding").wide(),
    ColumnDefinition::text("Groups", "Groups in the roleBinding").wide(),
    ColumnDefinition::text("ServiceAccounts", "ServiceAccounts in the roleBinding").wide(),
];

const CLUSTER_ROLE_BINDING: &[ColumnDefinition] = &[
    NAME,
    ColumnDefinition::text("Role", describe::CLUSTER_ROLE_REF),
    AGE,
    ColumnDefinition::text("Users", "Users in the clusterRoleBinding").wide(),
    ColumnDefinition::text("Groups", "Groups in the clusterRoleBinding").wide(),
    ColumnDefinition::text("ServiceAccounts", "ServiceAccounts in the clusterRoleBinding").wide(),
];

fn binding(object: &Value, now: Timestamp) -> Vec<Value> {
    let role = format!("{}/{}", text(object, &["roleRef", "kind"]), text(object, &["roleRef", "name"]));
    let subjects = |kind: &str| {
        let subjects = object["subjects"].as_array().into_iter().flatten();
        let names = subjects.filter(|subject| subject["kind"] == kind).map(|subject| match kind {
            "ServiceAccount" => format!("{}/{}", text(subject, &["namespace"]), text(subject, &["name"])),
            _ => text(subject, &["name"]).to_owned(),
        });
        Value::from(names.collect::<Vec<_>>().join(", "))
    };
    let [users, groups, accounts] = ["User", "Group", "ServiceAccount"].map(subjects);
    vec![name(object), role.into(), age(object, now), users, groups, accounts]
}

const NODE: &[ColumnDefinition] = &[
    NAME,
    ColumnDefinition::text("Status", "The status of the node"),
    ColumnDefinition::text("Roles", "The roles of the node"),
    AGE,
    ColumnDefinition::text("Version", "Kubelet Version reported by the node."),
    ColumnDefinition::text("Internal-IP", describe::NODE_ADDRESSES).wide(),
    ColumnDefinition::text("External-IP", describe::NODE_ADDRESSES).wide(),
    ColumnDefinition::text(
        "OS-Image",
        "OS Image reported by the node from /etc/os-release (e.g. Debian GNU/Linux 7 (wheezy)).",
    )
    .wide(),
    ColumnDefinition::text(
        "Kernel-Version",
        "Kernel Version reported by the node from 'uname -r' (e.g. 3.16.0-0.bpo.4-amd64).",
    )
    .wide(),
    ColumnDefinition::text(
        "Container-Runtime",
        "ContainerRuntime Version reported by the node through runtime remote API (e.g. containerd://1.4.2).",
    )
    .wide(),
];

fn node(object: &Value, now: Timestamp) -> Vec<Value> {
    let info = |member: &str| text(object, &["status", "nodeInfo", member]);
    let known = |member: &str| match info(member) {
        "" => "<unknown>".to_owned(),
        known => known.to_owned(),
    };
    let address = |kind: &str| {
        let mut addresses = object["status"]["addresses"].as_array().into_iter().flatten();
        let address = addresses.find(|address| address["type"] == kind);
        address.map_or("<none>", |address| text(address, &["address"]))
    };
    let mut kernel = known("kernelVersion");
    if !info("architecture").is_empty() {
        kernel = format!("{kernel} ({})", info("architecture"));
    }
    vec![
        name(object),
        node_status(object).into(),
        node_roles(object).into(),
        age(object, now),
        info("kubeletVersion").into(),
        address("InternalIP").into(),
        address("ExternalIP").into(),
        known("osImage").into(),
        kernel.into(),
        known("containerRuntimeVersion").into(),
    ]
}

fn node_status(object: &Value) -> String {
    let mut conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    let ready = match conditions.rfind(|condition| condition["type"] == "Ready") {
        None => "Unknown",
        Some(condition) if condition["status"] == "True" => "Ready",
        Some(_) => "NotReady",
    };
    let unschedulable = object["spec"]["unschedulable"] == true;
    if unschedulable { format!("{ready},SchedulingDisabled") } else { ready.to_owned() }
}

fn node_roles(object: &Value) -> String {
    let labels = object["metadata"]["labels"].as_object().into_iter().flatten();
    let roles = labels.filter_map(|(key, value)| match key.strip_prefix("node-role.kubernetes.io/") {
        Some(role) => Some(role),
        None if key == "kubernetes.io/role" => value.as_str(),
        None => None,
    });
    let roles: BTreeSet<_> = roles.filter(|role| !role.is_empty()).collect();
    if roles.is_empty() { "<none>".to_owned() } else { Vec::from_iter(roles).join(",") }
}

const EVENT: &[ColumnDefinition] = &[
    ColumnDefinition::text(
        "Last Seen",
        "The time at which the most recent occurrence of this event was recorded.",
    ),
    ColumnDefinition::text(
        "Type",
        "Type of this event (Normal, Warning), new types could be added in the future",
    ),
    ColumnDefinition::text(
        "Reason",
        "This should be a short, machine understandable string that gives the reason for the transition into the \
         object's current status.",
    ),
    ColumnDefinition::text("Object", "The object that this event is about."),
    ColumnDefinition::text("Subobject", describe::EVENT_FIELD_PATH).wide(),
    ColumnDefinition::text(
        "Source",
        "The component reporting this event. Should be a short machine understandable string.",
    )
    .wide(),
    ColumnDefinition::text("Message", "A human-readable description of the status of this operation."),
    ColumnDefinition::text(
        "First Seen",
        "The time at which the event was first recorded. (Time of server receipt is in TypeMeta.)",
    )
    .wide(),
    ColumnDefinition::text("Count", "The number of times this event has occurred.").wide(),
    ColumnDefinition::text("Name", describe::NAME).format("name").wide(),
];

/// Both shapes of events, the core one and that of `events.k8s.io`, which names the same fields anew.
fn event(object: &Value, now: Timestamp) -> Vec<Value> {
    let about = if object["involvedObject"].is_object() { "involvedObject" } else { "regarding" };
    let (kind, target) = (text(object, &[about, "kind"]).to_lowercase(), text(object, &[about, "name"]));
    let target = if target.is_empty() { kind } else { format!("{kind}/{target}") };
    let Seen { first, last, count } = event_seen(object, now);
    vec![
        last.into(),
        text(object, &["type"]).into(),
        text(object, &["reason"]).into(),
        target.into(),
        text(object, &[about, "fieldPath"]).into(),
        event_source(object).into(),
        either(object, &[&["message"], &["note"]]).trim().into(),
        first.into(),
        count.into(),
        name(object),
    ]
}

/// The first of several texts that is there.
fn either<'a>(object: &'a Value, paths: &[&[&str]]) -> &'a str {
    paths.iter().map(|path| text(object, path)).find(|found| !found.is_empty()).unwrap_or_default()
}

struct Seen {
    first: String,
    last: String,
    count: i64,
}

fn event_seen(object: &Value, now: Timestamp) -> Seen {
    const FIRST: [&[&str]; 3] = [&["firstTimestamp"], &["deprecatedFirstTimestamp"], &["eventTime"]];
    const LAST: [&[&str]; 2] = [&["lastTimestamp"], &["deprecatedLastTimestamp"]];
    let first = age::since_text(either(object, &FIRST), now);
    let count = |value: &Value| value.as_i64().filter(|count| *count != 0);
    if object["series"].is_object() {
        let last = age::since_text(text(object, &["series", "lastObservedTime"]), now);
        return Seen { first, last, count: count(&object["series"]["count"]).unwrap_or(0) };
    }
    let last = match either(object, &LAST) {
        "" => first.clone(),
        last => age::since_text(last, now),
    };
    let counted = count(&object["count"]).or_else(|| count(&object["deprecatedCount"]));
    Seen { first, last, count: counted.unwrap_or(1) }
}

fn event_source(object: &Value) -> String {
    let component = either(
        object,
        &[
            &["source", "component"],
            &["deprecatedSource", "component"],
            &["reportingComponent"],
            &["reportingController"],
        ],
    );
    let host = either(object, &[&["source", "host"], &["deprecatedSource", "host"], &["reportingInstance"]]);
    if host.is_empty() { component.to_owned() } else { format!("{component}, {host}") }
}
