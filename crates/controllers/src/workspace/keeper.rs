//! State and inputs of workspaces in Secrets: compressed, in chunks, and guarded against an older writer.
//!
//! ```text
//! capt-state-NAME                  head: which chunks count, their checksum, who wrote them; and the first chunk
//! capt-chunk-HASH-GENERATION-N     further chunks, written before the head that names them, removed after
//! ```
//! A reader sees one write or the next, never half of one. A writer gives way to a head with a higher fence: another
//! controller has taken over since.

use std::collections::{BTreeMap, HashMap};
use std::io::{Read, Write};
use std::sync::{Mutex, PoisonError};

use capt_api::workspace::BackendKind;
use capt_terraform::keeper::{KeepError, Keeper, Kept};
use capt_terraform::order::WorkspaceId;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use futures::FutureExt;
use futures::future::BoxFuture;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{DeleteParams, ListParams, ObjectMeta, PostParams};
use kube::{Api, Client, ResourceExt};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::context::instance_of;
use crate::runtime::Name;
use crate::runtime::hex::hex;

/// A Secret holds 1 MiB at most.
const CHUNK: usize = 768 * 1024;
/// How often a write or read that met another one is tried again.
const TRIES: usize = 5;
/// Type of these Secrets.
const TYPE: &str = "infrastructure.cluster.x-k8s.io/state";
/// Label that ties chunks to their head.
const OF: &str = "infrastructure.cluster.x-k8s.io/state-of";
/// Makes `clusterctl move` take the Secret along.
const MOVE: &str = "clusterctl.cluster.x-k8s.io/move";
/// A state larger than this, unpacked, is taken for a mistake.
const LARGEST: u64 = 1024 * 1024 * 1024;

/// Keeps workspaces in Secrets beside their instances: those whose provider config says so.
pub struct SecretKeeper {
    client: Client,
    fence: u64,
    /// What `Auto` means.
    auto: bool,
    chosen: Mutex<HashMap<WorkspaceId, bool>>,
}

impl SecretKeeper {
    /// A keeper for one term of office: each later controller has a higher fence. `auto`: whether workspaces that do not
    /// say are kept in Secrets.
    pub fn new(client: Client, fence: u64, auto: bool) -> Self {
        Self { client, fence, auto, chosen: Mutex::default() }
    }

    /// What the provider config of a workspace says.
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

    /// Whether a workspace is kept here; what it was kept in counts where nobody says.
    async fn keeps(&self, workspace: &WorkspaceId) -> Result<bool, KeepError> {
        let choice = self.chosen.lock().unwrap_or_else(PoisonError::into_inner).get(workspace).copied();
        match choice {
            Some(choice) => Ok(choice),
            None if self.auto => Ok(true),
            None => Ok(self.drawer(workspace)?.read_head().await?.is_some()),
        }
    }

    fn drawer(&self, workspace: &WorkspaceId) -> Result<Drawer, KeepError> {
        let Name { namespace, name } = instance_of(workspace)
            .ok_or_else(|| KeepError::Failed(format!("{workspace} has no namespace")))?;
        Ok(Drawer {
            api: Api::namespaced(self.client.clone(), &namespace),
            head: format!("capt-state-{name}"),
        })
    }
}

impl Keeper for SecretKeeper {
    fn load<'a>(&'a self, workspace: &'a WorkspaceId) -> BoxFuture<'a, Result<Option<Kept>, KeepError>> {
        async move {
            let Some(bytes) = self.drawer(workspace)?.load().await? else { return Ok(None) };
            let kept = unpack(&bytes).ok_or_else(|| KeepError::Failed("the kept state is damaged".into()))?;
            Ok(Some(kept))
        }
        .boxed()
    }

    fn keep<'a>(&'a self, workspace: &'a WorkspaceId, kept: Kept) -> BoxFuture<'a, Result<(), KeepError>> {
        async move {
            if !self.keeps(workspace).await? {
                return Ok(());
            }
            self.drawer(workspace)?.store(&pack(&kept), self.fence).await
        }
        .boxed()
    }

    fn remove<'a>(&'a self, workspace: &'a WorkspaceId) -> BoxFuture<'a, Result<(), KeepError>> {
        async move {
            self.drawer(workspace)?.remove().await?;
            self.chosen.lock().unwrap_or_else(PoisonError::into_inner).remove(workspace);
            Ok(())
        }
        .boxed()
    }
}

