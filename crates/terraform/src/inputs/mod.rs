//! What a workspace is made from: everything that decides what Terraform does, and nothing else.
//!
//! Inputs are kept on disk (0600) from before an apply until after the destroy, because template and Secrets may be gone
//! by then. Their `Debug` shows no value that can be a secret.

mod revision;

use std::{collections::BTreeMap, fmt, path::PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use revision::Revision;
pub(crate) use revision::{canonical, sha256};

use crate::module::{self, Format, Module};

/// All that a run is made from.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct Inputs {
    /// The module.
    pub module: Module,
    /// Values of its variables. They win over `var_files`.
    #[serde(default)]
    pub variables: BTreeMap<String, Variable>,
    /// Files of values; later ones win.
    #[serde(default)]
    pub var_files: Vec<VarFile>,
    /// HCL of the provider configuration.
    #[serde(default)]
    pub configuration: Option<String>,
    /// Where the state is.
    #[serde(default)]
    pub backend: Backend,
    /// Environment of the run, beside the few names every run gets.
    #[serde(default)]
    pub env: BTreeMap<String, EnvValue>,
    /// Credential files by relative path. They are written (0600) into the folder the run starts in, so that a relative path
    /// in `env` or in the configuration finds them. Always sensitive.
    #[serde(default, with = "encoded")]
    pub files: BTreeMap<String, Vec<u8>>,
    /// Which binary.
    #[serde(default)]
    pub binary: Choice,
    /// Where provider plugins come from.
    #[serde(default)]
    pub plugins: Plugins,
    /// Further arguments, by command.
    #[serde(default)]
    pub args: Arguments,
}

impl Inputs {
    /// Inputs of a module and nothing else.
    pub fn new(module: Module) -> Self {
        Self {
            module,
            variables: BTreeMap::new(),
            var_files: Vec::new(),
            configuration: None,
            backend: Backend::Local,
            env: BTreeMap::new(),
            files: BTreeMap::new(),
            binary: Choice::default(),
            plugins: Plugins::default(),
            args: Arguments::default(),
        }
    }

    /// Inputs of an inline HCL module and nothing else.
    pub fn inline(text: impl Into<String>) -> Self {
        Self::new(Module::Inline { text: text.into(), format: Format::Hcl })
    }

    /// A hash of the backend that keeps the state: workspaces with the same one would share it. Nothing where the state is kept
    /// here, or where it is not known before the module is fetched.
    pub fn backend_hash(&self) -> Option<String> {
        let block = match (&self.backend, &self.module) {
            (Backend::Hcl(text), _) => {
                let wrapped = format!("terraform {{\n{text}\n}}\n");
                // Not remembered: people write keys into backends.
                let read = |text: &str| module::read(text, Format::Hcl).ok()?.backend;
                read(text).or_else(|| read(&wrapped))?
            }
            (Backend::Local, Module::Inline { text, format }) => {
                module::declared(text, *format).ok()?.backend?
            }
            (Backend::Local, Module::Source { .. }) => return None,
        };
        // A file with a relative path is in the workspace's own folder.
        if block.kind == "local" && !block.text.contains("\"/") {
            return None;
        }
        // The rest of a block can be given to `init`, or in the environment.
        let env = self.env.iter().filter(|(name, _)| name.starts_with("TF_"));
        let env = env.flat_map(|(name, value)| [name.as_bytes(), value.value.as_bytes()]);
        let args = self.args.init.iter().map(String::as_bytes);
        Some(sha256([block.text.as_bytes()].into_iter().chain(args).chain(env))[..16].to_owned())
    }
}

impl fmt::Debug for Inputs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inputs")
            .field("variables", &self.variables.keys().collect::<Vec<_>>())
            .field("var_files", &self.var_files.len())
            .field("env", &self.env.keys().collect::<Vec<_>>())
            .field("files", &self.files.keys().collect::<Vec<_>>())
            .field("binary", &self.binary)
            .field("plugins", &self.plugins)
            .finish_non_exhaustive()
    }
}

/// The value of a variable, of any type.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct Variable {
    /// The value.
    pub value: Value,
    /// Never shown.
    #[serde(default)]
    pub sensitive: bool,
}

