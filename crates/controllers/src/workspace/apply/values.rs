//! Values that live in other objects: Secrets, ConfigMaps, outputs of other workspaces.

use std::collections::BTreeMap;
use std::sync::Arc;

use capt_api::conditions::{reasons, types};
use capt_api::names::annotations;
use capt_api::refs::KeyRef;
use capt_api::workspace::{
    EnvVar, TemplatedKeyRef, VarFile as VarFileRef, VarFileSource, VariablesFrom, WorkspaceProviderConfig,
    WorkspaceTemplateApply,
};
use capt_terraform::inputs::{EnvValue, VarFile, Variable};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{Api, Resource, ResourceExt};
use serde_json::Value;

use super::super::context::WorkspaceContext;
use super::definition;
use super::prepare::Blocked;
use super::variables::key_of;
use crate::runtime::{Error, Looker, Name, Readable, Referrer, conditions};

/// Reads values for one instance, and notes what it reads.
pub struct Reader<'a> {
    /// Context that is read from.
    pub context: &'a WorkspaceContext,
    /// Looker that notes what is read.
    pub looker: &'a mut Looker,
    /// Namespace of the instance.
    pub namespace: &'a str,
}

/// A value, or why there is none, or why nobody can tell.
pub type Read<T> = Result<Result<T, Blocked>, Error>;

/// Leaves a function that gives a [`Read`] with what blocks it.
macro_rules! unblocked {
    ($read:expr) => {
        match $read {
            Ok(value) => value,
            Err(blocked) => return Ok(Err(blocked)),
        }
    };
}
pub(super) use unblocked;

