//! Facts of Clusters that other kinds depend on.

use capt_api::names::annotations;
use capt_api::refs::Endpoint;
use capt_planner::cluster::endpoint;
use kube::ResourceExt;
use kube::api::DynamicObject;
use serde_json::Value;

use super::name::Name;
use super::optional_watch::{Facts, OptionalWatch};

/// An object that a Cluster refers to, in its own namespace.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Reference {
    /// Its API group.
    pub group: String,
    /// Its kind.
    pub kind: String,
    /// Its name.
    pub name: String,
}

impl Reference {
    /// Reads a reference of either version: v1beta2 has `apiGroup`, v1beta1 `apiVersion`.
    pub fn of(value: &Value) -> Option<Self> {
        let text = |key: &str| value[key].as_str().filter(|text| !text.is_empty());
        let group =
            text("apiGroup").or_else(|| text("apiVersion")?.split_once('/').map(|(group, _)| group))?;
        Some(Self { group: group.to_owned(), kind: text("kind")?.to_owned(), name: text("name")?.to_owned() })
    }
}

/// Facts of one Cluster.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct ClusterFacts {
    /// Its uid.
    pub uid: String,
    /// It is paused, by its field or its annotation.
    pub paused: bool,
    /// It is on its way out.
    pub deleting: bool,
    /// Its infrastructure.
    pub infrastructure: Option<Reference>,
    /// Its control plane.
    pub control_plane: Option<Reference>,
    /// Address of its API.
    pub endpoint: Option<Endpoint>,
    /// The region that its annotation names.
    pub region: Option<String>,
    /// Its infrastructure was complete at least once.
    pub infrastructure_provisioned: bool,
    /// It has infrastructure to wait for, which is not provisioned.
    pub awaits_infrastructure: bool,
}

impl Facts for ClusterFacts {
    const KIND: &'static str = "Cluster";

    fn read(object: &DynamicObject) -> Self {
        let (spec, status) = (&object.data["spec"], &object.data["status"]);
        let asked = spec["paused"].as_bool().unwrap_or(false);
        // The second is how v1beta1 has it.
        let provisioned = status["initialization"]["infrastructureProvisioned"] == true
            || status["infrastructureReady"] == true;
        // Without either there is nothing to wait for.
        let promised = spec["infrastructureRef"].is_object() || spec["topology"].is_object();
        Self {
            uid: object.uid().unwrap_or_default(),
            paused: asked || object.annotations().contains_key(annotations::PAUSED),
            deleting: object.metadata.deletion_timestamp.is_some(),
            infrastructure: Reference::of(&spec["infrastructureRef"]),
            control_plane: Reference::of(&spec["controlPlaneRef"]),
            endpoint: endpoint::of_spec(&spec["controlPlaneEndpoint"]),
            region: object.annotations().get(annotations::REGION).cloned().filter(|text| !text.is_empty()),
            infrastructure_provisioned: provisioned,
            awaits_infrastructure: promised && !provisioned,
        }
    }
}

/// Facts of all Clusters.
pub type Clusters = OptionalWatch<ClusterFacts>;

impl Clusters {
    /// Returns true if a Cluster exists and is paused.
    pub fn is_paused(&self, name: &Name) -> bool {
        self.get(name).is_some_and(|cluster| cluster.paused)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(spec: &Value, status: &Value) -> ClusterFacts {
        let body = json!({"metadata": {"name": "c"}, "spec": spec, "status": status});
        ClusterFacts::read(&serde_json::from_value(body).unwrap())
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

    #[test]
    fn both_versions_are_read() {
        let old = json!({"apiVersion": "g.io/v1beta1", "kind": "K", "name": "x", "namespace": "n"});
        let new = json!({"apiGroup": "g.io", "kind": "K", "name": "x"});
        let same = Reference { group: "g.io".into(), kind: "K".into(), name: "x".into() };
        assert_eq!(Reference::of(&old).as_ref(), Some(&same));
        assert_eq!(Reference::of(&new).as_ref(), Some(&same));
        for none in [
            json!(null),
            json!({"kind": "K", "name": "x"}),
            json!({"apiGroup": "g", "kind": "K", "name": ""}),
        ] {
            assert_eq!(Reference::of(&none), None);
        }
        assert_eq!(endpoint::of_spec(&json!({"host": "", "port": 0})), None);
        assert_eq!(endpoint::of_spec(&json!({"host": "h", "port": 443})).unwrap().host, "h");
    }
}
