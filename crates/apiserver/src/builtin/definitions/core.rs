//! The core group, except nodes.

use super::Package::{Core, Meta};
use crate::builtin::schema::{
    Definition,
    DefinitionKind::{AtomicPart, Kind, Open, Part},
    Type::{Atomic, Bool, Bytes, Int32, Keyed, Map, Of, Text},
    define, field,
};

// One line per field, as in a reference.
#[rustfmt::skip]
pub(super) const TABLE: &[Definition] = &[
    define("Namespace", Kind, "A room for names: objects in different namespaces may have the same name.", &[
        field("spec", Of(Core, "NamespaceSpec"), "What is wanted."),
        field("status", Of(Core, "NamespaceStatus"), "What was observed."),
    ]),
    define("NamespaceSpec", Part, "What is wanted of a namespace.", &[
        field("finalizers", Atomic(&Text), "What must be done before the namespace may go; `kubernetes` is the removal of all it holds."),
    ]),
    define("NamespaceStatus", Part, "What was observed of a namespace.", &[
        field("conditions", Keyed(&Of(Core, "NamespaceCondition"), "type"), "What stands in the way of its deletion.").merged(),
        field("phase", Text, "Active, or Terminating once its deletion was asked for.").one_of(&["Active", "Terminating"]),
    ]),
    define("NamespaceCondition", Part, "One observation about a namespace.", &[
        field("lastTransitionTime", Of(Meta, "Time"), "When the status last changed."),
        field("message", Text, "Details for people."),
        field("reason", Text, "Why, in one word."),
        field("status", Text, "True, False or Unknown.").required(),
        field("type", Text, "What the condition is about.").required(),
    ]),
    define("Secret", Kind, "Confidential data, such as keys and passwords.", &[
        field("data", Map(&Bytes), "The data: keys of letters, digits, -, _ and ., values in base64."),
        field("immutable", Bool, "When true, the data never changes again; the object can only be deleted.").pointer(),
        field("stringData", Map(&Text), "Data as plain text, for writing only: it is merged into data, over what is there."),
        field("type", Text, "What the data is; some types require certain keys. Opaque when not given. It never changes."),
    ]),
    define("ConfigMap", Kind, "Configuration for programs to read.", &[
        field("binaryData", Map(&Bytes), "Values that are not text, in base64; keys may not be in data as well."),
        field("data", Map(&Text), "Text values: keys of letters, digits, -, _ and . ."),
        field("immutable", Bool, "When true, the data never changes again; the object can only be deleted.").pointer(),
    ]),
    define("ServiceAccount", Kind, "An identity for programs.", &[
        field("automountServiceAccountToken", Bool, "Whether pods of this account get a token mounted; pods may say otherwise.").pointer(),
        field("imagePullSecrets", Atomic(&Of(Core, "LocalObjectReference")), "Secrets for pulling images, for pods of this account."),
        field("secrets", Keyed(&Of(Core, "ObjectReference"), "name"), "Secrets that pods of this account may use.").merged(),
    ]),
    define("Event", Kind, "A report of something that happened to an object. Events are kept for a limited time and may be lost.", &[
        field("action", Text, "What was done, or failed."),
        field("count", Int32, "How often it happened."),
        field("eventTime", Of(Meta, "MicroTime"), "When it was first seen."),
        field("firstTimestamp", Of(Meta, "Time"), "When it was first recorded."),
        field("involvedObject", Of(Core, "ObjectReference"), "The object it happened to.").required(),
        field("lastTimestamp", Of(Meta, "Time"), "When it was last recorded."),
        field("message", Text, "What happened, for people."),
        field("metadata", Of(Meta, "ObjectMeta"), "Name, labels, owners and other facts about the object.").required(),
        field("reason", Text, "Why, in one CamelCase word."),
        field("related", Of(Core, "ObjectReference"), "A second object that took part.").pointer(),
        field("reportingComponent", Text, "Controller that reports it, such as kubernetes.io/kubelet.").always(),
        field("reportingInstance", Text, "Which instance of the controller.").always(),
        field("series", Of(Core, "EventSeries"), "Its repetitions, where there are any.").pointer(),
        field("source", Of(Core, "EventSource"), "Component that reports it, in the older form."),
        field("type", Text, "Normal or Warning."),
    ]),
    define("EventSeries", Part, "Repetitions of an event.", &[
        field("count", Int32, "How often it has happened in this series."),
        field("lastObservedTime", Of(Meta, "MicroTime"), "When it last happened."),
    ]),
    define("EventSource", Part, "Where an event comes from.", &[
        field("component", Text, "The component."),
        field("host", Text, "The node it runs on."),
    ]),
    define("ObjectReference", AtomicPart, "Names another object, or a part of one.", &[
        field("apiVersion", Text, "API version of the object."),
        field("fieldPath", Text, "Part of the object, such as spec.containers{name}."),
        field("kind", Text, "Kind of the object."),
        field("name", Text, "Name of the object."),
        field("namespace", Text, "Namespace of the object."),
        field("resourceVersion", Text, "Revision of the object."),
        field("uid", Text, "Identity of the object."),
    ]),
    define("Service", Kind, "A name and an address for a set of pods. This server runs none: there are no services here, and none can be made.", &[
        field("spec", Of(Core, "ServiceSpec"), "What is wanted."),
        field("status", Of(Core, "ServiceStatus"), "What was observed."),
    ]),
    define("ServiceSpec", Open, "What is wanted of a service.", &[]),
    define("ServiceStatus", Open, "What was observed of a service.", &[]),
    define("LocalObjectReference", AtomicPart, "Names an object in the same namespace.", &[field("name", Text, "Name of the object.")]),
];
