//! Converts objects of Crossplane's provider-terraform. Pure.

use std::collections::{BTreeMap, BTreeSet};

use capt_terraform::module::{self, Format};
use serde_json::{Value, json};

/// Location of the states that Crossplane's provider keeps.
#[derive(Clone, Debug, PartialEq)]
pub enum States {
    /// In its own folder: they were lost with each of its pods.
    Nowhere,
    /// In Secrets of this namespace, with this suffix.
    Secrets {
        /// Namespace of the Secrets.
        namespace: String,
        /// End of their names.
        suffix: String,
    },
    /// In another backend, in which each workspace selects a Terraform workspace of its own.
    Backend(String),
}

impl States {
    /// The Secret with the state of a workspace.
    pub fn secret(&self, workspace: &str) -> Option<(&str, String)> {
        match self {
            Self::Secrets { namespace, suffix } => Some((namespace, format!("tfstate-{workspace}-{suffix}"))),
            Self::Nowhere | Self::Backend(_) => None,
        }
    }
}

/// A provider config, as CAPT has it.
#[derive(Clone, Debug, PartialEq)]
pub struct Converted {
    /// Its spec.
    pub spec: Value,
    /// Namespaces and names of the Secrets that it reads.
    pub secrets: BTreeSet<(String, String)>,
    /// Location of the states.
    pub states: States,
    /// Tasks left to the user.
    pub notes: Vec<String>,
}

/// Converts a ProviderConfig. States that are in Secrets move into CAPT's own; another backend stays.
pub fn provider_config(name: &str, config: &Value) -> Converted {
    let spec = &config["spec"];
    let mut notes = Vec::new();
    let (credentials, secrets) = credentials(name, spec, &mut notes);
    let text = spec["configuration"].as_str().unwrap_or_default();
    let (states, kept) = states(name, text, spec["backendFile"].as_str(), &mut notes);
    let mut converted = json!({});
    if !credentials.is_empty() {
        converted["credentials"] = credentials.into();
    }
    if !kept.trim().is_empty() {
        converted["configuration"] = kept.into();
    }
    Converted { spec: converted, secrets, states, notes }
}

fn credentials(
    name: &str,
    spec: &Value,
    notes: &mut Vec<String>,
) -> (Vec<Value>, BTreeSet<(String, String)>) {
    let (mut all, mut secrets) = (Vec::new(), BTreeSet::new());
    for credential in spec["credentials"].as_array().into_iter().flatten() {
        let (file, reference) = (&credential["filename"], &credential["secretRef"]);
        match (credential["source"].as_str(), reference["name"].as_str(), reference["namespace"].as_str()) {
            (Some("Secret"), Some(secret), Some(namespace)) => {
                secrets.insert((namespace.to_owned(), secret.to_owned()));
                all.push(json!({"filename": file, "secretRef": reference}));
            }
            (Some("None"), ..) => {}
            (source, ..) => notes.push(format!(
                "ProviderConfig {name}: the credentials for {file} come from {}; give them as a Secret",
                source.unwrap_or("nowhere")
            )),
        }
    }
    (all, secrets)
}

/// Returns the location of the states, and the configuration without the backend, if CAPT keeps them from now on.
fn states(name: &str, text: &str, file: Option<&str>, notes: &mut Vec<String>) -> (States, String) {
    let Ok(declared) = module::declared(text, Format::Hcl) else {
        notes.push(format!("ProviderConfig {name}: its configuration is no HCL; look for a backend in it"));
        return (States::Nowhere, text.to_owned());
    };
    let Some(block) = declared.backend else { return (States::Nowhere, text.to_owned()) };
    let mut settings: BTreeMap<String, Value> =
        block.settings.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
    if let Some(file) = file {
        let wrapped = format!("terraform {{\n  backend \"{}\" {{\n{file}\n}}\n}}\n", block.kind);
        let over = module::declared(&wrapped, Format::Hcl).ok().and_then(|declared| declared.backend);
        settings.extend(over.into_iter().flat_map(|over| over.settings).filter_map(|(k, v)| Some((k, v?))));
    }
    if block.kind != "kubernetes" {
        if file.is_some() {
            notes.push(format!(
                "ProviderConfig {name}: write the settings of its backendFile into its backend block"
            ));
        }
        return (States::Backend(block.kind), text.to_owned());
    }
    let setting = |key: &str| settings.get(key).and_then(Value::as_str).map(str::to_owned);
    let kept = module::without_backend(text).unwrap_or_else(|| text.to_owned());
    let states = States::Secrets {
        namespace: setting("namespace").unwrap_or_else(|| "default".to_owned()),
        suffix: setting("secret_suffix").unwrap_or_default(),
    };
    (states, kept)
}

