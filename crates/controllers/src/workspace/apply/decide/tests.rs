//! Every situation, and what is done in it.

use std::sync::Arc;
use std::time::Duration;

use capt_api::conditions::reasons;
use capt_api::workspace::{
    DriftDetection, WorkspaceTemplateApply, WorkspaceTemplateApplySpec, WorkspaceTemplateApplyStatus,
};
use capt_terraform::inputs::{Inputs, Revision};
use capt_terraform::order::{PlanId, RunId};
use capt_terraform::stream::Action;
use capt_terraform::view::View;

use super::super::asked::{Approved, Asked};
use super::super::fields::Fields;
use super::super::import::Import;
use super::super::observe::Lost;
use super::super::prepare::TemplateFacts;
use super::super::report;
use super::*;
use crate::runtime::Name;
use crate::runtime::backoff::Backoff;

pub(in crate::workspace::apply) fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).expect("a time")
}

fn revision(name: &str) -> Revision {
    serde_json::from_value(name.into()).expect("a revision is text")
}

/// A workspace whose inputs are `new`, with nothing done yet, at second 1000.
pub(in crate::workspace::apply) fn observed() -> Observed {
    let inputs = Inputs::inline("");
    let prepared = Prepared {
        inputs,
        revision: revision("new"),
        undeclared: Vec::new(),
        kept: Vec::new(),
        unfilled: Vec::new(),
        declared: Vec::new(),
        optional: Vec::new(),
        fields: Fields::default(),
        connection: None,
        backend: None,
    };
    Observed {
        object: Arc::new(WorkspaceTemplateApply::new("w", WorkspaceTemplateApplySpec::default())),
        name: Name::new("n", "w"),
        status: None,
        workspace_name: "w".into(),
        paused: None,
        deleting: false,
        finalizer: true,
        template: TemplateFacts::default(),
        prepared: Ok(prepared),
        gate: None,
        view: View::default(),
        asked: Asked::default(),
        import: None,
        lost: Lost::No,
        approval: Approval::Auto,
        retain: false,
        dependents: Vec::new(),
        failures: 1,
        backoff: Backoff { first: Duration::from_secs(30), longest: Duration::from_secs(300) },
        next_look: None,
        timeout: Duration::from_secs(3600),
    }
}

pub(in crate::workspace::apply) fn applied(mut observed: Observed, name: &str) -> Observed {
    observed.view.applied = Some(revision(name));
    observed.view.touched = true;
    observed
}

pub(in crate::workspace::apply) fn ended(
    mut observed: Observed,
    operation: Operation,
    of: &str,
    outcome: Outcome,
) -> Observed {
    observed.view.touched |= matches!(operation, Operation::Apply | Operation::ApplyPlan(_));
    observed.view.last = Some(Finished {
        id: RunId::from("1"),
        operation,
        revision: Some(revision(of)),
        started: at(900),
        ended: at(990),
        outcome,
        plan: None,
        drift: Vec::new(),
        warnings: Vec::new(),
        undeclared: Vec::new(),
    });
    observed
}

fn running(mut observed: Observed, operation: Operation, of: &str, phase: RunPhase) -> Observed {
    observed.view.run = Some(Running {
        id: RunId::from("2"),
        operation,
        revision: Some(revision(of)),
        phase,
        progress: capt_terraform::stream::Progress::default(),
        since: at(995),
        waits_for: None,
    });
    observed
}

pub(in crate::workspace::apply) fn change() -> Change {
    Change {
        address: "terraform_data.a".into(),
        action: Action::Create,
        reason: None,
        previous: None,
        imported: false,
    }
}

pub(in crate::workspace::apply) fn planned(
    mut observed: Observed,
    of: &str,
    changes: Vec<Change>,
) -> Observed {
    let plan = Plan {
        id: PlanId::from("p1"),
        revision: revision(of),
        origin: None,
        serial: 0,
        add: 1,
        change: 0,
        destroy: 0,
        changes,
    };
    observed.view.plan = Some(plan);
    observed
}

/// The template is another namespace's.
fn lent(mut observed: Observed) -> Observed {
    let inputs = &mut observed.prepared.as_mut().expect("prepared").inputs;
    (inputs.origin, inputs.lent) = (Some("vault".into()), true);
    observed
}

