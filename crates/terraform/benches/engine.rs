//! 200 one-resource workspaces: through the engine, by a plain parallel shell loop over folders that need no init, and by a loop that
//! runs `init`, `plan` and `apply` each time.
//!
//! The loop is the least that can be done: it keeps no record, no log, survives nothing. Rounds alternate, so that what else the
//! machine does hits all alike; the best of each is compared.

#![expect(clippy::print_stdout, reason = "a benchmark's result is what it prints")]
#![expect(clippy::unwrap_used, reason = "a benchmark that cannot run should say where")]

use std::{
    collections::BTreeSet,
    fs,
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use capt_terraform::{
    Engine, Executor, Options,
    inputs::{BinaryName, Inputs},
    order::{Operation, Order, WorkspaceId},
    view::Outcome,
};

const MODULE: &str = "variable \"n\" {\n  default = 1\n}\nresource \"terraform_data\" \"a\" {\n  input = var.n\n}\noutput \"n\" {\n  value = terraform_data.a.output\n}\n";

fn main() {
    let number = |name: &str, otherwise| {
        std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
    };
    let (workspaces, rounds) = (number("CAPT_BENCH_WORKSPACES", 200), number("CAPT_BENCH_ROUNDS", 3));
    if Command::new("terraform").arg("version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_err()
    {
        println!("terraform is not installed: nothing to measure");
        return;
    }
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    println!("{workspaces} workspaces of one resource, {cores} at a time, best of {rounds}:");
    let mut best = [Cost::MOST; 3];
    let mut memory = 0;
    for _ in 0..rounds {
        best[0] = best[0].min(shell(workspaces, cores, "terraform apply -json -auto-approve -input=false"));
        let (cost, peak) = engine(workspaces);
        best[1] = best[1].min(cost);
        memory = memory.max(peak);
    }
    let thrice = "terraform init -input=false && terraform plan -input=false -out=plan && terraform apply -json -input=false plan";
    best[2] = shell(workspaces, cores, thrice);
    for (name, cost) in
        ["plain shell loop (xargs -P), apply only", "the engine", "shell loop with init, plan and apply"]
            .iter()
            .zip(&best)
    {
        let times = |own: Duration, of: Duration| own.as_secs_f64() / of.as_secs_f64();
        println!(
            "  {name:<40} {:>6.2} s {:.2}x   processor {:>6.2} s {:.2}x",
            cost.took.as_secs_f64(),
            times(cost.took, best[0].took),
            cost.processor.as_secs_f64(),
            times(cost.processor, best[0].processor)
        );
    }
    println!("  memory of the engine's process at most: {} MB", memory / 1024);
}

/// What something cost. Processor time, of all processes together, is what a busy machine disturbs least.
#[derive(Clone, Copy)]
struct Cost {
    took: Duration,
    processor: Duration,
}

impl Cost {
    const MOST: Self = Self { took: Duration::MAX, processor: Duration::MAX };

    fn min(self, other: Self) -> Self {
        Self { took: self.took.min(other.took), processor: self.processor.min(other.processor) }
    }

    fn since(begin: Instant, processor: Duration) -> Self {
        Self { took: begin.elapsed(), processor: processor_time().saturating_sub(processor) }
    }
}

/// Of this process, and of all below it that ended.
fn processor_time() -> Duration {
    let stat = fs::read_to_string("/proc/self/stat").unwrap();
    let (_, rest) = stat.rsplit_once(") ").unwrap();
    let ticks: u64 = rest.split(' ').skip(11).take(4).map(|field| field.parse::<u64>().unwrap()).sum();
    Duration::from_millis(ticks * 10)
}

/// Runs a command in each of many folders.
fn shell(workspaces: usize, cores: usize, command: &str) -> Cost {
    let lab = tempfile::tempdir().unwrap();
    for at in 0..workspaces {
        let folder = lab.path().join(at.to_string());
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("main.tf"), MODULE).unwrap();
    }
    let script =
        format!("seq 0 {} | xargs -P{cores} -I@ sh -c 'cd @ && ({command}) >out 2>err'", workspaces - 1);
    let (begin, before) = (Instant::now(), processor_time());
    let status = Command::new("sh")
        .args(["-c", &script])
        .current_dir(lab.path())
        .env("CHECKPOINT_DISABLE", "1")
        .env("TF_CLI_CONFIG_FILE", "/dev/null")
        .status()
        .unwrap();
    let cost = Cost::since(begin, before);
    assert!(status.success());
    assert!((0..workspaces).all(|at| lab.path().join(at.to_string()).join("terraform.tfstate").exists()));
    cost
}

/// The same through the engine, and the most memory its process had.
fn engine(workspaces: usize) -> (Cost, u64) {
    let lab = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let mut options = Options::new(lab.path().join("data"));
        options.guard = env!("CARGO_BIN_EXE_capt-guard").into();
        let engine = Engine::start(options).await.unwrap();
        let mut changes = engine.changes();
        let mut inputs = Inputs::inline(MODULE);
        inputs.binary.name = BinaryName::Terraform;
        let (begin, before) = (Instant::now(), processor_time());
        let names: Vec<WorkspaceId> =
            (0..workspaces).map(|at| WorkspaceId::new(format!("ns/w{at}"))).collect();
        for name in &names {
            engine.start_run(Order::new(name.clone(), Operation::Apply, Some(inputs.clone()))).await.unwrap();
        }
        let done =
            |name: &WorkspaceId| engine.observe(name).last.is_some_and(|last| last.outcome == Outcome::Done);
        let mut left: BTreeSet<WorkspaceId> = names.iter().cloned().collect();
        while !left.is_empty() {
            let changed = changes.recv().await.unwrap();
            if left.contains(&changed) && engine.observe(&changed).run.is_none() {
                left.remove(&changed);
            }
        }
        let cost = Cost::since(begin, before);
        assert!(names.iter().all(done));
        let peak = peak_memory(Path::new("/proc/self/status"));
        engine.stop().await;
        (cost, peak)
    })
}

/// In kB.
fn peak_memory(status: &Path) -> u64 {
    let text = fs::read_to_string(status).unwrap_or_default();
    text.lines()
        .find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix("kB")?.trim().parse().ok())
        .unwrap_or(0)
}
