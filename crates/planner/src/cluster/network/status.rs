//! Status of a network.

use std::collections::BTreeSet;

use capt_api::cluster::{CAPTClusterStatus, FailureDomain, InfrastructureInitialization};
use capt_api::conditions::{reasons, types};
use jiff::Timestamp;
use serde_json::Value;

use super::super::endpoint::show;
use super::{NetworkObservation, NetworkState};
use crate::conditions::Conditions;
use crate::owned_workspace::Variables;

/// The whole status.
pub fn status(observed: &NetworkObservation<'_>, state: &NetworkState, now: Timestamp) -> CAPTClusterStatus {
    let old = observed.status.cloned().unwrap_or_default();
    let generation = observed.object.metadata.generation;
    let mut conditions = Conditions::new(&old.conditions, generation, now);
    for kind in [types::STALLED, types::PAUSED, types::DELETING, types::WAITING_FOR_CLUSTER] {
        conditions.clear(kind);
    }
    let endpoint = observed.object.spec.control_plane_endpoint.as_ref().or(observed.endpoint.as_ref());
    let mut new = CAPTClusterStatus {
        observed_generation: generation,
        endpoint: endpoint.map(show),
        conditions: Vec::new(),
        ..old
    };
    if let Some(workspace) = observed.workspace.as_ref().filter(|workspace| workspace.usable()) {
        new.vpc_workspace_name.clone_from(&workspace.summary.workspace_name);
        new.workspace_template_status = Some(workspace.summary.clone());
    }
    fill(observed, state, &mut new, &mut conditions);
    new.conditions = conditions.into_list();
    new
}

fn fill(
    observed: &NetworkObservation<'_>,
    state: &NetworkState,
    new: &mut CAPTClusterStatus,
    conditions: &mut Conditions,
) {
    if !matches!(state, NetworkState::Paused(_)) {
        new.failure_reason = None;
        new.failure_message = None;
    }
    match state {
        NetworkState::External | NetworkState::Gone => {}
        NetworkState::Paused(by) => {
            conditions.set(types::READY, new.ready, reasons::PAUSED, by.clone());
            conditions.set(types::PAUSED, true, reasons::PAUSED, by.clone());
        }
        NetworkState::WaitingForCluster(why) => {
            new.ready = false;
            conditions.set(types::READY, false, &why.reason, why.message.clone());
            conditions.set(types::WAITING_FOR_CLUSTER, true, &why.reason, why.message.clone());
        }
        NetworkState::Invalid(problem) => {
            fail(new, conditions, reasons::INVALID_VPC_CONFIG, problem);
            conditions.set(types::STALLED, true, reasons::INVALID_VPC_CONFIG, problem.clone());
        }
        NetworkState::Creating(why) => {
            new.ready = false;
            four(conditions, [false, false, true, false], &why.reason, &why.message);
        }
        NetworkState::Failed { why, stalled } => {
            fail(new, conditions, &why.reason, &why.message);
            if *stalled {
                conditions.set(types::STALLED, true, &why.reason, why.message.clone());
            }
        }
        NetworkState::Ready { vpc } => ready(observed, vpc, new, conditions),
        NetworkState::Updating(why) => {
            let message = format!("it was applied before; {}", why.message);
            four(conditions, [true, true, false, false], &why.reason, &message);
        }
        NetworkState::UpdateFailed { why, stalled } => {
            let message = format!("it was applied before; {}", why.message);
            four(conditions, [true, true, false, true], &why.reason, &message);
            if *stalled {
                conditions.set(types::STALLED, true, &why.reason, why.message.clone());
            }
        }
        NetworkState::Deleting(why) => {
            new.ready = false;
            conditions.set(types::READY, false, reasons::DELETING, why.message.clone());
            conditions.set(types::DELETING, true, &why.reason, why.message.clone());
        }
    }
}

/// Ready, VPCReady, VPCCreating, VPCFailed.
fn four(conditions: &mut Conditions, holds: [bool; 4], reason: &str, message: &str) {
    let kinds = [types::READY, types::VPC_READY, types::VPC_CREATING, types::VPC_FAILED];
    for (kind, holds) in kinds.into_iter().zip(holds) {
        conditions.set(kind, holds, reason, message);
    }
}

fn fail(new: &mut CAPTClusterStatus, conditions: &mut Conditions, reason: &str, message: &str) {
    new.ready = false;
    new.failure_reason = Some(reason.to_owned());
    new.failure_message = Some(message.to_owned());
    four(conditions, [false, false, false, true], reason, message);
}

fn ready(
    observed: &NetworkObservation<'_>,
    vpc: &str,
    new: &mut CAPTClusterStatus,
    conditions: &mut Conditions,
) {
    new.ready = true;
    new.vpc_id = Some(vpc.to_owned());
    new.initialization = Some(InfrastructureInitialization { provisioned: Some(true) });
    let (reason, message) = if observed.object.spec.existing_vpc_id.is_some() {
        (reasons::EXISTING_VPC_USED, format!("{vpc} is used as given: nobody looked"))
    } else {
        (reasons::VPC_CREATED, format!("{vpc}: its workspace is applied"))
    };
    if let Some(workspace) = &observed.workspace {
        new.failure_domains = failure_domains(&workspace.standing.outputs);
    }
    four(conditions, [true, true, false, false], reason, &message);
    conditions.set(types::READY, true, reasons::READY, message);
}

/// Zones that the module returned, each with the subnets that it lists in the same order.
fn failure_domains(outputs: &Variables) -> Vec<FailureDomain> {
    /// As many as the CRD takes.
    const MOST: usize = 100;
    let list = |output: &str| -> Vec<&str> {
        let items = outputs.get(output).and_then(Value::as_array);
        items.into_iter().flatten().filter_map(Value::as_str).collect()
    };
    let zones =
        Some(list("availability_zones")).filter(|zones| !zones.is_empty()).unwrap_or_else(|| list("azs"));
    let subnets = [("privateSubnet", list("private_subnets")), ("publicSubnet", list("public_subnets"))];
    let mut seen = BTreeSet::new();
    let domain = |(index, zone): (usize, &&str)| {
        let attributes = subnets
            .iter()
            .filter(|(_, subnets)| subnets.len() == zones.len())
            .map(|(key, subnets)| ((*key).to_owned(), subnets[index].to_owned()))
            .collect();
        FailureDomain { name: (*zone).to_owned(), control_plane: Some(true), attributes }
    };
    let fits = |zone: &str| !zone.is_empty() && zone.len() <= 256;
    let mut domains: Vec<FailureDomain> = zones.iter().enumerate().map(domain).collect();
    domains.retain(|domain| fits(&domain.name) && seen.insert(domain.name.clone()));
    domains.truncate(MOST);
    domains
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn named(outputs: Value) -> Vec<String> {
        let outputs: Variables = serde_json::from_value(outputs).expect("a map");
        failure_domains(&outputs)
            .into_iter()
            .map(|domain| format!("{} {:?}", domain.name, domain.attributes))
            .collect()
    }

    #[test]
    fn zones_with_their_subnets() {
        let three = json!({
            "availability_zones": ["a", "b"], "private_subnets": ["p1", "p2"], "public_subnets": ["q"],
        });
        assert_eq!(named(three), ["a {\"privateSubnet\": \"p1\"}", "b {\"privateSubnet\": \"p2\"}"]);
        assert_eq!(named(json!({"azs": ["a", "a", ""]})), ["a {}"], "each once");
        assert!(named(json!({"availability_zones": "a", "azs": 3})).is_empty(), "no list");
    }
}
