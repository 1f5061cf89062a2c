//! Keys of the cache: two workspaces share an entry if their keys are equal.

use std::{collections::BTreeMap, io, path::PathBuf};

use serde_json::json;

use crate::{
    beneath::{Dir, hash},
    binary::Program,
    hash::sha256,
    inputs::{Backend, Inputs, canonical},
    module::{self, Module},
    order::WorkspaceId,
};

/// The folder of a module that lies on this machine, with the part below it that is the root.
pub(crate) fn local_folder(module: &Module) -> Option<(PathBuf, PathBuf)> {
    let Module::Source { source, .. } = module else { return None };
    let path = source.strip_prefix("file://").unwrap_or(source);
    if !path.starts_with('/') {
        return None;
    }
    let (package, below) = path.split_once("//").unwrap_or((path, ""));
    Some((PathBuf::from(package), PathBuf::from(below)))
}

/// The files of a module that lies on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ModuleFiles {
    /// Tells them apart from others: an edit must reach the infrastructure.
    pub hash: String,
    pub folder: PathBuf,
}

impl ModuleFiles {
    /// Those in a folder as they are now. Its path has no links.
    pub fn of(folder: PathBuf) -> io::Result<Self> {
        Ok(Self { hash: hash(&Dir::real(&folder)?)?, folder })
    }
}

/// Returns true if nothing has to be initialised, as far as the inputs tell: then any version of the binary does the same.
pub(crate) fn is_plain(inputs: &Inputs) -> bool {
    let Module::Inline { text, format } = &inputs.module else { return false };
    inputs.configuration.is_none()
        && inputs.backend == Backend::Local
        && inputs.args.init.is_empty()
        && module::declared(text, *format)
            .is_ok_and(|declared| declared.builtin_only && declared.backend.is_none())
}

/// The name of an entry. Workspaces with a backend of their own are never of one entry: what `init` leaves behind names the backend.
pub(crate) fn key(
    inputs: &Inputs,
    binary: &Program,
    content: Option<&str>,
    workspace: Option<&WorkspaceId>,
    tenant: Option<&str>,
) -> String {
    let backend = match &inputs.backend {
        Backend::Local => None,
        Backend::Hcl(text) => Some(text),
    };
    let version = binary.version.as_ref().filter(|_| !is_plain(inputs));
    // What was fetched with somebody's credentials is for nobody who lacks them: not in another namespace, nor, where they were lent
    // with a template, for other templates of the one that borrowed them.
    let private = (!inputs.env.is_empty() || !inputs.files.is_empty()) && !is_plain(inputs);
    let tenant = tenant.filter(|_| private);
    let origin = inputs.origin.as_ref().filter(|_| private);
    let mut all = json!({
        "module": inputs.module, "content": content, "configuration": inputs.configuration, "backend": backend,
        "workspace": workspace, "tenant": tenant, "origin": origin, "binary": binary.path, "version": version,
        "plugins": inputs.plugins, "init": inputs.args.init,
    });
    // OpenTofu takes the sources of modules, and settings of backends, from values of variables.
    let is_value = |name: &str| name.starts_with("TF_VAR_") && binary.name == "tofu" && !is_plain(inputs);
    let values = inputs.env.iter().filter(|(name, _)| is_value(name));
    let values: BTreeMap<_, _> = values.map(|(name, value)| (name, &value.value)).collect();
    if !values.is_empty() {
        all["values"] = json!(values);
    }
    // Its plugins are linked from a cache of their own.
    if inputs.registry_tokens_of().is_some() {
        all["tokens"] = json!(true);
    }
    sha256([canonical(&all).as_bytes()])[..24].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inputs::EnvValue;

    #[test]
    fn what_was_fetched_with_lent_credentials_is_for_their_template() {
        let module = Module::Source {
            source: "git::https://example.com/private.git".into(),
            version: None,
            entrypoint: None,
        };
        let inputs = |origin: &str, token: Option<&str>| {
            let mut inputs =
                Inputs { module: module.clone(), origin: Some(origin.into()), ..Inputs::inline("") };
            let value = |token: &str| EnvValue { value: token.into(), sensitive: true };
            inputs.env = token.map(|token| ("TOKEN".into(), value(token))).into_iter().collect();
            inputs
        };
        let binary = Program { name: "tofu".into(), path: "/bin/tofu".into(), version: None };
        let name = |inputs: &Inputs, tenant: &str| key(inputs, &binary, None, None, Some(tenant));
        let lent = name(&inputs("owner", Some("of the owner")), "b");
        assert_ne!(lent, name(&inputs("b", Some("of b")), "b"), "a template of its own with the same source");
        assert_ne!(lent, name(&inputs("owner", Some("of the owner")), "c"), "another namespace");
        assert_eq!(lent, name(&inputs("owner", Some("renewed")), "b"), "once for all instances");
        let open = name(&inputs("owner", None), "b");
        assert_eq!(open, name(&inputs("b", None), "c"), "without credentials it is everybody's");
    }
}
