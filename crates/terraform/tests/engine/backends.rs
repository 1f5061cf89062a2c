//! One state has one workspace, whatever names the backend that keeps it.

use std::{fs, path::Path};

use capt_terraform::{
    Executor, WorkspaceStore,
    failure::Class,
    inputs::{Backend, Inputs},
    module::{Format, Module},
    order::{Operation, Order, WorkspaceId},
    state::State,
    view::{Outcome, Selected},
};

use crate::{
    lab::{Lab, PATIENCE, reason, tool, tools, traced},
    served::Served,
};

fn block(path: &Path) -> String {
    format!("terraform {{\n  backend \"local\" {{\n    path = \"{}\"\n  }}\n}}\n", path.display())
}

fn json(path: &Path) -> String {
    format!(r#"{{"terraform": {{"backend": {{"local": {{"path": "{}"}}}}}}}}"#, path.display())
}

/// A module in a folder, with further files.
fn in_a_folder(lab: &Lab, name: &str, files: &[(&str, &str)]) -> Inputs {
    let folder = lab.path(name);
    fs::create_dir_all(&folder).expect("a folder");
    fs::write(folder.join("main.tf"), traced(&lab.path("trace"), name)).expect("write");
    for (file, text) in files {
        fs::write(folder.join(file), text).expect("write");
    }
    let source = folder.display().to_string();
    Inputs { module: Module::Source { source, version: None, entrypoint: None }, ..lab.inputs("") }
}

#[tokio::test]
async fn two_workspaces_never_share_a_state() {
    let Some(tool) = tool() else { return };
    let lab = Lab::new(&tool).await;
    let shared = lab.path("shared.tfstate");
    let module = |name: &str| lab.inputs(&(block(&shared) + &traced(&lab.path("trace"), name)));
    assert_eq!(lab.apply("first", module("first")).await.outcome, Outcome::Done);

    let empty = "terraform {\n  backend \"local\" {}\n}\n";
    let argument = format!("-backend-config=path={}", shared.display());
    let elsewhere = block(&lab.path("elsewhere.tfstate"));
    let with_argument = |mut inputs: Inputs| {
        inputs.args.init.push(argument.clone());
        inputs
    };
    let plain = |name: &str| lab.traced(name);
    let as_json = r#"{"resource": {"terraform_data": {"r": {}}}, "terraform": TERRAFORM}"#
        .replace("TERRAFORM", &json(&shared)["{\"terraform\": ".len()..json(&shared).len() - 1]);
    let rows: Vec<(&str, Inputs)> = vec![
        ("module", module("module")),
        ("configuration", Inputs { configuration: Some(block(&shared)), ..plain("configuration") }),
        ("backend", Inputs { backend: Backend::Hcl(block(&shared)), ..plain("backend") }),
        (
            "inline-json",
            Inputs { module: Module::Inline { text: as_json, format: Format::Json }, ..lab.inputs("") },
        ),
        (
            "argument",
            with_argument(lab.inputs(&(empty.to_owned() + &traced(&lab.path("trace"), "argument")))),
        ),
        (
            "argument-over-configuration",
            with_argument(Inputs {
                configuration: Some(elsewhere.clone()),
                ..plain("argument-over-configuration")
            }),
        ),
        ("folder", in_a_folder(&lab, "folder", &[("backend.tf", &block(&shared))])),
        ("folder-json", in_a_folder(&lab, "folder-json", &[("backend.tf.json", &json(&shared))])),
        (
            "overridden",
            in_a_folder(
                &lab,
                "overridden",
                &[("backend.tf", &elsewhere), ("backend_override.tf", &block(&shared))],
            ),
        ),
        (
            "overridden-json",
            in_a_folder(
                &lab,
                "overridden-json",
                &[("backend.tf", &elsewhere), ("override.tf.json", &json(&shared))],
            ),
        ),
        (
            "folder-configured",
            Inputs { configuration: Some(block(&shared)), ..in_a_folder(&lab, "folder-configured", &[]) },
        ),
    ];
    for (name, inputs) in &rows {
        let refused = lab.apply(name, inputs.clone()).await;
        assert_eq!(reason(&refused), "BackendInUse", "{name}: {refused:?}");
        assert!(format!("{refused:?}").contains("workspace first"), "{name}: {refused:?}");
        assert_eq!(
            reason(&lab.run(name, Operation::Plan, Some(inputs.clone())).await),
            "BackendInUse",
            "{name}"
        );
        assert!(!lab.look(name).touched, "{name}");
    }
    // Also for an engine that starts anew.
    let lab = lab.restart().await;
    let (name, inputs) = &rows[6];
    assert_eq!(reason(&lab.apply(name, inputs.clone()).await), "BackendInUse");
    assert_eq!(lab.trace(), ["create first"]);
    // Nobody has it any more.
    assert_eq!(lab.run("first", Operation::Destroy, None).await.outcome, Outcome::Done);
    assert_eq!(lab.apply(name, inputs.clone()).await.outcome, Outcome::Done);
    assert_eq!(lab.trace(), ["create first", "destroy first", "create folder"]);
}

#[tokio::test]
async fn of_two_that_begin_at_once_one_is_refused() {
    let Some(tool) = tool() else { return };
    let lab = Lab::new(&tool).await;
    let shared = lab.path("shared.tfstate");
    let names = ["a", "b"];
    for name in names {
        let inputs = in_a_folder(&lab, name, &[("backend.tf", &block(&shared))]);
        lab.engine
            .start_run(Order::new(WorkspaceId::new(name), Operation::Apply, Some(inputs)))
            .await
            .expect("taken");
    }
    let mut outcomes = Vec::new();
    for name in names {
        outcomes.push(lab.ended(&WorkspaceId::new(name)).await);
    }
    let done = outcomes.iter().filter(|ended| ended.outcome == Outcome::Done).count();
    assert_eq!((done, lab.trace().len()), (1, 1), "{outcomes:?}");
}

/// A backend that many share, as provider-terraform's configuration has it.
fn divided(folder: &Path) -> String {
    format!("terraform {{\n  backend \"local\" {{\n    workspace_dir = \"{}\"\n  }}\n}}\n", folder.display())
}

#[tokio::test]
async fn each_selects_a_terraform_workspace_of_its_own() {
    for tool in tools() {
        let lab = Lab::new(&tool).await;
        let states = lab.path("states");
        let of = |name: &str| Inputs {
            configuration: Some(divided(&states)),
            workspace: Some(name.to_owned()),
            ..lab.traced(name)
        };
        let resources = |name: &str| {
            let path = states.join(name).join("terraform.tfstate");
            State::read(&fs::read(path).expect("a state")).expect("a state").resources.len()
        };
        for name in ["a", "b"] {
            let done = lab.apply(name, of(name)).await;
            assert_eq!(done.outcome, Outcome::Done, "{done:?}");
            assert_eq!(lab.look(name).selected, Selected::Named(name.to_owned()));
        }
        assert_eq!((resources("a"), resources("b")), (1, 1));
        assert_eq!(reason(&lab.apply("c", of("b")).await), "BackendInUse", "that is another's");
        let lab = lab.restart().await;
        assert_eq!(lab.run("a", Operation::Destroy, None).await.outcome, Outcome::Done);
        assert_eq!((resources("a"), resources("b")), (0, 1));
        assert_eq!(lab.trace(), ["create a", "create b", "destroy a"]);
    }
}

#[tokio::test]
async fn what_something_else_applied_is_found_in_its_backend_or_not_built() {
    let Some(tool) = tool() else { return };
    let lab = Lab::new(&tool).await;
    let states = lab.path("states");
    let inputs = |name: &str| Inputs {
        configuration: Some(divided(&states)),
        workspace: Some("before".to_owned()),
        ..lab.traced(name)
    };
    let order = |operation: Operation, inputs: Inputs| Order {
        expects_state: true,
        ..Order::new(WorkspaceId::new("a"), operation, Some(inputs))
    };
    for operation in [Operation::Apply, Operation::Plan, Operation::Destroy] {
        let missed = lab.run_order(order(operation, inputs("a"))).await;
        assert_eq!(reason(&missed), "StateLost", "{missed:?}");
        let told = format!("{missed:?}");
        assert!(told.contains("Terraform workspace before") && told.contains("capt import-state"), "{told}");
    }
    let missed = lab.run_order(order(Operation::Apply, lab.traced("a"))).await;
    assert_eq!(reason(&missed), "StateLost", "no backend at all: {missed:?}");
    assert!(lab.trace().is_empty() && !lab.look("a").touched);

    // Another program has built it there.
    let other = Lab::new(&tool).await;
    assert_eq!(other.apply("else", inputs("a")).await.outcome, Outcome::Done);
    assert_eq!(lab.trace(), ["create a"]);
    let found = lab.run_order(order(Operation::Apply, inputs("a"))).await;
    assert_eq!(found.outcome, Outcome::Done, "{found:?}");
    assert_eq!(lab.trace(), ["create a"], "it is not built again");
    assert_eq!(lab.look("a").resources, 1);
}

/// Of two addresses nobody can tell that they mean one place, but for what is there.
#[tokio::test]
async fn one_state_under_two_addresses_has_one_workspace() {
    for tool in tools() {
        let lab = Lab::new(&tool).await;
        let served = Served::new();
        let [a, b] =
            ["a", "b"].map(|name| lab.inputs(&(served.block_as(name) + &traced(&lab.path("trace"), name))));
        assert_eq!(lab.apply("a", a.clone()).await.outcome, Outcome::Done);
        for operation in [Operation::Apply, Operation::Plan] {
            let refused = lab.run("b", operation, Some(b.clone())).await;
            assert_eq!(reason(&refused), "BackendInUse", "{refused:?}");
            assert!(
                format!("{refused:?}").contains("under another address, the state of workspace a"),
                "{refused:?}"
            );
        }
        assert!(!lab.look("b").touched, "nothing of it has to be destroyed");
        let far = lab.run("other/b", Operation::Apply, Some(b.clone())).await;
        assert!(format!("{far:?}").contains("the state of a workspace of another namespace"), "{far:?}");
        let lab = lab.restart().await;
        assert_eq!(reason(&lab.apply("b", b.clone()).await), "BackendInUse");
        assert_eq!(lab.apply("a", a.clone()).await.outcome, Outcome::Done, "whose it is goes on");

        // Nobody has it any more, and so it is a place where something was built before.
        lab.engine.retain(&WorkspaceId::new("a")).await.expect("noted");
        let lab = lab.restart().await;
        assert_eq!(lab.apply("b", a.clone()).await.outcome, Outcome::Done);
        assert_eq!(lab.trace(), ["create a"]);
        lab.engine.take_up(&WorkspaceId::new("a")).await.expect("it is there again");
        assert_eq!(reason(&lab.apply("a", a.clone()).await), "BackendInUse");
        let lab = lab.restart().await;
        assert_eq!(reason(&lab.run("a", Operation::Destroy, None).await), "BackendInUse", "it gave it up");
        assert_eq!(lab.run("b", Operation::Destroy, None).await.outcome, Outcome::Done);
        assert_eq!(lab.trace(), ["create a", "destroy a"]);
    }
}

/// An output makes a state as well: who comes to the place later would build in it, and be destroyed with the next change of the first.
#[tokio::test]
async fn an_empty_state_under_two_addresses_has_one_workspace() {
    for tool in tools() {
        let lab = Lab::new(&tool).await;
        let served = Served::new();
        let empty = lab.inputs(&(served.block_as("a") + "output \"x\" { value = 1 }\n"));
        let [first, second] =
            ["a", "b"].map(|name| lab.inputs(&(served.block_as(name) + &traced(&lab.path("trace"), name))));
        assert_eq!(lab.apply("a", empty.clone()).await.outcome, Outcome::Done);
        let refused = lab.apply("b", second.clone()).await;
        assert_eq!(reason(&refused), "BackendInUse", "{refused:?}");
        let lab = lab.restart().await;
        assert_eq!(reason(&lab.apply("b", second.clone()).await), "BackendInUse");
        // The same where something was built before.
        assert_eq!(lab.apply("a", first.clone()).await.outcome, Outcome::Done);
        assert_eq!(lab.apply("a", empty.clone()).await.outcome, Outcome::Done);
        assert_eq!(reason(&lab.apply("b", second.clone()).await), "BackendInUse");
        assert_eq!(lab.apply("a", first.clone()).await.outcome, Outcome::Done, "whose it is goes on");
        assert_eq!(lab.trace(), ["create a", "create a"], "the other one built nothing");
    }
}

/// Both parts of a state that somebody split have its lineage.
#[tokio::test]
async fn a_part_that_is_empty_for_a_while_goes_on() {
    let Some(tool) = tool() else { return };
    let lab = Lab::new(&tool).await;
    let served = Served::new();
    let built = lab.inputs(&(served.block() + &traced(&lab.path("trace"), "a")));
    let empty = lab.inputs(&(served.block() + "output \"x\" { value = 1 }\n"));
    assert_eq!(lab.apply("a", built.clone()).await.outcome, Outcome::Done);
    let mut part = served.state();
    part["resources"][0]["name"] = "other".into();
    part["resources"][0]["instances"][0]["attributes"]["id"] = "another-object".into();
    let part = serde_json::to_vec(&part).expect("JSON");
    lab.engine.import_state(&WorkspaceId::new("b"), &part).await.expect("it is the other part");
    assert_eq!(lab.apply("a", empty).await.outcome, Outcome::Done);
    let again = lab.apply("a", built).await;
    assert_eq!(again.outcome, Outcome::Done, "nothing was begun beside it: {again:?}");
}

#[tokio::test]
async fn two_that_begin_at_once_at_two_addresses_are_told() {
    let Some(tool) = tool() else { return };
    let lab = Lab::new(&tool).await;
    let served = Served::new();
    let mark = |name: &str, what: &str| lab.path(&format!("{name}-{what}"));
    let names = ["a", "b"];
    for name in names {
        let (begun, open) = (mark(name, "begun"), mark(name, "open"));
        let wait = format!("touch {}; until [ -e {} ]; do sleep 0.05; done", begun.display(), open.display());
        let slow = format!(
            "resource \"terraform_data\" \"{name}\" {{\n  provisioner \"local-exec\" {{\n    command = \"{wait}\"\n  }}\n}}\n"
        );
        let inputs = lab.inputs(&(served.block_as(name) + &slow));
        lab.engine
            .start_run(Order::new(WorkspaceId::new(name), Operation::Apply, Some(inputs)))
            .await
            .expect("taken");
    }
    let begun = async || names.iter().all(|name| mark(name, "begun").exists()).then_some(());
    capt_e2e::until("both have begun", PATIENCE, begun).await.expect("they begin");
    fs::write(mark("a", "open"), "").expect("write");
    assert_eq!(lab.ended(&WorkspaceId::new("a")).await.outcome, Outcome::Done);
    fs::write(mark("b", "open"), "").expect("write");
    let second = lab.ended(&WorkspaceId::new("b")).await;
    assert_eq!(reason(&second), "BackendInUse", "it wrote into the state of a: {second:?}");
    let stalled = matches!(&second.outcome, Outcome::Failed(failure) if failure.class == Class::Terminal);
    assert!(stalled, "another run would end well, and hide what a lost: {second:?}");
}
