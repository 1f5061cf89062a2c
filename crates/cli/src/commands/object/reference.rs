//! Objects as users name them: `NAME`, `KIND/NAME` or `KIND NAME…`, as with kubectl. Every command reads them here.

use std::fmt;
use std::io;

use kube::api::DynamicObject;

use super::ResourceKind;
use crate::commands::client::{Connection, in_words};

/// The help text about objects: what is particular to a command, and what is the same for all.
macro_rules! help {
    ($objects:literal) => {
        concat!($objects, "; KIND is a singular, plural or short name, with or without its API group")
    };
}

/// The kinds that have workspaces below them, and that the tree shows.
const WITH_WORKSPACES: &[&str] = &[
    "Cluster",
    "CAPTCluster",
    "CAPTControlPlane",
    "NodeGroup",
    "CaptMachineDeployment",
    "CaptMachineSet",
    "CaptMachine",
    "WorkspaceTemplateApply",
];

/// The objects that a command accepts.
#[derive(Debug)]
pub struct Accepts {
    /// The kind of a name without one.
    default: Option<&'static str>,
    /// Every kind where this is empty.
    kinds: &'static [&'static str],
    /// The help text of the argument.
    pub help: &'static str,
}

impl Accepts {
    /// Any object, with its kind.
    pub const ANY: Self = Self { default: None, kinds: &[], help: help!("KIND/NAME, or KIND NAME…") };
    /// Any object; a name alone is that of a workspace.
    pub const ANY_OR_WORKSPACE: Self = Self {
        default: Some("WorkspaceTemplateApply"),
        kinds: &[],
        help: help!("NAME of a WorkspaceTemplateApply, KIND/NAME, or KIND NAME…"),
    };
    /// Objects that workspaces belong to; a name alone is that of a workspace.
    pub const WORKSPACES: Self = Self {
        default: Some("WorkspaceTemplateApply"),
        kinds: WITH_WORKSPACES,
        help: help!("NAME of a WorkspaceTemplateApply, or KIND/NAME or KIND NAME of what it belongs to"),
    };
    /// Objects that the tree shows; a name alone is that of a cluster.
    pub const TREE: Self = Self {
        default: Some("Cluster"),
        kinds: WITH_WORKSPACES,
        help: help!("NAME of a Cluster, or KIND/NAME or KIND NAME of a part of it"),
    };
    /// Clusters.
    pub const CLUSTER: Self = Self {
        default: Some("Cluster"),
        kinds: &["Cluster"],
        help: help!("NAME of a Cluster, KIND/NAME, or KIND NAME"),
    };
    /// Deployments of machines.
    pub const DEPLOYMENT: Self = Self {
        default: Some("CaptMachineDeployment"),
        kinds: &["CaptMachineDeployment"],
        help: help!("NAME of a CaptMachineDeployment, KIND/NAME, or KIND NAME"),
    };
    /// Objects with replicas; a name alone is that of a deployment.
    pub const SCALABLE: Self = Self {
        default: Some("CaptMachineDeployment"),
        kinds: &["CaptMachineDeployment", "CaptMachineSet"],
        help: help!("NAME of a CaptMachineDeployment, KIND/NAME, or KIND NAME…"),
    };

    /// Reads the objects of a command line.
    pub fn read(&self, words: &[String]) -> io::Result<Vec<Reference>> {
        self.parse(words, false).map_err(io::Error::other)
    }

    /// Reads the object of a command that takes one.
    pub fn read_one(&self, words: &[String]) -> io::Result<Reference> {
        let mut all = self.parse(words, true).map_err(io::Error::other)?;
        Ok(all.remove(0))
    }

