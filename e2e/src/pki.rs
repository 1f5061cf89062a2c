//! Keys and certificates of one throw-away control plane: a CA, a server, an administrator, the token signer.
//!
//! One CA signs both the server and its clients; nothing here outlives the folder of the control plane.

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};

/// PEM texts, ready to be written to files.
pub struct Pki {
    pub ca: String,
    pub server: Identity,
    pub admin: Identity,
    /// Signs service-account tokens; kube-apiserver takes the public half only as a file of its own.
    pub token_key: String,
    pub token_public_key: String,
}

/// A certificate and its private key.
pub struct Identity {
    pub certificate: String,
    pub key: String,
}

/// The names by which tests, and webhooks that pose as in-cluster clients, reach the server.
const SERVER_NAMES: [&str; 3] = ["127.0.0.1", "localhost", "kubernetes.default.svc"];

/// Who the administrator is. Members of `system:masters` pass every authorization check of kube-apiserver.
const ADMIN: (&str, &str) = ("capt-e2e-admin", "system:masters");

impl Pki {
    pub fn generate() -> Result<Self, rcgen::Error> {
        let mut ca = CertificateParams::default();
        ca.distinguished_name.push(DnType::CommonName, "capt-e2e");
        ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        ca.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let ca = CertifiedIssuer::self_signed(ca, KeyPair::generate()?)?;

        let mut server = CertificateParams::new(SERVER_NAMES.map(String::from))?;
        server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];

        let mut admin = CertificateParams::default();
        admin.distinguished_name.push(DnType::CommonName, ADMIN.0);
        admin.distinguished_name.push(DnType::OrganizationName, ADMIN.1);
        admin.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];

        let token_key = KeyPair::generate()?;
        Ok(Self {
            server: Identity::signed(&server, &ca)?,
            admin: Identity::signed(&admin, &ca)?,
            token_public_key: token_key.public_key_pem(),
            token_key: token_key.serialize_pem(),
            ca: ca.pem(),
        })
    }
}

impl Identity {
    fn signed(params: &CertificateParams, ca: &CertifiedIssuer<'_, KeyPair>) -> Result<Self, rcgen::Error> {
        let key = KeyPair::generate()?;
        Ok(Self { certificate: params.signed_by(&key, ca)?.pem(), key: key.serialize_pem() })
    }
}
