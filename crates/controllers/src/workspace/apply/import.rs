//! A state that an instance takes over before its first run: the one that `spec.importState` names, or the one that `capt import-state`
//! left for an instance of its name before there was one.

use capt_api::conditions::reasons;
use capt_api::workspace::WorkspaceTemplateApply;
use capt_terraform::state::State;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;

use super::super::context::{WorkspaceContext, instance_of, workspace_id};
use super::super::state_secrets;
use super::prepare::Blocked;
use super::values::{Read, Reader, unblocked};
use crate::runtime::{Error, Looker, Name, Readable};

/// A state to take over.
#[derive(Clone, Debug, PartialEq)]
pub struct Import {
    /// The Secret that it is in.
    pub secret: Name,
    /// The state.
    pub state: Vec<u8>,
    /// True if the Secret is there for this alone, and goes afterwards.
    pub passes: bool,
}

/// Facts that decide if a state is taken over.
#[derive(Clone, Copy, Debug)]
pub struct WantedImport {
    /// Nothing was built yet.
    pub untouched: bool,
    /// Somebody asks to take over another one.
    pub asked: bool,
}

/// Finds the state to take over; blocked where the object names one that is not there, or is none.
pub async fn find(
    context: &WorkspaceContext,
    looker: &mut Looker,
    object: &WorkspaceTemplateApply,
    wanted: WantedImport,
) -> Read<Option<Import>> {
    if !wanted.untouched || wanted.asked || !context.executor.is_durable() {
        return Ok(Ok(None));
    }
    let namespace = object.namespace().unwrap_or_default();
    let mut reader = Reader { context, looker, namespace: &namespace };
    let found = match &object.spec.import_state {
        Some(reference) => {
            let name = unblocked!(reader.resolve::<Secret>(Name::mentioned(reference, &namespace)));
            unblocked!(named(&mut reader, name).await?)
        }
        None => left(&mut reader, object).await?,
    };
    let Some(import) = found else { return Ok(Ok(None)) };
    Ok(unused(&mut reader, &Name::of(object), &import).await?.map(|()| Some(import)))
}

/// Blocked where the state is another instance's, until that one is deleted and leaves behind what it has.
async fn unused(reader: &mut Reader<'_>, own: &Name, import: &Import) -> Read<()> {
    // Taking it over says what is wrong with one that cannot be read.
    let Ok(state) = State::read(&import.state) else { return Ok(Ok(())) };
    let context = reader.context;
    context.look_at_all().await?;
    let Some(user) = context.executor.user_of(&workspace_id(own), &state).await else { return Ok(Ok(())) };
    let shown = match instance_of(&user).filter(|user| user.namespace == own.namespace) {
        Some(user) => {
            reader.looker.at("WorkspaceTemplateApply", &user);
            format!("WorkspaceTemplateApply {}", user.name)
        }
        None => "a WorkspaceTemplateApply of another namespace".to_owned(),
    };
    let secret = import.secret.seen_from(reader.namespace);
    let message = format!(
        "the state in Secret {secret} has infrastructure of {shown}, and two would change and destroy it; it is taken over once that one is \
         deleted with retainWorkspaceOnDelete"
    );
    Ok(Err(Blocked::waiting(reasons::STATE_REFUSED, message)))
}

/// The state that the object names.
async fn named(reader: &mut Reader<'_>, name: Readable<Secret>) -> Read<Option<Import>> {
    let shown = name.seen_from(reader.namespace);
    if reader.secret(&name).await?.is_none() {
        let text = format!(
            "waits for Secret {shown} with the state to import: nothing is built before it is taken over"
        );
        return Ok(Err(Blocked::waiting(reasons::WAITING_FOR_SECRETS, text)));
    }
    let refused =
        |problem: String| Blocked::terminal(reasons::SECRET_ERROR, format!("importState: {problem}"));
    let read = state_secrets::read_import(&reader.context.client, &name.namespace, &name.name).await;
    let read = read.and_then(|state| match State::read(&state) {
        Ok(_) => Ok(state),
        Err(error) => Err(format!("Secret {shown} holds no Terraform state: {error}")),
    });
    Ok(read.map_err(refused).map(|state| Some(Import { secret: (*name).clone(), state, passes: false })))
}

/// The state that was left for an instance of that name.
async fn left(reader: &mut Reader<'_>, object: &WorkspaceTemplateApply) -> Result<Option<Import>, Error> {
    let name = Name::new(reader.namespace, state_secrets::import_name(&object.name_any()));
    // One of its own namespace needs nobody's leave.
    let Ok(readable) = reader.resolve::<Secret>(name.clone()) else { return Ok(None) };
    let found = reader.secret(&readable).await?;
    if !found.is_some_and(|secret| state_secrets::is_import(&secret)) {
        return Ok(None);
    }
    let state = state_secrets::read_import(&reader.context.client, &name.namespace, &name.name).await;
    let state = state.map_err(|problem| Error::Engine {
        attempt: format!("take over the state in Secret {name}"),
        problem,
    })?;
    Ok(Some(Import { secret: name, state, passes: true }))
}
