//! Many workspaces: one init, all at once, fair.

use std::fs;

use capt_terraform::{
    Executor,
    failure::Class,
    inputs::{BinaryName, EnvValue, Inputs, Variable},
    module::Module,
    order::{Operation, Order, WorkspaceId},
    view::Outcome,
};

use crate::lab::{Lab, tool, tools};

/// A module in a folder, with a module of its own: it has to be initialised.
fn in_a_folder(lab: &Lab) -> Inputs {
    let folder = lab.path("module");
    fs::create_dir_all(folder.join("root/child")).expect("folders");
    fs::create_dir_all(folder.join("beside")).expect("folders");
    fs::write(folder.join("root/main.tf"), "variable \"n\" {}\nmodule \"c\" {\n  source = \"./child\"\n  n = var.n\n}\nmodule \"b\" {\n  source = \"../beside\"\n}\noutput \"n\" {\n  value = module.c.n\n}\n").expect("write");
    fs::write(folder.join("root/child/main.tf"), "variable \"n\" {}\nresource \"terraform_data\" \"a\" {\n  input = var.n\n}\noutput \"n\" {\n  value = terraform_data.a.output\n}\n").expect("write");
    fs::write(folder.join("beside/main.tf"), "output \"x\" {\n  value = 1\n}\n").expect("write");
    let source = format!("{}//root", folder.display());
    let mut inputs = lab.inputs("");
    inputs.module = Module::Source { source, version: None, entrypoint: None };
    inputs
}

fn with_n(inputs: &Inputs, n: usize) -> Inputs {
    let mut inputs = inputs.clone();
    inputs.variables.insert("n".into(), Variable::from(n.to_string()));
    inputs
}

/// A file that was saved while its folder was copied leaves another module under the hash of the first; so does a bad disk.
#[tokio::test]
async fn a_copy_of_other_files_is_not_used() {
    for tool in tools() {
        let lab = Lab::new(&tool).await;
        let inputs = with_n(&in_a_folder(&lab), 1);
        assert_eq!(lab.apply("first", inputs.clone()).await.outcome, Outcome::Done);
        let kept = crate::lab::files_with(&lab.path(""), "module.c.n");
        let copies = kept.iter().filter(|path| path.to_string_lossy().contains("/package/"));
        copies.for_each(|path| fs::write(path, "variable \"n\" {}\n").expect("write"));
        let lab = lab.restart().await;
        assert_eq!(lab.apply("second", inputs).await.outcome, Outcome::Done);
        assert_eq!(lab.look("second").outputs.get("n").unwrap().value, "1", "made of the files as they are");
    }
}

