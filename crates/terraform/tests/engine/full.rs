//! A disk that runs full under a run: nothing that was made is forgotten, and nothing is made twice.
//!
//! The engine works on a small disk in memory, in a process with a mount of its own: this test binary again, with [`worker`] as
//! its only test.

use std::{
    collections::BTreeMap,
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
};

use capt_terraform::{
    Executor,
    inputs::Inputs,
    order::{Operation, Order, WorkspaceId},
    view::{Finished, Outcome},
};

use crate::lab::{Tool, reason, start, tools, trace};

const FOLDER: &str = "CAPT_FULL_FOLDER";
const THINGS: usize = 120;
/// Set aside for a run; the disk of 4 MiB holds it once, beside much else.
const RESERVE: u64 = 1 << 20;

/// Many things with traces outside of the disk, and a state that grows with each. All but the first ones wait until the disk is
/// said to be full, however slow whoever fills it is.
fn module(trace: &Path) -> String {
    let trace = trace.display();
    let padding = "x".repeat(600);
    let wait = |word: &str, trace: &str| {
        format!(
            "until test -e {trace}.full || ! grep -q {word} {trace} 2>/dev/null; do sleep 0.05; done; echo {word} ${{count.index}} >> {trace}"
        )
    };
    let create = wait("create", &trace.to_string());
    let destroy = wait("destroy", r#"${split(" ", self.input)[0]}"#);
    format!(
        r#"resource "terraform_data" "a" {{
  count = {THINGS}
  input = "{trace} {padding}"
  provisioner "local-exec" {{
    command = <<-EOT
      {create}
    EOT
  }}
  provisioner "local-exec" {{
    when    = destroy
    command = <<-EOT
      {destroy}
    EOT
  }}
}}
"#
    )
}

/// Starts the worker with a small disk in `folder/data`; `None` where nobody may mount one.
fn on_a_small_disk(folder: &Path) -> Option<Command> {
    let spaces: &[&str] = if is_root() { &["-m"] } else { &["-rm"] };
    let disk = folder.join("data");
    fs::create_dir_all(&disk).expect("a folder");
    let mount = "mount -t tmpfs -o size=4m,mode=0700 tmpfs \"$0\"";
    let command = |then: &str| {
        let mut command = Command::new("unshare");
        command.args(spaces).args(["sh", "-c", &format!("{mount} && {then}")]).arg(&disk);
        command
    };
    command("true").output().is_ok_and(|output| output.status.success()).then(|| command("exec \"$@\""))
}

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0)
}

#[test]
fn nothing_is_forgotten_and_nothing_made_twice() {
    for tool in tools() {
        for restarts in [false, true] {
            let lab = tempfile::tempdir().expect("a folder");
            let Some(mut worker) = on_a_small_disk(lab.path()) else {
                assert!(!capt_e2e::required(), "nobody may mount a small disk here");
                capt_e2e::skip("nobody may mount a small disk here (unshare -rm)");
                return;
            };
            fs::write(lab.path().join("tool"), format!("{:?}", tool.name)).expect("write");
            if restarts {
                fs::write(lab.path().join("restarts"), "").expect("write");
            }
            let ended = worker
                .arg(std::env::current_exe().expect("this binary"))
                .args(["--exact", "full::worker", "--nocapture"])
                .env(FOLDER, lab.path())
                .output()
                .expect("starts");
            let said = String::from_utf8_lossy(&ended.stdout) + String::from_utf8_lossy(&ended.stderr);
            assert!(ended.status.success(), "{:?}, restarts: {restarts}\n{said}", tool.name);
            assert!(said.contains("1 passed"), "{said}");
        }
    }
}

/// Somebody who takes whatever is free on a disk, and whatever becomes free.
struct Greedy {
    file: PathBuf,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Greedy {
    fn on(disk: &Path) -> Self {
        let (file, stop) = (disk.join("greedy"), Arc::new(AtomicBool::new(false)));
        let mut taken = fs::File::create(&file).expect("a file");
        while taken.write_all(&[0; 4096]).is_ok() {}
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                while taken.write_all(&[0; 4096]).is_ok() {}
                std::thread::yield_now();
            }
        });
        Self { file, stop, thread: Some(thread) }
    }
}

impl Drop for Greedy {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.thread.take().map(JoinHandle::join);
        assert!(matches!(ended, Some(Ok(()))), "the thread ends well");
        fs::remove_file(&self.file).expect("removed");
    }
}

