//! Provider configs: HCL that no run could work with.

use capt_api::workspace::{BackendKind, WorkspaceProviderConfig};
use capt_schema::FieldPath;
use capt_terraform::module::{self, Declared, Format, Problem};

use super::given::{Given, Object};
use super::report::Finding;

/// Checks every provider config.
pub fn check(given: &Given) -> Vec<Finding> {
    let mut findings = Vec::new();
    for object in given.of_kind("WorkspaceProviderConfig") {
        let Ok(config) = serde_json::from_value::<WorkspaceProviderConfig>(object.value.clone()) else {
            continue;
        };
        check_configuration(object, &config, &mut findings);
        check_backend(object, &config, &mut findings);
        check_credentials(object, &config, &mut findings);
    }
    findings
}

fn check_configuration(object: &Object, config: &WorkspaceProviderConfig, findings: &mut Vec<Finding>) {
    let Some(text) = &config.spec.configuration else { return };
    let path = FieldPath::root().field("spec").field("configuration");
    match read(text) {
        Ok(Declared { refused: Some(refused), .. }) => findings.push(object.finding_in_text(&path, &refused)),
        Ok(_) => {}
        Err(problem) => findings.push(object.finding_in_text(&path, &problem)),
    }
}

fn check_backend(object: &Object, config: &WorkspaceProviderConfig, findings: &mut Vec<Finding>) {
    let (BackendKind::Hcl, Some(text)) = (config.spec.backend.kind, &config.spec.backend.hcl) else { return };
    let path = FieldPath::root().field("spec").field("backend").field("hcl");
    let whole = match read(text) {
        Ok(whole) => whole,
        Err(problem) => return findings.push(object.finding_in_text(&path, &problem)),
    };
    // The block alone, or with the one that it belongs into.
    let declared = match whole.backend {
        Some(_) => whole,
        None => read(&format!("terraform {{\n{text}\n}}\n")).unwrap_or(whole),
    };
    if declared.backend.is_none() {
        let help = "write for example backend \"s3\" { key = \"${WORKSPACE_NAME}\" }".to_owned();
        findings.push(object.finding(&path, "has no backend block".to_owned()).helped(Some(help)));
    } else if !text.contains("${WORKSPACE_NAME}") {
        let message = "has no ${WORKSPACE_NAME}: all workspaces would share one state".to_owned();
        let help = "use it in the key or path of the state".to_owned();
        findings.push(object.finding(&path, message).helped(Some(help)));
    }
}

fn check_credentials(object: &Object, config: &WorkspaceProviderConfig, findings: &mut Vec<Finding>) {
    for (index, credential) in config.spec.credentials.iter().enumerate() {
        let read = |name: &&str| module::read_by_terraform(name.as_bytes());
        let Some(name) = credential.filename.as_deref().filter(read) else { continue };
        let path = FieldPath::root().field("spec").field("credentials").index(index).field("filename");
        let message = format!("Terraform would read {name} as part of the module");
        let help = "give it another ending, for example .ini or .json".to_owned();
        findings.push(object.finding(&path, message).helped(Some(help)));
    }
}

/// Reads HCL whose `${key}` may stand outside of strings.
fn read(text: &str) -> Result<Declared, Problem> {
    module::declared(text, Format::Hcl).or_else(|problem| {
        let names = ["WORKSPACE_NAME", "WORKSPACE_NAMESPACE"].map(|name| (name.to_owned(), "0".to_owned()));
        let filled = module::substitute(text, Format::Hcl, &names.into());
        if filled == text { Err(problem) } else { module::declared(&filled, Format::Hcl) }
    })
}
