//! A controller that stands still at any moment of a run, and another that takes over: no two runs of one workspace overlap, nothing is
//! built twice, and the first one writes nothing any more.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use capt_e2e::until;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::audited::{kubeconfig_of, late_writes};
use crate::world::{Process, SOON, World, command, ready, workspace};

/// Resources, built one after the other.
const RESOURCES: usize = 4;
/// What the Leases of this test last: short, so that a round is.
const LASTS: &str = "3s";

/// Rounds; each has a moment of its own.
fn rounds() -> u64 {
    if std::env::var("CAPT_ATTACK").is_ok_and(|form| form == "long") { 100 } else { 3 }
}

/// Each resource tells who builds it, over and over until it is built.
pub fn module() -> String {
    let resource = |at: usize| {
        let after =
            if at == 0 { String::new() } else { format!("depends_on = [terraform_data.r{}]", at - 1) };
        let say = |what: &str| format!("echo $CAPT_RUN {what} r{at} $(date +%s%N) >> trace");
        let ticks = format!("for i in 1 2 3 4 5 6 7 8; do {}; sleep 0.05; done", say("at"));
        format!(
            "resource \"terraform_data\" \"r{at}\" {{\n  {after}\n  provisioner \"local-exec\" {{\n    command = \"{}; {ticks}; {}\"\n  }}\n}}\n",
            say("begin"),
            say("end"),
        )
    };
    (0..RESOURCES).map(resource).collect()
}

/// A line that a run wrote.
#[derive(Clone, Debug)]
pub struct Line {
    time: u128,
    run: String,
    what: String,
    resource: String,
}

/// All lines of all runs below a folder, by time.
pub fn trace(folder: &Path) -> Vec<Line> {
    let mut lines = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        // What a run removes meanwhile tells nothing.
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push(path);
            } else if entry.file_name() == "trace" {
                lines.extend(std::fs::read_to_string(path).unwrap_or_default().lines().filter_map(line));
            }
        }
    }
    lines.sort_by_key(|line| line.time);
    lines
}

fn line(text: &str) -> Option<Line> {
    let mut words = text.split(' ').map(str::to_owned);
    let (run, what, resource, time) = (words.next()?, words.next()?, words.next()?, words.next()?);
    Some(Line { time: time.parse().ok()?, run, what, resource })
}

/// Says what is wrong with a trace.
pub fn wrong(trace: &[Line]) -> Option<String> {
    let mut seen: Vec<&str> = Vec::new();
    for line in trace {
        if seen.last() != Some(&line.run.as_str()) {
            if seen.contains(&line.run.as_str()) {
                return Some(format!("{} went on beside {}", line.run, seen[seen.len() - 1]));
            }
            seen.push(&line.run);
        }
    }
    // What was being built when a run was interrupted is built again, and that alone.
    let last: BTreeMap<&str, &str> =
        trace.iter().map(|line| (line.run.as_str(), line.resource.as_str())).collect();
    let mut built: BTreeMap<&str, &str> = BTreeMap::new();
    for line in trace.iter().filter(|line| line.what == "begin") {
        if let Some(before) = built.insert(&line.resource, &line.run)
            && last.get(before) != Some(&line.resource.as_str())
        {
            return Some(format!("{} was built by {before} and {}", line.resource, line.run));
        }
    }
    None
}

/// One controller, with a folder of its own.
struct Controller {
    process: Process,
    folder: PathBuf,
}

impl Controller {
    fn start(world: &World, name: &str) -> Self {
        let folder = world.folder.path().join(name);
        let mut command = command(world.folder.path());
        command
            .args(["controller", "--state", "secrets", "--cluster-api", "core", "--lease-duration", LASTS])
            .arg("--kubeconfig")
            .arg(kubeconfig_of(world, name))
            .arg("--data-dir")
            .arg(&folder);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        Self { process: Process(child), folder }
    }

    /// Waits until it has the Lease.
    fn works(&mut self) {
        let mut line = String::new();
        BufReader::new(self.process.0.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert!(line.contains("controllers run"), "{line}");
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.process.0.id()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }
}

/// The same numbers in every run of this test.
fn moment(round: u64) -> Duration {
    let noise = round.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    Duration::from_millis((noise >> 33) % 2500)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_controller_that_stands_still_builds_nothing_twice() {
    if !capt_e2e::runs_on("embedded") || !capt_e2e::has_terraform() {
        return;
    }
    let world = World::server().await;
    world.install().await;
    for round in 0..rounds() {
        let name = format!("w{round}");
        let mut first = Controller::start(&world, &format!("first{round}"));
        first.works();
        world.apply(&workspace(&name, &module(), json!({}))).await;
        let began = until("a run begins", SOON, async || (!trace(&first.folder).is_empty()).then_some(()));
        began.await.unwrap();
        // At any moment of the run: that is the attack.
        tokio::time::sleep(moment(round)).await;
        first.signal(Signal::STOP);
        let mut second = Controller::start(&world, &format!("second{round}"));
        second.works();
        let good = |object: &_| ready(object).is_some_and(|(status, _)| status == "True");
        world.workspace(&name, "another one has finished it", good).await;
        // It wakes up, and gives way.
        first.signal(Signal::CONT);
        let ended = until("the first one ends", SOON, async || first.process.0.try_wait().unwrap());
        assert!(!ended.await.unwrap().success(), "round {round}");
        let late = late_writes(&world, &format!("first{round}"), &format!("second{round}"));
        assert_eq!(late, Vec::<String>::new(), "round {round}");
        let lines = trace(world.folder.path());
        let of_round: Vec<Line> =
            lines.into_iter().filter(|line| line.run.contains(&format!("{name}-"))).collect();
        assert_eq!(wrong(&of_round), None, "round {round}: {of_round:#?}");
        let built =
            |resource: &str| of_round.iter().any(|line| line.what == "end" && line.resource == resource);
        assert!((0..RESOURCES).all(|at| built(&format!("r{at}"))), "round {round}: {of_round:#?}");
    }
}

#[test]
fn a_trace_tells_what_is_wrong() {
    let of = |text: &str| -> Vec<Line> { text.lines().filter_map(line).collect() };
    assert_eq!(wrong(&of("a begin r0 1\na end r0 2\na begin r1 3\nb begin r1 4\nb end r1 5")), None);
    assert!(wrong(&of("a begin r0 1\nb begin r1 2\na end r0 3")).unwrap().contains("beside"));
    assert!(wrong(&of("a begin r0 1\na begin r1 2\nb begin r0 3")).unwrap().contains("built by a and b"));
}
