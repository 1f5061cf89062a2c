//! The text of modules: what they declare, values put into them, provider configuration beside them.
//!
//! Terraform has the last word on its own language. What is read here decides small things only (which variables to pass,
//! whether `init` can be left out), so a text that is not understood must never stop a run: a [`Problem`] is a hint, to be
//! used with [`Declared::default`], which promises nothing. The one exception is [`Declared::refused`].

mod configuration;
mod hcl;
mod json;
mod remembered;
mod substitute;
mod types;
pub(crate) mod values;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    path::Path,
};

use serde::{Deserialize, Serialize};

use crate::beneath::Dir;

pub use configuration::{Configuration, with_configuration, without_backend};
pub use substitute::{changed_by, substitute};
pub use types::{Misfit, misfit};

/// Language of a module or a file of variables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Format {
    /// Terraform's own language.
    #[default]
    #[serde(rename = "HCL")]
    Hcl,
    /// The same in JSON.
    #[serde(rename = "JSON")]
    Json,
}

impl Format {
    /// The name of the file a module of this format goes into.
    pub const fn file_name(self) -> &'static str {
        match self {
            Self::Hcl => "main.tf",
            Self::Json => "main.tf.json",
        }
    }
}

/// A module: its text, or where it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Module {
    /// The text itself.
    Inline {
        /// Text of its one file.
        text: String,
        /// Language of the text.
        #[serde(default)]
        format: Format,
    },
    /// A module from a registry, a repository, a bucket: whatever Terraform takes as a `source`.
    Source {
        /// Source address.
        source: String,
        /// Version constraint; registries only.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        version: Option<String>,
        /// The folder in it to run, where that is not its root.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        entrypoint: Option<String>,
    },
}

/// Declarations of a module. The default is that of an unreadable text: nothing is known, so nothing is left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Declared {
    /// Its variables.
    pub variables: BTreeMap<String, Declaration>,
    /// Its outputs, and whether each is sensitive.
    pub outputs: BTreeMap<String, bool>,
    /// Local names of the providers it uses or asks for, without the built-in `terraform`.
    pub providers: BTreeSet<String>,
    /// Entries of its `required_providers`.
    pub required_providers: BTreeSet<String>,
    /// Its `provider` blocks: name and alias.
    pub provider_blocks: BTreeSet<(String, Option<String>)>,
    /// It calls other modules.
    pub calls_modules: bool,
    /// Nothing has to be installed, so `init` is needless: it uses the built-in provider only, calls no module and has no
    /// `backend` block. (What the state still holds of other providers is for the state to say.)
    pub builtin_only: bool,
    /// The versions of Terraform it asks for.
    pub required_version: Option<String>,
    /// Its `backend` block; an override file replaces it.
    pub backend: Option<BackendBlock>,
    /// It cannot run here, whatever Terraform would make of it.
    pub refused: Option<Problem>,
}

/// A `backend` block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackendBlock {
    /// `s3`, `gcs`, `local`.
    pub kind: String,
    /// The whole of it, as it is written.
    pub text: String,
    /// Its settings; nothing for one that is computed, or a block.
    pub settings: BTreeMap<String, Option<serde_json::Value>>,
}

impl BackendBlock {
    /// Returns true if the state is a file in the folder of the run, as it is without any backend.
    pub(crate) fn is_own_file(&self) -> bool {
        self.kind == "local" && !self.text.contains("\"/")
    }
}

/// A variable.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an argument of the block, and any combination is valid"
)]
pub struct Declaration {
    /// It has no default: a value must be given.
    pub required: bool,
    /// Its value must not be shown.
    pub sensitive: bool,
    /// Its value is in no state and no plan: give it again when a saved plan is applied.
    pub ephemeral: bool,
    /// `null` may be its value, and does not mean the default.
    pub nullable: bool,
    /// Its type as written: `list(string)`.
    pub type_text: Option<String>,
}

/// Syntax error in a text, as far as it can be found without Terraform.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub struct Problem {
    /// In words.
    pub message: String,
    /// The file, where there are several.
    pub file: Option<String>,
    /// The line, from 1.
    pub line: Option<u32>,
    /// The column, from 1.
    pub column: Option<u32>,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(file) = &self.file {
            write!(f, "{file}: ")?;
        }
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        f.write_str(&self.message)
    }
}

