//! A workspace from its first apply to its destroy.

use std::{process::Command, time::Duration};

use capt_terraform::{
    Executor, WorkspaceStore,
    executor::{PlanFormat, PlanSelector, RunReader, ShowError},
    inputs::{BinaryName, Variable},
    order::{Operation, Order, PlanId, Refused, WorkspaceId},
    view::{Outcome, Phase},
};
use serde_json::json;

use crate::lab::{Lab, reason, tool, tools};

#[tokio::test]
async fn create_change_and_destroy() {
    for tool in tools() {
        let lab = Lab::new(&tool).await;
        let mut inputs = lab.traced("a");
        let revision = lab.engine.revision(&inputs).await.expect("a revision");

        let first = lab.apply("ns/a", inputs.clone()).await;
        assert_eq!(first.outcome, Outcome::Done, "{first:?}");
        assert_eq!(first.plan.as_ref().map(|plan| (plan.add, plan.change, plan.destroy)), Some((1, 0, 0)));
        assert_eq!(first.warnings, Vec::<String>::new());
        let view = lab.look("ns/a");
        assert_eq!(view.applied, Some(revision.clone()), "equal: nothing has to be run");
        assert_eq!((view.resources, view.touched), (1, true));
        assert_eq!(view.outputs.get("v").unwrap().value, json!("1"));
        assert_eq!(lab.trace(), ["create a"]);
        assert_eq!(lab.engine.metrics().processes, 1, "one process for all of it");

        // No-op: the same again makes nothing.
        assert_eq!(lab.apply("ns/a", inputs.clone()).await.outcome, Outcome::Done);
        assert_eq!(lab.trace(), ["create a"]);

        // A variable that replaces the resource.
        inputs.variables.insert("v".into(), Variable::from("2"));
        assert_ne!(lab.engine.revision(&inputs).await.expect("a revision"), revision);
        let changed = lab.apply("ns/a", inputs.clone()).await;
        assert_eq!(changed.plan.map(|plan| (plan.add, plan.destroy)), Some((1, 1)));
        assert_eq!(lab.trace(), ["create a", "destroy a", "create a"]);
        assert_eq!(lab.look("ns/a").outputs.get("v").unwrap().value, json!("2"));

        // Without inputs: those of the last apply.
        let destroyed = lab.run("ns/a", Operation::Destroy, None).await;
        assert_eq!(destroyed.outcome, Outcome::Done, "{destroyed:?}");
        assert_eq!(lab.trace().last().map(String::as_str), Some("destroy a"));
        let view = lab.look("ns/a");
        assert_eq!((view.applied, view.touched, view.resources), (None, false, 0));

        // Nothing left: no process.
        let processes = lab.engine.metrics().processes;
        assert_eq!(lab.run("ns/a", Operation::Destroy, None).await.outcome, Outcome::Done);
        assert_eq!(lab.engine.metrics().processes, processes);
        assert_eq!(lab.engine.metrics().inits, 0, "built-ins need no init");
        lab.engine.forget(&WorkspaceId::new("ns/a")).await.expect("forgotten");
        assert!(lab.look("ns/a").last.is_none());
    }
}

#[tokio::test]
async fn a_plan_waits_for_its_approval() {
    for tool in tools() {
        let lab = Lab::new(&tool).await;
        let planned = lab.run("a", Operation::Plan, Some(lab.traced("a"))).await;
        assert_eq!(planned.outcome, Outcome::Planned, "{planned:?}");
        let plan = lab.look("a").plan.expect("a kept plan");
        assert_eq!((plan.add, plan.changes.len()), (1, 1));
        assert!(!lab.look("a").touched, "a plan makes nothing");

        let wrong = lab.run("a", Operation::ApplyPlan(PlanId::from("another")), None).await;
        assert_eq!(reason(&wrong), "PlanStale");
        // Other inputs than those that were approved.
        let other = lab.run("a", Operation::ApplyPlan(plan.id.clone()), Some(lab.traced("b"))).await;
        assert_eq!(reason(&other), "PlanStale");
        assert!(lab.trace().is_empty());

        let lab = lab.restart().await;
        let applied = lab.run("a", Operation::ApplyPlan(plan.id.clone()), Some(lab.traced("a"))).await;
        assert_eq!(applied.outcome, Outcome::Done, "{applied:?}");
        assert_eq!(lab.trace(), ["create a"]);
        let view = lab.look("a");
        assert_eq!((view.applied, view.plan), (Some(plan.revision.clone()), None));
        assert_eq!(reason(&lab.run("a", Operation::ApplyPlan(plan.id), None).await), "PlanStale");
    }
}

