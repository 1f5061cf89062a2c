//! Every situation, and what is done in it.

use capt_api::conditions::reasons;

use super::*;

/// An observation that owns what it tells of.
#[derive(Clone)]
struct Facts {
    deleting: Option<Timestamp>,
    finalizer: bool,
    paused: Option<&'static str>,
    retain: bool,
    inputs: Result<&'static str, Blocked>,
    gate: Option<Blocked>,
    requests: Requests,
    import: Option<&'static str>,
    approval: Approval,
    destroy_limit: Option<u32>,
    drift_policy: DriftPolicy,
    next_look: Option<Timestamp>,
    dependents: Vec<String>,
    run: Option<ActiveRun>,
    last: Option<EndedRun>,
    applied: Option<&'static str>,
    touched: bool,
    plan: Option<KeptPlan>,
    trouble: Option<RunFailure>,
}

impl Facts {
    /// Decides at second 1000.
    fn decide(&self) -> WorkspaceDecision {
        let observed = WorkspaceObservation {
            deleting: self.deleting,
            finalizer: self.finalizer,
            paused: self.paused,
            retain: self.retain,
            inputs: self.inputs.as_ref().copied(),
            gate: self.gate.as_ref(),
            requests: &self.requests,
            import: self.import,
            approval: self.approval,
            destroy_limit: self.destroy_limit,
            drift_policy: self.drift_policy,
            next_look: self.next_look,
            dependents: &self.dependents,
            run: self.run.clone(),
            last: self.last.clone(),
            applied: self.applied,
            touched: self.touched,
            plan: self.plan.clone(),
            trouble: self.trouble.clone(),
        };
        decide(&observed, at(1000))
    }
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).expect("a time")
}

/// A workspace whose inputs are `new`, with nothing done yet.
fn observed() -> Facts {
    Facts {
        deleting: None,
        finalizer: true,
        paused: None,
        retain: false,
        inputs: Ok("new"),
        gate: None,
        requests: Requests::default(),
        import: None,
        approval: Approval::Auto,
        destroy_limit: None,
        drift_policy: DriftPolicy::Off,
        next_look: None,
        dependents: Vec::new(),
        run: None,
        last: None,
        applied: None,
        touched: false,
        plan: None,
        trouble: None,
    }
}

fn applied(observed: Facts, revision: &'static str) -> Facts {
    Facts { applied: Some(revision), touched: true, ..observed }
}

fn ended(mut observed: Facts, operation: RunOperation, of: &str, failure: Option<RunFailure>) -> Facts {
    observed.touched |= operation.is_apply();
    observed.last = Some(EndedRun {
        operation,
        revision: Some(of.to_owned()),
        ended: at(990),
        lacked_a_binary: failure.as_ref().is_some_and(|one| one.reason == "BinaryTooOld" && !one.terminal),
        failure,
        drift: Drift::None,
        retry_at: at(1020),
    });
    observed
}

fn running(mut observed: Facts, operation: RunOperation, of: &str, queued: bool) -> Facts {
    observed.run = Some(ActiveRun { operation, revision: Some(of.to_owned()), queued });
    observed
}

fn planned(mut observed: Facts, of: &str, empty: bool) -> Facts {
    let (id, revision) = ("p1".to_owned(), of.to_owned());
    observed.plan = Some(KeptPlan { id, revision, trusted: true, destroy: 0, empty });
    observed
}

/// The plan was made by another origin.
fn lent(mut observed: Facts) -> Facts {
    observed.plan.as_mut().expect("planned").trusted = false;
    observed
}

fn drifting(observed: Facts, policy: DriftPolicy, found: bool) -> Facts {
    let mut observed = ended(applied(observed, "new"), RunOperation::Refresh, "new", None);
    observed.drift_policy = policy;
    if let Some(last) = observed.last.as_mut().filter(|_| found) {
        last.drift = Drift::Found;
    }
    observed
}

/// A limit on what may be destroyed, and a plan that destroys one thing.
fn held(mut observed: Facts, limit: u32) -> Facts {
    observed.destroy_limit = Some(limit);
    observed.plan.as_mut().expect("planned").destroy = 1;
    observed
}

fn failure(reason: &'static str, terminal: bool) -> RunFailure {
    RunFailure { terminal, reason, message: "no".into() }
}

