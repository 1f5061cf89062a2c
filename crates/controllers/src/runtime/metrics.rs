//! Counters of all controllers.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Mutex, PoisonError};

use super::Name;
use super::error::Error;

/// What is counted.
#[derive(Debug, Default)]
pub struct Metrics(Mutex<Counts>);

#[derive(Debug, Default)]
struct Counts {
    /// Resources of each workspace that have drifted, where any have.
    drifted: BTreeMap<Name, usize>,
    reconciles: BTreeMap<&'static str, u64>,
    errors: BTreeMap<(&'static str, &'static str), u64>,
}

impl Metrics {
    /// A reconcile ended.
    pub fn reconciled(&self, controller: &'static str, error: Option<&Error>) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *counts.reconciles.entry(controller).or_default() += 1;
        if let Some(error) = error {
            *counts.errors.entry((controller, error.label())).or_default() += 1;
        }
    }

    /// So many resources of a workspace have drifted, as far as is known.
    pub fn drifted(&self, workspace: &Name, resources: usize) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if resources == 0 {
            counts.drifted.remove(workspace);
        } else {
            counts.drifted.insert(workspace.clone(), resources);
        }
    }

    /// In Prometheus' text format.
    pub fn text(&self) -> String {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut text = String::from(
            "# HELP controller_reconcile_total Reconciles by controller.\n# TYPE controller_reconcile_total counter\n",
        );
        for (controller, count) in &counts.reconciles {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "controller_reconcile_total{{controller=\"{controller}\"}} {count}");
        }
        text.push_str(
            "# HELP controller_reconcile_errors_total Reconciles that failed, by controller and reason.\n",
        );
        text.push_str("# TYPE controller_reconcile_errors_total counter\n");
        for ((controller, reason), count) in &counts.errors {
            let _ = writeln!(
                text,
                "controller_reconcile_errors_total{{controller=\"{controller}\",reason=\"{reason}\"}} {count}"
            );
        }
        drift(&mut text, &counts.drifted);
        text
    }
}

fn drift(text: &mut String, drifted: &BTreeMap<Name, usize>) {
    text.push_str(
        "# HELP capt_workspaces_drifted Workspaces whose infrastructure differs from what was applied.\n",
    );
    text.push_str("# TYPE capt_workspaces_drifted gauge\n");
    let _ = writeln!(text, "capt_workspaces_drifted {}", drifted.len());
    text.push_str("# HELP capt_workspace_drifted_resources Resources of a workspace that have drifted.\n");
    text.push_str("# TYPE capt_workspace_drifted_resources gauge\n");
    for (Name { namespace, name }, count) in drifted {
        let labels = format!("namespace=\"{namespace}\",name=\"{name}\"");
        let _ = writeln!(text, "capt_workspace_drifted_resources{{{labels}}} {count}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drift_is_a_gauge() {
        let metrics = Metrics::default();
        assert!(metrics.text().contains("\ncapt_workspaces_drifted 0\n"));
        let (one, other) = (Name::new("default", "a"), Name::new("default", "b"));
        metrics.drifted(&one, 2);
        metrics.drifted(&one, 3);
        metrics.drifted(&other, 1);
        let text = metrics.text();
        assert!(text.contains("\ncapt_workspaces_drifted 2\n"), "{text}");
        assert!(
            text.contains("capt_workspace_drifted_resources{namespace=\"default\",name=\"a\"} 3\n"),
            "{text}"
        );
        metrics.drifted(&one, 0);
        let text = metrics.text();
        assert!(text.contains("\ncapt_workspaces_drifted 1\n") && !text.contains("name=\"a\""), "{text}");
    }
}
