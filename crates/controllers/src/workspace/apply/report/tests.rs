use capt_api::workspace::DriftPolicy;
use capt_terraform::view::Phase;

use super::super::fixture::{at, decided, drifting, observed, running, with};
use super::*;

/// Builds a status with these conditions, by type and truth.
fn told(conditions: &[(&str, &str)]) -> WorkspaceTemplateApplyStatus {
    let condition = |(kind, truth): &(&str, &str)| serde_json::json!({"type": kind, "status": truth, "reason": kind, "message": "", "lastTransitionTime": at(900)});
    let conditions: Vec<_> = conditions.iter().map(condition).collect();
    serde_json::from_value(serde_json::json!({"conditions": conditions})).expect("a status")
}

#[test]
fn a_young_run_is_told_where_others_go_by_what_was_told() {
    let apply = WorkspacePhase::Running(RunOperation::Apply);
    let look = WorkspacePhase::Running(RunOperation::Refresh);
    let (new, failing) = (told(&[]), told(&[("Ready", "False")]));
    let (ready, stalled) = (told(&[("Ready", "True")]), told(&[("Ready", "False"), ("Stalled", "True")]));
    for (old, phase, waits) in [
        (&new, &apply, true),
        (&failing, &apply, true),
        (&ready, &apply, false),
        (&stalled, &apply, false),
        (&ready, &look, true),
    ] {
        assert_eq!(may_wait(&observed(), phase, old), waits, "{old:?} {phase:?}");
    }
    let short = with(observed(), |observed| observed.workspace_name = "short".into());
    assert!(!may_wait(&short, &apply, &new), "a name that another object could take is written down");
    let named = WorkspaceTemplateApplyStatus { workspace_name: Some("short".into()), ..new };
    assert!(may_wait(&short, &apply, &named));
}

#[test]
fn what_is_ready_stays_so_while_somebody_looks_and_nothing_else_does() {
    let looking = running(
        drifting(observed(), DriftPolicy::Report, true),
        Operation::Refresh,
        "new",
        Phase::Refreshing,
    );
    let conditions = |old: &[(&str, &str)]| {
        let looking = with(looking.clone(), |observed| observed.status = Some(told(old)));
        let phase = decided(&looking).phase;
        assert!(matches!(phase, WorkspacePhase::Running(_)), "{phase:?}");
        let told = status(&looking, &phase, at(1000)).conditions;
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
