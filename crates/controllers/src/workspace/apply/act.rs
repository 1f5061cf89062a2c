//! The only place that changes anything but the status: metadata, runs, the end.

use std::time::Duration;

use capt_api::names::{annotations, finalizers};
use capt_api::workspace::{DeletionPolicy, WorkspaceTemplateApply};
use capt_planner::Count;
use capt_planner::workspace::{WorkspaceDecision, WorkspacePhase, WorkspaceStep};
use capt_terraform::executor::Interruption;
use capt_terraform::order::{Operation, Order, Refused, RunId};
use capt_terraform::state_backend::StateBackend as _;
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::{Map, Value, json};

use super::super::context::{MANAGER, WorkspaceContext, workspace_id};
use super::super::state_secrets;
use super::facts::ordered;
use super::observe::{Lost, ObservedWorkspace, first_apply_note, in_backend, is_destroyed};
use super::{approval, connection};
use crate::runtime::events::Note;
use crate::runtime::status::PATIENCE;
use crate::runtime::{Error, Name};

/// The label that says which cluster an object belongs to.
use capt_api::names::labels::CLUSTER_NAME;

/// Result of a step.
#[derive(Debug, Default)]
pub struct WorkspaceChanges {
    /// The run that was started.
    pub started: Option<RunId>,
    /// The object is gone, or soon will be: nothing is left to report on.
    pub released: bool,
    /// Time until the next look though nothing changed.
    pub again: Option<Duration>,
    /// Success of writing the outputs to the connection Secret, or why not; none where nobody looked.
    pub connection: Option<Result<(), String>>,
}

/// Does what was decided.
pub async fn act(
    context: &WorkspaceContext,
    observed: &ObservedWorkspace,
    decision: &WorkspaceDecision,
) -> Result<WorkspaceChanges, Error> {
    if !observed.deleting && !matches!(decision.phase, WorkspacePhase::Paused(_)) {
        ensure_metadata(context, observed, &decision.step).await?;
    }
    match &decision.step {
        WorkspaceStep::Rest => {
            let connection = match &decision.phase {
                WorkspacePhase::Ready { .. } => connection::write(context, observed).await?,
                _ => None,
            };
            Ok(WorkspaceChanges { connection, ..WorkspaceChanges::default() })
        }
        WorkspaceStep::Run(operation) => match ordered(operation) {
            Some(operation) => start(context, observed, &operation).await,
            None => Ok(WorkspaceChanges::default()),
        },
        WorkspaceStep::Cancel => {
            interrupt(context, observed, Interruption::Cancelled);
            Ok(WorkspaceChanges::default())
        }
        WorkspaceStep::Supersede => {
            interrupt(context, observed, Interruption::Superseded);
            Ok(WorkspaceChanges::default())
        }
        WorkspaceStep::TakeOver(secret) => Box::pin(take_over(context, observed, secret)).await,
        WorkspaceStep::Restore(serial) => restore(context, observed, *serial).await,
        WorkspaceStep::Release { forget } => release(context, observed, *forget).await,
    }
}

/// Interrupts the run that was observed; one that began since is none of it.
fn interrupt(context: &WorkspaceContext, observed: &ObservedWorkspace, why: Interruption) {
    if let Some(run) = &observed.view.run {
        context.executor.cancel_run(&workspace_id(&observed.name), &run.id, why);
    }
}