pub(in crate::workspace::apply) fn drifting(
    observed: Observed,
    policy: DriftPolicy,
    found: bool,
) -> Observed {
    let mut observed = ended(applied(observed, "new"), Operation::Refresh, "new", Outcome::Done);
    let mut object = observed.object.as_ref().clone();
    object.spec.drift_detection = Some(DriftDetection { interval: "1h".into(), policy });
    observed.object = Arc::new(object);
    if let Some(last) = observed.view.last.as_mut().filter(|_| found) {
        last.drift.push(change());
    }
    observed
}

/// A limit on what may be destroyed, and a plan that destroys one thing.
fn held(mut observed: Observed, limit: i32) -> Observed {
    let mut object = observed.object.as_ref().clone();
    object.spec.max_destroy = Some(limit);
    observed.object = Arc::new(object);
    observed.view.plan.as_mut().expect("planned").destroy = 1;
    observed
}

fn failed(reason: Reason) -> Outcome {
    Outcome::Failed(Failure::new(reason, "no"))
}

fn too_old(class: Class) -> Outcome {
    Outcome::Failed(Failure { class, ..Failure::new(Reason::BinaryTooOld, "no") })
}

fn left(secret: &str) -> Import {
    Import { secret: Name::new("n", secret), state: Vec::new(), passes: true }
}

pub(in crate::workspace::apply) fn with(
    mut observed: Observed,
    alter: impl FnOnce(&mut Observed),
) -> Observed {
    alter(&mut observed);
    observed
}

