//! Lent code and credentials, and what somebody else left for them to work on: states, plans, ids, copies.

use std::{
    collections::BTreeMap,
    io::Write as _,
    path::Path,
    process::{Command, Stdio},
    sync::{Arc, Mutex},
};

use capt_terraform::{
    Executor, WorkspaceStore,
    inputs::{BinaryName, EnvValue, Inputs},
    order::{Operation, PlanId, WorkspaceId},
    state_backend::{Kept, StateBackend, StateBackendError},
    view::Outcome,
};
use futures::{FutureExt, future::BoxFuture};
use serde_json::{Value, json};

use crate::lab::{Lab, Tool, reason, start, tool};

const NAME: &str = "tenant/a";
const OWNER: &str = "vault";

/// Where the tenant can write what is kept.
#[derive(Default)]
struct Shared(Mutex<BTreeMap<WorkspaceId, Kept>>);

impl Shared {
    fn put(&self, kept: Kept) {
        self.0.lock().expect("lock").insert(WorkspaceId::new(NAME), kept);
    }

    fn get(&self) -> Kept {
        self.0.lock().expect("lock")[&WorkspaceId::new(NAME)].clone()
    }
}

impl StateBackend for Shared {
    fn load<'a>(
        &'a self,
        workspace: &'a WorkspaceId,
    ) -> BoxFuture<'a, Result<Option<Kept>, StateBackendError>> {
        async { Ok(self.0.lock().expect("lock").get(workspace).cloned()) }.boxed()
    }

    fn keep<'a>(
        &'a self,
        workspace: &'a WorkspaceId,
        kept: Kept,
    ) -> BoxFuture<'a, Result<(), StateBackendError>> {
        async move {
            self.0.lock().expect("lock").insert(workspace.clone(), kept);
            Ok(())
        }
        .boxed()
    }

    fn remove<'a>(&'a self, workspace: &'a WorkspaceId) -> BoxFuture<'a, Result<(), StateBackendError>> {
        async {
            self.0.lock().expect("lock").remove(workspace);
            Ok(())
        }
        .boxed()
    }
}

async fn kept_in(tool: &Tool, state_backend: &Arc<Shared>) -> Lab {
    Lab::with(tool, |options| options.state_backend = Some(state_backend.clone())).await
}

/// The code of the owner, with the owner's token.
fn lent(lab: &Lab, text: &str) -> Inputs {
    let mut inputs = lab.inputs(text);
    (inputs.origin, inputs.lent) = (Some(OWNER.into()), true);
    inputs.env.insert("TOKEN".into(), EnvValue { value: "hunter-two-and-more".into(), sensitive: true });
    inputs
}

/// Code of the tenant.
fn own(lab: &Lab, text: &str) -> Inputs {
    let mut inputs = lab.inputs(text);
    inputs.origin = Some("tenant".into());
    inputs
}

/// A state of the tenant's making: it has something of the owner's in it.
fn state(serial: u64, lineage: &str) -> Value {
    json!({
        "version": 4, "terraform_version": "1.5.0", "serial": serial, "lineage": lineage, "outputs": {},
        "resources": [{
            "mode": "managed", "type": "terraform_data", "name": "prod",
            "provider": "provider[\"terraform.io/builtin/terraform\"]",
            "instances": [{"schema_version": 0, "attributes": {
                "id": "i-owner-prod", "input": null, "output": null, "triggers_replace": null,
            }}],
        }],
    })
}

const MODULE: &str = "resource \"terraform_data\" \"other\" {}\n";

