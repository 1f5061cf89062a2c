//! Links, special files and shared folders: what a module puts in CAPT's way, and what it may not see.
//!
//! The runs are confined where the kernel can. What CAPT itself does with what they leave behind must hold without that, too: so most
//! attacks are run both ways.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
};

use capt_terraform::{
    Executor, WorkspaceStore,
    inputs::Inputs,
    module::Module,
    order::{Operation, WorkspaceId},
    sandbox,
    view::Outcome,
};

use crate::lab::{Lab, Tool, reason, tool};

const TOKEN: &str = "administrators-token-4711";

/// A lab that is not below the system's temporary folder, with a secret beside the engine's folder.
async fn lab(tool: &Tool, confined: bool) -> (Lab, PathBuf) {
    let lab = Lab::with(tool, |options| options.sandbox = confined).await;
    let token = lab.path("token");
    fs::write(&token, TOKEN).expect("write");
    (lab, token)
}

fn modes() -> Vec<bool> {
    if sandbox::available() { vec![false, true] } else { vec![false] }
}

/// A module that runs a command while it is applied, in the folder where it starts.
fn running(lab: &Lab, command: &str) -> Inputs {
    let command = serde_json::to_string(command).expect("text").replace("${", "$${");
    lab.inputs(&format!(
        "variable \"v\" {{\n  default = \"1\"\n}}\nresource \"terraform_data\" \"a\" {{\n  triggers_replace = var.v\n  provisioner \"local-exec\" {{\n    command = {command}\n  }}\n}}\n"
    ))
}

fn untouched(token: &Path) {
    assert_eq!(fs::read_to_string(token).expect("there"), TOKEN);
}

