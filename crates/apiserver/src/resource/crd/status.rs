//! The accepted names of a CRD, and its Established condition.
//!
//! Names are taken within a group: plural, singular and short names share one room, kinds and list kinds another.
//! Who comes first keeps them; the other definition keeps those it had, says which is taken, and is looked at
//! again when names become free.

use std::collections::{HashMap, HashSet};

use serde_json::{Value, json};

use crate::object::fields::{get, list, text};

/// Why a definition is not established that has its names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unserved {
    /// All definitions together take too much memory.
    NoRoom(String),
    /// A schema was stored that is refused by now.
    SchemaRefused(String),
}

const NO_ROOM: &str = "NoRoom";
const SCHEMA_REFUSED: &str = "SchemaRefused";

impl Unserved {
    fn reason(&self) -> (&'static str, &str) {
        match self {
            Self::NoRoom(message) => (NO_ROOM, message),
            Self::SchemaRefused(message) => (SCHEMA_REFUSED, message),
        }
    }
}

/// Returns whether objects of this definition are served.
pub fn is_established(crd: &Value) -> bool {
    find(get(crd, &["status"]), "Established").is_some_and(|condition| text(condition, &["status"]) == "True")
}

/// Returns true if it has its names and is not served. Objects may have been made when it was.
pub(super) fn is_left_out(crd: &Value) -> bool {
    find(get(crd, &["status"]), "Established")
        .is_some_and(|condition| [NO_ROOM, SCHEMA_REFUSED].contains(&text(condition, &["reason"])))
}

/// The status of a definition once its names were decided; `None` if nothing changes.
///
/// `names` are those of all definitions, and of this one among them: a name that it has itself is taken for another use, too.
/// `unserved` says why it cannot be served, and `now` is the time in RFC 3339 form, in whole seconds.
pub fn accept(crd: &Value, names: &Names, unserved: Option<&Unserved>, now: &str) -> Option<Value> {
    let nothing = Taken::default();
    let taken = names.0.get(text(crd, &["spec", "group"])).unwrap_or(&nothing);
    let (names, conflict) = decide(crd, taken);
    let mut status = get(crd, &["status"]).clone();
    if !status.is_object() {
        status = json!({});
    }
    status["acceptedNames"] = names;
    let was_established = is_established(crd);
    let established = match &conflict {
        None => {
            set_condition(&mut status, "NamesAccepted", "True", "NoConflicts", "no conflicts found", now);
            ("True", "InitialNamesAccepted", "the initial names have been accepted")
        }
        Some((reason, message)) => {
            set_condition(&mut status, "NamesAccepted", "False", reason, message, now);
            ("False", "NotAccepted", "not all names are accepted")
        }
    };
    // Once established, always established: objects exist. But nobody is told so of what is not served.
    if !was_established || unserved.is_some() {
        let (value, reason, message) = match unserved.map(Unserved::reason) {
            Some((reason, message)) => ("False", reason, message),
            None => established,
        };
        set_condition(&mut status, "Established", value, reason, message, now);
    }
    (status != *get(crd, &["status"])).then_some(status)
}

/// The progress of the deletion of all objects of a CRD that is being deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cleanup {
    /// It begins soon.
    Pending,
    /// It waits for finalizers of objects.
    InProgress,
    /// There are none left.
    Completed,
    /// There never were any.
    NeverEstablished,
}

/// Tells in the status of a definition how far its end is.
pub fn set_terminating(crd: &mut Value, cleanup: Cleanup, now: &str) {
    let (value, reason, message) = match cleanup {
        Cleanup::Pending => (
            "True",
            "InstanceDeletionPending",
            "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
        ),
        Cleanup::InProgress => {
            ("True", "InstanceDeletionInProgress", "CustomResource deletion is in progress")
        }
        Cleanup::Completed => ("False", "InstanceDeletionCompleted", "removed all instances"),
        Cleanup::NeverEstablished => ("False", "NeverEstablished", "resource was never established"),
    };
    if !get(crd, &["status"]).is_object() {
        crd["status"] = json!({});
    }
    set_condition(&mut crd["status"], "Terminating", value, reason, message, now);
}

/// The names that definitions were given, by group.
#[derive(Debug, Default)]
pub struct Names(HashMap<String, Taken>);

#[derive(Debug, Default)]
struct Taken {
    resources: CrdBudget,
    kinds: CrdBudget,
}

/// Number of uses of each name.
#[derive(Debug, Default)]
struct CrdBudget(HashMap<String, usize>);

