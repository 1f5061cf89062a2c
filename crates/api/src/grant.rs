//! `ReferenceGrant`: references from other namespaces that a namespace allows, in the shape of Gateway API's kind of that name.
//!
//! [`granted`] is the whole decision, and pure: the controllers' one resolver of references calls it.

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::fragments::{self, is_default};

/// References from other namespaces that the namespace of the grant allows.
#[derive(Clone, CustomResource, Debug, Default, Deserialize, Eq, KubeSchema, PartialEq, Serialize)]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1beta1",
    kind = "ReferenceGrant",
    plural = "referencegrants",
    singular = "referencegrant",
    namespaced,
    shortname = "refgrant",
    category = "capt",
    category = "cluster-api",
    derive = "PartialEq",
    doc = "Allows objects of other namespaces to refer to objects in the namespace of the grant. Every entry of from may refer to every entry of to; several grants add up. References inside one namespace need none.",
    printcolumn(name = "FROM", type_ = "string", json_path = ".spec.from[*].namespace"),
    printcolumn(name = "FROM-KIND", type_ = "string", json_path = ".spec.from[*].kind"),
    printcolumn(name = "TO-KIND", type_ = "string", json_path = ".spec.to[*].kind"),
    printcolumn(name = "TO-NAME", type_ = "string", json_path = ".spec.to[*].name"),
    printcolumn(name = "AGE", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct ReferenceGrantSpec {
    /// Kinds and namespaces whose objects may refer to what `to` lists. One of the entries is enough.
    #[schemars(length(min = 1, max = 16))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub from: Vec<GrantFrom>,
    /// Objects of the grant's own namespace that may be referred to. One of the entries is enough.
    #[schemars(length(min = 1, max = 16))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub to: Vec<GrantTo>,
}

/// Objects that may refer.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GrantFrom {
    /// API group of the objects that refer, for example infrastructure.cluster.x-k8s.io.
    #[schemars(schema_with = "fragments::group")]
    pub group: String,
    /// Kind of the objects that refer: WorkspaceTemplateApply for everything that a run receives or writes, also where a
    /// CAPTCluster, a CAPTControlPlane, a NodeGroup or a CaptMachine owns it; WorkspaceProviderConfig for credentials;
    /// CaptMachine for nodeGroupRef.
    #[schemars(schema_with = "fragments::kind")]
    pub kind: String,
    /// Namespace of the objects that refer.
    #[schemars(schema_with = "fragments::namespace")]
    pub namespace: String,
}

/// Objects that may be referred to.
#[derive(Clone, Debug, Default, Deserialize, Eq, KubeSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("!has(self.access) || self.access != 'Write' || (self.group == '' && self.kind == 'Secret')")
    .message("access: Write is for Secrets (group \"\", kind Secret): CAPT writes nothing else into another namespace"))]
pub struct GrantTo {
    /// API group of the objects; "" is the core group, of Secrets and ConfigMaps.
    #[schemars(schema_with = "fragments::group")]
    pub group: String,
    /// Kind of the objects.
    #[schemars(schema_with = "fragments::kind")]
    pub kind: String,
    /// Name of the one object. Defaults to all objects of the kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "fragments::object_name")]
    pub name: Option<String>,
    /// Read: use what the object holds. Write: put outputs into a Secret that is new, empty, or was written by the same
    /// workspace. One does not include the other. Defaults to Read.
    #[serde(default, skip_serializing_if = "is_default")]
    pub access: Access,
}

/// Kinds of access to the object of a reference.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, Hash, JsonSchema, PartialEq, Serialize)]
pub enum Access {
    /// Uses what the object holds.
    #[default]
    Read,
    /// Writes the object.
    Write,
}

