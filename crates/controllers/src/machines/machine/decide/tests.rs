#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use capt_api::machine::{CaptMachine, CaptMachineSpec, NodeGroup, NodeGroupSpec, NodeGroupStatus};
use capt_api::names::finalizers;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::*;
use crate::owned_workspace::{Wanted, owner};
use crate::runtime::Name;

fn observed() -> Observed {
    let mut machine = CaptMachine::new("m", CaptMachineSpec::default());
    machine.metadata.namespace = Some("n".into());
    machine.metadata.uid = Some("u".into());
    machine.metadata.finalizers = Some(vec![finalizers::MACHINE.into()]);
    let wanted = Wanted {
        name: Name::new("n", "m-machine"),
        template: capt_api::refs::ObjectRef { name: "t".into(), namespace: None },
        variables: [("tags".to_owned(), serde_json::json!({"a": "b"}))].into(),
        defaults: Vec::new(),
        secrets: Vec::new(),
        cluster: Some("c".into()),
        owner: owner(&machine),
        terms: None,
    };
    Observed {
        object: Arc::new(machine),
        name: Name::new("n", "m"),
        status: None,
        external: false,
        paused: None,
        deleting: false,
        finalizer: true,
        waits: None,
        failure_domain: None,
        node: None,
        workspace: None,
        wanted,
        group: None,
        group_name: None,
    }
}

fn with_workspace(change: impl FnOnce(&mut WorkspaceTemplateApply)) -> Observed {
    let mut observed = observed();
    let mut apply = observed.wanted.object();
    apply.metadata.uid = Some("w".into());
    change(&mut apply);
    observed.workspace = Some(Arc::new(apply));
    observed
}

fn group(ready: bool) -> Arc<NodeGroup> {
    let mut group = NodeGroup::new("g", NodeGroupSpec::default());
    group.status = Some(NodeGroupStatus { ready, ..NodeGroupStatus::default() });
    Arc::new(group)
}

#[test]
fn a_workspace_is_made_once_the_group_is_ready() {
    assert_eq!(decide(&observed()).step, Step::Create);
    assert_eq!(decide(&Observed { group: Some(group(true)), ..observed() }).step, Step::Create);
    let waits = decide(&Observed { group: Some(group(false)), ..observed() });
    assert_eq!(waits.step, Step::Rest);
    assert!(matches!(waits.phase, Phase::Waiting(reasons::WAITING_FOR_NODE_GROUP, _)));
}

#[test]
fn a_workspace_is_kept_in_step() {
    assert_eq!(decide(&with_workspace(|_| ())).step, Step::Rest);
    let stale = |apply: &mut WorkspaceTemplateApply| apply.spec.variables.clear();
    let Step::Change(changed) = decide(&with_workspace(stale)).step else { panic!("it is out of step") };
    assert_eq!(changed.spec.variables["tags"]["a"], "b");
    // The outputs of a group that is not ready may be missing.
    let waits = Observed { group: Some(group(false)), ..with_workspace(stale) };
    assert_eq!(decide(&waits).step, Step::Rest);
}

#[test]
fn what_is_anothers_is_not_touched() {
    let foreign =
        with_workspace(|apply| apply.metadata.owner_references.as_mut().unwrap()[0].uid = "x".into());
    assert!(matches!(decide(&foreign).phase, Phase::Waiting(reasons::NAME_TAKEN, _)));
    let orphan = with_workspace(|apply| apply.metadata.owner_references = None);
    assert!(matches!(decide(&orphan).step, Step::Change(_)), "what was left behind is taken up");
    let unheld =
        Observed { finalizer: false, ..with_workspace(|apply| apply.metadata.owner_references = None) };
    assert_eq!(decide(&unheld).step, Step::Hold, "and is never forgotten");
    let other = with_workspace(|apply| {
        apply.metadata.owner_references = None;
        apply.spec.template_ref.name = "other".into();
    });
    assert_eq!(decide(&other).step, Step::Rest);
}

#[test]
fn the_workspace_goes_first() {
    let deleting = Observed { deleting: true, ..with_workspace(|_| ()) };
    assert_eq!(decide(&deleting).step, Step::Delete("w".into()));
    let going = with_workspace(|apply| {
        apply.metadata.deletion_timestamp = Some(Time(jiff::Timestamp::UNIX_EPOCH));
    });
    assert_eq!(decide(&Observed { deleting: true, ..going }).step, Step::Rest);
    assert_eq!(decide(&Observed { deleting: true, ..observed() }).step, Step::Release);
    let paused = Observed { deleting: true, paused: Some("why".into()), ..with_workspace(|_| ()) };
    assert!(matches!(decide(&paused).step, Step::Change(_)), "the workspace stands still, too");
    let external = Observed { external: true, finalizer: false, ..with_workspace(|_| ()) };
    assert_eq!(decide(&external), Decision { step: Step::Rest, phase: Phase::External, again: None });
}

#[test]
fn a_machine_that_waits_for_its_group_tells_what_that_lacks() {
    let mut broken = NodeGroup::clone(&group(false));
    broken.metadata.namespace = Some("n".into());
    broken.status.as_mut().unwrap().failure_message = Some("Error: no subnet".into());
    let message =
        |group: NodeGroup| match decide(&Observed { group: Some(Arc::new(group)), ..observed() }).phase {
            Phase::Waiting(reasons::WAITING_FOR_NODE_GROUP, message) => message,
            other => panic!("{other:?}"),
        };
    assert_eq!(message(broken.clone()), "NodeGroup g is not ready: Error: no subnet");
    // A grant lends the group, not what is said in its namespace.
    broken.metadata.namespace = Some("theirs".into());
    assert_eq!(message(broken), "NodeGroup g is not ready");
}
