//! `kubectl` understands what this crate says, and says the same of it as of the real server.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::{collections::HashMap, fs, path::Path, process::Command, sync::Arc};

use capt_apiserver::{
    builtin,
    resource::{Resource, crd},
};
use capt_e2e::{KubeApiserver, Peer, Peers};
use serde_json::{Value, json};
use support::server::Server;

/// A newer and an older one, where the machine has its own.
fn binaries(peers: &Peers) -> Vec<std::path::PathBuf> {
    let mut found = vec![peers.path(Peer::Kubectl)];
    found.extend(Some(Path::new("/usr/bin/kubectl").to_owned()).filter(|path| path.exists()));
    found
}

fn resources() -> Vec<Arc<Resource>> {
    let mut definition: Value = serde_json::from_str(include_str!("data/widget.json")).unwrap();
    builtin::prepare_create("apiextensions.k8s.io", "CustomResourceDefinition", &mut definition);
    let mut resources = builtin::resources();
    resources.extend(builtin::virtual_resources());
    resources.push(Arc::new(crd::resource(&definition).unwrap()));
    resources
}

struct Kubectl {
    binary: std::path::PathBuf,
    arguments: Vec<String>,
    home: tempfile::TempDir,
}

impl Kubectl {
    fn new(binary: &Path, arguments: &[&str]) -> Self {
        let home = tempfile::tempdir().unwrap();
        let arguments = arguments.iter().map(|it| (*it).to_owned()).collect();
        Self { binary: binary.to_owned(), arguments, home }
    }

    fn on(binary: &Path, server: &Server) -> Self {
        Self::new(binary, &["--server", &server.url])
    }

    /// Standard output and whether it succeeded; standard error is appended where it did not.
    fn run(&self, arguments: &[&str]) -> (bool, String) {
        let output = Command::new(&self.binary)
            .args(&self.arguments)
            .args(arguments)
            .env("HOME", self.home.path())
            .env("KUBECONFIG", "/dev/null")
            .current_dir(self.home.path())
            .output()
            .unwrap();
        let mut text = String::from_utf8(output.stdout).unwrap();
        if !output.status.success() {
            text.push_str(&String::from_utf8(output.stderr).unwrap());
        }
        (output.status.success(), text)
    }

    fn ok(&self, arguments: &[&str]) -> String {
        let (success, output) = self.run(arguments);
        assert!(success, "{} {arguments:?}: {output}", self.binary.display());
        output
    }

    fn file(&self, name: &str, content: &Value) -> String {
        let path = self.home.path().join(name);
        fs::write(&path, content.to_string()).unwrap();
        path.display().to_string()
    }
}

#[test]
fn kubectl_finds_the_resources() {
    let Some(peers) = Peers::find_or_skip(&[Peer::Kubectl]) else { return };
    let server = Server::start(resources(), HashMap::new());
    for binary in binaries(&peers) {
        let kubectl = Kubectl::on(&binary, &server);
        let versions = kubectl.ok(&["api-versions"]);
        for version in ["v1", "events.k8s.io/v1", "rbac.authorization.k8s.io/v1", "demo.example.com/v1beta1"]
        {
            assert!(versions.lines().any(|line| line == version), "{version} in {versions}");
        }
        let found = kubectl.ok(&["api-resources", "--no-headers", "-o", "wide"]);
        let row = |plural: &str| {
            let line =
                found.lines().find(|line| line.starts_with(plural)).unwrap_or_else(|| panic!("{found}"));
            line.split_whitespace().collect::<Vec<_>>().join(" ")
        };
        assert_eq!(
            row("configmaps"),
            "configmaps cm v1 true ConfigMap create,delete,deletecollection,get,list,patch,update,watch"
        );
        assert_eq!(
            row("widgets"),
            "widgets wd demo.example.com/v1 true Widget delete,deletecollection,get,list,patch,create,update,watch all,demo"
        );
        assert_eq!(
            row("selfsubjectreviews"),
            "selfsubjectreviews authentication.k8s.io/v1 false SelfSubjectReview create"
        );
        assert_eq!(
            kubectl.ok(&["api-resources", "--categories=demo", "-o", "name"]),
            "widgets.demo.example.com\n"
        );
    }
}

#[test]
fn kubectl_checks_manifests_by_the_description() {
    let Some(peers) = Peers::find_or_skip(&[Peer::Kubectl]) else { return };
    let server = Server::start(resources(), HashMap::new());
    let good = [
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"}}),
        json!({"apiVersion": "demo.example.com/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": {"color": "red", "port": "http", "extra": {"any": [1]}}}),
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "a"}, "rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]}),
    ];
    for binary in binaries(&peers) {
        let kubectl = Kubectl::on(&binary, &server);
        for (index, object) in good.iter().enumerate() {
            let file = kubectl.file(&format!("{index}.json"), object);
            for validate in ["--validate=strict", "--validate=warn", "--validate=false"] {
                let made = kubectl.ok(&["create", "--dry-run=client", "-f", &file, validate, "-o", "name"]);
                assert!(made.ends_with("/a\n"), "{made}");
            }
            // The description says that PATCH knows fieldValidation, so the question goes to the server.
            kubectl.ok(&["create", "-f", &file, "--validate=strict"]);
            kubectl.ok(&["apply", "--server-side", "-f", &file, "--validate=strict"]);
        }
        let written = std::mem::take(&mut *server.written.lock().unwrap());
        assert_eq!(written.len(), 2 * good.len());
        for (method, target, _) in &written {
            assert!(target.contains("fieldValidation=Strict"), "{method} {target}");
        }
    }
}

