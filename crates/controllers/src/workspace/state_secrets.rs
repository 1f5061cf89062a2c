//! State and inputs of workspaces in Secrets: compressed, in chunks, and guarded against an older writer.
//!
//! ```text
//! capt-state-NAME   head: which chunks count, their checksum, who wrote them; and the first chunk
//! capt-chunk-…-N    further chunks, written before the head that names them, removed after (`chunked_secret.rs`)
//! ```
//! The inputs among it are sealed (`seal.rs`).
//!
//! A reader sees one write or the next, never half of one. A writer gives way to a head with a higher fence: another
//! controller has taken over since. One that takes over learns of a run that may still be under way, and for how long.
//!
//! Users who may write Secrets of a namespace may write these: they are bounded, and never those of another workspace.

mod chunked_secret;
mod pack;
mod seal;
mod term;

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use capt_api::workspace::BackendKind;
use capt_terraform::order::WorkspaceId;
use capt_terraform::state_backend::{Kept, Running, StateBackend, StateBackendError};
use futures::FutureExt;
use futures::future::BoxFuture;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::core::Status;
use kube::{Api, Client};
use serde::Deserialize;

use self::chunked_secret::{ChunkedSecret, Head, Run};
use self::seal::Keyring;
use self::term::Term;
use super::context::instance_of;
use crate::runtime::Name;
use crate::runtime::lease::Claim;
use crate::runtime::name::{is_object_name, not_a_name};

/// Type of these Secrets.
const TYPE: &str = "infrastructure.cluster.x-k8s.io/state";

/// Keeps workspaces in Secrets beside their instances: those whose provider config says so.
pub struct SecretStateBackend {
    client: Client,
    keyring: Keyring,
    term: Term,
    /// Time at which this controller had its lease: no earlier one could renew its own since.
    since: Instant,
    /// Meaning of `Auto`: true for Secrets.
    auto: bool,
    chosen: Mutex<HashMap<WorkspaceId, bool>>,
    /// Heads of other controllers as they were read: nothing else of theirs is written over.
    read: Mutex<HashMap<WorkspaceId, Option<Head>>>,
}

impl SecretStateBackend {
    /// A state backend for one lease term: each later controller has a higher fence. `auto`: whether workspaces that do not
    /// say are kept in Secrets. `own`: the controllers' namespace, where no tenant reads Secrets, for the key of their inputs.
    pub fn new(client: Client, fence: u64, auto: bool, own: &str) -> Self {
        let keyring = Keyring::new(client.clone(), own);
        let (term, since) = (Term::new(fence), Instant::now());
        Self { client, keyring, term, since, auto, chosen: Mutex::default(), read: Mutex::default() }
    }

    /// The same of the holder of a Lease, which may begin to count anew.
    #[must_use]
    pub fn claimed(self, claim: Claim) -> Self {
        Self { term: Term::claimed(self.term.fence, claim), ..self }
    }

    /// The same in the name of a holder that may have lost its Lease.
    #[must_use]
    pub fn former(self, holder: String) -> Self {
        Self { term: Term::of(self.term.fence, holder), ..self }
    }

    fn heads(&self) -> MutexGuard<'_, HashMap<WorkspaceId, Option<Head>>> {
        self.read.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes the backend that the provider config of a workspace says.
    pub fn choose(&self, workspace: &WorkspaceId, backend: BackendKind) {
        let choice = match backend {
            BackendKind::Auto => self.auto,
            BackendKind::Kubernetes => true,
            BackendKind::Local | BackendKind::Hcl => false,
        };
        let mut chosen = self.chosen.lock().unwrap_or_else(PoisonError::into_inner);
        if chosen.get(workspace) != Some(&choice) {
            chosen.insert(workspace.clone(), choice);
        }
    }

    /// Notes the backend that the provider config of a workspace seems to say, before anybody has looked closer.
    pub fn expect(&self, workspace: &WorkspaceId, backend: BackendKind) {
        let known = self.chosen.lock().unwrap_or_else(PoisonError::into_inner).contains_key(workspace);
        if !known {
            self.choose(workspace, backend);
        }
    }

    /// Returns true if a workspace is kept here; what it was kept in counts where nobody says.
    async fn keeps(&self, workspace: &WorkspaceId) -> Result<bool, StateBackendError> {
        let choice = self.chosen.lock().unwrap_or_else(PoisonError::into_inner).get(workspace).copied();
        match choice {
            Some(choice) => Ok(choice),
            None if self.auto => Ok(true),
            None => Ok(self.drawer(workspace)?.read_head().await?.is_some()),
        }
    }