/// Puts on the finalizer, and what must be known when the template is gone. What people asked is taken off when it is
/// about to be done: done twice it is harmless, forgotten it is not. A request to cancel goes when no run is left.
async fn ensure_metadata(
    context: &WorkspaceContext,
    observed: &ObservedWorkspace,
    step: &WorkspaceStep,
) -> Result<(), Error> {
    let object = &observed.object;
    let starts = matches!(step, WorkspaceStep::Run(_));
    let mut metadata = Map::new();
    if !observed.finalizer {
        let mut all = object.finalizers().to_vec();
        all.push(finalizers::WORKSPACE_TEMPLATE_APPLY.to_owned());
        metadata.insert("finalizers".into(), json!(all));
    }
    let mut notes = Map::new();
    if let Some(policy) = observed.template.deletion_policy {
        let noted = object.annotations().get(annotations::DELETION_POLICY).map(String::as_str);
        let wanted = (policy == DeletionPolicy::Orphan).then_some("Orphan");
        if noted != wanted {
            notes.insert(annotations::DELETION_POLICY.into(), wanted.map_or(Value::Null, Value::from));
        }
    }
    let noted = connection::noted(observed);
    if let Some(wanted) = connection::elsewhere(observed)
        && noted != wanted
    {
        if let Some(old) = &noted {
            connection::remove(context, observed, old).await?;
        }
        notes.insert(annotations::CONNECTION_SECRET.into(), json!(wanted.map(|name| name.to_string())));
    }
    if let Some(note) = first_apply(context, observed, step) {
        notes.insert(annotations::FIRST_APPLY.into(), note.into());
    }
    if starts && observed.asked.retry {
        notes.insert(annotations::RETRY.into(), Value::Null);
    }
    if observed.asked.cancel && observed.view.run.is_none() {
        notes.insert(annotations::CANCEL.into(), Value::Null);
    }
    if !notes.is_empty() {
        metadata.insert("annotations".into(), notes.into());
    }
    if metadata.is_empty() { Ok(()) } else { patch_metadata(context, object, metadata).await }
}

/// Returns the note to make before a first apply that is recorded in the data folder alone, where it is not made yet: the status tells
/// of it only some time after it began.
fn first_apply(
    context: &WorkspaceContext,
    observed: &ObservedWorkspace,
    step: &WorkspaceStep,
) -> Option<String> {
    let builds = matches!(step, WorkspaceStep::Run(operation) if ordered(operation).is_some_and(|operation| operation.changes()));
    let workspace = workspace_id(&observed.name);
    let is_kept =
        context.state_backend.as_ref().is_some_and(|state_backend| state_backend.shares(&workspace));
    if !builds || is_kept || observed.view.touched || in_backend(&observed.prepared) {
        return None;
    }
    let note = first_apply_note(context, &observed.object)?;
    (observed.object.annotations().get(annotations::FIRST_APPLY) != Some(&note)).then_some(note)
}

/// Changes metadata of exactly the object that was observed.
pub async fn patch_metadata(
    context: &WorkspaceContext,
    object: &WorkspaceTemplateApply,
    mut metadata: Map<String, Value>,
) -> Result<(), Error> {
    let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
    metadata.insert("uid".into(), json!(object.uid()));
    // Finalizers are a list: written whole, so only over the version that was read.
    if metadata.contains_key("finalizers") {
        metadata.insert("resourceVersion".into(), json!(object.resource_version()));
    }
    let api: Api<WorkspaceTemplateApply> = Api::namespaced(context.client.clone(), &namespace);
    let params = PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() };
    let body = json!({"metadata": metadata});
    let patch = Patch::Merge(&body);
    let attempt = || format!("write metadata of WorkspaceTemplateApply {namespace}/{name}");
    let answer = tokio::time::timeout(PATIENCE, api.patch_metadata(&name, &params, &patch)).await;
    answer.map_err(|_| Error::Slow(attempt()))?.map_err(Error::api(attempt()))?;
    Ok(())
}

/// Whose turn it is: that of a Cluster, which is one of its namespace whatever a label says.
fn group(observed: &ObservedWorkspace) -> String {
    let Name { namespace, name } = &observed.name;
    let cluster = observed.object.labels().get(CLUSTER_NAME);
    cluster.map_or_else(
        || format!("{namespace}/workspace/{name}"),
        |cluster| format!("{namespace}/cluster/{cluster}"),
    )
}

/// Returns true if machines are built on it.
fn leads(object: &WorkspaceTemplateApply) -> bool {
    let owner = object.owner_references().iter().find(|owner| owner.controller == Some(true));
    owner.is_some_and(|owner| matches!(&*owner.kind, "CAPTCluster" | "CAPTControlPlane" | "NodeGroup"))
}

