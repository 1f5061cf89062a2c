//! State files (format 4), read as they are: outputs, addresses and secrets without starting a process.
//!
//! A state is read, never written. Attributes are parsed only where the state marks some of them sensitive, so a state of
//! tens of megabytes costs little more than its own bytes.

mod address;
mod identity;
mod secrets;

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};

/// Why a state cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// Nothing is in it. A state that was never written has no file at all: an empty one was cut short, and must not pass for
    /// "there is nothing to destroy".
    #[error("the state is empty (0 bytes of JSON): it was cut short while it was written")]
    Empty,
    /// OpenTofu's state encryption.
    #[error(
        "the state is encrypted by OpenTofu: CAPT reads outputs and resources from the state, so take the `encryption` block out (with `fallback`, see OpenTofu's documentation) or keep it outside of CAPT"
    )]
    Encrypted,
    /// Another format.
    #[error("the state has format version {version}, written by {by}; this program reads version 4")]
    Version {
        /// Its format.
        version: u64,
        /// Terraform's version in it.
        by: String,
    },
    /// Not JSON, or not of the shape of a state.
    #[error("the state cannot be read: {0}")]
    Malformed(#[source] serde_json::Error),
}

/// A state.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct State {
    /// Counts the writes.
    pub serial: u64,
    /// Names the line of states this one is of.
    pub lineage: String,
    /// Version of the program that wrote it. OpenTofu writes its own version here too.
    pub terraform_version: String,
    /// The outputs of the root module. One whose value is null is not in a state.
    pub outputs: BTreeMap<String, Output>,
    /// Resources that a destroy would remove: every object, also tainted and deposed ones, without data sources.
    pub resources: Vec<Resource>,
    /// Sources of the providers of those objects (`registry.terraform.io/hashicorp/aws`): what an operation on this state
    /// needs installed, also where the module no longer uses it.
    pub providers: BTreeSet<String>,
    /// Values that must not be shown: those of sensitive outputs, and of attributes the state marks sensitive.
    pub secrets: Vec<String>,
}

/// An output of the root module.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Output {
    /// Its value. Numbers beyond 64 bits lose digits.
    pub value: Value,
    /// It must not be shown.
    #[serde(default)]
    pub sensitive: bool,
}

/// The outputs of a workspace, in the order of their names. Packed and shared, since everything that is known of a workspace
/// is kept in memory and handed out at each look: a map would be mostly room to grow.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outputs(Arc<[(String, Output)]>);

impl Outputs {
    /// One of them.
    pub fn get(&self, name: &str) -> Option<&Output> {
        self.iter().find(|(known, _)| *known == name).map(|(_, output)| output)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Output)> {
        self.0.iter().map(|(name, output)| (name.as_str(), output))
    }
}

impl From<BTreeMap<String, Output>> for Outputs {
    fn from(outputs: BTreeMap<String, Output>) -> Self {
        Self(outputs.into_iter().collect())
    }
}

/// An object that Terraform manages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resource {
    /// Its address, with modules and index keys: `module.m["k"].aws_instance.a[0]`.
    pub address: String,
    /// The next apply replaces it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tainted: bool,
    /// It was replaced and is still to be destroyed. The same address is then also that of its successor.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub deposed: bool,
    /// Its id, as streams tell it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
}

/// Types whose ids say what they hold, and not which object they are.
const OF_CONTENT: [&str; 4] = ["random_", "local_", "tls_", "time_"];
/// Shorter ids are words: `none`, `static`.
const SHORTEST_ID: usize = 8;

impl Resource {
    /// The type and the id, where these are those of one object alone.
    fn identity(&self) -> Option<(&str, &str)> {
        let id = self.id.as_deref().filter(|id| id.len() >= SHORTEST_ID)?;
        let kind = self.kind()?;
        (!OF_CONTENT.iter().any(|start| kind.starts_with(start))).then_some((kind, id))
    }

    /// The type in the address: `aws_instance` of `module.m["k.1"].aws_instance.a[0]`.
    fn kind(&self) -> Option<&str> {
        let (mut depth, mut starts) = (0_usize, vec![0]);
        for (at, byte) in self.address.bytes().enumerate() {
            match byte {
                b'[' => depth += 1,
                b']' => depth = depth.saturating_sub(1),
                b'.' if depth == 0 => starts.push(at + 1),
                _ => {}
            }
        }
        let [.., kind, name] = starts[..] else { return None };
        self.address.get(kind..name - 1)
    }
}

impl State {
    /// Reads a state file.
    pub fn read(bytes: &[u8]) -> Result<Self, StateError> {
        if bytes.trim_ascii().is_empty() {
            return Err(StateError::Empty);
        }
        let head: Head<'_> = serde_json::from_slice(bytes).map_err(StateError::Malformed)?;
        if head.encrypted_data.is_some() {
            return Err(StateError::Encrypted);
        }
        if let Some(version) = head.version.filter(|version| *version != 4) {
            return Err(StateError::Version { version, by: head.terraform_version.into_owned() });
        }
        let file: File<'_> = serde_json::from_slice(bytes).map_err(StateError::Malformed)?;
        file.into_state(head).map_err(StateError::Malformed)
    }

