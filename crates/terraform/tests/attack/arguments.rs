//! Arguments and environment that change what a run means, and paths of the host.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
};

use capt_terraform::{
    Executor,
    failure::Class,
    inputs::{BinaryName, EnvValue, Inputs},
    module::Module,
    order::Operation,
    view::{Finished, Outcome},
};

use crate::lab::{Lab, Tool, files_with, reason, tool};

const PLAIN: &str = "output \"x\" {\n  value = 1\n}\n";

/// A folder with a `terraform` that notes what it is asked for and does what `does` says.
struct Fake {
    folder: tempfile::TempDir,
}

impl Fake {
    fn new(does: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let script = format!(
            "#!/bin/sh\necho \"$@\" >> {}\nif [ \"$1\" = version ]; then echo '{{\"terraform_version\":\"1.9.0\"}}'; exit 0; fi\n{does}\n",
            folder.path().join("asked").display()
        );
        let program = folder.path().join("terraform");
        fs::write(&program, script).expect("write");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("a program");
        Self { folder }
    }

    fn tool(&self) -> Tool {
        let path = std::env::join_paths([self.folder.path(), Path::new("/bin"), Path::new("/usr/bin")]);
        Tool { name: BinaryName::Terraform, path: path.expect("a path") }
    }

    /// The commands it was run with, but for being asked for its version.
    fn asked(&self) -> Vec<String> {
        let asked = fs::read_to_string(self.folder.path().join("asked")).unwrap_or_default();
        asked.lines().filter(|line| !line.starts_with("version")).map(str::to_owned).collect()
    }
}

fn assert_terminal(finished: &Finished, what: &str) {
    let Outcome::Failed(failure) = &finished.outcome else { panic!("{what}: {finished:?}") };
    assert_eq!(failure.class, Class::Terminal, "{what}: {failure:?}");
}

#[tokio::test]
async fn arguments_that_change_the_meaning_are_refused_before_anything_runs() {
    let fake = Fake::new("exit 0");
    let lab = Lab::new(&fake.tool()).await;
    let bad = [
        "-help",
        "-h",
        "--help",
        "-version",
        "-state=/tmp/x",
        "-state-out=x",
        "--state=x",
        "-backup=x",
        "-chdir=/",
        "-lock=false",
        "-target=a.b",
        "-target",
        "a.b",
        "-out=/tmp/x",
        "-destroy",
        "-refresh-only",
        "-json=false",
        "-input=true",
        "-auto-approve=false",
        "-var=a=b",
        "-var-file=/etc/passwd",
        "-backend-config=/etc/passwd",
        "-plugin-dir=/",
        "-from-module=/",
        "--",
        "",
        "-parallelism",
        "5",
    ];
    for (at, text) in bad.iter().enumerate() {
        let mut inputs = lab.inputs(PLAIN);
        let args = &mut inputs.args;
        [&mut args.init, &mut args.plan, &mut args.apply, &mut args.destroy][at % 4].push((*text).to_owned());
        let refused = lab.engine.revision(&inputs).await.expect_err(text);
        assert_eq!(refused.reason.as_str(), "ArgumentNotAllowed", "{text}");
        let failed = lab.apply(&format!("w{at}"), inputs).await;
        assert_eq!(reason(&failed), "ArgumentNotAllowed", "{text}: {failed:?}");
        assert_terminal(&failed, text);
    }
    assert_eq!(fake.asked(), Vec::<String>::new(), "nothing was run");
}

