//! `/metrics`: the metrics of secure serving and of the store, in Prometheus' text format.

use std::fmt::Write;

use http::{Response, header};

use super::body::whole;
use super::{Api, Body};
use crate::store::{Histogram, Stats};

/// The version of the text format.
const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

impl Api {
    pub(super) fn metrics_answer(&self) -> Response<Body> {
        let mut text = self.metrics.render();
        // Writing to a string cannot fail.
        let _ = write_store(&mut text, &self.storage.store.stats());
        Response::builder()
            .header(header::CONTENT_TYPE, CONTENT_TYPE)
            .body(whole(text))
            .expect("headers of our own are valid")
    }
}

fn write_store(text: &mut String, stats: &Stats) -> std::fmt::Result {
    let name = "apiserver_resource_objects";
    family(text, name, "gauge", "Objects stored, by group and resource.")?;
    for (resource, count) in &stats.objects {
        let (group, plural) = resource.split_once('/').unwrap_or(("", resource));
        writeln!(text, "{name}{{group=\"{group}\",resource=\"{plural}\"}} {count}")?;
    }
    let read_only = u64::from(stats.read_only.is_some());
    for (name, kind, help, value) in [
        ("capt_store_revision", "gauge", "Newest revision.", stats.revision.get()),
        (
            "capt_store_compacted_revision",
            "gauge",
            "Oldest revision that can be read.",
            stats.compacted.get(),
        ),
        ("capt_store_history_events", "gauge", "Events in the history.", stats.history_events as u64),
        ("capt_store_history_bytes", "gauge", "Memory of the history.", stats.history_bytes as u64),
        ("apiserver_storage_size_bytes", "gauge", "Bytes on disk.", stats.disk_bytes),
        ("capt_store_watchers", "gauge", "Watchers of the store.", stats.watchers as u64),
        ("capt_store_failed_commits_total", "counter", "Commits that failed.", stats.failed_commits),
        ("capt_store_read_only", "gauge", "1 when the store takes no more writes.", read_only),
    ] {
        family(text, name, kind, help)?;
        writeln!(text, "{name} {value}")?;
    }
    histogram(text, "capt_store_commit_duration_seconds", "Time of a commit.", &stats.commit_seconds)?;
    histogram(text, "capt_store_commit_writes", "Writes that shared a commit.", &stats.group_writes)
}

fn histogram(text: &mut String, name: &str, help: &str, histogram: &Histogram) -> std::fmt::Result {
    family(text, name, "histogram", help)?;
    let mut below = 0;
    for (bound, count) in histogram.buckets() {
        below += count;
        writeln!(text, "{name}_bucket{{le=\"{bound}\"}} {below}")?;
    }
    writeln!(text, "{name}_bucket{{le=\"+Inf\"}} {}", histogram.count())?;
    writeln!(text, "{name}_sum {}\n{name}_count {}", histogram.sum(), histogram.count())
}

fn family(text: &mut String, name: &str, kind: &str, help: &str) -> std::fmt::Result {
    writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}")
}
