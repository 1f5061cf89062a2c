//! Observation of one instance, for the decision on its next step.

use std::sync::Arc;
use std::time::Duration;

use capt_api::conditions::{reasons, types};
use capt_api::names::{annotations, finalizers};
use capt_api::workspace::{
    Approval, DeletionPolicy, DriftPolicy, RunProgress, WorkspaceTemplateApply, WorkspaceTemplateApplyStatus,
};
use capt_planner::Count;
use capt_planner::workspace::Requests;
use capt_terraform::failure::{Failure, Reason};
use capt_terraform::inputs::Place;
use capt_terraform::order::Operation;
use capt_terraform::view::{Finished, Outcome, View};
use jiff::Timestamp;
use kube::ResourceExt;

use super::super::context::{WorkspaceContext, workspace_id};
use super::import::{self, Import};
use super::prepare::{self, Blocked, KnownInstance, Prepared, TemplateFacts};
use super::values::Reader;
use super::{dependencies, fields};
use crate::runtime::backoff::Backoff;
use crate::runtime::cache::Key;
use crate::runtime::name::{is_object_name, not_a_name};
use crate::runtime::{Error, Looker, Name, conditions};

/// Default timeout of a run.
const TIMEOUT: Duration = Duration::from_secs(60 * 60);

/// Facts about one instance that its next step is decided from.
#[derive(Clone, Debug)]
pub struct ObservedWorkspace {
    /// The object.
    pub object: Arc<WorkspaceTemplateApply>,
    /// Its name.
    pub name: Name,
    /// Its status: what was written last, though the cache may not show it yet.
    pub status: Option<WorkspaceTemplateApplyStatus>,
    /// Name of the Terraform workspace.
    pub workspace_name: String,
    /// Reason why it is paused.
    pub paused: Option<String>,
    /// True if it is being deleted.
    pub deleting: bool,
    /// True if our finalizer is on it.
    pub finalizer: bool,
    /// Facts about its template.
    pub template: TemplateFacts,
    /// The inputs, or what they lack.
    pub prepared: Result<Prepared, Blocked>,
    /// Unmet condition of the next run.
    pub gate: Option<Blocked>,
    /// The engine's view of its workspace.
    pub view: View,
    /// Requests of users.
    pub asked: Requests,
    /// A state to take over before the first run.
    pub import: Option<Import>,
    /// State of knowledge about an apply that its status tells of.
    pub lost: Lost,
    /// Approval that plans need.
    pub approval: Approval,
    /// True if the infrastructure outlives the object.
    pub retain: bool,
    /// Workspaces that depend on it and have infrastructure: they go first.
    pub dependents: Vec<String>,
    /// Runs that failed in a row.
    pub failures: u32,
    /// Delay after a failure.
    pub backoff: Backoff,
    /// Time of the next look for drift.
    pub next_look: Option<Timestamp>,
    /// Timeout of a run.
    pub timeout: Duration,
}

/// Knowledge that is left of an apply that a status tells of.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Lost {
    /// All, or there is none.
    #[default]
    No,
    /// Nothing.
    Held,
    /// Nothing here; a backend should hold its state.
    InBackend,
}

impl ObservedWorkspace {
    /// Returns the policy for drift that was found.
    pub fn drift_policy(&self) -> DriftPolicy {
        self.object.spec.drift_detection.as_ref().map_or(DriftPolicy::Off, |drift| drift.policy)
    }

    /// Returns true if what exists was not applied by this workspace: it was imported, or a backend may have it.
    pub fn inherits(&self) -> bool {
        !self.view.begun && (self.view.resources > 0 || in_backend(&self.prepared))
    }

    /// Number of resources that a run may destroy without approval. A state that does not fit its template would be destroyed by the first
    /// apply.
    pub fn destroy_limit(&self) -> Option<u32> {
        let limit = self.object.spec.max_destroy.and_then(|limit| u32::try_from(limit).ok());
        limit.or_else(|| self.inherits().then_some(0))
    }

    /// Returns the time at which a run that failed is tried again.
    pub fn retry_at(&self, last: &Finished) -> Timestamp {
        let delay = self.backoff.steady(self.failures.max(1));
        last.ended + delay.mul_f64(1.0 + 0.2 * chance(&self.object))
    }
}