#[tokio::test]
async fn a_plan_made_on_another_state_is_stale() {
    for tool in tools() {
        let lab = Lab::new(&tool).await;
        let mut second = lab.traced("a");
        second.variables.insert("v".into(), Variable::from("2"));
        lab.apply("a", lab.traced("a")).await;
        lab.run("a", Operation::Plan, Some(second.clone())).await;
        let plan = lab.look("a").plan.expect("a plan");
        let mut third = lab.traced("a");
        third.variables.insert("v".into(), Variable::from("3"));
        lab.apply("a", third).await;
        assert_eq!(lab.look("a").plan, None, "not offered any more");
        assert_eq!(reason(&lab.run("a", Operation::ApplyPlan(plan.id), Some(second)).await), "PlanStale");
        assert_eq!(lab.look("a").outputs.get("v").unwrap().value, json!("3"));
    }
}

#[tokio::test]
async fn a_destructive_plan_is_held_until_it_is_approved() {
    for tool in tools() {
        let lab = Lab::new(&tool).await;
        let order = |inputs, most| {
            let mut order = Order::new(WorkspaceId::new("a"), Operation::Apply, Some(inputs));
            order.max_destroy = Some(most);
            order
        };
        assert_eq!(lab.run_order(order(lab.traced("a"), 0)).await.outcome, Outcome::Done);
        let applied = lab.look("a").applied;
        let mut inputs = lab.traced("a");
        inputs.variables.insert("v".into(), Variable::from("2"));
        let held = lab.run_order(order(inputs.clone(), 0)).await;
        assert_eq!(held.outcome, Outcome::Held, "{held:?}");
        assert_eq!(held.plan.as_ref().map(|plan| plan.destroy), Some(1));
        assert_eq!(lab.look("a").applied, applied, "nothing was touched");
        assert_eq!(lab.trace(), ["create a"]);

        let plan = lab.look("a").plan.expect("kept");
        let approved = lab.run("a", Operation::ApplyPlan(plan.id), Some(inputs.clone())).await;
        assert_eq!(approved.outcome, Outcome::Done, "{approved:?}");
        assert_eq!(lab.trace(), ["create a", "destroy a", "create a"]);

        inputs.variables.insert("v".into(), Variable::from("3"));
        assert_eq!(
            lab.run_order(order(inputs.clone(), 1)).await.outcome,
            Outcome::Done,
            "one may be destroyed"
        );
        let same = lab.run_order(order(inputs, 0)).await;
        assert_eq!(same.outcome, Outcome::Done, "nothing to do is no reason to hold: {same:?}");
    }
}

#[tokio::test]
async fn drift_is_found_and_an_apply_corrects_it() {
    for tool in tools() {
        let lab = Lab::new(&tool).await;
        let file = lab.path("owned");
        let text = format!(
            "resource \"terraform_data\" \"file\" {{\n  triggers_replace = fileexists(\"{0}\") ? file(\"{0}\") : \"gone\"\n  \
             provisioner \"local-exec\" {{\n    command = \"echo -n content > {0}\"\n  }}\n}}\n",
            file.display()
        );
        std::fs::write(&file, "content").expect("write");
        lab.apply("a", lab.inputs(&text)).await;
        let calm = lab.run("a", Operation::Refresh, None).await;
        assert_eq!((calm.outcome, calm.drift.len()), (Outcome::Done, 0));
        std::fs::write(&file, "changed behind its back").expect("write");
        let found = lab.run("a", Operation::Refresh, None).await;
        assert_eq!(found.outcome, Outcome::Done);
        assert_eq!(
            found.drift.iter().map(|change| change.address.as_str()).collect::<Vec<_>>(),
            ["terraform_data.file"]
        );
        assert!(lab.look("a").applied.is_some(), "looking changes nothing");
        let id = WorkspaceId::new("a");
        let show = async |limit| {
            let format = PlanFormat { colours: false, limit: Duration::from_secs(limit) };
            lab.engine.read_plan(&id, &PlanSelector::Drift, &format).await.expect("readable")
        };
        // Whoever looks finds a binary on the PATH alone.
        if tool.name == BinaryName::Terraform {
            let shown = show(600).await.expect("drift").text.expect("shown");
            assert!(shown.contains("terraform_data.file must be replaced"), "{shown}");
            assert!(shown.contains("changed behind its back"), "a diff, not only a name: {shown}");
            // A plan that is never read to its end stands for a plugin that never answers.
            let plan = lab.folder_of("a").join("drift");
            let kept = lab.path("kept");
            std::fs::rename(&plan, &kept).expect("put aside");
            assert!(Command::new("mkfifo").arg(&plan).status().is_ok_and(|status| status.success()));
            let endless = show(1).await.expect("drift").text.expect_err("nobody writes into it");
            assert!(matches!(endless, ShowError::TooLong { .. }), "{endless}");
            std::fs::rename(&kept, &plan).expect("put back");
        }
        assert_eq!(lab.run("a", Operation::Apply, None).await.outcome, Outcome::Done);
        assert!(show(600).await.is_none());
        assert!(!lab.folder_of("a").join("drift").exists());
        assert_eq!(std::fs::read_to_string(&file).expect("read"), "content");
    }
}

