use capt_api::cluster::WorkspaceSummary;
use capt_api::machine::{CaptMachineSpec, NodeGroupSpec, NodeGroupStatus};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::*;
use crate::owned_workspace::Kinship;

fn machine() -> CaptMachine {
    let mut machine = CaptMachine::new("m", CaptMachineSpec::default());
    machine.metadata.namespace = Some("n".into());
    machine.metadata.uid = Some("u".into());
    machine.metadata.finalizers = Some(vec![finalizers::MACHINE.into()]);
    machine
}

fn deleting() -> CaptMachine {
    let mut machine = machine();
    machine.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
    machine
}

fn observed(object: &CaptMachine) -> MachineObservation<'_> {
    MachineObservation {
        object,
        external: false,
        paused: None,
        waits: None,
        group: None,
        workspace: None,
        node: None,
    }
}

#[allow(clippy::unnecessary_wraps, reason = "as an owner observes it")]
fn workspace(change: impl FnOnce(&mut OwnedWorkspace)) -> Option<OwnedWorkspace> {
    let mut workspace = OwnedWorkspace {
        name: "m-machine".into(),
        kinship: Kinship::Ours,
        same_template: true,
        differs: false,
        held: false,
        running: false,
        standing: WorkspaceStanding::default(),
        summary: WorkspaceSummary::default(),
    };
    change(&mut workspace);
    Some(workspace)
}

fn group(ready: bool) -> NodeGroup {
    let mut group = NodeGroup::new("g", NodeGroupSpec::default());
    group.status = Some(NodeGroupStatus { ready, ..NodeGroupStatus::default() });
    group
}

fn left(object: &CaptMachine, workspace: Option<OwnedWorkspace>) -> MachineObservation<'_> {
    MachineObservation { workspace, ..observed(object) }
}