/// Parses the declarations of a module's text. Results for recent texts are cached.
pub fn declared(text: &str, format: Format) -> Result<Declared, Problem> {
    remembered::declared(text, format)
}

/// The same, read each time.
pub(crate) fn read(text: &str, format: Format) -> Result<Declared, Problem> {
    let mut collector = Collector::default();
    match format {
        Format::Hcl => hcl::collect(text, &mut collector)?,
        Format::Json => json::collect(text, &mut collector)?,
    }
    Ok(collector.finish())
}

/// Parses the declarations of the module in a folder.
pub fn declared_in_folder(folder: &Path, tofu: bool) -> Result<Declared, Problem> {
    declared_in_package(folder, Path::new(""), tofu)
}

/// Parses the declarations of the module in a folder of a package: all its files; of override files only backends. OpenTofu
/// (`tofu`) also reads `x.tofu`, and then not `x.tf`. Links are followed as far as they stay in the package.
pub(crate) fn declared_in_package(package: &Path, root: &Path, tofu: bool) -> Result<Declared, Problem> {
    let trouble = |name: &str, error: std::io::Error| Problem {
        message: format!("cannot be read: {error}"),
        file: Some(name.to_owned()),
        line: None,
        column: None,
    };
    let folder = |error| trouble(&package.join(root).display().to_string(), error);
    let package = Dir::open(package).map_err(folder)?;
    let names = package.below(root).and_then(|root| root.names(FILES)).map_err(folder)?;
    // Terraform reads files whose names are no text.
    let strange = names.iter().map(|name| name.to_string_lossy()).find(|name| {
        name.contains(char::REPLACEMENT_CHARACTER) && format_of(name, true, &BTreeSet::new()).is_some()
    });
    if let Some(name) = strange {
        let refused = trouble(&name, std::io::Error::other("its name is no text"));
        return Ok(Declared { refused: Some(refused), ..Declared::default() });
    }
    let names: BTreeSet<String> = names.into_iter().filter_map(|name| name.into_string().ok()).collect();
    let (mut collector, mut overrides) = (Collector::default(), Collector::default());
    let mut problem = None;
    for name in &names {
        let Some(format) = format_of(name, tofu, &names) else { continue };
        let into = if overrides_others(name) { &mut overrides } else { &mut collector };
        let bytes = match package.read_within(&root.join(name), LARGEST) {
            Ok(bytes) => bytes,
            // Terraform might read what this does not.
            Err(error) => {
                into.declared.refused.get_or_insert(trouble(name, error));
                continue;
            }
        };
        let text = String::from_utf8_lossy(&bytes);
        let collected = match format {
            Format::Hcl => hcl::collect(&text, into),
            Format::Json => json::collect(&text, into),
        };
        if let Err(found) = collected {
            if let Some(refused) = may_encrypt(&text) {
                into.declared.refused.get_or_insert(Problem { file: Some(name.clone()), ..refused });
            }
            if !overrides_others(name) {
                problem.get_or_insert(Problem { file: Some(name.clone()), ..found });
            }
        }
    }
    // Of what overrides others only that counts which changes where the state is.
    let (mut declared, overrides) = (collector.finish(), overrides.finish());
    declared.builtin_only &= overrides.backend.is_none();
    declared.backend = overrides.backend.or(declared.backend);
    declared.refused = declared.refused.or(overrides.refused);
    match problem {
        Some(problem) if declared.refused.is_none() => Err(problem),
        _ => Ok(declared),
    }
}

/// Returns true if a file overrides parts of others.
fn overrides_others(name: &str) -> bool {
    let stem = name.split('.').next().unwrap_or(name);
    stem == "override" || stem.ends_with("_override")
}

/// A text with an `encryption` block.
fn encrypted(file: Option<String>, line: Option<u32>) -> Problem {
    Problem {
        message: "an `encryption` block hides the state, from which CAPT reads outputs and resources, and may run programs: take the \
                  block out"
            .to_owned(),
        file,
        line,
        column: None,
    }
}

/// Returns a problem if a text that cannot be parsed here may hold an `encryption` block: its name is always written out, in JSON
/// perhaps with escapes.
pub(crate) fn may_encrypt(text: &str) -> Option<Problem> {
    (text.contains("encryption") || text.contains("\\u")).then(|| encrypted(None, None))
}

