//! Workspaces whose infrastructure differs from what was applied.

use capt_api::conditions::types;
use capt_api::workspace::{DriftPolicy, WorkspaceTemplateApply};
use capt_planner::conditions::find;
use kube::ResourceExt;

use super::CheckFinding;

/// As many are named; the rest is counted.
const NAMED: usize = 5;

/// One line for those that have drifted, one for those of which nobody knows, or one for all that are as they should be.
pub fn judge(workspaces: &[WorkspaceTemplateApply]) -> Vec<CheckFinding> {
    let watches = |object: &&WorkspaceTemplateApply| {
        object.spec.drift_detection.as_ref().is_some_and(|drift| drift.policy != DriftPolicy::Off)
    };
    let is = |status: &'static str| {
        let all = workspaces.iter().filter(watches);
        all.filter(move |object| {
            let conditions = object.status.as_ref().map(|status| status.conditions.as_slice());
            find(conditions.unwrap_or_default(), types::DRIFTED).is_some_and(|found| found.status == status)
        })
        .map(ResourceExt::name_any)
        .collect::<Vec<String>>()
    };
    let (drifted, unknown) = (is("True"), is("Unknown"));
    let mut findings = Vec::new();
    if let Some(first) = drifted.first() {
        let todo = format!(
            "show it: capt plan {first} --drift; revert it: capt retry {first}, or driftDetection.policy: Correct"
        );
        findings.push(CheckFinding::warn(
            "drift",
            format!("{} drifted: {}", counted(&drifted), named(&drifted)),
            todo,
        ));
    }
    if let Some(first) = unknown.first() {
        let message = format!("of {} unknown: the last check failed: {}", counted(&unknown), named(&unknown));
        findings.push(CheckFinding::warn("drift", message, format!("see why: capt logs {first}")));
    }
    let watched = workspaces.iter().filter(watches).count();
    if findings.is_empty() && watched > 0 {
        findings.push(CheckFinding::ok(
            "drift",
            format!("none found in {watched} of {} workspaces; the others are not watched", workspaces.len()),
        ));
    }
    findings
}

fn counted(names: &[String]) -> String {
    if names.len() == 1 { "1 workspace".to_owned() } else { format!("{} workspaces", names.len()) }
}

fn named(names: &[String]) -> String {
    let more = names.len().saturating_sub(NAMED);
    let first = names.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
    if more > 0 { format!("{first} and {more} more") } else { first }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::CheckStatus;
    use super::*;

    fn workspace(name: &str, policy: &str, drifted: Option<&str>) -> WorkspaceTemplateApply {
        let conditions = drifted.map(|status| {
            json!({"type": "Drifted", "status": status, "reason": "X", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"})
        });
        serde_json::from_value(json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "WorkspaceTemplateApply", "metadata": {"name": name},
            "spec": {"templateRef": {"name": "t"}, "driftDetection": {"interval": "1h", "policy": policy}},
            "status": {"applied": true, "conditions": conditions.into_iter().collect::<Vec<_>>()},
        }))
        .unwrap()
    }

    #[test]
    fn what_has_drifted_is_named() {
        let told = |all: &[WorkspaceTemplateApply]| -> Vec<(CheckStatus, String)> {
            judge(all).into_iter().map(|finding| (finding.verdict, finding.message)).collect()
        };
        assert!(told(&[]).is_empty());
        assert!(told(&[workspace("a", "Off", Some("True"))]).is_empty(), "nobody looks any more");
        let calm = [workspace("a", "Report", Some("False")), workspace("b", "Off", None)];
        assert_eq!(told(&calm)[0].0, CheckStatus::Ok);
        let mixed = [
            workspace("a", "Report", Some("False")),
            workspace("b", "Correct", Some("True")),
            workspace("c", "Report", Some("Unknown")),
        ];
        let found = told(&mixed);
        assert_eq!(found[0], (CheckStatus::Warn, "1 workspace drifted: b".to_owned()));
        assert_eq!(found[1].0, CheckStatus::Warn);
        assert!(found[1].1.ends_with(": c") && found.len() == 2, "{found:?}");
        let many: Vec<_> =
            (0..9).map(|number| workspace(&format!("w{number}"), "Report", Some("True"))).collect();
        assert_eq!(told(&many)[0].1, "9 workspaces drifted: w0, w1, w2, w3, w4 and 4 more");
    }
}
