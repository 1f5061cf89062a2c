//! The tables that `kubectl get` shows of built-in kinds.
//!
//! Unlike those of custom resources their cells are not all found at a path: some count, some join. [`columns`]
//! has an empty path for these; [`cells`] makes all cells of a row.

use serde_json::{Value, json};

use super::rules::{get, list, text};
use crate::resource::Column;

const RBAC: &str = "rbac.authorization.k8s.io";
const CREATED: &str = ".metadata.creationTimestamp";
const ROLE_LABEL: &str = "node-role.kubernetes.io/";

const fn column(name: &'static str, json_path: &'static str, priority: i32, about: &'static str) -> Row {
    Row { name, json_path, priority, about, kind: "string" }
}

struct Row {
    name: &'static str,
    json_path: &'static str,
    priority: i32,
    about: &'static str,
    kind: &'static str,
}

const NAME: Row = column("Name", ".metadata.name", 0, "Name of the object.");
const AGE: Row = column("Age", CREATED, 0, "Time since the object was created.");
const CREATED_AT: Row =
    Row { kind: "date", ..column("Created At", CREATED, 0, "When the object was created.") };

const NAMESPACE: &[Row] = &[NAME, column("Status", ".status.phase", 0, "Whether it is being deleted."), AGE];
const SECRET: &[Row] =
    &[NAME, column("Type", ".type", 0, "What the data is."), column("Data", "", 0, "Number of keys."), AGE];
const CONFIG_MAP: &[Row] = &[NAME, column("Data", "", 0, "Number of keys."), AGE];
const ACCOUNT: &[Row] = &[NAME, AGE];
const LEASE: &[Row] = &[NAME, column("Holder", ".spec.holderIdentity", 0, "Who holds it."), AGE];
const BINDING: &[Row] = &[
    NAME,
    column("Role", "", 0, "The role."),
    AGE,
    column("Users", "", 1, "Users that get the role."),
    column("Groups", "", 1, "Groups that get the role."),
    column("ServiceAccounts", "", 1, "Service accounts that get the role."),
];
const EVENT: &[Row] = &[
    column("Last Seen", "", 0, "Time since it last happened."),
    column("Type", ".type", 0, "Normal or Warning."),
    column("Reason", ".reason", 0, "Why."),
    column("Object", "", 0, "What it happened to."),
    column("Subobject", ".involvedObject.fieldPath", 1, "To which part."),
    column("Source", "", 1, "Who reports it."),
    column("Message", "", 0, "What happened."),
    column("First Seen", "", 1, "Time since it first happened."),
    column("Count", "", 1, "How often it happened."),
    Row { priority: 1, ..NAME },
];
const NODE: &[Row] = &[
    NAME,
    column("Status", "", 0, "Whether it is ready."),
    column("Roles", "", 0, "Roles, from its labels."),
    AGE,
    column("Version", ".status.nodeInfo.kubeletVersion", 0, "Version of its kubelet."),
    column("Internal-IP", "", 1, "Address inside of the cluster."),
    column("External-IP", "", 1, "Address outside of the cluster."),
    column("OS-Image", "", 1, "Operating system."),
    column("Kernel-Version", "", 1, "Version of its kernel."),
    column("Container-Runtime", "", 1, "Container runtime."),
];
const OTHER: &[Row] = &[NAME, CREATED_AT];

fn rows(group: &str, kind: &str) -> &'static [Row] {
    match (group, kind) {
        ("", "Namespace") => NAMESPACE,
        ("", "Secret") => SECRET,
        ("", "ConfigMap") => CONFIG_MAP,
        ("", "ServiceAccount") => ACCOUNT,
        ("", "Node") => NODE,
        (_, "Event") => EVENT,
        ("coordination.k8s.io", "Lease") => LEASE,
        (RBAC, "RoleBinding" | "ClusterRoleBinding") => BINDING,
        _ => OTHER,
    }
}

/// All columns of a built-in kind, in order; the one of names has the format `name`.
pub fn columns(group: &str, kind: &str) -> Vec<Column> {
    let column = |row: &Row| Column {
        name: row.name.into(),
        kind: row.kind.into(),
        format: if row.name == "Name" { "name".into() } else { String::new() },
        description: row.about.into(),
        priority: row.priority,
        json_path: row.json_path.into(),
    };
    rows(group, kind).iter().map(column).collect()
}