/// Not a test: the process on the small disk.
#[tokio::test(flavor = "multi_thread")]
async fn worker() {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else { return };
    let name = fs::read_to_string(folder.join("tool")).expect("written by the test");
    let tool = tools().into_iter().find(|tool| format!("{:?}", tool.name) == name).expect("the tool");
    let mut disk = Disk::on(folder, tool).await;

    let greedy = disk.runs_full(Operation::Apply).await;
    let made = disk.counts("create");
    assert!(!made.is_empty(), "the disk was full before anything was made");
    let refused = disk.run(Operation::Apply).await;
    assert_eq!(reason(&refused), "DiskFull");
    assert_eq!(disk.counts("create"), made, "a run that cannot write down what it makes is not started");
    drop(greedy);
    let done = disk.run(Operation::Apply).await;
    assert_eq!(done.outcome, Outcome::Done, "{done:?}");
    assert_eq!(disk.counts("create"), each(1), "after {} were made on the full disk", made.len());
    assert_eq!(disk.engine.observe(&disk.workspace).resources, THINGS);

    drop(disk.runs_full(Operation::Destroy).await);
    let done = disk.run(Operation::Destroy).await;
    assert_eq!(done.outcome, Outcome::Done, "{done:?}");
    assert_eq!((disk.counts("create"), disk.counts("destroy")), (each(1), each(1)));
    assert!(!disk.engine.observe(&disk.workspace).touched);
}

fn each(times: usize) -> BTreeMap<usize, usize> {
    (0..THINGS).map(|at| (at, times)).collect()
}

/// A small disk with an engine on it.
struct Disk {
    folder: PathBuf,
    tool: Tool,
    engine: capt_terraform::Engine,
    workspace: WorkspaceId,
}

impl Disk {
    async fn on(folder: PathBuf, tool: Tool) -> Self {
        let engine = start(&folder, &tool, |options| options.reserve_bytes = RESERVE).await;
        Self { folder, tool, engine, workspace: WorkspaceId::new("a") }
    }

    async fn order(&self, operation: Operation) {
        let mut inputs = Inputs::inline(module(&self.folder.join("trace")));
        inputs.binary.name = self.tool.name;
        self.engine
            .start_run(Order::new(self.workspace.clone(), operation, Some(inputs)))
            .await
            .expect("taken");
    }

    /// How the run ended, once it has.
    async fn ended(&self) -> Finished {
        let ended = capt_e2e::until("the run ends", crate::lab::PATIENCE, async || {
            let view = self.engine.observe(&self.workspace);
            view.last.filter(|_| view.run.is_none())
        });
        ended.await.expect("ends")
    }

    async fn run(&self, operation: Operation) -> Finished {
        self.order(operation).await;
        self.ended().await
    }

    /// Runs on a disk that is full from when the first thing is done. A destroy may come through: its state only shrinks.
    async fn runs_full(&mut self, operation: Operation) -> Greedy {
        let as_expected = |ended: Finished| {
            let through = operation == Operation::Destroy && ended.outcome == Outcome::Done;
            // Where not even the exit code could be written down, nobody knows better than that it was killed.
            assert!(through || ["DiskFull", "Killed"].contains(&reason(&ended)), "{ended:?}");
        };
        let gate = self.folder.join("trace.full");
        // There is none before the first time.
        let _ = fs::remove_file(&gate);
        self.order(operation.clone()).await;
        let begun = capt_e2e::until("the run does something", crate::lab::PATIENCE, async || {
            self.engine.observe(&self.workspace).run?.progress.done.checked_sub(1)
        });
        begun.await.expect("begins");
        let greedy = Greedy::on(&self.folder.join("data"));
        fs::write(&gate, "").expect("beside the disk");
        as_expected(self.ended().await);
        if self.folder.join("restarts").exists() {
            self.engine.clone().stop().await;
            self.engine = start(&self.folder, &self.tool, |options| options.reserve_bytes = RESERVE).await;
            as_expected(self.ended().await);
        }
        greedy
    }

    fn counts(&self, what: &str) -> BTreeMap<usize, usize> {
        let mut counts = BTreeMap::new();
        for line in trace(&self.folder.join("trace")) {
            if let Some(at) = line.strip_prefix(what) {
                *counts.entry(at.trim().parse().expect("a number")).or_default() += 1;
            }
        }
        counts
    }
}
