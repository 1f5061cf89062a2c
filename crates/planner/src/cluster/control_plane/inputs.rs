//! Variables of a control plane's module, and their sources.

use capt_api::cluster::{CAPTCluster, CAPTControlPlaneSpec, EndpointAccess};
use capt_api::conditions::types;
use capt_api::names::{INFRASTRUCTURE_GROUP, annotations};
use serde_json::{Value, json};

use super::super::{Cluster, network, region as region_form, version};
use super::ControlPlaneObservation;
use crate::conditions::find;
use crate::inputs::Fields;
use crate::owned_workspace::Variables;
use kube::ResourceExt;

/// The network that a control plane is built in.
#[derive(Clone, Debug, PartialEq)]
pub enum Network {
    /// The Cluster names none.
    None,
    /// It is not ready, and how it stands.
    Awaited(String),
    /// It is ready.
    Ready(NetworkFacts),
}

/// Outputs of a network that its control plane uses.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NetworkFacts {
    /// Its region.
    pub region: Option<String>,
    /// Id of the VPC, and what else its module returned.
    pub outputs: Variables,
    /// Its workspace, where it has one.
    pub workspace: Option<String>,
}

/// The network of a Cluster: the one that it refers to, whatever it is called. `find` looks up a CAPTCluster beside it.
pub fn network_of<'a>(cluster: &Cluster, find_it: impl FnOnce(&str) -> Option<&'a CAPTCluster>) -> Network {
    let Some(reference) = &cluster.infrastructure else { return Network::None };
    if !reference.is(INFRASTRUCTURE_GROUP, "CAPTCluster") {
        return if cluster.provisioned {
            Network::Ready(NetworkFacts::default())
        } else {
            Network::Awaited(format!("{} {} is not provisioned", reference.kind, reference.name))
        };
    }
    let name = &reference.name;
    let Some(found) = find_it(name) else {
        return Network::Awaited(format!("CAPTCluster {name} does not exist"));
    };
    let status = found.status.clone().unwrap_or_default();
    let (true, Some(vpc)) = (status.ready, status.vpc_id) else {
        let how = find(&status.conditions, types::READY).map(|ready| format!(": {}", ready.message));
        return Network::Awaited(format!("CAPTCluster {name} is not ready{}", how.unwrap_or_default()));
    };
    let mut outputs = status.workspace_template_status.map(|summary| summary.outputs).unwrap_or_default();
    outputs.insert("vpc_id".into(), json!(vpc));
    let built =
        found.spec.vpc_template_ref.is_some() && !found.annotations().contains_key(annotations::MANAGED_BY);
    Network::Ready(NetworkFacts {
        region: Some(found.spec.region.clone()),
        outputs,
        workspace: built.then(|| network::workspace_of(&found.name_any())),
    })
}

/// The region: the control plane's own, else its network's, else the Cluster's annotation. An error names where the one
/// was found that makes no sense.
pub fn region(observed: &ControlPlaneObservation<'_>) -> Result<Option<String>, String> {
    let own = observed.object.spec.control_plane_config.region.clone();
    let of_network = match &observed.network {
        Network::Ready(facts) => facts.region.clone(),
        Network::None | Network::Awaited(_) => None,
    };
    let noted = observed.owner.cluster().and_then(|cluster| cluster.region.clone());
    let sources = [
        (own, "spec.controlPlaneConfig.region".to_owned()),
        (of_network, "spec.region of the CAPTCluster".to_owned()),
        (noted, format!("annotation {} of the Cluster", annotations::REGION)),
    ];
    let Some((region, from)) = sources.into_iter().find_map(|(region, from)| Some((region?, from))) else {
        return Ok(None);
    };
    match region_form::problem(&region) {
        None => Ok(Some(region)),
        Some(problem) => Err(format!("{from}: {problem}")),
    }
}

/// Variables that a control plane passes only where these fields are set: its network, or the Cluster, may give them too.
pub const FIELDS: Fields = &[("region", "spec.controlPlaneConfig.region")];

/// Variables that the module is passed though nobody has asked for them. An API that fills in defaults keeps no trace of who has.
pub fn defaults(spec: &CAPTControlPlaneSpec) -> Vec<&'static str> {
    let (access, usual) = (&spec.control_plane_config.endpoint_access, EndpointAccess::default());
    let by_default = [
        ("endpoint_public_access", access.public == usual.public),
        ("endpoint_private_access", access.private == usual.private),
        ("public_cidrs", access.public_cidrs == usual.public_cidrs),
        ("addons", spec.control_plane_config.addons.is_empty()),
        ("tags", spec.additional_tags.is_empty()),
    ];
    by_default.into_iter().filter_map(|(name, default)| default.then_some(name)).collect()
}

/// Returns the variables of a control plane's module: the outputs of its network's module, and over them the fields of the spec.
pub fn variables(observed: &ControlPlaneObservation<'_>) -> Variables {
    let spec = &observed.object.spec;
    let mut all = match &observed.network {
        Network::Ready(facts) => facts.outputs.clone(),
        Network::None | Network::Awaited(_) => Variables::new(),
    };
    let mut put = |name: String, value: Value| drop(all.insert(name, value));
    let cluster = observed.owner.name().map_or_else(|| observed.object.name_any(), str::to_owned);
    put("cluster_name".into(), json!(cluster));
    put("kubernetes_version".into(), json!(version::minor(&spec.version)));
    put("kubernetes_full_version".into(), json!(version::full(&spec.version)));
    if let Ok(Some(region)) = region(observed) {
        put("region".into(), json!(region));
    }
    let access = &spec.control_plane_config.endpoint_access;
    put("endpoint_public_access".into(), json!(access.public));
    put("endpoint_private_access".into(), json!(access.private));
    put("public_cidrs".into(), json!(access.public_cidrs));
    put("addons".into(), json!(spec.control_plane_config.addons));
    put("tags".into(), json!(spec.additional_tags));
    for (key, value) in &spec.additional_tags {
        // A key that no variable can be called is in the map alone.
        if key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-') {
            put(format!("tags_{key}"), json!(value));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_asked_for() {
        let mut spec = CAPTControlPlaneSpec::default();
        let all = ["endpoint_public_access", "endpoint_private_access", "public_cidrs", "addons", "tags"];
        assert_eq!(defaults(&spec), all);
        spec.control_plane_config.endpoint_access.private = true;
        spec.additional_tags.insert("a".into(), "b".into());
        assert_eq!(defaults(&spec), ["endpoint_public_access", "public_cidrs", "addons"]);

        let mut network = CAPTCluster::new("demo", capt_api::cluster::CAPTClusterSpec::default());
        assert_eq!(network::defaults(&network), ["environment", "vpc_name"]);
        network.spec.vpc_config = Some(capt_api::cluster::VpcConfig { name: Some("shared".into()) });
        assert_eq!(network::defaults(&network), ["environment"]);
    }
}
