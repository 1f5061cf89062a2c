//! The CA and what it signs.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, SerialNumber,
};
use tokio_rustls::rustls::{
    self, CertificateError,
    client::{WebPkiServerVerifier, danger::ServerCertVerifier},
    crypto::CryptoProvider,
    pki_types::{CertificateDer, ServerName, UnixTime},
    server::WebPkiClientVerifier,
};

use super::{
    super::user::{ADMIN, MASTERS},
    CredentialStore, IdentityError, Pem, der, random, roots,
};

const CA_NAME: &str = "capt";
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// As kubeadm's CA and certificates.
const CA_LIFE: Duration = Duration::from_secs(10 * 365 * DAY.as_secs());
const LEAF_LIFE: Duration = Duration::from_secs(365 * DAY.as_secs());
/// A client whose clock is a little behind must not see a certificate of the future.
const BACKDATED: Duration = Duration::from_secs(60 * 60);

/// The CA, able to sign.
pub(super) struct Authority {
    pub pem: Pem,
    certificate: CertificateDer<'static>,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    const FILE: &'static str = "ca.pem";

    /// The kept CA, made or renewed where needed.
    pub fn kept(
        credential_store: &CredentialStore,
        provider: &CryptoProvider,
        now: SystemTime,
    ) -> Result<Self, IdentityError> {
        let issue = |error| IdentityError::Issue("CA", error);
        let Some(text) = credential_store.read(Self::FILE)? else {
            return Self::signed(credential_store, KeyPair::generate().map_err(issue)?, provider, now);
        };
        let damaged = |reason| credential_store.damaged(Self::FILE, reason);
        let pem = Pem(text);
        let (chain, key, facts) = pem.checked(provider).map_err(damaged)?;
        let key = KeyPair::try_from(&key).map_err(|error| damaged(error.to_string()))?;
        if facts.common_name.as_deref() != Some(CA_NAME) {
            return Err(damaged("not the CA that was made here".to_owned()));
        }
        if !is_signed_by(&facts, &facts, provider) {
            return Err(damaged("its signature does not fit".to_owned()));
        }
        if is_worn(&facts, now) {
            return Self::signed(credential_store, key, provider, now);
        }
        let certificate = chain.into_iter().next().ok_or_else(|| damaged("no certificate".to_owned()))?;
        Ok(Self { pem, certificate, issuer: Issuer::new(Self::params(provider, now)?, key) })
    }

    fn signed(
        credential_store: &CredentialStore,
        key: KeyPair,
        provider: &CryptoProvider,
        now: SystemTime,
    ) -> Result<Self, IdentityError> {
        let params = Self::params(provider, now)?;
        let certificate = params.self_signed(&key).map_err(|error| IdentityError::Issue("CA", error))?;
        let pem = Pem(certificate.pem() + &key.serialize_pem());
        credential_store.write(Self::FILE, &pem.0)?;
        Ok(Self { pem, certificate: certificate.der().clone(), issuer: Issuer::new(params, key) })
    }

    fn params(provider: &CryptoProvider, now: SystemTime) -> Result<CertificateParams, IdentityError> {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        dress(&mut params, CA_NAME, None, CA_LIFE, provider, now)?;
        Ok(params)
    }

    /// The kept certificate of `leaf` if it is still good, else a new one.
    pub fn leaf(
        &self,
        credential_store: &CredentialStore,
        leaf: &Leaf,
        provider: &Arc<CryptoProvider>,
        now: SystemTime,
    ) -> Result<Pem, IdentityError> {
        if let Some(text) = credential_store.read(leaf.file())? {
            let pem = Pem(text);
            if self
                .is_good(&pem, leaf, provider, now)
                .map_err(|reason| credential_store.damaged(leaf.file(), reason))?
            {
                return Ok(pem);
            }
        }
        let issue = |error| IdentityError::Issue(leaf.what(), error);
        let key = KeyPair::generate().map_err(issue)?;
        let certificate = leaf.params(provider, now)?.signed_by(&key, &self.issuer).map_err(issue)?;
        let pem = Pem(certificate.pem() + self.pem.certificates() + &key.serialize_pem());
        credential_store.write(leaf.file(), &pem.0)?;
        Ok(pem)
    }

    /// False if it is to be made again; an error if it is not what was written.
    fn is_good(
        &self,
        pem: &Pem,
        leaf: &Leaf,
        provider: &Arc<CryptoProvider>,
        now: SystemTime,
    ) -> Result<bool, String> {
        let (chain, _, facts) = pem.checked(provider)?;
        let [certificate, authority] = &chain[..] else { return Err("not two certificates".to_owned()) };
        let signer = der::read(authority).map_err(|error| error.to_string())?;
        // Before anything in them is believed: a damaged date must not pass for an old one.
        if !is_signed_by(&signer, &signer, provider) || !is_signed_by(&facts, &signer, provider) {
            return Err("its signature does not fit".to_owned());
        }
        if *authority != self.certificate || is_worn(&facts, now) {
            return Ok(false);
        }
        let now = UnixTime::since_unix_epoch(now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default());
        leaf.verify(certificate, authority, provider, now).map_err(|error| error.to_string())
    }
}

