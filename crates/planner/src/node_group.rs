//! NodeGroup: the next thing to do for one, and its state.

use capt_api::conditions::reasons;
use capt_api::machine::NodeGroup;
use capt_api::names::finalizers;

use crate::Why;
use crate::owned_workspace::{
    Intent, Lifecycle, OwnedWorkspace, OwnerStep, WorkspaceOwner, WorkspaceStanding, parting_message,
};
use crate::reason::few;

/// Observation of one node group.
#[derive(Clone, Debug)]
pub struct NodeGroupObservation<'a> {
    /// The object.
    pub object: &'a NodeGroup,
    /// The reason that it is paused.
    pub paused: Option<&'a str>,
    /// The object of its workspace's name.
    pub workspace: Option<OwnedWorkspace>,
    /// Names of its members, where somebody waits for them to leave.
    pub leaving: &'a [String],
}

/// State of a node group.
#[derive(Clone, Debug, PartialEq)]
pub enum NodeGroupState {
    /// Nothing is done, for this reason.
    Paused(String),
    /// It exists; nothing is built.
    Exists,
    /// Its name is another's.
    Blocked(String),
    /// It has a workspace, in this state.
    Workspace(WorkspaceStanding),
    /// It is on its way out, and waits for something.
    Deleting(Why),
    /// It is gone as far as we are concerned.
    Gone,
}

/// Decision for one node group.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeGroupDecision {
    /// The next step.
    pub step: OwnerStep,
    /// Its state.
    pub state: NodeGroupState,
}

/// Decides for one node group.
pub fn decide(observed: &NodeGroupObservation<'_>) -> NodeGroupDecision {
    let (state, step) = next(observed);
    NodeGroupDecision { step, state }
}

fn next(observed: &NodeGroupObservation<'_>) -> (NodeGroupState, OwnerStep) {
    let meta = &observed.object.metadata;
    let owner = WorkspaceOwner::read(meta, finalizers::NODE_GROUP, false, observed.paused);
    let workspace = observed.workspace.as_ref();
    match owner.lifecycle() {
        Lifecycle::External | Lifecycle::Gone => (NodeGroupState::Gone, OwnerStep::Rest),
        Lifecycle::Paused(by) => {
            (NodeGroupState::Paused(by.to_owned()), owner.next(Intent::Pause, workspace))
        }
        Lifecycle::Leaving => end(observed, &owner),
        Lifecycle::Alive if observed.object.spec.workspace_template_ref.is_none() => {
            (NodeGroupState::Exists, if owner.held { OwnerStep::Rest } else { OwnerStep::Hold })
        }
        Lifecycle::Alive => {
            let state = match workspace {
                None => NodeGroupState::Workspace(WorkspaceStanding {
                    reason: reasons::CREATING.to_owned(),
                    message: "its workspace is being built".into(),
                    ..WorkspaceStanding::default()
                }),
                Some(workspace) if !workspace.usable() => NodeGroupState::Blocked(workspace.name_taken()),
                Some(workspace) => NodeGroupState::Workspace(workspace.standing.clone()),
            };
            (state, owner.next(Intent::Keep { complete: true }, workspace))
        }
    }
}

/// Members leave first, then the workspace goes.
fn end(observed: &NodeGroupObservation<'_>, owner: &WorkspaceOwner<'_>) -> (NodeGroupState, OwnerStep) {
    if !observed.leaving.is_empty() && !owner.leaves_all() {
        let message = format!("waits until CaptMachine {} has left", few(observed.leaving));
        return (NodeGroupState::Deleting(Why::new(reasons::IN_USE, message)), OwnerStep::Rest);
    }
    let (intent, workspace) = (owner.parting(false), observed.workspace.as_ref());
    let why = Why::new(reasons::DELETING, parting_message(intent, workspace));
    (NodeGroupState::Deleting(why), owner.next(intent, workspace))
}