impl<V: Into<Value>> From<V> for Variable {
    fn from(value: V) -> Self {
        Self { value: value.into(), sensitive: false }
    }
}

/// A file of values.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct VarFile {
    /// Its syntax.
    pub format: Format,
    /// Its text.
    pub content: String,
    /// Every value in it is never shown.
    #[serde(default)]
    pub sensitive: bool,
}

/// Where the state is.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
pub enum Backend {
    /// In the workspace's folder, and with the keeper where there is one.
    #[default]
    Local,
    /// Where this HCL says: `backend "s3" { … }`, with or without `terraform { … }` around it. Give each workspace a key of
    /// its own.
    Hcl(String),
}

/// A value of the environment.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnvValue {
    /// The value.
    pub value: String,
    /// Never shown.
    #[serde(default)]
    pub sensitive: bool,
}

/// Which binary runs a workspace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Choice {
    /// Its name.
    #[serde(default)]
    pub name: BinaryName,
    /// Versions that will do, as in `required_version`.
    #[serde(default)]
    pub constraint: Option<String>,
}

/// Names of binaries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum BinaryName {
    /// OpenTofu where it is installed, else Terraform.
    #[default]
    Auto,
    /// OpenTofu.
    Tofu,
    /// Terraform.
    Terraform,
}

/// Where provider plugins come from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plugins {
    /// A folder of plugins (`HOST/NAMESPACE/TYPE/…`): nothing is downloaded.
    #[serde(default)]
    pub mirror: Option<PathBuf>,
    /// A folder that downloads are kept in; the engine has one of its own where this is `None`.
    #[serde(default)]
    pub cache: Option<PathBuf>,
}

/// Further arguments, by command.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arguments {
    /// To `init`.
    #[serde(default)]
    pub init: Vec<String>,
    /// To `plan`, also to that of an apply.
    #[serde(default)]
    pub plan: Vec<String>,
    /// To `apply`.
    #[serde(default)]
    pub apply: Vec<String>,
    /// To `destroy`.
    #[serde(default)]
    pub destroy: Vec<String>,
}

/// Bytes in JSON: base64.
mod encoded {
    use std::collections::BTreeMap;

    use base64::{Engine, prelude::BASE64_STANDARD};
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

    pub fn serialize<S: Serializer>(files: &BTreeMap<String, Vec<u8>>, to: S) -> Result<S::Ok, S::Error> {
        files
            .iter()
            .map(|(name, bytes)| (name, BASE64_STANDARD.encode(bytes)))
            .collect::<BTreeMap<_, _>>()
            .serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<String, Vec<u8>>, D::Error> {
        BTreeMap::<String, String>::deserialize(from)?
            .into_iter()
            .map(|(name, text)| Ok((name, BASE64_STANDARD.decode(text).map_err(D::Error::custom)?)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backend_tells_workspaces_apart() {
        let of = |text: &str| Inputs::inline(text).backend_hash();
        let s3 = |key: &str| format!("terraform {{\n  backend \"s3\" {{\n    key = \"{key}\"\n  }}\n}}\n");
        assert_eq!(of("resource \"terraform_data\" \"a\" {}"), None);
        assert_eq!(of("terraform {\n  backend \"local\" {}\n}"), None, "in its own folder");
        assert!(of("terraform {\n  backend \"local\" {\n    path = \"/var/x\"\n  }\n}").is_some());
        let one = of(&s3("one"));
        assert!(one.is_some());
        assert_eq!(one, of(&(s3("one") + "locals {}\n")), "whatever else the module has");
        assert_ne!(one, of(&s3("two")));

        let configured = |text: &str| {
            let mut inputs = Inputs::inline("");
            inputs.backend = Backend::Hcl(text.to_owned());
            inputs
        };
        assert_eq!(configured("backend \"s3\" {\n    key = \"one\"\n  }").backend_hash(), one);
        assert_eq!(configured(&s3("one")).backend_hash(), one);
        let mut partial = configured(&s3("one"));
        partial.args.init.push("-backend-config=bucket=b".into());
        assert_ne!(partial.backend_hash(), one);
    }
}
