//! Secrets of a cluster: as each should be, its owner, and the writes that make it so.

use std::collections::BTreeMap;

use capt_api::cluster::CAPTControlPlane;
use capt_api::conditions::reasons;
use capt_api::names::labels;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::{Resource, ResourceExt};

use super::Problem;
use crate::runtime::{Error, Looker, Name, Writer};

/// Cluster API's type of Secrets.
const TYPE: &str = "cluster.x-k8s.io/secret";

/// One Secret as it should be.
#[derive(Clone, PartialEq)]
pub struct WantedSecret {
    /// Its name.
    pub name: Name,
    /// Its content.
    pub data: BTreeMap<String, ByteString>,
}

impl WantedSecret {
    /// The kubeconfig of a cluster.
    pub fn kubeconfig(cluster: &Name, text: &str) -> Self {
        Self {
            name: kubeconfig_name(cluster),
            data: [("value".to_owned(), ByteString(text.as_bytes().to_vec()))].into(),
        }
    }

    /// The CA, under the name of a control plane or a cluster.
    pub fn ca(of: &Name, pem: &str) -> Self {
        let bytes = || ByteString(pem.as_bytes().to_vec());
        Self {
            name: Name::new(of.namespace.clone(), format!("{}-ca", of.name)),
            data: [("tls.crt".to_owned(), bytes()), ("ca.crt".to_owned(), bytes())].into(),
        }
    }
}

/// Name of the Secret with a cluster's kubeconfig.
pub fn kubeconfig_name(cluster: &Name) -> Name {
    Name::new(cluster.namespace.clone(), format!("{}-kubeconfig", cluster.name))
}

/// The one thing to do for a Secret.
#[derive(Clone, Debug, PartialEq)]
pub enum SecretStep {
    /// It is right.
    Rest,
    /// Create it.
    Create(Box<Secret>),
    /// Replace it by this.
    Replace(Box<Secret>),
    /// Its type cannot be changed: delete the one of this uid, and create it.
    Renew(String, Box<Secret>),
}

/// Compares one Secret with what it should be; refuses one that is somebody else's. What it holds is none of the planner's business.
pub fn compare(
    wanted: &WantedSecret,
    found: Option<&Secret>,
    owner: &CAPTControlPlane,
    cluster: &str,
) -> Result<SecretStep, Problem> {
    let owned_by = owner.controller_owner_ref(&()).unwrap_or_default();
    let object = |metadata: ObjectMeta| Secret {
        metadata,
        type_: Some(TYPE.to_owned()),
        data: Some(wanted.data.clone()),
        ..Secret::default()
    };
    let fresh = || {
        Box::new(object(ObjectMeta {
            name: Some(wanted.name.name.clone()),
            namespace: Some(wanted.name.namespace.clone()),
            labels: Some([(labels::CLUSTER_NAME.to_owned(), cluster.to_owned())].into()),
            owner_references: Some(vec![owned_by.clone()]),
            ..ObjectMeta::default()
        }))
    };
    let Some(found) = found else { return Ok(SecretStep::Create(fresh())) };
    if !is_ours(found, &owned_by) {
        let message = format!(
            "Secret {} is somebody else's and stays as it is: {}",
            wanted.name.name,
            found.owner_references().first().map_or_else(
                || "it has no owner; delete it or give it another name".to_owned(),
                |other| format!("it belongs to {} {}", other.kind, other.name)
            )
        );
        return Err(Problem { reason: reasons::SECRET_ERROR, message, waiting: false });
    }
    if found.metadata.deletion_timestamp.is_some() {
        // It goes; word of that brings us back.
        let message = format!("Secret {} is being deleted", wanted.name.name);
        return Err(Problem { reason: reasons::WAITING_FOR_SECRETS, message, waiting: true });
    }
    if found.type_.as_deref() != Some(TYPE) {
        return Ok(SecretStep::Renew(found.uid().unwrap_or_default(), fresh()));
    }
    let mut metadata = found.metadata.clone();
    metadata.labels.get_or_insert_default().insert(labels::CLUSTER_NAME.to_owned(), cluster.to_owned());
    let owners = metadata.owner_references.get_or_insert_default();
    owners.retain(|known| !is_former(known, &owned_by));
    if !owners.iter().any(|known| known.uid == owned_by.uid) {
        owners.push(owned_by);
    }
    let changed = Secret { immutable: found.immutable, ..object(metadata) };
    Ok(if changed == *found { SecretStep::Rest } else { SecretStep::Replace(Box::new(changed)) })
}

/// Returns true if a Secret was made for this control plane, or for one of its name that is no more.
pub fn is_ours(secret: &Secret, owner: &OwnerReference) -> bool {
    secret.owner_references().iter().any(|known| known.uid == owner.uid || is_former(known, owner))
}

