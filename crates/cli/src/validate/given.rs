//! All objects of one run that are in order by themselves, for what can only be checked on several of them.

use std::collections::HashMap;
use std::sync::Arc;

use capt_schema::FieldPath;
use capt_terraform::module::Problem;
use capt_yaml::{Node, Position};
use serde_json::Value;

use super::object::Places;
use super::report::{Finding, ObjectName};
use super::{inputs, owners, provider_configs, references};
use crate::manifest::Source;

/// An object that is in order by itself.
pub struct Object {
    file: String,
    /// Its name.
    pub name: ObjectName,
    node: Node,
    /// Value of the object that an API server would store.
    pub value: Value,
    /// The text of its file.
    text: Arc<str>,
}

/// The objects.
#[derive(Default)]
pub struct Given {
    pub objects: Vec<Object>,
    /// Positions of the objects of a kind, by name: a file may have a hundred thousand of them.
    index: HashMap<String, HashMap<String, Vec<usize>>>,
}

/// Kinds of others that objects of CAPT refer to, or that refer to them.
pub fn matters(kind: &str) -> bool {
    ["Cluster", "ClusterClass", "ConfigMap", "Machine", "Secret"].contains(&kind)
}

impl Given {
    pub fn add(&mut self, source: &Source, name: &ObjectName, node: &Node, value: Value) {
        // The objects of one file come one after the other, and share its text.
        let last = self.objects.last().filter(|last| last.file == source.name).map(|last| last.text.clone());
        let text = last.unwrap_or_else(|| source.text.as_str().into());
        let of_kind = self.index.entry(name.kind.clone()).or_default();
        of_kind.entry(name.name.clone()).or_default().push(self.objects.len());
        let (file, name, node) = (source.name.clone(), name.clone(), node.clone());
        self.objects.push(Object { file, name, node, value, text });
    }

    /// Checks what they mean to each other.
    pub fn check(&self) -> Vec<Finding> {
        let mut findings = inputs::check(self);
        findings.extend(owners::check(self));
        findings.extend(provider_configs::check(self));
        findings.extend(references::check(self));
        findings.sort_by(|a, b| (&a.place.file, a.place.position).cmp(&(&b.place.file, b.place.position)));
        findings
    }

    /// Objects of a kind.
    pub fn of_kind(&self, kind: &str) -> impl Iterator<Item = &Object> {
        self.objects.iter().filter(move |object| object.name.kind == kind)
    }

    /// Objects of a kind and a name, in whatever namespace.
    pub fn named(&self, kind: &str, name: &str) -> impl Iterator<Item = &Object> {
        let found = self.index.get(kind).and_then(|of_kind| of_kind.get(name));
        found.into_iter().flatten().filter_map(|index| self.objects.get(*index))
    }

    /// The object that a reference of `from` means.
    pub fn find(&self, kind: &str, from: &Object, reference: &ManifestReference<'_>) -> Option<&Object> {
        let namespace = reference.namespace.or(from.name.namespace.as_deref());
        self.named(kind, reference.name).find(|object| object.may_be_in(namespace))
    }
}

/// A name in an object.
#[derive(Clone, Copy)]
pub struct ManifestReference<'a> {
    pub name: &'a str,
    pub namespace: Option<&'a str>,
}

impl<'a> ManifestReference<'a> {
    pub fn read(value: &'a Value) -> Option<Self> {
        Some(Self { name: value["name"].as_str()?, namespace: value["namespace"].as_str() })
    }
}

impl Object {
    /// Returns true if it may be in a namespace: one without a namespace goes into the one that is chosen when it is applied.
    pub fn may_be_in(&self, namespace: Option<&str>) -> bool {
        match (self.name.namespace.as_deref(), namespace) {
            (Some(own), Some(wanted)) => own == wanted,
            _ => true,
        }
    }

    /// A problem with a field.
    pub fn finding(&self, path: &FieldPath, message: String) -> Finding {
        let at = Places::of(&self.node).locate(path);
        Finding {
            object: Some(self.name.clone()),
            path: Some(path.to_string()),
            ..Finding::new(&self.file, Some(at), message)
        }
    }

    /// A problem in a text that is the value of a field, at a line and column of that text.
    pub fn finding_in_text(&self, path: &FieldPath, problem: &Problem) -> Finding {
        let mut finding = self.finding(path, problem.message.clone());
        let number = |number: Option<u32>| number.and_then(|number| usize::try_from(number).ok());
        let Some(line) = number(problem.line) else { return finding };
        match finding.place.position.and_then(|at| self.block(at)) {
            Some((first, indent)) => {
                let column = indent + number(problem.column).unwrap_or(1);
                finding.place.position = Some(Position { line: first + line - 1, column });
            }
            None => finding.message = format!("line {line}: {}", finding.message),
        }
        finding
    }

    /// The first line of a block scalar (`key: |`) and its indentation; nothing for a text that is written in another way.
    fn block(&self, key: Position) -> Option<(usize, usize)> {
        let mut lines = self.text.lines().skip(key.line - 1);
        let header = lines.next()?.split(" #").next()?.trim_end();
        header.trim_end_matches(|c: char| "+-0123456789".contains(c)).strip_suffix('|')?;
        let indent =
            lines.find(|line| !line.trim().is_empty()).map(|line| line.len() - line.trim_start().len())?;
        Some((key.line + 1, indent))
    }
}
