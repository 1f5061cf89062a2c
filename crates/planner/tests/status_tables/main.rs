//! The tables of `docs/status.md`: from every state, what every event leads to, as the planner decides it.
//!
//! A world is changed by an event; then what the planner plans is done to it until nothing is left to do. Each row of a
//! table is the outcome. `CAPT_WRITE_TABLES=1` writes the tables; otherwise the file must hold them.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod control_plane;
mod network;

use std::fmt::Debug;
use std::path::Path;

use capt_api::workspace::{WorkspaceTemplateApply, WorkspaceTemplateApplySpec, WorkspaceTemplateApplyStatus};
use capt_planner::cluster::{Cluster, ClusterPartStep, Owner, Reference};
use capt_planner::conditions::Conditions;
use capt_planner::owned_workspace::{Kinship, OwnedWorkspace};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use serde_json::{Value, json};

/// One imagined object and all around it.
trait World: Clone + Debug {
    /// Decides, does what was decided, and writes the status. Gives the state and the step.
    fn turn(&mut self) -> (&'static str, ClusterPartStep);
    /// Everything that a status says, for comparison.
    fn said(&self) -> Value;
    fn conditions(&self) -> Vec<Condition>;
    /// What else a row shows.
    fn shown(&self) -> String;
    /// What must hold at rest, whatever happened.
    fn check(&self, state: &str);
}

/// What can happen.
struct Event<W> {
    name: &'static str,
    possible: fn(&W) -> bool,
    happen: fn(&mut W),
}

/// A world at rest: where it is, and what was done until then.
struct Rest<W> {
    world: W,
    state: &'static str,
    steps: Vec<ClusterPartStep>,
}

/// Lets the planner work until nothing is left to do.
fn settle<W: World>(mut world: W) -> Rest<W> {
    let mut steps = Vec::new();
    for _ in 0..12 {
        let before = world.said();
        let (state, step) = world.turn();
        let quiet = step == ClusterPartStep::REST && world.said() == before;
        if step != ClusterPartStep::REST {
            steps.push(step);
        }
        if quiet || state == "Gone" {
            world.check(state);
            return Rest { world, state, steps };
        }
    }
    panic!("no rest: {steps:?} {world:#?}");
}

/// Time alone, where nothing is late, changes nothing that is told.
fn unmoved<W: World>(world: &W, pass: impl Fn(&mut W)) {
    let mut world = settle(world.clone()).world;
    let before = world.said();
    pass(&mut world);
    world.turn();
    assert_eq!(world.said(), before);
}

/// Rows for a state: what each event that changes something leads to.
fn rows<W: World>(from: &str, world: &W, events: &[Event<W>]) -> Vec<String> {
    let before = settle(world.clone());
    let mut rows = Vec::new();
    for event in events.iter().filter(|event| (event.possible)(&before.world)) {
        let mut changed = before.world.clone();
        (event.happen)(&mut changed);
        let after = settle(changed);
        let same = after.state == before.state
            && after.steps.is_empty()
            && told(&after.world.conditions()) == told(&before.world.conditions());
        if same {
            continue;
        }
        // More time that changes nothing more is no row.
        let passed =
            |row: &String| row.contains("minutes pass") && row.contains(&format!("| {} |", after.state));
        if event.name.contains("minutes pass") && rows.iter().any(passed) {
            continue;
        }
        let writes: Vec<&str> = after.steps.iter().map(ClusterPartStep::writes).collect();
        let writes = if writes.is_empty() { "-".to_owned() } else { writes.join("; ") };
        let conditions = told(&after.world.conditions());
        rows.push(format!(
            "| {from} | {} | {} | {conditions} | {} | {writes} |",
            event.name,
            after.state,
            after.world.shown()
        ));
    }
    rows
}

/// Ready with its reason, and which others are true.
fn told(conditions: &[Condition]) -> String {
    let ready = conditions.iter().find(|one| one.type_ == "Ready");
    let mut told: Vec<String> =
        ready.map(|one| format!("Ready={}: {}", one.status, one.reason)).into_iter().collect();
    let mut others: Vec<&str> = conditions
        .iter()
        .filter(|one| one.type_ != "Ready" && one.status == "True")
        .map(|one| one.type_.as_str())
        .collect();
    others.sort_unstable();
    told.extend(others.iter().map(|kind| (*kind).to_owned()));
    if told.is_empty() { "-".to_owned() } else { told.join(", ") }
}

/// Compares a table with the file, or writes it there.
fn check_table(name: &str, rows: &[String]) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/status.md");
    let text = std::fs::read_to_string(&path).unwrap();
    let (begin, end) = (format!("<!-- {name}: begin -->\n"), format!("<!-- {name}: end -->"));
    let start = text.find(&begin).expect("the table's beginning is marked") + begin.len();
    let stop = text.find(&end).expect("the table's end is marked");
    let table = format!(
        "| State | Event | Next state | Conditions that are true, and Ready | Shown | Written beside the status |\n\
         |---|---|---|---|---|---|\n{}\n",
        rows.join("\n")
    );
    if std::env::var_os("CAPT_WRITE_TABLES").is_some() {
        std::fs::write(&path, format!("{}{table}{}", &text[..start], &text[stop..])).unwrap();
        return;
    }
    let there = &text[start..stop];
    for (line, (is, should)) in there.lines().zip(table.lines()).enumerate() {
        assert_eq!(is, should, "row {line} of {name} in docs/status.md (CAPT_WRITE_TABLES=1 writes it)");
    }
    assert_eq!(there, table, "{name} in docs/status.md (CAPT_WRITE_TABLES=1 writes it)");
}