/// What a client-side apply sends depends on the merge keys in the description.
#[test]
fn kubectl_merges_by_the_description() {
    let Some(peers) = Peers::find_or_skip(&[Peer::Kubectl]) else { return };
    let account = |secrets: Value| json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "a", "namespace": "default"}, "secrets": secrets});
    let wanted = account(json!([{"name": "x"}, {"name": "z"}]));
    let mut stored = account(json!([{"name": "x"}, {"name": "y"}, {"name": "other"}]));
    let applied = account(json!([{"name": "x"}, {"name": "y"}]));
    stored["metadata"]["annotations"] =
        json!({"kubectl.kubernetes.io/last-applied-configuration": applied.to_string()});
    let objects = HashMap::from([("/api/v1/namespaces/default/serviceaccounts/a".to_owned(), stored)]);
    let server = Server::start(resources(), objects);
    for binary in binaries(&peers) {
        let kubectl = Kubectl::on(&binary, &server);
        let file = kubectl.file("account.json", &wanted);
        kubectl.ok(&["apply", "-f", &file]);
        let (method, _, body) = std::mem::take(&mut *server.written.lock().unwrap()).remove(0);
        let patch: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(method, "PATCH");
        assert_eq!(patch["secrets"], json!([{"name": "z"}, {"$patch": "delete", "name": "y"}]));
        assert_eq!(patch["$setElementOrder/secrets"], json!([{"name": "x"}, {"name": "z"}]));
    }
}

/// The fields of a kind as `kubectl explain` lists them: the words are ours, the rest is not.
fn fields(kubectl: &Kubectl, arguments: &[&str]) -> Vec<String> {
    let text = kubectl.ok(&[&["explain"], arguments].concat());
    let (head, fields) = text.split_once("FIELDS:").unwrap_or((&text, ""));
    let head =
        head.lines().filter(|line| ["GROUP:", "KIND:", "VERSION:"].iter().any(|it| line.starts_with(it)));
    head.chain(fields.lines()).map(str::to_owned).collect()
}

/// Those of the widget.
const VERSIONS: [&str; 2] = ["demo.example.com/v1beta1", "demo.example.com/v1"];

#[tokio::test]
async fn kubectl_explains_as_on_the_real_server() {
    let needed = [KubeApiserver::NEEDS, &[Peer::Kubectl]].concat();
    let Some(peers) = Peers::find_or_skip(&needed) else { return };
    let real = KubeApiserver::start(&peers).await.unwrap();
    let config = real.kubeconfig_path().display().to_string();
    let server = Server::start(resources(), HashMap::new());
    for binary in binaries(&peers) {
        let theirs = Kubectl::new(&binary, &["--kubeconfig", &config]);
        let definition =
            theirs.file("widget.json", &serde_json::from_str(include_str!("data/widget.json")).unwrap());
        theirs.ok(&["apply", "-f", &definition]);
        // Each version is described by itself, some time after the definition is established.
        for version in VERSIONS {
            let explain = ["explain", "widgets.spec", "--api-version", version];
            capt_e2e::until("the widget is described", std::time::Duration::from_mins(3), async || {
                theirs.run(&explain).0.then_some(())
            })
            .await
            .unwrap();
        }
        let ours = Kubectl::on(&binary, &server);
        for resource in [
            "configmaps",
            "secrets",
            "namespaces",
            "events",
            "serviceaccounts",
            "nodes",
            "leases",
            "roles",
            "rolebindings",
            "clusterroles",
            "clusterrolebindings",
            "customresourcedefinitions",
            "widgets",
            "selfsubjectreviews",
            "selfsubjectaccessreviews",
            "selfsubjectrulesreviews",
            "nodes.status.addresses",
            "crd.spec.versions.schema.openAPIV3Schema.items",
            "widgets.spec.parts",
            "namespace.metadata",
        ] {
            assert_eq!(
                fields(&ours, &[resource, "--recursive"]),
                fields(&theirs, &[resource, "--recursive"]),
                "{resource}"
            );
        }
        for version in VERSIONS {
            let arguments = ["widgets", "--recursive", "--api-version", version];
            assert_eq!(fields(&ours, &arguments), fields(&theirs, &arguments), "{version}");
        }
        let arguments = ["events", "--recursive", "--api-version", "events.k8s.io/v1"];
        assert_eq!(fields(&ours, &arguments), fields(&theirs, &arguments));
        // What every object has is explained word by word as people know it.
        for known in ["configmaps.kind", "leases.apiVersion", "widgets.kind", "widgets.apiVersion"] {
            assert_eq!(ours.ok(&["explain", known]), theirs.ok(&["explain", known]), "{known}");
        }
        let words = ours.ok(&["explain", "configmaps.data"]);
        assert!(words.contains("Text values"), "{words}");
    }
}