fn step(observed: &Observed) -> String {
    let decision = decide(observed, at(1000));
    let step = match &decision.step {
        Step::Rest => "rest".to_owned(),
        Step::Run(operation) => format!("run {}", operation.as_str()),
        Step::Cancel => "cancel".to_owned(),
        Step::Supersede => "supersede".to_owned(),
        Step::TakeOver(secret) => format!("take over {secret}"),
        Step::Restore(serial) => format!("restore {serial:?}"),
        Step::Release { forget: true } => "forget and release".to_owned(),
        Step::Release { forget: false } => "release".to_owned(),
    };
    let phase = match &decision.phase {
        Phase::Paused(_) => "paused",
        Phase::Blocked(_) => "blocked",
        Phase::Waiting(_) => "waiting",
        Phase::Running { .. } => "running",
        Phase::AwaitsApproval { too_destructive: true, .. } => "held",
        Phase::AwaitsApproval { stale_approval: Some(_), .. } => "stale approval",
        Phase::AwaitsApproval { .. } => "awaits approval",
        Phase::Retrying(..) => "retrying",
        Phase::Stalled(_) => "stalled",
        Phase::Ready { drift: Drift::Found(_) } => "ready, drifted",
        Phase::Ready { drift: Drift::Unknown(_) } => "ready, drift unknown",
        Phase::Ready { .. } => "ready",
        Phase::Deleting(_) => "deleting",
    };
    let wake = decision.wake.map_or_else(String::new, |wake| format!(", again at {}", wake.as_second()));
    format!("{phase}: {step}{wake}")
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn an_object_that_should_be_there() {
    let o = observed;
    let blocked = || Err(Blocked::waiting(reasons::SECRET_NOT_FOUND, "no"));
    let rows: Vec<(&str, Observed, &str)> = vec![
        ("new", o(), "running: run apply"),
        ("applied", applied(o(), "new"), "ready: rest"),
        ("changed", applied(o(), "old"), "running: run apply"),
        ("paused", with(o(), |o| o.paused = Some("p".into())), "paused: rest"),
        ("inputs missing", with(o(), |o| o.prepared = blocked()), "blocked: rest, again at 1060"),
        ("gate shut", with(o(), |o| o.gate = blocked().err()), "waiting: rest"),
        (
            "gate shut, but nothing to do",
            with(applied(o(), "new"), |o| o.gate = blocked().err()),
            "ready: rest",
        ),
        ("running", running(o(), Operation::Apply, "new", RunPhase::Applying), "running: rest"),
        ("running old inputs", running(o(), Operation::Apply, "old", RunPhase::Applying), "running: rest"),
        (
            "queued with old inputs",
            running(o(), Operation::Apply, "old", RunPhase::Queued),
            "running: supersede",
        ),
        (
            "cancel asked",
            with(running(o(), Operation::Apply, "new", RunPhase::Applying), |o| o.asked.cancel = true),
            "running: cancel",
        ),
        (
            "failed a moment ago",
            ended(o(), Operation::Apply, "new", failed(Reason::ApplyFailed)),
            "retrying: rest, again at 1020",
        ),
        (
            "failed often",
            with(ended(o(), Operation::Apply, "new", failed(Reason::Network)), |o| o.failures = 3),
            "retrying: rest, again at 1110",
        ),
        (
            "failed long ago",
            with(ended(o(), Operation::Apply, "new", failed(Reason::ApplyFailed)), |o| {
                o.view.last.as_mut().expect("ended").ended = at(100);
            }),
            "running: run apply",
        ),
        (
            "failed with other inputs",
            ended(o(), Operation::Apply, "old", failed(Reason::ApplyFailed)),
            "running: run apply",
        ),
        (
            "superseded, and wanted again",
            with(ended(o(), Operation::Apply, "new", Outcome::Cancelled), |o| {
                o.view.last.as_mut().expect("ended").revision = None;
            }),
            "running: run apply",
        ),
        ("broken", ended(o(), Operation::Apply, "new", failed(Reason::InvalidModule)), "stalled: rest"),
        (
            "broken, retry asked",
            with(ended(o(), Operation::Apply, "new", failed(Reason::InvalidModule)), |o| {
                o.asked.retry = true;
            }),
            "running: run apply",
        ),
        (
            "broken, then edited",
            ended(o(), Operation::Apply, "old", failed(Reason::InvalidModule)),
            "running: run apply",
        ),
        (
            "the binary was too old, and another is there",
            ended(o(), Operation::Apply, "new", too_old(Class::Transient)),
            "running: run apply",
        ),
        (
            "the module asks for a newer binary",
            ended(o(), Operation::Apply, "new", too_old(Class::Terminal)),
            "stalled: rest",
        ),
        ("cancelled", ended(o(), Operation::Apply, "new", Outcome::Cancelled), "stalled: rest"),
        (
            "timed out",
            ended(o(), Operation::Apply, "new", Outcome::TimedOut),
            "retrying: rest, again at 1020",
        ),
        (
            "applied, then an apply of the same failed",
            ended(applied(o(), "new"), Operation::Apply, "new", failed(Reason::ApplyFailed)),
            "retrying: rest, again at 1020",
        ),
        (
            "state to take over",
            with(o(), |o| o.asked.import_state = Some("s".into())),
            "running: take over s",
        ),
        ("state that was left for it", with(o(), |o| o.import = Some(left("l"))), "running: take over l"),
        (
            "state for what something else applied",
            with(o(), |o| {
                o.import = Some(left("l"));
                o.view.trouble = Some(Failure::new(Reason::StateLost, "no"));
            }),
            "running: take over l",
        ),
        ("retry of what is fine", with(applied(o(), "new"), |o| o.asked.retry = true), "running: run apply"),
    ];
    for (name, observed, expected) in rows {
        assert_eq!(step(&observed), expected, "{name}");
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn plans_and_drift() {
    let manual = || with(observed(), |o| o.approval = Approval::Manual);
    let approving = |id: &'static str| move |o: &mut Observed| o.asked.approve = Some(id.into());
    let used = |id: &'static str| {
        move |o: &mut Observed| o.asked.approved = Some(Approved { plan: id.into(), by: "somebody".into() })
    };
    let rows: Vec<(&str, Observed, &str)> = vec![
        ("manual", manual(), "running: run plan"),
        ("manual, planned", planned(manual(), "new", vec![change()]), "awaits approval: rest"),
        ("manual, another plan", planned(manual(), "old", vec![change()]), "running: run plan"),
        ("planned by another origin", lent(planned(manual(), "new", vec![change()])), "running: run plan"),
        (
            "approved, planned by another origin",
            with(lent(planned(manual(), "new", vec![change()])), approving("p1")),
            "running: run plan",
        ),
        ("manual, nothing to change", planned(manual(), "new", vec![]), "running: run apply"),
        ("approved", with(planned(manual(), "new", vec![change()]), approving("p1")), "running: run apply"),
        (
            "approved, and taken off already",
            with(planned(manual(), "new", vec![change()]), used("p1")),
            "running: run apply",
        ),
        (
            "another was used",
            with(planned(manual(), "new", vec![change()]), used("p0")),
            "awaits approval: rest",
        ),
        (
            "approved, and its apply failed",
            with(
                planned(
                    ended(
                        manual(),
                        Operation::ApplyPlan(PlanId::from("p1")),
                        "new",
                        failed(Reason::Credentials),
                    ),
                    "new",
                    vec![change()],
                ),
                used("p1"),
            ),
            "retrying: rest, again at 1020",
        ),
        (
            "another approved",
            with(planned(manual(), "new", vec![change()]), approving("p0")),
            "stale approval: rest",
        ),
        (
            "plan failed",
            ended(manual(), Operation::Plan, "new", failed(Reason::PlanFailed)),
            "retrying: rest, again at 1020",
        ),
        (
            "plan was stale",
            with(
                ended(manual(), Operation::ApplyPlan(PlanId::from("p1")), "new", failed(Reason::PlanStale)),
                |o| {
                    o.view.last.as_mut().expect("ended").ended = at(100);
                },
            ),
            "running: run plan",
        ),
        ("held", held(planned(observed(), "new", vec![change()]), 0), "held: rest"),
        ("held, limit raised", held(planned(observed(), "new", vec![change()]), 1), "running: run apply"),
        ("planned, then made automatic", planned(observed(), "new", vec![change()]), "running: run apply"),
        (
            "held, approved",
            with(held(planned(observed(), "new", vec![change()]), 0), approving("p1")),
            "running: run apply",
        ),
        (
            "not yet time to look",
            with(drifting(observed(), DriftPolicy::Report, false), |o| o.next_look = Some(at(1500))),
            "ready: rest, again at 1500",
        ),
        (
            "time to look",
            with(drifting(observed(), DriftPolicy::Report, false), |o| o.next_look = Some(at(1000))),
            "ready: run refresh",
        ),
        ("drift reported", drifting(observed(), DriftPolicy::Report, true), "ready, drifted: rest"),
        ("drift corrected", drifting(observed(), DriftPolicy::Correct, true), "running: run apply"),
        (
            "drift corrected by a person",
            with(drifting(observed(), DriftPolicy::Correct, true), |o| o.approval = Approval::Manual),
            "running: run plan",
        ),
        ("nobody looks any more", drifting(observed(), DriftPolicy::Off, true), "ready: rest"),
        (
            "the look failed",
            with(drifting(observed(), DriftPolicy::Correct, false), |o| {
                o.view.last.as_mut().expect("ended").outcome = failed(Reason::Network);
            }),
            "ready, drift unknown: rest",
        ),
    ];
    for (name, observed, expected) in rows {
        assert_eq!(step(&observed), expected, "{name}");
    }
}

#[test]
fn an_object_on_its_way_out() {
    let o = || with(applied(observed(), "new"), |o| o.deleting = true);
    let rows: Vec<(&str, Observed, &str)> = vec![
        ("applied", o(), "running: run destroy"),
        ("never applied", with(o(), |o| o.view.touched = false), "deleting: forget and release"),
        ("not ours any more", with(o(), |o| o.finalizer = false), "deleting: rest"),
        ("paused", with(o(), |o| o.paused = Some("p".into())), "deleting: rest"),
        ("retained", with(o(), |o| o.retain = true), "deleting: release"),
        ("applying", running(o(), Operation::Apply, "new", RunPhase::Applying), "deleting: cancel"),
        ("queued", running(o(), Operation::Apply, "new", RunPhase::Queued), "deleting: cancel"),
        (
            "retained while applying",
            with(running(o(), Operation::Apply, "new", RunPhase::Applying), |o| o.retain = true),
            "deleting: rest",
        ),
        ("destroying", running(o(), Operation::Destroy, "new", RunPhase::Destroying), "running: rest"),
        ("users go first", with(o(), |o| o.dependents = vec!["u".into()]), "deleting: rest"),
        (
            "template gone",
            with(o(), |o| o.prepared = Err(Blocked::waiting("x", "y"))),
            "running: run destroy",
        ),
        (
            "destroy failed",
            ended(o(), Operation::Destroy, "new", failed(Reason::DestroyFailed)),
            "retrying: rest, again at 1020",
        ),
        (
            "destroy prevented",
            ended(o(), Operation::Destroy, "new", failed(Reason::DestroyPrevented)),
            "stalled: rest",
        ),
        (
            "destroy prevented, retry asked",
            with(ended(o(), Operation::Destroy, "new", failed(Reason::DestroyPrevented)), |o| {
                o.asked.retry = true;
            }),
            "running: run destroy",
        ),
        (
            "apply had failed",
            ended(o(), Operation::Apply, "new", failed(Reason::ApplyFailed)),
            "running: run destroy",
        ),
    ];
    for (name, observed, expected) in rows {
        assert_eq!(step(&observed), expected, "{name}");
    }
}

/// What a status said of conditions, by type and truth.
fn told(conditions: &[(&str, &str)]) -> WorkspaceTemplateApplyStatus {
    let condition = |(kind, truth): &(&str, &str)| serde_json::json!({"type": kind, "status": truth, "reason": kind, "message": "", "lastTransitionTime": at(900)});
    let conditions: Vec<_> = conditions.iter().map(condition).collect();
    serde_json::from_value(serde_json::json!({"conditions": conditions})).expect("a status")
}

#[test]
fn a_young_run_is_told_where_others_go_by_what_was_told() {
    let apply = Phase::Running { operation: Operation::Apply, phase: RunPhase::Planning };
    let look = Phase::Running { operation: Operation::Refresh, phase: RunPhase::Refreshing };
    let (new, failing) = (told(&[]), told(&[("Ready", "False")]));
    let (ready, stalled) = (told(&[("Ready", "True")]), told(&[("Ready", "False"), ("Stalled", "True")]));
    for (old, phase, waits) in [
        (&new, &apply, true),
        (&failing, &apply, true),
        (&ready, &apply, false),
        (&stalled, &apply, false),
        (&ready, &look, true),
    ] {
        assert_eq!(report::may_wait(&observed(), phase, old), waits, "{old:?} {phase:?}");
    }
    let short = with(observed(), |observed| observed.workspace_name = "short".into());
    assert!(!report::may_wait(&short, &apply, &new), "a name that another object could take is written down");
    let named = WorkspaceTemplateApplyStatus { workspace_name: Some("short".into()), ..new };
    assert!(report::may_wait(&short, &apply, &named));
}

#[test]
fn what_is_ready_stays_so_while_somebody_looks_and_nothing_else_does() {
    let looking = running(
        drifting(observed(), DriftPolicy::Report, true),
        Operation::Refresh,
        "new",
        RunPhase::Refreshing,
    );
    let conditions = |old: &[(&str, &str)]| {
        let looking = with(looking.clone(), |observed| observed.status = Some(told(old)));
        let phase = decide(&looking, at(1000)).phase;
        assert!(matches!(phase, Phase::Running { .. }), "{phase:?}");
        let told = report::status(&looking, &phase, at(1000)).conditions;
        told.into_iter()
            .map(|told| format!("{} {} {}", told.type_, told.status, told.reason))
            .collect::<Vec<_>>()
    };
    let ready = conditions(&[("Ready", "True")]);
    assert!(ready.contains(&"Ready True Ready".to_owned()), "{ready:?}");
    assert!(ready.contains(&"Drifted True DriftFound".to_owned()), "{ready:?}");
    // It was ready and paused, and goes on.
    assert_eq!(conditions(&[("Ready", "True"), ("Paused", "True"), ("Stalled", "True")]), ready);
    let failing = conditions(&[("Ready", "False")]);
    assert!(failing.contains(&"Ready False Refreshing".to_owned()), "{failing:?}");
}

#[test]
fn what_is_damaged_or_lost_is_neither_built_nor_destroyed() {
    let damaged = |reason: Reason| {
        let mut observed = ended(applied(observed(), "old"), Operation::Apply, "old", Outcome::Done);
        observed.view.trouble = Some(Failure::new(reason, "why"));
        observed
    };
    for reason in [Reason::StateLost, Reason::StateDamaged, Reason::RecordDamaged] {
        for deleting in [false, true] {
            let mut observed = damaged(reason);
            observed.deleting = deleting;
            let decision = decide(&observed, at(1000));
            assert_eq!(decision.step, Step::Rest, "{reason} {deleting}");
            assert!(matches!(decision.phase, Phase::Stalled(failure) if failure.reason == reason));

            observed.asked.retry = true;
            let again = if deleting { Operation::Destroy } else { Operation::Apply };
            assert_eq!(
                decide(&observed, at(1000)).step,
                Step::Run(again),
                "the engine looks again, and refuses"
            );
            observed.view.last = None;
            assert_eq!(decide(&observed, at(1000)).step, Step::Rest, "nobody knows anything of it");

            observed.asked.restore_state = Some("7".into());
            assert_eq!(decide(&observed, at(1000)).step, Step::Restore(Some(7)));
            observed.asked.restore_state = Some("newest".into());
            assert_eq!(decide(&observed, at(1000)).step, Step::Restore(None));
        }
        let mut observed = damaged(reason);
        observed.asked.import_state = Some("secret".into());
        assert_eq!(decide(&observed, at(1000)).step, Step::TakeOver("secret".into()));
        observed.deleting = true;
        observed.retain = true;
        assert_eq!(
            decide(&observed, at(1000)).step,
            Step::Release { forget: false },
            "whoever retains lets it go"
        );
    }
}