/// Observes.
pub async fn observe(
    context: &WorkspaceContext,
    object: Arc<WorkspaceTemplateApply>,
) -> Result<ObservedWorkspace, Error> {
    let name = Name::of(object.as_ref());
    let mut looker = context.dependents.looker(name.clone());
    let status = context.apply_status.current(object.as_ref(), object.status.as_ref());
    let finalizer = object.finalizers().iter().any(|known| known == finalizers::WORKSPACE_TEMPLATE_APPLY);
    // One that is going, and was let go, may wait for the finalizers of others.
    if finalizer || object.metadata.deletion_timestamp.is_none() {
        context.take_up(&name).await?;
    }
    let mut view = context.open(&name).await?;
    let lost = lost(context, &object, status.as_ref(), &view).await;
    let (is_known, asked) = (view.touched || view.run.is_some(), Requests::of(&object));
    let workspace_name = workspace_name(context, &object, status.as_ref());
    let deleting = object.metadata.deletion_timestamp.is_some();
    let known =
        KnownInstance { workspace_name: &workspace_name, view: &view, applied_elsewhere: lost.is_some() };
    let (template, mut prepared) = prepare::prepare(context, &mut looker, &object, &known).await?;
    let is_lost = match &lost {
        None => Lost::No,
        Some(_) if in_backend(&prepared) => Lost::InBackend,
        Some(_) => Lost::Held,
    };
    if let Some(lost) = lost {
        // A backend may hold its state: the engine looks there before it does anything.
        view = if is_lost == Lost::InBackend {
            View { trouble: None, touched: true, ..view }
        } else {
            View { trouble: Some(lost), touched: true, last: None, ..view }
        };
    }
    if let Some(connection) = prepared.as_ref().ok().and_then(|prepared| prepared.connection.as_ref()) {
        // Who deletes it gets it back.
        looker.at("Secret", connection);
    }
    if let Ok(prepared) = &prepared {
        fields::name_inputs(&mut view, &prepared.fields);
    }
    if let Some(circle) = circle(context, &name) {
        prepared = Err(circle);
    }
    if let Some(secret) = asked.import_state.as_ref().filter(|secret| !deleting && !is_object_name(secret)) {
        let message = format!("annotation {}: {}", annotations::IMPORT_STATE, not_a_name("Secret", secret));
        prepared = Err(Blocked::terminal(reasons::INVALID, message));
    }
    let wanted =
        import::WantedImport { untouched: !is_known && !deleting, asked: asked.import_state.is_some() };
    let import = import::find(context, &mut looker, &object, wanted).await?;
    let (import, missing) = match import {
        Ok(import) => (import, None),
        Err(blocked) => (None, Some(blocked)),
    };
    let gate = match missing {
        None if !deleting => gate(context, &mut looker, &object).await?,
        missing => missing,
    };
    let dependents = if deleting { dependents(context, &mut looker, &name).await? } else { Vec::new() };
    Ok(ObservedWorkspace {
        paused: paused(&object),
        deleting,
        finalizer: object.finalizers().iter().any(|known| known == finalizers::WORKSPACE_TEMPLATE_APPLY),
        retain: object.spec.retain_workspace_on_delete || orphans(&object, &template),
        failures: context.history.note(&name, view.last.as_ref(), failures(status.as_ref())),
        backoff: context.backoff,
        next_look: next_look(&object, &view),
        asked,
        import,
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
        lost: is_lost,
        object,
    })
}

/// Returns the failure for a workspace of which the status tells but nobody here knows anything: its folder is gone, or something else
/// has applied it. It is not built a second time.
async fn lost(
    context: &WorkspaceContext,
    object: &WorkspaceTemplateApply,
    status: Option<&WorkspaceTemplateApplyStatus>,
    view: &View,
) -> Option<Failure> {
    let built = |progress: &RunProgress| progress.done > 0 || progress.current.is_some();
    // That it was told once is all that is left of a progress.
    let told = |status: &WorkspaceTemplateApplyStatus| {
        let ready = conditions::find(&status.conditions, types::READY);
        ready.is_some_and(|ready| ready.reason == Reason::StateLost.as_str())
    };
    let applied = |status: &&WorkspaceTemplateApplyStatus| {
        status.applied
            || status.last_applied_revision.is_some()
            || status.resources.is_some_and(|many| many > 0)
            || status.progress.as_ref().is_some_and(built)
            || told(status)
    };
    let status = status.filter(applied);
    if status.is_none() && !began_elsewhere(context, object) {
        return None;
    }
    // A run that has changed nothing knows nothing, whatever became of it; but that it destroyed all is known.
    let destroyed = view
        .last
        .as_ref()
        .is_some_and(|last| last.operation == Operation::Destroy && last.outcome == Outcome::Done);
    let known = view.touched || destroyed || is_destroyed(object);
    // Of one that is on its way out, its end may have been forgotten already.
    let forgotten = object.metadata.deletion_timestamp.is_some()
        && context.executor.has_forgotten(&workspace_id(&Name::of(object))).await;
    if known || forgotten || !context.executor.is_durable() {
        return None;
    }
    let apply = match status {
        Some(WorkspaceTemplateApplyStatus { resources: Some(resources), .. }) if *resources > 0 => {
            format!("the status tells of an apply with {}", Count(*resources, "resource"))
        }
        Some(status) if status.applied => "the status tells of an apply".to_owned(),
        Some(_) => "the status tells of an apply that was under way".to_owned(),
        None => format!("the annotation {} tells of an apply that was to begin", annotations::FIRST_APPLY),
    };
    let message = format!(
        "{apply}, and neither state nor record of it are here; nothing is built or destroyed \
         until they are: restore the data folder, give the state with `capt import-state`, or set retainWorkspaceOnDelete, delete the \
         object and create it again"
    );
    Some(Failure::new(Reason::StateLost, message))
}

