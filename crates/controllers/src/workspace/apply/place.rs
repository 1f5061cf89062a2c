//! Place of an instance's state: the backend, and the Terraform workspace in it.

use std::collections::BTreeMap;

use capt_api::conditions::reasons;
use capt_api::workspace::{BackendKind, WorkspaceProviderConfig};
use capt_terraform::inputs::{Backend, Inputs, Place, divisible};
use capt_terraform::module::{self, Format, Module};
use capt_terraform::view::{Selected, View};
use kube::ResourceExt;

use super::backends;
use super::prepare::{Blocked, KnownInstance};
use super::values::{Read, Reader};
use crate::runtime::Name;

/// Returns the backend that holds the state. One backend block serves many workspaces, so it must tell them apart.
pub fn backend(
    config: &WorkspaceProviderConfig,
    namespace: &str,
    known: &BTreeMap<String, String>,
) -> Result<Backend, Blocked> {
    let (BackendKind::Hcl, Some(text)) = (config.spec.backend.kind, &config.spec.backend.hcl) else {
        // In Secrets or not: the state a run sees is a file, and the engine's state backend carries it.
        return Ok(Backend::Local);
    };
    let elsewhere = config.namespace().as_deref() != Some(namespace);
    let needed = ["${WORKSPACE_NAME}", "${WORKSPACE_NAMESPACE}"];
    for name in needed.iter().take(if elsewhere { 2 } else { 1 }) {
        if !text.contains(name) {
            let message = format!(
                "the backend of WorkspaceProviderConfig {} has no {name}: its workspaces would share one state",
                config.name_any()
            );
            return Err(Blocked::terminal(reasons::INVALID, message));
        }
    }
    Ok(Backend::Hcl(module::substitute(text, Format::Hcl, known)))
}

/// The hash of the backend of an instance, which no other instance may use.
pub async fn own_backend(
    reader: &mut Reader<'_>,
    name: &Name,
    inputs: &Inputs,
    view: &View,
) -> Read<Option<String>> {
    let hash = match inputs.place() {
        Place::Here => None,
        Place::Known(hash) => Some(hash),
        // As the engine found it; before the first run it has to know of all that may have it.
        Place::Unknown if view.touched => view.backend.clone(),
        Place::Unknown => {
            backends::open_all(reader.context).await?;
            None
        }
    };
    let Some(hash) = hash else {
        reader.context.backends.none(name);
        return Ok(Ok(None));
    };
    let Err(user) = backends::take(reader.context, name, &hash).await? else { return Ok(Ok(Some(hash))) };
    reader.looker.at("WorkspaceTemplateApply", &user);
    // What another namespace has is not told without its leave.
    let shown = if user.namespace == name.namespace || reader.context.grants.is_open() {
        format!("WorkspaceTemplateApply {}", user.seen_from(&name.namespace))
    } else {
        "a WorkspaceTemplateApply of another namespace".to_owned()
    };
    let message = format!(
        "its backend is that of {shown}: they would share one state; give each a key of its own, with \
         ${{WORKSPACE_NAME}}"
    );
    Ok(Err(Blocked::terminal(reasons::BACKEND_IN_USE, message)))
}

/// The texts that may name a backend, before values are put into them.
pub struct Texts<'a> {
    /// Of the provider configuration.
    pub configuration: Option<&'a str>,
    /// Of the module.
    pub module: &'a Module,
}

/// The name of the Terraform workspace that an instance has for itself in a backend that many share: as Crossplane's provider-terraform
/// names it, so that its states are found. Where others lend the backend, no name leads to what another namespace has there.
pub fn own_workspace(name: &str, namespace: &str, lender: &str) -> String {
    if namespace == lender { name.to_owned() } else { format!("{namespace}.{name}") }
}