    /// The kind of a name without one.
    pub fn default_kind(&self) -> Option<&'static ResourceKind> {
        self.default.map(ResourceKind::named)
    }

    /// The kinds that are accepted.
    pub fn kinds(&self) -> Vec<&'static ResourceKind> {
        if self.kinds.is_empty() {
            return ResourceKind::all().iter().collect();
        }
        self.kinds.iter().map(|name| ResourceKind::named(name)).collect()
    }

    /// Returns true if objects of a kind are accepted.
    pub fn admits(&self, kind: &ResourceKind) -> bool {
        self.kinds.is_empty() || self.kinds.contains(&kind.name.as_str())
    }

    fn parse(&self, words: &[String], one: bool) -> Result<Vec<Reference>, NameError> {
        let all = match words {
            [first, names @ ..] if !names.is_empty() && !first.contains('/') => {
                match ResourceKind::meant(first) {
                    Some(kind) => names.iter().map(|name| of_kind(kind, name)).collect(),
                    // Two words of which the first must be a kind.
                    None if one || self.default.is_none() => Err(NameError::unknown(first)),
                    None => words.iter().map(|word| self.word(word)).collect(),
                }
            }
            _ => words.iter().map(|word| self.word(word)).collect::<Result<Vec<_>, _>>(),
        }?;
        if let Some(other) = all.iter().find(|reference| !self.admits(reference.kind)) {
            let kinds: Vec<&str> = self.kinds().into_iter().map(ResourceKind::word).collect();
            return Err(NameError::Unsuitable(other.to_string(), kinds.join(", ")));
        }
        if one && all.len() != 1 {
            return Err(NameError::NotOne(all.len()));
        }
        Ok(all)
    }

    /// Reads `NAME` or `KIND/NAME`.
    fn word(&self, word: &str) -> Result<Reference, NameError> {
        let Some((kind, name)) = word.split_once('/') else {
            let kind = self.default_kind().ok_or_else(|| NameError::NoKind(word.to_owned()))?;
            return of_kind(kind, word);
        };
        let kind = ResourceKind::meant(kind).ok_or_else(|| NameError::unknown(kind))?;
        of_kind(kind, name)
    }
}

fn of_kind(kind: &'static ResourceKind, name: &str) -> Result<Reference, NameError> {
    if let Some((inner, _)) = name.split_once('/') {
        return Err(match ResourceKind::meant(inner) {
            Some(_) => NameError::TwoKinds(kind.word().to_owned(), name.to_owned()),
            None => NameError::BadName(name.to_owned()),
        });
    }
    if name.is_empty() {
        return Err(NameError::NoName(kind.word().to_owned()));
    }
    Ok(Reference { kind, name: name.to_owned() })
}

/// An object that a user named.
#[derive(Clone, Debug)]
pub struct Reference {
    pub kind: &'static ResourceKind,
    pub name: String,
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind.word(), self.name)
    }
}

/// Why words name no object.
#[derive(Debug, Eq, PartialEq, thiserror::Error)]
enum NameError {
    #[error("unknown kind {word:?}{}\n  kinds: {}", suggested(.suggestion.as_deref()), known())]
    UnknownKind { word: String, suggestion: Option<String> },
    #[error("no name after {0}: write {0}/NAME")]
    NoName(String),
    #[error("{0:?} is no name: names have no slash")]
    BadName(String),
    #[error("no kind given for {0}: write KIND/{0}, for example cluster/{0}")]
    NoKind(String),
    #[error("two kinds, {0} and that of {1}: write KIND/NAME or KIND NAME")]
    TwoKinds(String, String),
    #[error("{0} does not fit here: this command takes {1}")]
    Unsuitable(String, String),
    #[error("{0} objects given: this command takes one")]
    NotOne(usize),
}

impl NameError {
    fn unknown(word: &str) -> Self {
        let suggestion = ResourceKind::similar(word).map(|kind| kind.word().to_owned());
        Self::UnknownKind { word: word.to_owned(), suggestion }
    }
}

fn suggested(kind: Option<&str>) -> String {
    kind.map(|kind| format!("; did you mean {kind}?")).unwrap_or_default()
}