/// The cells of one object, in the order of [`columns`]. Events are expected in the shape of the core group.
///
/// `since` words the time that has passed since a moment in RFC 3339 form, as in `5m3s`.
pub fn cells(group: &str, kind: &str, object: &Value, since: &dyn Fn(&str) -> String) -> Vec<Value> {
    let ago = |time: &str| if time.is_empty() { "<unknown>".to_owned() } else { since(time) };
    let created = text(object, &["metadata", "creationTimestamp"]);
    rows(group, kind)
        .iter()
        .map(|row| match (row.name, row.json_path) {
            ("Created At", _) => created.into(),
            ("Age", _) => ago(created).into(),
            (name, "") if kind == "Event" => event_cell(name, object, &ago),
            (name, "") => computed(kind, name, object),
            (_, json_path) => {
                let fields: Vec<&str> = json_path[1..].split('.').collect();
                text(object, &fields).into()
            }
        })
        .collect()
}

fn computed(kind: &str, column: &str, object: &Value) -> Value {
    let keys = |name: &str| object.get(name).and_then(Value::as_object).map_or(0, serde_json::Map::len);
    match (kind, column) {
        (_, "Data") => json!(keys("data") + keys("binaryData")),
        (_, "Role") => {
            format!("{}/{}", text(object, &["roleRef", "kind"]), text(object, &["roleRef", "name"])).into()
        }
        (_, "Users") => subjects(object, "User").into(),
        (_, "Groups") => subjects(object, "Group").into(),
        (_, "ServiceAccounts") => subjects(object, "ServiceAccount").into(),
        ("Node", _) => node_cell(column, object).into(),
        _ => Value::Null,
    }
}

fn subjects(binding: &Value, kind: &str) -> String {
    let of_kind = list(binding, &["subjects"]).iter().filter(|subject| text(subject, &["kind"]) == kind);
    let names = of_kind.map(|subject| match kind {
        "ServiceAccount" => format!("{}/{}", text(subject, &["namespace"]), text(subject, &["name"])),
        _ => text(subject, &["name"]).to_owned(),
    });
    names.collect::<Vec<_>>().join(", ")
}

fn event_cell(column: &str, event: &Value, ago: &dyn Fn(&str) -> String) -> Value {
    let time = |name: &str| text(event, &[name]);
    let or =
        |first: &'_ str, second: &'_ str| if first.is_empty() { second.to_owned() } else { first.to_owned() };
    let first = or(time("firstTimestamp"), time("eventTime"));
    let series = event.get("series").filter(|series| series.is_object());
    match column {
        "First Seen" => ago(&first).into(),
        "Last Seen" => match series {
            Some(series) => ago(text(series, &["lastObservedTime"])).into(),
            None => ago(&or(time("lastTimestamp"), &first)).into(),
        },
        "Object" => {
            let kind = text(event, &["involvedObject", "kind"]).to_lowercase();
            match text(event, &["involvedObject", "name"]) {
                "" => kind.into(),
                name => format!("{kind}/{name}").into(),
            }
        }
        "Source" => {
            let component = or(text(event, &["source", "component"]), time("reportingComponent"));
            let instance = or(text(event, &["source", "host"]), time("reportingInstance"));
            if instance.is_empty() { component.into() } else { format!("{component}, {instance}").into() }
        }
        "Message" => time("message").trim().into(),
        "Count" => match (series, get(event, &["count"]).as_i64().unwrap_or_default()) {
            (Some(series), _) => json!(get(series, &["count"]).as_i64().unwrap_or_default()),
            // The newer sort of event has no count before it repeats.
            (None, 0) => json!(1),
            (None, count) => json!(count),
        },
        _ => Value::Null,
    }
}

