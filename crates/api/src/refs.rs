//! References from one object to another.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::fragments;

/// Names an object; without a namespace, one beside the object that holds the reference.
#[derive(Clone, Debug, Default, Deserialize, Eq, Hash, JsonSchema, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectRef {
    /// Name of the object.
    #[schemars(schema_with = "fragments::object_name")]
    pub name: String,
    /// Namespace of the object. Left out: the namespace of the object that holds this reference.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "fragments::namespace")]
    pub namespace: Option<String>,
}

/// Names one key of a Secret or ConfigMap.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct KeyRef {
    /// Name of the Secret or ConfigMap.
    #[schemars(schema_with = "fragments::object_name")]
    pub name: String,
    /// Namespace of the Secret or ConfigMap. Left out: the namespace of the object that holds this reference.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "fragments::namespace")]
    pub namespace: Option<String>,
    /// Key whose value is taken.
    #[schemars(schema_with = "fragments::data_key")]
    pub key: String,
}

/// Where the Kubernetes API of a cluster is reached.
#[derive(Clone, Debug, Default, Deserialize, Eq, KubeSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Endpoint {
    /// Host name or address, without a scheme, a port or a path.
    #[schemars(length(min = 1, max = 512))]
    #[x_kube(validation = Rule::new("!self.contains('/')")
        .message("host is a bare name or address: write example.com, not https://example.com"))]
    #[x_kube(validation = Rule::new("!self.matches('^[^:]*:[0-9]*$')")
        .message("host is a bare name or address: the port goes into port"))]
    pub host: String,
    /// TCP port, 1 to 65535.
    #[schemars(range(min = 1, max = 65535))]
    pub port: i32,
}

/// Labels and annotations for the objects made from a template.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TemplateMeta {
    /// Labels of each object made from the template.
    #[serde(default, skip_serializing_if = "std::collections::BTreeMap::is_empty")]
    #[schemars(schema_with = "fragments::labels")]
    pub labels: std::collections::BTreeMap<String, String>,
    /// Annotations of each object made from the template.
    #[serde(default, skip_serializing_if = "std::collections::BTreeMap::is_empty")]
    #[schemars(schema_with = "fragments::annotations")]
    pub annotations: std::collections::BTreeMap<String, String>,
}
