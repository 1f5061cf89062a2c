//! One piece of bytes in Secrets: a head, and chunks that it names.
//!
//! ```text
//! capt-chunk-KEY-GENERATION-FENCE-SUM-N
//! ```
//! Nobody writes, or removes, what a later holder of the Lease wrote, wherever it stood still in between: chunks of two writers have two
//! names, a head is replaced and deleted as it was read, and what is removed is removed by uid.

use std::collections::BTreeMap;

use capt_terraform::state_backend::StateBackendError;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{DeleteParams, ListParams, ObjectMeta, PartialObjectMeta, PostParams, Preconditions};
use kube::{Api, ResourceExt};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::term::Term;
use super::{TYPE, failed, pack};
use crate::runtime::hex::hex;

/// A Secret holds 1 MiB at most.
const CHUNK: usize = 768 * 1024;
/// Number of times that a write or read that met another one is tried.
const TRIES: usize = 5;
/// Label that ties chunks to their head.
const OF: &str = "infrastructure.cluster.x-k8s.io/state-of";
/// Makes `clusterctl move` take the Secret along.
const MOVE: &str = "clusterctl.cluster.x-k8s.io/move";

/// Header of the chunks, in the first Secret.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Head {
    /// Counts the writes.
    pub generation: u64,
    /// Number of chunks, the one in the head included.
    pub chunks: usize,
    /// Of all chunks together.
    pub sha256: String,
    /// Counts the holders of the Lease that wrote it.
    pub fence: u64,
    /// The holder of the Lease that wrote it; earlier versions do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// The run that was under way then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub running: Option<Run>,
}

/// A run that is under way.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Run {
    pub id: String,
    /// By then it has ended, after its controller lost its lease.
    pub seconds: u64,
}

/// A chunk as a list tells of it.
struct Chunk {
    name: String,
    uid: Option<String>,
    /// Generation and fence of its head, where its name says so.
    of: Option<(u64, u64)>,
}

/// One place in Secrets.
pub struct ChunkedSecret {
    pub api: Api<Secret>,
    pub head: String,
}

impl ChunkedSecret {
    pub async fn load(&self) -> Result<Option<(Vec<u8>, Head)>, StateBackendError> {
        let mut before = None;
        for _ in 0..TRIES {
            let Some((secret, head)) = self.read_head().await? else { return Ok(None) };
            let mut bytes = chunk(secret).unwrap_or_default();
            for number in 1..head.chunks {
                match self.read_chunk(&head, number).await? {
                    Some(secret) => bytes.extend(chunk(secret).unwrap_or_default()),
                    None => break,
                }
                if bytes.len() > pack::LARGEST {
                    return Err(self.damaged("and its chunks are larger than any state"));
                }
            }
            if checksum(&bytes) == head.sha256 {
                return Ok(Some((bytes, head)));
            }
            if before.as_ref() == Some(&head) {
                return Err(self.damaged("and its chunks do not belong together"));
            }
            // Somebody may have written meanwhile: the head that is there now says what counts.
            before = Some(head);
        }
        // Whoever may write it does that: it holds up its own workspace, and nobody who only looks at it.
        Err(StateBackendError::Unsettled(format!("Secret {} changes all the time", self.head)))
    }

    pub async fn store(
        &self,
        bytes: &[u8],
        term: &Term,
        read: Option<&Option<Head>>,
        running: Option<Run>,
    ) -> Result<(), StateBackendError> {
        let (sha256, by) = (checksum(bytes), term.holder());
        let mut next = Head { generation: 0, chunks: 0, sha256, fence: 0, by, running };
        for _ in 0..TRIES {
            let found = self.read_head().await?;
            next.fence = match &found {
                Some((_, head)) => {
                    let fence = term.over(&self.head, head).await?;
                    self.is_as_read(head, term, read)?;
                    fence
                }
                None => term.fence,
            };
            let same = |head: &Head| {
                head.sha256 == next.sha256
                    && (head.fence, &head.by) == (next.fence, &next.by)
                    && head.running == next.running
            };
            if found.as_ref().is_some_and(|(_, head)| same(head)) {
                return Ok(());
            }
            let before = found.as_ref().map_or(0, |(_, head)| head.generation);
            let mut chunks = bytes.chunks(CHUNK);
            let first = chunks.next().unwrap_or_default();
            (next.generation, next.chunks) = (before.wrapping_add(1), bytes.chunks(CHUNK).len().max(1));
            for (number, rest) in (1..).zip(chunks) {
                self.write_chunk(&self.chunk_name(&next, number), rest).await?;
            }
            match self.write_head(found.map(|(secret, _)| secret), &next, first).await {
                Ok(()) => return self.sweep(&next).await,
                Err(kube::Error::Api(status)) if status.code == 409 => {}
                Err(error) => return Err(failed(error)),
            }
        }
        Err(StateBackendError::Failed(format!("Secret {} changes all the time", self.head)))
    }

