//! What the door counts, in Prometheus' text format.
//!
//! Written by hand: four families whose labels are a fixed set of verbs and HTTP codes. A metrics crate would add
//! dependencies and a registry to be shared with whoever embeds the server, for no less code.

use std::{
    collections::BTreeMap,
    fmt::Write,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicI64, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use super::verb::Verb;

/// Upper bounds in seconds: from a read out of memory to a write that waits for a slow disk.
const BUCKETS: [f64; 10] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 2.0, 10.0];

/// Counters of requests by verb and code, their latency, and gauges of what is under way.
#[derive(Debug, Default)]
pub struct Metrics {
    series: Mutex<BTreeMap<(Verb, u16), Series>>,
    requests: AtomicI64,
    watches: AtomicI64,
    connections: AtomicI64,
    audit_lost: AtomicU64,
}

#[derive(Debug, Default)]
struct Series {
    count: u64,
    /// Requests no slower than the bound of the same index, and no faster than the one before.
    buckets: [u64; BUCKETS.len()],
    timed: u64,
    seconds: f64,
}

/// Something under way, counted until dropped.
pub(super) struct UnderWay<'a>(&'a AtomicI64);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

impl Metrics {
    pub(super) fn connection(&self) -> UnderWay<'_> {
        self.connections.fetch_add(1, Relaxed);
        UnderWay(&self.connections)
    }

    pub(super) fn begin(&self) {
        self.requests.fetch_add(1, Relaxed);
    }

    /// A request that had begun turns out to be a watch.
    pub(super) fn is_watch(&self) {
        self.requests.fetch_sub(1, Relaxed);
        self.watches.fetch_add(1, Relaxed);
    }

    pub(super) fn end(&self, verb: Verb, code: u16, watch: bool, took: Duration) {
        let gauge = if watch { &self.watches } else { &self.requests };
        gauge.fetch_sub(1, Relaxed);
        let mut series = self.series.lock().unwrap_or_else(PoisonError::into_inner);
        let series = series.entry((verb, code)).or_default();
        series.count += 1;
        // How long a watch lasted says nothing of how fast the server is.
        if !watch {
            let seconds = took.as_secs_f64();
            if let Some(bucket) = BUCKETS.iter().position(|bound| seconds <= *bound) {
                series.buckets[bucket] += 1;
            }
            series.timed += 1;
            series.seconds += seconds;
        }
    }

    pub(super) fn set_audit_lost(&self, lost: u64) {
        self.audit_lost.store(lost, Relaxed);
    }

    /// Everything, in the text exposition format.
    pub fn render(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = self.write_to(&mut text);
        text
    }

    fn write_to(&self, text: &mut String) -> std::fmt::Result {
        let series = self.series.lock().unwrap_or_else(PoisonError::into_inner);
        family(text, "apiserver_request_total", "counter", "Requests answered, by verb and code.")?;
        for ((verb, code), series) in &*series {
            let verb = verb.as_str();
            writeln!(text, "apiserver_request_total{{verb=\"{verb}\",code=\"{code}\"}} {}", series.count)?;
        }
        let name = "apiserver_request_duration_seconds";
        family(text, name, "histogram", "Time to answer, by verb and code; watches left out.")?;
        for ((verb, code), series) in series.iter().filter(|(_, series)| series.timed > 0) {
            let labels = format!("verb=\"{}\",code=\"{code}\"", verb.as_str());
            let mut below = 0;
            for (bound, count) in BUCKETS.iter().zip(series.buckets) {
                below += count;
                writeln!(text, "{name}_bucket{{{labels},le=\"{bound}\"}} {below}")?;
            }
            writeln!(text, "{name}_bucket{{{labels},le=\"+Inf\"}} {}", series.timed)?;
            writeln!(text, "{name}_sum{{{labels}}} {}", series.seconds)?;
            writeln!(text, "{name}_count{{{labels}}} {}", series.timed)?;
        }
        drop(series);
        for (name, help, gauge) in [
            ("apiserver_current_inflight_requests", "Requests being answered.", &self.requests),
            ("apiserver_longrunning_requests", "Watches open.", &self.watches),
            ("apiserver_connections", "Connections open.", &self.connections),
        ] {
            family(text, name, "gauge", help)?;
            writeln!(text, "{name} {}", gauge.load(Relaxed))?;
        }
        let name = "apiserver_audit_lost_total";
        family(text, name, "counter", "Audit lines lost to a full queue or disk.")?;
        writeln!(text, "{name} {}", self.audit_lost.load(Relaxed))
    }
}

fn family(text: &mut String, name: &str, kind: &str, help: &str) -> std::fmt::Result {
    writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renders_the_text_format() {
        let metrics = Metrics::default();
        for millis in [2, 7, 20_000] {
            metrics.begin();
            metrics.end(Verb::Get, 200, false, Duration::from_millis(millis));
        }
        for _ in 0..2 {
            metrics.begin();
            metrics.is_watch();
        }
        metrics.end(Verb::Watch, 200, true, Duration::from_secs(60));
        let text = metrics.render();
        for line in [
            r#"apiserver_request_total{verb="get",code="200"} 3"#,
            r#"apiserver_request_total{verb="watch",code="200"} 1"#,
            r#"apiserver_request_duration_seconds_bucket{verb="get",code="200",le="0.001"} 0"#,
            r#"apiserver_request_duration_seconds_bucket{verb="get",code="200",le="0.0025"} 1"#,
            r#"apiserver_request_duration_seconds_bucket{verb="get",code="200",le="0.01"} 2"#,
            r#"apiserver_request_duration_seconds_bucket{verb="get",code="200",le="10"} 2"#,
            r#"apiserver_request_duration_seconds_bucket{verb="get",code="200",le="+Inf"} 3"#,
            r#"apiserver_request_duration_seconds_count{verb="get",code="200"} 3"#,
            "apiserver_current_inflight_requests 0",
            "apiserver_longrunning_requests 1",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        assert!(!text.contains("duration_seconds_count{verb=\"watch\""));
    }
}
