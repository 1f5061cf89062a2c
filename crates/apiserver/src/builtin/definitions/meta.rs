//! Definitions that all kinds share: metadata, options, responses.

use super::Package::{Autoscaling, Meta, Runtime};
use crate::builtin::schema::{
    Definition,
    DefinitionKind::{Answer, AtomicPart, Envelope, Open, Part, Quantity, Time},
    Type::{Atomic, Bool, Int32, Int64, Keyed, Map, Of, Set, Text},
    define, field,
};

// One line per field, as in a reference.
#[rustfmt::skip]
pub(super) const TABLE: &[Definition] = &[
    define("ObjectMeta", Part, "Facts every stored object has.", &[
        field("annotations", Map(&Text), "Notes of tools about the object; not for selecting by."),
        field("creationTimestamp", Of(Meta, "Time"), "When the object was created; set by the server.").pointer(),
        field("deletionGracePeriodSeconds", Int64, "Seconds the object may take to end; set with deletionTimestamp.").pointer(),
        field("deletionTimestamp", Of(Meta, "Time"), "When deletion was asked for; set by the server. The object stays until its finalizers are gone.").pointer(),
        field("finalizers", Set(&Text), "What must be done before the object may go; each name is removed by whoever did it.").merged(),
        field("generateName", Text, "Beginning of a name that the server completes, where name is not given."),
        field("generation", Int64, "Counts the changes of the wanted state; set by the server."),
        field("labels", Map(&Text), "Names and values by which objects are grouped and selected."),
        field("managedFields", Atomic(&Of(Meta, "ManagedFieldsEntry")), "Who last set which fields; kept by the server."),
        field("name", Text, "Name of the object, unique for its kind in its namespace; it never changes."),
        field("namespace", Text, "Namespace of the object; absent for kinds without namespaces. It never changes."),
        field("ownerReferences", Keyed(&Of(Meta, "OwnerReference"), "uid"), "Objects this one belongs to; when all are gone it is deleted.").merged(),
        field("resourceVersion", Text, "Revision of the stored object; clients only compare it for equality and send it back."),
        field("selfLink", Text, "No longer set."),
        field("uid", Text, "Identity of the object among all that ever existed; set by the server."),
    ]),
    define("OwnerReference", AtomicPart, "An object that owns this one, in the same namespace or in none.", &[
        field("apiVersion", Text, "API version of the owner.").required(),
        field("blockOwnerDeletion", Bool, "Whether a foreground deletion of the owner waits for this object.").pointer(),
        field("controller", Bool, "Whether the owner is the controller that manages this object; at most one may be.").pointer(),
        field("kind", Text, "Kind of the owner.").required(),
        field("name", Text, "Name of the owner.").required(),
        field("uid", Text, "Identity of the owner.").required(),
    ]),
    define("ManagedFieldsEntry", Part, "The fields that one manager set by one way of writing.", &[
        field("apiVersion", Text, "API version in which the fields are named."),
        field("fieldsType", Text, "Format of the field names; only FieldsV1 exists."),
        field("fieldsV1", Of(Meta, "FieldsV1"), "The fields.").pointer(),
        field("manager", Text, "Name of the program or person."),
        field("operation", Text, "Apply or Update."),
        field("subresource", Text, "Subresource that was written through; empty for the object itself."),
        field("time", Of(Meta, "Time"), "When the set of fields last changed.").pointer(),
    ]),
    define("FieldsV1", Open, "A set of fields as nested objects: members are named f:<field>, k:<keys>, v:<value> or i:<index>.", &[]),
    define("ListMeta", Part, "Facts every list has.", &[
        field("continue", Text, "Token for the next part of the list; empty at its end."),
        field("remainingItemCount", Int64, "How many objects follow this part; absent where that is not known.").pointer(),
        field("resourceVersion", Text, "Revision at which the list was read; a watch may start from it."),
        field("selfLink", Text, "No longer set."),
    ]),
    define("Time", Time, "A moment in RFC 3339 form, in seconds.", &[]),
    define("MicroTime", Time, "A moment in RFC 3339 form, in microseconds.", &[]),
    define("LabelSelector", AtomicPart, "Selects objects by their labels; all requirements must hold, and none selects everything.", &[
        field("matchExpressions", Atomic(&Of(Meta, "LabelSelectorRequirement")), "Requirements on labels."),
        field("matchLabels", Map(&Text), "Labels with the value they must have."),
    ]),
    define("LabelSelectorRequirement", Part, "A requirement on one label.", &[
        field("key", Text, "The label.").required(),
        field("operator", Text, "In, NotIn, Exists or DoesNotExist.").required(),
        field("values", Atomic(&Text), "Values for In and NotIn; empty otherwise."),
    ]),
    define("FieldSelectorRequirement", Part, "A requirement on one field.", &[
        field("key", Text, "The field.").required(),
        field("operator", Text, "In, NotIn, Exists or DoesNotExist.").required(),
        field("values", Atomic(&Text), "Values for In and NotIn; empty otherwise."),
    ]),
    define("DeleteOptions", Envelope, "How to delete.", &[
        field("dryRun", Atomic(&Text), "All: check everything, store nothing."),
        field("gracePeriodSeconds", Int64, "Seconds the object may take to end; 0 is at once.").pointer(),
        field("ignoreStoreReadErrorWithClusterBreakingPotential", Bool, "Delete an object that can no longer be read from the store.").pointer(),
        field("orphanDependents", Bool, "Older form of propagationPolicy: true is Orphan.").pointer(),
        field("preconditions", Of(Meta, "Preconditions"), "What must hold for the deletion to happen.").pointer(),
        field("propagationPolicy", Text, "What becomes of owned objects: Orphan keeps them, Background deletes them after the owner, Foreground before it.").pointer(),
    ]),
    define("Preconditions", Part, "What the stored object must be for a request to happen.", &[
        field("resourceVersion", Text, "The revision it must have.").pointer(),
        field("uid", Text, "The identity it must have.").pointer(),
    ]),
    define("Patch", Open, "A change in one of the patch formats, told apart by the content type.", &[]),
    define("Status", Envelope, "The answer to a request that returns no object.", &[
        field("code", Int32, "HTTP status code."),
        field("details", Of(Meta, "StatusDetails"), "More about the reason, in a form fit for programs.").pointer(),
        field("message", Text, "What happened, for people."),
        field("metadata", Of(Meta, "ListMeta"), "Metadata of an answer; mostly empty."),
        field("reason", Text, "Why it failed, in one word."),
        field("status", Text, "Success or Failure."),
    ]),
    define("StatusDetails", Part, "What an answer is about.", &[
        field("causes", Atomic(&Of(Meta, "StatusCause")), "All that was wrong."),
        field("group", Text, "API group of the object."),
        field("kind", Text, "Kind or resource of the object."),
        field("name", Text, "Name of the object."),
        field("retryAfterSeconds", Int32, "After how many seconds the request may be repeated."),
        field("uid", Text, "Identity of the object."),
    ]),
    define("StatusCause", Part, "One thing that was wrong.", &[
        field("field", Text, "The field, in JavaScript notation."),
        field("message", Text, "What was wrong, for people."),
        field("reason", Text, "What was wrong, in one word."),
    ]),
    define("WatchEvent", Part, "One change on a watch.", &[
        field("object", Of(Runtime, "RawExtension"), "The object after the change, or before its deletion; for errors a Status.").required(),
        field("type", Text, "ADDED, MODIFIED, DELETED, BOOKMARK or ERROR.").required(),
    ]),
];

// One line per field, as in a reference.
#[rustfmt::skip]
pub(super) const AUTOSCALING: &[Definition] = &[
    define("Scale", Answer, "How many replicas something has and should have.", &[
        field("spec", Of(Autoscaling, "ScaleSpec"), "What is wanted."),
        field("status", Of(Autoscaling, "ScaleStatus"), "What was observed."),
    ]),
    define("ScaleSpec", Part, "How many replicas are wanted.", &[field("replicas", Int32, "The number of replicas wanted.")]),
    define("ScaleStatus", Part, "How many replicas there are.", &[
        field("replicas", Int32, "The number of replicas observed.").required(),
        field("selector", Text, "Label selector of the replicas, as a query string."),
    ]),
];

pub(super) const RESOURCE: &[Definition] = &[define(
    "Quantity",
    Quantity,
    "A number with an optional unit: m, k, M, G, T, P, E, Ki, Mi, Gi, Ti, Pi, Ei or an exponent.",
    &[],
)];

pub(super) const RUNTIME: &[Definition] = &[define("RawExtension", Open, "Any object.", &[])];
