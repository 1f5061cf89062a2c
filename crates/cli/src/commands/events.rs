//! `capt events`: what happened to CAPT's objects, the newest last.

use std::collections::HashSet;
use std::io::{self, Write};

use futures::{StreamExt, TryStreamExt};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::{Api, ResourceExt};

use super::client::{Connection, Target, in_words};
use super::family::family;
use super::object::{Accepts, Reference, ResourceKind};
use super::{Outcome, block_on, completion, table};

/// Show what happened, the newest last. Of an object: also what happened to all that belongs to it.
///
/// Examples:
///   capt events
///   capt events cluster/demo
///   capt events captmachinedeployment/workers --watch
///   capt events -A --types Warning
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    #[arg(value_name = "OBJECT", help = Accepts::ANY_OR_WORKSPACE.help, add = completion::objects(&Accepts::ANY_OR_WORKSPACE))]
    objects: Vec<String>,
    /// Events of every namespace.
    #[arg(short = 'A', long, conflicts_with_all = ["objects", "namespace"])]
    all_namespaces: bool,
    /// Go on with what happens from now, until interrupted.
    #[arg(short, long)]
    watch: bool,
    /// Only those of a type: Normal or Warning.
    #[arg(long, value_enum, value_name = "TYPE", ignore_case = true)]
    types: Option<Type>,
    #[command(flatten)]
    target: Target,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
#[value(rename_all = "PascalCase")]
enum Type {
    Normal,
    Warning,
}

/// Filter for events.
struct Filter {
    /// Those of these objects; of all of CAPT's kinds without.
    uids: Option<HashSet<String>>,
    kind: Option<&'static str>,
    namespaces: bool,
}

pub fn run(args: &Args) -> io::Result<Outcome> {
    block_on(async {
        let named = Accepts::ANY_OR_WORKSPACE.read(&args.objects)?;
        let connection = args.target.connect().await?;
        let filter = Filter {
            uids: uids(&connection, &named).await?,
            kind: args.types.map(|kind| match kind {
                Type::Normal => "Normal",
                Type::Warning => "Warning",
            }),
            namespaces: args.all_namespaces,
        };
        let api: Api<Event> =
            if args.all_namespaces { Api::all(connection.client.clone()) } else { connection.api() };
        let listed = api.list(&ListParams::default()).await.map_err(in_words)?;
        let mut events: Vec<&Event> = listed.items.iter().filter(|event| filter.wants(event)).collect();
        events.sort_by_key(|event| happened(event));
        let now = Timestamp::now();
        let rows: Vec<Vec<String>> = events.iter().map(|event| filter.row(event, now)).collect();
        if rows.is_empty() && !args.watch {
            writeln!(anstream::stderr(), "no events: they are kept for a while only (capt server: an hour)")?;
        }
        table::write(&mut anstream::stdout().lock(), &filter.heads(), &rows)?;
        if args.watch {
            watch(&api, listed.metadata.resource_version.unwrap_or_default(), &filter).await?;
        }
        Ok(Outcome::Good)
    })
}

async fn uids(connection: &Connection, named: &[Reference]) -> io::Result<Option<HashSet<String>>> {
    if named.is_empty() {
        return Ok(None);
    }
    let mut uids = HashSet::new();
    for reference in named {
        let members = family(connection, reference).await?;
        uids.extend(members.iter().filter_map(|member| member.object.uid()));
    }
    Ok(Some(uids))
}

impl Filter {
    fn wants(&self, event: &Event) -> bool {
        let about = &event.involved_object;
        let (api, kind) = (about.api_version.as_deref(), about.kind.as_deref());
        let ours = ResourceKind::all()
            .iter()
            .any(|known| known.matches(api.unwrap_or_default(), kind.unwrap_or_default()));
        let named = match &self.uids {
            Some(uids) => about.uid.as_ref().is_some_and(|uid| uids.contains(uid)),
            None => ours,
        };
        named && self.kind.is_none_or(|kind| event.type_.as_deref() == Some(kind))
    }

