//! Kinds of objects as users name them: by plural, singular or short name, in any case, with or without an API group.

mod reference;

use std::io;
use std::sync::LazyLock;

use capt_api::names::CORE_GROUP;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind};

use super::client::{Connection, in_words};
use crate::tree::Kind as TreeKind;
use crate::validate::nearest;
pub use reference::{Accepts, Reference};

/// A kind that commands know.
#[derive(Debug)]
pub struct ResourceKind {
    /// Its name as manifests have it.
    pub name: String,
    resource: ApiResource,
    words: Vec<String>,
    /// `spec.paused` is a field of it.
    pub pausable: bool,
}

static KINDS: LazyLock<Vec<ResourceKind>> = LazyLock::new(|| {
    let cluster = std::iter::once(capt_api::crd::cluster_kind().crd);
    cluster.chain(capt_api::crds()).map(|crd| ResourceKind::of(&crd)).collect()
});

impl ResourceKind {
    fn of(crd: &CustomResourceDefinition) -> Self {
        let (spec, names) = (&crd.spec, &crd.spec.names);
        let version = spec.versions.first().expect("a CRD has a version");
        let gvk = GroupVersionKind::gvk(&spec.group, &version.name, &names.kind);
        let singular = names.singular.clone().unwrap_or_else(|| names.kind.to_lowercase());
        let mut words = vec![names.plural.clone(), singular];
        words.extend(names.short_names.iter().flatten().cloned());
        // What `capt status` calls it.
        words.extend(TreeKind::find(&spec.group, &names.kind).map(|shown| shown.word().replace(' ', "")));
        let schema = version.schema.as_ref().and_then(|schema| schema.open_api_v3_schema.as_ref());
        let fields = schema.and_then(|schema| schema.properties.as_ref()?.get("spec")?.properties.as_ref());
        Self {
            name: names.kind.clone(),
            resource: ApiResource::from_gvk_with_plural(&gvk, &names.plural),
            words,
            pausable: fields.is_some_and(|fields| fields.contains_key("paused")),
        }
    }