fn known() -> String {
    ResourceKind::all().iter().map(ResourceKind::word).collect::<Vec<_>>().join(", ")
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
                self.kind.plural()
            ))
        })
    }

    /// Gets the object, if it exists.
    pub async fn get_opt(&self, connection: &Connection) -> io::Result<Option<DynamicObject>> {
        let api = self.kind.api(connection, Some(&connection.namespace)).await?;
        api.get_opt(&self.name).await.map_err(in_words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The objects that a line names, or the first line of the error.
    fn read(accepts: &Accepts, line: &str, one: bool) -> String {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        match accepts.parse(&words, one) {
            Ok(all) => all.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "),
            Err(error) => error.to_string().lines().next().unwrap_or_default().to_owned(),
        }
    }

    #[test]
    fn objects_are_named_as_with_kubectl() {
        let rows: [(&Accepts, &str, &str); 23] = [
            (&Accepts::ANY, "cluster/a", "cluster/a"),
            (&Accepts::ANY, "cluster a b", "cluster/a cluster/b"),
            (&Accepts::ANY, "CL/a captmachine/b", "cluster/a captmachine/b"),
            (&Accepts::ANY, "clusters.cluster.x-k8s.io/a", "cluster/a"),
            (&Accepts::ANY, "WorkspaceTemplateApplies a", "wtapply/a"),
            (&Accepts::ANY, "a", "no kind given for a: write KIND/a, for example cluster/a"),
            (&Accepts::ANY, "clutser a", "unknown kind \"clutser\"; did you mean cluster?"),
            (&Accepts::ANY, "pod/a", "unknown kind \"pod\""),
            (
                &Accepts::ANY,
                "cluster captmachine/a",
                "two kinds, cluster and that of captmachine/a: write KIND/NAME or KIND NAME",
            ),
            (&Accepts::ANY_OR_WORKSPACE, "a b", "wtapply/a wtapply/b"),
            // A word alone is a name.
            (&Accepts::ANY_OR_WORKSPACE, "cluster", "wtapply/cluster"),
            (&Accepts::ANY_OR_WORKSPACE, "a cluster/b", "wtapply/a cluster/b"),
            (&Accepts::ANY_OR_WORKSPACE, "cluster/", "no name after cluster: write cluster/NAME"),
            (&Accepts::ANY_OR_WORKSPACE, "cluster/a/b", "\"a/b\" is no name: names have no slash"),
            (&Accepts::ANY_OR_WORKSPACE, "/a", "unknown kind \"\""),
            (&Accepts::WORKSPACES, "nodegroup/a", "nodegroup/a"),
            (&Accepts::TREE, "demo", "cluster/demo"),
            (&Accepts::TREE, "cmd/demo", "captmachinedeployment/demo"),
            (&Accepts::CLUSTER, "cluster demo", "cluster/demo"),
            (&Accepts::CLUSTER, "ng/demo", "nodegroup/demo does not fit here: this command takes cluster"),
            (&Accepts::DEPLOYMENT, "cmd web", "captmachinedeployment/web"),
            (&Accepts::SCALABLE, "cms/web", "captmachineset/web"),
            (
                &Accepts::SCALABLE,
                "cluster/a",
                "cluster/a does not fit here: this command takes captmachinedeployment, captmachineset",
            ),
        ];
        for (accepts, line, expected) in rows {
            assert_eq!(read(accepts, line, false), expected, "{line}");
        }
    }

    #[test]
    fn a_command_of_one_object_takes_one() {
        let rows = [
            ("a", "wtapply/a"),
            ("cluster a", "cluster/a"),
            ("clutser a", "unknown kind \"clutser\"; did you mean cluster?"),
            ("a b", "unknown kind \"a\""),
            ("cluster a b", "2 objects given: this command takes one"),
            ("wta/a wta/b", "2 objects given: this command takes one"),
        ];
        for (line, expected) in rows {
            assert_eq!(read(&Accepts::WORKSPACES, line, true), expected, "{line}");
        }
    }

    #[test]
    fn an_unknown_kind_is_answered_with_those_there_are() {
        let error = NameError::unknown("pod").to_string();
        assert!(error.starts_with("unknown kind \"pod\"\n  kinds: cluster, "), "{error}");
        for kind in ResourceKind::all() {
            assert!(error.contains(kind.word()), "{}: {error}", kind.name);
        }
    }
}
