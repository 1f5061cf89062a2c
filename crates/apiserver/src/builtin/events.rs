//! Events have two shapes: that of the core group, which is stored, and that of `events.k8s.io`.
//!
//! Nothing is lost either way: both have the same information under other names. Both are decoded objects, and
//! come out as such: the two differ in which empty fields they show.

use serde_json::{Map, Value};

use super::decode::decode;

/// The fields with different names: in the core group, in `events.k8s.io`.
const NAMES: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

const CORE: &str = "v1";
const EVENTS: &str = "events.k8s.io/v1";

/// An event of `events.k8s.io/v1` in the shape of the core group.
#[must_use]
pub fn to_core(event: Value) -> Value {
    let core =
        renamed(event, CORE, |name| NAMES.iter().find(|(_, events)| *events == name).map(|(core, _)| *core));
    shown_as_in("", core)
}

/// An event of the core group in the shape of `events.k8s.io/v1`.
#[must_use]
pub fn from_core(event: Value) -> Value {
    let events = renamed(event, EVENTS, |name| {
        NAMES.iter().find(|(core, _)| *core == name).map(|(_, events)| *events)
    });
    shown_as_in("events.k8s.io", events)
}

fn shown_as_in(group: &str, event: Value) -> Value {
    match decode(group, "Event", event.clone()) {
        Ok(decoded) => decoded.object,
        // An event that was not decoded is left as it is.
        Err(_) => event,
    }
}

fn renamed(event: Value, api_version: &str, rename: impl Fn(&str) -> Option<&'static str>) -> Value {
    let Value::Object(members) = event else { return event };
    let members: Map<String, Value> = members
        .into_iter()
        .map(|(name, value)| match name.as_str() {
            "apiVersion" => (name, api_version.into()),
            _ => (rename(&name).map_or_else(|| name.clone(), str::to_owned), value),
        })
        .collect();
    members.into()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_two_shapes_say_the_same() {
        let core = json!({
            "apiVersion": "v1", "kind": "Event", "metadata": {"name": "e"},
            "involvedObject": {"kind": "Pod", "name": "p"}, "reason": "Started", "message": "m",
            "source": {"component": "kubelet"}, "firstTimestamp": "2020-01-01T00:00:00Z",
            "lastTimestamp": null, "count": 2, "type": "Normal", "eventTime": null,
            "reportingComponent": "", "reportingInstance": "i", "series": {"count": 2, "lastObservedTime": null},
        });
        let events = json!({
            "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "e"},
            "regarding": {"kind": "Pod", "name": "p"}, "reason": "Started", "note": "m",
            "deprecatedSource": {"component": "kubelet"}, "deprecatedFirstTimestamp": "2020-01-01T00:00:00Z",
            "deprecatedLastTimestamp": null, "deprecatedCount": 2, "type": "Normal", "eventTime": null,
            "reportingInstance": "i", "series": {"count": 2, "lastObservedTime": null},
        });
        assert_eq!(from_core(core.clone()), events);
        assert_eq!(to_core(events), core);
    }
}