/// A reference from an object of one namespace to an object of another.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Crossing<'a> {
    /// API group, kind and namespace of the object that refers.
    pub from: (&'a str, &'a str, &'a str),
    /// API group, kind and name of the object that is referred to.
    pub to: (&'a str, &'a str, &'a str),
    /// Requested access.
    pub access: Access,
}

/// Decides whether a reference is granted by the grants of the namespace that it points to. The caller picks those; grants of
/// any other namespace say nothing about it.
pub fn granted<'g>(
    crossing: &Crossing<'_>,
    grants: impl IntoIterator<Item = &'g ReferenceGrantSpec>,
) -> bool {
    grants.into_iter().any(|grant| {
        grant.from.iter().any(|from| from.admits(crossing)) && grant.to.iter().any(|to| to.admits(crossing))
    })
}

impl GrantFrom {
    fn admits(&self, crossing: &Crossing<'_>) -> bool {
        (self.group.as_str(), self.kind.as_str(), self.namespace.as_str()) == crossing.from
    }
}

impl GrantTo {
    fn admits(&self, crossing: &Crossing<'_>) -> bool {
        let (group, kind, name) = crossing.to;
        self.group == group
            && self.kind == kind
            && self.name.as_deref().is_none_or(|only| only == name)
            && self.access == crossing.access
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const OURS: &str = "infrastructure.cluster.x-k8s.io";

    fn grants(list: &Value) -> Vec<ReferenceGrantSpec> {
        serde_json::from_value(list.clone()).expect("grants")
    }

    #[test]
    fn a_grant_is_exact_in_all_it_says_and_entries_add_up() {
        let team = |namespace: &str| json!({"group": OURS, "kind": "WorkspaceTemplateApply", "namespace": namespace});
        let one = json!([{"from": [team("b")], "to": [{"group": "", "kind": "Secret", "name": "db"}]}]);
        let all = json!([{"from": [team("b")], "to": [{"group": "", "kind": "Secret"}]}]);
        let written =
            json!([{"from": [team("b")], "to": [{"group": "", "kind": "Secret", "access": "Write"}]}]);
        let many = json!([{
            "from": [{"group": OURS, "kind": "CaptMachine", "namespace": "b"}, team("c"), team("b")],
            "to": [{"group": "", "kind": "ConfigMap"}, {"group": "", "kind": "Secret", "name": "db"}],
        }]);
        // Neither of the two allows it, and halves of two do not make one.
        let halves = json!([
            {"from": [team("b")], "to": [{"group": "", "kind": "ConfigMap"}]},
            {"from": [team("c")], "to": [{"group": "", "kind": "Secret"}]},
        ]);
        let two = json!([halves[0], halves[1], one[0]]);
        let read = Crossing {
            from: (OURS, "WorkspaceTemplateApply", "b"),
            to: ("", "Secret", "db"),
            access: Access::Read,
        };
        let write = Crossing { access: Access::Write, ..read };
        let rows: [(&str, Crossing<'_>, &Value, bool); 17] = [
            ("no grant", read, &json!([]), false),
            ("by name", read, &one, true),
            ("another name", Crossing { to: ("", "Secret", "other"), ..read }, &one, false),
            ("all of a kind", read, &all, true),
            ("another kind", Crossing { to: ("", "ConfigMap", "db"), ..read }, &all, false),
            ("another group", Crossing { to: ("apps", "Secret", "db"), ..read }, &all, false),
            (
                "another namespace",
                Crossing { from: (OURS, "WorkspaceTemplateApply", "c"), ..read },
                &all,
                false,
            ),
            ("another kind asks", Crossing { from: (OURS, "CaptMachine", "b"), ..read }, &all, false),
            (
                "another group asks",
                Crossing { from: ("", "WorkspaceTemplateApply", "b"), ..read },
                &all,
                false,
            ),
            ("one of several entries", read, &many, true),
            ("the other of them", Crossing { to: ("", "ConfigMap", "x"), ..read }, &many, true),
            ("a name in one of them", Crossing { to: ("", "Secret", "x"), ..read }, &many, false),
            ("two halves", read, &halves, false),
            ("one of several grants", read, &two, true),
            ("reading is not writing", write, &all, false),
            ("writing", write, &written, true),
            ("writing is not reading", read, &written, false),
        ];
        for (name, crossing, list, expected) in rows {
            assert_eq!(granted(&crossing, &grants(list)), expected, "{name}");
        }
    }
}
