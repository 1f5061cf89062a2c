//! The AWS credentials that a template's runs get: what its provider config and its environment name.
//!
//! A role that a `provider` block assumes, or that a machine has, is not among them: only Terraform knows those.

use std::collections::BTreeMap;

use capt_api::conditions::reasons;
use capt_api::workspace::WorkspaceTemplate;
use kube::ResourceExt;

use super::Problem;
use super::sigv4::Signer;
use crate::runtime::{Error, Looker, Name};
use crate::workspace::apply::definition;
use crate::workspace::apply::prepare::Blocked;
use crate::workspace::apply::values::Reader;
use crate::workspace::context::WorkspaceContext;

/// AWS credentials. No `Debug`: they are not to be shown.
#[derive(Clone, Eq, PartialEq)]
pub struct Credentials {
    key_id: String,
    secret: String,
    session: Option<String>,
    /// The region that goes with them.
    pub region: Option<String>,
}

impl Credentials {
    /// To sign with.
    pub fn signer(&self) -> Signer<'_> {
        Signer { key_id: &self.key_id, secret: &self.secret, session: self.session.as_deref() }
    }
}

impl From<Blocked> for Problem {
    fn from(blocked: Blocked) -> Self {
        Self { reason: blocked.reason, message: blocked.message, waiting: !blocked.terminal }
    }
}

/// Environment and files of a template's runs, as far as they have to do with AWS.
#[derive(Default)]
struct Given {
    env: BTreeMap<String, String>,
    files: Vec<String>,
}

/// Reads the credentials that a workspace in `namespace` gets from its template.
pub async fn read(
    context: &WorkspaceContext,
    looker: &mut Looker,
    template: &WorkspaceTemplate,
    namespace: &str,
) -> Result<Result<Credentials, Problem>, Error> {
    let definition = match definition::read(template) {
        Ok(definition) => definition,
        Err(blocked) => return Ok(Err(blocked.into())),
    };
    let mut given = Given::default();
    let aws: Vec<_> = definition.env.into_iter().filter(|env| env.name.starts_with("AWS_")).collect();
    let mut reader = Reader { context, looker, namespace };
    match reader.env(&aws, &BTreeMap::new()).await? {
        Ok(env) => given.env.extend(env.into_iter().map(|(name, value)| (name, value.value))),
        Err(blocked) => return Ok(Err(blocked.into())),
    }
    if let Some(config) = &definition.provider_config {
        let name = Name::new(template.namespace().unwrap_or_default(), config.clone());
        if let Err(blocked) = provided(&mut reader, &name, &mut given).await? {
            return Ok(Err(blocked.into()));
        }
    }
    Ok(pick(&given).ok_or_else(|| Problem {
        reason: reasons::KUBECONFIG_GENERATION_FAILED,
        message: format!(
            "a token of EKS needs AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, and {} gives none; or ask for eks-exec",
            definition.provider_config.as_ref().map_or_else(
                || format!("WorkspaceTemplate {} names no providerConfigRef that", template.name_any()),
                |config| format!("WorkspaceProviderConfig {config}")
            )
        ),
        waiting: false,
    }))
}

async fn provided(
    reader: &mut Reader<'_>,
    name: &Name,
    given: &mut Given,
) -> Result<Result<(), Blocked>, Error> {
    let config = match reader.provider_config(name) {
        Ok(config) => config,
        Err(blocked) => return Ok(Err(blocked)),
    };
    for credential in &config.spec.credentials {
        let reference = &credential.secret_ref;
        if credential.env.as_ref().is_some_and(|env| !env.starts_with("AWS_")) {
            continue;
        }
        let secret = match reader.credential(&config, reference) {
            Ok(secret) => secret,
            Err(blocked) => return Ok(Err(blocked)),
        };
        let value = match reader.secret_key(&secret, &reference.key).await? {
            Ok((value, _)) => value,
            Err(blocked) => return Ok(Err(blocked)),
        };
        match &credential.env {
            Some(env) => drop(given.env.insert(env.clone(), value)),
            None => given.files.push(value),
        }
    }
    Ok(Ok(()))
}

/// The environment comes first, as it does for the provider; then files in the form of the AWS CLI's.
fn pick(given: &Given) -> Option<Credentials> {
    let env =
        |name: &str| given.env.get(name).map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
    let region = env("AWS_REGION").or_else(|| env("AWS_DEFAULT_REGION"));
    if let (Some(key_id), Some(secret)) = (env("AWS_ACCESS_KEY_ID"), env("AWS_SECRET_ACCESS_KEY")) {
        return Some(Credentials { key_id, secret, session: env("AWS_SESSION_TOKEN"), region });
    }
    let profile = env("AWS_PROFILE").unwrap_or_else(|| "default".into());
    let found = given.files.iter().find_map(|file| in_file(file, &profile))?;
    Some(Credentials { region: region.or(found.region), ..found })
}

/// One profile of a shared credentials file.
fn in_file(text: &str, profile: &str) -> Option<Credentials> {
    let mut values: BTreeMap<&str, &str> = BTreeMap::new();
    let mut inside = false;
    for line in text.lines().map(str::trim) {
        if let Some(section) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            let section = section.trim();
            inside = section.strip_prefix("profile ").unwrap_or(section).trim() == profile;
        } else if inside
            && !line.starts_with(['#', ';'])
            && let Some((key, value)) = line.split_once('=')
        {
            values.insert(key.trim(), value.trim());
        }
    }
    let value = |key: &str| values.get(key).filter(|text| !text.is_empty()).map(|text| (*text).to_owned());
    Some(Credentials {
        key_id: value("aws_access_key_id")?,
        secret: value("aws_secret_access_key")?,
        session: value("aws_session_token"),
        region: value("region"),
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    const FILE: &str = "# keys\n[other]\naws_access_key_id = no\n\n[default]\n aws_access_key_id = AKID \naws_secret_access_key=a/b=\n;x=y\nregion = eu-west-1\n[profile third]\naws_access_key_id = T\naws_secret_access_key = s\n";

    fn picked(
        env: &[(&str, &str)],
        files: &[&str],
    ) -> Option<(String, String, Option<String>, Option<String>)> {
        let given = Given {
            env: env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
            files: files.iter().map(|file| (*file).to_owned()).collect(),
        };
        let found = pick(&given)?;
        Some((found.key_id, found.secret, found.session, found.region))
    }

    #[test]
    fn the_environment_comes_first() {
        let pair = [("AWS_ACCESS_KEY_ID", "A\n"), ("AWS_SECRET_ACCESS_KEY", "S")];
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(picked(&pair, &[FILE]).unwrap(), ("A".into(), "S".into(), None, None));
        let full = [&pair[..], &[("AWS_SESSION_TOKEN", "T"), ("AWS_DEFAULT_REGION", "r")]].concat();
        assert_eq!(picked(&full, &[]).unwrap(), ("A".into(), "S".into(), some("T"), some("r")));
        assert_eq!(picked(&pair[..1], &[]), None);
    }

    #[test]
    fn files_are_those_of_the_aws_cli() {
        let found = picked(&[], &["not that", FILE]).unwrap();
        assert_eq!(found, ("AKID".into(), "a/b=".into(), None, Some("eu-west-1".into())));
        assert_eq!(picked(&[("AWS_PROFILE", "third")], &[FILE]).unwrap().0, "T");
        assert_eq!(picked(&[("AWS_PROFILE", "other")], &[FILE]), None, "half a pair is none");
    }
}
