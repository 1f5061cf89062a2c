//! Ten faults, and that `capt status` names the true cause of each in one line.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpListener;

use kube::api::{ApiResource, DynamicObject, GroupVersionKind, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};

use crate::plane::{Plane, capt};

const MANIFESTS: &str = include_str!("faults.yaml");

/// Name of a root, what its cause must say, and by whom.
const CAUSES: [(&str, &str, &[&str]); 9] = [
    ("bad-hcl", "workspace", &["InvalidModule", "main.tf:2"]),
    (
        "missing-variable",
        "workspace",
        &["MissingVariable", "spec.variables.size is not set, and the module has no default for it"],
    ),
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
    ("slow", "workspace", &["Timeout", "longer than its timeout, and was interrupted after"]),
    // Twice at least: on a slow machine it is tried again by itself, too.
    (
        "again-and-again",
        "workspace",
        &["ApplyFailed", "failed ", " times: ", "still broken", "terraform_data.it"],
    ),
    ("locked", "workspace", &["StateLocked", "the state is locked by"]),
];

/// Those that `capt up -f` does not even apply: its check of files finds them.
const REFUSED: [&str; 2] = ["bad-hcl", "missing-variable"];

/// A place for states that somebody else has locked: Terraform's `http` backend talks to it.
fn locked_backend() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let holder = r#"{"ID":"1234","Operation":"OperationTypeApply","Who":"someone@somewhere","Created":"2026-01-01T00:00:00Z"}"#;
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let (mut first, mut length) = (String::new(), 0);
            // Whoever hangs up in the middle, as one that is stopped does, gets no answer; the next one does.
            if reader.read_line(&mut first).is_err() {
                continue;
            }
            for line in reader.by_ref().lines().map_while(Result::ok).take_while(|line| !line.is_empty()) {
                if let Some(number) = line.to_lowercase().strip_prefix("content-length: ") {
                    length = number.parse().unwrap();
                }
            }
            // An answer to a request that was not read to its end would be lost.
            let _ = io::copy(&mut reader.take(length), &mut io::sink());
            let (status, body) =
                if first.starts_with("LOCK") { ("423 Locked", holder) } else { ("404 Not Found", "") };
            let _ = write!(
                stream,
                "HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            );
        }
    });
    format!("http://{address}")
}

/// Applies manifests as kubectl does, which does not look into modules.
fn apply(plane: &Plane, text: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let kubeconfig = Kubeconfig::read_from(plane.kubeconfig()).unwrap();
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
        let client = Client::try_from(config).unwrap();
        for document in capt_yaml::documents(text) {
            let object: DynamicObject = serde_json::from_value(document.unwrap().root.to_json()).unwrap();
            let gvk = GroupVersionKind::try_from(object.types.as_ref().unwrap()).unwrap();
            let plural = match gvk.kind.as_str() {
                "WorkspaceTemplateApply" => "workspacetemplateapplies",
                _ => "workspacetemplates",
            };
            let resource = ApiResource::from_gvk_with_plural(&gvk, plural);
            let api: Api<DynamicObject> = Api::default_namespaced_with(client.clone(), &resource);
            api.create(&PostParams::default(), &object).await.unwrap();
        }
    });
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
    if !capt_e2e::has_terraform() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("faults.yaml");
    let (refused, taken): (Vec<&str>, Vec<&str>) = MANIFESTS
        .split("---\n")
        .partition(|part| REFUSED.iter().any(|name| part.contains(&format!("name: {name}\n"))));
    std::fs::write(&file, taken.join("---\n").replace("http://backend", &locked_backend())).unwrap();
    let plane = Plane::start(&folder.path().join("data"), &["-f", file.to_str().unwrap()]);
    apply(&plane, &refused.join("---\n"));
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
    for (root, word, wanted) in CAUSES {
        // While one of them is tried again by itself it says that instead.
        plane.until(&["status", "-o", "wide"], |text| {
            let below = text.split_once(&format!("{word} {root} "));
            let (_, below) = below.unwrap_or_else(|| panic!("{word} {root}: {text}"));
            below.lines().take(4).any(|line| wanted[1..].iter().all(|part| line.contains(part)))
        });
    }
    plane.interrupt();
    plane.end();
}

/// The tenth: the binary is gone.
#[test]
fn a_binary_that_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("one.yaml");
    let one = MANIFESTS.split("---\n").filter(|part| part.contains("name: again-and-again"));
    std::fs::write(&file, one.collect::<Vec<_>>().join("---\n")).unwrap();
    let mut command = capt(&["up", "-o", "json", "--data-dir"]);
    command.arg(folder.path().join("data")).arg("-f").arg(&file).env("PATH", folder.path());
    let plane = Plane::of(&folder.path().join("data"), command);
    let text = plane.until(&["status"], |text| text.contains("BinaryNotFound"));
    assert!(text.contains("tofu or terraform is not installed"), "{text}");
    // And the demo says it before anything is applied.
    let output = capt(&["up", "--demo", "--data-dir"])
        .arg(folder.path().join("other"))
        .env("PATH", folder.path())
        .output()
        .unwrap();
    let text = crate::plane::said(&output);
    assert!(!output.status.success() && text.contains("make tools"), "{text}");
}

/// The demo with a binary that is too old.
#[test]
fn a_binary_that_is_too_old() {
    let folder = tempfile::tempdir().unwrap();
    // Written by another process: a child that is forked here meanwhile would hold it open, and it could not be run.
    let script =
        r#"printf '%s\n' '#!/bin/sh' "echo '{\"terraform_version\": \"1.4.6\"}'" >"$0" && chmod 755 "$0""#;
    let made = std::process::Command::new("/bin/sh")
        .args(["-c", script])
        .arg(folder.path().join("terraform"))
        .status();
    assert!(made.unwrap().success());
    let output = capt(&["up", "--demo", "--data-dir"])
        .arg(folder.path().join("data"))
        .env("PATH", folder.path())
        .output()
        .unwrap();
    let text = crate::plane::said(&output);
    let told = text.contains("is 1.4.6; 1.5.0 or newer is needed") && text.contains("make tools");
    assert!(!output.status.success() && told, "{text}");
    // With another one it goes on.
    let output = capt(&["up", "--wait", "--data-dir"]).arg(folder.path().join("data")).output().unwrap();
    let text = crate::plane::said(&output);
    assert!(output.status.success() && text.contains("3/3 available"), "{text}");
}