/// The note that the first apply of an object may begin here: it is of that object alone, wherever its manifest is copied to, and of the
/// place that has a record as soon as it has begun.
pub(super) fn first_apply_note(
    context: &WorkspaceContext,
    object: &WorkspaceTemplateApply,
) -> Option<String> {
    Some(format!("{}/{}", object.metadata.uid.as_ref()?, context.executor.place()?))
}

/// Returns true if the first apply of an object may have begun with another data folder, which nothing else tells of yet.
fn began_elsewhere(context: &WorkspaceContext, object: &WorkspaceTemplateApply) -> bool {
    let noted = object.annotations().get(annotations::FIRST_APPLY);
    let its =
        noted.filter(|noted| noted.split_once('/').map(|(uid, _)| uid) == object.metadata.uid.as_deref());
    its.is_some_and(|its| first_apply_note(context, object).is_some_and(|here| here != *its))
}

/// Returns true if a controller has noted on an object that is being deleted that nothing is left of its infrastructure. The note is of that object
/// alone, wherever its manifest is copied to.
pub fn is_destroyed(object: &WorkspaceTemplateApply) -> bool {
    let noted = object.annotations().get(annotations::DESTROYED);
    object.metadata.deletion_timestamp.is_some() && noted.is_some() && noted == object.metadata.uid.as_ref()
}

/// Returns true if inputs keep the state in a backend, as far as can be told before the module is fetched.
pub(super) fn in_backend(prepared: &Result<Prepared, Blocked>) -> bool {
    prepared.as_ref().is_ok_and(|prepared| prepared.inputs.place() != Place::Here)
}

/// Runs that failed in a row, as the status has it.
fn failures(status: Option<&WorkspaceTemplateApplyStatus>) -> u32 {
    status.and_then(|status| u32::try_from(status.consecutive_failures?).ok()).unwrap_or_default()
}

/// Returns the reason why an object is paused, if it is.
fn paused(object: &WorkspaceTemplateApply) -> Option<String> {
    if object.spec.paused {
        return Some("spec.paused is true".into());
    }
    let annotated = object.annotations().contains_key(annotations::PAUSED);
    annotated.then(|| format!("the annotation {} is set", annotations::PAUSED))
}

/// Returns true if the template leaves infrastructure behind; what it said last counts when it is gone.
fn orphans(object: &WorkspaceTemplateApply, template: &TemplateFacts) -> bool {
    match template.deletion_policy {
        Some(policy) => policy == DeletionPolicy::Orphan,
        None => {
            object.annotations().get(annotations::DELETION_POLICY).is_some_and(|policy| policy == "Orphan")
        }
    }
}

/// Name of the Terraform workspace: that of the object without a trailing `-apply`, unless that is another's. Once
/// given it stays, if it is a name: whoever may write the status must not be able to lead backends elsewhere with it.
pub fn workspace_name(
    context: &WorkspaceContext,
    object: &WorkspaceTemplateApply,
    status: Option<&WorkspaceTemplateApplyStatus>,
) -> String {
    let given = status.and_then(|status| status.workspace_name.clone());
    if let Some(given) = given.filter(|given| is_object_name(given)) {
        return given;
    }
    let name = object.name_any();
    let Some(short) = name.strip_suffix("-apply").filter(|short| !short.is_empty()) else { return name };
    let namespace = object.namespace().unwrap_or_default();
    let taken = context.applies.has(&Name::new(namespace, short));
    if taken { name } else { short.to_owned() }
}

/// The instance that a name means: the one of that name, else the one whose workspace is called so, which older manifests name.
fn meant(context: &WorkspaceContext, name: Name) -> Name {
    if context.applies.has(&name) {
        return name;
    }
    let long = long(&name);
    let is_its = context.applies.get(&long).is_some_and(|object| {
        let status = context.apply_status.current(object.as_ref(), object.status.as_ref());
        workspace_name(context, &object, status.as_ref()) == name.name
    });
    if is_its { long } else { name }
}