fn node_cell(column: &str, node: &Value) -> String {
    let info = |name: &str| match text(node, &["status", "nodeInfo", name]) {
        "" => "<unknown>".to_owned(),
        value => value.to_owned(),
    };
    let address = |kind: &str| {
        let addresses = list(node, &["status", "addresses"]).iter();
        let found =
            addresses.filter(|address| text(address, &["type"]) == kind).map(|it| text(it, &["address"]));
        found.map(str::to_owned).next().unwrap_or_else(|| "<none>".to_owned())
    };
    match column {
        "Status" => node_status(node),
        "Roles" => node_roles(node),
        "Internal-IP" => address("InternalIP"),
        "External-IP" => address("ExternalIP"),
        "OS-Image" => info("osImage"),
        "Container-Runtime" => info("containerRuntimeVersion"),
        _ => match text(node, &["status", "nodeInfo", "architecture"]) {
            "" => info("kernelVersion"),
            architecture => format!("{} ({architecture})", info("kernelVersion")),
        },
    }
}

fn node_status(node: &Value) -> String {
    let conditions = list(node, &["status", "conditions"]);
    let ready = conditions.iter().rfind(|condition| text(condition, &["type"]) == "Ready");
    let status = match ready.map(|condition| text(condition, &["status"])) {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    };
    let unschedulable = get(node, &["spec", "unschedulable"]) == &Value::Bool(true);
    format!("{status}{}", if unschedulable { ",SchedulingDisabled" } else { "" })
}

fn node_roles(node: &Value) -> String {
    let labels = get(node, &["metadata", "labels"]).as_object();
    let role = |(label, value): (&String, &Value)| match (label.strip_prefix(ROLE_LABEL), value.as_str()) {
        (Some(role), _) if !role.is_empty() => Some(role.to_owned()),
        (None, Some(role)) if label == "kubernetes.io/role" && !role.is_empty() => Some(role.to_owned()),
        _ => None,
    };
    let mut roles: Vec<String> = labels.into_iter().flatten().filter_map(role).collect();
    roles.sort_unstable();
    roles.dedup();
    if roles.is_empty() { "<none>".to_owned() } else { roles.join(",") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_cell_for_each_column() {
        let since = |_: &str| "5s".to_owned();
        let event = json!({
            "metadata": {"name": "e"}, "involvedObject": {"kind": "Pod", "name": "p"}, "type": "Normal",
            "reason": "R", "message": " m\n", "eventTime": "t", "reportingComponent": "c", "reportingInstance": "i",
        });
        let binding = json!({
            "metadata": {"name": "b", "creationTimestamp": "t"}, "roleRef": {"kind": "Role", "name": "r"},
            "subjects": [{"kind": "User", "name": "u"}, {"kind": "User", "name": "v"}, {"kind": "ServiceAccount", "name": "s", "namespace": "n"}],
        });
        let node = json!({
            "metadata": {"name": "n", "labels": {"node-role.kubernetes.io/control-plane": "", "kubernetes.io/role": "x"}},
            "spec": {"unschedulable": true},
            "status": {"conditions": [{"type": "Ready", "status": "False"}], "nodeInfo": {"kernelVersion": "6", "architecture": "arm64"}},
        });
        let rows = [
            (
                "",
                "Secret",
                json!({"metadata": {"name": "s"}, "type": "Opaque", "data": {"a": ""}}),
                json!(["s", "Opaque", 1, "<unknown>"]),
            ),
            ("", "Event", event, json!(["5s", "Normal", "R", "pod/p", "", "c, i", "m", "5s", 1, "e"])),
            (RBAC, "RoleBinding", binding, json!(["b", "Role/r", "5s", "u, v", "", "n/s"])),
            (RBAC, "Role", json!({"metadata": {"name": "r", "creationTimestamp": "t"}}), json!(["r", "t"])),
            (
                "",
                "Node",
                node,
                json!([
                    "n",
                    "NotReady,SchedulingDisabled",
                    "control-plane,x",
                    "<unknown>",
                    "",
                    "<none>",
                    "<none>",
                    "<unknown>",
                    "6 (arm64)",
                    "<unknown>"
                ]),
            ),
        ];
        for (group, kind, object, expected) in rows {
            assert_eq!(Value::Array(cells(group, kind, &object, &since)), expected, "{kind}");
            assert_eq!(columns(group, kind).len(), expected.as_array().unwrap().len(), "{kind}");
        }
    }
}
