//! Fleets of machines through all controllers, with an executor that completes every run at once: what CAPT itself costs.
//!
//! Each part runs in a process of its own, so that memory is that part's alone. On the embedded API (on disk, in the same
//! process) and, where `make peers` has built it, on kube-apiserver with etcd. `MACHINES` (10,000) is the size of the
//! large fleet, `REST` (60) how many seconds it is watched at rest, `CAPT_BENCH_PEERS=0` leaves kube-apiserver out.

#![allow(clippy::print_stdout, reason = "a bench prints what it measured")]
#![allow(clippy::cast_precision_loss, reason = "figures are rounded anyway")]

#[allow(dead_code, reason = "the tests use the rest of it")]
#[path = "../tests/scale/fake_executor.rs"]
mod fake_executor;
#[allow(dead_code, reason = "the tests use the rest of it")]
#[path = "../tests/scale/fixture.rs"]
mod fixture;

use std::collections::BTreeMap;
use std::process::Command;
use std::time::{Duration, Instant};

use capt_controllers::Options;
use fixture::Fixture;

/// As the program has it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const PART: &str = "CAPT_BENCH_PART";
const SMALL: i32 = 1000;

#[tokio::main]
async fn main() {
    // `cargo test` runs benches too, with this argument and without wanting a measurement.
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    match std::env::var(PART).ok().as_deref().and_then(|part| part.split_once(' ')) {
        Some(("embedded", part)) => {
            let folder = tempfile::tempdir().expect("a folder");
            let server = capt_apiserver::Server::open(&folder.path().join("api")).await.expect("an API");
            measure(part, server.client("default")).await;
        }
        Some((_, part)) => {
            let peers = capt_e2e::Peers::find(capt_e2e::KubeApiserver::NEEDS).expect("the peers are built");
            let server = capt_e2e::KubeApiserver::start_durable(&peers).await.expect("kube-apiserver");
            measure(part, server.client()).await;
        }
        None => all(),
    }
}

fn number(name: &str, usual: i32) -> i32 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

/// Every part, each in a process of its own.
fn all() {
    let mut apis = vec!["embedded"];
    if number("CAPT_BENCH_PEERS", 1) == 0 {
        println!("kube-apiserver is left out");
    } else if capt_e2e::Peers::find(capt_e2e::KubeApiserver::NEEDS).is_ok() {
        apis.push("kube-apiserver");
    } else {
        println!("kube-apiserver is not built (make peers): only the embedded API is measured");
    }
    for api in apis {
        let memory = if api == "embedded" { "with the API in it" } else { "controllers and engine" };
        println!("on {api} (memory and processor time of one process: {memory})");
        let small = run(api, "small");
        let large = run(api, "large");
        if let (Some(small), Some(large)) = (small, large) {
            let factor = f64::from(number("MACHINES", 10_000)) / f64::from(SMALL);
            println!(
                "  {factor} times as many machines took {:.1} times as long, and {:.1} times the processor time",
                large.0 / small.0,
                large.1 / small.1
            );
        }
    }
}

/// Runs one part; how long its fleet took, and the processor time of that.
fn run(api: &str, part: &str) -> Option<(f64, f64)> {
    let program = std::env::current_exe().expect("this program has a path");
    let output = Command::new(program).env(PART, format!("{api} {part}")).output().expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout);
    for line in text.lines().filter(|line| !line.starts_with('=')) {
        println!("{line}");
    }
    if !output.status.success() {
        println!("  failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    let (time, processor) = text.lines().find_map(|line| line.strip_prefix('='))?.split_once(' ')?;
    Some((time.parse().ok()?, processor.parse().ok()?))
}

async fn measure(part: &str, client: kube::Client) {
    let fixture = Fixture::on(client, &Options::default()).await;
    if part == "small" {
        let (time, processor) = create(&fixture, SMALL).await;
        roll(&fixture, SMALL).await;
        println!("={time} {processor}");
    } else {
        let (time, processor) = create(&fixture, number("MACHINES", 10_000)).await;
        rest(&fixture).await;
        println!("={time} {processor}");
    }
}

async fn create(fixture: &Fixture, count: i32) -> (f64, f64) {
    let empty = memory();
    let (start, processor) = (Instant::now(), processor_time());
    fixture.deploy(count, "small").await;
    fixture.rolled_out().await;
    let (took, processor) = (start.elapsed().as_secs_f64(), processor_time() - processor);
    println!("  {count} machines from nothing to Ready");
    println!("    {took:8.1} s   {:.0} machines/s", f64::from(count) / took);
    println!(
        "    {processor:8.1} s   processor time, {:.2} ms for each",
        processor * 1000.0 / f64::from(count)
    );
    println!("    {:8.1} MB  memory ({:.1} MB before)", memory() / 1e6, empty / 1e6);
    told(&fixture.writes.take(), count, "aim: at most 6");
    (took, processor)
}

async fn roll(fixture: &Fixture, count: i32) {
    let (start, processor) = (Instant::now(), processor_time());
    fixture.deploy(count, "large").await;
    fixture.rolled_out().await;
    let (took, processor) = (start.elapsed().as_secs_f64(), processor_time() - processor);
    println!("  {count} machines replaced, maxSurge 25 %");
    println!("    {took:8.1} s   {:.0} machines/s", f64::from(count) / took);
    println!(
        "    {processor:8.1} s   processor time, {:.2} ms for each",
        processor * 1000.0 / f64::from(count)
    );
    println!("    {:8.1} MB  memory", memory() / 1e6);
    told(&fixture.writes.take(), count, "one made, one destroyed");
}

async fn rest(fixture: &Fixture) {
    let seconds = u64::try_from(number("REST", 60)).expect("some seconds");
    // What is left of the rollout: the last events and the template's count.
    tokio::time::sleep(Duration::from_secs(3)).await;
    fixture.writes.take();
    let (before, processor) = (fixture.versions().await, processor_time());
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    let share = (processor_time() - processor) / seconds as f64 * 100.0;
    let written: u64 = fixture.writes.take().values().sum();
    println!("  at rest for {seconds} s");
    println!("    {share:8.2} %   of a core (aim: under 1)");
    println!("    {:8.1} MB  memory (aim: under 200)", memory() / 1e6);
    println!("    {written:8} writes");
    let now = fixture.versions().await;
    let changed = now.iter().filter(|(name, version)| before.get(*name) != Some(version)).count();
    println!("    {changed:8} of {} objects changed", now.len());
}

fn told(writes: &BTreeMap<String, u64>, count: i32, aim: &str) {
    let of = |number: u64| number as f64 / f64::from(count);
    let events: u64 =
        writes.iter().filter(|(what, _)| what.contains(" events")).map(|(_, number)| number).sum();
    let all: u64 = writes.values().sum();
    println!("    {:8.2}     writes for each ({aim}), {:.2} of them events:", of(all), of(events));
    for (what, number) in writes {
        println!("      {:8.2}  {what}", of(*number));
    }
}

/// Resident memory of this process, in bytes.
fn memory() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    line.trim().trim_end_matches(" kB").parse::<f64>().unwrap_or_default() * 1024.0
}

/// Processor time of this process, in seconds.
fn processor_time() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks =
        |index: usize| fields.get(index).and_then(|field| field.parse::<f64>().ok()).unwrap_or_default();
    // User and system time, in hundredths of a second everywhere that Linux runs.
    (ticks(11) + ticks(12)) / 100.0
}
