//! Events that are told, report after report, as an operator reads them.

use capt_planner::workspace::Approved;
use capt_terraform::order::{PlanId, RunId};
use capt_terraform::stream::{Action, Change};
use capt_terraform::view::Running;

use super::super::act::WorkspaceChanges;
use super::super::fixture::{applied, at, change, decided, drifting, ended, observed, planned, with};
use super::super::report;
use super::*;

/// Reports one observation after another, each on the status that the one before left, and gives the events of the last.
fn told(reports: Vec<ObservedWorkspace>) -> Vec<(bool, String, String)> {
    let (mut status, mut notes) = (None, Vec::new());
    for mut observed in reports {
        observed.status.clone_from(&status);
        let phase = decided(&observed).phase;
        let new = report::status(&observed, &phase, at(1000));
        notes = news(&observed, &status.clone().unwrap_or_default(), &new, &phase);
        status = Some(new);
    }
    notes.into_iter().map(|note| (note.warning, note.reason.into_owned(), note.text)).collect()
}

fn manual(observed: ObservedWorkspace, id: &str, [add, destroy]: [u32; 2]) -> ObservedWorkspace {
    with(planned(observed, "new", vec![change()]), |observed| {
        observed.approval = capt_api::workspace::Approval::Manual;
        let plan = observed.view.plan.as_mut().expect("planned");
        (plan.id, plan.add, plan.destroy) = (PlanId::from(id), add, destroy);
    })
}

/// An apply of that plan has ended well.
fn done(observed: ObservedWorkspace, plan: &str, destroy: u32, second: i64) -> ObservedWorkspace {
    let operation = Operation::ApplyPlan(PlanId::from(plan));
    with(ended(applied(observed, "new"), operation, "new", Outcome::Done), |observed| {
        let gone = Change { action: Action::Delete, ..change() };
        let last = observed.view.last.as_mut().expect("ended");
        (last.id, last.ended) = (RunId::from("run-7"), at(second));
        last.plan = planned(super::super::fixture::observed(), "new", vec![gone]).view.plan;
        let plan = PlanId::from(plan);
        last.plan = last.plan.take().map(|old| Plan { id: plan, add: 0, destroy, ..old });
    })
}

#[test]
fn a_plan_that_waits_is_told_in_its_own_words() {
    let first = || manual(observed(), "p1", [3, 0]);
    let second = || manual(observed(), "p2", [0, 2]);
    let notes = told(vec![first()]);
    assert_eq!((notes[0].1.as_str(), notes.len()), ("WaitingForApproval", 1));
    assert!(notes[0].2.starts_with("plan p1 would add 3, change 0, destroy 0"), "{notes:?}");
    assert_eq!(told(vec![first(), first()]), [], "nothing is new");
    let notes = told(vec![first(), second()]);
    assert_eq!((notes[0].1.as_str(), notes.len()), ("WaitingForApproval", 1));
    assert!(notes[0].2.starts_with("plan p2 would add 0, change 0, destroy 2"), "{notes:?}");
    let stale = || with(second(), |observed| observed.asked.approve = Some("p1".into()));
    let notes = told(vec![first(), second(), stale()]);
    assert!(notes[0].2.ends_with("the approval of p1 is not for this plan"), "{notes:?}");
}

#[test]
fn an_apply_tells_what_it_did_and_who_approved_it() {
    let waiting = || manual(observed(), "p2", [0, 2]);
    let approved = |by: &str| Some(Approved { plan: "p2".into(), by: by.into() });
    let text = |reports| {
        let notes = told(reports);
        let found = notes.iter().find(|note| note.1 == "Applied");
        found.map(|note| note.2.clone()).unwrap_or_default()
    };
    let by_alice =
        || with(done(observed(), "p2", 2, 990), |observed| observed.asked.approved = approved("alice"));
    assert_eq!(
        text(vec![waiting(), by_alice()]),
        "run run-7 with plan p2 added 0, changed 0, destroyed 2: destroy terraform_data.a; approved by alice"
    );
    assert_eq!(text(vec![waiting(), by_alice(), by_alice()]), "", "told once");
    let again = done(observed(), "p2", 2, 995);
    assert_eq!(
        text(vec![waiting(), by_alice(), again]),
        "run run-7 with plan p2 added 0, changed 0, destroyed 2: destroy terraform_data.a"
    );
    let other = with(done(observed(), "p3", 1, 990), |observed| observed.asked.approved = approved("alice"));
    assert!(!text(vec![by_alice(), other]).contains("alice"), "the approval of another plan");
    let nothing = with(done(observed(), "p2", 0, 990), |observed| {
        let last = observed.view.last.as_mut().expect("ended");
        last.plan.as_mut().expect("planned").changes.clear();
    });
    assert_eq!(text(vec![nothing]), "run run-7 with plan p2 changed no resource");
    let destroys = news(
        &by_alice(),
        &WorkspaceTemplateApplyStatus::default(),
        &report::status(&by_alice(), &decided(&by_alice()).phase, at(1000)),
        &decided(&by_alice()).phase,
    );
    assert!(destroys[0].always, "what destroyed is told in a flood, too");
}

