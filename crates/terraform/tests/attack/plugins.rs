//! The plugin cache, which all workspaces share: modules whose `init` runs their code.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use capt_terraform::{
    inputs::{BinaryName, EnvValue},
    sandbox,
    view::Outcome,
};

use crate::lab::{Lab, Tool, reason, tool};

/// The Kubernetes backend of Terraform takes credentials from a program, which `init` then runs.
#[tokio::test(flavor = "multi_thread")]
async fn what_init_runs_cannot_write_the_plugin_cache() {
    let Some(tool) = tool().filter(|_| sandbox::available()) else { return };
    let lab = Lab::with(&tool, |options| options.sandbox = true).await;
    let cache = lab.path("data/plugins");
    let module = "terraform {\n  backend \"kubernetes\" {\n    secret_suffix = \"x\"\n    config_path   = \"./kc\"\n  }\n}\n";
    let mut inputs = lab.inputs(module);
    let config = serde_json::json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "users": [{"name": "u", "user": {"exec": {
            "apiVersion": "client.authentication.k8s.io/v1", "interactiveMode": "Never",
            "command": "sh", "args": ["-c", format!("touch {}/poisoned; exit 1", cache.display())],
        }}}],
    });
    inputs.files.insert("kc".to_owned(), config.to_string().into_bytes());
    let ended = lab.apply("a", inputs).await;
    assert!(matches!(ended.outcome, Outcome::Failed(_)), "{ended:?}");
    assert!(!cache.join("poisoned").exists(), "what all use was written");
}

/// A credential file that would be part of the module is refused before anything reads it.
#[tokio::test(flavor = "multi_thread")]
async fn no_file_of_the_inputs_becomes_part_of_the_module() {
    let Some(tool) = tool() else { return };
    let lab = Lab::new(&tool).await;
    for name in ["evil.tf", "evil.tofu", "evil_override.tf.json", "../evil", "x.auto.tfvars"] {
        let mut inputs = lab.inputs("terraform {\n  required_providers {\n    aws = {}\n  }\n}\n");
        inputs.files.insert(name.to_owned(), b"terraform {}".to_vec());
        let ended = lab.apply("a", inputs).await;
        assert_eq!(reason(&ended), "InvalidVariable", "{name}: {ended:?}");
    }
    assert_eq!(lab.engine.metrics().inits, 0, "nothing was run");
}

/// A plugin that the cache lacks gets there, and runs use that one.
#[tokio::test(flavor = "multi_thread")]
async fn plugins_get_into_the_cache_by_a_module_of_ours() {
    let Some(real) = tool() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let tools = folder.path().join("tools");
    let package = format!("example.com/acme/fake/1.0.0/{}", platform());
    let mirrored = tools.join("mirror").join(&package);
    program(&mirrored.join("terraform-provider-fake_v1.0.0"), "#!/bin/sh\nexit 1\n");
    // There is no registry here: the real binary finds plugins in a folder.
    let name = if real.name == BinaryName::Tofu { "tofu" } else { "terraform" };
    let script = format!(
        "#!/bin/sh\necho \"$@\" >> {asked}\n\
         if grep -qs plugin_cache_dir \"$TF_CLI_CONFIG_FILE\"; then\n\
         (cat \"$TF_CLI_CONFIG_FILE\"; echo 'provider_installation {{'; echo '  filesystem_mirror {{'; echo '    path = \"{mirror}\"'; \
         echo '  }}'; echo '}}') > \"$HOME/cli.tfrc\"\nexport TF_CLI_CONFIG_FILE=\"$HOME/cli.tfrc\"\nfi\n\
         PATH='{path}' exec {name} \"$@\"\n",
        asked = folder.path().join("asked").display(),
        mirror = tools.join("mirror").display(),
        path = real.path.display(),
    );
    program(&tools.join(name), &script);
    let path = std::env::join_paths([tools.as_path(), Path::new("/bin"), Path::new("/usr/bin")]);
    let lab = Lab::new(&Tool { name: real.name, path: path.expect("a path") }).await;
    let module = "terraform {\n  required_providers {\n    fake = {\n      source = \"example.com/acme/fake\"\n    }\n  }\n}\n";
    let asked = || {
        let asked = fs::read_to_string(folder.path().join("asked")).unwrap_or_default();
        asked.lines().filter(|line| line.starts_with("init")).map(str::to_owned).collect::<Vec<_>>()
    };
    for (workspace, owner, inits) in
        [("a", None, 2), ("b", None, 3), ("c", Some("c"), 5), ("d", Some("c"), 6)]
    {
        // The plugin itself is none, so that the run fails in the end.
        let mut inputs = lab.inputs(&format!("{module}# {workspace}\n"));
        if let Some(owner) = owner {
            inputs.origin = Some(owner.to_owned());
            let token = EnvValue { value: "secret".to_owned(), sensitive: true };
            inputs.env.insert("TF_TOKEN_example_com".to_owned(), token);
        }
        let _ = lab.apply(workspace, inputs).await;
        assert_eq!(
            asked().len(),
            inits,
            "{workspace}: the second of each owner finds it in the cache: {:?}",
            asked()
        );
    }
    let cached = lab.path("data/plugins").join(&package);
    assert!(cached.join("terraform-provider-fake_v1.0.0").exists());
    let shapes: Vec<PathBuf> =
        fs::read_dir(lab.path("data/shapes")).expect("shapes").flatten().map(|shape| shape.path()).collect();
    let mut shared = 0;
    for shape in &shapes {
        let used = fs::read_link(shape.join("data/providers").join(&package)).expect("a link");
        if used.starts_with(lab.path("data/plugins")) {
            assert_eq!(fs::canonicalize(used).expect("there"), fs::canonicalize(&cached).expect("there"));
            shared += 1;
        } else {
            assert!(used.starts_with(lab.path("data/plugins-of")), "{}", used.display());
        }
        assert!(!shape.join("plugins").exists() && !shape.join("install").exists(), "nothing is left of it");
    }
    assert_eq!((shapes.len(), shared), (4, 2), "what was fetched with tokens is for their owner");
}

fn program(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    fs::write(path, text).expect("write");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("a program");
}

/// As Go calls it.
fn platform() -> &'static str {
    if cfg!(target_arch = "aarch64") { "linux_arm64" } else { "linux_amd64" }
}
