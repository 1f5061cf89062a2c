//! References from one object to another: where files hold objects of a kind, a name that none of them has is probably a slip.

use capt_schema::{FieldPath, Segment};
use serde_json::Value;

use super::given::{Given, ManifestReference, Object};
use super::report::Finding;
use super::suggest::nearest;

/// Fields that hold what modules are told: nothing of it is a reference.
const OPAQUE: [&str; 5] = ["metadata", "module", "status", "variables", "varmap"];

/// Objects of a kind that a name is compared with: each of many references is, and files can hold many objects.
const COMPARED: usize = 200;

/// Checks the references of every object. All are warnings: what is not here may be on the API already.
pub fn check(given: &Given) -> Vec<Finding> {
    let mut findings = Vec::new();
    for object in &given.objects {
        // Secrets and ConfigMaps refer to nothing; references of a ClusterClass name templates of other kinds.
        if !["ClusterClass", "ConfigMap", "Secret"].contains(&object.name.kind.as_str()) {
            let mut seen = |path: &FieldPath, kind: &str, value: &Value| {
                findings.extend(
                    ManifestReference::read(value).and_then(|to| missing(given, object, path, kind, &to)),
                );
            };
            walk(&object.value, &FieldPath::root(), &mut seen);
        }
    }
    findings
}

fn walk(value: &Value, path: &FieldPath, seen: &mut impl FnMut(&FieldPath, &str, &Value)) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields.iter().filter(|(name, _)| !OPAQUE.contains(&name.as_str())) {
                let path = path.child(Segment::Field(name.clone()));
                match kind_of(name, field) {
                    Some(kind) => seen(&path, kind, field),
                    None => walk(field, &path, seen),
                }
            }
        }
        Value::Array(items) => {
            // The names of a list of references stand in its field.
            let waits =
                matches!(path.segments().last(), Some(Segment::Field(name)) if name == "waitForWorkspaces");
            for (index, item) in items.iter().enumerate() {
                let path = path.index(index);
                if waits { seen(&path, "WorkspaceTemplateApply", item) } else { walk(item, &path, seen) }
            }
        }
        _ => {}
    }
}

/// The kind that a field refers to.
fn kind_of<'a>(field: &str, value: &'a Value) -> Option<&'a str> {
    match field {
        "templateRef" | "workspaceTemplateRef" | "vpcTemplateRef" => Some("WorkspaceTemplate"),
        "providerConfigRef" => Some("WorkspaceProviderConfig"),
        "workspaceRef" => Some("WorkspaceTemplateApply"),
        "nodeGroupRef" => Some("NodeGroup"),
        "infrastructureRef" | "controlPlaneRef" => {
            value["kind"].as_str().filter(|kind| ["CAPTCluster", "CAPTControlPlane"].contains(kind))
        }
        _ => None,
    }
}

fn missing(
    given: &Given,
    from: &Object,
    path: &FieldPath,
    kind: &str,
    to: &ManifestReference<'_>,
) -> Option<Finding> {
    // An instance goes by the name of its workspace too.
    let other = format!("{}-apply", to.name);
    let also = ManifestReference { name: &other, ..*to };
    let by_workspace = kind == "WorkspaceTemplateApply" && given.find(kind, from, &also).is_some();
    if by_workspace || given.find(kind, from, to).is_some() {
        return None;
    }
    let elsewhere = given.named(kind, to.name).next();
    let namespace = to.namespace.or(from.name.namespace.as_deref());
    let others = given.of_kind(kind).take(COMPARED).filter(|object| object.may_be_in(namespace));
    let others: Vec<&str> = others.map(|object| object.name.name.as_str()).collect();
    let help = match elsewhere.and_then(|object| object.name.namespace.as_deref()) {
        Some(namespace) => Some(format!("there is one in namespace {namespace}")),
        None => nearest(to.name, others.iter().copied()).map(|near| format!("did you mean {near}?")),
    };
    // Files that hold none of that kind for that namespace were never meant to; and a name that no NodeGroup has is one of a group
    // that exists elsewhere.
    if (others.is_empty() && elsewhere.is_none()) || (kind == "NodeGroup" && help.is_none()) {
        return None;
    }
    let namespace = to.namespace.map(|namespace| format!("{namespace}/")).unwrap_or_default();
    let message = format!("{kind} {namespace}{} is not among these files", to.name);
    Some(from.finding(&path.field("name"), message).warning().helped(help))
}