#[tokio::test]
async fn a_failure_says_where_and_a_fix_goes_on() {
    for tool in tools() {
        let lab = Lab::new(&tool).await;
        let text = format!(
            "{}\nresource \"terraform_data\" \"bad\" {{\n  depends_on = [terraform_data.r]\n  provisioner \"local-exec\" {{\n    command = \"test -e {}\"\n  }}\n}}\n",
            crate::lab::traced(&lab.path("trace"), "a"),
            lab.path("fixed").display()
        );
        let failed = lab.apply("a", lab.inputs(&text)).await;
        assert_eq!(reason(&failed), "ApplyFailed", "{failed:?}");
        let view = lab.look("a");
        assert_eq!((view.applied, view.touched), (None, true));
        assert_eq!(view.resources, 2, "what was made is not forgotten");
        std::fs::write(lab.path("fixed"), "").expect("write");
        assert_eq!(lab.apply("a", lab.inputs(&text)).await.outcome, Outcome::Done);
        assert_eq!(lab.trace(), ["create a"], "made once");
        assert_eq!(lab.run("a", Operation::Destroy, None).await.outcome, Outcome::Done);
    }
}

#[tokio::test]
async fn one_run_at_a_time_and_a_destroy_overtakes_what_waits() {
    let Some(tool) = tool() else { return };
    let lab = Lab::with(&tool, |options| options.slots = 1).await;
    let gate = lab.path("gate");
    let text = format!(
        "resource \"terraform_data\" \"a\" {{\n  provisioner \"local-exec\" {{\n    command = \"until [ -e {} ]; do sleep 0.05; done\"\n  }}\n}}\n",
        gate.display()
    );
    let order = |name: &str, operation, inputs| Order::new(WorkspaceId::new(name), operation, inputs);
    // As many as can be under way at a time with one slot: three.
    for at in 0..3 {
        lab.engine
            .start_run(order(&format!("slow{at}"), Operation::Apply, Some(lab.inputs(&text))))
            .await
            .expect("taken");
    }
    let waiting =
        lab.engine.start_run(order("a", Operation::Apply, Some(lab.traced("a")))).await.expect("taken");
    let busy = lab.engine.start_run(order("a", Operation::Apply, Some(lab.traced("a")))).await;
    assert_eq!(busy, Err(Refused::Busy { workspace: WorkspaceId::new("a"), run: waiting }));
    assert_eq!(lab.look("a").run.map(|run| run.phase), Some(Phase::Queued));
    let destroy =
        lab.engine.start_run(order("a", Operation::Destroy, None)).await.expect("replaces what waits");
    std::fs::write(gate, "").expect("write");
    assert_eq!(lab.ended(&WorkspaceId::new("a")).await.id, destroy);
    assert!(lab.trace().is_empty(), "the apply never ran");
    // Without its folder the gate of a run is shut for ever.
    for at in 0..3 {
        lab.ended(&WorkspaceId::new(format!("slow{at}"))).await;
    }
}