impl Reader<'_> {
    /// Resolves what the instance's own run refers to. Whoever wrote the reference down, its template included, the
    /// instance asks: it receives what is read.
    pub fn resolve<K: Resource<DynamicType = ()>>(&mut self, name: Name) -> Result<Readable<K>, Blocked> {
        let from = Referrer::of::<WorkspaceTemplateApply>(self.namespace);
        Ok(self.context.grants.read(self.looker, from, name)?)
    }

    /// The provider config of the instance's run, once it may be used and is there.
    pub fn provider_config(&mut self, name: &Name) -> Result<Arc<WorkspaceProviderConfig>, Blocked> {
        let name = self.resolve::<WorkspaceProviderConfig>(name.clone())?;
        self.looker.at("WorkspaceProviderConfig", &name);
        self.context.configs.get(&name).ok_or_else(|| {
            let shown = name.seen_from(self.namespace);
            let message = format!("WorkspaceProviderConfig {shown} does not exist");
            Blocked::waiting(reasons::PROVIDER_CONFIG_NOT_FOUND, message)
        })
    }

    /// A Secret that a provider config names. Here the config asks: who may use the config may use what it holds, and need
    /// not be able to read the Secret itself.
    pub fn credential(
        &mut self,
        config: &WorkspaceProviderConfig,
        reference: &KeyRef,
    ) -> Result<Readable<Secret>, Blocked> {
        let beside = config.namespace().unwrap_or_default();
        let namespace = reference.namespace.as_deref().unwrap_or(&beside);
        let from = Referrer::of::<WorkspaceProviderConfig>(&beside);
        Ok(self.context.grants.read(self.looker, from, Name::new(namespace, reference.name.clone()))?)
    }

    /// A Secret.
    pub async fn secret(&mut self, name: &Readable<Secret>) -> Result<Option<Secret>, Error> {
        self.looker.at("Secret", name);
        let api: Api<Secret> = Api::namespaced(self.context.client.clone(), &name.namespace);
        api.get_opt(&name.name).await.map_err(Error::api(format!("read Secret {name}")))
    }

    /// A ConfigMap.
    pub async fn config_map(&mut self, name: &Readable<ConfigMap>) -> Result<Option<ConfigMap>, Error> {
        self.looker.at("ConfigMap", name);
        let api: Api<ConfigMap> = Api::namespaced(self.context.client.clone(), &name.namespace);
        api.get_opt(&name.name).await.map_err(Error::api(format!("read ConfigMap {name}")))
    }

    /// One key of a Secret, as text, and whether it is to be hidden.
    pub async fn secret_key(&mut self, name: &Readable<Secret>, key: &str) -> Read<(String, bool)> {
        let shown = name.seen_from(self.namespace);
        let (bytes, sensitive) = unblocked!(self.secret_bytes(name, key).await?);
        let not_text = |_| {
            Blocked::terminal(reasons::SECRET_ERROR, format!("key {key:?} of Secret {shown} is not text"))
        };
        Ok(String::from_utf8(bytes).map(|text| (text, sensitive)).map_err(not_text))
    }

    /// One key of a Secret, and whether it is to be hidden.
    pub async fn secret_bytes(&mut self, name: &Readable<Secret>, key: &str) -> Read<(Vec<u8>, bool)> {
        let shown = name.seen_from(self.namespace);
        let missing = |text: String| Err(Blocked::waiting(reasons::SECRET_NOT_FOUND, text));
        let Some(secret) = self.secret(name).await? else {
            return Ok(missing(format!("Secret {shown} does not exist")));
        };
        let sensitive = is_secret(&secret, key);
        match secret.data.unwrap_or_default().remove(key) {
            Some(ByteString(bytes)) => Ok(Ok((bytes, sensitive))),
            None => Ok(missing(format!("Secret {shown} has no key {key:?}"))),
        }
    }

    /// One key of a ConfigMap.
    async fn config_map_key(&mut self, name: &Readable<ConfigMap>, key: &str) -> Read<String> {
        let shown = name.seen_from(self.namespace);
        let missing = |text: String| Err(Blocked::waiting(reasons::CONFIG_MAP_NOT_FOUND, text));
        let Some(map) = self.config_map(name).await? else {
            return Ok(missing(format!("ConfigMap {shown} does not exist")));
        };
        match map.data.unwrap_or_default().remove(key) {
            Some(text) => Ok(Ok(text)),
            None => Ok(missing(format!("ConfigMap {shown} has no key {key:?}"))),
        }
    }

    /// The inputs of one entry of `variablesFrom`. A refused source is not a missing one: also an optional one is waited for,
    /// or the end of a grant would change what is built.
    pub async fn variables(&mut self, from: &VariablesFrom) -> Read<BTreeMap<String, Variable>> {
        let read = if let Some(reference) = &from.workspace_ref {
            let name = unblocked!(self.resolve(Name::mentioned(reference, self.namespace)));
            self.outputs(&name).await?
        } else if let Some(reference) = &from.secret_ref {
            let name = unblocked!(self.resolve(Name::mentioned(reference, self.namespace)));
            self.all_of_secret(&name).await?
        } else if let Some(reference) = &from.config_map_ref {
            let name = unblocked!(self.resolve(Name::mentioned(reference, self.namespace)));
            self.all_of_config_map(&name).await?
        } else {
            Ok(Source::default())
        };
        let source = match read {
            Ok(source) => source,
            Err(_) if from.optional => return Ok(Ok(BTreeMap::new())),
            Err(blocked) => return Ok(Err(blocked)),
        };
        Ok(source.mapped(&from.map, from.optional))
    }

    /// The outputs of another workspace, once it is ready.
    async fn outputs(&mut self, name: &Readable<WorkspaceTemplateApply>) -> Read<Source> {
        self.looker.at("WorkspaceTemplateApply", name);
        let shown = name.seen_from(self.namespace);
        let waiting = |text: String| Blocked::waiting(reasons::WAITING_FOR_WORKSPACE, text);
        let Some(other) = self.context.applies.get(name) else {
            return Ok(Err(waiting(format!("WorkspaceTemplateApply {shown} does not exist"))));
        };
        let status =
            self.context.apply_status.current(other.as_ref(), other.status.as_ref()).unwrap_or_default();
        if !conditions::is_true(&status.conditions, types::READY) {
            return Ok(Err(waiting(format!("WorkspaceTemplateApply {shown} is not ready"))));
        }
        let outputs = self.context.open(name).await?.outputs;
        let values = outputs
            .iter()
            .map(|(key, output)| {
                (key.to_owned(), Variable { value: output.value.clone(), sensitive: output.sensitive })
            })
            .collect();
        Ok(Ok(Source { what: format!("WorkspaceTemplateApply {shown}"), part: "output", values }))
    }

    async fn all_of_secret(&mut self, name: &Readable<Secret>) -> Read<Source> {
        let shown = name.seen_from(self.namespace);
        let Some(secret) = self.secret(name).await? else {
            let text = format!("Secret {shown} does not exist");
            return Ok(Err(Blocked::waiting(reasons::SECRET_NOT_FOUND, text)));
        };
        // A key that is not text can feed no variable; it is missed only where somebody asks for it.
        let text =
            |(key, ByteString(bytes)): (String, ByteString)| Some((key, String::from_utf8(bytes).ok()?));
        let data = secret.data.clone().unwrap_or_default();
        let values = data.into_iter().filter_map(text).map(|(key, text)| {
            let sensitive = is_secret(&secret, &key);
            (key, Variable { value: Value::from(text), sensitive })
        });
        Ok(Ok(Source { what: format!("Secret {shown}"), part: "key", values: values.collect() }))
    }

    async fn all_of_config_map(&mut self, name: &Readable<ConfigMap>) -> Read<Source> {
        let shown = name.seen_from(self.namespace);
        let Some(map) = self.config_map(name).await? else {
            let text = format!("ConfigMap {shown} does not exist");
            return Ok(Err(Blocked::waiting(reasons::CONFIG_MAP_NOT_FOUND, text)));
        };
        let values = map.data.unwrap_or_default().into_iter();
        let values = values.map(|(key, text)| (key, Variable { value: Value::from(text), sensitive: false }));
        Ok(Ok(Source { what: format!("ConfigMap {shown}"), part: "key", values: values.collect() }))
    }

    /// Files with inputs.
    pub async fn var_files(
        &mut self,
        files: &[VarFileRef],
        known: &BTreeMap<String, String>,
    ) -> Read<Vec<VarFile>> {
        let mut read = Vec::with_capacity(files.len());
        for file in files {
            let (secret, reference) = match file.source {
                VarFileSource::ConfigMapKey => (false, file.config_map_key_ref.as_ref()),
                VarFileSource::SecretKey => (true, file.secret_key_ref.as_ref()),
            };
            let Some(reference) = reference else { continue };
            let (content, sensitive) = unblocked!(self.key(reference, secret, known).await?);
            read.push(VarFile { format: definition::format(file.format), content, sensitive });
        }
        Ok(Ok(read))
    }

    /// Environment of the process.
    pub async fn env(
        &mut self,
        env: &[EnvVar],
        known: &BTreeMap<String, String>,
    ) -> Read<BTreeMap<String, EnvValue>> {
        let mut read = BTreeMap::new();
        for variable in env {
            let (value, sensitive) =
                match (&variable.value, &variable.config_map_key_ref, &variable.secret_key_ref) {
                    (Some(value), ..) => (filled(value, known), false),
                    (_, Some(reference), _) => unblocked!(self.key(reference, false, known).await?),
                    (_, _, Some(reference)) => unblocked!(self.key(reference, true, known).await?),
                    (None, None, None) => continue,
                };
            read.insert(variable.name.clone(), EnvValue { value, sensitive });
        }
        Ok(Ok(read))
    }

    async fn key(
        &mut self,
        reference: &TemplatedKeyRef,
        secret: bool,
        known: &BTreeMap<String, String>,
    ) -> Read<(String, bool)> {
        let namespace = reference.namespace.as_deref().map(|namespace| filled(namespace, known));
        let name = Name::new(namespace.as_deref().unwrap_or(self.namespace), filled(&reference.name, known));
        if secret {
            let name = unblocked!(self.resolve(name));
            self.secret_key(&name, &reference.key).await
        } else {
            let name = unblocked!(self.resolve(name));
            Ok(self.config_map_key(&name, &reference.key).await?.map(|text| (text, false)))
        }
    }
}

