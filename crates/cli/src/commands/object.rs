//! Objects as people name them on the command line: `NAME`, `KIND/NAME`, or `KIND NAME…`, where a kind goes by its plural,
//! singular or short name.

use std::fmt;
use std::io;
use std::sync::LazyLock;

use capt_api::names::CORE_GROUP;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind};

use super::client::{Connection, in_words};

/// A kind that commands know.
#[derive(Debug)]
pub struct Kind {
    /// Its name as manifests have it.
    pub name: String,
    resource: ApiResource,
    words: Vec<String>,
    /// `spec.paused` is a field of it.
    pub pausable: bool,
    /// It can be scaled.
    pub scalable: bool,
}

static KINDS: LazyLock<Vec<Kind>> = LazyLock::new(|| {
    let cluster = std::iter::once(capt_api::crd::cluster_kind().crd);
    cluster.chain(capt_api::crds()).map(|crd| Kind::of(&crd)).collect()
});

impl Kind {
    fn of(crd: &CustomResourceDefinition) -> Self {
        let (spec, names) = (&crd.spec, &crd.spec.names);
        let version = spec.versions.first().expect("a CRD has a version");
        let gvk = GroupVersionKind::gvk(&spec.group, &version.name, &names.kind);
        let mut words = vec![names.plural.clone(), format!("{}.{}", names.plural, spec.group)];
        words.extend(names.singular.clone());
        words.extend(names.short_names.iter().flatten().cloned());
        let schema = version.schema.as_ref().and_then(|schema| schema.open_api_v3_schema.as_ref());
        let fields = schema.and_then(|schema| schema.properties.as_ref()?.get("spec")?.properties.as_ref());
        Self {
            name: names.kind.clone(),
            resource: ApiResource::from_gvk_with_plural(&gvk, &names.plural),
            words,
            pausable: fields.is_some_and(|fields| fields.contains_key("paused")),
            scalable: version.subresources.as_ref().is_some_and(|all| all.scale.is_some()),
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

    /// The kind that somebody means.
    pub fn meant(word: &str) -> Option<&'static Self> {
        let word = word.to_lowercase();
        Self::all().iter().find(|kind| kind.words.contains(&word))
    }

    /// What people call it.
    pub fn word(&self) -> &str {
        // The one whose singular nobody wants to type.
        let at = if self.name == "WorkspaceTemplateApply" { 3 } else { 2 };
        self.words.get(at).map_or(&self.name, String::as_str)
    }

    /// Every word for it, the plural first.
    pub fn words(&self) -> &[String] {
        &self.words
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

    /// Which version of a Cluster is served depends on whose CRD it is.
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

/// An object that somebody named.
#[derive(Clone, Debug)]
pub struct Reference {
    pub kind: &'static Kind,
    pub name: String,
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind.word(), self.name)
    }
}

/// Why words name no object.
#[derive(Debug, Eq, PartialEq, thiserror::Error)]
pub enum NameError {
    #[error("there is no kind {0}; there are: {1}")]
    UnknownKind(String, String),
    #[error("{0:?} names no object: write KIND/NAME")]
    NoName(String),
    #[error("say what {0} is: write KIND/NAME, for example cluster/{0}")]
    NoKind(String),
}

/// Reads `NAME`, `KIND/NAME` and `KIND NAME…`; a name alone is of the kind `otherwise`.
pub fn references(words: &[String], otherwise: Option<&'static Kind>) -> io::Result<Vec<Reference>> {
    read(words, otherwise).map_err(io::Error::other)
}

fn read(words: &[String], otherwise: Option<&'static Kind>) -> Result<Vec<Reference>, NameError> {
    let (kind, words) = match words {
        [first, rest @ ..] if !rest.is_empty() && Kind::meant(first).is_some() => (Kind::meant(first), rest),
        _ => (otherwise, words),
    };
    words.iter().map(|word| one(word, kind)).collect()
}

fn one(word: &str, otherwise: Option<&'static Kind>) -> Result<Reference, NameError> {
    let Some((kind, name)) = word.split_once('/') else {
        let kind = otherwise.ok_or_else(|| NameError::NoKind(word.to_owned()))?;
        return Ok(Reference { kind, name: word.to_owned() });
    };
    let known = || Kind::all().iter().map(Kind::word).collect::<Vec<_>>().join(", ");
    let kind = Kind::meant(kind).ok_or_else(|| NameError::UnknownKind(kind.to_owned(), known()))?;
    if name.is_empty() || name.contains('/') {
        return Err(NameError::NoName(word.to_owned()));
    }
    Ok(Reference { kind, name: name.to_owned() })
}

impl Reference {
    /// Gets the object.
    pub async fn get(&self, connection: &Connection) -> io::Result<DynamicObject> {
        self.get_opt(connection).await?.ok_or_else(|| {
            io::Error::other(format!(
                "no {} {} in namespace {}\n  look for it: kubectl get {} -A",
                self.kind.name,
                self.name,
                connection.namespace,
                self.kind.words()[0]
            ))
        })
    }

    /// Gets the object, if it is there.
    pub async fn get_opt(&self, connection: &Connection) -> io::Result<Option<DynamicObject>> {
        let api = self.kind.api(connection, Some(&connection.namespace)).await?;
        api.get_opt(&self.name).await.map_err(in_words)
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
        ] {
            assert_eq!(Kind::meant(word).map(|kind| kind.name.as_str()), Some(kind), "{word}");
        }
        assert!(Kind::meant("pod").is_none());
        let with = |fact: fn(&Kind) -> bool| -> Vec<&str> {
            Kind::all().iter().filter(|kind| fact(kind)).map(|kind| kind.name.as_str()).collect()
        };
        assert_eq!(
            with(|kind| kind.pausable),
            ["Cluster", "WorkspaceTemplateApply", "NodeGroup", "CaptMachine", "CaptMachineDeployment"]
        );
        assert_eq!(with(|kind| kind.scalable), ["CaptMachineSet", "CaptMachineDeployment"]);
    }

    #[test]
    fn objects_are_named_as_with_kubectl() {
        let workspace = Some(Kind::named("WorkspaceTemplateApply"));
        let said = |words: &[&str], otherwise| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            read(&words, otherwise)
                .map(|all| all.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "))
                .map_err(|error| error.to_string())
        };
        let good = |text: &str| Ok::<String, String>(text.to_owned());
        assert_eq!(said(&["a"], workspace), good("wtapply/a"));
        assert_eq!(said(&["cluster", "a", "b"], None), good("cluster/a cluster/b"));
        assert_eq!(said(&["cluster"], workspace), good("wtapply/cluster"));
        assert_eq!(said(&["cl/a", "captmachine/b"], None), good("cluster/a captmachine/b"));
        assert!(said(&["a"], None).unwrap_err().contains("cluster/a"));
        assert!(
            said(&["pod/a"], workspace).unwrap_err().contains("there is no kind pod; there are: cluster, ")
        );
        assert!(said(&["cluster/"], workspace).is_err());
        assert!(said(&["cluster/a/b"], workspace).is_err());
    }
}