/// The instance that older versions made for a workspace of that name.
fn long(workspace: &Name) -> Name {
    Name::new(workspace.namespace.clone(), format!("{}-apply", workspace.name))
}

/// The names that mean an instance.
fn called(context: &WorkspaceContext, name: &Name) -> Vec<Name> {
    let short = name.name.strip_suffix("-apply").map(|short| Name::new(name.namespace.clone(), short));
    let short = short.filter(|short| meant(context, short.clone()) == *name);
    [name.clone()].into_iter().chain(short).collect()
}

/// A circle of workspaces that wait for each other.
fn circle(context: &WorkspaceContext, name: &Name) -> Option<Blocked> {
    let onward = |name: &Name| {
        let keys = context.applies.keys(name);
        let others = keys.iter().filter_map(|key| match key.as_ref() {
            Key::Refers("WorkspaceTemplateApply", other) => Some(meant(context, other.clone())),
            _ => None,
        });
        others.filter(|other| context.grants.follows::<WorkspaceTemplateApply>(name, other)).collect()
    };
    let circle = dependencies::cycle(name, onward)?;
    let shown: Vec<String> = circle.iter().map(|member| member.seen_from(&name.namespace)).collect();
    let message = format!("workspaces wait for each other: {}", shown.join(" -> "));
    Some(Blocked::terminal(reasons::DEPENDENCY_CYCLE, message))
}

/// Returns the unmet condition of a run, if there is one.
async fn gate(
    context: &WorkspaceContext,
    looker: &mut Looker,
    object: &WorkspaceTemplateApply,
) -> Result<Option<Blocked>, Error> {
    let namespace = object.namespace().unwrap_or_default();
    let mut missing = Vec::new();
    let mut reader = Reader { context, looker, namespace: &namespace };
    for reference in object.spec.wait_for_secrets.iter().chain(&object.spec.wait_for_secret) {
        let secret = match reader.resolve(Name::mentioned(reference, &namespace)) {
            Ok(secret) => secret,
            Err(refused) => return Ok(Some(refused)),
        };
        if reader.secret(&secret).await?.is_none() {
            missing.push(secret.seen_from(&namespace));
        }
    }
    if !missing.is_empty() {
        let message = format!("waits for Secret {}", missing.join(", "));
        return Ok(Some(Blocked::waiting(reasons::WAITING_FOR_SECRETS, message)));
    }
    let mut why = None;
    for reference in &object.spec.wait_for_workspaces {
        let mentioned = Name::mentioned(reference, &namespace);
        let meant = meant(context, mentioned.clone());
        if !context.applies.has(&mentioned) {
            // Either may come.
            reader.looker.at("WorkspaceTemplateApply", &mentioned);
            reader.looker.at("WorkspaceTemplateApply", &long(&mentioned));
        }
        let other = match reader.resolve::<WorkspaceTemplateApply>(meant) {
            Ok(other) => other,
            Err(refused) => return Ok(Some(refused)),
        };
        reader.looker.at("WorkspaceTemplateApply", &other);
        let found = context.applies.get(&other);
        let status =
            found.and_then(|found| context.apply_status.current(found.as_ref(), found.status.as_ref()));
        let ready =
            status.as_ref().is_some_and(|status| conditions::is_true(&status.conditions, types::READY));
        if !ready {
            missing.push(other.seen_from(&namespace));
            // A grant lends outputs, not what another namespace's module says.
            let own = status.filter(|_| other.namespace == namespace);
            why = why.or_else(|| own.and_then(|status| status.last_failure_message));
        }
    }
    let message = format!("waits until WorkspaceTemplateApply {} is ready", missing.join(", "));
    let message = why.map_or(message.clone(), |why| format!("{message}: {why}"));
    Ok((!missing.is_empty()).then(|| Blocked::waiting(reasons::WAITING_FOR_WORKSPACE, message)))
}

/// Workspaces that depend on an instance and have infrastructure, which may need what this one has built. None where
/// they wait in a circle: somebody must go first.
async fn dependents(
    context: &WorkspaceContext,
    looker: &mut Looker,
    name: &Name,
) -> Result<Vec<String>, Error> {
    if circle(context, name).is_some() {
        return Ok(Vec::new());
    }
    let mut standing = Vec::new();
    let users = called(context, name).into_iter().flat_map(|name| {
        context.grants.users::<WorkspaceTemplateApply, WorkspaceTemplateApply>(&context.applies, &name)
    });
    for user in users.collect::<Vec<_>>() {
        looker.at("WorkspaceTemplateApply", &user);
        if context.open(&user).await?.touched {
            standing.push(user.seen_from(&name.namespace));
        }
    }
    standing.sort();
    Ok(standing)
}

/// Returns the time of the next look for drift: an interval after the last run, each workspace at a moment of its own.
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
