//! Command lines.

use std::{ffi::OsString, path::Path};

use crate::{
    folders::{WorkspaceFolder, guest},
    inputs::{Backend, Inputs},
    module::Module,
    order::Operation,
    record::Stage,
};

/// The arguments of a stage. One process does the whole of it.
pub(super) fn arguments(
    stage: Stage,
    operation: &Operation,
    inputs: &Inputs,
    folder: &WorkspaceFolder,
    remote: bool,
) -> Vec<OsString> {
    let mut args: Vec<OsString> = Vec::new();
    let mut add = |words: &[&str]| args.extend(words.iter().map(OsString::from));
    match stage {
        Stage::Plan | Stage::Look => add(&["plan", "-json", "-detailed-exitcode"]),
        Stage::Apply => add(&["apply", "-json", "-auto-approve"]),
        Stage::ApplyPlan => add(&["apply", "-json"]),
        Stage::Destroy => add(&["apply", "-destroy", "-json", "-auto-approve"]),
        Stage::Import => add(&["import", "-no-color"]),
    }
    add(&["-input=false"]);
    if !remote {
        args.push(flag("-state=", &folder.guest().join(guest::STATE)));
        if stage.changes() {
            args.push("-backup=-".into());
        }
    }
    if stage == Stage::Plan || (stage == Stage::Look && saves_plans(inputs, remote)) {
        args.push(flag("-out=", &folder.guest().join(guest::PLAN)));
    }
    let further: &[&[String]] = match stage {
        Stage::Plan | Stage::Look => &[&inputs.args.plan],
        Stage::Apply => &[&inputs.args.plan, &inputs.args.apply],
        Stage::ApplyPlan => &[&inputs.args.apply],
        Stage::Destroy => &[&inputs.args.destroy],
        Stage::Import => &[],
    };
    args.extend(further.iter().copied().flatten().map(OsString::from));
    match operation {
        Operation::Import { address, id } => args.extend([OsString::from(address), OsString::from(id)]),
        _ if stage == Stage::ApplyPlan => args.push(folder.guest().join(guest::PLAN).into()),
        _ => {}
    }
    args
}

/// Returns true if a plan can be saved: the `remote` backend, and no other, plans elsewhere and saves none.
fn saves_plans(inputs: &Inputs, remote: bool) -> bool {
    let elsewhere = |text: &str| text.contains("\"remote\"");
    let backend = match &inputs.backend {
        Backend::Hcl(text) => Some(text),
        Backend::Local => None,
    };
    let module = match &inputs.module {
        Module::Inline { text, .. } => Some(text),
        Module::Source { .. } => None,
    };
    !remote
        || ![backend, module, inputs.configuration.as_ref()].into_iter().flatten().any(|text| elsewhere(text))
}

fn flag(name: &str, path: &Path) -> OsString {
    let mut flag = OsString::from(name);
    flag.push(path);
    flag
}
