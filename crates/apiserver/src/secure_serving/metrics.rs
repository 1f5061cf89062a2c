//! Metrics of secure serving, in Prometheus' text format.
//!
//! Written by hand: four families whose labels are a fixed set of verbs and HTTP codes. A metrics crate would add
//! dependencies and a registry to be shared with programs that embed the server, for no less code.

use std::{
    collections::BTreeMap,
    fmt::Write,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicI64, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use super::verb::RecordedVerb;

/// Upper bounds in seconds: from a read out of memory to a write that waits for a slow disk.
const BUCKETS: [f64; 10] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 2.0, 10.0];

/// Resources that are told apart; more are counted together.
const RESOURCES: usize = 256;

/// Counters of requests by verb and code, their latency, and gauges of what is under way.
#[derive(Debug, Default)]
pub struct Metrics {
    series: Mutex<BTreeMap<(RecordedVerb, u16), ByResource>>,
    requests: AtomicI64,
    watches: AtomicI64,
    connections: AtomicI64,
    audit_lost: AtomicU64,
}

/// By `group/resource`; empty for what is none.
type ByResource = BTreeMap<Box<str>, Series>;

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

    /// A request is over. Only what was served has a `resource`: clients could make up any number of others.
    pub(super) fn end(&self, verb: RecordedVerb, resource: &str, code: u16, watch: bool, took: Duration) {
        let gauge = if watch { &self.watches } else { &self.requests };
        gauge.fetch_sub(1, Relaxed);
        let mut series = self.series.lock().unwrap_or_else(PoisonError::into_inner);
        let series = series.entry((verb, code)).or_default();
        let resource = if code < 400 && series.len() < RESOURCES { resource } else { "" };
        if !series.contains_key(resource) {
            series.insert(resource.into(), Series::default());
        }
        let Some(series) = series.get_mut(resource) else { return };
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
        let all = || {
            series.iter().flat_map(|((verb, code), by_resource)| {
                by_resource.iter().map(move |(resource, series)| (labels(*verb, *code, resource), series))
            })
        };
        let name = "apiserver_request_total";
        family(text, name, "counter", "Requests answered, by verb, resource and code.")?;
        for (labels, series) in all() {
            writeln!(text, "{name}{{{labels}}} {}", series.count)?;
        }
        let name = "apiserver_request_duration_seconds";
        family(text, name, "histogram", "Time to answer, by verb, resource and code; watches left out.")?;
        for (labels, series) in all().filter(|(_, series)| series.timed > 0) {
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

fn labels(verb: RecordedVerb, code: u16, resource: &str) -> String {
    let verb = verb.as_str();
    if resource.is_empty() {
        return format!("verb=\"{verb}\",code=\"{code}\"");
    }
    let (group, resource) = resource.split_once('/').unwrap_or(("", resource));
    format!("verb=\"{verb}\",group=\"{group}\",resource=\"{resource}\",code=\"{code}\"")
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
            metrics.end(RecordedVerb::Get, "", 200, false, Duration::from_millis(millis));
        }
        for _ in 0..2 {
            metrics.begin();
            metrics.is_watch();
        }
        metrics.end(RecordedVerb::Watch, "apps/deployments", 200, true, Duration::from_secs(60));
        metrics.begin();
        metrics.end(RecordedVerb::List, "/made-up", 404, false, Duration::ZERO);
        metrics.begin();
        metrics.end(RecordedVerb::List, "/secrets", 200, false, Duration::ZERO);
        let text = metrics.render();
        for line in [
            r#"apiserver_request_total{verb="get",code="200"} 3"#,
            r#"apiserver_request_total{verb="watch",group="apps",resource="deployments",code="200"} 1"#,
            r#"apiserver_request_total{verb="list",code="404"} 1"#,
            r#"apiserver_request_total{verb="list",group="",resource="secrets",code="200"} 1"#,
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
