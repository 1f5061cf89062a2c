//! Files of the identity: where they are, and the forms of their contents.

use std::{io, path::PathBuf};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use subtle::ConstantTimeEq;
use tokio_rustls::rustls::{
    crypto::CryptoProvider,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    sign::CertifiedKey,
};

use super::{IdentityError, der, files, random};

const TOKEN_BYTES: usize = 32;
const KEY_MARK: &str = "-----BEGIN PRIVATE KEY-----";

/// The folder of the identity.
pub(super) enum CredentialStore {
    Folder(PathBuf),
    /// Remembers nothing.
    Memory,
}

impl CredentialStore {
    pub fn read(&self, file: &str) -> Result<Option<String>, IdentityError> {
        let Self::Folder(folder) = self else { return Ok(None) };
        let path = folder.join(file);
        files::read_secret(&path).map_err(|error| match error.kind() {
            io::ErrorKind::InvalidData => self.damaged(file, "not a text".to_owned()),
            _ => IdentityError::Read(path, error),
        })
    }

    pub fn write(&self, file: &str, content: &str) -> Result<(), IdentityError> {
        let Self::Folder(folder) = self else { return Ok(()) };
        let path = folder.join(file);
        files::replace(&path, content.as_bytes()).map_err(|error| IdentityError::Write(path, error))
    }

    pub fn damaged(&self, file: &str, reason: String) -> IdentityError {
        let path = match self {
            Self::Folder(folder) => folder.join(file),
            Self::Memory => file.into(),
        };
        IdentityError::Damaged { path, reason }
    }
}

/// Certificates, then their private key, as one text.
#[derive(Clone)]
pub(super) struct Pem(pub String);

impl Pem {
    pub fn certificates(&self) -> &str {
        &self.0[..self.mark()]
    }

    pub fn key(&self) -> &str {
        &self.0[self.mark()..]
    }

    fn mark(&self) -> usize {
        self.0.find(KEY_MARK).unwrap_or(self.0.len())
    }

    pub fn parse(&self) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), String> {
        let chain = CertificateDer::pem_slice_iter(self.certificates().as_bytes())
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| format!("certificate: {error}"))?;
        let key =
            PrivateKeyDer::from_pem_slice(self.key().as_bytes()).map_err(|error| format!("key: {error}"))?;
        Ok((chain, key))
    }

    /// Parses, and makes sure that the key is the first certificate's.
    pub fn checked(
        &self,
        provider: &CryptoProvider,
    ) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>, der::Facts), String> {
        let (chain, key) = self.parse()?;
        let first = chain.first().ok_or("no certificate")?;
        let facts = der::read(first).map_err(|error| error.to_string())?;
        CertifiedKey::from_der(chain.clone(), key.clone_key(), provider)
            .map_err(|error| error.to_string())?;
        Ok((chain, key, facts))
    }
}

/// The secret half of `Authorization: Bearer`.
#[derive(Clone)]
pub(crate) struct Token(String);

impl Token {
    pub(super) fn kept(
        credential_store: &CredentialStore,
        provider: &CryptoProvider,
    ) -> Result<Self, IdentityError> {
        const FILE: &str = "token";
        if let Some(text) = credential_store.read(FILE)? {
            return match URL_SAFE_NO_PAD.decode(text.trim_end()) {
                Ok(bytes) if bytes.len() == TOKEN_BYTES => Ok(Self(text.trim_end().to_owned())),
                _ => Err(credential_store.damaged(FILE, "not 256 bits in base64url".to_owned())),
            };
        }
        let token = Self(URL_SAFE_NO_PAD.encode(random::<TOKEN_BYTES>(provider)?));
        credential_store.write(FILE, &token.0)?;
        Ok(token)
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    /// Compares in a time that tells nothing but the length, which is no secret.
    pub(in super::super) fn is(&self, candidate: &[u8]) -> bool {
        self.0.as_bytes().ct_eq(candidate).into()
    }
}
