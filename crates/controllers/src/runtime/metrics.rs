//! Counters of all controllers.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::Name;
use super::error::Error;

/// Counters and gauges of the controllers.
#[derive(Debug, Default)]
pub struct Metrics {
    reconciles: Family<Controller, Counter>,
    errors: Family<Failure, Counter>,
    /// Resources of each workspace that have drifted, where any have.
    drifted: Family<Workspace, Gauge>,
    drifted_workspaces: Gauge,
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct Controller {
    controller: &'static str,
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct Failure {
    controller: &'static str,
    reason: &'static str,
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct Workspace {
    namespace: String,
    name: String,
}

impl Metrics {
    /// A reconcile ended.
    pub fn reconciled(&self, controller: &'static str, error: Option<&Error>) {
        self.reconciles.get_or_create(&Controller { controller }).inc();
        if let Some(error) = error {
            self.errors.get_or_create(&Failure { controller, reason: error.label() }).inc();
        }
    }

    /// Returns the number of reconciles of a controller that ended.
    pub fn reconciles(&self, controller: &'static str) -> u64 {
        self.reconciles.get(&Controller { controller }).map_or(0, |count| count.get())
    }

    /// So many resources of a workspace have drifted, as far as is known.
    pub fn drifted(&self, workspace: &Name, resources: usize) {
        let Name { namespace, name } = workspace.clone();
        let labels = Workspace { namespace, name };
        // One workspace is looked at once at a time: nobody else changes its labels meanwhile.
        if resources == 0 {
            if self.drifted.remove(&labels) {
                self.drifted_workspaces.dec();
            }
            return;
        }
        if self.drifted.get(&labels).is_none() {
            self.drifted_workspaces.inc();
        }
        self.drifted.get_or_create(&labels).set(i64::try_from(resources).unwrap_or(i64::MAX));
    }

    /// Shows them in a registry. It writes the suffix `_total` of counters.
    pub fn register(&self, registry: &mut Registry) {
        registry.register("controller_reconcile", "Reconciles by controller", self.reconciles.clone());
        registry.register(
            "controller_reconcile_errors",
            "Reconciles that failed, by controller and reason",
            self.errors.clone(),
        );
        registry.register(
            "capt_workspaces_drifted",
            "Workspaces whose infrastructure differs from what was applied",
            self.drifted_workspaces.clone(),
        );
        registry.register(
            "capt_workspace_drifted_resources",
            "Resources of a workspace that have drifted",
            self.drifted.clone(),
        );
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text;

    use super::*;

    fn shown(metrics: &Metrics) -> String {
        let (mut registry, mut shown) = (Registry::default(), String::new());
        metrics.register(&mut registry);
        text::encode(&mut shown, &registry).expect("a String takes everything");
        shown
    }

    #[test]
    fn drift_is_a_gauge() {
        let metrics = Metrics::default();
        assert!(shown(&metrics).contains("\ncapt_workspaces_drifted 0\n"));
        let (one, other) = (Name::new("default", "a"), Name::new("default", "b"));
        metrics.drifted(&one, 2);
        metrics.drifted(&one, 3);
        metrics.drifted(&other, 1);
        let text = shown(&metrics);
        assert!(text.contains("\ncapt_workspaces_drifted 2\n"), "{text}");
        assert!(
            text.contains("capt_workspace_drifted_resources{namespace=\"default\",name=\"a\"} 3\n"),
            "{text}"
        );
        metrics.drifted(&one, 0);
        let text = shown(&metrics);
        assert!(text.contains("\ncapt_workspaces_drifted 1\n") && !text.contains("name=\"a\""), "{text}");
    }

    #[test]
    fn reconciles_are_counted_by_controller() {
        let metrics = Metrics::default();
        metrics.reconciled("captmachine", None);
        metrics.reconciled("captmachine", None);
        metrics.reconciled("nodegroup", None);
        let text = shown(&metrics);
        for line in [
            "# TYPE controller_reconcile counter",
            "controller_reconcile_total{controller=\"captmachine\"} 2",
            "controller_reconcile_total{controller=\"nodegroup\"} 1",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in {text}");
        }
    }
}
