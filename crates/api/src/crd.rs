//! The thirteen CRDs as a cluster installs them.
//!
//! The derives give nearly what is wanted; [`crds`] adds what is the same for all of them: Cluster API's
//! contract labels, one description style, and no `nullable` (Kubernetes then drops an explicit null, or
//! puts the default in its place, where a nullable field would keep it).

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use kube::CustomResourceExt;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::names::{VERSION, crd_labels};
use crate::{cluster, grant, machine, workspace};

/// One kind: its CRD, and the type behind it.
pub struct Kind {
    /// The CRD as a cluster installs it.
    pub crd: CustomResourceDefinition,
    /// Parses an object as the kind's Rust type. Stricter than a structural schema can be, for example that a
    /// `module` is text or an address.
    pub parse: fn(Value) -> Result<(), serde_path_to_error::Error<serde_json::Error>>,
}

/// Every kind, in the order in which they depend on each other.
pub fn kinds() -> Vec<Kind> {
    vec![
        kind::<grant::ReferenceGrant>(),
        kind::<workspace::WorkspaceProviderConfig>(),
        Kind {
            parse: |object| {
                serde_path_to_error::deserialize::<_, workspace::template::StrictTemplate>(&object)?;
                serde_path_to_error::deserialize::<_, workspace::WorkspaceTemplate>(object).map(drop)
            },
            ..kind::<workspace::WorkspaceTemplate>()
        },
        kind::<workspace::WorkspaceTemplateApply>(),
        kind::<cluster::CAPTCluster>(),
        kind::<cluster::CAPTClusterTemplate>(),
        kind::<cluster::CAPTControlPlane>(),
        kind::<cluster::CAPTControlPlaneTemplate>(),
        kind::<machine::NodeGroup>(),
        kind::<machine::CaptMachine>(),
        kind::<machine::CaptMachineTemplate>(),
        kind::<machine::CaptMachineSet>(),
        kind::<machine::CaptMachineDeployment>(),
    ]
}

/// The CRD of every kind, in the same order.
pub fn crds() -> Vec<CustomResourceDefinition> {
    kinds().into_iter().map(|kind| kind.crd).collect()
}

/// Cluster API's `Cluster`, for an API where Cluster API core is not installed. Its label tells it from upstream's.
pub fn cluster_kind() -> Kind {
    let mut kind = kind::<cluster::core::Cluster>();
    kind.crd.metadata.labels =
        Some([(crd_labels::INSTALLED_BY.to_owned(), crd_labels::CAPT.to_owned())].into());
    let mut old = kind.crd.spec.versions.first().cloned().expect("the derive makes one version");
    old.name = "v1beta1".into();
    old.storage = false;
    kind.crd.spec.versions.push(old);
    kind
}

/// Returns true if the installed CRD is the wanted one, apart from defaults that the API fills in and labels that
/// others add.
pub fn is_installed(found: &CustomResourceDefinition, wanted: &CustomResourceDefinition) -> bool {
    let spec = |crd: &CustomResourceDefinition| {
        let mut spec = crd.spec.clone();
        spec.conversion = spec.conversion.filter(|conversion| conversion.strategy != "None");
        spec.names.list_kind = spec.names.list_kind.filter(|_| wanted.spec.names.list_kind.is_some());
        let mut spec = serde_json::to_value(spec).unwrap_or_default();
        plain(&mut spec);
        spec
    };
    let labels = |crd: &CustomResourceDefinition| crd.metadata.labels.clone().unwrap_or_default();
    let there = labels(found);
    spec(found) == spec(wanted) && labels(wanted).iter().all(|(name, value)| there.get(name) == Some(value))
}

/// Removes what carries no meaning: nulls, empty lists, and whether a number is written as a fraction.
fn plain(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|_, member| {
                !member.is_null() && member.as_array().is_none_or(|list| !list.is_empty())
            });
            members.values_mut().for_each(plain);
        }
        Value::Array(items) => items.iter_mut().for_each(plain),
        Value::Number(number) => {
            if let Some(float) = number.as_f64() {
                *value = float.into();
            }
        }
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

fn kind<K: CustomResourceExt + DeserializeOwned>() -> Kind {
    Kind { crd: finish(K::crd()), parse: |object| serde_path_to_error::deserialize::<_, K>(object).map(drop) }
}

fn finish(mut crd: CustomResourceDefinition) -> CustomResourceDefinition {
    let labels = crd.metadata.labels.get_or_insert_default();
    labels.insert(crd_labels::CONTRACT.into(), VERSION.into());
    labels.insert(crd_labels::VISUALIZER.into(), String::new());
    // No Cluster owns these, and workspaces need them.
    if matches!(
        crd.spec.names.kind.as_str(),
        "WorkspaceTemplate" | "WorkspaceProviderConfig" | "ReferenceGrant"
    ) {
        labels.insert(crd_labels::MOVE.into(), String::new());
    }
    for version in &mut crd.spec.versions {
        if let Some(schema) = version.schema.as_mut().and_then(|s| s.open_api_v3_schema.as_mut()) {
            tidy(schema);
        }
    }
    crd
}

/// Walks a schema and normalizes every node of it.
fn tidy(schema: &mut JSONSchemaProps) {
    schema.nullable = None;
    if let Some(description) = schema.description.as_mut() {
        *description = unwrap_lines(description);
    }
    for property in schema.properties.iter_mut().flat_map(|properties| properties.values_mut()) {
        tidy(property);
    }
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = schema.additional_properties.as_mut() {
        tidy(values);
    }
    if let Some(JSONSchemaPropsOrArray::Schema(items)) = schema.items.as_mut() {
        tidy(items);
    }
}

/// Joins the lines of each paragraph: source lines are wrapped for the editor, not for `kubectl explain`.
fn unwrap_lines(text: &str) -> String {
    text.split("\n\n").map(|paragraph| paragraph.replace('\n', " ")).collect::<Vec<_>>().join("\n\n")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_crd_is_installed_whatever_an_api_adds() {
        for wanted in crds() {
            let name = wanted.metadata.name.clone().unwrap_or_default();
            let with = |path: &str, value: Value| {
                let mut crd = serde_json::to_value(&wanted).expect("JSON");
                let (above, member) = path.rsplit_once('/').expect("a path");
                crd.pointer_mut(above).expect("a place")[member] = value;
                is_installed(&serde_json::from_value(crd).expect("a CRD"), &wanted)
            };
            let schema = "/spec/versions/0/schema/openAPIV3Schema";
            assert!(with("/spec/conversion", json!({"strategy": "None"})), "{name}");
            assert!(with("/spec/names/listKind", json!("AnyList")), "{name}");
            assert!(with("/metadata/labels/another", json!("x")), "{name}");
            assert!(with("/metadata/uid", json!("x")), "{name}");
            assert!(!with(&format!("{schema}/description"), json!("older")), "{name}");
            assert!(!with(&format!("{schema}/maxProperties"), json!(7)), "{name}");
            let has_status = wanted.spec.versions[0].subresources.is_some();
            let other = if has_status { Value::Null } else { json!({"status": {}}) };
            assert!(!with("/spec/versions/0/subresources", other), "{name}");
            assert!(!with("/spec/names/categories", json!(["more"])), "{name}");
            assert!(!with("/spec/versions/0/deprecated", json!(true)), "{name}");
            assert!(!with("/spec/names/singular", json!("older")), "{name}");
            assert!(!with("/metadata/labels", json!({})), "{name}");
        }
    }
}
