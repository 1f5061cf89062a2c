//! Identity of the server and of its administrator: a CA, two certificates signed by it, and a bearer token.
//!
//! Kept in `<data folder>/pki` and the same on every start, so a kubeconfig stays good:
//!
//! | File | Holds | Made again when |
//! |---|---|---|
//! | `ca.pem` | the CA's certificate and key | a third of its life is left; the key stays, so old clients trust it |
//! | `server.pem`, `admin.pem` | certificate, CA, key | the same, or the CA or the names of the server changed |
//! | `token` | 256 random bits, base64url | never |
//!
//! Each file is replaced whole, the CA first: a start that is cut off is finished by the next. A file that is there
//! but cannot be used is an error and is left alone. Whoever starts a server holds the lock of its data folder.

mod authority;
mod credential_store;

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::SystemTime,
};

use tokio_rustls::rustls::{
    self, RootCertStore, crypto::CryptoProvider, pki_types::CertificateDer, server::WebPkiClientVerifier,
};

pub(crate) use self::credential_store::Token;
use self::{
    authority::{Authority, Leaf},
    credential_store::{CredentialStore, Pem},
};
use super::{der, files};

/// By these every client on the machine reaches the server.
const LOCAL_NAMES: [&str; 3] = ["127.0.0.1", "::1", "localhost"];

/// Why there is no identity.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// The folder of the keys cannot be made.
    #[error("make the private folder {}", .0.display())]
    Folder(PathBuf, #[source] io::Error),
    /// A file cannot be read, or others can read it too.
    #[error("read {}", .0.display())]
    Read(PathBuf, #[source] io::Error),
    /// A file cannot be written.
    #[error("write {}", .0.display())]
    Write(PathBuf, #[source] io::Error),
    /// A file is there but is not what was written. Removing it makes a new one.
    #[error("{} is damaged ({reason}); restore it, or remove it to have a new one made", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The problem.
        reason: String,
    },
    /// Not a name or an address a certificate can carry.
    #[error("{0:?} is neither a host name nor an address")]
    Name(String),
    /// A certificate cannot be made.
    #[error("make the certificate of the {0}")]
    Issue(&'static str, #[source] rcgen::Error),
    /// The system has no randomness to give.
    #[error("get random bytes")]
    Random,
}

/// Certificates, keys and the token of one server.
pub struct Identity {
    authority: Pem,
    server: Pem,
    admin: Pem,
    token: Token,
}

impl Identity {
    /// The identity kept in `<data>/pki`, made or renewed where needed at the time `now`.
    ///
    /// `names` are host names and addresses by which the server is reached beside those of the machine itself.
    pub fn in_folder(data: &Path, names: &[String], now: SystemTime) -> Result<Self, IdentityError> {
        let folder = data.join("pki");
        files::private_folder(&folder).map_err(|error| IdentityError::Folder(folder.clone(), error))?;
        Self::on(&CredentialStore::Folder(folder), names, now)
    }

    /// An identity that lives as long as this value.
    pub fn in_memory(names: &[String], now: SystemTime) -> Result<Self, IdentityError> {
        Self::on(&CredentialStore::Memory, names, now)
    }

    fn on(
        credential_store: &CredentialStore,
        names: &[String],
        now: SystemTime,
    ) -> Result<Self, IdentityError> {
        let names: Vec<_> = LOCAL_NAMES.map(str::to_owned).into_iter().chain(names.iter().cloned()).collect();
        let provider = provider();
        let authority = Authority::kept(credential_store, &provider, now)?;
        let server = authority.leaf(credential_store, &Leaf::server(names)?, &provider, now)?;
        let admin = authority.leaf(credential_store, &Leaf::Admin, &provider, now)?;
        Ok(Self { server, admin, token: Token::kept(credential_store, &provider)?, authority: authority.pem })
    }

    /// The certificate clients trust, PEM.
    pub fn ca_certificate(&self) -> &str {
        self.authority.certificates()
    }

    /// The administrator's certificate and chain, PEM.
    pub fn admin_certificate(&self) -> &str {
        self.admin.certificates()
    }

    /// The administrator's private key, PEM.
    pub fn admin_key(&self) -> &str {
        self.admin.key()
    }

    /// The administrator's bearer token.
    pub fn token(&self) -> &str {
        self.token.as_str()
    }

    /// The TLS configuration of the server: its certificate, and the CA of client certificates.
    pub(crate) fn tls(&self) -> Result<rustls::ServerConfig, rustls::Error> {
        let provider = provider();
        let (chain, key) = self.server.parse().map_err(rustls::Error::General)?;
        let (ca, _) = self.authority.parse().map_err(rustls::Error::General)?;
        let clients = WebPkiClientVerifier::builder_with_provider(Arc::new(roots(&ca)?), provider.clone())
            .allow_unauthenticated()
            .build()
            .map_err(|error| rustls::Error::General(error.to_string()))?;
        let mut config = rustls::ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_client_cert_verifier(clients)
            .with_single_cert(chain, key)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        // A resumed session would carry a client certificate that was verified long ago.
        config.send_tls13_tickets = 0;
        config.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
        Ok(config)
    }

    pub(crate) fn owned_token(&self) -> Token {
        self.token.clone()
    }
}

fn roots(certificates: &[CertificateDer<'static>]) -> Result<RootCertStore, rustls::Error> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates {
        roots.add(certificate.clone())?;
    }
    Ok(roots)
}

fn random<const N: usize>(provider: &CryptoProvider) -> Result<[u8; N], IdentityError> {
    let mut bytes = [0; N];
    provider.secure_random.fill(&mut bytes).map_err(|_| IdentityError::Random)?;
    Ok(bytes)
}

/// Passed to each user and never installed for the process: an embedding program may have its own.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}