/// Orders a run. Ordering twice is harmless: one workspace has one run.
async fn start(
    context: &WorkspaceContext,
    observed: &ObservedWorkspace,
    operation: &Operation,
) -> Result<WorkspaceChanges, Error> {
    if observed.deleting && observed.asked.retry {
        let notes = json!({ annotations::RETRY: null });
        let metadata = [("annotations".to_owned(), notes)].into_iter().collect();
        patch_metadata(context, &observed.object, metadata).await?;
    }
    approval::use_up(context, observed, operation).await?;
    let inputs = observed.prepared.as_ref().ok().map(|prepared| prepared.inputs.clone());
    let order = Order {
        workspace: workspace_id(&observed.name),
        group: group(observed),
        leads: leads(&observed.object),
        operation: operation.clone(),
        inputs,
        revision: observed.prepared.as_ref().ok().map(|prepared| prepared.revision.clone()),
        timeout: observed.timeout,
        max_destroy: observed.destroy_limit().filter(|_| matches!(operation, Operation::Apply)),
        expects_state: observed.lost == Lost::InBackend,
    };
    match context.executor.start_run(order).await {
        Ok(run) => {
            tracing::info!(
                namespace = %observed.name.namespace, name = %observed.name.name,
                generation = observed.object.metadata.generation, %run, operation = operation.as_str(), "run ordered"
            );
            if !observed.view.touched && matches!(operation, Operation::Apply | Operation::ApplyPlan(_)) {
                let text = format!("run {run} builds workspace {}", observed.workspace_name);
                context
                    .events
                    .publish(observed.object.as_ref(), &Note::normal("CreatedWorkspace", "Apply", text));
            }
            Ok(WorkspaceChanges { started: Some(run), ..WorkspaceChanges::default() })
        }
        // Its end wakes us again.
        Err(Refused::Busy { .. } | Refused::Stopping) => Ok(WorkspaceChanges::default()),
    }
}

/// Takes over a state that somebody put into Secrets.
async fn take_over(
    context: &WorkspaceContext,
    observed: &ObservedWorkspace,
    secret: &str,
) -> Result<WorkspaceChanges, Error> {
    let namespace = &observed.name.namespace;
    let asked = observed.asked.import_state.as_deref() == Some(secret);
    let found = observed.import.as_ref().filter(|_| !asked);
    let state = match found {
        Some(import) => import.state.clone(),
        None => match state_secrets::read_import(&context.client, namespace, secret).await {
            Ok(state) => state,
            // It was found beside the object, and taken over, before `capt import-state` asked for it.
            Err(_)
                if observed.view.resources > 0
                    && secret == state_secrets::import_name(&observed.name.name) =>
            {
                clear_import(context, observed).await?;
                return Ok(WorkspaceChanges {
                    again: Some(Duration::from_millis(10)),
                    ..WorkspaceChanges::default()
                });
            }
            Err(problem) => {
                let note = Note::warning("StateRefused", "TakeOver", problem.clone());
                context.events.publish(observed.object.as_ref(), &note);
                let attempt = format!("take over the state in Secret {namespace}/{secret}");
                return Err(Error::Engine { attempt, problem });
            }
        },
    };
    // It may be the state of one that nobody has looked at yet.
    context.look_at_all().await?;
    let outcome = context.executor.import_state(&workspace_id(&observed.name), &state).await;
    let note = match &outcome {
        Ok(()) => {
            Note::normal("TookOverState", "TakeOver", format!("took over the state of Secret {secret}"))
        }
        Err(error) => Note::warning("StateRefused", "TakeOver", error.to_string()),
    };
    context.events.publish(observed.object.as_ref(), &note);
    if asked {
        clear_import(context, observed).await?;
    }
    // What was written for this alone goes; what the object or the annotation names is its author's.
    let instance = &observed.name.name;
    if secret == state_secrets::import_name(instance) && (asked || found.is_some_and(|import| import.passes))
    {
        state_secrets::remove_import(&context.client, namespace, instance).await.map_err(|problem| {
            Error::Engine { attempt: format!("remove Secret {namespace}/{secret}"), problem }
        })?;
    }
    match outcome {
        Err(problem) if !asked => Err(Error::Engine {
            attempt: format!("take over the state in Secret {secret}"),
            problem: problem.to_string(),
        }),
        _ => Ok(WorkspaceChanges { again: Some(Duration::from_millis(10)), ..WorkspaceChanges::default() }),
    }
}

