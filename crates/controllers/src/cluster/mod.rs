//! Clusters: their networks and control planes, how others reach them, and what Cluster API's own part is where that is
//! not installed.
//!
//! ```text
//! Cluster -> CAPTCluster      -> WorkspaceTemplateApply
//!         -> CAPTControlPlane -> WorkspaceTemplateApply -> kubeconfig and CA
//! ```
//!
//! The plans for networks and control planes come from `capt-planner`; here they are carried out.

pub mod access;
mod act;
pub mod context;
pub mod control_plane;
pub mod core;
pub mod network;
pub mod probe;
mod start;

use std::time::Duration;

use jiff::Timestamp;

use crate::runtime::queue::Next;

pub use context::ClusterPartContext;
pub use start::start;

/// Returns the time of the next look though nothing changes. What is late already is not now: that would keep a core busy.
fn next(wake: Option<Timestamp>, now: Timestamp, renew: Option<Duration>, held: Option<Duration>) -> Next {
    let late = wake.map(|wake| Duration::try_from(wake.duration_since(now)).unwrap_or_default());
    let soonest = [late, renew].into_iter().flatten().min();
    Next::soonest([soonest.map(|delay| delay.max(Duration::from_secs(1))), held])
}

#[cfg(test)]
mod tests {
    use capt_api::cluster::core::ClusterStatus;
    use capt_api::cluster::{CAPTClusterStatus, CAPTControlPlaneStatus};
    use serde::de::DeserializeOwned;
    use serde_json::{Value, json};

    use super::{control_plane, core, network};

    /// Returns true if a change of one field is worth a write at once.
    fn is_news<S: DeserializeOwned + PartialEq>(gist: fn(&mut S), at: &str, value: &Value) -> bool {
        let old = json!({
            "ready": false, "observedGeneration": 1, "workers": {"replicas": 1},
            "workspaceTemplateStatus": {"ready": false, "state": "Queued"},
            "workspaceStatus": {"ready": false, "state": "Queued"},
            "conditions": [{
                "type": "Ready", "status": "False", "reason": "Creating", "message": "a plan is made",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }],
        });
        let mut new = old.clone();
        *new.pointer_mut(at).unwrap() = value.clone();
        let [old, new] = [old, new].map(|status| {
            let mut status: S = serde_json::from_value(status).unwrap();
            gist(&mut status);
            status
        });
        old != new
    }

    #[test]
    fn words_and_numbers_wait_and_what_others_act_upon_does_not() {
        let cases = [
            ("/conditions/0/message", json!("1 of 3 done"), [false, false, false]),
            ("/conditions/0/reason", json!("Failed"), [true, true, false]),
            ("/conditions/0/status", json!("True"), [true, true, true]),
            ("/observedGeneration", json!(2), [true, true, true]),
            ("/workspaceTemplateStatus/state", json!("Planning"), [false, false, false]),
            ("/workspaceTemplateStatus/ready", json!(true), [true, true, false]),
            ("/workspaceStatus/ready", json!(true), [false, true, false]),
            ("/workers/replicas", json!(2), [false, false, false]),
        ];
        for (at, value, [of_network, of_plane, of_cluster]) in cases {
            assert_eq!(is_news::<CAPTClusterStatus>(network::gist, at, &value), of_network, "network {at}");
            assert_eq!(
                is_news::<CAPTControlPlaneStatus>(control_plane::gist, at, &value),
                of_plane,
                "control plane {at}"
            );
            assert_eq!(is_news::<ClusterStatus>(core::report::gist, at, &value), of_cluster, "cluster {at}");
        }
    }
}
