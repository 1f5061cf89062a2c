//! Counters of all controllers.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Mutex, PoisonError};

use super::error::Error;

/// What is counted.
#[derive(Debug, Default)]
pub struct Metrics(Mutex<Counts>);

#[derive(Debug, Default)]
struct Counts {
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
        text
    }
}
