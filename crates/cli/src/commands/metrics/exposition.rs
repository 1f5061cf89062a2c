//! `/metrics` in the text format of OpenMetrics.

use std::fmt;

use capt_terraform::Engine;
use capt_terraform::metrics::{BUCKETS, Snapshot};
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Bytes;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::registry::Registry;

use super::super::controller::LEASE;
use super::Process;

const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

impl Process {
    pub(super) fn exposition(&self) -> Response<Full<Bytes>> {
        let mut registry = Registry::default();
        let leading = Family::<Vec<(&str, &str)>, Gauge>::default();
        leading.get_or_create(&vec![("name", LEASE)]).set(i64::from(self.lease.is_leading()));
        // The name that components of Kubernetes give it.
        registry.register(
            "leader_election_master_status",
            "1 where this process holds the Lease, 0 where it waits for it",
            leading,
        );
        if let Some(running) = self.running.get() {
            running.metrics.register(&mut registry);
            registry.register_collector(Box::new(EngineCollector(running.engine.clone())));
        }
        let mut shown = String::new();
        text::encode(&mut shown, &registry).expect("a String takes everything");
        let mut response = super::text(StatusCode::OK, shown);
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(CONTENT_TYPE));
        response
    }
}

/// Metrics of the engine, read at each scrape.
struct EngineCollector(Engine);

impl fmt::Debug for EngineCollector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EngineCollector").finish_non_exhaustive()
    }
}

impl Collector for EngineCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        write(&mut encoder, &self.0.metrics())
    }
}

fn write(encoder: &mut DescriptorEncoder<'_>, engine: &Snapshot) -> fmt::Result {
    let Snapshot { queued, running, runs, durations, inits, processes: _ } = engine;
    for (name, help, value) in [
        ("capt_runs_queued", "Runs that wait for their turn.", *queued),
        ("capt_runs_active", "Runs under way.", *running),
    ] {
        let metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX)).encode(metric)?;
    }
    let help = "Runs that ended, by operation and result.";
    let mut family = encoder.encode_descriptor("capt_runs", help, None, MetricType::Counter)?;
    for ((operation, result), count) in runs {
        let labels = [("operation", *operation), ("result", *result)];
        ConstCounter::new(*count).encode(family.encode_family(&labels)?)?;
    }
    let help = "Times that modules and providers were fetched.";
    let metric = encoder.encode_descriptor("capt_inits", help, None, MetricType::Counter)?;
    ConstCounter::new(*inits).encode(metric)?;
    let (name, help) = ("capt_run_duration_seconds", "How long runs took.");
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
    for (operation, histogram) in durations {
        let bounds = BUCKETS.into_iter().chain([f64::INFINITY]);
        let buckets: Vec<(f64, u64)> = bounds.zip(histogram.counts).collect();
        let count = histogram.counts.iter().sum();
        family.encode_family(&[("operation", *operation)])?.encode_histogram::<NoLabelSet>(
            histogram.sum,
            count,
            &buckets,
            None,
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use capt_terraform::metrics::Histogram;

    use super::*;

    #[derive(Debug)]
    struct Shown(Snapshot);

    impl Collector for Shown {
        fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
            write(&mut encoder, &self.0)
        }
    }

    /// Names and labels are what dashboards and alerts read.
    #[test]
    fn what_the_engine_counts() {
        let mut counts = [0; BUCKETS.len() + 1];
        (counts[1], counts[3], counts[BUCKETS.len()]) = (2, 1, 1);
        let engine = Snapshot {
            queued: 1,
            running: 2,
            runs: [(("apply", "done"), 3)].into(),
            durations: [("apply", Histogram { counts, sum: 4000.5 })].into(),
            inits: 4,
            processes: 9,
        };
        let (mut registry, mut shown) = (Registry::default(), String::new());
        registry.register_collector(Box::new(Shown(engine)));
        text::encode(&mut shown, &registry).unwrap();
        for line in [
            "# TYPE capt_runs_queued gauge",
            "capt_runs_queued 1",
            "capt_runs_active 2",
            "# HELP capt_runs Runs that ended, by operation and result.",
            "# TYPE capt_runs counter",
            "capt_runs_total{operation=\"apply\",result=\"done\"} 3",
            "capt_inits_total 4",
            "# TYPE capt_run_duration_seconds histogram",
            "capt_run_duration_seconds_bucket{le=\"0.1\",operation=\"apply\"} 0",
            "capt_run_duration_seconds_bucket{le=\"0.25\",operation=\"apply\"} 2",
            "capt_run_duration_seconds_bucket{le=\"1.0\",operation=\"apply\"} 3",
            "capt_run_duration_seconds_bucket{le=\"3600.0\",operation=\"apply\"} 3",
            "capt_run_duration_seconds_bucket{le=\"+Inf\",operation=\"apply\"} 4",
            "capt_run_duration_seconds_sum{operation=\"apply\"} 4000.5",
            "capt_run_duration_seconds_count{operation=\"apply\"} 4",
        ] {
            assert!(shown.lines().any(|found| found == line), "{line} in {shown}");
        }
        assert!(shown.ends_with("# EOF\n"), "{shown}");
    }
}
