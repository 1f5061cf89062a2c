//! Owners of objects.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta, OwnerReference};
use kube::core::{Selector, SelectorExt};
use std::collections::BTreeMap;

/// Relation of an object to a parent.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kinship {
    /// The parent controls it.
    Ours,
    /// Nobody controls it.
    Orphan,
    /// Somebody else controls it.
    Foreign,
}

/// Returns true if an object has a controller.
pub fn is_controlled(child: &ObjectMeta) -> bool {
    controller(child).is_some()
}

fn controller(child: &ObjectMeta) -> Option<&OwnerReference> {
    child.owner_references.iter().flatten().find(|owner| owner.controller == Some(true))
}

/// Compares the controller of an object with a parent.
pub fn kinship(child: &ObjectMeta, parent: &ObjectMeta) -> Kinship {
    match controller(child) {
        None => Kinship::Orphan,
        Some(owner) if Some(&owner.uid) == parent.uid.as_ref() => Kinship::Ours,
        Some(_) => Kinship::Foreign,
    }
}

pub(crate) fn reference(kind: &str, parent: &ObjectMeta) -> OwnerReference {
    OwnerReference {
        api_version: format!("{}/{}", capt_api::names::INFRASTRUCTURE_GROUP, capt_api::names::VERSION),
        kind: kind.to_owned(),
        name: parent.name.clone().unwrap_or_default(),
        uid: parent.uid.clone().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

/// A selector, ready to match. One that cannot be read matches nothing: better no machine than another's.
pub(crate) struct Matcher(Option<Selector>);

impl Matcher {
    pub(crate) fn new(selector: &LabelSelector) -> Self {
        let empty = selector.match_labels.as_ref().is_none_or(BTreeMap::is_empty)
            && selector.match_expressions.as_ref().is_none_or(Vec::is_empty);
        Self(if empty { None } else { selector.clone().try_into().ok() })
    }

    pub(crate) fn matches(&self, labels: Option<&BTreeMap<String, String>>) -> bool {
        let none = BTreeMap::new();
        self.0.as_ref().is_some_and(|selector| selector.matches(labels.unwrap_or(&none)))
    }

    /// As text, for the scale subresource.
    pub(crate) fn text(&self) -> Option<String> {
        self.0.as_ref().map(ToString::to_string)
    }
}
