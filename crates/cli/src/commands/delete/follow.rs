//! A deletion, followed: what is gone, what is left, and what blocks it.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::time::Duration;

use capt_api::conditions::types;
use kube::ResourceExt;
use kube::api::DynamicObject;
use serde_json::Value;
use tokio::time::Instant;

use super::super::Outcome;
use super::super::client::Connection;
use super::super::family::Member;
use crate::commands::client::in_words;
use crate::commands::object::ResourceKind;

/// Interval of checks.
const EVERY: Duration = Duration::from_millis(500);
/// Time without progress after which the blockers are printed.
const QUIET: Duration = Duration::from_secs(10);
/// As many runs are named at a time.
const RUNS: usize = 3;

/// Remaining objects, by uid.
type Left = BTreeMap<String, Member>;

/// Says how it goes until all are gone.
pub async fn to_the_end(
    connection: &Connection,
    members: Vec<Member>,
    timeout: Duration,
) -> io::Result<Outcome> {
    let deadline = (!timeout.is_zero()).then(|| Instant::now() + timeout);
    let mut left: BTreeMap<String, Member> =
        members.into_iter().filter_map(|member| Some((member.object.uid()?, member))).collect();
    let mut said = String::new();
    let mut moved = Instant::now();
    loop {
        let asked = Instant::now();
        let gone = look(connection, &mut left).await?;
        // A large fleet takes long to list: most of the time nobody is asked.
        let pause = EVERY.max(asked.elapsed() * 3);
        if !gone.is_empty() {
            moved = Instant::now();
        }
        let mut out = anstream::stdout().lock();
        for member in gone.iter().filter(|member| worth_a_line(member)) {
            writeln!(out, "{} is gone", member.reference())?;
        }
        if left.is_empty() {
            return Ok(Outcome::Good);
        }
        let words = words(&left, moved.elapsed() > QUIET);
        if words != said {
            writeln!(out, "{words}")?;
            said = words;
        }
        drop(out);
        let wait = async {
            tokio::time::sleep(pause).await;
            deadline.is_some_and(|deadline| Instant::now() >= deadline)
        };
        tokio::select! {
            late = wait => if late {
                let blocks = blocked(&left).or_else(|| waits(&left)).unwrap_or_else(|| said.clone());
                return Err(io::Error::other(format!(
                    "not gone in time: {blocks}\n  the deletion continues in the background; see it: capt events --watch"
                )));
            },
            _ = tokio::signal::ctrl_c() => {
                writeln!(anstream::stdout(), "\nthe deletion continues in the background")?;
                return Ok(Outcome::Bad);
            }
        }
    }
}

/// Sets and their workspaces come in numbers: what they belong to tells of them.
fn worth_a_line(member: &Member) -> bool {
    !matches!(member.kind.name.as_str(), "CaptMachineSet" | "WorkspaceTemplateApply")
        || !owned(&member.object)
}

fn owned(object: &DynamicObject) -> bool {
    object.owner_references().iter().any(|owner| owner.controller == Some(true))
}

/// Brings what is left up to date; gives what is gone since, in the order in which it goes: what is owned before its owner.
async fn look(connection: &Connection, left: &mut Left) -> io::Result<Vec<Member>> {
    let mut now = BTreeMap::new();
    let mut kinds: Vec<&'static ResourceKind> = Vec::new();
    for member in left.values() {
        if !kinds.iter().any(|kind| kind.name == member.kind.name) {
            kinds.push(member.kind);
        }
    }
    for kind in kinds {
        let api = kind.api(connection, Some(&connection.namespace)).await?;
        let listed = api.list(&kube::api::ListParams::default()).await.map_err(in_words)?;
        for object in listed.items {
            if let Some(uid) = object.uid().filter(|uid| left.contains_key(uid)) {
                now.insert(uid, Member { kind, object });
            }
        }
    }
    // What was let go on purpose, such as a network that is kept, is not waited for.
    now.retain(|_, member| !member.object.labels().contains_key(capt_api::names::labels::RETAINED));
    let before = std::mem::replace(left, now);
    let mut gone: Vec<Member> =
        before.into_iter().filter(|(uid, _)| !left.contains_key(uid)).map(|(_, member)| member).collect();
    gone.sort_by_key(|member| Reverse(member.depth()));
    Ok(gone)
}

/// One line: what is left, what is destroyed just now, and what blocks.
fn words(left: &Left, quiet: bool) -> String {
    let mut counts: Vec<(&str, usize)> = Vec::new();
    for member in left.values().filter(|member| worth_a_line(member)) {
        match counts.iter_mut().find(|(name, _)| *name == member.kind.name) {
            Some((_, count)) => *count += 1,
            None => counts.push((&member.kind.name, 1)),
        }
    }
    counts.sort_unstable();
    let counts: Vec<String> = counts.into_iter().map(|(name, count)| format!("{count} {name}")).collect();
    let mut words = format!("left: {}", counts.join(", "));
    let runs: Vec<String> = left.values().filter_map(progress).take(RUNS).collect();
    if !runs.is_empty() {
        words.push_str("; destroys ");
        words.push_str(&runs.join(", "));
    }
    let why = blocked(left).or_else(|| waits(left).filter(|_| quiet));
    why.map_or(words.clone(), |why| format!("{words}; {why}"))
}

/// Progress of a workspace's run: `demo-vpc 3/7 aws_subnet.b`.
fn progress(member: &Member) -> Option<String> {
    let workspace = member.workspace()?;
    let run = workspace.status?.progress.filter(|run| run.total > 0)?;
    let current = run.current.map(|address| format!(" {address}")).unwrap_or_default();
    Some(format!("{} {}/{}{current}", member.object.name_any(), run.done, run.total))
}

/// Blocker of the deletion: a workspace that fails, or a user who paused it.
fn blocked(left: &Left) -> Option<String> {
    let failing = left.values().find_map(|member| {
        let condition = condition(&member.object, types::STALLED).or_else(|| {
            // A failed destroy is tried again: that is worth knowing, too.
            let failures = member.object.data.pointer("/status/consecutiveFailures").and_then(Value::as_i64);
            failures.filter(|count| *count > 0).and_then(|_| condition(&member.object, types::READY))
        })?;
        Some(format!("{} is in the way: {condition}", member.reference()))
    });
    let paused = || {
        let paused = |member: &&Member| condition(&member.object, types::PAUSED).is_some();
        left.values()
            .find(paused)
            .map(|member| format!("{} is paused: capt resume {}", member.reference(), member.reference()))
    };
    failing.or_else(paused)
}

/// Objects that a deletion in progress waits for.
fn waits(left: &Left) -> Option<String> {
    left.values().find_map(|member| {
        Some(format!("{}: {}", member.reference(), condition(&member.object, types::DELETING)?))
    })
}

/// The message of a condition that is true, or of one that says why it is not.
fn condition(object: &DynamicObject, kind: &str) -> Option<String> {
    let all = object.data.pointer("/status/conditions")?.as_array()?;
    let found = all.iter().find(|condition| condition["type"] == kind)?;
    if found["status"] != "True" && kind != types::READY {
        return None;
    }
    let message = found["message"].as_str().unwrap_or_default();
    let text = if message.is_empty() { found["reason"].as_str().unwrap_or_default() } else { message };
    Some(text.lines().next().unwrap_or_default().to_owned())
}
