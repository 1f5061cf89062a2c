//! The examples, and the manifests of the specification: valid, and with modules that Terraform accepts.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the project")
}

fn assert_valid(folder: &Path) {
    let output = Command::new(env!("CARGO_BIN_EXE_capt"))
        .args(["validate", "-R", "-f"])
        .arg(folder)
        .output()
        .expect("capt runs");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
    assert!(said.starts_with("ok: "), "{said}");
}

#[test]
fn every_example_is_valid() {
    assert_valid(&root().join("examples"));
}

#[test]
fn every_manifest_of_the_specification_is_valid() {
    assert_valid(&root().join("crates/cli/tests/seeds"));
}

/// An inline module of an example.
struct Module {
    /// Its file and template.
    title: String,
    hcl: String,
}

impl Module {
    fn needs_aws(&self) -> bool {
        self.hcl.contains("aws_")
    }
}

fn modules() -> Vec<Module> {
    let mut modules = Vec::new();
    let mut folders = vec![root().join("examples")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "yaml") {
                modules.extend(modules_in(&path));
            }
        }
    }
    modules.sort_by(|a, b| a.title.cmp(&b.title));
    modules
}

fn modules_in(path: &Path) -> Vec<Module> {
    let text = std::fs::read_to_string(path).expect("an example");
    let objects: Vec<Value> = serde_saphyr::from_multiple(&text).expect("YAML");
    let file = path.strip_prefix(root()).expect("in the project").display();
    objects
        .iter()
        .filter_map(|object| {
            let spec = &object["spec"]["template"]["spec"];
            let hcl = spec["module"].as_str().or_else(|| spec["forProvider"]["module"].as_str())?;
            let title = format!("{file} {}", object["metadata"]["name"].as_str().unwrap_or_default());
            Some(Module { title, hcl: hcl.to_owned() })
        })
        .collect()
}

/// Terraform or OpenTofu, where one is installed.
fn terraform() -> Option<&'static str> {
    ["terraform", "tofu"].into_iter().find(|name| Command::new(name).arg("version").output().is_ok())
}

struct Workdir {
    folder: tempfile::TempDir,
    program: &'static str,
}

impl Workdir {
    fn new(program: &'static str, module: &Module, mirror: Option<&Path>) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("main.tf"), &module.hcl).expect("a file");
        let installation = match mirror {
            Some(mirror) => format!("filesystem_mirror {{ path = {:?} }}", mirror.display().to_string()),
            None => "direct { exclude = [\"*/*\", \"*/*/*\"] }".to_owned(),
        };
        let config = format!("provider_installation {{ {installation} }}\n");
        std::fs::write(folder.path().join("cli.tfrc"), config).expect("a file");
        Self { folder, program }
    }

    /// Runs a command; what it said, where it failed.
    fn run(&self, arguments: &[&str]) -> Result<(), String> {
        let output = Command::new(self.program)
            .args(arguments)
            .current_dir(self.folder.path())
            .env("TF_CLI_CONFIG_FILE", self.folder.path().join("cli.tfrc"))
            .env("CHECKPOINT_DISABLE", "1")
            .output()
            .expect("terraform runs");
        if output.status.success() {
            return Ok(());
        }
        let said = [output.stdout, output.stderr].concat();
        Err(format!("{} {}: {}", self.program, arguments.join(" "), String::from_utf8_lossy(&said)))
    }
}

#[test]
fn modules_are_formatted_as_terraform_does() {
    let Some(program) = terraform() else { return capt_e2e::skip("neither terraform nor tofu is installed") };
    for module in modules() {
        let workdir = Workdir::new(program, &module, None);
        let checked = workdir.run(&["fmt", "-check", "-diff", "main.tf"]);
        checked.unwrap_or_else(|said| panic!("{}: {said}", module.title));
    }
}

/// Offline modules are applied for real; those on AWS are validated where the provider is on the machine.
#[test]
fn modules_are_accepted_by_terraform() {
    let Some(program) = terraform() else { return capt_e2e::skip("neither terraform nor tofu is installed") };
    let mirror = capt_e2e::aws_mirror();
    let (aws, offline): (Vec<Module>, Vec<Module>) = modules().into_iter().partition(Module::needs_aws);
    assert!(aws.len() >= 4 && offline.len() >= 4, "the examples are gone");
    for module in offline {
        let workdir = Workdir::new(program, &module, None);
        let steps: [&[&str]; 2] = [&["init", "-input=false"], &["validate"]];
        steps
            .iter()
            .try_for_each(|step| workdir.run(step))
            .unwrap_or_else(|said| panic!("{}: {said}", module.title));
    }
    if mirror.is_none() {
        return capt_e2e::skip("the AWS provider is not on this machine");
    }
    for module in aws {
        let workdir = Workdir::new(program, &module, mirror.as_deref());
        let steps: [&[&str]; 2] = [&["init", "-input=false"], &["validate"]];
        steps
            .iter()
            .try_for_each(|step| workdir.run(step))
            .unwrap_or_else(|said| panic!("{}: {said}", module.title));
    }
}