fn git_module(folder: &Path, prepare: impl FnOnce(&Path)) -> Option<String> {
    fs::create_dir_all(folder).expect("a folder");
    fs::write(folder.join("main.tf"), "output \"tok\" {\n  value = file(\"${path.module}/tok\")\n}\n")
        .expect("write");
    prepare(folder);
    let git = |args: &[&str]| {
        let identity = ["-c", "user.name=x", "-c", "user.email=x@example.com", "-c", "commit.gpgsign=false"];
        Command::new("git")
            .current_dir(folder)
            .args(identity)
            .args(args)
            .output()
            .is_ok_and(|ended| ended.status.success())
    };
    let made = git(&["init", "-q"]) && git(&["add", "-A"]) && git(&["commit", "-q", "-m", "x"]);
    made.then(|| format!("git::file://{}", folder.display()))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_in_a_module_gives_nothing_away() {
    let Some(tool) = tool() else { return };
    for confined in modes() {
        let (lab, token) = lab(&tool, confined).await;
        let sources = [
            git_module(&lab.path("repository"), |folder| {
                symlink(&token, folder.join("tok")).expect("linked");
            }),
            Some(lab.path("repository").display().to_string()),
        ];
        for (at, source) in sources.into_iter().flatten().enumerate() {
            let mut inputs = Inputs::new(Module::Source { source, version: None, entrypoint: None });
            inputs.binary.name = tool.name;
            let name = format!("w{at}");
            let ended = lab.apply(&name, inputs).await;
            let Outcome::Failed(failure) = &ended.outcome else { panic!("{ended:?}") };
            assert!(!failure.message.contains(TOKEN), "{failure:?}");
            assert!(!format!("{:?}", lab.look(&name).outputs).contains(TOKEN));
        }
        let mut copies = crate::lab::files_with(&lab.path("data"), TOKEN);
        copies.retain(|path| !path.is_symlink());
        assert_eq!(copies, Vec::<PathBuf>::new(), "copied nowhere");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn links_that_a_run_leaves_behind_are_not_written_through() {
    let Some(tool) = tool() else { return };
    for confined in modes() {
        let (lab, token) = lab(&tool, confined).await;
        let victim = token.display();
        // Names that CAPT writes, reads or removes in what a run can write, as links to what it cannot.
        let plant = format!(
            "for f in main.tf zzz-capt-variables.auto.tfvars.json .capt-new errored.tfstate capt_version.tf credentials; do rm -rf $f; ln -s {victim} $f; done; \
             ln -sfn {victim} ../state/terraform.tfstate.new; ln -sfn {victim} ../plan; ln -sfn {victim} ../rendered.json; true"
        );
        let planted = lab.apply("a", running(&lab, &plant)).await;
        // Terraform's own errored state is a link: the run fails rather than taking it in.
        assert!(matches!(&planted.outcome, Outcome::Done | Outcome::Failed(_)), "{planted:?}");
        untouched(&token);
        let mut again = running(&lab, "true");
        again.variables.insert("v".into(), "2".into());
        again.files.insert("credentials".into(), b"new".to_vec());
        let ended = lab.apply("a", again.clone()).await;
        assert_eq!(ended.outcome, Outcome::Done, "{ended:?}");
        assert_eq!(lab.run("a", Operation::Plan, Some(again)).await.outcome, Outcome::Planned);
        untouched(&token);
        assert_eq!(lab.run("a", Operation::Destroy, None).await.outcome, Outcome::Done);
        lab.engine.forget(&WorkspaceId::new("a")).await.expect("forgotten");
        untouched(&token);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_state_that_is_a_link_is_not_read() {
    let Some(tool) = tool() else { return };
    for confined in modes() {
        let (lab, _) = lab(&tool, confined).await;
        // Another tenant's state, with a secret among its outputs.
        let secret = lab.inputs(
            "resource \"terraform_data\" \"a\" {}\noutput \"s\" {\n  value = \"their-secret-output\"\n}\n",
        );
        assert_eq!(lab.apply("victim", secret).await.outcome, Outcome::Done);
        let theirs = lab.folder_of("victim").join("state/terraform.tfstate");
        // Put in place when Terraform has written its own for the last time.
        let swap = format!(
            "(while kill -0 $PPID 2>/dev/null; do ln -sf {} ../state/x && mv -Tf ../state/x ../state/terraform.tfstate; done) >/dev/null 2>&1 & sleep 0.2",
            theirs.display()
        );
        let ended = lab.apply("thief", running(&lab, &swap)).await;
        let view = lab.look("thief");
        assert!(!format!("{:?}", view.outputs).contains("their-secret-output"), "{ended:?}");
        assert_eq!(lab.look("victim").resources, 1);
        assert!(
            theirs.is_file() && fs::read_to_string(&theirs).expect("there").contains("their-secret-output")
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_that_a_run_plants_reaches_the_next_one() {
    let Some(tool) = tool() else { return };
    let (lab, _) = lab(&tool, sandbox::available()).await;
    let plant = "mkdir -p ../data && echo evil > ../data/environment; printf 'output \"odd\" { value = 1 }' > \"$(printf 'odd\\377').tf\"; echo x > $HOME/.curlrc; echo x > $TMPDIR/left; echo 'output \"planted\" { value = 1 }' > planted.tf; \
                 echo 'output \"planted\" { value = 1 }' > planted_override.tf";
    assert_eq!(lab.apply("a", running(&lab, plant)).await.outcome, Outcome::Done);
    let look = "test ! -e $HOME/.curlrc && test ! -e $TMPDIR/left && test ! -e planted.tf";
    for name in ["a", "b"] {
        let mut inputs = running(&lab, look);
        inputs.variables.insert("v".into(), "2".into());
        let ended = lab.apply(name, inputs).await;
        assert_eq!(ended.outcome, Outcome::Done, "{name}: {ended:?}");
        for planted in ["planted", "odd"] {
            assert!(lab.look(name).outputs.get(planted).is_none(), "{planted}");
        }
    }
}

/// Below the root of a module, too.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_that_a_run_plants_becomes_part_of_its_module() {
    let Some(tool) = tool() else { return };
    let module = tempfile::tempdir().expect("a folder");
    fs::create_dir(module.path().join("sub")).expect("a folder");
    let plant = "resource \"terraform_data\" \"a\" {\n  triggers_replace = var.v\n  provisioner \"local-exec\" {\n    command = \"echo 'resource terraform_data planted {}' > sub/planted.tf; mkdir -p ../data; echo evil > ../data/environment\"\n  }\n}\nvariable \"v\" {}\nmodule \"sub\" {\n  source = \"./sub\"\n}\n";
    fs::write(module.path().join("main.tf"), plant).expect("write");
    fs::write(module.path().join("sub/main.tf"), "resource \"terraform_data\" \"own\" {}\n").expect("write");
    let allowed = fs::canonicalize(module.path()).expect("there");
    let lab = Lab::with(&tool, |options| options.allow_paths.push(allowed.clone())).await;
    for v in ["1", "2", "3"] {
        let mut inputs = Inputs::new(Module::Source {
            source: allowed.display().to_string(),
            version: None,
            entrypoint: None,
        });
        inputs.binary.name = tool.name;
        inputs.variables.insert("v".into(), v.into());
        let ended = lab.apply("a", inputs).await;
        assert_eq!(ended.outcome, Outcome::Done, "{ended:?}");
        assert_eq!(lab.look("a").resources, 2, "the module's own");
    }
}

/// A run has a copy of its module. Where the module came from somebody else may change what is there, also into a link.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_does_not_read_where_its_module_came_from() {
    let Some(tool) = tool() else { return };
    if !sandbox::available() {
        capt_e2e::skip("the kernel has no Landlock");
        return;
    }
    let module = tempfile::tempdir().expect("a folder");
    let folder = fs::canonicalize(module.path()).expect("there");
    fs::write(folder.join("beside.txt"), "beside").expect("write");
    let text = format!(
        "output \"copy\" {{\n  value = file(\"beside.txt\")\n}}\n\
         output \"place\" {{\n  value = try(file(\"{}/beside.txt\"), \"refused\")\n}}\n",
        folder.display()
    );
    fs::write(folder.join("main.tf"), text).expect("write");
    let lab = Lab::with(&tool, |options| {
        options.sandbox = true;
        options.allow_paths.push(folder.clone());
    })
    .await;
    let mut inputs =
        Inputs::new(Module::Source { source: folder.display().to_string(), version: None, entrypoint: None });
    inputs.binary.name = tool.name;
    let ended = lab.apply("a", inputs).await;
    assert_eq!(ended.outcome, Outcome::Done, "{ended:?}");
    let outputs = lab.look("a").outputs;
    let told = ["copy", "place"].map(|name| outputs.get(name).map(|output| output.value.clone()));
    assert_eq!(told, ["beside", "refused"].map(|text| Some(text.into())));
}

/// Modules are fetched with git, which takes the configuration of a repository that a module brings along: it names programs. They may run,
/// but nowhere near what others use.
#[tokio::test(flavor = "multi_thread")]
async fn what_fetches_modules_cannot_write_the_plugin_cache() {
    let Some(tool) = tool() else { return };
    if !sandbox::available() {
        capt_e2e::skip("the kernel has no Landlock");
        return;
    }
    let module = tempfile::tempdir().expect("a folder");
    let folder = fs::canonicalize(module.path()).expect("there");
    let lab = Lab::with(&tool, |options| {
        options.sandbox = true;
        options.allow_paths.push(folder.clone());
    })
    .await;
    let cache = lab.path("data/plugins");
    for name in ["objects", "refs"] {
        fs::create_dir(folder.join(name)).expect("a folder");
    }
    fs::write(folder.join("refs/x"), "").expect("write");
    fs::write(folder.join("objects/x"), "").expect("write");
    fs::write(folder.join("HEAD"), "ref: refs/heads/x\n").expect("write");
    let attack = format!(
        "[core]\n\trepositoryformatversion = 0\n\tbare = true\n\tsshCommand = \"touch {}/poisoned; false\"\n",
        cache.display()
    );
    fs::write(folder.join("config"), attack).expect("write");
    fs::write(folder.join("main.tf"), "module \"m\" {\n  source = \"git::ssh://git@127.0.0.1:9/x.git\"\n}\n")
        .expect("write");
    let mut inputs =
        Inputs::new(Module::Source { source: folder.display().to_string(), version: None, entrypoint: None });
    inputs.binary.name = tool.name;
    let ended = lab.apply("a", inputs).await;
    assert!(matches!(ended.outcome, Outcome::Failed(_)), "{ended:?}");
    assert!(!cache.join("poisoned").exists(), "what all use was written");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_confined_run_writes_nothing_that_is_relied_upon() {
    let Some(tool) = tool() else { return };
    if !sandbox::available() {
        capt_e2e::skip("the kernel has no Landlock");
        return;
    }
    let (lab, token) = lab(&tool, true).await;
    assert_eq!(lab.apply("other", running(&lab, "true")).await.outcome, Outcome::Done);
    let other = lab.folder_of("other");
    let data = lab.path("data");
    let attempts = [
        format!("cat {}", token.display()),
        format!("cat {}/record.json", other.display()),
        format!("ls {}", data.join("workspaces").display()),
        format!("ls {}", data.join("shapes").display()),
        format!("ls {}", data.join("scratch").display()),
        format!("echo x > {}/x", data.join("plugins").display()),
        format!("echo x > {}/x", data.join("cli").display()),
        "echo x > ../../record.json".to_owned(),
        "cat ../../record.json".to_owned(),
        "echo x > ../../state/terraform.tfstate".to_owned(),
        "echo x > ../../rendered.json".to_owned(),
        "ls /root /home /etc/shadow /run/secrets /var/run/secrets /dev/shm".to_owned(),
        // A terminal, whose input the shell of the operator would run; what root may do beyond files.
        "echo x > /dev/tty".to_owned(),
        "ls /dev/pts".to_owned(),
        "grep -q 'CapEff:.*[1-9a-f]$' /proc/self/status".to_owned(),
        "grep -q 'CapBnd:.*[1-9a-f]$' /proc/self/status && test $(id -u) = 0".to_owned(),
        format!("tr '\\0' '\\n' < /proc/{}/environ | grep -q PATH", std::process::id()),
    ];
    for (at, attempt) in attempts.iter().enumerate() {
        let ended = lab.apply(&format!("w{at}"), running(&lab, attempt)).await;
        assert_eq!(reason(&ended), "ApplyFailed", "{attempt}: {ended:?}");
    }
    untouched(&token);
}

#[tokio::test(flavor = "multi_thread")]
async fn special_files_in_a_module_block_nobody() {
    let Some(tool) = tool() else { return };
    let (lab, _) = lab(&tool, false).await;
    let module = lab.path("module");
    fs::create_dir_all(&module).expect("a folder");
    fs::write(module.join("main.tf"), "").expect("write");
    let fifo = Command::new("mkfifo").arg(module.join("fifo")).status();
    assert!(fifo.is_ok_and(|status| status.success()));
    let source = || Module::Source { source: module.display().to_string(), version: None, entrypoint: None };
    let mut inputs = Inputs::new(source());
    inputs.binary.name = tool.name;
    let refused = lab.engine.revision(&inputs).await.expect_err("no regular file");
    assert!(refused.message.contains("no regular file"), "{refused:?}");
    assert_eq!(reason(&lab.apply("a", inputs.clone()).await), "ModuleNotFound");
    fs::remove_file(module.join("fifo")).expect("removed");
    symlink("/dev/zero", module.join("zero")).expect("linked");
    lab.engine.revision(&inputs).await.expect_err("leads out");
    fs::remove_file(module.join("zero")).expect("removed");
    fs::File::create(module.join("endless")).expect("a file").set_len(1 << 40).expect("long");
    lab.engine.revision(&inputs).await.expect_err("too large");
    fs::remove_file(module.join("endless")).expect("removed");
    lab.engine.revision(&inputs).await.expect("a module");
}

/// Modes are the one thing of its folder that Landlock lets a run change. As the owner of the files, CAPT opens what it closed.
#[test]
fn a_run_that_closes_its_folders_loses_nothing() {
    // Root reads what is closed; threads that a thread starts have no more than it has.
    let owner = std::thread::spawn(|| {
        use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};
        let none = CapabilitySet::empty();
        let none = CapabilitySets { effective: none, permitted: none, inheritable: none };
        set_capabilities(None, none).expect("given up");
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
        runtime.expect("a runtime").block_on(close_folders());
    });
    owner.join().expect("done");
}

async fn close_folders() {
    let Some(tool) = tool() else { return };
    let file = "../state/terraform.tfstate";
    let all = format!("chmod 000 {file} ../state ../work ..");
    let closings = [
        &format!("chmod 000 {file}"),
        "chmod 000 ../state",
        "chmod 000 ../work",
        "chmod 000 ..",
        &all,
        // What CAPT itself keeps can be closed, too, though not reached.
        "chmod 000 ../../record.json",
        "chmod 000 $CAPT_RUN/apply.out $CAPT_RUN/apply.alive $CAPT_RUN/log",
        "mkdir -m 000 errored.tfstate",
        "mkfifo -m 000 errored.tfstate",
    ];
    for confined in modes() {
        let (mut lab, _) = lab(&tool, confined).await;
        for (at, closed) in closings.into_iter().enumerate() {
            let name = format!("w{at}");
            let closing = lab.apply(&name, running(&lab, closed)).await;
            assert_eq!(lab.look(&name).resources, 1, "{closed}: {closing:?}");
            lab = lab.restart().await;
            let mut again = running(&lab, "true");
            again.variables.insert("v".into(), "2".into());
            let ended = lab.apply(&name, again).await;
            assert_eq!(ended.outcome, Outcome::Done, "{closed}: {ended:?}");
            assert_eq!(lab.look(&name).resources, 1, "{closed}");
            let ended = lab.run(&name, Operation::Destroy, None).await;
            assert_eq!(ended.outcome, Outcome::Done, "{closed}: {ended:?}");
        }
    }
}

/// No run can write that file: without a word before it, the workspace could not even be deleted.
#[tokio::test]
async fn a_backend_in_a_file_of_the_host_is_refused() {
    let Some(tool) = tool() else { return };
    if !sandbox::available() {
        return;
    }
    let (lab, _) = lab(&tool, true).await;
    let path = lab.path("theirs.tfstate");
    let block =
        format!("terraform {{\n  backend \"local\" {{\n    path = \"{}\"\n  }}\n}}\n", path.display());
    let of_the_module = lab.inputs(&format!("{block}resource \"terraform_data\" \"a\" {{}}\n"));
    let mut given =
        lab.inputs("terraform {\n  backend \"local\" {}\n}\nresource \"terraform_data\" \"a\" {}\n");
    given.args.init.push(format!("-backend-config=path={}", path.display()));
    for (name, inputs) in [("a", of_the_module), ("b", given)] {
        let refused = lab.apply(name, inputs).await;
        assert_eq!(reason(&refused), "PathNotAllowed", "{refused:?}");
        assert!(!lab.look(name).touched && !path.exists(), "nothing has to be destroyed");
    }
}
