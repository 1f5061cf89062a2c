//! The query parameters of requests.

use serde_json::{Value, json};

struct Parameter {
    name: &'static str,
    kind: &'static str,
    about: &'static str,
}

const fn parameter(name: &'static str, kind: &'static str, about: &'static str) -> Parameter {
    Parameter { name, kind, about }
}

const DRY_RUN: Parameter = parameter("dryRun", "string", "All: check everything, store nothing.");
const FIELD_MANAGER: Parameter = parameter(
    "fieldManager",
    "string",
    "Who changes the fields; required for apply. At most 128 printable characters.",
);
const FIELD_VALIDATION: Parameter = parameter(
    "fieldValidation",
    "string",
    "What happens to unknown and duplicate fields: Ignore drops them, Warn also warns, Strict refuses the request.",
);
const FORCE: Parameter = parameter("force", "boolean", "Whether an apply takes fields from other managers.");

const LIST: &[Parameter] = &[
    parameter("allowWatchBookmarks", "boolean", "Whether a watch may send bookmarks."),
    parameter("continue", "string", "Token of an earlier part of the list, for the next one."),
    parameter("fieldSelector", "string", "Only objects with these fields."),
    parameter("labelSelector", "string", "Only objects with these labels."),
    parameter("limit", "integer", "The most objects in one answer."),
    parameter("resourceVersion", "string", "Revision to read at, or to watch from."),
    parameter("resourceVersionMatch", "string", "How resourceVersion is meant: NotOlderThan or Exact."),
    parameter("sendInitialEvents", "boolean", "Whether a watch begins with all objects there are."),
    parameter("timeoutSeconds", "integer", "How long the request may take, a watch included."),
    parameter("watch", "boolean", "Whether to watch for changes and not list."),
];
const DELETE: &[Parameter] = &[
    DRY_RUN,
    parameter("gracePeriodSeconds", "integer", "Seconds the object may take to end; 0 is at once."),
    parameter("orphanDependents", "boolean", "Older form of propagationPolicy: true is Orphan."),
    parameter(
        "propagationPolicy",
        "string",
        "What becomes of owned objects: Orphan, Background or Foreground.",
    ),
];
const WRITE: &[Parameter] = &[DRY_RUN, FIELD_MANAGER, FIELD_VALIDATION];
const PATCH: &[Parameter] = &[DRY_RUN, FIELD_MANAGER, FIELD_VALIDATION, FORCE];
const GET: &[Parameter] = &[parameter("resourceVersion", "string", "Revision to read at.")];

/// The query parameters of a request, in the order of their names.
pub(super) fn query(action: &str) -> Vec<Value> {
    let mut parameters: Vec<&Parameter> = match action {
        "get" => GET.iter().collect(),
        "list" => LIST.iter().collect(),
        "post" | "put" => WRITE.iter().collect(),
        "patch" => PATCH.iter().collect(),
        "delete" => DELETE.iter().collect(),
        "deletecollection" => LIST.iter().chain(DELETE).collect(),
        _ => Vec::new(),
    };
    parameters.sort_unstable_by_key(|parameter| parameter.name);
    parameters.into_iter().map(|parameter| described(parameter, "query")).collect()
}

/// The parameters that every request for a path has.
pub(super) fn common(has_name: bool, has_namespace: bool, kind: &str) -> Vec<Value> {
    let about_name = format!("Name of the {kind}.");
    let mut parameters = Vec::new();
    let mut in_path = |name: &str, about: &str| {
        parameters.push(json!({
            "name": name, "in": "path", "description": about, "required": true,
            "schema": {"type": "string", "uniqueItems": true},
        }));
    };
    if has_name {
        in_path("name", &about_name);
    }
    if has_namespace {
        in_path("namespace", "Namespace of the object.");
    }
    let pretty = parameter("pretty", "string", "Whether the answer is indented.");
    parameters.push(described(&pretty, "query"));
    parameters
}

fn described(parameter: &Parameter, place: &str) -> Value {
    json!({
        "name": parameter.name,
        "in": place,
        "description": parameter.about,
        "schema": {"type": parameter.kind, "uniqueItems": true},
    })
}