    /// Removes all of it, unless a later controller wrote it. One that holds no state is removed, too.
    pub async fn remove(&self, term: &Term) -> Result<(), StateBackendError> {
        for _ in 0..TRIES {
            let mut fence = term.fence;
            let chunks = self.chunks().await?;
            let found = self.api.get_opt(&self.head).await.map_err(failed)?;
            if let Some(found) = &found {
                if let Some(head) = head_in(found) {
                    fence = term.over(&self.head, &head).await?;
                }
                if !self.delete(&self.head, found.uid(), found.resource_version()).await? {
                    continue;
                }
            }
            for chunk in chunks {
                if chunk.of.is_none_or(|(_, by)| by <= fence) {
                    self.delete(&chunk.name, chunk.uid, None).await?;
                }
            }
            return Ok(());
        }
        Err(StateBackendError::Failed(format!("Secret {} changes all the time", self.head)))
    }

    /// Returns the error for a Secret that is damaged.
    pub fn damaged(&self, problem: &str) -> StateBackendError {
        StateBackendError::Damaged(format!(
            "Secret {} {problem}: nothing is run until it is back; restore the Secret, or delete it and give the state with `capt \
             import-state`",
            self.head
        ))
    }

    /// Refuses to write over what another controller wrote after it was read.
    fn is_as_read(
        &self,
        head: &Head,
        term: &Term,
        read: Option<&Option<Head>>,
    ) -> Result<(), StateBackendError> {
        if term.wrote(head) || read.is_none_or(|read| read.as_ref() == Some(head)) {
            return Ok(());
        }
        let text = format!("Secret {} was written by another controller since it was read", self.head);
        Err(StateBackendError::Unsettled(text))
    }

    pub async fn read_head(&self) -> Result<Option<(Secret, Head)>, StateBackendError> {
        let Some(secret) = self.api.get_opt(&self.head).await.map_err(failed)? else { return Ok(None) };
        let head = head_in(&secret).ok_or_else(|| self.damaged("holds no state"))?;
        Ok(Some((secret, head)))
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

    /// Finds out whether it could be created. It is not.
    pub async fn try_to_create(&self) -> Result<(), StateBackendError> {
        let params = PostParams { dry_run: true, ..PostParams::default() };
        match self.api.create(&params, &self.secret(&self.head, &[])).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
            Err(error) => Err(failed(error)),
        }
    }

    async fn read_chunk(&self, head: &Head, number: usize) -> Result<Option<Secret>, StateBackendError> {
        match self.api.get_opt(&self.chunk_name(head, number)).await.map_err(failed)? {
            // As earlier versions called it.
            None => {
                let name = format!("capt-chunk-{}-{}-{number}", self.key(), head.generation);
                self.api.get_opt(&name).await.map_err(failed)
            }
            found => Ok(found),
        }
    }