#[cfg(test)]
mod tests {
    use capt_api::cluster::WorkspaceSummary;
    use capt_api::machine::NodeGroupSpec;
    use capt_api::refs::ObjectRef;
    use jiff::Timestamp;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;
    use crate::owned_workspace::Kinship;

    fn group(finalizer: bool, deleting: bool) -> NodeGroup {
        let template = ObjectRef { name: "t".into(), namespace: None };
        let spec = NodeGroupSpec { workspace_template_ref: Some(template), ..NodeGroupSpec::default() };
        let mut group = NodeGroup::new("g", spec);
        group.metadata.finalizers = finalizer.then(|| vec![finalizers::NODE_GROUP.to_owned()]);
        group.metadata.deletion_timestamp = deleting.then_some(Time(Timestamp::UNIX_EPOCH));
        group
    }

    #[allow(clippy::unnecessary_wraps, reason = "as an owner observes it")]
    fn workspace(kinship: Kinship) -> Option<OwnedWorkspace> {
        Some(OwnedWorkspace {
            name: "g-nodegroup".into(),
            kinship,
            same_template: true,
            differs: kinship == Kinship::Orphan,
            held: false,
            running: false,
            standing: WorkspaceStanding::default(),
            summary: WorkspaceSummary::default(),
        })
    }

    fn observed(object: &NodeGroup, workspace: Option<OwnedWorkspace>) -> NodeGroupObservation<'_> {
        NodeGroupObservation { object, paused: None, workspace, leaving: &[] }
    }

    fn step(object: &NodeGroup, workspace: Option<OwnedWorkspace>) -> OwnerStep {
        decide(&observed(object, workspace)).step
    }

    #[test]
    fn a_group_keeps_its_workspace() {
        let (new, held) = (group(false, false), group(true, false));
        assert_eq!(step(&new, None), OwnerStep::Create);
        assert_eq!(step(&held, workspace(Kinship::Ours)), OwnerStep::Rest);
        assert_eq!(step(&new, workspace(Kinship::Orphan)), OwnerStep::Hold);
        assert_eq!(step(&held, workspace(Kinship::Orphan)), OwnerStep::Correct);
        let taken = decide(&observed(&new, workspace(Kinship::Foreign)));
        let message = "WorkspaceTemplateApply g-nodegroup is controlled by another object".to_owned();
        assert_eq!((taken.step, taken.state), (OwnerStep::Rest, NodeGroupState::Blocked(message)));
    }

    #[test]
    fn a_group_that_exists_is_only_held() {
        let mut external = group(false, false);
        external.spec.workspace_template_ref = None;
        let expected = NodeGroupDecision { step: OwnerStep::Hold, state: NodeGroupState::Exists };
        assert_eq!(decide(&observed(&external, None)), expected);
    }

    #[test]
    fn members_leave_before_the_workspace_goes() {
        let going = group(true, true);
        let members = ["m".to_owned()];
        let waits = NodeGroupObservation { leaving: &members, ..observed(&going, workspace(Kinship::Ours)) };
        let message = "waits until CaptMachine m has left";
        let state = NodeGroupState::Deleting(Why::new(reasons::IN_USE, message));
        assert_eq!(decide(&waits), NodeGroupDecision { step: OwnerStep::Rest, state });
        assert_eq!(step(&going, workspace(Kinship::Ours)), OwnerStep::Delete);
        assert_eq!(step(&going, None), OwnerStep::Release);
        assert_eq!(decide(&observed(&group(false, true), None)).state, NodeGroupState::Gone);
        let mut orphans = group(true, true);
        orphans.metadata.finalizers.get_or_insert_default().push("orphan".into());
        let orphans = NodeGroupObservation { object: &orphans, ..waits };
        assert_eq!(decide(&orphans).step, OwnerStep::Release, "the garbage collector cuts all loose");
        let paused =
            NodeGroupObservation { paused: Some("why"), ..observed(&going, workspace(Kinship::Ours)) };
        assert_eq!(decide(&paused).step, OwnerStep::Pause, "a pause holds the end up, too");
    }
}
