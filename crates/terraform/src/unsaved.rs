//! Objects that a run reported as made and its state lacks: their ids, and the ids that they replaced.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::state::State;

/// An object that is in no state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Written", into = "Written")]
pub(crate) struct Unsaved {
    pub id: String,
    /// Ids that objects of the same address had, and that the run destroyed.
    pub gone: BTreeSet<String>,
}

/// In a record. Those of older versions have the id alone.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Written {
    Id(String),
    InPlaceOf { id: String, gone: BTreeSet<String> },
}

impl From<Written> for Unsaved {
    fn from(written: Written) -> Self {
        match written {
            Written::Id(id) => Self { id, gone: BTreeSet::new() },
            Written::InPlaceOf { id, gone } => Self { id, gone },
        }
    }
}

impl From<Unsaved> for Written {
    fn from(Unsaved { id, gone }: Unsaved) -> Self {
        if gone.is_empty() { Self::Id(id) } else { Self::InPlaceOf { id, gone } }
    }
}

/// Relation of a state to an object that it may lack.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It has it.
    Saved,
    /// It has nothing at that address.
    Free,
    /// It has only what was destroyed.
    Outdated,
    /// It has another object there, of which nobody said that it is gone.
    Taken(String),
}

impl Unsaved {
    pub fn standing(&self, address: &str, state: &State) -> Standing {
        if state.holds(address, &self.id) {
            return Standing::Saved;
        }
        let is_gone = |id: &Option<String>| id.as_ref().is_some_and(|id| self.gone.contains(id));
        match state.at(address).find(|there| !is_gone(&there.id)) {
            Some(there) => Standing::Taken(there.id.clone().unwrap_or_else(|| "unknown".to_owned())),
            None if state.at(address).next().is_some() => Standing::Outdated,
            None => Standing::Free,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::Resource;

    /// Ids, and whether they are to be destroyed.
    type There<'a> = &'a [(Option<&'a str>, bool)];

    #[test]
    fn a_record_of_an_older_version_has_ids_alone() {
        let rows = [("\"a\"", &[][..]), (r#"{"id":"a","gone":["b"]}"#, &["b"][..])];
        for (text, gone) in rows {
            let unsaved: Unsaved = serde_json::from_str(text).expect("read");
            let gone = gone.iter().map(|id| (*id).to_owned()).collect();
            assert_eq!(unsaved, Unsaved { id: "a".to_owned(), gone });
            assert_eq!(serde_json::to_string(&unsaved).expect("JSON"), text);
        }
    }

    #[test]
    fn what_a_state_has_in_the_place() {
        use Standing::{Free, Outdated, Saved, Taken};
        let unsaved = Unsaved { id: "new".to_owned(), gone: BTreeSet::from(["old".to_owned()]) };
        let rows: [(There<'_>, Standing); 8] = [
            (&[], Free),
            (&[(Some("new"), false)], Saved),
            (&[(Some("new"), false), (Some("other"), true)], Saved),
            (&[(Some("old"), false)], Outdated),
            (&[(Some("old"), true)], Outdated),
            (&[(Some("old"), true), (Some("other"), false)], Taken("other".to_owned())),
            // Nobody can tell; it was so before ids were compared.
            (&[(None, false)], Saved),
            (&[(None, true)], Taken("unknown".to_owned())),
        ];
        for (there, expected) in rows {
            let of = |(id, deposed): &(Option<&str>, bool)| Resource {
                address: "a.b".to_owned(),
                tainted: false,
                deposed: *deposed,
                id: id.map(str::to_owned),
            };
            let state = State { resources: there.iter().map(of).collect(), ..State::default() };
            assert_eq!(unsaved.standing("a.b", &state), expected, "{there:?}");
            assert_eq!(unsaved.standing("a.c", &state), Free);
        }
    }
}