/// The certificates that the CA signs.
pub(super) enum Leaf {
    Server(Vec<(String, ServerName<'static>)>),
    Admin,
}

impl Leaf {
    /// The server, by its names.
    pub fn server(names: Vec<String>) -> Result<Self, IdentityError> {
        let parse = |name: String| match ServerName::try_from(name.clone()) {
            Ok(parsed) => Ok((name, parsed)),
            Err(_) => Err(IdentityError::Name(name)),
        };
        names.into_iter().map(parse).collect::<Result<_, _>>().map(Self::Server)
    }

    const fn what(&self) -> &'static str {
        match self {
            Self::Server(_) => "server",
            Self::Admin => "administrator",
        }
    }

    const fn file(&self) -> &'static str {
        match self {
            Self::Server(_) => "server.pem",
            Self::Admin => "admin.pem",
        }
    }

    fn params(&self, provider: &CryptoProvider, now: SystemTime) -> Result<CertificateParams, IdentityError> {
        let mut params = match self {
            Self::Server(names) => {
                let names: Vec<_> = names.iter().map(|(name, _)| name.clone()).collect();
                CertificateParams::new(names).map_err(|error| IdentityError::Issue(self.what(), error))?
            }
            Self::Admin => CertificateParams::default(),
        };
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        let (name, group, purpose) = match self {
            Self::Server(_) => ("capt-apiserver", None, ExtendedKeyUsagePurpose::ServerAuth),
            Self::Admin => (ADMIN, Some(MASTERS), ExtendedKeyUsagePurpose::ClientAuth),
        };
        params.extended_key_usages = vec![purpose];
        params.use_authority_key_identifier_extension = true;
        dress(&mut params, name, group, LEAF_LIFE, provider, now)?;
        Ok(params)
    }

    /// As a peer would verify it; false if it is sound but lacks a name.
    fn verify(
        &self,
        certificate: &CertificateDer<'_>,
        authority: &CertificateDer<'static>,
        provider: &Arc<CryptoProvider>,
        now: UnixTime,
    ) -> Result<bool, rustls::Error> {
        let roots = Arc::new(roots(std::slice::from_ref(authority))?);
        let unusable =
            |error: rustls::server::VerifierBuilderError| rustls::Error::General(error.to_string());
        match self {
            Self::Server(names) => {
                let verifier = WebPkiServerVerifier::builder_with_provider(roots, provider.clone())
                    .build()
                    .map_err(unusable)?;
                for (_, name) in names {
                    match verifier.verify_server_cert(certificate, &[], name, &[], now) {
                        Err(rustls::Error::InvalidCertificate(
                            CertificateError::NotValidForName
                            | CertificateError::NotValidForNameContext { .. },
                        )) => return Ok(false),
                        outcome => outcome?,
                    };
                }
            }
            Self::Admin => {
                let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider.clone())
                    .build()
                    .map_err(unusable)?;
                verifier.verify_client_cert(certificate, &[], now)?;
            }
        }
        Ok(true)
    }
}

/// The parts every certificate made here has.
fn dress(
    params: &mut CertificateParams,
    name: &str,
    group: Option<&str>,
    life: Duration,
    provider: &CryptoProvider,
    now: SystemTime,
) -> Result<(), IdentityError> {
    let mut subject = DistinguishedName::new();
    if let Some(group) = group {
        subject.push(DnType::OrganizationName, group);
    }
    subject.push(DnType::CommonName, name);
    params.distinguished_name = subject;
    // Before 1970 is no time that a certificate can have.
    let backdated = now.checked_sub(BACKDATED).filter(|then| *then > SystemTime::UNIX_EPOCH);
    params.not_before = backdated.unwrap_or(SystemTime::UNIX_EPOCH).into();
    params.not_after = (now + life).into();
    // rcgen would derive it from the key, which a renewed CA keeps: two certificates of one serial confuse clients.
    let mut serial = random::<16>(provider)?;
    serial[0] &= 0x7f;
    params.serial_number = Some(SerialNumber::from(serial.to_vec()));
    Ok(())
}

fn is_signed_by(facts: &der::Facts, signer: &der::Facts, provider: &CryptoProvider) -> bool {
    let algorithms = provider.signature_verification_algorithms.all;
    algorithms
        .iter()
        .any(|one| one.verify_signature(&signer.public_key, &facts.signed, &facts.signature).is_ok())
}

/// Expired, of the future, or with less than a third of its life left.
fn is_worn(facts: &der::Facts, now: SystemTime) -> bool {
    let life = facts.not_after.duration_since(facts.not_before).unwrap_or_default();
    let left = facts.not_after.duration_since(now).unwrap_or_default();
    now < facts.not_before || left < life / 3
}
