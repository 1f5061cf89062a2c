//! The engine is killed at random moments until its work is done. Afterwards traces tell whether anything was made twice, or
//! forgotten.
//!
//! The engine runs in a process of its own: this test binary again, with [`worker`] as its only test.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use capt_terraform::{
    Engine, Executor,
    inputs::Inputs,
    order::{Operation, Order, WorkspaceId},
    view::Outcome,
};

use crate::lab::{Tool, start, tools, trace};

const WORKSPACES: usize = 4;
const FOLDER: &str = "CAPT_KILL_FOLDER";
/// Kills in a row before the worker is left alone, so that a round ends.
const KILLS: usize = 12;
/// Kills so far, for whoever soaks.
static KILLED: AtomicUsize = AtomicUsize::new(0);

/// `make e2e` asks for more.
fn rounds() -> u64 {
    std::env::var("CAPT_KILL_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(6)
}

/// How many kills of Terraform there are to be, in as many rounds as that takes; `make soak` asks for hundreds.
fn wanted() -> usize {
    std::env::var("CAPT_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(0)
}

/// Two resources, one after the other, each with a trace.
fn module(folder: &Path, name: &str) -> String {
    let resource = |resource: &str, after: &str| {
        format!(
            "resource \"terraform_data\" \"{resource}\" {{\n  input = \"{trace}\"\n  {after}\n  provisioner \"local-exec\" {{\n    \
             command = \"echo create {name}.{resource} >> ${{self.input}}; sleep 0.05\"\n  }}\n  provisioner \"local-exec\" {{\n    \
             when = destroy\n    command = \"echo destroy {name}.{resource} >> ${{self.input}}; sleep 0.05\"\n  }}\n}}\n",
            trace = folder.join("trace").display()
        )
    };
    format!("{}{}", resource("one", ""), resource("two", "depends_on = [terraform_data.one]"))
}

fn inputs(folder: &Path, tool: &Tool, name: &str) -> Inputs {
    let mut inputs = Inputs::inline(module(folder, name));
    inputs.binary.name = tool.name;
    inputs
}

/// Not a test: the process that is killed. Started by the tests of this file, which name its folder; brings all workspaces where the file `goal` wants them.
#[tokio::test(flavor = "multi_thread")]
async fn worker() {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else { return };
    let tool = tools()
        .into_iter()
        .find(|tool| format!("{:?}", tool.name) == read(&folder, "tool"))
        .expect("the tool");
    let create = read(&folder, "goal") == "create";
    let engine = start(&folder, &tool, |_| ()).await;
    let mut changes = engine.changes();
    while !settled(&engine, &folder, &tool, create).await {
        let _ = tokio::time::timeout(Duration::from_millis(500), changes.recv()).await;
    }
    fs::write(folder.join("reached"), "").expect("write");
}

/// What a controller does: looks, and orders what is missing.
async fn settled(engine: &Engine, folder: &Path, tool: &Tool, create: bool) -> bool {
    let mut all = true;
    for at in 0..WORKSPACES {
        let (name, workspace) = (format!("w{at}"), WorkspaceId::new(format!("w{at}")));
        let view = engine.observe(&workspace);
        let wanted = inputs(folder, tool, &name);
        let there = if create { view.applied == engine.revision(&wanted).await.ok() } else { !view.touched };
        all &= there && view.run.is_none();
        if !there && view.run.is_none() {
            let (operation, inputs) =
                if create { (Operation::Apply, Some(wanted)) } else { (Operation::Destroy, None) };
            engine.start_run(Order::new(workspace, operation, inputs)).await.expect("taken");
        }
    }
    all
}

fn read(folder: &Path, name: &str) -> String {
    fs::read_to_string(folder.join(name)).expect("written by the test")
}

fn spawn(folder: &Path) -> Child {
    Command::new(std::env::current_exe().expect("this binary"))
        .args(["--exact", "killed::worker"])
        .env(FOLDER, folder)
        .stdout(Stdio::null())
        .stderr(fs::File::create(folder.join("worker.err")).expect("a file"))
        .spawn()
        .expect("starts")
}

/// The same numbers in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }
}

/// Drives a goal through kills. `also`: what else is killed with the engine, and whether there was any; tells how often.
async fn drive(folder: &Path, goal: &str, random: &mut Random, also: impl Fn(&Path) -> bool) -> usize {
    fs::write(folder.join("goal"), goal).expect("write");
    let _ = fs::remove_file(folder.join("reached"));
    let mut others = 0;
    for kills in 0.. {
        let mut child = spawn(folder);
        let patience =
            if kills < KILLS { Duration::from_millis(random.below(500)) } else { crate::lab::PATIENCE };
        let ended =
            capt_e2e::until("the worker ends", patience, async || child.try_wait().expect("waits")).await;
        if ended.is_err() {
            child.kill().expect("killed");
            child.wait().expect("waited");
            others += usize::from(also(folder));
            KILLED.fetch_add(1, Ordering::Relaxed);
        }
        if folder.join("reached").exists() {
            break;
        }
        assert!(kills <= KILLS, "left alone, and still not there: {}", story(folder));
    }
    others
}

/// What a round that went wrong left behind.
fn story(folder: &Path) -> String {
    let mut story = fs::read_to_string(folder.join("worker.err")).unwrap_or_default();
    for path in crate::lab::files_named(&folder.join("data"), "record.json") {
        let record: serde_json::Value =
            fs::read(path).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default();
        for field in ["workspace", "touched", "unsaved", "current", "last"] {
            story.extend(["\n", field, ": ", &record["record"][field].to_string()]);
        }
    }
    story
}

fn counts(folder: &Path) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for line in trace(&folder.join("trace")) {
        *counts.entry(line).or_default() += 1;
    }
    counts
}