    fn drawer(&self, workspace: &WorkspaceId) -> Result<ChunkedSecret, StateBackendError> {
        let Name { namespace, name } = instance_of(workspace)
            .ok_or_else(|| StateBackendError::Failed(format!("{workspace} has no namespace")))?;
        Ok(ChunkedSecret {
            api: Api::namespaced(self.client.clone(), &namespace),
            head: format!("capt-state-{name}"),
        })
    }
}

impl StateBackend for SecretStateBackend {
    fn load<'a>(
        &'a self,
        workspace: &'a WorkspaceId,
    ) -> BoxFuture<'a, Result<Option<Kept>, StateBackendError>> {
        async move {
            if !self.keeps(workspace).await? {
                return Ok(None);
            }
            let drawer = self.drawer(workspace)?;
            let Some((bytes, head)) = drawer.load().await? else {
                self.heads().insert(workspace.clone(), None);
                return Ok(None);
            };
            self.heads().insert(workspace.clone(), Some(head.clone()));
            let damaged = |problem: String| drawer.damaged(&format!("is damaged: {problem}"));
            let seal = self.keyring.seal(workspace).await?;
            let kept = pack::unpack(bytes, Some(seal)).await.map_err(damaged)?;
            if is_of_another(&kept.record, workspace) {
                return Err(damaged("its record is that of another workspace".into()));
            }
            let running = head.running.clone().map(|run| {
                let ends_within = self.term.ends_within(&head, &run, self.since.elapsed());
                if !self.term.wrote(&head) && ends_within.is_zero() {
                    let (workspace, run) = (workspace.as_str(), &run.id);
                    tracing::warn!(
                        workspace,
                        run,
                        "a run of the controller before did not hand in its last state"
                    );
                }
                Running { run: run.id, ends_within }
            });
            Ok(Some(Kept { running, ..kept }))
        }
        .boxed()
    }

    fn keep<'a>(
        &'a self,
        workspace: &'a WorkspaceId,
        kept: Kept,
    ) -> BoxFuture<'a, Result<(), StateBackendError>> {
        async move {
            if !self.keeps(workspace).await? {
                return Ok(());
            }
            let running = kept
                .running
                .as_ref()
                .map(|Running { run, ends_within }| Run { id: run.clone(), seconds: ends_within.as_secs() });
            let last = running.is_none();
            let seal = self.keyring.seal(workspace).await?;
            let packed = pack::pack(kept, Some(seal)).await.map_err(|problem| {
                if last {
                    // Its run is not over, and would not tell why.
                    tracing::warn!(workspace = workspace.as_str(), %problem, "the state is not kept");
                }
                StateBackendError::TooLarge(format!("{workspace} is not kept: {problem}"))
            })?;
            let read = self.heads().get(workspace).cloned();
            self.drawer(workspace)?.store(&packed, &self.term, read.as_ref(), running).await?;
            self.heads().remove(workspace);
            Ok(())
        }
        .boxed()
    }

    fn shares(&self, workspace: &WorkspaceId) -> bool {
        let chosen = self.chosen.lock().unwrap_or_else(PoisonError::into_inner);
        chosen.get(workspace).copied().unwrap_or(self.auto)
    }

    fn is_closing<'a>(
        &'a self,
        workspace: &'a WorkspaceId,
    ) -> BoxFuture<'a, Result<bool, StateBackendError>> {
        async move {
            if !self.keeps(workspace).await? {
                return Ok(false);
            }
            match self.drawer(workspace)?.try_to_create().await {
                Ok(()) => Ok(false),
                Err(StateBackendError::Closed(_)) => Ok(true),
                Err(error) => Err(error),
            }
        }
        .boxed()
    }

    fn remove<'a>(&'a self, workspace: &'a WorkspaceId) -> BoxFuture<'a, Result<(), StateBackendError>> {
        async move {
            self.drawer(workspace)?.remove(&self.term).await?;
            self.heads().remove(workspace);
            self.chosen.lock().unwrap_or_else(PoisonError::into_inner).remove(workspace);
            Ok(())
        }
        .boxed()
    }
}

/// The Secret that a state is left in for the workspace of an instance.
pub fn import_name(instance: &str) -> String {
    format!("capt-import-{instance}")
}

/// Returns true if a Secret holds a state as [`write_import`] writes it.
pub fn is_import(secret: &Secret) -> bool {
    secret.type_.as_deref() == Some(TYPE)
        && secret.data.as_ref().is_some_and(|data| data.contains_key("head"))
}

