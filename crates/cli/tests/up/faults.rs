//! Ten faults, and that `capt status` names the true cause of each in one line.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use crate::plane::{PAUSE, Plane, SOON, capt, has_terraform};

const MANIFESTS: &str = include_str!("faults.yaml");

/// Name of a root, what its cause must say, and by whom.
const CAUSES: [(&str, &str, &[&str]); 9] = [
    ("bad-hcl", "workspace", &["InvalidModule", "main.tf:2"]),
    ("missing-variable", "workspace", &["MissingVariable", "\"size\" is not set", "main.tf:1"]),
    (
        "third-resource",
        "machine",
        &["ApplyFailed", "InstanceLimitExceeded", "terraform_data.instance", "main.tf:"],
    ),
    (
        "missing-template",
        "workspace",
        &["WorkspaceTemplateNotFound", "WorkspaceTemplate nowhere does not exist"],
    ),
    ("missing-secret", "workspace", &["SecretNotFound", "Secret absent does not exist"]),
    ("cycle-a", "workspace", &["DependencyCycle", "cycle-a -> cycle-b -> cycle-a"]),
    ("slow", "workspace", &["Timeout", "longer than its timeout of 2s"]),
    ("again-and-again", "workspace", &["ApplyFailed", "failed 2 times", "still broken", "terraform_data.it"]),
    ("locked", "workspace", &["StateLocked", "the state is locked by"]),
];

/// Someone else's Terraform, which holds the lock of a state until it is told to end.
struct Holder(Child);

impl Holder {
    fn start(binary: &str, folder: &Path, state: &Path) -> Self {
        let module = folder.join("holder");
        std::fs::create_dir(&module).unwrap();
        let go = folder.join("release");
        let main = format!(
            "terraform {{\n  backend \"local\" {{ path = \"{}\" }}\n}}\nresource \"terraform_data\" \"it\" {{\n  provisioner \"local-exec\" {{ command = \"touch {}; while [ -d {} ] && [ ! -e {} ]; do sleep 0.05; done\" }}\n}}\n",
            state.display(),
            folder.join("held").display(),
            folder.display(),
            go.display()
        );
        std::fs::write(module.join("main.tf"), main).unwrap();
        let run = |arguments: &[&str]| {
            let mut command = Command::new(binary);
            command.args(arguments).current_dir(&module).stdout(Stdio::null());
            command
        };
        assert!(run(&["init", "-input=false"]).status().unwrap().success());
        let child = run(&["apply", "-auto-approve", "-input=false"]).spawn().unwrap();
        let deadline = Instant::now() + SOON;
        while !folder.join("held").exists() {
            assert!(Instant::now() < deadline, "the lock is never held");
            std::thread::sleep(PAUSE);
        }
        Self(child)
    }

    fn release(&mut self, folder: &Path) {
        std::fs::write(folder.join("release"), "").unwrap();
        self.0.wait().unwrap();
    }
}

fn binary() -> &'static str {
    if Command::new("tofu").arg("version").output().is_ok() { "tofu" } else { "terraform" }
}

/// The cause below a root in `-o json`.
fn cause(tree: &serde_json::Value, root: &str) -> Option<(String, String)> {
    let items = tree["items"].as_array().unwrap();
    let cause = &items.iter().find(|item| item["name"] == root)?["cause"];
    let text = |key: &str| cause[key].as_str().unwrap_or_default().to_owned();
    Some((text("kind"), format!("{}: {}", text("reason"), text("message"))))
}

#[test]
fn the_true_cause_is_named() {
    if !has_terraform() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("locked.tfstate");
    let mut holder = Holder::start(binary(), folder.path(), &state);
    let file = folder.path().join("faults.yaml");
    // The name of the workspace is a part of the path, as CAPT wants it.
    let path = state.display().to_string().replace("locked.tfstate", "${WORKSPACE_NAME}.tfstate");
    std::fs::write(&file, MANIFESTS.replace("STATE_PATH", &path)).unwrap();
    let plane = Plane::start(&folder.path().join("data"), &["-f", file.to_str().unwrap()]);
    plane.phase("WorkspaceTemplateApply", "again-and-again", "ApplyFailed");
    plane.run(&["retry", "again-and-again"]);
    for (root, _, wanted) in CAUSES {
        let text = plane.until(&["status", "-o", "json"], |text| {
            let tree: serde_json::Value = serde_json::from_str(text).unwrap();
            cause(&tree, root).is_some_and(|(_, said)| wanted.iter().all(|part| said.contains(part)))
        });
        let tree: serde_json::Value = serde_json::from_str(&text).unwrap();
        let (kind, said) = cause(&tree, root).unwrap();
        assert_eq!(kind, "WorkspaceTemplateApply", "the deepest says it: {said}");
        assert!(!said.contains('\n'), "{said}");
    }
    // The tree has each of them in one line, though the machine's is its workspace's.
    let text = plane.run(&["status", "-o", "wide"]);
    for (root, word, wanted) in CAUSES {
        let below =
            text.split_once(&format!("{word} {root} ")).unwrap_or_else(|| panic!("{word} {root}: {text}")).1;
        let found = below.lines().take(4).any(|line| wanted[1..].iter().all(|part| line.contains(part)));
        assert!(found, "{root}: {text}");
    }
    holder.release(folder.path());
    plane.interrupt();
    plane.end();
}

/// The tenth: the binary is gone.
#[test]
fn a_binary_that_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("one.yaml");
    let one = MANIFESTS.split("---\n").filter(|part| part.contains("name: missing-variable"));
    std::fs::write(&file, one.collect::<Vec<_>>().join("---\n")).unwrap();
    let mut command = capt(&["up", "-o", "json", "--data-dir"]);
    command.arg(folder.path().join("data")).arg("-f").arg(&file).env("PATH", folder.path());
    let plane = Plane::of(&folder.path().join("data"), command);
    let text = plane.until(&["status"], |text| text.contains("BinaryNotFound"));
    assert!(text.contains("neither tofu nor terraform"), "{text}");
    // And the demo says it before anything is applied.
    let output = capt(&["up", "--demo", "--data-dir"])
        .arg(folder.path().join("other"))
        .env("PATH", folder.path())
        .output()
        .unwrap();
    let text = crate::plane::said(&output);
    assert!(!output.status.success() && text.contains("make tools"), "{text}");
}