    /// Writes a chunk that no head names yet; one of a write that was cut off is replaced.
    async fn write_chunk(&self, name: &str, bytes: &[u8]) -> Result<(), StateBackendError> {
        let secret = self.secret(name, bytes);
        match self.api.create(&PostParams::default(), &secret).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.code == 409 => {
                self.api.replace(name, &PostParams::default(), &secret).await.map(drop).map_err(failed)
            }
            Err(error) => Err(failed(error)),
        }
    }

    /// Removes chunks of earlier writes. One of the same time is of somebody who was slower, and goes with the next sweep.
    async fn sweep(&self, head: &Head) -> Result<(), StateBackendError> {
        for chunk in self.chunks().await? {
            if chunk.of.is_none_or(|(generation, by)| generation < head.generation && by <= head.fence) {
                self.delete(&chunk.name, chunk.uid, None).await?;
            }
        }
        Ok(())
    }

    /// The chunks that are there.
    async fn chunks(&self) -> Result<Vec<Chunk>, StateBackendError> {
        let of = ListParams::default().labels(&format!("{OF}={}", self.key()));
        let found = self.api.list_metadata(&of).await.map_err(failed)?;
        let chunks = found.into_iter().filter(|found| found.name_any() != self.head);
        let place = |found: PartialObjectMeta<Secret>| {
            let (name, uid) = (found.name_any(), found.uid());
            Chunk { of: self.place_of(&name), name, uid }
        };
        Ok(chunks.map(place).collect())
    }

    /// Deletes a Secret if it is still that one. False where it is another by now.
    async fn delete(
        &self,
        name: &str,
        uid: Option<String>,
        resource_version: Option<String>,
    ) -> Result<bool, StateBackendError> {
        let preconditions = Some(Preconditions { uid, resource_version });
        match self.api.delete(name, &DeleteParams { preconditions, ..DeleteParams::default() }).await {
            Ok(_) => Ok(true),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(true),
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(false),
            Err(error) => Err(failed(error)),
        }
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

    /// Two writers never mean the same chunk: not two holders of the Lease, nor one and what hands in for it.
    fn chunk_name(&self, head: &Head, number: usize) -> String {
        let Head { generation, fence, sha256, .. } = head;
        // Somebody else may have written the head.
        let sum: String = sha256.chars().filter(char::is_ascii_hexdigit).take(12).collect();
        format!("capt-chunk-{}-{generation}-{fence}-{}-{number}", self.key(), sum.to_ascii_lowercase())
    }

    /// Generation and fence in the name of a chunk. Those of earlier versions have no fence.
    fn place_of(&self, name: &str) -> Option<(u64, u64)> {
        let rest = name.strip_prefix(&format!("capt-chunk-{}-", self.key()))?;
        let parts: Vec<&str> = rest.split('-').collect();
        match parts.as_slice() {
            [generation, _] => Some((generation.parse().ok()?, 0)),
            [generation, fence, _, _] => Some((generation.parse().ok()?, fence.parse().ok()?)),
            _ => None,
        }
    }
}

/// Reads the header of the chunks from a Secret.
fn head_in(secret: &Secret) -> Option<Head> {
    let ByteString(bytes) = secret.data.as_ref()?.get("head")?;
    serde_json::from_slice(bytes).ok()
}

fn chunk(secret: Secret) -> Option<Vec<u8>> {
    secret.data?.remove("chunk").map(|ByteString(bytes)| bytes)
}