/// Keys under which other programs keep a state: Terraform's `kubernetes` backend (compressed), and people.
const STATE_KEYS: [&str; 2] = ["tfstate", "terraform.tfstate"];

/// Puts a state where the controller finds it.
pub async fn write_import(
    client: &Client,
    namespace: &str,
    secret: &str,
    state: Vec<u8>,
) -> Result<(), String> {
    let drawer = ChunkedSecret { api: Api::namespaced(client.clone(), namespace), head: secret.to_owned() };
    let kept = Kept { state, ..Kept::default() };
    let packed = pack::pack(kept, None).await?;
    drawer.store(&packed, &Term::new(0), None, None).await.map_err(|error| error.to_string())
}

/// Reads a state that somebody put there. What a workspace is kept in is none: its resources would have two owners.
pub async fn read_import(client: &Client, namespace: &str, secret: &str) -> Result<Vec<u8>, String> {
    if !is_object_name(secret) {
        return Err(not_a_name("Secret", secret));
    }
    let drawer = ChunkedSecret { api: Api::namespaced(client.clone(), namespace), head: secret.to_owned() };
    let found = drawer.api.get_opt(secret).await.map_err(|error| error.to_string())?;
    if let Some(bytes) = found.and_then(foreign) {
        return pack::state(bytes).await.map_err(|problem| format!("Secret {secret}: {problem}"));
    }
    let kept = || format!("Secret {secret} is what a workspace is kept in: it is not taken over");
    let bytes = drawer.load().await.map_err(|error| error.to_string())?;
    let (bytes, head) = bytes.ok_or_else(|| format!("Secret {secret} does not exist"))?;
    if head.fence > 0 || head.running.is_some() {
        return Err(kept());
    }
    let damaged = |problem| format!("Secret {secret} is damaged: {problem}");
    let Kept { record, state, .. } = pack::unpack(bytes, None).await.map_err(damaged)?;
    // The first holder of a Lease has no fence to tell, but a record.
    if record.is_empty() { Ok(state) } else { Err(kept()) }
}

/// The state that another program keeps in a Secret.
fn foreign(secret: Secret) -> Option<Vec<u8>> {
    let mut data = secret.data.filter(|data| !data.contains_key("head"))?;
    STATE_KEYS.iter().find_map(|key| data.remove(*key)).map(|ByteString(bytes)| bytes)
}

/// Removes the state that was left for an instance, as [`write_import`] wrote it. A Secret of any other name or kind may be the only copy
/// of what somebody else keeps in it.
pub async fn remove_import(client: &Client, namespace: &str, instance: &str) -> Result<(), String> {
    let drawer =
        ChunkedSecret { api: Api::namespaced(client.clone(), namespace), head: import_name(instance) };
    let found = drawer.api.get_opt(&drawer.head).await.map_err(|error| error.to_string())?;
    if !found.is_some_and(|secret| is_import(&secret)) {
        return Ok(());
    }
    drawer.remove(&Term::new(0)).await.map_err(|error| error.to_string())
}

#[expect(clippy::needless_pass_by_value, reason = "map_err gives it by value")]
fn failed(error: kube::Error) -> StateBackendError {
    match &error {
        kube::Error::Api(status) if is_terminating(status) => StateBackendError::Closed(error.to_string()),
        _ => StateBackendError::Failed(error.to_string()),
    }
}

/// Returns true if nothing is created since the namespace is being deleted. The embedded API gives no cause.
fn is_terminating(status: &Status) -> bool {
    let mut causes = status.details.iter().flat_map(|details| &details.causes);
    let told = causes.any(|cause| cause.reason == "NamespaceTerminating");
    status.code == 403 && (told || status.message.contains("because it is being terminated"))
}

/// Returns true if a record says that it is another workspace's. One that says nothing is the engine's to refuse.
fn is_of_another(record: &[u8], workspace: &WorkspaceId) -> bool {
    #[derive(Deserialize)]
    struct Of {
        workspace: WorkspaceId,
    }
    serde_json::from_slice::<Of>(record).is_ok_and(|of| of.workspace != *workspace)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_says_whose_it_is() {
        let rows = [
            (r#"{"workspace": "tenant/evil", "touched": true}"#, false),
            (r#"{"workspace": "owner/prod"}"#, true),
            (r#"{"workspace": ""}"#, true),
            ("", false),
            ("noise", false),
        ];
        for (record, expected) in rows {
            assert_eq!(
                is_of_another(record.as_bytes(), &WorkspaceId::new("tenant/evil")),
                expected,
                "{record}"
            );
        }
    }
}
