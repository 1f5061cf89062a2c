//! Machines of Cluster API core, which own CaptMachines: what those need to know of them.

use capt_api::names::labels;
use kube::ResourceExt;
use kube::api::DynamicObject;

use super::optional_watch::{Facts, OptionalWatch};
use kube::Resource;

/// Facts about a Machine of Cluster API.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Owner {
    /// Its uid: another Machine of the same name is not meant.
    pub uid: String,
    /// The Cluster that it belongs to.
    pub cluster: Option<String>,
    /// Bootstrap data that it starts with.
    pub bootstrap: Bootstrap,
    /// Failure domain that it should be in.
    pub failure_domain: Option<String>,
    /// Version of Kubernetes that it should run.
    pub version: Option<String>,
}

/// Bootstrap data of a Machine.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum Bootstrap {
    /// Nothing: its image or its module takes care of it.
    #[default]
    Nothing,
    /// Data that a bootstrap provider is still writing.
    Awaited,
    /// Data in this Secret.
    Secret(String),
}

impl Facts for Owner {
    const KIND: &'static str = "Machine";

    fn read(object: &DynamicObject) -> Self {
        let spec = &object.data["spec"];
        let text =
            |value: &serde_json::Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
        let bootstrap = match spec["bootstrap"]["dataSecretName"].as_str() {
            Some("") => Bootstrap::Nothing,
            Some(name) => Bootstrap::Secret(name.to_owned()),
            None if text(&spec["bootstrap"]["configRef"]["name"]).is_some() => Bootstrap::Awaited,
            None => Bootstrap::Nothing,
        };
        Self {
            uid: object.uid().unwrap_or_default(),
            cluster: text(&spec["clusterName"])
                .or_else(|| object.labels().get(labels::CLUSTER_NAME).cloned()),
            bootstrap,
            failure_domain: text(&spec["failureDomain"]),
            version: text(&spec["version"]),
        }
    }
}

/// Facts about all Machines.
pub type Owners = OptionalWatch<Owner>;

/// The uid of the object that controls this one.
pub fn controller_uid<K: Resource>(object: &K) -> Option<&str> {
    let owners = object.meta().owner_references.iter().flatten();
    owners.into_iter().find(|owner| owner.controller == Some(true)).map(|owner| owner.uid.as_str())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn bootstrap_data_is_awaited_where_somebody_writes_it() {
        let config = json!({"kind": "KubeadmConfig", "name": "m"});
        let rows: [(Value, Bootstrap); 5] = [
            (json!({}), Bootstrap::Nothing),
            (json!({"configRef": config}), Bootstrap::Awaited),
            (json!({"configRef": config, "dataSecretName": "m-data"}), Bootstrap::Secret("m-data".into())),
            (json!({"dataSecretName": "by-hand"}), Bootstrap::Secret("by-hand".into())),
            (json!({"configRef": config, "dataSecretName": ""}), Bootstrap::Nothing),
        ];
        for (bootstrap, expected) in rows {
            let body = json!({"metadata": {"name": "m"}, "spec": {"bootstrap": bootstrap}});
            assert_eq!(
                Owner::read(&serde_json::from_value(body).unwrap()).bootstrap,
                expected,
                "{bootstrap}"
            );
        }
    }

    #[test]
    fn its_cluster_is_in_its_spec_or_its_label() {
        let body = json!({
            "metadata": {"name": "m", "uid": "u", "labels": {"cluster.x-k8s.io/cluster-name": "label"}},
            "spec": {"clusterName": "spec", "failureDomain": "a", "version": "v1.34.1"},
        });
        let mut object: DynamicObject = serde_json::from_value(body).unwrap();
        let read = Owner::read(&object);
        assert_eq!((read.cluster.as_deref(), read.uid.as_str()), (Some("spec"), "u"));
        assert_eq!((read.failure_domain.as_deref(), read.version.as_deref()), (Some("a"), Some("v1.34.1")));
        object.data["spec"] = json!({});
        assert_eq!(Owner::read(&object).cluster.as_deref(), Some("label"));
    }
}
