//! What is known of one instance when its next step is decided.

use std::sync::Arc;
use std::time::Duration;

use capt_api::conditions::{reasons, types};
use capt_api::names::{annotations, finalizers};
use capt_api::workspace::{
    Approval, DeletionPolicy, DriftPolicy, WorkspaceTemplateApply, WorkspaceTemplateApplyStatus,
};
use capt_terraform::view::{Finished, View};
use jiff::Timestamp;
use kube::ResourceExt;

use super::super::context::Context;
use super::asked::Asked;
use super::dependencies;
use super::prepare::{self, Blocked, Prepared, TemplateFacts};
use super::values::Reader;
use crate::runtime::backoff::Backoff;
use crate::runtime::cache::Key;
use crate::runtime::{Error, Looker, Name, conditions};

/// How long a run may take where the object does not say.
const TIMEOUT: Duration = Duration::from_secs(60 * 60);

/// What is known of one instance.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The object.
    pub object: Arc<WorkspaceTemplateApply>,
    /// Its name.
    pub name: Name,
    /// Its status: what was written last, though the cache may not show it yet.
    pub status: Option<WorkspaceTemplateApplyStatus>,
    /// Name of the Terraform workspace.
    pub workspace_name: String,
    /// What pauses it.
    pub paused: Option<String>,
    /// Whether it is on its way out.
    pub deleting: bool,
    /// Whether our finalizer is on it.
    pub finalizer: bool,
    /// What is known of its template.
    pub template: TemplateFacts,
    /// The inputs, or what they lack.
    pub prepared: Result<Prepared, Blocked>,
    /// What must happen before a run.
    pub gate: Option<Blocked>,
    /// What the engine knows.
    pub view: View,
    /// What people ask.
    pub asked: Asked,
    /// Who decides about plans.
    pub approval: Approval,
    /// Whether the infrastructure outlives the object.
    pub retain: bool,
    /// Workspaces that depend on it and have infrastructure: they go first.
    pub dependents: Vec<String>,
    /// Runs that failed in a row.
    pub failures: u32,
    /// How long to wait after a failure.
    pub backoff: Backoff,
    /// When to look for drift.
    pub next_look: Option<Timestamp>,
    /// How long a run may take.
    pub timeout: Duration,
}

impl Observed {
    /// What is done about drift.
    pub fn drift_policy(&self) -> DriftPolicy {
        self.object.spec.drift_detection.as_ref().map_or(DriftPolicy::Off, |drift| drift.policy)
    }

    /// When a run that failed is tried again.
    pub fn retry_at(&self, last: &Finished) -> Timestamp {
        let delay = self.backoff.steady(self.failures.max(1));
        last.ended + delay.mul_f64(1.0 + 0.2 * chance(&self.object))
    }
}

/// Observes.
pub async fn observe(context: &Context, object: Arc<WorkspaceTemplateApply>) -> Result<Observed, Error> {
    let name = Name::of(object.as_ref());
    let mut looker = context.interests.looker(name.clone());
    let view = context.open(&name).await?;
    let status = context.apply_status.current(object.as_ref(), object.status.as_ref());
    let workspace_name = workspace_name(context, &object, status.as_ref());
    let deleting = object.metadata.deletion_timestamp.is_some();
    let (template, mut prepared) = prepare::prepare(context, &mut looker, &object, &workspace_name).await?;
    if let Some(connection) = prepared.as_ref().ok().and_then(|prepared| prepared.connection.as_ref()) {
        // Who deletes it gets it back.
        looker.at("Secret", connection);
    }
    if let Some(circle) = circle(context, &name) {
        prepared = Err(circle);
    }
    let gate = if deleting { None } else { gate(context, &mut looker, &object).await? };
    let dependents = if deleting { dependents(context, &mut looker, &name).await? } else { Vec::new() };
    Ok(Observed {
        paused: paused(&object),
        deleting,
        finalizer: object.finalizers().iter().any(|known| known == finalizers::WORKSPACE_TEMPLATE_APPLY),
        retain: object.spec.retain_workspace_on_delete || orphans(&object, &template),
        failures: context.history.note(&name, view.last.as_ref(), failures(status.as_ref())),
        backoff: context.backoff,
        next_look: next_look(&object, &view),
        asked: Asked::of(&object),
        approval: object.spec.approval,
        timeout: object.spec.timeout.as_deref().and_then(duration).unwrap_or(TIMEOUT),
        name,
        status,
        workspace_name,
        template,
        prepared,
        gate,
        view,
        dependents,
        object,
    })
}

/// Runs that failed in a row, as the status has it.
fn failures(status: Option<&WorkspaceTemplateApplyStatus>) -> u32 {
    status.and_then(|status| u32::try_from(status.consecutive_failures?).ok()).unwrap_or_default()
}

/// What pauses an object.
fn paused(object: &WorkspaceTemplateApply) -> Option<String> {
    if object.spec.paused {
        return Some("spec.paused is true".into());
    }
    let annotated = object.annotations().contains_key(annotations::PAUSED);
    annotated.then(|| format!("the annotation {} is set", annotations::PAUSED))
}

