//! The manifests of `docs/workspaces.md`, run as the page says. Registry modules need the network: `tests/docs.rs` validates those.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use kube::api::{ApiResource, DynamicObject, Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::GroupVersionKind;
use kube::{Api, Client, Config};
use serde_json::{Value, json};

use crate::plane::{PAUSE, Plane, SOON, said};

/// The first block in a language below a heading of the page.
fn block(heading: &str, language: &str) -> String {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/workspaces.md");
    let page = fs::read_to_string(page).unwrap();
    let (_, section) = page.split_once(&format!("\n{heading}\n")).unwrap_or_else(|| panic!("no {heading}"));
    let section = section.split("\n#").next().unwrap();
    let (_, text) = section.split_once(&format!("```{language}\n")).expect("the section has a block");
    text.split_once("```").unwrap().0.to_owned()
}

/// A folder of a test's own: files to apply, and beside them the data of `capt up`.
struct Lab {
    folder: tempfile::TempDir,
}

impl Lab {
    /// Writes the manifest; nothing where there is no Terraform to run it with.
    fn new(manifest: &str) -> Option<Self> {
        if !capt_e2e::has_terraform() {
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("files")).unwrap();
        fs::write(folder.path().join("files/it.yaml"), manifest).unwrap();
        Some(Self { folder })
    }

    /// A folder beside the files, made if it is not there.
    fn path(&self, name: &str) -> PathBuf {
        let path = fs::canonicalize(self.folder.path()).unwrap().join(name);
        fs::create_dir_all(&path).unwrap();
        path
    }

    /// `capt up -f FILE` with further arguments.
    fn up(&self, arguments: &[&str]) -> World {
        let file = self.folder.path().join("files/it.yaml");
        let all = [&["-f", file.to_str().unwrap()], arguments].concat();
        let plane = Plane::start(&self.folder.path().join("data"), &all);
        plane.event("allApplied", |_| true);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let client = runtime.block_on(async {
            let kubeconfig = Kubeconfig::read_from(plane.kubeconfig()).unwrap();
            let config =
                Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
            Client::try_from(config).unwrap()
        });
        World { plane, client, runtime }
    }
}

/// A running `capt up`, and a client of its API.
struct World {
    plane: Plane,
    client: Client,
    runtime: tokio::runtime::Runtime,
}

impl World {
    fn api(&self, kind: &str) -> Api<DynamicObject> {
        let (group, version, plural) = match kind {
            "WorkspaceTemplate" => ("infrastructure.cluster.x-k8s.io", "v1beta1", "workspacetemplates"),
            "WorkspaceTemplateApply" => {
                ("infrastructure.cluster.x-k8s.io", "v1beta1", "workspacetemplateapplies")
            }
            "ConfigMap" => ("", "v1", "configmaps"),
            "Secret" => ("", "v1", "secrets"),
            other => panic!("{other} is not used here"),
        };
        let kind = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural);
        Api::default_namespaced_with(self.client.clone(), &kind)
    }

    /// Merges into an object, as `kubectl patch` does.
    fn patch(&self, kind: &str, name: &str, body: &Value) {
        let patch = Patch::Merge(body);
        let api = self.api(kind);
        self.runtime.block_on(api.patch(name, &PatchParams::default(), &patch)).unwrap();
    }

    /// Waits until a workspace is as `holds` says.
    fn when(&self, name: &str, what: &str, holds: impl Fn(&Workspace) -> bool) -> Workspace {
        let deadline = Instant::now() + SOON;
        let api = self.api("WorkspaceTemplateApply");
        loop {
            let object = self.runtime.block_on(api.get(name)).unwrap();
            let workspace = Workspace(serde_json::to_value(object).unwrap());
            if holds(&workspace) {
                return workspace;
            }
            assert!(Instant::now() < deadline, "{name} is not {what}: {:#}", workspace.0);
            std::thread::sleep(PAUSE);
        }
    }

    /// Waits until a workspace is ready with that output.
    fn output(&self, name: &str, output: &str, value: &str) -> Workspace {
        let what = format!("ready with {output} = {value}");
        self.when(name, &what, |it| it.is("Ready", "True") && it.output(output) == value)
    }
}

/// A WorkspaceTemplateApply.
struct Workspace(Value);

