use super::*;

fn workspace() -> OwnedWorkspace {
    OwnedWorkspace {
        name: "w".into(),
        kinship: Kinship::Ours,
        same_template: true,
        differs: false,
        held: false,
        running: false,
        standing: WorkspaceStanding::default(),
        summary: WorkspaceSummary::default(),
    }
}

#[allow(clippy::unnecessary_wraps, reason = "as an owner observes it")]
fn with(change: impl FnOnce(&mut OwnedWorkspace)) -> Option<OwnedWorkspace> {
    let mut workspace = workspace();
    change(&mut workspace);
    Some(workspace)
}

#[test]
fn each_intent_has_one_next_step() {
    use OwnerStep::{Correct, Create, Delete, Hold, Pause, Release, Rest, Resume, Retain};
    let held = WorkspaceOwner { held: true, ..WorkspaceOwner::default() };
    let free = WorkspaceOwner::default();
    let (keep, waits) = (Intent::Keep { complete: true }, Intent::Keep { complete: false });
    let orphan = |same| {
        with(|workspace| {
            (workspace.kinship, workspace.same_template) = (Kinship::Orphan, same);
            workspace.differs = true;
        })
    };
    let foreign = || with(|workspace| workspace.kinship = Kinship::Foreign);
    let going = || with(|workspace| (workspace.standing.deleting, workspace.differs) = (true, true));
    let still = || with(|workspace| (workspace.held, workspace.differs) = (true, true));
    let rows = [
        ("new", free, keep, None, Create),
        ("not complete", free, waits, None, Rest),
        ("in step", held, keep, with(|_| ()), Rest),
        ("differs", held, keep, with(|workspace| workspace.differs = true), Correct),
        ("differs, not complete", held, waits, with(|workspace| workspace.differs = true), Rest),
        ("without the finalizer", free, keep, with(|_| ()), Hold),
        ("left behind, finalizer first", free, keep, orphan(true), Hold),
        ("left behind", held, keep, orphan(true), Correct),
        ("left behind by another template", held, keep, orphan(false), Rest),
        ("another's", free, keep, foreign(), Rest),
        ("goes", held, keep, going(), Rest),
        ("goes on with its owner, in one write", held, keep, still(), Correct),
        ("goes on with its owner, not complete", held, waits, still(), Resume),
        ("pause", held, Intent::Pause, with(|_| ()), Pause),
        ("pause, once", held, Intent::Pause, still(), Rest),
        ("pause without a workspace", held, Intent::Pause, None, Rest),
        ("pause of another's", held, Intent::Pause, foreign(), Rest),
        ("pause of what was left behind", held, Intent::Pause, orphan(true), Rest),
        ("destroy", held, Intent::Destroy, with(|_| ()), Delete),
        ("destroy, once", held, Intent::Destroy, going(), Rest),
        ("destroy what stands still", held, Intent::Destroy, still(), Resume),
        ("destroyed", held, Intent::Destroy, None, Release),
        ("destroy another's", held, Intent::Destroy, foreign(), Release),
        ("retain", held, Intent::Retain, with(|_| ()), Retain),
        ("retain what goes already", held, Intent::Retain, going(), Release),
        ("retained", held, Intent::Retain, orphan(true), Release),
        ("release", held, Intent::Release, with(|_| ()), Release),
    ];
    for (name, owner, intent, workspace, expected) in rows {
        assert_eq!(owner.next(intent, workspace.as_ref()), expected, "{name}");
    }
}

#[test]
fn stages_of_an_owner() {
    let owner = |deleting, held, external, paused| WorkspaceOwner {
        deleting,
        held,
        orphans: false,
        external,
        paused,
    };
    let by = Some("why");
    let rows = [
        (owner(false, false, false, None), Lifecycle::Alive),
        (owner(false, true, true, by), Lifecycle::External),
        (owner(true, false, true, by), Lifecycle::External),
        (owner(true, true, true, None), Lifecycle::Leaving),
        (owner(false, true, false, by), Lifecycle::Paused("why")),
        (owner(true, true, false, by), Lifecycle::Paused("why")),
        (owner(true, true, false, None), Lifecycle::Leaving),
        (owner(true, false, false, None), Lifecycle::Gone),
    ];
    for (owner, expected) in rows {
        assert_eq!(owner.lifecycle(), expected, "{owner:?}");
    }
    let leaving = owner(true, true, false, None);
    assert_eq!([leaving.parting(false), leaving.parting(true)], [Intent::Destroy, Intent::Retain]);
    for leaving in [WorkspaceOwner { orphans: true, ..leaving }, WorkspaceOwner { external: true, ..leaving }]
    {
        assert_eq!(leaving.parting(true), Intent::Release, "{leaving:?}");
    }
}

#[test]
fn the_end_is_told_with_what_holds_it_up() {
    let told = |intent, workspace: Option<OwnedWorkspace>| parting_message(intent, workspace.as_ref());
    assert_eq!(told(Intent::Destroy, None), "nothing is left");
    assert_eq!(told(Intent::Retain, with(|_| ())), "WorkspaceTemplateApply w stays");
    assert_eq!(told(Intent::Destroy, with(|_| ())), "waits for WorkspaceTemplateApply w to go");
    let failed = |reason: &str| {
        with(|workspace| {
            workspace.standing.deleting = true;
            workspace.standing.reason = reason.into();
            workspace.standing.message = "Error: in use".into();
        })
    };
    let stuck = "waits for WorkspaceTemplateApply w to go: Error: in use";
    assert_eq!(told(Intent::Destroy, failed("DestroyFailed")), stuck);
    assert_eq!(
        told(Intent::Destroy, failed(reasons::DESTROYING)),
        "waits for WorkspaceTemplateApply w to go"
    );
}