#[tokio::test]
async fn environment_that_changes_the_meaning_is_refused_before_anything_runs() {
    let fake = Fake::new("exit 0");
    let lab = Lab::new(&fake.tool()).await;
    let bad = [
        "TF_CLI_ARGS",
        "TF_CLI_ARGS_plan",
        "TF_DATA_DIR",
        "TF_WORKSPACE",
        "TF_CLI_CONFIG_FILE",
        "TF_PLUGIN_CACHE_DIR",
        "TF_LOG_PATH",
        "TF_REATTACH_PROVIDERS",
        "LD_PRELOAD",
        "LD_LIBRARY_PATH",
        "PATH",
        "HOME",
        "TMPDIR",
        "BASH_ENV",
        "ENV",
        "GIT_SSH_COMMAND",
        "GIT_CONFIG_GLOBAL",
        "GODEBUG",
        "CAPT_DATA_DIR",
        "SSL_CERT_FILE",
        "A=B",
    ];
    for name in bad {
        let mut inputs = lab.inputs(PLAIN);
        inputs.env.insert(name.to_owned(), EnvValue { value: "hunter2".into(), sensitive: true });
        let failed = lab.apply("a", inputs).await;
        assert_eq!(reason(&failed), "EnvironmentNotAllowed", "{name}: {failed:?}");
        assert_terminal(&failed, name);
        assert!(!format!("{failed:?}").contains("hunter2"), "{failed:?}");
    }
    assert_eq!(fake.asked(), Vec::<String>::new(), "nothing was run");
}

#[tokio::test]
async fn a_run_that_says_nothing_did_nothing() {
    let summary = |operation: &str| {
        format!(
            r#"echo '{{"@level":"info","@message":"x","type":"change_summary","changes":{{"add":0,"change":0,"import":0,"remove":0,"operation":"{operation}"}}}}'"#
        )
    };
    let cases = [
        ("silent", "exit 0".to_owned()),
        ("helpful", "echo 'Usage: terraform [global options] apply'; exit 0".to_owned()),
        ("a plan is no apply", format!("{}; exit 0", summary("plan"))),
    ];
    for (name, does) in cases {
        let fake = Fake::new(&does);
        let lab = Lab::new(&fake.tool()).await;
        let failed = lab.apply("a", lab.inputs(PLAIN)).await;
        assert_eq!(reason(&failed), "NoSummary", "{name}: {failed:?}");
        assert!(!fake.asked().is_empty(), "{name}: it was run");
        assert_eq!(lab.look("a").applied, None, "{name}");
        // Neither is a plan, nor a look for drift.
        if name != "a plan is no apply" {
            for operation in [Operation::Plan, Operation::Refresh] {
                let failed = lab.run("a", operation, Some(lab.inputs(PLAIN))).await;
                assert_eq!(reason(&failed), "NoSummary", "{name}: {failed:?}");
            }
        }
    }
    let fake = Fake::new(&format!("{}; {}; exit 0", summary("plan"), summary("apply")));
    let lab = Lab::new(&fake.tool()).await;
    let done = lab.apply("a", lab.inputs(PLAIN)).await;
    assert_eq!(done.outcome, Outcome::Done, "one that tells is believed: {done:?}");
}

/// Inputs of a module at an address.
fn at(lab: &Lab, source: impl Into<String>) -> Inputs {
    let mut inputs = lab.inputs("");
    inputs.module = Module::Source { source: source.into(), version: None, entrypoint: None };
    inputs
}

