//! Events in the shape of their own group; the stored objects are those of the core group.

use super::Package::{Core, Events, Meta};
use crate::builtin::schema::{
    Definition,
    DefinitionKind::{Kind, Part},
    Type::{Int32, Of, Text},
    define, field,
};

// One line per field, as in a reference.
#[rustfmt::skip]
pub(super) const TABLE: &[Definition] = &[
    define("Event", Kind, "A report of something that happened to an object. Events are kept for a limited time and may be lost.", &[
        field("action", Text, "What was done, or failed; at most 128 characters."),
        field("deprecatedCount", Int32, "count of the core group."),
        field("deprecatedFirstTimestamp", Of(Meta, "Time"), "firstTimestamp of the core group."),
        field("deprecatedLastTimestamp", Of(Meta, "Time"), "lastTimestamp of the core group."),
        field("deprecatedSource", Of(Core, "EventSource"), "source of the core group."),
        field("eventTime", Of(Meta, "MicroTime"), "When it was first seen.").required(),
        field("note", Text, "What happened, for people; at most 1024 bytes."),
        field("reason", Text, "Why, in one CamelCase word; at most 128 characters."),
        field("regarding", Of(Core, "ObjectReference"), "The object it happened to."),
        field("related", Of(Core, "ObjectReference"), "A second object that took part.").pointer(),
        field("reportingController", Text, "Controller that reports it, such as kubernetes.io/kubelet."),
        field("reportingInstance", Text, "Which instance of the controller; at most 128 characters."),
        field("series", Of(Events, "EventSeries"), "Its repetitions, where there are any.").pointer(),
        field("type", Text, "Normal or Warning."),
    ]),
    define("EventSeries", Part, "Repetitions of an event.", &[
        field("count", Int32, "How often it has happened in this series.").required(),
        field("lastObservedTime", Of(Meta, "MicroTime"), "When it last happened.").required(),
    ]),
];