impl Workspace {
    fn condition(&self, kind: &str) -> &Value {
        let conditions = self.0["status"]["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
        conditions.iter().find(|condition| condition["type"] == kind).unwrap_or(&Value::Null)
    }

    fn is(&self, kind: &str, status: &str) -> bool {
        self.condition(kind)["status"] == status
    }

    fn waits_with(&self, reason: &str) -> bool {
        self.condition("Ready")["reason"] == reason
    }

    fn output(&self, name: &str) -> &str {
        self.0["status"]["outputs"][name].as_str().unwrap_or_default()
    }

    fn revision(&self) -> &str {
        self.0["status"]["lastAppliedRevision"].as_str().unwrap()
    }
}

#[test]
fn inline() {
    let Some(lab) = Lab::new(&block("### Inline", "yaml")) else { return };
    let world = lab.up(&[]);
    world.output("network", "network_cidr", "10.0.0.0/16");
    let changed = json!({"spec": {"variables": {"cidr": "10.1.0.0/16"}}});
    world.patch("WorkspaceTemplateApply", "network", &changed);
    world.output("network", "network_cidr", "10.1.0.0/16");
    // An edit of the template reaches its instances.
    let module = "output \"network_cidr\" {\n  value = \"edited\"\n}\n\nvariable \"cidr\" {}\n";
    let body = json!({"spec": {"template": {"spec": {"module": module}}}});
    world.patch("WorkspaceTemplate", "network", &body);
    world.output("network", "network_cidr", "edited");
}

#[test]
fn local_folder() {
    let manifest = block("### Local folder", "yaml");
    let Some(lab) = Lab::new("") else { return };
    let folder = lab.path("modules/storage");
    let modules = lab.path("modules");
    assert!(manifest.contains("source: /srv/modules/storage"), "{manifest}");
    let manifest = manifest.replace("/srv/modules", modules.to_str().unwrap());
    fs::write(lab.path("files").join("it.yaml"), manifest).unwrap();
    let text = block("### Local folder", "hcl");
    let edit = |unit: &str| fs::write(folder.join("main.tf"), text.replace("GiB", unit)).unwrap();
    edit("GiB");

    // Nobody has allowed it.
    let world = lab.up(&[]);
    let refused = world.when("storage", "refused", |it| it.waits_with("PathNotAllowed"));
    assert!(refused.condition("Ready").to_string().contains("--allow-path"), "{}", refused.0);
    drop(world);

    let allowed = ["--allow-path", modules.to_str().unwrap()];
    let world = lab.up(&allowed);
    let first = world.output("storage", "volume", "volume of 10 GiB");
    edit("TiB");
    world.plane.run(&["retry", "storage"]);
    let second = world.output("storage", "volume", "volume of 10 TiB");
    assert_ne!(first.revision(), second.revision(), "the content of the folder is part of the inputs");

    // A change of anything else makes the next reconcile.
    edit("PiB");
    world.patch("WorkspaceTemplateApply", "storage", &json!({"metadata": {"labels": {"touched": "yes"}}}));
    world.output("storage", "volume", "volume of 10 PiB");
    drop(world);

    // And so does a start.
    edit("EiB");
    let world = lab.up(&allowed);
    world.output("storage", "volume", "volume of 10 EiB");

    let relative = json!({"spec": {"template": {"spec": {"module": {"source": "./storage"}}}}});
    world.patch("WorkspaceTemplate", "storage", &relative);
    world.when("storage", "refused", |it| it.waits_with("PathNotAllowed"));
}

fn git(folder: &Path, arguments: &[&str]) {
    let output = Command::new("git")
        .args(["-c", "user.name=test", "-c", "user.email=test@example.com", "-c", "commit.gpgsign=false"])
        .args(arguments)
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(output.status.success(), "git {arguments:?}: {}", said(&output));
}

#[test]
fn from_git() {
    if Command::new("git").arg("--version").output().is_err() {
        return capt_e2e::skip("git is not installed");
    }
    let manifest = block("### Git", "yaml");
    let Some(lab) = Lab::new("") else { return };
    let platform = lab.path("platform");
    let host = "https://git.example.com/platform";
    assert!(manifest.contains(host), "{manifest}");
    let here = format!("file://{}", platform.display());
    fs::write(lab.path("files").join("it.yaml"), manifest.replace(host, &here)).unwrap();

    git(&platform, &["init", "--quiet", "--bare", "modules.git"]);
    git(&platform, &["clone", "--quiet", "modules.git", "work"]);
    let work = lab.path("platform/work");
    let publish = |version: &str, tag: &str| {
        let text = format!(
            "variable \"name\" {{\n  type = string\n}}\n\noutput \"queue\" {{\n  value = \"${{var.name}} of {version}\"\n}}\n"
        );
        fs::create_dir_all(work.join("queue")).unwrap();
        fs::write(work.join("queue/main.tf"), text).unwrap();
        git(&work, &["add", "."]);
        git(&work, &["commit", "--quiet", "-m", version]);
        git(&work, &["tag", "--force", tag]);
        git(&work, &["push", "--quiet", "--force", "origin", "HEAD", tag]);
    };
    publish("one", "v1.0.0");
    let world = lab.up(&["--allow-path", platform.to_str().unwrap()]);
    world.output("queue", "queue", "orders of one");

    // A tag that moves is not noticed, whatever starts a run.
    publish("two", "v1.0.0");
    world.plane.run(&["retry", "queue"]);
    let renamed = json!({"spec": {"variables": {"name": "invoices"}}});
    world.patch("WorkspaceTemplateApply", "queue", &renamed);
    let kept = world
        .when("queue", "renamed", |it| it.is("Ready", "True") && it.output("queue").starts_with("invoices"));
    assert_eq!(kept.output("queue"), "invoices of one");

    publish("three", "v1.1.0");
    let source = format!("git::{here}/modules.git//queue?ref=v1.1.0");
    let body = json!({"spec": {"template": {"spec": {"module": {"source": source}}}}});
    world.patch("WorkspaceTemplate", "queue", &body);
    world.output("queue", "queue", "invoices of three");

    let body =
        json!({"spec": {"template": {"spec": {"module": {"source": source.replace("v1.1.0", "v9")}}}}});
    world.patch("WorkspaceTemplate", "queue", &body);
    world.when("queue", "refused", |it| it.waits_with("ModuleNotFound"));
}

#[test]
fn variables_from_other_objects() {
    let Some(lab) = Lab::new(&block("## Variables from other objects", "yaml")) else { return };
    let world = lab.up(&[]);
    let says = |text: &'static str| {
        world.when("app", text, |it| it.is("Ready", "True") && it.output("app").starts_with(text))
    };
    let first = says("2 replicas on db-");
    world.patch("ConfigMap", "app-settings", &json!({"data": {"replicas": "5"}}));
    let second = says("5 replicas on db-");
    assert_ne!(first.revision(), second.revision());
    world.patch("Secret", "app-credentials", &json!({"stringData": {"admin-password": "hunter2-hunter2"}}));
    let third = world.when("app", "run with the new password", |it| {
        it.is("Ready", "True") && it.revision() != second.revision()
    });
    let log = world.plane.run(&["logs", "app"]);
    assert!(!third.0.to_string().contains("hunter2") && !log.contains("hunter2"), "{} {log}", third.0);
    // What another workspace returns.
    let module = "output \"endpoint\" {\n  value = \"moved\"\n}\n";
    let body = json!({"spec": {"template": {"spec": {"module": module}}}});
    world.patch("WorkspaceTemplate", "database", &body);
    says("5 replicas on moved");
}