#[tokio::test]
async fn host_paths_are_the_operators_to_give() {
    let Some(tool) = tool() else { return };
    let outside = tempfile::tempdir().expect("a folder");
    let text = "output \"x\" {\n  value = \"of-somebody-else\"\n}\n";
    fs::write(outside.path().join("main.tf"), text).expect("write");
    let lab = Lab::with(&tool, |options| {
        let root = options.folder.parent().expect("a folder").join("root");
        fs::create_dir(&root).expect("a folder");
        options.allow_paths = vec![root];
    })
    .await;
    fs::create_dir(lab.path("root/good")).expect("a folder");
    fs::write(lab.path("root/good/main.tf"), PLAIN).expect("write");
    symlink(outside.path(), lab.path("root/link")).expect("a link");
    let shown = |path: PathBuf| path.display().to_string();
    let beyond = shown(outside.path().to_owned());
    let sources = [
        beyond.clone(),
        format!("file://{beyond}"),
        format!("git::file://{beyond}"),
        format!("git::{beyond}"),
        format!("file::{beyond}"),
        format!("{}/../../{beyond}", shown(lab.path("root"))),
        shown(lab.path("root/link")),
        shown(lab.path("root/../data/workspaces")),
        shown(lab.path("data")),
        "../../workspaces".to_owned(),
        "./x".to_owned(),
        "/".to_owned(),
    ];
    for source in sources {
        let failed = lab.apply("a", at(&lab, source.clone())).await;
        assert_eq!(reason(&failed), "PathNotAllowed", "{source}: {failed:?}");
        assert_terminal(&failed, &source);
        assert!(format!("{failed:?}").contains("--allow-path"), "{failed:?}");
    }
    for folder in ["/", "/etc", beyond.as_str()] {
        let (mut mirror, mut cache) = (lab.inputs(PLAIN), lab.inputs(PLAIN));
        mirror.plugins.mirror = Some(folder.into());
        cache.plugins.cache = Some(folder.into());
        for inputs in [mirror, cache] {
            assert_eq!(reason(&lab.apply("a", inputs).await), "PathNotAllowed", "{folder}");
        }
    }
    assert_eq!(files_with(&lab.path("data"), "of-somebody-else"), Vec::<PathBuf>::new(), "nothing was read");
    let done = lab.apply("good", at(&lab, shown(lab.path("root/good")))).await;
    assert_eq!(done.outcome, Outcome::Done, "{done:?}");
    // A folder inside the module is no way out of it.
    let failed = lab.apply("sub", at(&lab, format!("{}//../..", shown(lab.path("root/good"))))).await;
    assert_eq!(reason(&failed), "ModuleNotFound", "{failed:?}");
}

/// A cache is written to: it is no way into the module of somebody else.
#[tokio::test]
async fn a_cache_is_a_folder_that_the_operator_made() {
    let Some(tool) = tool() else { return };
    let lab = Lab::with(&tool, |options| {
        let root = options.folder.parent().expect("a folder").join("root");
        fs::create_dir_all(root.join("good/docs")).expect("a folder");
        fs::create_dir_all(root.join("plain/docs")).expect("a folder");
        fs::create_dir(root.join("mirror")).expect("a folder");
        fs::create_dir(root.join("cache")).expect("a folder");
        options.allow_paths = vec![root];
    })
    .await;
    fs::write(lab.path("root/good/main.tf"), PLAIN).expect("write");
    fs::write(lab.path("root/file"), "").expect("write");
    let deep = format!("root/plain/{}", ["a"; 66].join("/"));
    let mirror = lab.path("root/mirror");
    let mut with_mirror = lab.inputs(PLAIN);
    with_mirror.plugins.mirror = Some(mirror);
    let good = at(&lab, lab.path("root/good").display().to_string());
    let rows = [
        (lab.inputs(PLAIN), deep.as_str(), "make the folder"),
        (lab.inputs(PLAIN), "root/new", "make the folder"),
        (lab.inputs(PLAIN), "root/file", "make the folder"),
        // What is somebody's module, or a part of one.
        (lab.inputs(PLAIN), "root/good", "folder of a module"),
        (lab.inputs(PLAIN), "root/good/docs", "folder of a module"),
        (at(&lab, lab.path("root/plain").display().to_string()), "root/plain/docs", "module source"),
        (at(&lab, lab.path("root/plain/docs").display().to_string()), "root/plain", "module source"),
        (good.clone(), "root", "module source"),
        (with_mirror.clone(), "root/mirror", "plugins.mirror"),
        (with_mirror, "root", "plugins.mirror"),
    ];
    for (mut inputs, cache, told) in rows {
        inputs.plugins.cache = Some(lab.path(cache));
        let failed = lab.apply("a", inputs).await;
        assert_eq!(reason(&failed), "PathNotAllowed", "{cache}: {failed:?}");
        let said = format!("{failed:?}");
        assert!(said.contains(told) && said.contains(&lab.path(cache).display().to_string()), "{said}");
    }
    for nothing in ["root/new", "root/plain/a"] {
        assert!(!lab.path(nothing).exists(), "{nothing} was made");
    }
    let mut inputs = good;
    inputs.plugins.cache = Some(lab.path("root/cache"));
    assert_eq!(lab.apply("good", inputs).await.outcome, Outcome::Done);
}