/// The step for the workspace.
fn step(observed: &MachineObservation<'_>) -> OwnerStep {
    match decide(observed).step {
        MachineStep::Workspace(step) => step,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_workspace_is_made_once_the_group_is_ready() {
    let machine = machine();
    assert_eq!(step(&observed(&machine)), OwnerStep::Create);
    assert_eq!(
        step(&MachineObservation { group: Some(&group(true)), ..observed(&machine) }),
        OwnerStep::Create
    );
    let group = group(false);
    let waits = MachineObservation { group: Some(&group), ..observed(&machine) };
    assert_eq!(step(&waits), OwnerStep::Rest);
    let MachineState::Waiting(why) = decide(&waits).state else { panic!("it waits") };
    assert_eq!(why.reason, reasons::WAITING_FOR_NODE_GROUP);
}

#[test]
fn a_workspace_is_kept_in_step() {
    let machine = machine();
    let with = |change: fn(&mut OwnedWorkspace)| MachineObservation {
        workspace: workspace(change),
        ..observed(&machine)
    };
    assert_eq!(step(&with(|_| ())), OwnerStep::Rest);
    let stale = with(|workspace| workspace.differs = true);
    assert_eq!(step(&stale), OwnerStep::Correct);
    // The outputs of a group that is not ready may be missing.
    let waits = MachineObservation { group: Some(&group(false)), ..stale };
    assert_eq!(step(&waits), OwnerStep::Rest);
}

#[test]
fn the_provider_id_is_handed_on_once_all_else_is_done() {
    let built = |differs| {
        workspace(|workspace| {
            (workspace.differs, workspace.standing.built) = (differs, true);
            workspace.standing.outputs = [("provider_id".to_owned(), "aws:///i-1".into())].into();
        })
    };
    let mut machine = machine();
    let decided = decide(&MachineObservation { workspace: built(false), ..observed(&machine) });
    assert_eq!(decided.step, MachineStep::HandProviderId("aws:///i-1".into()));
    assert_eq!(
        step(&MachineObservation { workspace: built(true), ..observed(&machine) }),
        OwnerStep::Correct
    );
    let why = Why::new(reasons::WAITING_FOR_MACHINE, "why");
    let waits = MachineObservation { workspace: built(false), waits: Some(&why), ..observed(&machine) };
    assert_eq!(step(&waits), OwnerStep::Rest);
    machine.spec.provider_id = Some("aws:///i-1".into());
    assert_eq!(step(&MachineObservation { workspace: built(false), ..observed(&machine) }), OwnerStep::Rest);
}

#[test]
fn a_member_is_one_from_the_start() {
    let mut machine = machine();
    machine.spec.node_group_ref = Some(capt_api::refs::ObjectRef { name: "g".into(), namespace: None });
    assert_eq!(missing_label(&machine), Some("g"));
    let (group, mine) = (group(false), workspace(|_| ()));
    let waits = MachineObservation { group: Some(&group), ..observed(&machine) };
    assert_eq!(step(&waits), OwnerStep::Hold);
    assert_eq!(step(&MachineObservation { workspace: mine, ..observed(&machine) }), OwnerStep::Hold);
    let why = Why::new(reasons::WAITING_FOR_MACHINE, "why");
    assert_eq!(step(&MachineObservation { waits: Some(&why), ..waits }), OwnerStep::Rest);
    machine.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
    let going = MachineObservation { workspace: workspace(|_| ()), ..observed(&machine) };
    assert_eq!(step(&going), OwnerStep::Delete, "one that leaves needs no label");
}

#[test]
fn what_is_anothers_is_not_touched() {
    let mut machine = machine();
    let foreign = MachineObservation {
        workspace: workspace(|workspace| workspace.kinship = Kinship::Foreign),
        ..observed(&machine)
    };
    let MachineState::Waiting(why) = decide(&foreign).state else { panic!("it waits") };
    assert_eq!(why.reason, reasons::NAME_TAKEN);
    let orphan = |same| {
        workspace(|workspace| {
            (workspace.kinship, workspace.same_template) = (Kinship::Orphan, same);
            workspace.differs = true;
        })
    };
    assert_eq!(step(&left(&machine, orphan(true))), OwnerStep::Correct, "what was left behind is adopted");
    assert_eq!(step(&left(&machine, orphan(false))), OwnerStep::Rest);
    machine.metadata.finalizers = None;
    assert_eq!(step(&left(&machine, orphan(true))), OwnerStep::Hold, "and is never forgotten");
}

#[test]
fn the_workspace_goes_first() {
    let machine = deleting();
    let mine = |change: fn(&mut OwnedWorkspace)| MachineObservation {
        workspace: workspace(change),
        ..observed(&machine)
    };
    assert_eq!(step(&mine(|_| ())), OwnerStep::Delete);
    assert_eq!(step(&mine(|workspace| workspace.standing.deleting = true)), OwnerStep::Rest);
    assert_eq!(step(&observed(&machine)), OwnerStep::Release);
    let paused = MachineObservation { paused: Some("why"), ..mine(|_| ()) };
    assert_eq!(step(&paused), OwnerStep::Pause, "the workspace stands still, too");
    let mut free = deleting();
    free.metadata.finalizers = None;
    let external = MachineObservation { external: true, workspace: workspace(|_| ()), ..observed(&free) };
    assert_eq!(decide(&external), MachineDecision::rest(MachineState::External));
}

#[test]
fn pods_leave_before_the_workspace_and_the_node_goes_after_it() {
    let machine = deleting();
    let node = |last| NodeDeparture {
        cluster: "c".into(),
        drain: DrainProgress { last, ..DrainProgress::default() },
        removal: Some((
            NodeWork::Remove(capt_api::machine::NodeRef { name: "n".into(), uid: "u".into() }),
            DrainProgress::default(),
        )),
        ..NodeDeparture::default()
    };
    let (full, empty) = (node(None), node(Some(DrainOutcome::NoNode)));
    let of = |node, workspace| MachineObservation { node: Some(node), workspace, ..observed(&machine) };
    let mine = || workspace(|_| ());
    assert_eq!(decide(&of(&full, mine())).step, MachineStep::Node(NodeWork::Drain));
    let decided = decide(&of(&empty, mine()));
    assert_eq!(decided.step, MachineStep::Workspace(OwnerStep::Delete));
    assert!(matches!(decided.state, MachineState::Deleting(_, Some(DrainEnd { well: true, .. }))));
    assert!(matches!(decide(&of(&empty, None)).step, MachineStep::Node(NodeWork::Remove(_))));
    let external = MachineObservation { external: true, ..of(&full, mine()) };
    assert_eq!(step(&external), OwnerStep::Release, "who lets go of all waits for nobody");
}

#[test]
fn a_machine_that_waits_for_its_group_tells_what_that_lacks() {
    let machine = machine();
    let mut broken = group(false);
    broken.metadata.namespace = Some("n".into());
    broken.status.as_mut().unwrap().failure_message = Some("Error: no subnet".into());
    let message =
        |group: &NodeGroup| match decide(&MachineObservation { group: Some(group), ..observed(&machine) })
            .state
        {
            MachineState::Waiting(why) if why.reason == reasons::WAITING_FOR_NODE_GROUP => why.message,
            other => panic!("{other:?}"),
        };
    assert_eq!(message(&broken), "NodeGroup g is not ready: Error: no subnet");
    // A grant lends the group, not what is said in its namespace.
    broken.metadata.namespace = Some("theirs".into());
    assert_eq!(message(&broken), "NodeGroup g is not ready");
}