#[tokio::test]
async fn an_existing_thing_is_imported_and_a_state_taken_over() {
    for tool in tools() {
        let lab = Lab::new(&tool).await;
        let text = "resource \"terraform_data\" \"a\" {}\n";
        let import = Operation::Import { address: "terraform_data.a".into(), id: "some-id".into() };
        let imported = lab.run("a", import, Some(lab.inputs(text))).await;
        assert_eq!(imported.outcome, Outcome::Done, "{imported:?}");
        assert_eq!(lab.look("a").resources, 1);

        let state = std::fs::read(lab.folder_of("a").join("state/terraform.tfstate")).expect("a state");
        let other = WorkspaceId::new("b");
        let shared = lab.engine.import_state(&other, &state).await.expect_err("it is that of a");
        assert!(shared.to_string().contains("infrastructure of workspace a"), "{shared}");
        // A copy that was split off has the lineage of the whole, and other objects.
        let part = String::from_utf8(state.clone()).expect("text").replace("some-id", "another-id");
        lab.engine
            .import_state(&WorkspaceId::new("part"), part.as_bytes())
            .await
            .expect("nobody else has it");
        lab.engine.retain(&WorkspaceId::new("a")).await.expect("noted");
        lab.engine.import_state(&other, &state).await.expect("taken over");
        assert_eq!((lab.look("b").resources, lab.look("b").touched), (1, true));
        lab.engine.import_state(&other, &state).await.expect_err("has one already");
        lab.engine.import_state(&WorkspaceId::new("c"), b"{}").await.expect_err("no state");
        // The object of a is made again, and what it built is another's by now, who goes on.
        lab.engine.take_up(&WorkspaceId::new("a")).await.expect("taken up");
        let lab = lab.restart().await;
        for operation in [Operation::Destroy, Operation::Apply] {
            let refused = lab.run("a", operation, Some(lab.inputs(text))).await;
            assert_eq!(reason(&refused), "BackendInUse", "it gave it up: {refused:?}");
        }
        assert_eq!(lab.apply("b", lab.inputs(text)).await.outcome, Outcome::Done);
        let destroyed = lab.run("b", Operation::Destroy, Some(lab.inputs(text))).await;
        assert_eq!(destroyed.outcome, Outcome::Done, "{destroyed:?}");
        assert_eq!(lab.look("b").resources, 0);
    }
}

/// Whoever knows the lineage of a state and the id of an object can bring both into a state of their own.
#[tokio::test]
async fn nobody_holds_up_who_had_a_state_first() {
    for tool in tools() {
        let mut lab = Lab::new(&tool).await;
        let text = "resource \"terraform_data\" \"a\" {}\n";
        let import = Operation::Import { address: "terraform_data.a".into(), id: "some-id".into() };
        assert_eq!(lab.run("a", import.clone(), Some(lab.inputs(text))).await.outcome, Outcome::Done);
        let file = lab.folder_of("a").join("state/terraform.tfstate");
        let state = std::fs::read_to_string(&file).expect("a state");
        let forged = state.replace("\"name\": \"a\"", "\"name\": \"b\"").replace("some-id", "another-id");
        assert_ne!(forged, state);
        let thief = WorkspaceId::new("other/thief");
        lab.engine.import_state(&thief, forged.as_bytes()).await.expect("no object of it is anybody's");
        let both = format!("{text}resource \"terraform_data\" \"b\" {{}}\n");
        let taken = lab.run("other/thief", import, Some(lab.inputs(&both))).await;
        assert_eq!(reason(&taken), "BackendInUse", "its run left what is another's: {taken:?}");
        for _ in 0..2 {
            assert_eq!(reason(&lab.run("other/thief", Operation::Destroy, None).await), "BackendInUse");
            assert_eq!(lab.apply("a", lab.inputs(text)).await.outcome, Outcome::Done, "whose it is goes on");
            lab = lab.restart().await;
        }

        // What is damaged is still somebody's.
        std::fs::write(&file, "").expect("write");
        let lab = lab.restart().await;
        let copy = lab.engine.import_state(&WorkspaceId::new("copy"), state.as_bytes()).await;
        copy.expect_err("it may be restored");
        lab.engine.restore_state(&WorkspaceId::new("a"), None).await.expect("a good copy");
        assert_eq!(lab.apply("a", lab.inputs(text)).await.outcome, Outcome::Done);
    }
}
