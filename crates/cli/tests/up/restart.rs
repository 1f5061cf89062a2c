//! Stopped and killed in the middle of an apply: nothing is lost, nothing is made twice.

use std::path::Path;
use std::time::Instant;

use crate::plane::{PAUSE, Plane, SOON, capt};

/// A workspace that makes three things, which are complete when the test says so. A run may write its own folder, and
/// read those of the PATH.
fn manifest(folder: &Path) -> String {
    let gate = folder.join("gate");
    let gate = gate.display();
    let command = format!(
        "echo made >> ${{path.root}}/made; while [ -d {gate} ] && [ ! -e {gate}/go ]; do sleep 0.05; done"
    );
    format!(
        "apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: WorkspaceTemplate
metadata:
  name: slow
spec:
  template:
    spec:
      module: |
        resource \"terraform_data\" \"slow\" {{
          count = 3
          provisioner \"local-exec\" {{
            command = \"{command}\"
          }}
        }}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: WorkspaceTemplateApply
metadata:
  name: slow
spec:
  templateRef:
    name: slow
"
    )
}

/// How often something was made, by whatever run.
fn made(folder: &Path) -> usize {
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    let count = |entry: std::fs::DirEntry| match entry.file_type() {
        Ok(kind) if kind.is_dir() => made(&entry.path()),
        _ if entry.file_name() == "made" => {
            std::fs::read_to_string(entry.path()).map_or(0, |text| text.lines().count())
        }
        _ => 0,
    };
    entries.flatten().map(count).sum()
}

fn until_made(folder: &Path, count: usize) {
    let deadline = Instant::now() + SOON;
    while made(folder) < count {
        assert!(Instant::now() < deadline, "{} made", made(folder));
        std::thread::sleep(PAUSE);
    }
}

fn start(folder: &Path, arguments: &[&str]) -> Plane {
    let data = folder.join("data");
    let mut command = capt(&["up", "-o", "json", "--data-dir"]);
    let path = std::env::var("PATH").unwrap_or_default();
    command.arg(&data).args(arguments).env("PATH", format!("{path}:{}", folder.join("gate").display()));
    Plane::of(&data, command)
}

/// Starts, and waits until Terraform is in the middle of its work.
fn in_the_middle(folder: &Path) -> Plane {
    let file = folder.join("slow.yaml");
    std::fs::write(&file, manifest(folder)).unwrap();
    std::fs::create_dir(folder.join("gate")).unwrap();
    let plane = start(folder, &["-f", file.to_str().unwrap()]);
    until_made(folder, 3);
    plane
}

fn go(folder: &Path) {
    std::fs::write(folder.join("gate/go"), "").unwrap();
}

#[test]
fn an_end_waits_for_what_runs() {
    if !capt_e2e::has_terraform() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let plane = in_the_middle(folder.path());
    plane.interrupt();
    assert_eq!(plane.event("finishing", |_| true)["runs"], 1);
    go(folder.path());
    let stopped = plane.event("stopped", |_| true);
    assert_eq!(stopped["runs"], 0, "{stopped}");
    assert!(plane.end().success());

    let again = start(folder.path(), &[]);
    again.phase("WorkspaceTemplateApply", "slow", "Ready");
    assert_eq!(made(folder.path()), 3, "nothing is made twice");
}

#[test]
fn a_second_interrupt_leaves_it_running_and_the_next_start_takes_it_up() {
    if !capt_e2e::has_terraform() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let plane = in_the_middle(folder.path());
    plane.interrupt();
    plane.event("finishing", |_| true);
    plane.interrupt();
    let stopped = plane.event("stopped", |_| true);
    assert_eq!(stopped["runs"], 1, "{stopped}");
    assert!(stopped["again"].as_str().unwrap().contains("capt up --data-dir "), "{stopped}");
    assert!(plane.end().success());
    let again = start(folder.path(), &[]);
    go(folder.path());
    again.phase("WorkspaceTemplateApply", "slow", "Ready");
    assert_eq!(made(folder.path()), 3, "nothing is made twice");
}

#[test]
fn killed_it_goes_on_at_the_next_start() {
    if !capt_e2e::has_terraform() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let plane = in_the_middle(folder.path());
    rustix::process::kill_process(plane.pid(), rustix::process::Signal::KILL).unwrap();
    plane.end();
    let again = start(folder.path(), &[]);
    go(folder.path());
    again.phase("WorkspaceTemplateApply", "slow", "Ready");
    assert_eq!(made(folder.path()), 3, "nothing is made twice");
}
