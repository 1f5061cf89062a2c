//! Completion, man pages, help, versions, and being a plugin of kubectl.

use std::process::Command;

use capt_e2e::until;
use clap_complete::env::Shells;
use serde_json::json;

use crate::world::{SOON, World, command, run, workspace};

fn capt(line: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let mut command = command(folder.path());
    command.args(line.split_whitespace());
    run(command).good()
}

/// Names of commands, from the help of a command.
fn commands(line: &str) -> Vec<String> {
    let help = capt(&format!("{line} --help"));
    // Those of the root stand in groups.
    let is_first = |line: &&str| ["Commands:", "Start:"].contains(line);
    let list = help.lines().skip_while(|line| !is_first(line)).take_while(|line| *line != "Options:");
    let names = list.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    names
        .filter_map(|line| line.split_whitespace().next())
        .map(str::to_owned)
        .filter(|name| name != "help")
        .collect()
}

#[test]
fn every_command_explains_itself_with_examples() {
    let mut all = commands("");
    assert!(all.len() > 15, "{all:?}");
    for group in ["rollout", "state"] {
        all.retain(|name| name != group);
        all.extend(commands(group).into_iter().map(|name| format!("{group} {name}")));
    }
    for name in &all {
        let help = capt(&format!("{name} --help"));
        assert!(help.contains("\nExamples:\n  "), "{name}: {help}");
        assert!(help.contains(&format!("capt {name}")), "{name}: {help}");
    }
    assert!(capt("--help").contains("Exit codes: 0 success"));
}

#[test]
fn the_version_names_the_commit() {
    let version = capt("--version");
    let words: Vec<&str> = version.split_whitespace().collect();
    assert_eq!(words[..2], ["capt", env!("CARGO_PKG_VERSION")]);
    let git = Command::new("git").args(["rev-parse", "--git-dir"]).output();
    if git.is_ok_and(|output| output.status.success()) {
        let commit = words[2].trim_matches(['(', ')']);
        assert!(commit.len() == 12 && commit.chars().all(|c| c.is_ascii_hexdigit()), "{version}");
    }
}

#[test]
fn versions_are_told_with_and_without_an_api() {
    let said = capt("version");
    assert!(said.starts_with(concat!("Client Version: v", env!("CARGO_PKG_VERSION"))), "{said}");
    for line in
        ["Platform: ", "Embedded Kubernetes API: v1.", "Server Version: none (there is no Kubernetes API"]
    {
        assert!(said.lines().any(|one| one.starts_with(line)), "{line}: {said}");
    }
    assert!(!capt("version --client").contains("Server"));
    let json: serde_json::Value = serde_json::from_str(&capt("version -o json")).unwrap();
    assert_eq!(json["clientVersion"]["version"], concat!("v", env!("CARGO_PKG_VERSION")));
    assert!(json["serverError"].is_string() && json.get("serverVersion").is_none(), "{json}");
    assert!(capt("version -o yaml").starts_with("clientVersion:\n  version: "));
    // One that listens and says nothing is not waited for.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "a",
        "clusters": [{"name": "a", "cluster": {"server": format!("https://{address}")}}],
        "users": [{"name": "a", "user": {}}], "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
    });
    std::fs::write(folder.path().join("kubeconfig"), kubeconfig.to_string()).unwrap();
    let said = capt(&format!("version --kubeconfig {}", folder.path().join("kubeconfig").display()));
    assert!(said.contains("Server Version: none (the API does not answer within 2 s)"), "{said}");
}

#[test]
fn every_shell_gets_its_script() {
    for shell in Shells::builtins().iter() {
        let script = capt(&format!("completion {}", shell.name()));
        assert!(script.contains("CAPT_COMPLETE") && script.contains("capt"), "{script}");
    }
}

#[test]
fn every_command_has_a_man_page() {
    let folder = tempfile::tempdir().unwrap();
    capt(&format!("man --output-dir {}", folder.path().display()));
    for name in commands("") {
        let page = std::fs::read_to_string(folder.path().join(format!("capt-{name}.1"))).expect(&name);
        assert!(page.contains(".SH NAME"), "{name}");
    }
}

#[test]
fn it_is_a_plugin_of_kubectl() {
    let folder = tempfile::tempdir().unwrap();
    let link = folder.path().join("kubectl-capt");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_capt"), &link).unwrap();
    let output = Command::new(&link).args(["scale", "--help"]).output().unwrap();
    let help = String::from_utf8(output.stdout).unwrap();
    assert!(help.contains("Usage: kubectl capt scale "), "{help}");
    let path = std::env::join_paths(
        std::iter::once(folder.path().to_owned())
            .chain(std::env::split_paths(&std::env::var_os("PATH").unwrap())),
    );
    let kubectl = Command::new("kubectl").args(["capt", "--version"]).env("PATH", path.unwrap()).output();
    match kubectl {
        Ok(output) => assert!(String::from_utf8_lossy(&output.stdout).contains(env!("CARGO_PKG_VERSION"))),
        Err(_) => capt_e2e::skip("kubectl is not installed"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_of_objects_are_completed() {
    let Some(world) = World::start().await else { return };
    world
        .apply(&workspace("alpha", "resource \"terraform_data\" \"one\" {}\n", json!({"paused": true})))
        .await;
    // As bash asks: the words, and which of them is being typed.
    let complete = |words: &[&str]| {
        let mut command = command(world.folder.path());
        command.env("CAPT_COMPLETE", "bash").env("_CLAP_IFS", "\n");
        command.env("_CLAP_COMPLETE_INDEX", (words.len() - 1).to_string());
        command.arg("--").args(words);
        let said = run(command);
        said.out.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    // The API is asked for a moment only, which on a busy machine may be too short.
    let completed = async |words: &[&str], wanted: &str| {
        let seen = until(wanted, SOON, async || complete(words).contains(&wanted.to_owned()).then_some(()));
        seen.await.unwrap();
    };
    completed(&["capt", "logs", "al"], "alpha").await;
    completed(&["capt", "delete", "workspacetemplate/"], "workspacetemplate/alpha").await;
    completed(&["capt", "delete", "WT", "al"], "alpha").await;
    completed(&["capt", "status", "wta/"], "wta/alpha").await;
    let version = world.capt("version").good();
    assert!(version.contains("Server Version: v1.") && version.contains("the embedded API: "), "{version}");
    assert_eq!(complete(&["capt", "logs", "-n", "other", "al"]), Vec::<String>::new());
    assert!(complete(&["capt", "appr"]).contains(&"approve".to_owned()));

    let link = world.folder.path().join("kubectl_complete-capt");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_capt"), &link).unwrap();
    let asked = until("kubectl", SOON, async || {
        let mut plugin = Command::new(&link);
        plugin
            .args(["logs", "al"])
            .env("CAPT_DATA_DIR", world.folder.path().join("data"))
            .env_remove("KUBECONFIG");
        (run(plugin).good() == "alpha\n:4\n").then_some(())
    });
    asked.await.unwrap();
}

/// The pages are what the program says now; `make docs` writes them.
#[test]
fn the_reference_is_current() {
    for page in ["cli", "api"] {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../docs/reference")
            .join(format!("{page}.md"));
        let written = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(written == capt(&format!("reference {page}")), "{} is stale: make docs", path.display());
    }
}