#[tokio::test(flavor = "multi_thread")]
async fn lent_code_goes_on_with_nothing_that_is_not_sealed() {
    let Some(tool) = tool() else { return };
    let (mine, none) = (state(1, "tenant-made"), Value::Null);
    let unsaved = json!({"terraform_data.other": "i-owner-prod"});
    // What the tenant writes, and whether the state goes with it -> whether lent code may begin.
    let rows = [
        (json!({"touched": true, "remote": false}), &mine, false),
        (json!({"touched": true, "remote": true}), &mine, false),
        (json!({"touched": false, "remote": false}), &mine, false),
        (json!({"touched": false, "remote": false, "made_by": OWNER}), &mine, false),
        (json!({"touched": true, "remote": false, "made_by": OWNER}), &none, false),
        (json!({"touched": false, "remote": true}), &none, false),
        (json!({"touched": false, "remote": false, "unsaved": unsaved}), &none, false),
        (json!({"touched": false, "remote": false, "unsaved": unsaved, "made_by": OWNER}), &none, false),
        (json!({"touched": false, "remote": false, "applied": "0123456789abcdef"}), &none, true),
        (json!({"touched": false, "remote": false, "made_by": OWNER}), &none, true),
    ];
    for (mut record, state, begins) in rows {
        for lends in [true, false] {
            let state_backend = Arc::new(Shared::default());
            record["workspace"] = NAME.into();
            let state = if state.is_null() { Vec::new() } else { state.to_string().into_bytes() };
            state_backend.put(Kept { record: record.to_string().into_bytes(), state, ..Kept::default() });
            let lab = kept_in(&tool, &state_backend).await;
            let view = lab.engine.adopt(&WorkspaceId::new(NAME)).await.expect("opened");
            assert_eq!((view.applied, view.origin), (None, None), "{record}");
            let inputs = if lends { lent(&lab, MODULE) } else { own(&lab, MODULE) };
            let done = lab.apply(NAME, inputs).await;
            // A tenant's own code goes on from it, as after a move without the key. What a backend has is another matter.
            if begins || !lends {
                assert_eq!(done.outcome, Outcome::Done, "{record} {lends}: {done:?}");
                assert_eq!(lab.look(NAME).resources, 1, "{record} {lends}");
                assert_eq!(lab.look(NAME).origin.as_deref(), Some(if lends { OWNER } else { "tenant" }));
            } else {
                assert_eq!(reason(&done), "StateNotTrusted", "{record}");
                let planned = lab.run(NAME, Operation::Plan, Some(lent(&lab, MODULE))).await;
                assert_eq!(reason(&planned), "StateNotTrusted", "{record}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_import_meets_no_lent_code_after_a_failover() {
    let Some(tool) = tool() else { return };
    let state_backend = Arc::new(Shared::default());
    let lab = kept_in(&tool, &state_backend).await;
    let id = WorkspaceId::new(NAME);
    let module = |note: &str| format!("output \"note\" {{\n  value = \"{note}\"\n}}\n");
    assert_eq!(lab.apply(NAME, lent(&lab, &module("one"))).await.outcome, Outcome::Done);
    lab.engine.import_state(&id, state(1, "tenant-made").to_string().as_bytes()).await.expect("taken over");
    assert_eq!(reason(&lab.apply(NAME, lent(&lab, &module("two"))).await), "StateNotTrusted");
    let other = kept_in(&tool, &state_backend).await;
    assert_eq!(other.engine.adopt(&id).await.expect("opened").resources, 1);
    for operation in [Operation::Apply, Operation::Plan, Operation::Refresh, Operation::Destroy] {
        let refused = other.run(NAME, operation.clone(), Some(lent(&other, &module("two")))).await;
        assert_eq!(reason(&refused), "StateNotTrusted", "{operation:?}");
    }
    assert_eq!(other.look(NAME).resources, 1);
}

/// What was sealed is gone on with, after a failover as before: by the same template, and by no other.
#[tokio::test(flavor = "multi_thread")]
async fn lent_code_goes_on_with_its_own_after_a_failover() {
    let Some(tool) = tool() else { return };
    let state_backend = Arc::new(Shared::default());
    let lab = kept_in(&tool, &state_backend).await;
    let traced = |lab: &Lab| crate::lab::traced(&lab.path("trace"), "a");
    assert_eq!(lab.apply(NAME, lent(&lab, &traced(&lab))).await.outcome, Outcome::Done);
    let trace = lab.path("trace");
    let other = kept_in(&tool, &state_backend).await;
    other.engine.adopt(&WorkspaceId::new(NAME)).await.expect("opened");
    let mut changed = lent(&other, &crate::lab::traced(&trace, "a"));
    changed.variables.insert("note".into(), "x".into());
    assert_eq!(other.apply(NAME, changed).await.outcome, Outcome::Done);
    assert_eq!(other.look(NAME).origin.as_deref(), Some(OWNER));
    assert_eq!(reason(&other.apply(NAME, own(&other, MODULE)).await), "StateNotTrusted");
    // The template is gone, too.
    assert_eq!(other.run(NAME, Operation::Destroy, None).await.outcome, Outcome::Done);
    assert_eq!(crate::lab::trace(&trace), ["create a", "destroy a"]);
}

/// A record of a version that did not note who made what: the owner's own code goes on, lent code does not.
#[tokio::test(flavor = "multi_thread")]
async fn a_record_of_an_earlier_version_is_the_owners_alone() {
    let Some(tool) = tool() else { return };
    for lends in [true, false] {
        let state_backend = Arc::new(Shared::default());
        let lab = kept_in(&tool, &state_backend).await;
        let inputs = |lab: &Lab, text: &str| if lends { lent(lab, text) } else { own(lab, text) };
        assert_eq!(lab.apply(NAME, inputs(&lab, MODULE)).await.outcome, Outcome::Done);
        let mut kept = state_backend.get();
        let mut record: Value = serde_json::from_slice(&kept.record).expect("JSON");
        record.as_object_mut().expect("an object").remove("made_by").expect("noted");
        kept.record = record.to_string().into_bytes();
        state_backend.put(kept);
        let other = kept_in(&tool, &state_backend).await;
        other.engine.adopt(&WorkspaceId::new(NAME)).await.expect("opened");
        let done = other.apply(NAME, inputs(&other, &(MODULE.to_owned() + "locals {}\n"))).await;
        if lends {
            assert_eq!(reason(&done), "StateNotTrusted");
        } else {
            assert_eq!(done.outcome, Outcome::Done, "{done:?}");
            assert_eq!(other.look(NAME).origin.as_deref(), Some("tenant"), "from now on it is known");
        }
    }
}

/// A binary whose plans leave a state, ids and files: as a provider, a data source or a credential process can.
fn planting(tool: &Tool, bin: &Path, state: &Value) -> Tool {
    let name = if tool.name == BinaryName::Tofu { "tofu" } else { "terraform" };
    let real = std::env::split_paths(&tool.path).map(|folder| folder.join(name)).find(|path| path.is_file());
    let made = json!({
        "@level": "info", "@message": "made", "type": "apply_complete",
        "hook": {
            "resource": {"addr": "terraform_data.other"}, "action": "create", "id_key": "id",
            "id_value": "i-owner-prod", "elapsed_seconds": 0,
        },
    });
    let text = format!(
        "#!/bin/sh\n[ \"$1\" = plan ] || exec {real} \"$@\"\n{real} \"$@\"\ncode=$?\nmkdir -p ../state\n\
         echo '{state}' > ../state/terraform.tfstate\necho '{state}' > errored.tfstate\necho planted > planted.txt\n\
         echo '{made}'\nexit $code\n",
        real = real.expect("the tool is there").display(),
    );
    // By a process of its own: what this one has open for writing, no other test could run.
    let mut writer = Command::new("sh")
        .args(["-c", "cat > \"$0\" && chmod 755 \"$0\""])
        .arg(bin.join(name))
        .stdin(Stdio::piped())
        .spawn()
        .expect("starts");
    writer.stdin.take().expect("piped").write_all(text.as_bytes()).expect("write");
    assert!(writer.wait().expect("ends").success());
    let path = std::env::join_paths([bin, Path::new("/bin"), Path::new("/usr/bin")]).expect("a path");
    Tool { name: tool.name, path }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_leaves_nothing_for_others() {
    let Some(tool) = tool() else { return };
    let bin = tempfile::tempdir().expect("a folder");
    let state_backend = Arc::new(Shared::default());
    let lab = kept_in(&planting(&tool, bin.path(), &state(1, "tenant-made")), &state_backend).await;
    let planned = lab.run(NAME, Operation::Plan, Some(own(&lab, MODULE))).await;
    assert_eq!(planned.outcome, Outcome::Planned, "{planned:?}");
    assert_eq!((lab.look(NAME).resources, lab.look(NAME).serial), (0, 0));
    let folder = lab.folder_of("tenant-a");
    assert!(folder.join("guest/work/planted.txt").exists(), "it has tried");
    assert!(!folder.join("state/terraform.tfstate").exists());
    let record = std::fs::read_to_string(folder.join("record.json")).expect("a record");
    assert!(!record.contains("i-owner-prod"), "{record}");
    // Nor while it goes on, nor where a plan is the first half of an apply that is held.
    let mut order = capt_terraform::order::Order::new(
        WorkspaceId::new(NAME),
        Operation::Apply,
        Some(own(&lab, &format!("{MODULE}output \"x\" {{\n  value = 1\n}}\n"))),
    );
    order.max_destroy = Some(0);
    lab.run_order(order).await;
    assert!(!String::from_utf8_lossy(&state_backend.get().state).contains("i-owner-prod"));
    assert_eq!(lab.look(NAME).outputs.get("x").map(|output| output.value.clone()), Some(1.into()));

    // Lent code that comes after a plan alone finds nothing of it, not even a file.
    let lab = kept_in(&planting(&tool, bin.path(), &state(1, "tenant-made")), &Arc::default()).await;
    lab.run(NAME, Operation::Plan, Some(own(&lab, MODULE))).await;
    let looks = format!("{MODULE}output \"found\" {{\n  value = fileexists(\"planted.txt\")\n}}\n");
    assert_eq!(lab.apply(NAME, lent(&lab, &looks)).await.outcome, Outcome::Done);
    let view = lab.look(NAME);
    assert_eq!((view.resources, view.origin.as_deref()), (1, Some(OWNER)));
    assert_eq!(view.outputs.get("found").expect("an output").value, false);
}

/// The same code of two origins is not the same plan.
#[tokio::test(flavor = "multi_thread")]
async fn a_plan_of_a_copy_is_not_applied_with_lent_credentials() {
    let Some(tool) = tool() else { return };
    let lab = Lab::new(&tool).await;
    let seen = lab.path("seen");
    let text = format!(
        "resource \"terraform_data\" \"a\" {{\n  provisioner \"local-exec\" {{\n    command = \"printf %s \\\"$TOKEN\\\" > {}\"\n  }}\n}}\n",
        seen.display()
    );
    let mut copy = own(&lab, &text);
    copy.env.insert("TOKEN".into(), EnvValue { value: "of-the-tenant".into(), sensitive: true });
    let id = |lab: &Lab| lab.look(NAME).plan.expect("a plan").id;
    lab.run(NAME, Operation::Plan, Some(copy.clone())).await;
    let theirs = id(&lab);
    let apply = |id: &PlanId| Operation::ApplyPlan(id.clone());
    let refused = lab.run(NAME, apply(&theirs), Some(lent(&lab, &text))).await;
    assert_eq!(reason(&refused), "PlanStale", "{refused:?}");
    // The owner's own plan is one; then the other does not count for the copy any more.
    lab.run(NAME, Operation::Plan, Some(lent(&lab, &text))).await;
    let lent_plan = id(&lab);
    assert_ne!(lent_plan, theirs);
    assert_eq!(lab.look(NAME).plan.expect("a plan").origin.as_deref(), Some(OWNER));
    assert_eq!(reason(&lab.run(NAME, apply(&lent_plan), Some(copy)).await), "PlanStale");
    let done = lab.run(NAME, apply(&lent_plan), Some(lent(&lab, &text))).await;
    assert_eq!(done.outcome, Outcome::Done, "{done:?}");
    assert_eq!(lab.look(NAME).origin.as_deref(), Some(OWNER));
    assert_eq!(std::fs::read_to_string(seen).expect("run"), "hunter-two-and-more");
}

/// A copy of a state that the tenant gave stays one, though the record is again the one that was sealed before.
#[tokio::test(flavor = "multi_thread")]
async fn a_copy_is_vouched_for_by_whoever_made_it() {
    let Some(tool) = tool() else { return };
    let state_backend = Arc::new(Shared::default());
    let lab = kept_in(&tool, &state_backend).await;
    let id = WorkspaceId::new(NAME);
    let module = |note: &str| format!("output \"note\" {{\n  value = \"{note}\"\n}}\n");
    for note in ["one", "two", "three"] {
        assert_eq!(lab.apply(NAME, lent(&lab, &module(note))).await.outcome, Outcome::Done);
    }
    let sealed = state_backend.get();
    let theirs: Value = serde_json::from_slice(&sealed.state).expect("JSON");
    let given = state(1, theirs["lineage"].as_str().expect("a lineage"));
    lab.engine.import_state(&id, given.to_string().as_bytes()).await.expect("taken over");
    assert_eq!(reason(&lab.apply(NAME, lent(&lab, &module("four"))).await), "StateNotTrusted");
    state_backend.put(sealed);
    let record = lab.folder_of("tenant-a").join("record.json");
    let Lab { folder, tool, engine } = lab;
    engine.stop().await;
    let engine =
        start(folder.path(), &tool, |options| options.state_backend = Some(state_backend.clone())).await;
    let view = engine.adopt(&id).await.expect("opened");
    assert_eq!((view.resources, view.origin.as_deref()), (1, None), "the sealed one was put back");
    engine.stop().await;
    // Nothing here says so any more.
    std::fs::remove_file(record).expect("removed");
    let engine =
        start(folder.path(), &tool, |options| options.state_backend = Some(state_backend.clone())).await;
    let lab = Lab { folder, tool, engine };
    let view = lab.engine.adopt(&id).await.expect("opened");
    assert_eq!((view.resources, view.origin.as_deref()), (0, Some(OWNER)), "the sealed one is all there is");
    Box::pin(lab.engine.restore_state(&id, Some(1))).await.expect("restored");
    assert_eq!((lab.look(NAME).resources, lab.look(NAME).origin), (1, None));
    assert_eq!(reason(&lab.apply(NAME, lent(&lab, &module("four"))).await), "StateNotTrusted");
}

/// Whoever can write where a lent backend keeps the state of an instance can put one there before the instance exists.
#[tokio::test(flavor = "multi_thread")]
async fn lent_code_begins_on_no_state_that_its_backend_holds() {
    let Some(tool) = tool() else { return };
    let planted = state(1, "tenant-made").to_string();
    // What the backend holds, and whether the code is lent -> how its runs end.
    let rows = [
        (Some(planted.as_str()), true, "StateNotTrusted"),
        (Some("no state at all"), true, "refused"),
        (None, true, "Done"),
        (Some(planted.as_str()), false, "Done"),
    ];
    for (held, lends, expected) in rows {
        let lab = Lab::new(&tool).await;
        let place = lab.path("shared.tfstate");
        if let Some(held) = held {
            std::fs::write(&place, held).expect("written");
        }
        let text = format!(
            "terraform {{\n  backend \"local\" {{\n    path = \"{}\"\n  }}\n}}\n{MODULE}",
            place.display()
        );
        let inputs = if lends { lent(&lab, &text) } else { own(&lab, &text) };
        for operation in [Operation::Plan, Operation::Apply, Operation::Refresh] {
            let ended = lab.run(NAME, operation.clone(), Some(inputs.clone())).await;
            match expected {
                "Done" => {
                    assert!(!matches!(ended.outcome, Outcome::Failed(_)), "{lends} {operation:?}: {ended:?}");
                }
                "refused" => assert!(matches!(ended.outcome, Outcome::Failed(_)), "{operation:?}: {ended:?}"),
                _ => assert_eq!(reason(&ended), expected, "{operation:?}: {ended:?}"),
            }
        }
        if expected == "StateNotTrusted" {
            assert_eq!(std::fs::read_to_string(&place).expect("there"), planted, "nothing is destroyed");
        }
    }
}
