//! Declarations of a module with its configuration, and the files rendered beside it.

use std::path::Path;

use super::is_plain;
use crate::{
    binary::{OLDEST, Program},
    failure::{Failure, Reason},
    inputs::{Backend, Inputs},
    module::{self, Configuration, Declared, Module},
};

/// Lets a binary that was not asked for its version refuse to run where it is too old.
const OLDEST_FILE: &str = "capt_version.tf";

/// Reads the joint declarations of module and configuration, and the files that are rendered into the root of the module. A text
/// that cannot be parsed promises nothing, and Terraform reports the error.
pub(super) fn read_texts(
    inputs: &Inputs,
    package: &Path,
    root: &Path,
    binary: &Program,
) -> Result<(Declared, Vec<(String, String)>), Failure> {
    let mut texts = Vec::new();
    let mut declared = match &inputs.module {
        Module::Inline { text, format } => {
            texts.push((format.file_name().to_owned(), text.clone()));
            let unknown = |_| Declared { refused: module::may_encrypt(text), ..unknown() };
            module::declared(text, *format).unwrap_or_else(unknown)
        }
        Module::Source { .. } => {
            module::declared_in_package(package, root, binary.name == "tofu").unwrap_or_else(|_| unknown())
        }
    };
    if let Some(configuration) = &inputs.configuration {
        let fitted = module::with_configuration(&declared, configuration);
        texts.push((Configuration::FILE.to_owned(), fitted.text));
        texts.extend(fitted.overrides.map(|text| (Configuration::OVERRIDE_FILE.to_owned(), text)));
        declared = fitted.declared;
    }
    if let Backend::Hcl(text) = &inputs.backend {
        let block = if text.trim_start().starts_with("terraform") {
            text.clone()
        } else {
            format!("terraform {{\n{text}\n}}\n")
        };
        let name = if declared.backend.is_some() { "capt_backend_override.tf" } else { "capt_backend.tf" };
        texts.push((name.to_owned(), block));
    }
    let beside = inputs.configuration.iter().chain(match &inputs.backend {
        Backend::Hcl(text) => Some(text),
        Backend::Local => None,
    });
    for text in beside.filter(|text| module::read(text, module::Format::Hcl).is_err()) {
        declared.refused = declared.refused.take().or_else(|| module::may_encrypt(text));
    }
    if is_plain(inputs) {
        let oldest = format!("terraform {{\n  required_version = \">= {OLDEST}\"\n}}\n");
        texts.push((OLDEST_FILE.to_owned(), oldest));
    }
    if let Some(problem) = &declared.refused {
        return Err(Failure::new(Reason::InvalidModule, problem.to_string()));
    }
    Ok((declared, texts))
}

/// A module that is not understood: it may call others.
fn unknown() -> Declared {
    Declared { calls_modules: true, ..Declared::default() }
}

/// Files for `init` in the module's root: those that a run finds there too, and the state if it matters.
pub(super) fn init_files(
    texts: &[(String, String)],
    inputs: &Inputs,
    state: Option<Vec<u8>>,
) -> Vec<(String, Vec<u8>)> {
    let texts = texts.iter().map(|(name, text)| (name.clone(), text.clone().into_bytes()));
    let files = inputs.files.iter().map(|(name, bytes)| (name.clone(), bytes.clone()));
    texts.chain(files).chain(state.map(|bytes| ("terraform.tfstate".to_owned(), bytes))).collect()
}