fn expected(what: &str) -> impl Iterator<Item = String> {
    (0..WORKSPACES).flat_map(move |at| ["one", "two"].map(|resource| format!("{what} w{at}.{resource}")))
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_killed_at_any_moment_makes_nothing_twice() {
    let tools = tools();
    for round in 0..rounds() {
        let Some(tool) = tools.get(usize::try_from(round).expect("small") % tools.len().max(1)) else {
            return;
        };
        let lab = tempfile::tempdir().expect("a folder");
        let folder = lab.path();
        fs::write(folder.join("tool"), format!("{:?}", tool.name)).expect("write");
        let mut random = Random(round + 1);
        drive(folder, "create", &mut random, |_| false).await;
        for line in expected("create") {
            assert_eq!(
                counts(folder).get(&line),
                Some(&1),
                "round {round}: {line}: {:?}",
                trace(&folder.join("trace"))
            );
        }
        drive(folder, "destroy", &mut random, |_| false).await;
        for line in expected("create").chain(expected("destroy")) {
            assert_eq!(
                counts(folder).get(&line),
                Some(&1),
                "round {round}: {line}: {:?}",
                trace(&folder.join("trace"))
            );
        }
        none_left(folder, tool).await;
    }
    println!("{} kills so far, nothing made twice or left behind", KILLED.load(Ordering::Relaxed));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_binary_killed_at_any_moment_leaves_nothing_behind() {
    let tools = tools();
    let mut kills = 0;
    // Not every kill of the engine finds a Terraform to kill with it.
    for round in 0..rounds() * 10 {
        if round >= rounds() && kills >= wanted() {
            break;
        }
        let Some(tool) = tools.get(usize::try_from(round).expect("small") % tools.len().max(1)) else {
            return;
        };
        let lab = tempfile::tempdir().expect("a folder");
        let folder = lab.path();
        fs::write(folder.join("tool"), format!("{:?}", tool.name)).expect("write");
        let mut random = Random(round + 1001);
        kills += drive(folder, "create", &mut random, crate::stopped::kill_runs_in).await;
        let made = counts(folder);
        for line in expected("create") {
            assert!(made.contains_key(&line), "round {round}: {line} is missing: {made:?}");
        }
        kills += drive(folder, "destroy", &mut random, crate::stopped::kill_runs_in).await;
        let gone = counts(folder);
        for line in expected("destroy") {
            assert!(gone.contains_key(&line), "round {round}: {line} is missing: {gone:?}");
        }
        none_left(folder, tool).await;
    }
    println!("Terraform was killed {kills} times, and nothing was left behind");
    assert!(kills >= wanted(), "{kills} kills of Terraform, and {} are wanted", wanted());
}

async fn none_left(folder: &Path, tool: &Tool) {
    let engine = start(folder, tool, |_| ()).await;
    for at in 0..WORKSPACES {
        let view = engine.observe(&WorkspaceId::new(format!("w{at}")));
        assert_eq!((view.resources, view.touched), (0, false));
        assert_eq!(view.last.map(|last| last.outcome), Some(Outcome::Done));
    }
}
