//! The kinds of the stream: where they live and what they are made of.

use serde_json::{Map, Value};

use crate::chance::Chance;
use crate::contents;
use crate::crds;
use crate::definitions::GROUP;

/// What an object has besides its metadata; `true` asks for its status.
pub type Content = fn(&mut Chance, bool) -> Map<String, Value>;

pub struct Kind {
    pub group: &'static str,
    pub versions: &'static [&'static str],
    pub plural: &'static str,
    pub name: &'static str,
    pub namespaced: bool,
    pub status: bool,
    pub scale: bool,
    /// Fields that can be selected by.
    pub selectable: &'static [&'static str],
    pub content: Content,
}

impl Kind {
    pub fn api_version(&self, version: &str) -> String {
        if self.group.is_empty() { version.to_owned() } else { format!("{}/{version}", self.group) }
    }

    /// Whether the server goes on writing after it has answered.
    pub fn settles(&self) -> bool {
        self.plural == DEFINITIONS
    }

    /// The path of the collection in a namespace.
    pub fn path(&self, version: &str, namespace: &str) -> String {
        let root = if self.group.is_empty() { "/api".to_owned() } else { format!("/apis/{}", self.group) };
        let plural = self.plural;
        if self.namespaced {
            format!("{root}/{version}/namespaces/{namespace}/{plural}")
        } else {
            format!("{root}/{version}/{plural}")
        }
    }
}

/// Their status is written by the server itself, after the answer.
pub const DEFINITIONS: &str = "customresourcedefinitions";
const RBAC: &str = "rbac.authorization.k8s.io";

const fn kind(group: &'static str, plural: &'static str, name: &'static str, content: Content) -> Kind {
    Kind {
        group,
        versions: &["v1"],
        plural,
        name,
        namespaced: true,
        status: false,
        scale: false,
        selectable: &[],
        content,
    }
}

pub const KINDS: &[Kind] = &[
    kind("", "configmaps", "ConfigMap", contents::config_map),
    Kind { selectable: &["type"], ..kind("", "secrets", "Secret", contents::secret) },
    kind("", "serviceaccounts", "ServiceAccount", contents::service_account),
    Kind {
        selectable: &["reason", "type", "involvedObject.name"],
        ..kind("", "events", "Event", contents::core_event)
    },
    Kind {
        selectable: &["reason", "type", "regarding.name"],
        ..kind("events.k8s.io", "events", "Event", contents::new_event)
    },
    kind("coordination.k8s.io", "leases", "Lease", contents::lease),
    kind(RBAC, "roles", "Role", contents::role),
    kind(RBAC, "rolebindings", "RoleBinding", contents::binding),
    Kind { namespaced: false, ..kind(RBAC, "clusterroles", "ClusterRole", contents::cluster_role) },
    Kind { namespaced: false, ..kind(RBAC, "clusterrolebindings", "ClusterRoleBinding", contents::binding) },
    Kind {
        namespaced: false,
        status: true,
        selectable: &["spec.unschedulable"],
        ..kind("", "nodes", "Node", contents::node)
    },
    Kind {
        namespaced: false,
        status: true,
        selectable: &["status.phase"],
        ..kind("", "namespaces", "Namespace", contents::namespace)
    },
    Kind {
        versions: &["v1", "v1beta1"],
        status: true,
        scale: true,
        selectable: &["spec.color", "spec.number", "spec.flag"],
        ..kind(GROUP, "things", "Thing", contents::thing)
    },
    Kind { versions: &["v1alpha1"], ..kind(GROUP, "plains", "Plain", contents::thing) },
    Kind { versions: &["v1", "v2"], status: true, ..kind(GROUP, "halves", "Half", contents::half) },
    Kind { namespaced: false, status: true, ..kind(GROUP, "wides", "Wide", contents::wide) },
    Kind {
        namespaced: false,
        ..kind("apiextensions.k8s.io", DEFINITIONS, "CustomResourceDefinition", crds::definition)
    },
];