fn is_former(known: &OwnerReference, owner: &OwnerReference) -> bool {
    let group = |reference: &OwnerReference| reference.api_version.split('/').next().map(str::to_owned);
    known.uid != owner.uid
        && known.kind == owner.kind
        && known.name == owner.name
        && group(known) == group(owner)
}

/// Reads a Secret, and notes that somebody did.
pub async fn read(writer: &Writer, looker: &mut Looker, name: &Name) -> Result<Option<Secret>, Error> {
    looker.at("Secret", name);
    let mut found = writer.read::<Secret>(name).await?;
    if let Some(secret) = &mut found {
        // Who wrote which field is not ours to send back.
        secret.metadata.managed_fields = None;
    }
    Ok(found)
}

/// Carries out one step.
pub async fn act(writer: &Writer, step: &SecretStep) -> Result<(), Error> {
    match step {
        SecretStep::Rest => Ok(()),
        SecretStep::Create(secret) => writer.create(secret.as_ref()).await.map(drop),
        SecretStep::Replace(secret) => writer.replace(secret.as_ref()).await.map(drop),
        SecretStep::Renew(uid, secret) => {
            writer.delete::<Secret>(&Name::of(secret.as_ref()), uid).await?;
            writer.create(secret.as_ref()).await.map(drop)
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use capt_api::cluster::CAPTControlPlaneSpec;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;

    fn owner() -> CAPTControlPlane {
        let mut owner = CAPTControlPlane::new("cp", CAPTControlPlaneSpec::default());
        owner.metadata.uid = Some("u".into());
        owner
    }

    fn wanted() -> WantedSecret {
        WantedSecret::kubeconfig(&Name::new("n", "c"), "text")
    }

    fn made(change: impl FnOnce(&mut Secret)) -> Secret {
        let SecretStep::Create(secret) = compare(&wanted(), None, &owner(), "c").unwrap() else {
            panic!("it is new")
        };
        let mut secret = *secret;
        secret.metadata.uid = Some("s".into());
        change(&mut secret);
        secret
    }

    #[test]
    fn it_has_the_form_of_cluster_api() {
        let secret = made(|_| ());
        assert_eq!(secret.name_any(), "c-kubeconfig");
        assert_eq!(secret.type_.as_deref(), Some("cluster.x-k8s.io/secret"));
        assert_eq!(secret.labels()["cluster.x-k8s.io/cluster-name"], "c");
        let by = &secret.owner_references()[0];
        assert_eq!((by.kind.as_str(), by.name.as_str(), by.uid.as_str()), ("CAPTControlPlane", "cp", "u"));
        assert_eq!(secret.data.unwrap()["value"].0, b"text");
        let ca = WantedSecret::ca(&Name::new("n", "cp"), "pem");
        assert_eq!(ca.name.name, "cp-ca");
        assert_eq!(ca.data.keys().collect::<Vec<_>>(), ["ca.crt", "tls.crt"]);
    }

    #[test]
    fn only_what_differs_is_written() {
        let step = |found: &Secret| compare(&wanted(), Some(found), &owner(), "c").unwrap();
        assert_eq!(step(&made(|_| ())), SecretStep::Rest);
        let noted = made(|secret| {
            secret.metadata.annotations = Some([("theirs".to_owned(), "stays".to_owned())].into());
        });
        assert_eq!(step(&noted), SecretStep::Rest, "what people note on it is theirs");
        let changes: [fn(&mut Secret); 3] = [
            |secret| secret.data = None,
            |secret| secret.metadata.labels = None,
            |secret| secret.metadata.owner_references.as_mut().unwrap()[0].uid = "former".into(),
        ];
        for change in changes {
            let SecretStep::Replace(changed) = step(&made(change)) else { panic!("it differs") };
            assert_eq!(*changed, made(|_| ()));
        }
        let opaque = made(|secret| secret.type_ = Some("Opaque".into()));
        assert!(matches!(step(&opaque), SecretStep::Renew(uid, _) if uid == "s"));
    }

    #[test]
    fn what_is_somebody_elses_stays() {
        let refused = |found: &Secret| compare(&wanted(), Some(found), &owner(), "c").unwrap_err().message;
        let nobodys = refused(&made(|secret| secret.metadata.owner_references = None));
        assert!(nobodys.starts_with("Secret c-kubeconfig is somebody else's"), "{nobodys}");
        let others = refused(&made(|secret| {
            let other = &mut secret.metadata.owner_references.as_mut().unwrap()[0];
            (other.kind, other.uid) = ("Other".into(), "x".into());
        }));
        assert!(others.ends_with("it belongs to Other cp"), "{others}");
        let going = made(|secret| {
            secret.metadata.deletion_timestamp = Some(Time(jiff::Timestamp::UNIX_EPOCH));
        });
        assert!(compare(&wanted(), Some(&going), &owner(), "c").unwrap_err().waiting);
    }
}
