//! Roles and who has them.

use super::Package::{Meta, Rbac};
use crate::builtin::schema::{
    Definition,
    DefinitionKind::{AtomicPart, Kind, Part},
    Type::{Atomic, Of, Text},
    define, field,
};

// One line per field, as in a reference.
#[rustfmt::skip]
pub(super) const TABLE: &[Definition] = &[
    define("Role", Kind, "Rules about what may be done in a namespace.", &[
        field("rules", Atomic(&Of(Rbac, "PolicyRule")), "What may be done.").always(),
    ]),
    define("ClusterRole", Kind, "Rules about what may be done, in all namespaces or outside of them.", &[
        field("aggregationRule", Of(Rbac, "AggregationRule"), "Collects the rules of other roles; rules is then kept by a controller.").pointer(),
        field("rules", Atomic(&Of(Rbac, "PolicyRule")), "What may be done.").always(),
    ]),
    define("RoleBinding", Kind, "Gives a role to subjects, in a namespace.", &[
        field("roleRef", Of(Rbac, "RoleRef"), "The role; it never changes.").required(),
        field("subjects", Atomic(&Of(Rbac, "Subject")), "Who gets the role."),
    ]),
    define("ClusterRoleBinding", Kind, "Gives a cluster role to subjects, everywhere.", &[
        field("roleRef", Of(Rbac, "RoleRef"), "The role; it never changes.").required(),
        field("subjects", Atomic(&Of(Rbac, "Subject")), "Who gets the role."),
    ]),
    define("PolicyRule", Part, "What may be done to what.", &[
        field("apiGroups", Atomic(&Text), "API groups of the resources; an empty string is the core group, * is all."),
        field("nonResourceURLs", Atomic(&Text), "Paths outside of resources, * at the end is any rest; only in cluster roles."),
        field("resourceNames", Atomic(&Text), "Names the rule is limited to; empty is no limit."),
        field("resources", Atomic(&Text), "Resources, with a subresource after a slash; * is all."),
        field("verbs", Atomic(&Text), "What may be done; * is everything.").required(),
    ]),
    define("AggregationRule", Part, "Which roles are collected.", &[
        field("clusterRoleSelectors", Atomic(&Of(Meta, "LabelSelector")), "A role that one of these selects is collected."),
    ]),
    define("RoleRef", AtomicPart, "Names the role of a binding.", &[
        field("apiGroup", Text, "API group of the role: rbac.authorization.k8s.io.").always(),
        field("kind", Text, "Role or ClusterRole.").required(),
        field("name", Text, "Name of the role.").required(),
    ]),
    define("Subject", AtomicPart, "A user, a group or a service account.", &[
        field("apiGroup", Text, "API group of the subject; empty for service accounts."),
        field("kind", Text, "User, Group or ServiceAccount.").required(),
        field("name", Text, "Name of the subject.").required(),
        field("namespace", Text, "Namespace of the subject; only for service accounts."),
    ]),
];