#[test]
fn a_failure_is_the_same_event_each_time() {
    let failed = |second| {
        let outcome = Outcome::Failed(capt_terraform::failure::Failure::new(
            capt_terraform::failure::Reason::Network,
            "no route",
        ));
        with(ended(observed(), Operation::Apply, "new", outcome), |observed| {
            observed.view.last.as_mut().expect("ended").ended = at(second);
        })
    };
    let running = || {
        with(failed(990), |observed| {
            observed.view.run = Some(Running {
                id: RunId::from("2"),
                operation: Operation::Apply,
                revision: None,
                phase: capt_terraform::view::Phase::Applying,
                progress: capt_terraform::stream::Progress::default(),
                since: at(995),
                waits_for: None,
            });
        })
    };
    let expected = [(true, "Network".to_owned(), "no route".to_owned())];
    assert_eq!(told(vec![failed(990)]), expected);
    assert_eq!(told(vec![failed(990), running(), failed(999)]), expected);
    assert_eq!(told(vec![failed(990), failed(990)]), []);
}

#[test]
fn drift_is_told_when_it_is_another() {
    let policy = capt_api::workspace::DriftPolicy::Report;
    let drifted = || drifting(observed(), policy, true);
    let more = || {
        with(drifted(), |observed| {
            let other = Change { address: "terraform_data.b".into(), ..change() };
            observed.view.last.as_mut().expect("ended").drift.push(other);
        })
    };
    let found = |reports| told(reports).into_iter().filter(|note| note.1 == "DriftFound").map(|note| note.2);
    let found = |reports| found(reports).collect::<Vec<_>>();
    assert_eq!(found(vec![drifted()]), ["create terraform_data.a"]);
    assert_eq!(found(vec![drifted(), drifted()]), [""; 0]);
    assert_eq!(found(vec![drifted(), more()]), ["create terraform_data.a, create terraform_data.b"]);
}

#[test]
fn a_warning_of_a_condition_is_told_once() {
    let typo = |names: &[&str]| {
        with(applied(observed(), "new"), |observed| {
            let prepared = observed.prepared.as_mut().expect("prepared");
            prepared.undeclared = names.iter().map(|name| (*name).to_owned()).collect();
        })
    };
    let warned = |reports| told(reports).into_iter().filter(|note| note.0).collect::<Vec<_>>();
    let first = warned(vec![typo(&["sise"])]);
    assert_eq!((first[0].1.as_str(), first.len()), ("UndeclaredVariables", 1));
    assert!(first[0].2.contains("sise"), "{first:?}");
    assert_eq!(warned(vec![typo(&["sise"]), typo(&["sise"])]), []);
    assert_eq!(warned(vec![typo(&["sise"]), typo(&["sise", "nmae"])]).len(), 1);
    assert_eq!(warned(vec![typo(&["sise"]), typo(&[])]), []);
    let with_secret = |connection: Result<(), String>| {
        let observed = applied(observed(), "new");
        let phase = decided(&observed).phase;
        let mut new = report::status(&observed, &phase, at(1000));
        let acted = WorkspaceChanges { connection: Some(connection), ..WorkspaceChanges::default() };
        report::note_connection(&mut new, true, &acted, None, at(1000));
        (observed, new, phase)
    };
    let (observed, ours, phase) = with_secret(Ok(()));
    let (_, theirs, _) = with_secret(Err("Secret x is controlled by Other y".into()));
    let notes = news(&observed, &ours, &theirs, &phase);
    assert_eq!((notes.len(), &*notes[0].reason), (1, "SecretError"));
    assert_eq!(notes[0].text, "Secret x is controlled by Other y");
    assert_eq!(news(&observed, &theirs, &theirs, &phase), []);
    assert_eq!(news(&observed, &theirs, &ours, &phase), []);
}