#[test]
fn approval() {
    let Some(lab) = Lab::new(&block("## Approval", "yaml")) else { return };
    let world = lab.up(&[]);
    let waits = |it: &Workspace| it.waits_with("WaitingForApproval") && it.is("Planned", "True");
    let first = world.when("dns", "waiting for approval", waits);
    let id = first.0["status"]["plan"]["id"].as_str().unwrap().to_owned();
    assert_eq!(first.output("zone"), "", "nothing is applied");
    let plan = world.plane.run(&["plan", "dns"]);
    assert!(plan.contains("terraform_data.zone"), "{plan}");

    // Other inputs are another plan.
    world.patch("WorkspaceTemplateApply", "dns", &json!({"spec": {"variables": {"zone": "example.org"}}}));
    world.when("dns", "waiting with another plan", |it| waits(it) && it.0["status"]["plan"]["id"] != id);
    assert!(!world.plane.command(&["approve", "dns", "--plan", &id]).status.success(), "that plan is void");
    world.plane.run(&["approve", "dns"]);
    world.output("dns", "zone", "example.org");
}

#[test]
fn drift() {
    let Some(lab) = Lab::new(&block("## Drift detection", "yaml")) else { return };
    let world = lab.up(&[]);
    let drifted = |it: &Workspace| it.is("Drifted", "True") && it.is("Ready", "True");
    let found = world.when("key", "drifted, and ready", drifted);
    let condition = found.condition("Drifted");
    assert_eq!(condition["reason"], "DriftFound", "{condition}");
    assert!(condition.to_string().contains("terraform_data.key"), "{condition}");
    let shown = world.plane.run(&["plan", "key", "--drift"]);
    assert!(shown.contains("terraform_data.key must be replaced"), "{shown}");
    let key = found.output("key").to_owned();
    assert!(!key.is_empty(), "{}", found.0);

    world.plane.run(&["retry", "key"]);
    let again = world.when("key", "applied again", |it| it.is("Ready", "True") && it.output("key") != key);
    // Reported alone: nothing was replaced before that.
    assert_ne!(again.output("key"), "", "{}", again.0);

    let key = again.output("key").to_owned();
    let correct = json!({"spec": {"driftDetection": {"interval": "1s", "policy": "Correct"}}});
    world.patch("WorkspaceTemplateApply", "key", &correct);
    world.when("key", "corrected", |it| it.is("Ready", "True") && it.output("key") != key);
}