/// Puts a state where the controller finds it.
pub async fn write_import(
    client: &Client,
    namespace: &str,
    secret: &str,
    state: Vec<u8>,
) -> Result<(), String> {
    let drawer = Drawer { api: Api::namespaced(client.clone(), namespace), head: secret.to_owned() };
    let kept = Kept { record: Vec::new(), state };
    drawer.store(&pack(&kept), 0).await.map_err(|error| error.to_string())
}

/// Reads a state that somebody put there.
pub async fn read_import(client: &Client, namespace: &str, secret: &str) -> Result<Vec<u8>, String> {
    let drawer = Drawer { api: Api::namespaced(client.clone(), namespace), head: secret.to_owned() };
    let bytes = drawer.load().await.map_err(|error| error.to_string())?;
    let bytes = bytes.ok_or_else(|| format!("Secret {secret} does not exist"))?;
    unpack(&bytes).map(|kept| kept.state).ok_or_else(|| format!("Secret {secret} is damaged"))
}

/// Removes it again.
pub async fn remove_import(client: &Client, namespace: &str, secret: &str) -> Result<(), String> {
    let drawer = Drawer { api: Api::namespaced(client.clone(), namespace), head: secret.to_owned() };
    drawer.remove().await.map_err(|error| error.to_string())
}

/// What a head says about its chunks.
#[derive(Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Head {
    /// Counts the writes.
    generation: u64,
    /// How many chunks, the one in the head included.
    chunks: usize,
    /// Of all chunks together.
    sha256: String,
    /// Whose term of office wrote it.
    fence: u64,
}

/// One place in Secrets.
struct Drawer {
    api: Api<Secret>,
    head: String,
}

impl Drawer {
    async fn load(&self) -> Result<Option<Vec<u8>>, KeepError> {
        for _ in 0..TRIES {
            let Some((secret, head)) = self.read_head().await? else { return Ok(None) };
            let mut bytes = chunk(&secret).unwrap_or_default();
            for number in 1..head.chunks {
                match self.api.get_opt(&self.chunk_name(head.generation, number)).await.map_err(failed)? {
                    Some(secret) => bytes.extend(chunk(&secret).unwrap_or_default()),
                    None => break,
                }
            }
            if checksum(&bytes) == head.sha256 {
                return Ok(Some(bytes));
            }
            // Somebody wrote meanwhile: the head that is there now says what counts.
        }
        Err(KeepError::Failed(format!("Secret {} and its chunks do not belong together", self.head)))
    }

    async fn store(&self, bytes: &[u8], fence: u64) -> Result<(), KeepError> {
        for _ in 0..TRIES {
            let found = self.read_head().await?;
            if let Some((_, head)) = &found
                && head.fence > fence
            {
                let text = format!(
                    "Secret {} was written by a later controller ({} > {fence})",
                    self.head, head.fence
                );
                return Err(KeepError::Fenced(text));
            }
            let sha256 = checksum(bytes);
            if found.as_ref().is_some_and(|(_, head)| head.sha256 == sha256 && head.fence == fence) {
                return Ok(());
            }
            let before = found.as_ref().map_or(0, |(_, head)| head.generation);
            let mut chunks = bytes.chunks(CHUNK);
            let first = chunks.next().unwrap_or_default();
            let head =
                Head { generation: before + 1, chunks: bytes.chunks(CHUNK).len().max(1), sha256, fence };
            for (number, rest) in (1..).zip(chunks) {
                self.write_chunk(&self.chunk_name(head.generation, number), rest).await?;
            }
            match self.write_head(found.map(|(secret, _)| secret), &head, first).await {
                Ok(()) => return self.sweep(Some(head.generation)).await,
                Err(kube::Error::Api(status)) if status.code == 409 => {}
                Err(error) => return Err(failed(error)),
            }
        }
        Err(KeepError::Failed(format!("Secret {} changes all the time", self.head)))
    }

    async fn remove(&self) -> Result<(), KeepError> {
        delete(&self.api, &self.head).await?;
        self.sweep(None).await
    }