/// A long random walk: whatever happens in whatever order, the world comes to rest and its checks hold.
fn wander<W: World>(start: &W, events: &[Event<W>], walks: u64) {
    for walk in 0..walks {
        let mut seed = walk.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut world = settle(start.clone()).world;
        for _ in 0..14 {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            let possible: Vec<&Event<W>> = events.iter().filter(|event| (event.possible)(&world)).collect();
            let Some(event) = possible.get(usize::try_from(seed >> 33).unwrap() % possible.len().max(1))
            else {
                break;
            };
            (event.happen)(&mut world);
            let rest = settle(world);
            world = rest.world;
            if rest.state == "Gone" {
                break;
            }
        }
    }
}

fn start() -> Timestamp {
    Timestamp::from_second(1_900_000_000).unwrap()
}

fn minutes(count: i64) -> SignedDuration {
    SignedDuration::from_mins(count)
}

/// The Cluster `demo`.
fn cluster() -> Cluster {
    let reference = |group: &str, kind: &str| {
        Some(Reference { group: group.into(), kind: kind.into(), name: "demo".into() })
    };
    Cluster {
        name: "demo".into(),
        infrastructure: reference("infrastructure.cluster.x-k8s.io", "CAPTCluster"),
        control_plane: reference("controlplane.cluster.x-k8s.io", "CAPTControlPlane"),
        ..Cluster::default()
    }
}

fn deleting(owner: &mut Owner) {
    if let Owner::Found(cluster) = owner {
        cluster.deleting = true;
    }
}

/// How the workspace's own controller would leave it.
enum Run<'a> {
    New,
    Waits(&'a str),
    UnderWay,
    Done(Value),
    Fails,
    Stalls,
}

/// The workspace after a run. `before`: what stood, and the failure that was told last.
fn workspace(
    name: &str,
    run: &Run<'_>,
    before: Option<&OwnedWorkspace>,
    told: Option<&str>,
) -> OwnedWorkspace {
    let spec = WorkspaceTemplateApplySpec::default();
    let mut apply = WorkspaceTemplateApply::new(name, spec);
    apply.metadata.generation = Some(1);
    let mut status = WorkspaceTemplateApplyStatus {
        observed_generation: Some(1),
        workspace_name: Some(name.trim_end_matches("-apply").to_owned()),
        ..WorkspaceTemplateApplyStatus::default()
    };
    if let Some(before) = before {
        status.last_applied_revision.clone_from(&before.summary.last_applied_revision);
        status.last_failure_message.clone_from(&before.summary.last_failure_message);
        status.outputs.clone_from(&before.summary.outputs);
    }
    let mut conditions = Conditions::new(&[], Some(1), start());
    match run {
        Run::New => {}
        Run::Waits(reason) => conditions.set("Ready", false, reason, "WorkspaceTemplate t does not exist"),
        Run::UnderWay => conditions.set("Ready", false, "Applying", "2 of 5"),
        Run::Done(outputs) => {
            status.last_applied_revision = Some("r".into());
            status.last_failure_message = None;
            status.outputs = serde_json::from_value(outputs.clone()).unwrap();
            conditions.set("Ready", true, "Ready", "");
        }
        Run::Fails => {
            status.last_failure_message = Some("the provider said no".into());
            conditions.set("Ready", false, "ApplyFailed", "the provider said no; again in 30s");
        }
        Run::Stalls => {
            status.last_failure_message = Some("line 3: no such thing".into());
            conditions.set("Ready", false, "InvalidModule", "line 3: no such thing");
            conditions.set("Stalled", true, "InvalidModule", "line 3: no such thing");
        }
    }
    status.conditions = conditions.into_list();
    apply.status = if matches!(run, Run::New) { None } else { Some(status) };
    let template = apply.spec.template_ref.clone();
    OwnedWorkspace {
        kinship: before.map_or(Kinship::Ours, |before| before.kinship),
        held: before.is_some_and(|before| before.held),
        ..OwnedWorkspace::read(&apply, &ObjectMeta::default(), &template, None, told)
    }
}

fn json_of(status: &impl serde::Serialize) -> Value {
    json!(status)
}