#[allow(clippy::unnecessary_wraps, reason = "the outcome of a run")]
fn failed(reason: &'static str, terminal: bool) -> Option<RunFailure> {
    Some(failure(reason, terminal))
}

fn with(mut observed: Facts, alter: impl FnOnce(&mut Facts)) -> Facts {
    alter(&mut observed);
    observed
}

fn step(observed: &Facts) -> String {
    let decision = observed.decide();
    let step = match &decision.step {
        WorkspaceStep::Rest => "rest".to_owned(),
        WorkspaceStep::Run(operation) => format!("run {}", operation.as_str()),
        WorkspaceStep::Cancel => "cancel".to_owned(),
        WorkspaceStep::Supersede => "supersede".to_owned(),
        WorkspaceStep::TakeOver(secret) => format!("take over {secret}"),
        WorkspaceStep::Restore(serial) => format!("restore {serial:?}"),
        WorkspaceStep::Release { forget: true } => "forget and release".to_owned(),
        WorkspaceStep::Release { forget: false } => "release".to_owned(),
    };
    let phase = match &decision.phase {
        WorkspacePhase::Paused(_) => "paused",
        WorkspacePhase::Blocked(_) => "blocked",
        WorkspacePhase::Waiting(_) => "waiting",
        WorkspacePhase::Running(_) => "running",
        WorkspacePhase::AwaitsApproval { too_destructive: true, .. } => "held",
        WorkspacePhase::AwaitsApproval { stale_approval: Some(_), .. } => "stale approval",
        WorkspacePhase::AwaitsApproval { .. } => "awaits approval",
        WorkspacePhase::Retrying(..) => "retrying",
        WorkspacePhase::Stalled(_) => "stalled",
        WorkspacePhase::Ready { drift: Drift::Found } => "ready, drifted",
        WorkspacePhase::Ready { drift: Drift::Unknown(_) } => "ready, drift unknown",
        WorkspacePhase::Ready { .. } => "ready",
        WorkspacePhase::Deleting(_) => "deleting",
    };
    let wake = decision.wake.map_or_else(String::new, |wake| format!(", again at {}", wake.as_second()));
    format!("{phase}: {step}{wake}")
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn an_object_that_should_be_there() {
    let o = observed;
    let blocked = || Err(Blocked::waiting(reasons::SECRET_NOT_FOUND, "no"));
    let rows: Vec<(&str, Facts, &str)> = vec![
        ("new", o(), "running: run apply"),
        ("applied", applied(o(), "new"), "ready: rest"),
        ("changed", applied(o(), "old"), "running: run apply"),
        ("paused", with(o(), |o| o.paused = Some("p")), "paused: rest"),
        ("inputs missing", with(o(), |o| o.inputs = blocked()), "blocked: rest, again at 1060"),
        ("gate shut", with(o(), |o| o.gate = blocked().err()), "waiting: rest"),
        (
            "gate shut, but nothing to do",
            with(applied(o(), "new"), |o| o.gate = blocked().err()),
            "ready: rest",
        ),
        ("running", running(o(), RunOperation::Apply, "new", false), "running: rest"),
        ("running old inputs", running(o(), RunOperation::Apply, "old", false), "running: rest"),
        ("queued with old inputs", running(o(), RunOperation::Apply, "old", true), "running: supersede"),
        (
            "cancel asked",
            with(running(o(), RunOperation::Apply, "new", false), |o| o.requests.cancel = true),
            "running: cancel",
        ),
        (
            "failed a moment ago",
            ended(o(), RunOperation::Apply, "new", failed("ApplyFailed", false)),
            "retrying: rest, again at 1020",
        ),
        (
            "failed often",
            with(ended(o(), RunOperation::Apply, "new", failed("Network", false)), |o| {
                o.last.as_mut().expect("ended").retry_at = at(1110);
            }),
            "retrying: rest, again at 1110",
        ),
        (
            "failed long ago",
            with(ended(o(), RunOperation::Apply, "new", failed("ApplyFailed", false)), |o| {
                o.last.as_mut().expect("ended").retry_at = at(130);
            }),
            "running: run apply",
        ),
        (
            "failed with other inputs",
            ended(o(), RunOperation::Apply, "old", failed("ApplyFailed", false)),
            "running: run apply",
        ),
        (
            "superseded, and wanted again",
            with(ended(o(), RunOperation::Apply, "new", failed("Cancelled", true)), |o| {
                o.last.as_mut().expect("ended").revision = None;
            }),
            "running: run apply",
        ),
        ("broken", ended(o(), RunOperation::Apply, "new", failed("InvalidModule", true)), "stalled: rest"),
        (
            "broken, retry asked",
            with(ended(o(), RunOperation::Apply, "new", failed("InvalidModule", true)), |o| {
                o.requests.retry = true;
            }),
            "running: run apply",
        ),
        (
            "broken, then edited",
            ended(o(), RunOperation::Apply, "old", failed("InvalidModule", true)),
            "running: run apply",
        ),
        (
            "the binary was too old, and another is there",
            ended(o(), RunOperation::Apply, "new", failed("BinaryTooOld", false)),
            "running: run apply",
        ),
        (
            "the module asks for a newer binary",
            ended(o(), RunOperation::Apply, "new", failed("BinaryTooOld", true)),
            "stalled: rest",
        ),
        ("cancelled", ended(o(), RunOperation::Apply, "new", failed("Cancelled", true)), "stalled: rest"),
        (
            "timed out",
            ended(o(), RunOperation::Apply, "new", failed("Timeout", false)),
            "retrying: rest, again at 1020",
        ),
        (
            "applied, then an apply of the same failed",
            ended(applied(o(), "new"), RunOperation::Apply, "new", failed("ApplyFailed", false)),
            "retrying: rest, again at 1020",
        ),
        (
            "state to take over",
            with(o(), |o| o.requests.import_state = Some("s".into())),
            "running: take over s",
        ),
        ("state that was left for it", with(o(), |o| o.import = Some("l")), "running: take over l"),
        (
            "state for what something else applied",
            with(o(), |o| {
                o.import = Some("l");
                o.trouble = Some(failure("StateLost", true));
            }),
            "running: take over l",
        ),
        (
            "retry of what is fine",
            with(applied(o(), "new"), |o| o.requests.retry = true),
            "running: run apply",
        ),
    ];
    for (name, observed, expected) in rows {
        assert_eq!(step(&observed), expected, "{name}");
    }
}

#[test]
fn plans_and_drift() {
    let manual = || with(observed(), |o| o.approval = Approval::Manual);
    let approving = |id: &'static str| move |o: &mut Facts| o.requests.approve = Some(id.into());
    let used = |id: &'static str| {
        move |o: &mut Facts| o.requests.approved = Some(Approved { plan: id.into(), by: "somebody".into() })
    };
    let rows: Vec<(&str, Facts, &str)> = vec![
        ("manual", manual(), "running: run plan"),
        ("manual, planned", planned(manual(), "new", false), "awaits approval: rest"),
        ("manual, another plan", planned(manual(), "old", false), "running: run plan"),
        ("planned by another origin", lent(planned(manual(), "new", false)), "running: run plan"),
        (
            "approved, planned by another origin",
            with(lent(planned(manual(), "new", false)), approving("p1")),
            "running: run plan",
        ),
        ("manual, nothing to change", planned(manual(), "new", true), "running: run apply"),
        ("approved", with(planned(manual(), "new", false), approving("p1")), "running: run apply"),
        (
            "approved, and taken off already",
            with(planned(manual(), "new", false), used("p1")),
            "running: run apply",
        ),
        ("another was used", with(planned(manual(), "new", false), used("p0")), "awaits approval: rest"),
        (
            "approved, and its apply failed",
            with(
                planned(
                    ended(
                        manual(),
                        RunOperation::ApplyPlan("p1".into()),
                        "new",
                        failed("Credentials", false),
                    ),
                    "new",
                    false,
                ),
                used("p1"),
            ),
            "retrying: rest, again at 1020",
        ),
        ("another approved", with(planned(manual(), "new", false), approving("p0")), "stale approval: rest"),
        (
            "plan failed",
            ended(manual(), RunOperation::Plan, "new", failed("PlanFailed", false)),
            "retrying: rest, again at 1020",
        ),
        (
            "plan was stale",
            with(
                ended(manual(), RunOperation::ApplyPlan("p1".into()), "new", failed("PlanStale", false)),
                |o| {
                    o.last.as_mut().expect("ended").retry_at = at(130);
                },
            ),
            "running: run plan",
        ),
        ("held", held(planned(observed(), "new", false), 0), "held: rest"),
        ("held, limit raised", held(planned(observed(), "new", false), 1), "running: run apply"),
        ("planned, then made automatic", planned(observed(), "new", false), "running: run apply"),
        (
            "held, approved",
            with(held(planned(observed(), "new", false), 0), approving("p1")),
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
                o.last.as_mut().expect("ended").drift = Drift::Unknown(failure("Network", false));
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
    let o = || with(applied(observed(), "new"), |o| o.deleting = Some(at(950)));
    let rows: Vec<(&str, Facts, &str)> = vec![
        ("applied", o(), "running: run destroy"),
        ("never applied", with(o(), |o| o.touched = false), "deleting: forget and release"),
        ("not ours any more", with(o(), |o| o.finalizer = false), "deleting: rest"),
        ("paused", with(o(), |o| o.paused = Some("p")), "deleting: rest"),
        ("retained", with(o(), |o| o.retain = true), "deleting: release"),
        ("applying", running(o(), RunOperation::Apply, "new", false), "deleting: cancel"),
        ("queued", running(o(), RunOperation::Apply, "new", true), "deleting: cancel"),
        (
            "retained while applying",
            with(running(o(), RunOperation::Apply, "new", false), |o| o.retain = true),
            "deleting: rest",
        ),
        ("destroying", running(o(), RunOperation::Destroy, "new", false), "running: rest"),
        ("users go first", with(o(), |o| o.dependents = vec!["u".to_owned()]), "deleting: rest"),
        ("template gone", with(o(), |o| o.inputs = Err(Blocked::waiting("x", "y"))), "running: run destroy"),
        (
            "destroy failed",
            ended(o(), RunOperation::Destroy, "new", failed("DestroyFailed", false)),
            "retrying: rest, again at 1020",
        ),
        (
            "destroy prevented",
            ended(o(), RunOperation::Destroy, "new", failed("DestroyPrevented", true)),
            "stalled: rest",
        ),
        (
            "destroy prevented, retry asked",
            with(ended(o(), RunOperation::Destroy, "new", failed("DestroyPrevented", true)), |o| {
                o.requests.retry = true;
            }),
            "running: run destroy",
        ),
        (
            "apply had failed",
            ended(o(), RunOperation::Apply, "new", failed("ApplyFailed", false)),
            "running: run destroy",
        ),
    ];
    for (name, observed, expected) in rows {
        assert_eq!(step(&observed), expected, "{name}");
    }
}

#[test]
fn what_is_damaged_or_lost_is_neither_built_nor_destroyed() {
    let damaged = |reason: &'static str| {
        let mut observed = ended(applied(observed(), "old"), RunOperation::Apply, "old", None);
        observed.trouble = Some(failure(reason, true));
        observed
    };
    for reason in ["StateLost", "StateDamaged", "RecordDamaged"] {
        for deleting in [false, true] {
            let mut observed = damaged(reason);
            observed.deleting = deleting.then(|| at(950));
            let decision = observed.decide();
            assert_eq!(decision.step, WorkspaceStep::Rest, "{reason} {deleting}");
            assert!(matches!(decision.phase, WorkspacePhase::Stalled(failure) if failure.reason == reason));

            observed.requests.retry = true;
            let again = if deleting { RunOperation::Destroy } else { RunOperation::Apply };
            assert_eq!(
                observed.decide().step,
                WorkspaceStep::Run(again),
                "the engine looks again, and refuses"
            );
            observed.last = None;
            assert_eq!(observed.decide().step, WorkspaceStep::Rest, "nobody knows anything of it");

            observed.requests.restore_state = Some("7".into());
            assert_eq!(observed.decide().step, WorkspaceStep::Restore(Some(7)));
            observed.requests.restore_state = Some("newest".into());
            assert_eq!(observed.decide().step, WorkspaceStep::Restore(None));
        }
        let mut observed = damaged(reason);
        observed.requests.import_state = Some("secret".into());
        assert_eq!(observed.decide().step, WorkspaceStep::TakeOver("secret".into()));
        observed.deleting = Some(at(950));
        observed.retain = true;
        assert_eq!(
            observed.decide().step,
            WorkspaceStep::Release { forget: false },
            "whoever retains lets it go"
        );
    }
}
