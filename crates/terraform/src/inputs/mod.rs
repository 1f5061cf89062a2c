//! Inputs of a workspace: everything that decides what Terraform does, and nothing else.
//!
//! Inputs are kept on disk (0600) from before an apply until after the destroy, because template and Secrets may be gone
//! by then. Their `Debug` shows no value that can be a secret.

pub mod allowed;
mod backend;
mod object;
mod paths;
mod revision;

use std::{collections::BTreeMap, fmt, path::PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use backend::{Place, divisible};
pub(crate) use backend::{is_own_file, place_of};
pub(crate) use paths::Roots;
pub use revision::Revision;
pub(crate) use revision::canonical;

use self::backend::backend_in;
use crate::module::{BackendBlock, Format, Module};

/// All that a run is made from.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct Inputs {
    /// Whose code and credentials these are, such as the namespace of a template; nothing where nobody keeps owners apart.
    #[serde(default)]
    pub origin: Option<String>,
    /// True if that is somebody else than the workspace's owner, who may use them but neither read nor change them.
    #[serde(default)]
    pub lent: bool,
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
    /// Location of the state.
    #[serde(default)]
    pub backend: Backend,
    /// The Terraform workspace that is selected in the backend; nothing for the default one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
    /// Environment of the run, beside the few names every run gets.
    #[serde(default)]
    pub env: BTreeMap<String, EnvValue>,
    /// Credential files by relative path. They are written (0600) into the folder the run starts in, so that a relative path
    /// in `env` or in the configuration finds them. Always sensitive.
    #[serde(default, with = "encoded")]
    pub files: BTreeMap<String, Vec<u8>>,
    /// Binary to run.
    #[serde(default)]
    pub binary: Choice,
    /// Source of provider plugins.
    #[serde(default)]
    pub plugins: Plugins,
    /// Further arguments, by command.
    #[serde(default)]
    pub args: Arguments,
}

impl Inputs {
    /// The owner of the tokens for registries, where plugins are fetched with any.
    pub(crate) fn registry_tokens_of(&self) -> Option<&str> {
        let any = self.plugins.mirror.is_none() && self.env.keys().any(|name| name.starts_with("TF_TOKEN_"));
        self.origin.as_deref().filter(|_| any)
    }

    /// Inputs of a module and nothing else.
    pub fn new(module: Module) -> Self {
        Self {
            origin: None,
            lent: false,
            module,
            variables: BTreeMap::new(),
            var_files: Vec::new(),
            configuration: None,
            backend: Backend::Local,
            workspace: None,
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

    /// Returns true if credentials that were given for these inputs may be used with others: code of the same origin, or the same
    /// code.
    pub(crate) fn lend_to(&self, others: &Self) -> bool {
        let Self { origin, lent, env, files, binary, plugins, .. } = self.clone();
        origin.is_none()
            || origin == others.origin
            || *self == Self { origin, lent, env, files, binary, plugins, ..others.clone() }
    }

    /// Returns true if a plan that code of that origin made is one of these inputs. One without an origin is of a version that
    /// recorded none: enough for the workspace's owner, and not for a lender.
    pub fn may_apply(&self, planned_by: Option<&str>) -> bool {
        self.origin.is_none() || self.origin.as_deref() == planned_by || !self.lent && planned_by.is_none()
    }

    /// Returns true if the state is in a backend, of the inputs or of their module, and not here.
    pub(crate) fn keeps_state_elsewhere(&self, of_module: Option<&BackendBlock>) -> bool {
        let block = match &self.backend {
            Backend::Local => of_module.cloned(),
            Backend::Hcl(text) => match backend_in(text) {
                None => return true,
                block => block,
            },
        };
        // What is missing in a block may be given to `init`.
        block.is_some_and(|block| !block.is_own_file() || self.given_to_init().next().is_some())
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

/// Location of the state.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
pub enum Backend {
    /// In the workspace's folder, and with the state backend where there is one.
    #[default]
    Local,
    /// Backend of this HCL: `backend "s3" { … }`, with or without `terraform { … }` around it. Give each workspace a key of its
    /// own.
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

/// Choice of the binary of a workspace.
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

/// Source of provider plugins.
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