/// The grant that lets provider configs of a namespace read a Secret of another.
pub fn grant(from: &str, secret: &str) -> Value {
    json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "ReferenceGrant",
        "metadata": {"name": format!("capt-migrate-{from}-{secret}")},
        "spec": {
            "from": [{"group": "infrastructure.cluster.x-k8s.io", "kind": "WorkspaceProviderConfig", "namespace": from}],
            "to": [{"group": "", "kind": "Secret", "name": secret}],
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIGURATION: &str = "terraform {\n  required_providers {\n    aws = { source = \"hashicorp/aws\" }\n  }\n  backend \"kubernetes\" {\n    secret_suffix     = \"eks\"\n    namespace         = \"upbound-system\"\n    in_cluster_config = true\n  }\n}\nprovider \"aws\" {\n  region = \"eu-west-1\"\n}\n";

    fn of(spec: &Value) -> Converted {
        provider_config("aws", &json!({ "spec": spec }))
    }

    #[test]
    fn a_provider_config_becomes_one_of_capt() {
        let converted = of(&json!({
            "configuration": CONFIGURATION,
            "credentials": [{
                "filename": "aws-creds.ini", "source": "Secret",
                "secretRef": {"namespace": "crossplane-system", "name": "aws-creds", "key": "credentials"},
            }],
        }));
        assert_eq!(converted.notes, Vec::<String>::new());
        let states = States::Secrets { namespace: "upbound-system".into(), suffix: "eks".into() };
        assert_eq!(converted.states, states);
        assert_eq!(states.secret("demo-vpc"), Some(("upbound-system", "tfstate-demo-vpc-eks".to_owned())));
        assert!(converted.secrets.contains(&("crossplane-system".to_owned(), "aws-creds".to_owned())));
        let configuration = converted.spec["configuration"].as_str().unwrap();
        assert!(configuration.contains("required_providers") && configuration.contains("provider \"aws\""));
        assert!(
            !configuration.contains("backend") && !configuration.contains("secret_suffix"),
            "{configuration}"
        );
        assert_eq!(converted.spec["credentials"][0]["filename"], "aws-creds.ini");
        assert_eq!(converted.spec["credentials"][0]["secretRef"]["namespace"], "crossplane-system");
    }

    #[test]
    fn another_backend_stays_where_it_is() {
        let text = "terraform {\n  backend \"s3\" {\n    bucket = \"b\"\n    key = \"k\"\n  }\n}\n";
        let converted = of(&json!({ "configuration": text }));
        assert_eq!(converted.states, States::Backend("s3".into()));
        assert_eq!(converted.spec, json!({ "configuration": text }));
        assert_eq!(of(&json!({})).states, States::Nowhere);
    }

    #[test]
    fn what_a_person_has_to_see_to_is_told() {
        let file = of(&json!({
            "configuration": "terraform {\n  backend \"kubernetes\" {}\n}\n", "backendFile": "secret_suffix = \"x\"\nnamespace = \"n\"",
        }));
        assert_eq!(file.states, States::Secrets { namespace: "n".into(), suffix: "x".into() });
        let odd = of(
            &json!({ "configuration": "provider {", "credentials": [{"filename": "a", "source": "Filesystem"}] }),
        );
        assert_eq!(odd.notes.len(), 2, "{:?}", odd.notes);
    }
}
