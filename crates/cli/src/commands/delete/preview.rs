//! Preview of a deletion: the infrastructure that it destroys.

use std::io::{self, Write};

use capt_api::names::{annotations, labels};
use capt_api::workspace::WorkspaceTemplateApply;
use capt_planner::Count;
use kube::ResourceExt;
use serde_json::Value;

use super::super::family::Member;
use super::super::table;

/// As many lines say one thing each; what is more is summed up.
const MOST_LINES: usize = 20;

/// Prints what a deletion destroys and keeps, and what it will wait for.
pub fn print(families: &[Vec<Member>], blockers: &[String]) -> io::Result<()> {
    let mut out = anstream::stdout().lock();
    for members in families {
        let Some((head, rest)) = members.split_first() else { continue };
        writeln!(out, "{}{}", head.reference(), if rest.is_empty() { "" } else { ", and with it" })?;
        let rows = rows(rest);
        for row in rows.iter().take(MOST_LINES) {
            writeln!(out, "  {row}")?;
        }
        if rows.len() > MOST_LINES {
            writeln!(out, "  … and {} more", rows.len() - MOST_LINES)?;
        }
    }
    let workspaces: Vec<WorkspaceTemplateApply> =
        families.iter().flatten().filter_map(Member::workspace).collect();
    writeln!(out, "{}", sum(&workspaces))?;
    if !blockers.is_empty() {
        let yellow = anstyle::AnsiColor::Yellow.on_default().bold();
        writeln!(out, "{yellow}in the way{yellow:#}:")?;
    }
    for blocker in blockers.iter().take(MOST_LINES) {
        writeln!(out, "  {blocker}")?;
    }
    if blockers.len() > MOST_LINES {
        writeln!(out, "  … and {} more", blockers.len() - MOST_LINES)?;
    }
    Ok(())
}

/// One line for each object that people know, one for all machines of a set.
fn rows(members: &[Member]) -> Vec<String> {
    let mut cells = Vec::new();
    for member in members {
        let (kind, object) = (&member.kind.name, &member.object);
        // Sets and machines are told by their deployment, workspaces by what they build.
        let inner = matches!(kind.as_str(), "CaptMachineSet" | "CaptMachine" | "WorkspaceTemplateApply");
        if inner && object.owner_references().iter().any(|owner| owner.controller == Some(true)) {
            continue;
        }
        let machines = object.data.pointer("/status/replicas").and_then(Value::as_i64);
        let note = match machines {
            Some(1) => "1 machine".to_owned(),
            Some(machines) => format!("{machines} machines"),
            None => String::new(),
        };
        cells.push(vec![member.reference().to_string(), note]);
    }
    let mut text = Vec::new();
    // The heads are for the widths alone.
    let _ = table::write(&mut text, &["", ""], &cells);
    String::from_utf8_lossy(&text).lines().skip(1).map(str::to_owned).collect()
}

/// Totals of what is destroyed and what is kept.
fn sum(workspaces: &[WorkspaceTemplateApply]) -> String {
    let resources = |workspace: &&WorkspaceTemplateApply| {
        i64::from(workspace.status.as_ref().and_then(|status| status.resources).unwrap_or_default())
    };
    let (kept, gone): (Vec<_>, Vec<_>) = workspaces.iter().partition(|workspace| is_kept(workspace));
    let total: i64 = gone.iter().map(resources).sum();
    let mut text = format!("destroys {} in {}", Count(total, "resource"), Count(gone.len(), "workspace"));
    if !kept.is_empty() {
        let total: i64 = kept.iter().map(resources).sum();
        let names: Vec<String> = kept.iter().map(|workspace| workspace.name_any()).collect();
        text = format!("{text}; keeps {} of {}", Count(total, "resource"), names.join(", "));
    }
    text
}

/// Returns true if the infrastructure of a workspace outlives it.
pub fn is_kept(workspace: &WorkspaceTemplateApply) -> bool {
    workspace.spec.retain_workspace_on_delete
        || workspace.labels().contains_key(labels::RETAINED)
        || workspace.annotations().get(annotations::DELETION_POLICY).is_some_and(|policy| policy == "Orphan")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_kept_is_told_from_what_goes() {
        let workspace = |name: &str, retain: bool, resources: i32| -> WorkspaceTemplateApply {
            serde_json::from_value(json!({
                "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "WorkspaceTemplateApply",
                "metadata": {"name": name},
                "spec": {"templateRef": {"name": "t"}, "retainWorkspaceOnDelete": retain},
                "status": {"resources": resources},
            }))
            .unwrap()
        };
        let all = [workspace("a", false, 1), workspace("b", false, 0), workspace("net", true, 7)];
        assert_eq!(sum(&all), "destroys 1 resource in 2 workspaces; keeps 7 resources of net");
        assert_eq!(sum(&[]), "destroys 0 resources in 0 workspaces");
    }
}
