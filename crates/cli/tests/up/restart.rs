//! Stopped and killed in the middle of an apply: nothing is lost, nothing is made twice.

use std::path::Path;
use std::time::Instant;

use crate::plane::{PAUSE, Plane, SOON, has_terraform};

/// A workspace that makes one thing after another, each when the test lets it.
fn manifest(folder: &Path) -> String {
    let gates = folder.display();
    let command =
        format!("echo made ${{count.index}} >> {gates}/made; while [ -d {gates} ] && [ ! -e {gates}/go ]; do sleep 0.05; done");
    let module = format!(
        "resource \"terraform_data\" \"slow\" {{\n  count = 3\n  provisioner \"local-exec\" {{\n    command = \"{command}\"\n  }}\n}}\n"
    );
    let module = module.replace('\n', "\n        ");
    format!(
        "apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: WorkspaceTemplate
metadata:
  name: slow
spec:
  template:
    spec:
      module: |
        {module}
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

fn made(folder: &Path) -> usize {
    std::fs::read_to_string(folder.join("made")).unwrap_or_default().lines().count()
}

fn until_made(folder: &Path, count: usize) {
    let deadline = Instant::now() + SOON;
    while made(folder) < count {
        assert!(Instant::now() < deadline, "{} made", made(folder));
        std::thread::sleep(PAUSE);
    }
}

/// Starts, and waits until Terraform is in the middle of its work.
fn in_the_middle(folder: &Path) -> Plane {
    std::fs::write(folder.join("slow.yaml"), manifest(folder)).unwrap();
    let file = folder.join("slow.yaml");
    let plane = Plane::start(&folder.join("data"), &["-f", file.to_str().unwrap()]);
    until_made(folder, 3);
    plane
}

fn go(folder: &Path) {
    std::fs::write(folder.join("go"), "").unwrap();
}

#[test]
fn an_end_waits_for_what_runs() {
    if !has_terraform() {
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

    let again = Plane::start(&folder.path().join("data"), &[]);
    again.phase("WorkspaceTemplateApply", "slow", "Ready");
    assert_eq!(made(folder.path()), 3, "nothing is made twice");
}

#[test]
fn a_second_interrupt_leaves_it_running_and_the_next_start_takes_it_up() {
    if !has_terraform() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let plane = in_the_middle(folder.path());
    plane.interrupt();
    plane.event("finishing", |_| true);
    plane.interrupt();
    let stopped = plane.event("stopped", |_| true);
    assert_eq!(stopped["runs"], 1, "{stopped}");
    assert!(stopped["again"].as_str().unwrap().starts_with("capt up --data-dir "), "{stopped}");
    assert!(plane.end().success());
    let again = Plane::start(&folder.path().join("data"), &[]);
    go(folder.path());
    again.phase("WorkspaceTemplateApply", "slow", "Ready");
    assert_eq!(made(folder.path()), 3, "nothing is made twice");
}

#[test]
fn killed_it_goes_on_at_the_next_start() {
    if !has_terraform() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let plane = in_the_middle(folder.path());
    rustix::process::kill_process(plane.pid(), rustix::process::Signal::KILL).unwrap();
    plane.end();
    let again = Plane::start(&folder.path().join("data"), &[]);
    go(folder.path());
    again.phase("WorkspaceTemplateApply", "slow", "Ready");
    assert_eq!(made(folder.path()), 3, "nothing is made twice");
}
