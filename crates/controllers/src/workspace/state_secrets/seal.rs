//! The seal of kept inputs: they hold credentials that whoever reads Secrets beside an instance may use and not know.
//!
//! AES-256-GCM, with a key in a Secret of the controllers' own namespace; the name of the workspace, its record and its state are
//! sealed in, so that inputs go with nothing else. What cannot be opened (another key, a damaged or a forged piece) counts as not kept: then the object says
//! what a run is made from.

use std::sync::Arc;

use aws_lc_rs::aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use capt_terraform::order::WorkspaceId;
use capt_terraform::state_backend::StateBackendError;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};
use sha2::{Digest as _, Sha256};
use tokio::sync::OnceCell;

/// The Secret with the key.
const NAME: &str = "capt-state-key";
/// Its type.
const TYPE: &str = "infrastructure.cluster.x-k8s.io/state-key";
/// The key in it.
const KEY: &str = "key";
const KEY_BYTES: usize = 32;

/// Reader of the key that seals inputs, from its Secret.
pub struct Keyring {
    secrets: Api<Secret>,
    namespace: String,
    key: OnceCell<Arc<RandomizedNonceKey>>,
}

impl Keyring {
    pub fn new(client: Client, namespace: &str) -> Self {
        Self {
            secrets: Api::namespaced(client, namespace),
            namespace: namespace.to_owned(),
            key: OnceCell::new(),
        }
    }

    /// The seal of a workspace. The key is made where there is none.
    pub async fn seal(&self, workspace: &WorkspaceId) -> Result<Seal, StateBackendError> {
        let key = self.key.get_or_try_init(|| self.key()).await?;
        Ok(Seal { key: Arc::clone(key), workspace: workspace.as_str().to_owned() })
    }

    async fn key(&self) -> Result<Arc<RandomizedNonceKey>, StateBackendError> {
        let found = match self.secrets.get_opt(NAME).await.map_err(super::failed)? {
            Some(found) => found,
            None => self.make().await?,
        };
        let bytes = found.data.and_then(|mut data| data.remove(KEY)).unwrap_or_default().0;
        let damaged = |_| {
            let text = format!(
                "Secret {}/{NAME} holds no key of {KEY_BYTES} bytes: restore it, or delete it",
                self.namespace
            );
            StateBackendError::Failed(text)
        };
        RandomizedNonceKey::new(&AES_256_GCM, &bytes).map(Arc::new).map_err(damaged)
    }

    /// Makes a key, or finds the one that another controller was first to make.
    async fn make(&self) -> Result<Secret, StateBackendError> {
        let mut bytes = vec![0; KEY_BYTES];
        aws_lc_rs::rand::fill(&mut bytes)
            .map_err(|_| StateBackendError::Failed("no randomness for a key".into()))?;
        let secret = Secret {
            metadata: ObjectMeta { name: Some(NAME.into()), ..ObjectMeta::default() },
            type_: Some(TYPE.into()),
            data: Some([(KEY.to_owned(), ByteString(bytes))].into()),
            ..Secret::default()
        };
        match self.secrets.create(&PostParams::default(), &secret).await {
            Ok(made) => Ok(made),
            Err(kube::Error::Api(status)) if status.code == 409 => {
                self.secrets.get(NAME).await.map_err(super::failed)
            }
            Err(error) => Err(super::failed(error)),
        }
    }
}

/// Seals and opens what belongs to one workspace.
#[derive(Clone)]
pub struct Seal {
    key: Arc<RandomizedNonceKey>,
    workspace: String,
}

impl Seal {
    /// Seals inputs to a workspace, and to what is kept beside them: they go with nothing else.
    pub fn close(&self, mut bytes: Vec<u8>, beside: [&[u8]; 2]) -> Result<Vec<u8>, String> {
        let nonce = self.key.seal_in_place_append_tag(self.bound_to(beside), &mut bytes);
        let nonce = nonce.map_err(|_| "its inputs cannot be sealed".to_owned())?;
        Ok([nonce.as_ref().as_slice(), &bytes].concat())
    }

    /// Opens inputs that were sealed to the same.
    pub fn open(&self, sealed: &[u8], beside: [&[u8]; 2]) -> Option<Vec<u8>> {
        let (nonce, bytes) = sealed.split_at_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let mut bytes = bytes.to_vec();
        let length = self.key.open_in_place(nonce, self.bound_to(beside), &mut bytes).ok()?.len();
        bytes.truncate(length);
        Some(bytes)
    }

    fn bound_to(&self, beside: [&[u8]; 2]) -> Aad<Vec<u8>> {
        let [record, state] = beside.map(Sha256::digest);
        Aad::from([&record[..], &state, self.workspace.as_bytes()].concat())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
pub mod tests {
    use super::*;

    pub fn seal(workspace: &str, key: u8) -> Seal {
        let key = RandomizedNonceKey::new(&AES_256_GCM, &[key; KEY_BYTES]).unwrap();
        Seal { key: Arc::new(key), workspace: workspace.to_owned() }
    }

    #[test]
    fn who_opens_what() {
        let beside: [&[u8]; 2] = [b"record", b"state"];
        for text in [&b""[..], b"a", &[7; 7_000]] {
            let sealed = seal("tenant/a", 1).close(text.to_vec(), beside).unwrap();
            assert_eq!(seal("tenant/a", 1).open(&sealed, beside).as_deref(), Some(text));
            assert_eq!(seal("tenant/b", 1).open(&sealed, beside), None, "of another workspace");
            assert_eq!(seal("tenant/a", 2).open(&sealed, beside), None, "with another key");
            for other in [[&b"other"[..], b"state"], [b"record", b"other"], [b"recordst", b"ate"]] {
                assert_eq!(seal("tenant/a", 1).open(&sealed, other), None, "beside another one");
            }
            for at in [0, NONCE_LEN, sealed.len() - 1] {
                let mut altered = sealed.clone();
                altered[at] ^= 1;
                assert_eq!(seal("tenant/a", 1).open(&altered, beside), None, "altered at {at}");
                assert_eq!(seal("tenant/a", 1).open(&sealed[..at], beside), None, "cut at {at}");
            }
        }
    }
}
