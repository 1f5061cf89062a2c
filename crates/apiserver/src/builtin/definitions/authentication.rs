//! Questions about oneself: who am I, what may I do.

use super::Package::{Authentication, Authorization, Meta};
use crate::builtin::schema::{
    Definition,
    DefinitionKind::{Answer, Part},
    Type::{Atomic, Bool, List, Map, Of, Text},
    define, field,
};

// One line per field, as in a reference.
#[rustfmt::skip]
pub(super) const AUTHENTICATION: &[Definition] = &[
    define("SelfSubjectReview", Answer, "Asks the server who it takes the caller for.", &[
        field("status", Of(Authentication, "SelfSubjectReviewStatus"), "The answer."),
    ]),
    define("SelfSubjectReviewStatus", Part, "Who the caller is.", &[
        field("userInfo", Of(Authentication, "UserInfo"), "The user that makes the request."),
    ]),
    define("UserInfo", Part, "A user, as authentication found.", &[
        field("extra", Map(&List(&Text)), "What else authentication told."),
        field("groups", Atomic(&Text), "Groups of the user."),
        field("uid", Text, "Identity of the user among all that ever existed."),
        field("username", Text, "Name of the user."),
    ]),
];

// One line per field, as in a reference.
#[rustfmt::skip]
pub(super) const AUTHORIZATION: &[Definition] = &[
    define("SelfSubjectAccessReview", Answer, "Asks whether the caller may do something.", &[
        field("spec", Of(Authorization, "SelfSubjectAccessReviewSpec"), "The question: exactly one of its members.").required(),
        field("status", Of(Authorization, "SubjectAccessReviewStatus"), "The answer."),
    ]),
    define("SelfSubjectAccessReviewSpec", Part, "What the caller would do.", &[
        field("nonResourceAttributes", Of(Authorization, "NonResourceAttributes"), "A request outside of resources.").pointer(),
        field("resourceAttributes", Of(Authorization, "ResourceAttributes"), "A request for a resource.").pointer(),
    ]),
    define("ResourceAttributes", Part, "A request for a resource.", &[
        field("fieldSelector", Of(Authorization, "FieldSelectorAttributes"), "Limits the request to objects with these fields.").pointer(),
        field("group", Text, "API group; * is all."),
        field("labelSelector", Of(Authorization, "LabelSelectorAttributes"), "Limits the request to objects with these labels.").pointer(),
        field("name", Text, "Name of the object; empty is all."),
        field("namespace", Text, "Namespace; empty is all, or none for resources without namespaces."),
        field("resource", Text, "The resource; * is all."),
        field("subresource", Text, "The subresource; empty is none."),
        field("verb", Text, "get, list, watch, create, update, patch, delete, deletecollection; * is all."),
        field("version", Text, "API version; * is all."),
    ]),
    define("FieldSelectorAttributes", Part, "Fields of the objects asked for.", &[
        field("rawSelector", Text, "The selector as a query string; not evaluated."),
        field("requirements", Atomic(&Of(Meta, "FieldSelectorRequirement")), "The selector, parsed."),
    ]),
    define("LabelSelectorAttributes", Part, "Labels of the objects asked for.", &[
        field("rawSelector", Text, "The selector as a query string; not evaluated."),
        field("requirements", Atomic(&Of(Meta, "LabelSelectorRequirement")), "The selector, parsed."),
    ]),
    define("NonResourceAttributes", Part, "A request outside of resources.", &[
        field("path", Text, "The path."),
        field("verb", Text, "The HTTP method, in lower case."),
    ]),
    define("SubjectAccessReviewStatus", Part, "Whether something is allowed.", &[
        field("allowed", Bool, "Whether it is allowed.").required(),
        field("denied", Bool, "Whether it is denied, whatever others say."),
        field("evaluationError", Text, "What went wrong on the way; the answer holds all the same."),
        field("reason", Text, "Why."),
    ]),
    define("SubjectAccessReview", Answer, "Asks whether somebody may do something.", &[
        field("spec", Of(Authorization, "SubjectAccessReviewSpec"), "The question: exactly one of the two kinds of attributes.").required(),
        field("status", Of(Authorization, "SubjectAccessReviewStatus"), "The answer."),
    ]),
    define("LocalSubjectAccessReview", Answer, "Asks whether somebody may do something in a namespace.", &[
        field("spec", Of(Authorization, "SubjectAccessReviewSpec"), "The question; its namespace is that of the review.").required(),
        field("status", Of(Authorization, "SubjectAccessReviewStatus"), "The answer."),
    ]),
    define("SubjectAccessReviewSpec", Part, "Who would do what.", &[
        field("extra", Map(&List(&Text)), "What else authentication told of the user."),
        field("groups", Atomic(&Text), "Groups of the user."),
        field("nonResourceAttributes", Of(Authorization, "NonResourceAttributes"), "A request outside of resources.").pointer(),
        field("resourceAttributes", Of(Authorization, "ResourceAttributes"), "A request for a resource.").pointer(),
        field("uid", Text, "Identity of the user among all that ever existed."),
        field("user", Text, "Name of the user; with groups alone, the question is about them."),
    ]),
    define("SelfSubjectRulesReview", Answer, "Asks what the caller may do in a namespace.", &[
        field("spec", Of(Authorization, "SelfSubjectRulesReviewSpec"), "The question.").required(),
        field("status", Of(Authorization, "SubjectRulesReviewStatus"), "The answer."),
    ]),
    define("SelfSubjectRulesReviewSpec", Part, "Where the caller would act.", &[field("namespace", Text, "The namespace; required.")]),
    define("SubjectRulesReviewStatus", Part, "What is allowed.", &[
        field("evaluationError", Text, "What went wrong on the way."),
        field("incomplete", Bool, "Whether rules may be missing.").required(),
        field("nonResourceRules", Atomic(&Of(Authorization, "NonResourceRule")), "What is allowed outside of resources.").required(),
        field("resourceRules", Atomic(&Of(Authorization, "ResourceRule")), "What is allowed to resources.").required(),
    ]),
    define("NonResourceRule", Part, "What is allowed outside of resources.", &[
        field("nonResourceURLs", Atomic(&Text), "Paths; * at the end is any rest."),
        field("verbs", Atomic(&Text), "HTTP methods, in lower case; * is all.").required(),
    ]),
    define("ResourceRule", Part, "What is allowed to resources.", &[
        field("apiGroups", Atomic(&Text), "API groups; * is all."),
        field("resourceNames", Atomic(&Text), "Names the rule is limited to; empty is no limit."),
        field("resources", Atomic(&Text), "Resources; * is all."),
        field("verbs", Atomic(&Text), "Verbs; * is all.").required(),
    ]),
];