/// OpenTofu takes sources of modules from values of variables: what is fetched with one is not for another.
#[tokio::test]
async fn modules_that_a_value_names_are_fetched_for_that_value() {
    for tool in tools().into_iter().filter(|tool| tool.name == BinaryName::Tofu) {
        let lab = Lab::new(&tool).await;
        let folder = lab.path("module");
        for name in ["a", "b"] {
            fs::create_dir_all(folder.join(name)).expect("folders");
            let text = format!("output \"x\" {{\n  value = \"of {name}\"\n}}\n");
            fs::write(folder.join(name).join("main.tf"), text).expect("write");
        }
        let text = "variable \"from\" {}\nmodule \"m\" {\n  source = var.from\n}\noutput \"x\" {\n  value = module.m.x\n}\n";
        fs::write(folder.join("main.tf"), text).expect("write");
        for name in ["a", "b"] {
            let source = folder.display().to_string();
            let mut inputs = Inputs::new(Module::Source { source, version: None, entrypoint: None });
            inputs.binary.name = tool.name;
            let value = EnvValue { value: format!("./{name}"), sensitive: false };
            inputs.env.insert("TF_VAR_from".into(), value);
            let ended = lab.apply(name, inputs).await;
            assert_eq!(ended.outcome, Outcome::Done, "{name}: {ended:?}");
            assert_eq!(lab.look(name).outputs.get("x").expect("an output").value, format!("of {name}"));
        }
        assert_eq!(lab.engine.metrics().inits, 2);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_of_one_template_share_one_init() {
    let Some(tool) = tool() else { return };
    let lab = Lab::new(&tool).await;
    let inputs = in_a_folder(&lab);
    for n in 0..100 {
        let order = Order::new(WorkspaceId::new(format!("w{n}")), Operation::Apply, Some(with_n(&inputs, n)));
        lab.engine.start_run(order).await.expect("taken");
    }
    for n in 0..100 {
        let finished = lab.ended(&WorkspaceId::new(format!("w{n}"))).await;
        assert_eq!(finished.outcome, Outcome::Done, "{finished:?}");
        assert_eq!(lab.look(&format!("w{n}")).outputs.get("n").unwrap().value, n.to_string());
    }
    let metrics = lab.engine.metrics();
    assert_eq!((metrics.inits, metrics.processes), (1, 100));
    assert_eq!(metrics.runs[&("apply", "done")], 100);

    // Another engine uses the same shape, and an edit of the module reaches the workspace.
    let lab = lab.restart().await;
    lab.apply("w100", with_n(&inputs, 100)).await;
    assert_eq!(lab.engine.metrics().inits, 0);
    let before = lab.engine.revision(&inputs).await.expect("a revision");
    fs::write(lab.path("module/beside/main.tf"), "output \"x\" {\n  value = 2\n}\n").expect("write");
    assert_ne!(lab.engine.revision(&inputs).await.expect("a revision"), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_at_once() {
    for tool in tools() {
        let lab = Lab::new(&tool).await;
        for n in 0..50 {
            let inputs = lab.inputs(&crate::lab::traced(&lab.path(&format!("trace{n}")), &n.to_string()));
            lab.engine
                .start_run(Order::new(WorkspaceId::new(n.to_string()), Operation::Apply, Some(inputs)))
                .await
                .expect("taken");
        }
        for n in 0..50 {
            assert_eq!(lab.ended(&WorkspaceId::new(n.to_string())).await.outcome, Outcome::Done);
            assert_eq!(crate::lab::trace(&lab.path(&format!("trace{n}"))), [format!("create {n}")]);
        }
    }
}

#[tokio::test]
async fn an_entrypoint_and_a_repository() {
    for tool in tools() {
        let lab = Lab::new(&tool).await;
        let mut inputs = in_a_folder(&lab);
        let folder = lab.path("module");
        inputs.module = Module::Source {
            source: folder.display().to_string(),
            version: None,
            entrypoint: Some("root".into()),
        };
        let done = lab.apply("entry", with_n(&inputs, 1)).await;
        assert_eq!(done.outcome, Outcome::Done, "{done:?}");
        let git = |args: &[&str]| {
            let status = std::process::Command::new("git")
                .args([
                    "-c",
                    "user.name=t",
                    "-c",
                    "user.email=t@example.com",
                    "-c",
                    "init.defaultBranch=main",
                ])
                .args(args)
                .current_dir(&folder)
                .output();
            status.is_ok_and(|output| output.status.success())
        };
        if !(git(&["init", "-q"]) && git(&["add", "."]) && git(&["commit", "-qm", "x"])) {
            return;
        }
        inputs.module = Module::Source {
            source: format!("git::file://{}//root", folder.display()),
            version: None,
            entrypoint: None,
        };
        let done = lab.apply("git", with_n(&inputs, 2)).await;
        assert_eq!(done.outcome, Outcome::Done, "{done:?}");
        assert_eq!(lab.look("git").outputs.get("n").unwrap().value, "2");
        assert_eq!(lab.run("git", Operation::Destroy, None).await.outcome, Outcome::Done);
    }
}

#[tokio::test]
async fn a_module_writes_beside_itself_and_into_no_other_workspace() {
    for tool in tools() {
        let lab = Lab::new(&tool).await;
        let text = "variable \"n\" {}\nresource \"terraform_data\" \"a\" {\n  provisioner \"local-exec\" {\n    command = \"echo ${var.n} >> ${path.module}/here; cat here\"\n  }\n}\n";
        for n in 0..3 {
            lab.apply(&format!("w{n}"), with_n(&lab.inputs(text), n)).await;
        }
        for n in 0..3 {
            let here =
                fs::read_to_string(lab.folder_of(&format!("w{n}")).join("guest/work/here")).expect("written");
            assert_eq!(here, format!("{n}\n"));
        }
    }
}

/// On one thread: what the engine tells is seen when it waits again, here for the slot.
#[tokio::test]
async fn a_deletion_overtakes_what_is_prepared() {
    let Some(tool) = tool() else { return };
    let lab = Lab::with(&tool, |options| options.slots = 1).await;
    lab.apply("old", lab.traced("old")).await;
    let gate = lab.path("gate");
    let text = format!(
        "resource \"terraform_data\" \"a\" {{\n  provisioner \"local-exec\" {{\n    command = \"until [ -e {} ]; do sleep 0.05; done; echo slow >> {}\"\n  }}\n}}\n",
        gate.display(),
        lab.path("trace").display()
    );
    for at in 0..5 {
        let order =
            Order::new(WorkspaceId::new(format!("slow{at}")), Operation::Apply, Some(lab.inputs(&text)));
        lab.engine.start_run(order).await.expect("taken");
    }
    // Whichever was prepared first has the one slot.
    capt_e2e::until("one of them runs", crate::lab::PATIENCE, async || {
        let runs = |at| lab.look(&format!("slow{at}")).run.is_some_and(|run| run.progress.current.is_some());
        (0..5).any(runs).then_some(())
    })
    .await
    .expect("runs");
    lab.engine.start_run(Order::new(WorkspaceId::new("old"), Operation::Destroy, None)).await.expect("taken");
    // It is prepared, and waits for the one slot.
    lab.until(&WorkspaceId::new("old"), |view| view.applied.is_none()).await;
    fs::write(gate, "").expect("write");
    for at in 0..5 {
        lab.ended(&WorkspaceId::new(format!("slow{at}"))).await;
    }
    assert_eq!(lab.trace()[..3], ["create old", "slow", "destroy old"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_init_holds_up_nobody_else() {
    let Some(tool) = tool() else { return };
    let lab = Lab::with(&tool, |options| options.slots = 1).await;
    // A binary whose `init` waits.
    let bin = lab.path("bin");
    fs::create_dir(&bin).expect("a folder");
    let real =
        std::env::split_paths(&tool.path).map(|folder| folder.join("terraform")).find(|path| path.is_file());
    let Some(real) = real else { return };
    let gate = lab.path("gate");
    let script = format!(
        "#!/bin/sh\nif [ \"$1\" = init ]; then until [ -e {} ]; do sleep 0.05; done; fi\nexec {} \"$@\"\n",
        gate.display(),
        real.display()
    );
    crate::bad::program(&bin.join("terraform"), &script);
    let path =
        std::env::join_paths(std::iter::once(bin).chain(std::env::split_paths(&tool.path))).expect("a path");
    let lab = Lab { tool: crate::lab::Tool { path, ..tool }, ..lab }.restart().await;
    let slow = in_a_folder(&lab);
    for n in 0..10 {
        let order = Order::new(WorkspaceId::new(format!("w{n}")), Operation::Apply, Some(with_n(&slow, n)));
        lab.engine.start_run(order).await.expect("taken");
    }
    assert_eq!(lab.apply("quick", lab.traced("quick")).await.outcome, Outcome::Done);
    assert!(lab.look("w9").last.is_none());
    fs::write(gate, "").expect("write");
    for n in 0..10 {
        assert_eq!(lab.ended(&WorkspaceId::new(format!("w{n}"))).await.outcome, Outcome::Done);
    }
}

/// Destroys and drift detection run the code that was applied: the folder may be gone, or hold other code by now.
#[tokio::test]
async fn a_local_module_is_destroyed_by_the_code_that_was_applied() {
    for tool in tools() {
        let lab = Lab::new(&tool).await;
        let inputs = with_n(&in_a_folder(&lab), 1);
        for name in ["edited", "planned", "gone", "lost"] {
            assert_eq!(lab.apply(name, inputs.clone()).await.outcome, Outcome::Done);
        }
        // Terraform refuses this before it looks at anything.
        fs::write(lab.path("module/root/main.tf"), "output \"n\" {\n  value = var.unknown\n}\n")
            .expect("write");
        let planned = lab.run("planned", Operation::Plan, Some(inputs.clone())).await;
        assert!(matches!(planned.outcome, Outcome::Failed(_)), "{planned:?}");
        let looked = lab.run("edited", Operation::Refresh, Some(inputs.clone())).await;
        assert_eq!(looked.outcome, Outcome::Done);
        assert_eq!(lab.run("edited", Operation::Destroy, None).await.outcome, Outcome::Done);
        let lab = lab.restart().await;
        assert_eq!(lab.run("planned", Operation::Destroy, None).await.outcome, Outcome::Done);
        fs::rename(lab.path("module"), lab.path("elsewhere")).expect("rename");
        assert_eq!(lab.run("gone", Operation::Destroy, None).await.outcome, Outcome::Done);

        // Where no copy is left, the folder is waited for.
        for copy in crate::lab::files_with(&lab.path(""), "module.c.n") {
            if copy.to_string_lossy().contains("/package/") {
                fs::remove_file(copy).expect("remove");
            }
        }
        let lab = lab.restart().await;
        let lost = lab.run("lost", Operation::Destroy, None).await;
        let Outcome::Failed(failure) = &lost.outcome else { panic!("{lost:?}") };
        assert_eq!((failure.reason.as_str(), failure.class), ("ModuleNotFound", Class::Transient));
        fs::rename(lab.path("elsewhere"), lab.path("module")).expect("rename");
        in_a_folder(&lab);
        assert_eq!(lab.run("lost", Operation::Destroy, None).await.outcome, Outcome::Done);
    }
}
