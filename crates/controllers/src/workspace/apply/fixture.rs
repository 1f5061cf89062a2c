//! Observations that tests begin with.

use std::sync::Arc;
use std::time::Duration;

use capt_api::workspace::{
    Approval, DriftDetection, DriftPolicy, WorkspaceTemplateApply, WorkspaceTemplateApplySpec,
};
use capt_planner::workspace::{Requests, WorkspaceDecision, decide};
use capt_terraform::inputs::{Inputs, Revision};
use capt_terraform::order::{Operation, PlanId, RunId};
use capt_terraform::stream::{Action, Change};
use capt_terraform::view::{Finished, Outcome, Phase, Plan, Running, View};
use jiff::Timestamp;

use super::fields::Fields;
use super::observe::{Lost, ObservedWorkspace};
use super::prepare::{Prepared, TemplateFacts};
use crate::runtime::Name;
use crate::runtime::backoff::Backoff;

/// Decides at second 1000.
pub fn decided(observed: &ObservedWorkspace) -> WorkspaceDecision {
    decide(&observed.facts(), at(1000))
}

pub fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).expect("a time")
}

fn revision(name: &str) -> Revision {
    serde_json::from_value(name.into()).expect("a revision is text")
}

/// A workspace whose inputs are `new`, with nothing done yet, at second 1000.
pub fn observed() -> ObservedWorkspace {
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
    ObservedWorkspace {
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
        asked: Requests::default(),
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

pub fn applied(mut observed: ObservedWorkspace, name: &str) -> ObservedWorkspace {
    observed.view.applied = Some(revision(name));
    observed.view.touched = true;
    observed
}

pub fn ended(
    mut observed: ObservedWorkspace,
    operation: Operation,
    of: &str,
    outcome: Outcome,
) -> ObservedWorkspace {
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

pub fn running(
    mut observed: ObservedWorkspace,
    operation: Operation,
    of: &str,
    phase: Phase,
) -> ObservedWorkspace {
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

pub fn change() -> Change {
    Change {
        address: "terraform_data.a".into(),
        action: Action::Create,
        reason: None,
        previous: None,
        imported: false,
    }
}

pub fn planned(mut observed: ObservedWorkspace, of: &str, changes: Vec<Change>) -> ObservedWorkspace {
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

pub fn drifting(observed: ObservedWorkspace, policy: DriftPolicy, found: bool) -> ObservedWorkspace {
    let mut observed = ended(applied(observed, "new"), Operation::Refresh, "new", Outcome::Done);
    let mut object = observed.object.as_ref().clone();
    object.spec.drift_detection = Some(DriftDetection { interval: "1h".into(), policy });
    observed.object = Arc::new(object);
    if let Some(last) = observed.view.last.as_mut().filter(|_| found) {
        last.drift.push(change());
    }
    observed
}

pub fn with(
    mut observed: ObservedWorkspace,
    alter: impl FnOnce(&mut ObservedWorkspace),
) -> ObservedWorkspace {
    alter(&mut observed);
    observed
}