    async fn read_head(&self) -> Result<Option<(Secret, Head)>, KeepError> {
        let Some(secret) = self.api.get_opt(&self.head).await.map_err(failed)? else { return Ok(None) };
        let data = secret.data.as_ref().and_then(|data| data.get("head"));
        let head = data.and_then(|ByteString(bytes)| serde_json::from_slice(bytes).ok());
        let strange = || KeepError::Failed(format!("Secret {} holds no state", self.head));
        head.map(|head| Some((secret, head))).ok_or_else(strange)
    }

    async fn write_head(&self, found: Option<Secret>, head: &Head, first: &[u8]) -> Result<(), kube::Error> {
        let text = serde_json::to_vec(head).unwrap_or_default();
        let mut secret = self.secret(&self.head, first);
        secret.data.get_or_insert_default().insert("head".into(), ByteString(text));
        match found {
            Some(found) => {
                secret.metadata.resource_version = found.resource_version();
                self.api.replace(&self.head, &PostParams::default(), &secret).await?;
            }
            None => drop(self.api.create(&PostParams::default(), &secret).await?),
        }
        Ok(())
    }

    /// Writes a chunk that no head names yet; one of a write that was cut off is replaced.
    async fn write_chunk(&self, name: &str, bytes: &[u8]) -> Result<(), KeepError> {
        let secret = self.secret(name, bytes);
        match self.api.create(&PostParams::default(), &secret).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.code == 409 => {
                self.api.replace(name, &PostParams::default(), &secret).await.map(drop).map_err(failed)
            }
            Err(error) => Err(failed(error)),
        }
    }

    /// Removes chunks that the head does not name.
    async fn sweep(&self, generation: Option<u64>) -> Result<(), KeepError> {
        let of = ListParams::default().labels(&format!("{OF}={}", self.key()));
        let current = generation.map(|generation| self.chunk_name(generation, 0));
        let current = current.as_deref().and_then(|name| name.strip_suffix('0'));
        for found in self.api.list_metadata(&of).await.map_err(failed)? {
            let name = found.name_any();
            if name != self.head && !current.is_some_and(|current| name.starts_with(current)) {
                delete(&self.api, &name).await?;
            }
        }
        Ok(())
    }

    fn secret(&self, name: &str, bytes: &[u8]) -> Secret {
        let labels = BTreeMap::from([(OF.to_owned(), self.key()), (MOVE.to_owned(), String::new())]);
        Secret {
            metadata: ObjectMeta { name: Some(name.into()), labels: Some(labels), ..ObjectMeta::default() },
            type_: Some(TYPE.into()),
            data: Some([("chunk".to_owned(), ByteString(bytes.to_vec()))].into()),
            ..Secret::default()
        }
    }

    fn key(&self) -> String {
        checksum(self.head.as_bytes())[..16].to_owned()
    }

    fn chunk_name(&self, generation: u64, number: usize) -> String {
        format!("capt-chunk-{}-{generation}-{number}", self.key())
    }
}

async fn delete(api: &Api<Secret>, name: &str) -> Result<(), KeepError> {
    match api.delete(name, &DeleteParams::default()).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        Err(error) => Err(failed(error)),
    }
}

fn chunk(secret: &Secret) -> Option<Vec<u8>> {
    secret.data.as_ref()?.get("chunk").map(|ByteString(bytes)| bytes.clone())
}

#[expect(clippy::needless_pass_by_value, reason = "map_err gives it by value")]
fn failed(error: kube::Error) -> KeepError {
    KeepError::Failed(error.to_string())
}

fn checksum(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Length of the record, record, state; compressed.
fn pack(kept: &Kept) -> Vec<u8> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
    let length = u64::try_from(kept.record.len()).unwrap_or_default();
    let written = gzip
        .write_all(&length.to_le_bytes())
        .and_then(|()| gzip.write_all(&kept.record))
        .and_then(|()| gzip.write_all(&kept.state));
    written.and_then(|()| gzip.finish()).expect("writing to memory cannot fail")
}

fn unpack(bytes: &[u8]) -> Option<Kept> {
    let mut all = Vec::new();
    GzDecoder::new(bytes).take(LARGEST).read_to_end(&mut all).ok()?;
    let (length, rest) = all.split_first_chunk::<8>()?;
    let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
    let (record, state) = rest.split_at_checked(length)?;
    Some(Kept { record: record.to_vec(), state: state.to_vec() })
}
