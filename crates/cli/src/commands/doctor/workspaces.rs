//! Workspaces that fail, are blocked or await approval, with their causes: as `capt status` judges them.

use capt_api::workspace::WorkspaceTemplateApply;

use super::CheckFinding;
use crate::tree::judge::Verdict;
use crate::tree::object_summary::{Kind, ObjectSummary};
use crate::tree::{State, judge as tree};

/// As many are named with their causes; the rest is counted.
const NAMED: usize = 5;

/// One line for those that fail, one for those that are blocked, one for plans that await approval, or one for all where none is.
pub fn judge(workspaces: &[WorkspaceTemplateApply], namespaces: bool) -> Vec<CheckFinding> {
    let judged: Vec<(Name, Verdict)> = workspaces.iter().filter_map(of).collect();
    let of_state = |wanted: State| {
        judged.iter().filter(|(_, verdict)| verdict.state == wanted).collect::<Vec<&(Name, Verdict)>>()
    };
    let all = if workspaces.len() == 1 {
        "1 workspace".to_owned()
    } else {
        format!("{} workspaces", workspaces.len())
    };
    let mut findings = Vec::new();
    let (failed, blocked, waiting) =
        (of_state(State::Failed), of_state(State::Blocked), of_state(State::Approval));
    if let Some((name, _)) = failed.first() {
        let command = |verb: &str| name.command(verb, namespaces);
        let todo = format!("see why: {}; once it is fixed: {}", command("logs"), command("retry"));
        let verb = if failed.len() == 1 { "fails" } else { "fail" };
        findings.push(CheckFinding {
            details: details(&failed, namespaces),
            ..CheckFinding::fail("workspaces", format!("{} of {all} {verb}", failed.len()), todo)
        });
    }
    if let Some((name, _)) = blocked.first() {
        let verb = if blocked.len() == 1 { "is" } else { "are" };
        findings.push(CheckFinding {
            details: details(&blocked, namespaces),
            ..CheckFinding::warn(
                "workspaces",
                format!("{} of {all} {verb} blocked", blocked.len()),
                format!("see it: {}", name.command("status wtapply/", namespaces)),
            )
        });
    }
    if let Some((name, _)) = waiting.first() {
        let command = |verb: &str| name.command(verb, namespaces);
        let verb = if waiting.len() == 1 { "awaits" } else { "await" };
        findings.push(CheckFinding {
            details: details(&waiting, namespaces),
            ..CheckFinding::warn(
                "workspaces",
                format!("{} of {all} {verb} approval", waiting.len()),
                format!("see the plan: {}; then: {}", command("plan"), command("approve")),
            )
        });
    }
    if findings.is_empty() {
        findings.push(CheckFinding::ok("workspaces", format!("{all}, none failing")));
    }
    findings
}

/// Namespace and name.
struct Name(String, String);

impl Name {
    /// The command about it; a verb that ends with a slash is followed by the name at once.
    fn command(&self, verb: &str, namespaces: bool) -> String {
        let gap = if verb.ends_with('/') { "" } else { " " };
        let place = if namespaces { format!(" -n {}", self.0) } else { String::new() };
        format!("capt {verb}{gap}{}{place}", self.1)
    }
}

fn of(workspace: &WorkspaceTemplateApply) -> Option<(Name, Verdict)> {
    let thing: ObjectSummary = serde_json::from_value(serde_json::to_value(workspace).ok()?).ok()?;
    let name = Name(thing.namespace().to_owned(), thing.name().to_owned());
    Some((name, tree::judge(Kind::WorkspaceTemplateApply, &thing)))
}

fn details(some: &[&(Name, Verdict)], namespaces: bool) -> Vec<String> {
    let line = |(Name(namespace, name), verdict): &&(Name, Verdict)| {
        let place = if namespaces { format!("{namespace}/") } else { String::new() };
        let message =
            if verdict.message.is_empty() { String::new() } else { format!(": {}", verdict.message) };
        format!("{place}{name}: {}{message}", verdict.reason)
    };
    let mut lines: Vec<String> = some.iter().take(NAMED).map(line).collect();
    if some.len() > NAMED {
        lines.push(format!("and {} more: capt status", some.len() - NAMED));
    }
    lines
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::CheckStatus as Finds;
    use super::*;

    fn workspace(name: &str, status: &str, reason: &str, message: &str) -> WorkspaceTemplateApply {
        let condition = json!({"type": "Ready", "status": status, "reason": reason, "message": message, "lastTransitionTime": "2026-01-01T00:00:00Z"});
        serde_json::from_value(json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "WorkspaceTemplateApply",
            "metadata": {"name": name, "namespace": "team"}, "spec": {"templateRef": {"name": "t"}},
            "status": {"conditions": [condition]},
        }))
        .unwrap()
    }

    #[test]
    fn failing_workspaces_are_counted_and_named_with_their_causes() {
        let good = || workspace("good", "True", "Ready", "");
        let bad = |name: &str| workspace(name, "False", "ApplyFailed", "no\n capacity");
        let told = |all: &[WorkspaceTemplateApply]| -> Vec<(Finds, String, Vec<String>)> {
            let findings = judge(all, false).into_iter();
            findings.map(|finding| (finding.verdict, finding.message, finding.details)).collect()
        };
        assert_eq!(told(&[]), [(Finds::Ok, "0 workspaces, none failing".to_owned(), vec![])]);
        assert_eq!(told(&[good()]), [(Finds::Ok, "1 workspace, none failing".to_owned(), vec![])]);
        let waits = workspace("w", "False", "WaitingForApproval", "plan 1");
        assert_eq!(
            told(&[good(), bad("b"), waits]),
            [
                (
                    Finds::Fail,
                    "1 of 3 workspaces fails".to_owned(),
                    vec!["b: ApplyFailed: no capacity".to_owned()]
                ),
                (
                    Finds::Warn,
                    "1 of 3 workspaces awaits approval".to_owned(),
                    vec!["w: WaitingForApproval: plan 1".to_owned()]
                ),
            ]
        );
        let missing = workspace("m", "False", "WorkspaceTemplateNotFound", "t does not exist");
        assert_eq!(told(&[missing])[0].1, "1 of 1 workspace is blocked");
        let many: Vec<_> = (0..7).map(|number| bad(&format!("b{number}"))).collect();
        let (_, message, details) = told(&many).remove(0);
        assert_eq!(message, "7 of 7 workspaces fail");
        assert_eq!((details.len(), details[5].as_str()), (6, "and 2 more: capt status"));
        let everywhere = judge(&many, true).remove(0);
        assert!(everywhere.details[0].starts_with("team/b0: "), "{everywhere:?}");
        assert!(everywhere.todo.unwrap().starts_with("see why: capt logs b0 -n team; "));
    }
}