    fn heads(&self) -> Vec<&'static str> {
        let heads = ["NAMESPACE", "LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"];
        heads[usize::from(!self.namespaces)..].to_vec()
    }

    fn row(&self, event: &Event, now: Timestamp) -> Vec<String> {
        let about = &event.involved_object;
        let kind = about.kind.clone().unwrap_or_default().to_lowercase();
        let mut row = vec![
            last_seen(event, now),
            event.type_.clone().unwrap_or_default(),
            event.reason.clone().unwrap_or_default(),
            format!("{kind}/{}", about.name.clone().unwrap_or_default()),
            event.message.clone().unwrap_or_default(),
        ];
        if self.namespaces {
            row.insert(0, about.namespace.clone().unwrap_or_default());
        }
        row.iter().map(|cell| table::plain(cell)).collect()
    }
}

/// Time of the last occurrence.
fn happened(event: &Event) -> Option<Timestamp> {
    let repeated = event.series.as_ref().and_then(|series| Some(series.last_observed_time.as_ref()?.0));
    let single = event.event_time.as_ref().map(|time| time.0);
    let counted = event.last_timestamp.as_ref().map(|time| time.0);
    let made = event.metadata.creation_timestamp.as_ref().map(|time| time.0);
    repeated.or(counted).or(single).or(made)
}

/// Time since the last occurrence, and their number since the first: `3s (x4 over 2m)`.
fn last_seen(event: &Event, now: Timestamp) -> String {
    let Some(last) = happened(event) else { return "<unknown>".to_owned() };
    let age = table::age(last, now);
    let count = event.series.as_ref().and_then(|series| series.count).or(event.count).unwrap_or(1);
    let first =
        event.first_timestamp.as_ref().map(|time| time.0).or(event.event_time.as_ref().map(|time| time.0));
    match first {
        Some(first) if count > 1 => format!("{age} (x{count} over {})", table::age(first, now)),
        _ => age,
    }
}

/// Prints events as they come. The API ends a watch from time to time; what is missed in between comes with the next.
async fn watch(api: &Api<Event>, mut version: String, filter: &Filter) -> io::Result<()> {
    loop {
        let mut stream = api.watch(&WatchParams::default(), &version).await.map_err(in_words)?.boxed();
        while let Some(event) = stream.try_next().await.map_err(in_words)? {
            match event {
                WatchEvent::Added(event) | WatchEvent::Modified(event) => {
                    version = event.resource_version().unwrap_or_default();
                    if filter.wants(&event) {
                        let row = filter.row(&event, Timestamp::now());
                        writeln!(anstream::stdout(), "{}", row.join("   "))?;
                    }
                }
                WatchEvent::Deleted(event) => version = event.resource_version().unwrap_or_default(),
                WatchEvent::Bookmark(bookmark) => version = bookmark.metadata.resource_version,
                // The version is too old: begin with what there is now.
                WatchEvent::Error(_) => {
                    let listed =
                        api.list_metadata(&ListParams::default().limit(1)).await.map_err(in_words)?;
                    version = listed.metadata.resource_version.unwrap_or_default();
                    break;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_happens_again_is_counted() {
        let now: Timestamp = "2026-11-15T12:02:00Z".parse().unwrap();
        let event = |value: serde_json::Value| -> Event { serde_json::from_value(value).unwrap() };
        let single =
            event(json!({"metadata": {}, "involvedObject": {}, "eventTime": "2026-11-15T12:01:50.000000Z"}));
        assert_eq!(last_seen(&single, now), "10s");
        let series = event(json!({
            "metadata": {}, "involvedObject": {}, "eventTime": "2026-11-15T11:59:00.000000Z",
            "series": {"count": 4, "lastObservedTime": "2026-11-15T12:01:57.000000Z"},
        }));
        assert_eq!(last_seen(&series, now), "3s (x4 over 3m)");
        let old = event(json!({
            "metadata": {}, "involvedObject": {}, "count": 2,
            "firstTimestamp": "2026-11-15T12:00:00Z", "lastTimestamp": "2026-11-15T12:01:00Z",
        }));
        assert_eq!(last_seen(&old, now), "60s (x2 over 2m)");
    }
}