/// Returns true if Terraform reads a file of that name in the folder it starts in.
pub fn read_by_terraform(name: &[u8]) -> bool {
    const ENDINGS: [&str; 8] =
        [".tf", ".tf.json", ".tofu", ".tofu.json", ".tfvars", ".tfvars.json", ".tfstate", ".lock.hcl"];
    ENDINGS.iter().any(|ending| name.ends_with(ending.as_bytes()))
}

/// The largest text of a module, and the most files of one folder of it.
const LARGEST: u64 = 4 << 20;
const FILES: usize = 100_000;

/// `None` for a file that is no part of a module.
fn format_of(name: &str, tofu: bool, beside: &BTreeSet<String>) -> Option<Format> {
    // As Terraform leaves out what editors leave behind.
    if name.starts_with('.') || name.ends_with('~') || (name.starts_with('#') && name.ends_with('#')) {
        return None;
    }
    let (stem, extension) = [".tf.json", ".tf", ".tofu.json", ".tofu"]
        .into_iter()
        .find_map(|extension| Some((name.strip_suffix(extension)?, extension)))?;
    let for_tofu = extension.starts_with(".tofu");
    if for_tofu && !tofu {
        return None;
    }
    if tofu && !for_tofu && beside.contains(&format!("{stem}{}", extension.replace(".tf", ".tofu"))) {
        return None;
    }
    Some(if extension.ends_with("json") { Format::Json } else { Format::Hcl })
}

/// The source of the provider that needs no installation.
pub(crate) const BUILTIN: &str = "terraform.io/builtin/terraform";

/// Collects declarations for the readers of both formats.
#[derive(Default)]
struct Collector {
    declared: Declared,
    /// Something has to be installed or set up.
    init: bool,
}

impl Collector {
    fn finish(mut self) -> Declared {
        self.declared.builtin_only = !self.init;
        self.declared
    }

    fn uses(&mut self, provider: &str) {
        if provider != "terraform" {
            self.declared.providers.insert(provider.to_owned());
            self.init = true;
        }
    }

    /// A resource, data source or ephemeral resource; the name of its type implies its provider.
    fn object(&mut self, kind: &str, provider: Option<&str>) {
        let implied = kind.split('_').next().unwrap_or(kind);
        self.uses(provider.unwrap_or(implied));
    }

    fn requires(&mut self, provider: &str, source: Option<&str>) {
        self.declared.required_providers.insert(provider.to_owned());
        match source {
            Some(BUILTIN) => {}
            // Also where it goes by the built-in one's name.
            Some(_) => {
                self.declared.providers.insert(provider.to_owned());
                self.init = true;
            }
            None => self.uses(provider),
        }
    }

    fn configures(&mut self, provider: &str, alias: Option<&str>) {
        self.declared.provider_blocks.insert((provider.to_owned(), alias.map(str::to_owned)));
        self.uses(provider);
    }

    fn requires_version(&mut self, constraint: &str) {
        let all = match self.declared.required_version.take() {
            Some(others) => format!("{others}, {constraint}"),
            None => constraint.to_owned(),
        };
        self.declared.required_version = Some(all);
    }

    fn calls_module(&mut self) {
        self.declared.calls_modules = true;
        self.init = true;
    }

    fn has_backend(&mut self, block: BackendBlock) {
        self.declared.backend = Some(block);
        self.init = true;
    }

    fn has_cloud(&mut self, line: Option<u32>) {
        self.init = true;
        self.declared.refused.get_or_insert(Problem {
            message: "a `cloud` block keeps the state in HCP Terraform, where CAPT cannot follow it: take the block out, and \
                      name a backend in the provider configuration instead"
                .to_owned(),
            file: None,
            line,
            column: None,
        });
    }

    /// OpenTofu's key providers may be programs, and would run in `init`, which fills what others rely on.
    fn has_encryption(&mut self, line: Option<u32>) {
        self.init = true;
        self.declared.refused.get_or_insert(encrypted(None, line));
    }

    /// A block that is not known here: it may need anything.
    fn unknown_block(&mut self) {
        self.init = true;
    }
}

#[cfg(test)]
mod tests;
