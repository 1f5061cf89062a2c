//! The place of a state: which settings of a backend name it, however they are given.
//!
//! Two workspaces with one place would destroy each other's infrastructure, so what names a place is compared, and nothing else: the same
//! bucket and key with another comment, profile or log level is the same place. Settings come from a block, `-backend-config` over it,
//! and, for those that are still missing, the environment. Of several spellings of one place, `object` makes one.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{Backend, EnvValue, Inputs, canonical, object};
use crate::hash::sha256;
use crate::module::{self, BackendBlock, Format, Module};

/// Location of a state, as far as inputs tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// With CAPT.
    Here,
    /// In a backend: the hash of what names the place.
    Known(String),
    /// Not known before the module is fetched and initialised.
    Unknown,
}

/// A setting of a backend, and the environment variables that stand in for it.
type Setting = (&'static str, &'static [&'static str]);

/// The settings that name the place of a state, by the kind of backend. Of other kinds all settings count.
const NAMED_BY: &[(&str, &[Setting])] = &[
    ("local", &[("path", &[]), ("workspace_dir", &[])]),
    (
        "s3",
        &[
            ("bucket", &[]),
            ("key", &[]),
            ("endpoints", &[]),
            ("endpoint", &["AWS_ENDPOINT_URL_S3", "AWS_S3_ENDPOINT", "AWS_ENDPOINT_URL"]),
            ("workspace_key_prefix", &[]),
        ],
    ),
    ("gcs", &[("bucket", &[]), ("prefix", &[])]),
    ("azurerm", &[("storage_account_name", &[]), ("container_name", &[]), ("key", &[])]),
    (
        "kubernetes",
        &[
            ("secret_suffix", &[]),
            ("namespace", &["KUBE_NAMESPACE"]),
            ("host", &["KUBE_HOST"]),
            ("config_path", &["KUBE_CONFIG_PATH"]),
            ("config_paths", &["KUBE_CONFIG_PATHS"]),
            ("config_context", &["KUBE_CTX"]),
        ],
    ),
    ("http", &[("address", &["TF_HTTP_ADDRESS"])]),
    ("consul", &[("path", &[]), ("address", &["CONSUL_HTTP_ADDR"]), ("datacenter", &[])]),
    (
        "pg",
        &[
            ("conn_str", &["PG_CONN_STR"]),
            ("schema_name", &["PG_SCHEMA_NAME"]),
            ("table_name", &["PG_TABLE_NAME"]),
        ],
    ),
    ("cos", &[("bucket", &[]), ("region", &["TENCENTCLOUD_REGION"]), ("prefix", &[]), ("key", &[])]),
    ("oss", &[("bucket", &[]), ("region", &["ALICLOUD_REGION"]), ("prefix", &[]), ("key", &[])]),
    ("oci", &[("bucket", &[]), ("namespace", &[]), ("key", &[]), ("workspace_key_prefix", &[])]),
    (
        "remote",
        &[
            ("hostname", &["TF_CLOUD_HOSTNAME"]),
            ("organization", &["TF_CLOUD_ORGANIZATION"]),
            ("workspaces", &[]),
        ],
    ),
];

/// Backends that keep one state alone.
const WITHOUT_WORKSPACES: &[&str] = &["http"];

impl Inputs {
    /// Location of the state.
    pub fn place(&self) -> Place {
        let block = match self.block() {
            Ok(Some(block)) => block,
            Ok(None) => return Place::Here,
            Err(Unread) => return Place::Unknown,
        };
        if block.is_own_file() && self.given_to_init().next().is_none() {
            return Place::Here;
        }
        let counts = named_by(&block.kind);
        let mut settings = BTreeMap::new();
        for (name, value) in &block.settings {
            match value {
                Some(value) => drop(settings.insert(name.clone(), value.clone())),
                // OpenTofu computes it from variables; `init` may give another one.
                None if counts.is_none_or(|counts| counts.iter().any(|(known, _)| known == name)) => {
                    return Place::Unknown;
                }
                None => {}
            }
        }
        settings.extend(self.given_to_init());
        if is_own_file(&block.kind, &settings) {
            return Place::Here;
        }
        Place::Known(place_of(&block.kind, &settings, self))
    }

    /// The block that counts, where it can be told.
    fn block(&self) -> Result<Option<BackendBlock>, Unread> {
        if let Backend::Hcl(text) = &self.backend {
            return backend_in(text).map(Some).ok_or(Unread);
        }
        let Module::Inline { text, format } = &self.module else { return Err(Unread) };
        let of_module = read(text, *format)?;
        let configured = match &self.configuration {
            Some(text) => read(text, Format::Hcl)?,
            None => None,
        };
        match (of_module, configured) {
            // Terraform refuses both.
            (Some(_), Some(_)) => Err(Unread),
            (block, None) | (None, block) => Ok(block),
        }
    }

    /// Settings of the backend among the arguments to `init`.
    pub(super) fn given_to_init(&self) -> impl Iterator<Item = (String, Value)> {
        self.args.init.iter().filter_map(|arg| {
            let (name, setting) = arg.trim_start_matches('-').split_once('=')?;
            let (key, value) = setting.split_once('=').filter(|_| name == "backend-config")?;
            Some((key.to_owned(), Value::from(value)))
        })
    }
}

/// A text that is not understood here, and may name a backend.
struct Unread;

fn read(text: &str, format: Format) -> Result<Option<BackendBlock>, Unread> {
    match module::read(text, format) {
        Ok(declared) => Ok(declared.backend),
        // Its name is always written out, in JSON perhaps with escapes.
        Err(_) if text.contains("backend") || text.contains("\\u") => Err(Unread),
        Err(_) => Ok(None),
    }
}

/// The block in the text of a backend.
pub(super) fn backend_in(text: &str) -> Option<BackendBlock> {
    let wrapped = format!("terraform {{\n{text}\n}}\n");
    // Not remembered: people write keys into backends.
    let read = |text: &str| module::read(text, Format::Hcl).ok()?.backend;
    read(text).or_else(|| read(&wrapped))
}

/// The `backend` block of a provider configuration, if each workspace can have a Terraform workspace of its own in it.
pub fn divisible(text: &str, format: Format) -> Option<BackendBlock> {
    let block = module::read(text, format).ok()?.backend?;
    // Without it the states of other workspaces than the default one would lie in the folder of the run.
    let local = block.kind == "local"
        && !block.settings.get("workspace_dir").is_some_and(|folder| {
            folder.as_ref().and_then(Value::as_str).is_some_and(|folder| folder.starts_with('/'))
        });
    (!local && !WITHOUT_WORKSPACES.contains(&block.kind.as_str())).then_some(block)
}

/// Returns true if a backend with these settings is a file in the folder of the run: `-state` puts it where any other state is.
pub(crate) fn is_own_file(kind: &str, settings: &BTreeMap<String, Value>) -> bool {
    let is_absolute = |value: &Value| value.as_str().is_some_and(|text| text.starts_with('/'));
    kind == "local" && !settings.values().any(is_absolute)
}

fn named_by(kind: &str) -> Option<&'static [Setting]> {
    NAMED_BY.iter().find(|(known, _)| *known == kind).map(|(_, settings)| *settings)
}

/// The hash of the place that a backend with these settings keeps the state of inputs in.
pub(crate) fn place_of(kind: &str, settings: &BTreeMap<String, Value>, inputs: &Inputs) -> String {
    let env = |names: &[&str]| {
        let found = names.iter().find_map(|name| inputs.env.get(*name));
        found.map(|EnvValue { value, .. }| Value::from(value.as_str()))
    };
    let given = |value: &&Value| !value.is_null() && value.as_str() != Some("");
    let named: BTreeMap<&str, Value> = match named_by(kind) {
        Some(counts) => counts
            .iter()
            .filter_map(|(name, from)| {
                let value = settings.get(*name).filter(given).cloned().or_else(|| env(from))?;
                Some((*name, value))
            })
            .collect(),
        None => settings
            .iter()
            .filter(|(_, value)| given(value))
            .map(|(name, value)| (name.as_str(), value.clone()))
            .collect(),
    };
    let workspace = inputs.workspace.as_deref();
    let all = match object::object(kind, &named, workspace) {
        Some(object) => json!({"kind": kind, "object": object}),
        None => json!({"kind": kind, "named": named, "workspace": workspace}),
    };
    sha256([canonical(&all).as_bytes()])[..16].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn s3(settings: &str) -> String {
        format!("terraform {{\n  backend \"s3\" {{\n    {settings}\n  }}\n}}\n")
    }

    fn module(text: &str) -> Inputs {
        Inputs::inline(text)
    }

    fn configured(text: &str) -> Inputs {
        Inputs {
            configuration: Some(text.to_owned()),
            ..Inputs::inline("resource \"terraform_data\" \"a\" {}\n")
        }
    }

    fn backend(text: &str) -> Inputs {
        Inputs { backend: Backend::Hcl(text.to_owned()), ..Inputs::inline("") }
    }

    fn with_init(mut inputs: Inputs, args: &[&str]) -> Inputs {
        inputs.args.init.extend(args.iter().map(|arg| (*arg).to_owned()));
        inputs
    }

    fn with_env(mut inputs: Inputs, name: &str, value: &str) -> Inputs {
        inputs.env.insert(name.to_owned(), EnvValue { value: value.to_owned(), sensitive: true });
        inputs
    }

    fn in_workspace(inputs: Inputs, name: &str) -> Inputs {
        Inputs { workspace: Some(name.to_owned()), ..inputs }
    }

    /// Every way to name one place, and ways to name others.
    #[test]
    fn every_way_to_name_a_backend_counts() {
        let one = s3("bucket = \"b\"\n    key = \"k\"");
        let block = "backend \"s3\" {\n  bucket = \"b\"\n  key = \"k\"\n}";
        let json = r#"{"terraform": {"backend": {"s3": {"key": "k", "bucket": "b"}}}}"#;
        let same = [
            ("the module", module(&one)),
            ("whatever else the module has", module(&(one.clone() + "locals {}\n"))),
            ("a provider configuration", configured(&one)),
            ("a backend", backend(block)),
            ("a backend with terraform around it", backend(&one)),
            ("JSON", Inputs::new(Module::Inline { text: json.to_owned(), format: Format::Json })),
            ("another order, and a comment", module(&s3("# mine\n    key = \"k\"\n    bucket=\"b\""))),
            ("what names no place", module(&s3("bucket = \"b\"\n    key = \"k\"\n    encrypt = true"))),
            (
                "arguments",
                with_init(module(&s3("")), &["-backend-config=bucket=b", "--backend-config=key=k"]),
            ),
            (
                "arguments over the block",
                with_init(configured(&s3("bucket = \"b\"\n    key = \"x\"")), &["-backend-config=key=k"]),
            ),
            ("a log level", with_env(module(&one), "TF_LOG", "debug")),
            ("the value of a variable", with_env(configured(&one), "TF_VAR_x", "1")),
        ];
        let place = same[0].1.place();
        assert!(matches!(place, Place::Known(_)));
        for (what, inputs) in &same {
            assert_eq!(inputs.place(), place, "{what}");
        }
        let other = [
            ("another key", configured(&s3("bucket = \"b\"\n    key = \"other\""))),
            ("another bucket", module(&s3("bucket = \"c\"\n    key = \"k\""))),
            ("another key as an argument", with_init(module(&one), &["-backend-config=key=third"])),
            ("another server", with_env(module(&one), "AWS_ENDPOINT_URL_S3", "http://elsewhere")),
            ("another kind", module(&one.replace("s3", "oss"))),
            ("a Terraform workspace of its own", in_workspace(configured(&one), "a")),
            ("another Terraform workspace", in_workspace(configured(&one), "b")),
        ];
        let mut seen = vec![place];
        for (what, inputs) in &other {
            let place = inputs.place();
            assert!(matches!(place, Place::Known(_)) && !seen.contains(&place), "{what}: {place:?}");
            seen.push(place);
        }
    }

    #[test]
    fn what_the_environment_names_counts_where_the_block_says_nothing() {
        let http = |address: &str| format!("terraform {{\n  backend \"http\" {{\n{address}\n}}\n}}\n");
        let from_env = with_env(module(&http("")), "TF_HTTP_ADDRESS", "http://x/a");
        assert_eq!(from_env.place(), module(&http("address = \"http://x/a\"")).place());
        let block = with_env(module(&http("address = \"http://x/b\"")), "TF_HTTP_ADDRESS", "http://x/a");
        assert_eq!(block.place(), module(&http("address = \"http://x/b\"")).place());
        assert_ne!(block.place(), from_env.place());
    }

    #[test]
    fn what_is_not_known_is_not_taken_for_nothing() {
        let source = Inputs::new(Module::Source { source: "git::x".into(), version: None, entrypoint: None });
        let one = s3("bucket = \"b\"\n    key = \"k\"");
        let rows = [
            ("no backend", module("resource \"terraform_data\" \"a\" {}"), Place::Here),
            ("a file of its own", module("terraform {\n  backend \"local\" {}\n}"), Place::Here),
            ("a module that is not understood", module("resource \"a\" {"), Place::Here),
            ("one that may name a backend", module("terraform { backend \"s3\" {"), Place::Unknown),
            ("a configuration that may", configured("provider \"a\" { backend"), Place::Unknown),
            ("a backend that is not understood", backend("backend \"s3\" {"), Place::Unknown),
            ("a module that is fetched", source, Place::Unknown),
            ("a computed key", module(&s3("bucket = \"b\"\n    key = \"x/${var.name}\"")), Place::Unknown),
            ("both", Inputs { configuration: Some(one.clone()), ..module(&one) }, Place::Unknown),
        ];
        for (what, inputs, expected) in rows {
            assert_eq!(inputs.place(), expected, "{what}");
        }
        let absolute = module("terraform {\n  backend \"local\" {\n    path = \"/var/x\"\n  }\n}");
        assert!(matches!(absolute.place(), Place::Known(_)));
        let computed = s3("bucket = \"b\"\n    key = \"k\"\n    profile = var.profile");
        assert!(matches!(module(&computed).place(), Place::Known(_)), "which names no place");
    }

    #[test]
    fn a_backend_that_keeps_several_states_can_be_divided() {
        let of = |kind: &str, settings: &str| {
            divisible(&format!("terraform {{\n  backend \"{kind}\" {{\n{settings}\n}}\n}}\n"), Format::Hcl)
                .is_some()
        };
        assert!(of("s3", "bucket = \"b\"") && of("kubernetes", "secret_suffix = \"x\""));
        assert!(of("local", "workspace_dir = \"/states\""));
        assert!(!of("local", "path = \"/x\"") && !of("local", "workspace_dir = \"states\""));
        assert!(!of("http", "address = \"http://x\""));
        assert!(divisible("provider \"aws\" {}", Format::Hcl).is_none());
    }
}