    /// True where no provider has to be installed for what the state holds.
    pub fn builtin_only(&self) -> bool {
        self.providers.iter().all(|source| source == crate::module::BUILTIN)
    }

    /// All at an address: the object of now, and those that it replaced and that are still to be destroyed.
    pub fn at<'a>(&'a self, address: &'a str) -> impl Iterator<Item = &'a Resource> {
        self.resources.iter().filter(move |resource| resource.address == address)
    }

    /// Returns true if the state holds an object that a stream reported. One whose id cannot be told from its attributes is assumed
    /// to be it.
    pub fn holds(&self, address: &str, id: &str) -> bool {
        let is_it =
            |resource: &Resource| resource.id.as_deref().map_or(!resource.deposed, |known| known == id);
        self.at(address).any(is_it)
    }

    /// Returns true if both have the same objects.
    pub fn same_objects(&self, other: &Self) -> bool {
        fn objects(state: &State) -> Vec<(&str, Option<&str>)> {
            let mut objects: Vec<_> = Vec::with_capacity(state.resources.len());
            objects.extend(state.resources.iter().map(|object| (&*object.address, object.id.as_deref())));
            objects.sort_unstable();
            objects
        }
        objects(self) == objects(other)
    }

    /// Returns true if an object is in both: under one address, or under another as after `moved` or a replacement. One whose id is not
    /// known is taken to be the one at its address.
    pub fn overlaps(&self, other: &Self) -> bool {
        let known: BTreeMap<_, _> =
            other.resources.iter().map(|object| ((&*object.address, object.deposed), &object.id)).collect();
        let ids: BTreeSet<_> = other.resources.iter().filter_map(Resource::identity).collect();
        self.resources.iter().any(|object| match known.get(&(&*object.address, object.deposed)) {
            Some(Some(id)) if object.id.as_ref().is_none_or(|own| own == id) => true,
            Some(None) => true,
            _ => object.identity().is_some_and(|identity| ids.contains(&identity)),
        })
    }

    /// True where nothing is left to destroy.
    pub fn is_empty(&self) -> bool {
        self.resources.is_empty()
    }
}

/// Header that is read before anything else is trusted.
#[derive(Deserialize)]
struct Head<'a> {
    version: Option<u64>,
    #[serde(default, borrow)]
    terraform_version: Cow<'a, str>,
    #[serde(borrow)]
    encrypted_data: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct File<'a> {
    /// Asked for, so that any JSON object does not pass for a state.
    #[serde(rename = "version")]
    _version: u64,
    serial: u64,
    #[serde(borrow)]
    lineage: Cow<'a, str>,
    #[serde(default)]
    outputs: Option<BTreeMap<String, Output>>,
    #[serde(default, borrow)]
    resources: Option<Vec<Object<'a>>>,
}

/// A `resource` or `data` block: one address, many instances.
#[derive(Deserialize)]
struct Object<'a> {
    #[serde(default, borrow)]
    module: Option<Cow<'a, str>>,
    #[serde(borrow)]
    mode: Cow<'a, str>,
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(default, borrow)]
    provider: Cow<'a, str>,
    #[serde(default, borrow)]
    instances: Option<Vec<Instance<'a>>>,
}

#[derive(Deserialize)]
struct Instance<'a> {
    #[serde(default)]
    index_key: Option<Value>,
    #[serde(default, borrow)]
    status: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    deposed: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    attributes: Option<&'a RawValue>,
    #[serde(default)]
    sensitive_attributes: Option<Vec<Value>>,
}

impl File<'_> {
    fn into_state(self, head: Head<'_>) -> Result<State, serde_json::Error> {
        let Self { _version, serial, lineage, outputs, resources } = self;
        let outputs = outputs.unwrap_or_default();
        let mut found = secrets::Secrets::default();
        for output in outputs.values().filter(|output| output.sensitive) {
            found.all_of(&output.value);
        }
        let mut managed = Vec::new();
        let mut providers = BTreeSet::new();
        for object in resources.unwrap_or_default() {
            for instance in object.instances.as_deref().unwrap_or_default() {
                found.marked(
                    instance.attributes,
                    instance.sensitive_attributes.as_deref().unwrap_or_default(),
                )?;
                // Data sources are read, not owned; what else may come (`list`, `ephemeral`) is neither.
                if object.mode == "managed" {
                    providers.insert(source(&object.provider).to_owned());
                    managed.push(Resource {
                        address: address::of(&object, instance),
                        tainted: instance.status.as_deref() == Some("tainted"),
                        deposed: instance.deposed.as_deref().is_some_and(|key| !key.is_empty()),
                        id: instance.attributes.and_then(identity::of),
                    });
                }
            }
        }
        Ok(State {
            serial,
            lineage: lineage.into_owned(),
            terraform_version: head.terraform_version.into_owned(),
            outputs,
            resources: managed,
            providers,
            secrets: found.into_values(),
        })
    }
}

/// `registry.terraform.io/hashicorp/aws` of `module.m.provider["registry.terraform.io/hashicorp/aws"].west`.
fn source(provider: &str) -> &str {
    let quoted = provider.split_once("provider[\"").and_then(|(_, rest)| rest.split_once("\"]"));
    quoted.map_or(provider, |(source, _)| source)
}

#[cfg(test)]
mod tests;