/// Whether the template leaves infrastructure behind; what it said last counts when it is gone.
fn orphans(object: &WorkspaceTemplateApply, template: &TemplateFacts) -> bool {
    match template.deletion_policy {
        Some(policy) => policy == DeletionPolicy::Orphan,
        None => {
            object.annotations().get(annotations::DELETION_POLICY).is_some_and(|policy| policy == "Orphan")
        }
    }
}

/// Name of the Terraform workspace: that of the object without a trailing `-apply`, unless that is another's. Once
/// given it stays.
fn workspace_name(
    context: &Context,
    object: &WorkspaceTemplateApply,
    status: Option<&WorkspaceTemplateApplyStatus>,
) -> String {
    if let Some(given) = status.and_then(|status| status.workspace_name.clone()) {
        return given;
    }
    let name = object.name_any();
    let Some(short) = name.strip_suffix("-apply").filter(|short| !short.is_empty()) else { return name };
    let namespace = object.namespace().unwrap_or_default();
    let taken = context.applies.has(&Name::new(namespace, short));
    if taken { name } else { short.to_owned() }
}

/// A circle of workspaces that wait for each other.
fn circle(context: &Context, name: &Name) -> Option<Blocked> {
    let onward = |name: &Name| {
        let keys = context.applies.keys(name);
        let others = keys.iter().filter_map(|key| match key.as_ref() {
            Key::Refers("WorkspaceTemplateApply", other) => Some(other.clone()),
            _ => None,
        });
        others.collect()
    };
    let circle = dependencies::cycle(name, onward)?;
    let shown: Vec<String> = circle.iter().map(|member| member.seen_from(&name.namespace)).collect();
    let message = format!("workspaces wait for each other: {}", shown.join(" -> "));
    Some(Blocked::terminal(reasons::DEPENDENCY_CYCLE, message))
}

/// What must happen before a run.
async fn gate(
    context: &Context,
    looker: &mut Looker,
    object: &WorkspaceTemplateApply,
) -> Result<Option<Blocked>, Error> {
    let namespace = object.namespace().unwrap_or_default();
    let mut missing = Vec::new();
    let mut reader = Reader { context, looker, namespace: &namespace };
    for reference in object.spec.wait_for_secrets.iter().chain(&object.spec.wait_for_secret) {
        let secret = Name::referred(reference, &namespace);
        if reader.secret(&secret).await?.is_none() {
            missing.push(secret.seen_from(&namespace));
        }
    }
    if !missing.is_empty() {
        let message = format!("waits for Secret {}", missing.join(", "));
        return Ok(Some(Blocked::waiting(reasons::WAITING_FOR_SECRETS, message)));
    }
    for reference in &object.spec.wait_for_workspaces {
        let other = Name::referred(reference, &namespace);
        looker.at("WorkspaceTemplateApply", &other);
        let found = context.applies.get(&other);
        let status =
            found.and_then(|found| context.apply_status.current(found.as_ref(), found.status.as_ref()));
        if !status.is_some_and(|status| conditions::is_true(&status.conditions, types::READY)) {
            missing.push(other.seen_from(&namespace));
        }
    }
    let message = format!("waits until WorkspaceTemplateApply {} is ready", missing.join(", "));
    Ok((!missing.is_empty()).then(|| Blocked::waiting(reasons::WAITING_FOR_WORKSPACE, message)))
}

/// Workspaces that depend on an instance and have infrastructure, which may need what this one has built. None where
/// they wait in a circle: somebody must go first.
async fn dependents(context: &Context, looker: &mut Looker, name: &Name) -> Result<Vec<String>, Error> {
    if circle(context, name).is_some() {
        return Ok(Vec::new());
    }
    let mut standing = Vec::new();
    for user in context.applies.names_by(&[Key::Refers("WorkspaceTemplateApply", name.clone())]) {
        looker.at("WorkspaceTemplateApply", &user);
        if context.open(&user).await?.touched {
            standing.push(user.seen_from(&name.namespace));
        }
    }
    standing.sort();
    Ok(standing)
}

/// When to look for drift: an interval after the last run, each workspace at a moment of its own.
fn next_look(object: &WorkspaceTemplateApply, view: &View) -> Option<Timestamp> {
    let drift = object.spec.drift_detection.as_ref().filter(|drift| drift.policy != DriftPolicy::Off)?;
    let interval = duration(&drift.interval)?;
    let last = view.last.as_ref()?.ended;
    Some(last + interval.mul_f64(1.0 + 0.1 * chance(object)))
}

/// A number from 0 to 1 that is the same for an object and different for others.
fn chance(object: &WorkspaceTemplateApply) -> f64 {
    let uid = object.uid().unwrap_or_default();
    let sum = uid.bytes().fold(0_u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(u32::from(byte)));
    f64::from(sum % 1000) / 1000.0
}

/// A duration as Go writes it: `1h30m`, `90s`.
pub fn duration(text: &str) -> Option<Duration> {
    text.parse::<jiff::SignedDuration>().ok().and_then(|duration| Duration::try_from(duration).ok())
}
