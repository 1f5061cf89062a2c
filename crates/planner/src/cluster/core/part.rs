//! A part of a Cluster (its infrastructure, its control plane) as its own object tells it.

use std::collections::BTreeMap;

use capt_api::cluster::FailureDomain;
use capt_api::cluster::core::{Cluster, ClusterPartRef};
use capt_api::names::{CORE_GROUP, labels};
use capt_api::refs::Endpoint;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::ResourceExt;
use kube::core::DynamicObject;
use serde_json::{Value, json};

use super::super::endpoint;
use crate::conditions::Truth;

/// A part of a Cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum ClusterPart {
    /// The Cluster names none.
    #[default]
    None,
    /// It cannot be used, for this reason.
    Wrong(String),
    /// It does not exist.
    Absent(ClusterPartRef),
    /// It is there.
    There(Box<PresentPart>),
}

impl ClusterPart {
    /// The object, where it is there.
    pub fn there(&self) -> Option<&PresentPart> {
        match self {
            Self::There(there) => Some(there),
            Self::None | Self::Wrong(_) | Self::Absent(_) => None,
        }
    }
}

/// Content of a condition.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ReportedCondition {
    /// Status of the condition.
    pub truth: Truth,
    /// Why, as one word.
    pub reason: String,
    /// The same in a sentence.
    pub message: String,
}

/// Whose a part is.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Belongs {
    /// The Cluster owns it, and its label says so.
    Here,
    /// Nobody does, or a Cluster of the same name that is no more: this metadata makes it ours.
    Free(Value),
    /// Another Cluster owns it.
    Elsewhere(String),
}

/// A part that is there.
#[derive(Clone, Debug, PartialEq)]
pub struct PresentPart {
    /// Reference of the Cluster to it.
    pub reference: ClusterPartRef,
    /// Its uid.
    pub uid: String,
    /// The Cluster that it belongs to.
    pub belongs: Belongs,
    /// It is on its way out.
    pub deleting: bool,
    /// It is complete, or takes requests: what the contract calls provisioned and initialized.
    pub begun: bool,
    /// It is ready in the sense of v1beta1.
    pub ready: bool,
    /// Its conditions by type.
    pub conditions: BTreeMap<String, ReportedCondition>,
    /// Endpoint of the API.
    pub endpoint: Option<Endpoint>,
    /// Zones.
    pub failure_domains: Vec<FailureDomain>,
    /// Failure that only a person can solve: reason and message.
    pub failure: Option<(String, String)>,
}

impl PresentPart {
    /// Kind and name, for messages.
    pub fn title(&self) -> String {
        title(&self.reference)
    }

    /// Reads an object.
    pub fn of(object: &DynamicObject, reference: &ClusterPartRef, cluster: &Cluster) -> Self {
        let (spec, status) = (&object.data["spec"], &object.data["status"]);
        let first = &status["initialization"];
        let ready = status["ready"] == true;
        // v1beta1's contract has no `initialization`; its words are `ready` and `initialized`.
        let begun = if first.is_object() {
            first["provisioned"] == true || first["controlPlaneInitialized"] == true
        } else {
            ready || status["initialized"] == true
        };
        let text = |key: &str| status[key].as_str().filter(|text| !text.is_empty()).map(str::to_owned);
        let failure = match (text("failureReason"), text("failureMessage")) {
            (None, None) => None,
            (reason, message) => {
                let reason = reason.unwrap_or_else(|| "Failed".into());
                let message = message.unwrap_or_else(|| reason.clone());
                Some((reason, format!("{}: {message}", title(reference))))
            }
        };
        Self {
            reference: reference.clone(),
            uid: object.uid().unwrap_or_default(),
            belongs: belongs(object, cluster),
            deleting: object.metadata.deletion_timestamp.is_some(),
            begun,
            ready: ready || begun && status["ready"].is_null(),
            conditions: conditions(&status["conditions"]),
            endpoint: endpoint::of_spec(&spec["controlPlaneEndpoint"]),
            failure_domains: failure_domains(&status["failureDomains"]),
            failure,
        }
    }
}

/// Kind and name of a referenced object.
pub fn title(reference: &ClusterPartRef) -> String {
    format!("{} {}", reference.kind, reference.name)
}

fn conditions(list: &Value) -> BTreeMap<String, ReportedCondition> {
    let read = |condition: &Value| {
        let text = |key: &str| condition[key].as_str().unwrap_or_default().to_owned();
        let truth = match condition["status"].as_str()? {
            "True" => Truth::True,
            "False" => Truth::False,
            _ => Truth::Unknown,
        };
        Some((text("type"), ReportedCondition { truth, reason: text("reason"), message: text("message") }))
    };
    list.as_array().into_iter().flatten().filter_map(read).collect()
}

/// A list in v1beta2's contract, a map in v1beta1's.
fn failure_domains(value: &Value) -> Vec<FailureDomain> {
    if let Some(map) = value.as_object() {
        let named = |(name, domain): (&String, &Value)| {
            let mut domain = domain.clone();
            domain.as_object_mut()?.insert("name".into(), json!(name));
            serde_json::from_value(domain).ok()
        };
        return map.iter().filter_map(named).collect();
    }
    let list = value.as_array().into_iter().flatten();
    list.filter_map(|domain| serde_json::from_value(domain.clone()).ok()).collect()
}

/// Returns true if an owner is a Cluster.
fn is_cluster(owner: &OwnerReference) -> bool {
    owner.kind == "Cluster" && owner.api_version.split('/').next() == Some(CORE_GROUP)
}

fn belongs(object: &DynamicObject, cluster: &Cluster) -> Belongs {
    let (name, uid) = (cluster.name_any(), cluster.uid().unwrap_or_default());
    let owners = object.owner_references();
    if let Some(other) = owners.iter().find(|owner| is_cluster(owner) && owner.name != name) {
        return Belongs::Elsewhere(other.name.clone());
    }
    let owned = owners.iter().any(|owner| is_cluster(owner) && owner.uid == uid);
    if owned && object.labels().get(labels::CLUSTER_NAME) == Some(&name) {
        return Belongs::Here;
    }
    // Not as its controller: Cluster API leaves that place to other tools, where there is no topology.
    let own = json!({
        "apiVersion": format!("{CORE_GROUP}/v1beta2"), "kind": "Cluster", "name": name, "uid": uid,
        "blockOwnerDeletion": true,
    });
    let mut all: Vec<Value> = owners
        .iter()
        .filter(|owner| !is_cluster(owner) || owner.uid == uid)
        .map(|owner| serde_json::to_value(owner).unwrap_or_default())
        .collect();
    if !owned {
        all.push(own);
    }
    Belongs::Free(json!({
        "uid": object.uid(), "resourceVersion": object.resource_version(),
        "ownerReferences": all, "labels": {labels::CLUSTER_NAME: name},
    }))
}

#[cfg(test)]
mod tests;