/// The Terraform workspace that is selected. What was built stays where it is. A provider config whose configuration names one fixed
/// backend comes from Crossplane's provider-terraform, which selects one for each workspace; and so does what something else applied.
pub fn selected(
    inputs: &Inputs,
    texts: &Texts<'_>,
    known: &BTreeMap<String, String>,
    of: &KnownInstance<'_>,
    own: String,
) -> Option<String> {
    match &of.view.selected {
        Selected::Default => return None,
        Selected::Named(name) => return Some(name.clone()),
        Selected::Unknown => {}
    }
    if inputs.backend != Backend::Local {
        return None;
    }
    let configured = texts.configuration.is_some_and(|text| is_shared(text, Format::Hcl, known));
    let foreign = || match texts.module {
        Module::Inline { text, format } => of.applied_elsewhere && is_shared(text, *format, known),
        Module::Source { .. } => false,
    };
    (configured || foreign()).then_some(own)
}

/// Returns true if a text names a backend that is the same for every instance, and keeps several states.
fn is_shared(text: &str, format: Format, known: &BTreeMap<String, String>) -> bool {
    let of = |name: &str| {
        let mut known = known.clone();
        known.insert("WORKSPACE_NAME".into(), name.to_owned());
        divisible(&module::substitute(text, format, &known), format)
    };
    text.contains("backend") && of("a").is_some_and(|block| of("b").is_some_and(|other| other == block))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn s3(key: &str) -> String {
        format!("terraform {{\n  backend \"s3\" {{\n    bucket = \"b\"\n    key = \"{key}\"\n  }}\n}}\n")
    }

    #[test]
    fn a_fixed_backend_gives_each_workspace_a_terraform_workspace_of_its_own() {
        let (fixed, apart, plain) =
            (s3("states"), s3("${WORKSPACE_NAME}"), "provider \"aws\" {}\n".to_owned());
        let http = "terraform {\n  backend \"http\" {}\n}\n".to_owned();
        let own = Some("web");
        let rows = [
            // Configuration, module, something else has applied it -> the Terraform workspace.
            (Some(&fixed), &plain, false, own),
            (Some(&fixed), &plain, true, own),
            (Some(&apart), &plain, false, None),
            (Some(&apart), &plain, true, None),
            (Some(&plain), &plain, false, None),
            (Some(&http), &plain, false, None),
            (None, &plain, true, None),
            (None, &fixed, false, None),
            (None, &fixed, true, own),
            (None, &apart, true, None),
            (None, &http, true, None),
        ];
        let known = BTreeMap::from([("WORKSPACE_NAME".to_owned(), "web".to_owned())]);
        for (configuration, module, applied_elsewhere, expected) in rows {
            let module = Module::Inline { text: module.clone(), format: Format::Hcl };
            let texts = Texts { configuration: configuration.map(String::as_str), module: &module };
            let of = |view: &View, inputs: &Inputs| {
                let of = KnownInstance { workspace_name: "web", view, applied_elsewhere };
                selected(inputs, &texts, &known, &of, "web".to_owned())
            };
            let inputs = Inputs::new(module.clone());
            assert_eq!(of(&View::default(), &inputs).as_deref(), expected, "{configuration:?} {module:?}");
            // What was built stays where it is, and a backend of the provider config tells workspaces apart by itself.
            let built = View { selected: Selected::Default, ..View::default() };
            assert_eq!(of(&built, &inputs), None);
            let built = View { selected: Selected::Named("before".into()), ..View::default() };
            assert_eq!(of(&built, &inputs).as_deref(), Some("before"));
            let configured = Inputs { backend: Backend::Hcl(apart.clone()), ..inputs };
            assert_eq!(of(&View::default(), &configured), None);
        }
    }

    #[test]
    fn no_name_leads_into_another_namespace() {
        assert_eq!(own_workspace("web", "infra", "infra"), "web");
        assert_eq!(own_workspace("web", "team", "infra"), "team.web");
        assert_ne!(own_workspace("b.c", "a", "infra"), own_workspace("c", "a-b", "infra"));
    }
}
