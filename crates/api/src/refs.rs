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
    /// Namespace of the object. Defaults to the namespace of the object that holds this reference.
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
    /// Namespace of the Secret or ConfigMap. Defaults to the namespace of the object that holds this reference.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "fragments::namespace")]
    pub namespace: Option<String>,
    /// Key whose value is taken.
    #[schemars(schema_with = "fragments::data_key")]
    pub key: String,
}

/// Address of the Kubernetes API of a cluster.
#[derive(Clone, Debug, Default, Deserialize, Eq, KubeSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("self.host == '' || self.port >= 1")
    .message("port is a number from 1 to 65535").field_path(".port"))]
pub struct Endpoint {
    /// Host name or IP address. A URL scheme, as older versions wrote it, is stripped; empty until it is known.
    #[schemars(length(max = 512))]
    #[x_kube(validation = Rule::new("self.matches('^(https?://)?[^/]*/?$')")
        .message("host is a name or address: write example.com, without a path"))]
    #[x_kube(validation = Rule::new("!self.matches('^[^:]*:[0-9]*$')")
        .message("host is a bare name or address: the port goes into port"))]
    pub host: String,
    /// TCP port, 1 to 65535.
    #[schemars(range(min = 0, max = 65535))]
    pub port: i32,
}

impl Endpoint {
    /// The endpoint as every version should have written it: a bare host; none where the host is empty.
    pub fn normalised(self) -> Option<Self> {
        let Self { host, port } = self;
        let rest = host.split_once("://").map_or(host.as_str(), |(_, rest)| rest);
        let rest = rest.split('/').next().unwrap_or(rest);
        let is_port = |port: &str| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
        // An IPv6 address has more than one colon, or brackets around it.
        let (bare, behind) = match rest.rsplit_once(':') {
            Some((bare, behind)) if is_port(behind) && (!bare.contains(':') || bare.ends_with(']')) => {
                (bare, behind.parse().ok())
            }
            _ => (rest, None),
        };
        let bare = bare.strip_prefix('[').and_then(|bare| bare.strip_suffix(']')).unwrap_or(bare);
        let port = if port > 0 { port } else { behind.unwrap_or(443) };
        (!bare.is_empty()).then(|| Self { host: bare.to_owned(), port })
    }

    /// Reads an endpoint of any version.
    pub(crate) fn read<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<Self>, D::Error> {
        Ok(Option::<Self>::deserialize(from)?.and_then(Self::normalised))
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_of_older_versions() {
        let rows = [
            ("api.example.com", 6443, Some(("api.example.com", 6443))),
            ("https://ABC.eks.amazonaws.com", 443, Some(("ABC.eks.amazonaws.com", 443))),
            ("https://api.example.com:6443/", 0, Some(("api.example.com", 6443))),
            ("http://api.example.com/", 8080, Some(("api.example.com", 8080))),
            ("api.example.com", 0, Some(("api.example.com", 443))),
            ("https://[2001:db8::1]:6443", 0, Some(("2001:db8::1", 6443))),
            ("2001:db8::1", 443, Some(("2001:db8::1", 443))),
            ("", 0, None),
            ("https://", 443, None),
        ];
        for (host, port, expected) in rows {
            let read = Endpoint { host: host.into(), port }.normalised();
            let read = read.as_ref().map(|endpoint| (endpoint.host.as_str(), endpoint.port));
            assert_eq!(read, expected, "{host} {port}");
        }
    }
}
