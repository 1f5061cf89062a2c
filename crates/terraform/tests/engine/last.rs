//! Destroys run with the code and the inputs of the apply that made the resources, whatever was tried since.

use std::{collections::BTreeMap, fs};

use capt_terraform::{
    inputs::{Inputs, Variable},
    module::Module,
    order::{Operation, Order, WorkspaceId},
    view::Outcome,
};

use crate::lab::{Lab, reason, tools, traced};

/// A traced resource, and a variable that must be positive.
fn judged(lab: &Lab, name: &str) -> String {
    let text = traced(&lab.path("trace"), name);
    text + "variable \"q\" {\n  type = number\n  validation {\n    condition     = var.q > 0\n    error_message = \"positive\"\n  }\n}\n"
}

fn with(mut inputs: Inputs, q: i64) -> Inputs {
    inputs.variables.insert("q".into(), Variable { value: q.into(), sensitive: false });
    inputs
}

fn in_folder(lab: &Lab, text: &str) -> Inputs {
    let folder = lab.path("module");
    fs::create_dir_all(&folder).expect("a folder");
    fs::write(folder.join("main.tf"), text).expect("write");
    let mut inputs = lab.inputs("");
    inputs.module = Module::Source { source: folder.display().to_string(), version: None, entrypoint: None };
    inputs
}

/// An apply that Terraform refuses before it has a plan is not what made what is there.
#[tokio::test]
async fn what_was_refused_does_not_come_into_the_way_of_a_destroy() {
    const FAILS: &str = "resource \"terraform_data\" \"no\" {\n  lifecycle {\n    precondition {\n      condition     = var.q > 5\n      error_message = \"no\"\n    }\n  }\n}\n";
    const BROKEN: &str = "output \"bad\" {\n  value = local.nope\n}\n";
    for tool in tools() {
        let lab = Lab::new(&tool).await;
        let inline = |text: &str| lab.inputs(text);
        let local = |text: &str| in_folder(&lab, text);
        let make: [&dyn Fn(&str) -> Inputs; 2] = [&inline, &local];
        let mut destroyed = Vec::new();
        for (at, of) in make.into_iter().enumerate() {
            let tried = [(-5, ""), (1, BROKEN), (1, FAILS)];
            for (n, (q, added)) in tried.into_iter().enumerate() {
                let (name, made) = (format!("w{at}{n}"), format!("a{at}{n}"));
                let good = judged(&lab, &made);
                assert_eq!(lab.apply(&name, with(of(&good), 1)).await.outcome, Outcome::Done);
                let bad = with(of(&(judged(&lab, "b") + added)), q);
                let refused = lab.apply(&name, bad.clone()).await;
                assert!(matches!(refused.outcome, Outcome::Failed(_)), "{name}: {refused:?}");
                let gone = lab.run(&name, Operation::Destroy, Some(bad)).await;
                assert_eq!(gone.outcome, Outcome::Done, "{name}: {gone:?}");
                destroyed.push(format!("destroy {made}"));
            }
        }
        let trace: Vec<_> = lab.trace().into_iter().filter(|line| line.starts_with("destroy")).collect();
        assert_eq!(trace, destroyed);
    }
}

/// An apply that got past its plan may have made something.
#[tokio::test]
async fn what_failed_half_way_is_destroyed_as_it_was_tried() {
    for tool in tools() {
        let lab = Lab::new(&tool).await;
        assert_eq!(lab.apply("w", with(lab.inputs(&judged(&lab, "a")), 1)).await.outcome, Outcome::Done);
        let fails = "resource \"terraform_data\" \"no\" {\n  provisioner \"local-exec\" {\n    command = \"exit 1\"\n  }\n}\n";
        let failed = lab.apply("w", with(lab.inputs(&(judged(&lab, "b") + fails)), 1)).await;
        assert!(matches!(failed.outcome, Outcome::Failed(_)), "{failed:?}");
        assert_eq!(lab.run("w", Operation::Destroy, None).await.outcome, Outcome::Done);
        assert_eq!(lab.trace().last().map(String::as_str), Some("destroy b"));
    }
}

/// A plan that has nothing to do ends an apply as well.
#[tokio::test]
async fn code_that_had_nothing_to_do_is_the_last_one() {
    for tool in tools() {
        let lab = Lab::new(&tool).await;
        for (variable, made) in [("old", "a"), ("new", "b")] {
            let declared = format!("variable \"{variable}\" {{\n  type = string\n}}\n");
            let mut inputs = in_folder(&lab, &(traced(&lab.path("trace"), made) + &declared));
            let value = Variable { value: "x".into(), sensitive: false };
            inputs.variables = BTreeMap::from([(variable.to_owned(), value)]);
            let mut order = Order::new(WorkspaceId::new("w"), Operation::Apply, Some(inputs));
            order.max_destroy = Some(3);
            assert_eq!(lab.run_order(order).await.outcome, Outcome::Done);
        }
        assert_eq!(lab.run("w", Operation::Destroy, None).await.outcome, Outcome::Done);
        assert_eq!(lab.trace().last().map(String::as_str), Some("destroy b"));
    }
}

/// Code that was not applied destroys nothing in the name of the one that was.
#[tokio::test]
async fn other_code_than_was_applied_is_not_run_in_its_place() {
    for tool in tools() {
        let lab = Lab::new(&tool).await;
        let applied = traced(&lab.path("trace"), "a");
        assert_eq!(lab.apply("w", in_folder(&lab, &applied)).await.outcome, Outcome::Done);
        for copy in crate::lab::files_with(&lab.path("data/shapes"), "create a") {
            fs::remove_file(copy).expect("remove");
        }
        let lab = lab.restart().await;
        in_folder(&lab, &traced(&lab.path("trace"), "b"));
        for operation in [Operation::Refresh, Operation::Destroy] {
            let held = lab.run("w", operation, None).await;
            assert_eq!(reason(&held), "ModuleNotFound");
            let Outcome::Failed(failure) = held.outcome else { unreachable!() };
            assert!(failure.message.contains("other code than was applied"), "{failure:?}");
        }
        in_folder(&lab, &applied);
        assert_eq!(lab.run("w", Operation::Destroy, None).await.outcome, Outcome::Done);
        assert_eq!(lab.trace(), ["create a", "destroy a"]);
    }
}