/// Returns true if the value of a key is to be hidden: whoever may write a Secret may say that it need not be.
fn is_secret(secret: &Secret, key: &str) -> bool {
    let open = secret.metadata.annotations.as_ref().and_then(|notes| notes.get(annotations::NOT_SECRET));
    !open.is_some_and(|list| list.split(',').any(|open| open.trim() == key))
}

/// Everything that one source has.
#[derive(Default)]
struct Source {
    what: String,
    part: &'static str,
    values: BTreeMap<String, Variable>,
}

impl Source {
    /// Maps values to variables; without a map each feeds the variable of its name.
    fn mapped(
        mut self,
        map: &BTreeMap<String, String>,
        optional: bool,
    ) -> Result<BTreeMap<String, Variable>, Blocked> {
        if map.is_empty() {
            return Ok(self.values);
        }
        let mut mapped = BTreeMap::new();
        for (variable, key) in map {
            match self.values.get(key) {
                Some(value) => drop(mapped.insert(variable.clone(), value.clone())),
                None if optional => {}
                None => {
                    let text = format!("{} has no {} {key:?} for variable {variable}", self.what, self.part);
                    return Err(Blocked::waiting(reasons::OUTPUT_NOT_FOUND, text));
                }
            }
        }
        self.values.clear();
        Ok(mapped)
    }
}

/// A text with `${key}` of known keys replaced: names and the like, where nothing needs to be escaped.
pub fn filled(text: &str, known: &BTreeMap<String, String>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        let value = key_of(&from[2..]).and_then(|key| Some((known.get(key)?, &from[key.len() + 3..])));
        let (put, after) = value.map_or(("${", &from[2..]), |(value, after)| (value.as_str(), after));
        out.push_str(put);
        rest = after;
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_keys_are_filled_in_once() {
        let known = BTreeMap::from([("a".to_owned(), "x".to_owned()), ("b".to_owned(), "${a}".to_owned())]);
        let rows = [
            ("plain", "plain"),
            ("${a}-vpc", "x-vpc"),
            ("${b}", "${a}"),
            ("${c}${a", "${c}${a"),
            ("${${a}}", "${x}"),
            ("", ""),
        ];
        for (text, expected) in rows {
            assert_eq!(filled(text, &known), expected, "{text}");
        }
    }
}