    /// Every kind.
    pub fn all() -> &'static [Self] {
        &KINDS
    }

    /// The kind of that name in manifests.
    pub fn named(name: &str) -> &'static Self {
        Self::all().iter().find(|kind| kind.name == name).expect("the caller names a kind that there is")
    }

    /// The kind that a word names: `cmd`, `CaptMachineDeployments`, `clusters.cluster.x-k8s.io`, `cluster.v1beta2.cluster.x-k8s.io`.
    pub fn meant(word: &str) -> Option<&'static Self> {
        let word = word.to_lowercase();
        let (name, group) =
            word.split_once('.').map_or((word.as_str(), None), |(name, group)| (name, Some(group)));
        Self::all().iter().find(|kind| {
            kind.words.iter().any(|known| known == name) && group.is_none_or(|group| kind.is_of(group))
        })
    }

    /// Returns true if its API group is `group`, or `group` without a version in front of it.
    fn is_of(&self, group: &str) -> bool {
        let is_version = |text: &str| {
            text.strip_prefix('v').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
        };
        let bare =
            group.split_once('.').filter(|(version, _)| is_version(version)).map_or(group, |(_, rest)| rest);
        bare == self.resource.group
    }

    /// The kind that a mistyped word was probably meant to be.
    pub fn similar(word: &str) -> Option<&'static Self> {
        let word = word.split('.').next().unwrap_or_default().to_lowercase();
        let known = || Self::all().iter().flat_map(|kind| kind.words.iter().map(String::as_str));
        let part = || known().find(|known| word.len() > 3 && known.contains(&word));
        nearest(&word, known()).or_else(part).and_then(Self::meant)
    }

    /// The name that commands print.
    pub fn word(&self) -> &str {
        // The one whose singular nobody wants to type.
        let at = if self.name == "WorkspaceTemplateApply" { 2 } else { 1 };
        &self.words[at]
    }

    /// The plural.
    pub fn plural(&self) -> &str {
        &self.resource.plural
    }

    pub fn is_cluster(&self) -> bool {
        self.resource.group == CORE_GROUP
    }

    /// API group and kind of an object that a reference names.
    pub fn matches(&self, api_version: &str, kind: &str) -> bool {
        self.name == kind && api_version.split('/').next() == Some(&self.resource.group)
    }

    /// Objects of the kind in a namespace; in all without one.
    pub async fn api(
        &self,
        connection: &Connection,
        namespace: Option<&str>,
    ) -> io::Result<Api<DynamicObject>> {
        let mut resource = self.resource.clone();
        if self.is_cluster() {
            resource = self.served(connection).await?;
        }
        let client = connection.client.clone();
        Ok(match namespace {
            Some(namespace) => Api::namespaced_with(client, namespace, &resource),
            None => Api::all_with(client, &resource),
        })
    }

    /// Returns the served version. That of a Cluster depends on whose CRD it is.
    async fn served(&self, connection: &Connection) -> io::Result<ApiResource> {
        let groups = connection.client.list_api_groups().await.map_err(in_words)?.groups;
        let group = groups.into_iter().find(|group| group.name == self.resource.group);
        let version = group.and_then(|group| Some(group.preferred_version?.version)).ok_or_else(|| {
            io::Error::other(
                "the API has no Clusters: neither Cluster API core nor CAPT's own kind is installed\n  \
                capt up brings it, or capt controller --cluster-api own",
            )
        })?;
        let gvk = GroupVersionKind::gvk(&self.resource.group, &version, &self.name);
        Ok(ApiResource::from_gvk_with_plural(&gvk, &self.resource.plural))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_go_by_many_words() {
        for (word, kind) in [
            ("wtapply", "WorkspaceTemplateApply"),
            ("wta", "WorkspaceTemplateApply"),
            ("workspacetemplateapplies", "WorkspaceTemplateApply"),
            ("captmachine", "CaptMachine"),
            ("CaptMachineDeployments", "CaptMachineDeployment"),
            ("cluster", "Cluster"),
            ("clusters.cluster.x-k8s.io", "Cluster"),
            ("nodegroup", "NodeGroup"),
            ("NG", "NodeGroup"),
            ("CAPTCluster", "CAPTCluster"),
            ("Cluster.cluster.x-k8s.io", "Cluster"),
            ("workspace", "WorkspaceTemplateApply"),
            ("controlplane", "CAPTControlPlane"),
            ("machine", "CaptMachine"),
            ("cl.cluster.x-k8s.io", "Cluster"),
            ("clusters.v1beta2.cluster.x-k8s.io", "Cluster"),
            ("cmd.infrastructure.cluster.x-k8s.io", "CaptMachineDeployment"),
            ("captcontrolplanes.v1beta1.controlplane.cluster.x-k8s.io", "CAPTControlPlane"),
        ] {
            assert_eq!(ResourceKind::meant(word).map(|kind| kind.name.as_str()), Some(kind), "{word}");
        }
        for word in ["pod", "", "clusters.example.com", "clusters.", "captcluster.cluster.x-k8s.io"] {
            assert!(ResourceKind::meant(word).is_none(), "{word}");
        }
        let with = |fact: fn(&ResourceKind) -> bool| -> Vec<&str> {
            ResourceKind::all().iter().filter(|kind| fact(kind)).map(|kind| kind.name.as_str()).collect()
        };
        assert_eq!(
            with(|kind| kind.pausable),
            ["Cluster", "WorkspaceTemplateApply", "NodeGroup", "CaptMachine", "CaptMachineDeployment"]
        );
    }

    #[test]
    fn a_mistyped_kind_has_a_suggestion() {
        for (word, kind) in [
            ("clutser", Some("Cluster")),
            ("captmachinedeploymnt", Some("CaptMachineDeployment")),
            ("machinedeployment", Some("CaptMachineDeployment")),
            ("machine", Some("CaptMachine")),
            ("workspace", Some("WorkspaceTemplateApply")),
            ("ControlPlane", Some("CAPTControlPlane")),
            ("cluster.example.com", Some("Cluster")),
            ("pods", None),
            ("", None),
        ] {
            assert_eq!(ResourceKind::similar(word).map(|kind| kind.name.as_str()), kind, "{word}");
        }
    }
}