/// Takes off what asked to take over a state.
async fn clear_import(context: &WorkspaceContext, observed: &ObservedWorkspace) -> Result<(), Error> {
    let notes = json!({ annotations::IMPORT_STATE: null });
    let metadata = [("annotations".to_owned(), notes)].into_iter().collect();
    patch_metadata(context, &observed.object, metadata).await
}

/// Restores a kept copy of the state.
async fn restore(
    context: &WorkspaceContext,
    observed: &ObservedWorkspace,
    serial: Option<u64>,
) -> Result<WorkspaceChanges, Error> {
    let note = match Box::pin(context.executor.restore_state(&workspace_id(&observed.name), serial)).await {
        Ok(serial) => {
            let text = format!(
                "restored the state with serial {serial}; the next apply compares it with what is there"
            );
            Note::normal("RestoredState", "Restore", text)
        }
        Err(error) => Note::warning("StateRefused", "Restore", error.to_string()),
    };
    context.events.publish(observed.object.as_ref(), &note);
    let notes = json!({ annotations::RESTORE_STATE: null });
    let metadata = [("annotations".to_owned(), notes)].into_iter().collect();
    patch_metadata(context, &observed.object, metadata).await?;
    Ok(WorkspaceChanges { again: Some(Duration::from_millis(10)), ..WorkspaceChanges::default() })
}

/// Describes the result of the destroy, before more is said.
fn destroyed(observed: &ObservedWorkspace) -> String {
    let last = observed.view.last.as_ref().filter(|last| last.operation == Operation::Destroy);
    match last.and_then(|last| last.plan.as_ref()) {
        Some(plan) => format!("destroyed {}; ", Count(plan.destroy, "resource")),
        None => String::new(),
    }
}

/// Removes the finalizer.
async fn release(
    context: &WorkspaceContext,
    observed: &ObservedWorkspace,
    forget: bool,
) -> Result<WorkspaceChanges, Error> {
    // A controller that takes over between the end of the state and that of the object would look for what is lost.
    if forget
        && context.state_backend.is_some()
        && observed.status.is_some()
        && !is_destroyed(&observed.object)
    {
        let notes = json!({ annotations::DESTROYED: observed.object.uid() });
        let metadata = [("annotations".to_owned(), notes)].into_iter().collect();
        patch_metadata(context, &observed.object, metadata).await?;
        return Ok(WorkspaceChanges::default());
    }
    let note = if forget {
        context.executor.forget(&workspace_id(&observed.name)).await.map_err(|error| Error::Engine {
            attempt: format!("forget workspace {}", observed.name),
            problem: error.to_string(),
        })?;
        let text = format!("{}workspace {} is gone", destroyed(observed), observed.workspace_name);
        Note::normal("DeletedWorkspace", "Delete", text)
    } else {
        context.executor.retain(&workspace_id(&observed.name)).await.map_err(|error| Error::Engine {
            attempt: format!("retain workspace {}", observed.name),
            problem: error.to_string(),
        })?;
        let text = format!(
            "workspace {} is retained with {}; an object of the same name takes it up again",
            observed.workspace_name,
            Count(observed.view.resources, "resource")
        );
        Note::normal("RetainedWorkspace", "Delete", text)
    };
    let secrets = connection::noted(observed).into_iter().chain(connection::elsewhere(observed).flatten());
    for secret in secrets {
        connection::remove(context, observed, &secret).await?;
    }
    context.events.publish(observed.object.as_ref(), &note);
    let rest: Vec<&String> = observed
        .object
        .finalizers()
        .iter()
        .filter(|known| *known != finalizers::WORKSPACE_TEMPLATE_APPLY)
        .collect();
    let metadata = [("finalizers".to_owned(), json!(rest))].into_iter().collect();
    patch_metadata(context, &observed.object, metadata).await?;
    context.executor.released(&workspace_id(&observed.name)).await;
    context.history.forget(&observed.name);
    context.backends.forget(&observed.name);
    context.apply_status.forget(&observed.name);
    Ok(WorkspaceChanges { released: true, ..WorkspaceChanges::default() })
}
