//! Watches over what an episode did: the same events, in the same order, however they are asked for.

use futures::future::join_all;
use serde_json::Value;

use crate::compare;
use crate::episode::{Episode, Tally};
use crate::kinds::KINDS;
use crate::pairs::{Pairs, Which};
use crate::side::{Answer, Asked};

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
const PARTIAL: &str = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io,application/json";
const INITIAL: &str = "&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
/// The server ends a watch by itself; a busy machine gets more time.
const SECONDS: [u32; 4] = [1, 3, 8, 40];

impl Episode<'_> {
    pub async fn follow(&mut self, tally: &mut Tally) {
        let mut watches = Vec::new();
        // How many writes the status of a definition takes is the server's own business.
        let followed = self.kinds.clone().into_iter().filter(|index| !KINDS[*index].settles());
        for index in followed.collect::<Vec<_>>() {
            let whole = self.listing(index).split('?').next().unwrap_or_default().to_owned();
            let scope = if self.kind(index).namespaced {
                String::new()
            } else {
                format!("&labelSelector=ep%3D{}", self.namespace)
            };
            let whole = if whole.contains("/namespaces/") || !self.kind(index).namespaced {
                format!("{whole}?{scope}")
            } else {
                format!("{whole}?fieldSelector=metadata.namespace%3D{}", self.namespace)
            };
            let moments = self.pairs.moments.all.len();
            let middle = self.chance.below(moments);
            let selected = self.listing(index);
            for (path, rest, accept) in [
                (&whole, "&resourceVersion=@at0@".to_owned(), ""),
                (&whole, format!("&resourceVersion=@at{middle}@"), TABLE),
                (&whole, "&resourceVersion=@at0@".to_owned(), PARTIAL),
                (&selected, "&resourceVersion=@at0@".to_owned(), ""),
                (&selected, INITIAL.to_owned(), ""),
                (&selected, INITIAL.to_owned(), TABLE),
                (&selected, INITIAL.to_owned(), PARTIAL),
                (&whole, String::new(), ""),
                (&whole, "&resourceVersion=0".to_owned(), ""),
            ] {
                watches.push((format!("{path}{rest}&watch=true"), accept));
            }
        }
        for (attempt, seconds) in SECONDS.into_iter().enumerate() {
            let asked = |which: Which| {
                let pairs = &self.pairs;
                watches.iter().map(move |(path, accept)| Asked {
                    method: "GET",
                    path: format!("{}&timeoutSeconds={seconds}", pairs.fill(which, path)),
                    headers: if accept.is_empty() {
                        Vec::new()
                    } else {
                        vec![("accept", (*accept).to_owned())]
                    },
                    body: String::new(),
                })
            };
            let (real, ours): (Vec<Asked>, Vec<Asked>) =
                (asked(Which::Real).collect(), asked(Which::Ours).collect());
            let (real_got, ours_got) = tokio::join!(
                join_all(real.iter().map(|asked| self.sides.real.ask(asked))),
                join_all(ours.iter().map(|asked| self.sides.ours.ask(asked))),
            );
            let found: Vec<String> = (0..real.len())
                .filter_map(|at| {
                    let outcome = events(&mut self.pairs, &real_got[at], &ours_got[at], tally);
                    let difference = outcome.err()?;
                    Some(format!(
                        "seed {}: watch {} {:?}: {difference}\nreal {}\nours {}",
                        self.seed, real[at].path, real[at].headers, real_got[at].text, ours_got[at].text
                    ))
                })
                .collect();
            if found.is_empty() {
                return;
            }
            if attempt + 1 == SECONDS.len() {
                tally.differences.extend(found.into_iter().take(2));
            }
        }
    }
}

fn events(pairs: &mut Pairs, real: &Answer, ours: &Answer, tally: &mut Tally) -> Result<(), String> {
    if real.code != 200 || ours.code != 200 {
        return compare::answers(pairs, real, ours);
    }
    if real.content_type != ours.content_type {
        return Err(format!("content type: real {:?}, ours {:?}", real.content_type, ours.content_type));
    }
    let (mut real, ours) = (lines(real), lines(ours));
    real.retain(|event| !is_silent(pairs, event));
    tally.events += real.len() as u64;
    for (at, (real, ours)) in real.iter().zip(&ours).enumerate() {
        compare::values(pairs, real, ours).map_err(|difference| format!("event {at}{difference}"))?;
    }
    if real.len() == ours.len() {
        Ok(())
    } else {
        Err(format!("{} events in real, {} in ours", real.len(), ours.len()))
    }
}

/// Whether an event tells of a write that changed nothing.
fn is_silent(pairs: &Pairs, event: &Value) -> bool {
    let object = &event["object"];
    let row = &object["rows"][0]["object"];
    let revision = [row, object].iter().find_map(|of| of["metadata"]["resourceVersion"].as_str());
    event["type"] == "MODIFIED" && revision.is_some_and(|revision| pairs.silent.contains(revision))
}

/// The events, without bookmarks of the passage of time; of others the revision is the server's own.
fn lines(answer: &Answer) -> Vec<Value> {
    const PLACES: [&str; 2] = ["/object/metadata", "/object/rows/0/object/metadata"];
    let events = answer.text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let ends = |event: &Value| {
        PLACES.iter().filter_map(|place| event.pointer(place)).any(|found| found["annotations"].is_object())
    };
    events
        .filter(|event| event["type"] != "BOOKMARK" || ends(event))
        .map(|mut event| {
            let places = if event["type"] == "BOOKMARK" { &PLACES[..] } else { &[] };
            for place in places {
                if let Some(metadata) = event.pointer_mut(place).and_then(Value::as_object_mut) {
                    metadata.shift_remove("resourceVersion");
                }
            }
            event
        })
        .collect()
}
