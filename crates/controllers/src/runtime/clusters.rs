//! Clusters: whether they are paused, on their way out, and have their infrastructure.

use capt_api::names::annotations;
use kube::ResourceExt;
use kube::api::DynamicObject;

use super::followed::{Facts, Followed};
use super::name::Name;

/// What is known of a Cluster.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Cluster {
    /// All work on it and on what belongs to it should rest.
    pub paused: bool,
    /// It is on its way out.
    pub deleting: bool,
    /// It has infrastructure to wait for, which is not provisioned.
    pub awaits_infrastructure: bool,
}

impl Facts for Cluster {
    const KIND: &'static str = "Cluster";

    fn read(object: &DynamicObject) -> Self {
        let (spec, status) = (&object.data["spec"], &object.data["status"]);
        let provisioned = status["initialization"]["infrastructureProvisioned"].as_bool();
        // As the version before had it.
        let provisioned = provisioned.or_else(|| status["infrastructureReady"].as_bool()).unwrap_or(false);
        // Without either there is nothing to wait for.
        let promised = spec["infrastructureRef"].is_object() || spec["topology"].is_object();
        Self {
            paused: spec["paused"].as_bool().unwrap_or(false)
                || object.annotations().contains_key(annotations::PAUSED),
            deleting: object.metadata.deletion_timestamp.is_some(),
            awaits_infrastructure: promised && !provisioned,
        }
    }
}

/// What is known of Clusters.
pub type Clusters = Followed<Cluster>;

impl Clusters {
    /// Whether a Cluster exists and is paused.
    pub fn is_paused(&self, name: &Name) -> bool {
        self.get(name).is_some_and(|cluster| cluster.paused)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(spec: &Value, status: &Value) -> Cluster {
        let body = json!({"metadata": {"name": "c"}, "spec": spec, "status": status});
        Cluster::read(&serde_json::from_value(body).unwrap())
    }

    #[test]
    fn infrastructure_is_awaited_where_it_is_promised() {
        let promised = json!({"infrastructureRef": {"name": "c"}});
        let rows = [
            (json!({}), json!({}), false),
            (promised.clone(), json!({}), true),
            (json!({"topology": {"classRef": {"name": "eks"}}}), json!({}), true),
            (promised.clone(), json!({"initialization": {"infrastructureProvisioned": false}}), true),
            (promised.clone(), json!({"initialization": {"infrastructureProvisioned": true}}), false),
            (promised.clone(), json!({"infrastructureReady": false}), true),
            (promised, json!({"infrastructureReady": true}), false),
        ];
        for (spec, status, awaited) in rows {
            assert_eq!(read(&spec, &status).awaits_infrastructure, awaited, "{spec} {status}");
        }
    }

    #[test]
    fn a_cluster_is_paused_by_its_field() {
        assert!(read(&json!({"paused": true}), &Value::Null).paused);
        assert!(!read(&json!({}), &Value::Null).paused);
    }
}
