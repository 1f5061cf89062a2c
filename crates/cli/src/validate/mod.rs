//! Checks manifests as an API server with CAPT's CRDs would, then as the controllers would, and tells where each problem stands.
//!
//! ```text
//! files -> documents -> objects -> metadata, unknown fields, schema and rules -> findings with a place
//!                               -> those in order: modules, variables, owners of workspaces, provider configs, references
//! ```

mod catalogue;
mod given;
mod inputs;
mod modules;
mod object;
mod owners;
mod provider_configs;
mod references;
mod report;
mod suggest;
mod timeline;

use std::collections::HashMap;

use serde_json::Value;

use capt_yaml::{Node, NodeValue, documents};

use crate::manifest::{Origin, Read, Source};
use catalogue::{Catalogue, Lookup};
use given::Given;
pub use report::{Finding, ObjectName, Report, Severity};
pub use suggest::nearest;

/// An object of an earlier version of the manifests, by what identifies it.
type Earlier = HashMap<ObjectName, Value>;

/// Checks every object in `new`; where `old` has the same object, also the change from there.
pub fn check(new: &[Origin], old: &[Origin]) -> Report {
    let catalogue = Catalogue::of_capt();
    let mut report = Report::default();
    let mut earlier = Earlier::new();
    for_each_object(old, &mut report, |_, object, _| {
        if let Some(name) = ObjectName::of(object) {
            earlier.insert(name, object.to_json());
        }
    });
    // The summary counts what is checked, not what it is compared with.
    report.summary.files = 0;
    let mut given = Given::default();
    for_each_object(new, &mut report, |source, object, report| {
        check_object(&catalogue, &earlier, source, object, report, &mut given);
    });
    report.findings.extend(given.check());
    if let (0, Some(first)) =
        (report.findings.len() + report.summary.checked + report.summary.skipped, new.first())
    {
        report.findings.push(Finding::new(&first.name(), None, "holds no object".into()));
    }
    report.finish()
}

/// Checks every object of files that were read already.
pub fn check_sources(files: &[Read]) -> Report {
    check_those(files, |_| true)
}

/// Checks the objects of these kinds, and nothing else.
pub fn check_kinds(files: &[Read], kinds: &[&str]) -> Report {
    check_those(files, |object| {
        object.get("kind").and_then(Node::as_str).is_some_and(|kind| kinds.contains(&kind))
    })
}

/// Checks the timelines of simulations, and nothing else.
pub fn check_timelines(files: &[Read]) -> Report {
    let mut report = Report::default();
    for file in files {
        visit_file(file, &mut report, &mut |source, object, report| {
            if object.get("kind").and_then(Node::as_str) == Some(timeline::KIND) {
                report.findings.extend(timeline::check(&source.name, object));
            }
        });
    }
    report.finish()
}

fn check_those(files: &[Read], meant: impl Fn(&Node) -> bool) -> Report {
    let catalogue = Catalogue::of_capt();
    let mut report = Report::default();
    let mut given = Given::default();
    for file in files {
        visit_file(file, &mut report, &mut |source, object, report| {
            if meant(object) {
                check_object(&catalogue, &Earlier::new(), source, object, report, &mut given);
            }
        });
    }
    report.findings.extend(given.check());
    report.finish()
}

/// Says what an API server would of a change, for a kind that CAPT has.
pub struct ChangeCheck {
    catalogue: Catalogue,
}

impl ChangeCheck {
    pub fn new() -> Self {
        Self { catalogue: Catalogue::of_capt() }
    }

    /// Problems of a change of an object, one line for each mistake.
    pub fn problems(&self, kind: &str, old: &Value, new: &Value) -> Vec<String> {
        self.catalogue.named(kind).map_or_else(Vec::new, |kind| object::problems(kind, old, new))
    }
}

/// Calls `visit` for every object of every file; what cannot be read becomes a finding.
fn for_each_object(
    origins: &[Origin],
    report: &mut Report,
    mut visit: impl FnMut(&Source, &Node, &mut Report),
) {
    for file in origins.iter().flat_map(Origin::read) {
        visit_file(&file, report, &mut visit);
    }
}

fn visit_file(file: &Read, report: &mut Report, visit: &mut impl FnMut(&Source, &Node, &mut Report)) {
    let source = match file {
        Ok(source) => source,
        Err((name, error)) => {
            report.findings.push(Finding::new(name, error.position(), error.to_string()));
            return;
        }
    };
    report.summary.files += 1;
    for document in documents(&source.text) {
        match document {
            Ok(document) => items(&document.root, &mut |item| visit(source, item, report)),
            Err(error) => {
                report.findings.push(Finding::new(&source.name, Some(error.at), error.to_string()));
            }
        }
    }
}

/// The items of a `List`, of a `CaptMachineList` and the like; of anything else the object itself.
pub fn items(root: &Node, visit: &mut impl FnMut(&Node)) {
    let is_list = root.get("kind").and_then(Node::as_str).is_some_and(|kind| kind.ends_with("List"));
    match root.get("items").map(|items| &items.value) {
        Some(NodeValue::List(list)) if is_list => list.iter().for_each(|item| items(item, visit)),
        _ => visit(root),
    }
}

fn check_object(
    catalogue: &Catalogue,
    earlier: &Earlier,
    source: &Source,
    object: &Node,
    report: &mut Report,
    given: &mut Given,
) {
    let file = source.name.as_str();
    if !matches!(object.value, NodeValue::Map(_)) {
        let message = format!("a manifest is a map with apiVersion and kind, this is {}", object.describe());
        report.findings.push(Finding::new(file, Some(object.at), message));
        return;
    }
    match catalogue.look_up(object) {
        Lookup::Known(kind) => {
            report.summary.checked += 1;
            let name = ObjectName::of(object);
            let old = name.as_ref().and_then(|name| earlier.get(name));
            let checked = object::check(kind, file, object, old);
            report.summary.partial |= checked.partial;
            if let (Some(name), Some(value)) = (&name, checked.admitted) {
                given.add(source, name, object, value);
            }
            for mut finding in checked.findings {
                finding.object.clone_from(&name);
                report.findings.push(finding);
            }
        }
        Lookup::Foreign => {
            report.summary.skipped += 1;
            if let Some(name) = ObjectName::of(object).filter(|name| given::matters(&name.kind)) {
                given.add(source, &name, object, object.to_json());
            }
        }
        Lookup::Wrong { at, message, help } => {
            report.findings.push(Finding { help, ..Finding::new(file, Some(at), message) });
        }
    }
}

#[cfg(test)]
mod tests;