impl CrdBudget {
    fn contains(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    fn add(&mut self, name: &str) {
        *self.0.entry(name.to_owned()).or_default() += 1;
    }

    fn remove(&mut self, name: &str) {
        if let Some(uses) = self.0.get_mut(name) {
            *uses -= 1;
            if *uses == 0 {
                self.0.remove(name);
            }
        }
    }
}

impl Names {
    /// The names of these definitions.
    pub fn of<'a>(all: impl IntoIterator<Item = &'a Value>) -> Self {
        let mut names = Self::default();
        all.into_iter().for_each(|crd| names.give(crd));
        names
    }

    /// Adds the names that a definition has.
    pub fn give(&mut self, crd: &Value) {
        self.each(crd, CrdBudget::add);
    }

    /// Takes them back.
    pub fn take(&mut self, crd: &Value) {
        self.each(crd, CrdBudget::remove);
    }

    fn each(&mut self, crd: &Value, change: fn(&mut CrdBudget, &str)) {
        let taken = self.0.entry(text(crd, &["spec", "group"]).to_owned()).or_default();
        let names = get(crd, &["status", "acceptedNames"]);
        let short = list(names, &["shortNames"]).iter().filter_map(Value::as_str);
        let resources = ["plural", "singular"].map(|name| text(names, &[name]));
        resources.into_iter().chain(short).for_each(|name| change(&mut taken.resources, name));
        for name in ["kind", "listKind"] {
            change(&mut taken.kinds, text(names, &[name]));
        }
    }
}

/// The names that are accepted, and the reason and words of the last conflict.
fn decide(crd: &Value, taken: &Taken) -> (Value, Option<(&'static str, String)>) {
    let wanted = get(crd, &["spec", "names"]);
    let accepted = get(crd, &["status", "acceptedNames"]);
    let mut names = if accepted.is_object() { accepted.clone() } else { json!({}) };
    let mut conflict = None;
    let in_use = |name: &str| format!("{name:?} is already in use");
    for (name, reason, room) in
        [("plural", "PluralConflict", &taken.resources), ("singular", "SingularConflict", &taken.resources)]
    {
        one(name, reason, room, wanted, accepted, &mut names, &mut conflict);
    }
    let had: HashSet<&str> = list(accepted, &["shortNames"]).iter().filter_map(Value::as_str).collect();
    let clashes: Vec<String> = list(wanted, &["shortNames"])
        .iter()
        .filter_map(Value::as_str)
        .filter(|name| !had.contains(name))
        .filter(|name| taken.resources.contains(name))
        .map(in_use)
        .collect();
    match &clashes[..] {
        [] => replace(&mut names, "shortNames", get(wanted, &["shortNames"])),
        [only] => conflict = Some(("ShortNamesConflict", only.clone())),
        several => conflict = Some(("ShortNamesConflict", format!("[{}]", several.join(", ")))),
    }
    for (name, reason) in [("kind", "KindConflict"), ("listKind", "ListKindConflict")] {
        one(name, reason, &taken.kinds, wanted, accepted, &mut names, &mut conflict);
    }
    replace(&mut names, "categories", get(wanted, &["categories"]));
    (names, conflict)
}

fn one(
    name: &str,
    reason: &'static str,
    room: &CrdBudget,
    wanted: &Value,
    accepted: &Value,
    names: &mut Value,
    conflict: &mut Option<(&'static str, String)>,
) {
    let requested = text(wanted, &[name]);
    if requested != text(accepted, &[name]) && room.contains(requested) {
        *conflict = Some((reason, format!("{requested:?} is already in use")));
    } else {
        names[name] = requested.into();
    }
}

fn replace(names: &mut Value, name: &str, value: &Value) {
    let Value::Object(members) = names else { return };
    if value.as_array().is_some_and(|list| !list.is_empty()) {
        members.insert(name.to_owned(), value.clone());
    } else {
        members.shift_remove(name);
    }
}

fn find<'a>(status: &'a Value, kind: &str) -> Option<&'a Value> {
    list(status, &["conditions"]).iter().find(|condition| text(condition, &["type"]) == kind)
}

/// Sets a condition in a status; its time only moves when its value does.
pub fn set_condition(status: &mut Value, kind: &str, value: &str, reason: &str, message: &str, now: &str) {
    if !get(status, &["conditions"]).is_array() {
        status["conditions"] = json!([]);
    }
    let Some(conditions) = status["conditions"].as_array_mut() else { return };
    let existing = conditions.iter_mut().find(|condition| text(condition, &["type"]) == kind);
    let Some(existing) = existing else {
        conditions.push(json!({
            "type": kind, "status": value, "lastTransitionTime": now, "reason": reason, "message": message,
        }));
        return;
    };
    if text(existing, &["status"]) != value || get(existing, &["lastTransitionTime"]).is_null() {
        existing["lastTransitionTime"] = now.into();
    }
    existing["status"] = value.into();
    existing["reason"] = reason.into();
    existing["message"] = message.into();
}