fn checksum(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    async fn begin() -> (capt_apiserver::Server, ChunkedSecret) {
        let server = capt_apiserver::Server::in_memory().await.unwrap();
        let api = Api::namespaced(server.client("default"), "default");
        (server, ChunkedSecret { api, head: "capt-state-a".into() })
    }

    /// More than one chunk.
    fn large(of: u8) -> Vec<u8> {
        vec![of; 2 * CHUNK + 1]
    }

    async fn loaded(drawer: &ChunkedSecret) -> Option<u8> {
        drawer.load().await.unwrap().map(|(bytes, _)| bytes[0])
    }

    /// A holder that stands still at any point of a write, and goes on when another one has written.
    #[tokio::test]
    async fn an_old_holder_changes_nothing_any_more() {
        let (_server, drawer) = begin().await;
        drawer.store(&large(1), &Term::new(1), None, None).await.unwrap();
        let (before, head) = drawer.read_head().await.unwrap().unwrap();
        drawer.store(&large(2), &Term::new(2), None, None).await.unwrap();
        // It had read the head, and now writes its chunks and its head.
        let bytes = large(3);
        let (generation, sha256) = (head.generation + 1, checksum(&bytes));
        let old = Head { generation, chunks: 3, sha256, fence: 1, by: None, running: None };
        for number in [1, 2] {
            drawer.write_chunk(&drawer.chunk_name(&old, number), &bytes[..CHUNK]).await.unwrap();
        }
        assert_eq!(loaded(&drawer).await, Some(2));
        drawer.write_head(Some(before.clone()), &old, &bytes[..CHUNK]).await.unwrap_err();
        // It had written its head, and now sweeps.
        drawer.sweep(&old).await.unwrap();
        drawer.sweep(&Head { generation: generation + 5, ..old }).await.unwrap();
        assert_eq!(loaded(&drawer).await, Some(2));
        // It forgets the workspace.
        assert!(matches!(drawer.remove(&Term::new(1)).await, Err(StateBackendError::Fenced(_))));
        assert!(!drawer.delete(&drawer.head, before.uid(), before.resource_version()).await.unwrap());
        assert!(!drawer.delete(&drawer.head, Some("another".into()), None).await.unwrap());
        assert_eq!(loaded(&drawer).await, Some(2));
        // What it left goes with the next write.
        drawer.store(&large(4), &Term::new(2), None, None).await.unwrap();
        assert_eq!(drawer.chunks().await.unwrap().len(), 2);
        drawer.remove(&Term::new(2)).await.unwrap();
        assert!(drawer.api.list(&ListParams::default()).await.unwrap().items.is_empty());
    }

    #[tokio::test]
    async fn chunks_of_an_earlier_version_are_read() {
        let (_server, drawer) = begin().await;
        let bytes = large(1);
        for (number, rest) in bytes.chunks(CHUNK).enumerate().skip(1) {
            let name = format!("capt-chunk-{}-7-{number}", drawer.key());
            drawer.write_chunk(&name, rest).await.unwrap();
        }
        let head =
            Head { generation: 7, chunks: 3, sha256: checksum(&bytes), fence: 4, by: None, running: None };
        drawer.write_head(None, &head, &bytes[..CHUNK]).await.unwrap();
        assert_eq!(loaded(&drawer).await, Some(1));
        drawer.store(&large(2), &Term::new(5), None, None).await.unwrap();
        assert_eq!(loaded(&drawer).await, Some(2));
        assert_eq!(drawer.chunks().await.unwrap().len(), 2, "they are swept");
    }

    #[tokio::test]
    async fn what_is_damaged_is_told_as_damaged() {
        let (_server, drawer) = begin().await;
        drawer.store(&large(1), &Term::new(1), None, None).await.unwrap();
        let (good, head) = drawer.read_head().await.unwrap().unwrap();
        let told = async |drawer: &ChunkedSecret| match drawer.load().await {
            Err(StateBackendError::Damaged(text)) => text,
            other => panic!("{:?}", other.map(drop)),
        };
        let put = async |secret: &Secret| {
            let found = drawer.api.get(&drawer.head).await.unwrap();
            let mut secret = secret.clone();
            secret.metadata.resource_version = found.resource_version();
            drawer.api.replace(&drawer.head, &PostParams::default(), &secret).await.unwrap();
        };
        for (key, what) in [("chunk", "do not belong together"), ("head", "holds no state")] {
            let mut flipped = good.clone();
            flipped.data.as_mut().unwrap().get_mut(key).unwrap().0[0] ^= 1;
            put(&flipped).await;
            let text = told(&drawer).await;
            assert!(text.contains(what) && text.contains("capt import-state"), "{text}");
        }
        put(&good).await;
        assert_eq!(loaded(&drawer).await, Some(1));
        let name = drawer.chunk_name(&head, 2);
        drawer.delete(&name, None, None).await.unwrap();
        assert!(told(&drawer).await.contains("do not belong together"));
        // Nobody has to tell who wrote what is none before it can go.
        put(&Secret { data: None, ..good }).await;
        drawer.remove(&Term::new(1)).await.unwrap();
        assert!(drawer.api.list(&ListParams::default()).await.unwrap().items.is_empty());
    }
}
