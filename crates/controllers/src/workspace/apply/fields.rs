//! Fields that hold the values of variables, so that what is said about one names its place in a manifest.

use std::collections::BTreeMap;

use capt_api::workspace::WorkspaceTemplate;
use capt_terraform::failure::Failure;
use capt_terraform::view::{Finished, Outcome, View};
use kube::ResourceExt;

use super::prepare::Prepared;
use super::variables::Unfilled;

/// Bytes of a name that somebody typed; a longer one is no slip of any other.
const LONGEST: usize = 128;

/// Names that one is compared with.
const MOST_COMPARED: usize = 200;

/// Names that are told one by one.
pub const MOST_TOLD: usize = 10;

/// Field that holds the value, by variable.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Fields(BTreeMap<String, Field>);

#[derive(Clone, Debug, Eq, PartialEq)]
struct Field {
    place: String,
    /// Offered under its own name, for modules that declare it: nobody misses it elsewhere.
    offered: bool,
}

impl Fields {
    /// A value of the object itself.
    pub fn own(&mut self, name: &str) {
        self.put(name, own(name), false);
    }

    /// A value of its template.
    pub fn of_template(&mut self, name: &str, template: &WorkspaceTemplate) {
        self.put(name, format!("variable {name} of WorkspaceTemplate {}", template.name_any()), false);
    }

    /// A value that an entry of `variablesFrom` maps to the variable.
    pub fn mapped(&mut self, name: &str, entry: usize) {
        self.put(name, format!("spec.variablesFrom[{entry}].map.{name}"), false);
    }

    /// A value that an entry of `variablesFrom` offers under its own name.
    pub fn offered(&mut self, name: &str, entry: usize) {
        if self.0.get(name).is_none_or(|known| known.offered) {
            self.put(name, format!("spec.variablesFrom[{entry}], key {name}"), true);
        }
    }

    fn put(&mut self, name: &str, place: String, offered: bool) {
        self.0.insert(name.to_owned(), Field { place, offered });
    }

    /// Returns the field that holds the value of a variable; for one without a value, where it would be.
    pub fn place(&self, name: &str) -> String {
        self.0.get(name).map_or_else(|| own(name), |field| field.place.clone())
    }

    /// Returns true if somebody means this variable and no other.
    fn is_meant(&self, name: &str) -> bool {
        self.0.get(name).is_none_or(|field| !field.offered)
    }
}

fn own(name: &str) -> String {
    format!("spec.variables.{name}")
}

/// Puts the failure of the last run into the words of the manifests.
pub fn name_inputs(view: &mut View, fields: &Fields) {
    if let Some(Finished { outcome: Outcome::Failed(failure), .. }) = &mut view.last {
        *failure = named(failure.clone(), fields);
    }
}

/// A failure in the words of the manifests.
pub fn named(failure: Failure, fields: &Fields) -> Failure {
    failure.given_as(|name| fields.place(name))
}

/// Describes the values that the module declares no variable for: those that its text tells, and those that the last run of the same
/// inputs found. None where there are none.
pub fn undeclared(prepared: &Prepared, last: Option<&Finished>) -> Option<String> {
    let found = last.filter(|last| last.revision.as_ref() == Some(&prepared.revision));
    let found = found.into_iter().flat_map(|last| &last.undeclared);
    let found = found.filter(|name| prepared.fields.is_meant(name) && !prepared.optional.contains(name));
    let mut names: Vec<&String> = prepared.undeclared.iter().chain(found).collect();
    names.sort();
    names.dedup();
    let more = names.len().saturating_sub(MOST_TOLD);
    let told: Vec<String> = names
        .into_iter()
        .take(MOST_TOLD)
        .map(|name| {
            let hint = nearest(name, prepared.declared.iter().map(String::as_str));
            let hint = hint.map_or_else(String::new, |known| format!(" (did you mean {known}?)"));
            format!("{}: the module declares no variable {name}{hint}", prepared.fields.place(name))
        })
        .collect();
    let more = if more == 0 { String::new() } else { format!("; and {more} more") };
    (!told.is_empty()).then(|| format!("{}{more}; not passed", told.join("; ")))
}

/// Message on `${key}` in values of the template that nothing gives. Nothing where there are none.
pub fn unfilled(prepared: &Prepared) -> Option<String> {
    let told: Vec<String> = prepared
        .unfilled
        .iter()
        .map(|Unfilled { variable, key, near }| {
            let hint = near.as_ref().map_or_else(String::new, |near| format!(" (did you mean ${{{near}}}?)"));
            format!("{}: no value is given for ${{{key}}}{hint}", prepared.fields.place(variable))
        })
        .collect();
    (!told.is_empty()).then(|| format!("{}; passed as written", told.join("; ")))
}

/// The known name that a misspelt one was probably meant to be.
pub fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    if name.len() > LONGEST {
        return None;
    }
    // What differs much in length is no slip, and costs nothing.
    known
        .filter(|candidate| candidate.len().abs_diff(name.len()) <= 1 + candidate.len() / 5)
        .take(MOST_COMPARED)
        .map(|candidate| (distance(name, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= 1 + candidate.len() / 5)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Edits (insert, delete, replace, swap neighbours) that turn one name into the other.
fn distance(from: &str, to: &str) -> usize {
    let (from, to) = (from.as_bytes(), to.as_bytes());
    let mut rows: Vec<Vec<usize>> = vec![(0..=to.len()).collect()];
    for (at, a) in from.iter().enumerate() {
        let mut row = vec![at + 1];
        for (column, b) in to.iter().enumerate() {
            let above = &rows[at];
            let mut best =
                (above[column] + usize::from(a != b)).min(above[column + 1] + 1).min(row[column] + 1);
            if at > 0 && column > 0 && *a == to[column - 1] && from[at - 1] == *b {
                best = best.min(rows[at - 1][column - 1] + 1);
            }
            row.push(best);
        }
        rows.push(row);
    }
    rows[from.len()][to.len()]
}

#[cfg(test)]
mod tests {
    use capt_api::workspace::WorkspaceTemplateSpec;
    use capt_terraform::failure::Reason;
    use capt_terraform::order::Operation;

    use super::super::fixture::{ended, observed};
    use super::*;

    #[test]
    fn the_last_place_that_gives_a_value_is_named() {
        let template = WorkspaceTemplate::new("t", WorkspaceTemplateSpec::default());
        let mut fields = Fields::default();
        for name in ["a", "b", "c", "d"] {
            fields.of_template(name, &template);
        }
        fields.mapped("b", 0);
        fields.offered("c", 1);
        fields.offered("e", 1);
        fields.own("d");
        let rows = [
            ("a", "variable a of WorkspaceTemplate t"),
            ("b", "spec.variablesFrom[0].map.b"),
            ("c", "variable c of WorkspaceTemplate t"),
            ("d", "spec.variables.d"),
            ("e", "spec.variablesFrom[1], key e"),
            ("missing", "spec.variables.missing"),
        ];
        for (name, expected) in rows {
            assert_eq!(fields.place(name), expected, "{name}");
        }
        let failure = Failure {
            variable: Some("b".into()),
            ..Failure::new(Reason::InvalidVariable, "variable \"b\": a number is required")
        };
        assert_eq!(named(failure, &fields).message, "spec.variablesFrom[0].map.b: a number is required");
    }

    #[test]
    fn a_typo_is_named_with_what_was_meant() {
        let mut prepared = observed().prepared.expect("prepared");
        prepared.declared = ["size", "instance_type"].map(str::to_owned).to_vec();
        assert_eq!(undeclared(&prepared, None), None);
        prepared.fields.own("sise");
        prepared.undeclared = vec!["sise".into()];
        let told =
            "spec.variables.sise: the module declares no variable sise (did you mean size?); not passed";
        assert_eq!(undeclared(&prepared, None).as_deref(), Some(told));
        // Of a module that was fetched, a run tells: but not of what is only offered, or need not be declared.
        let mut last = ended(observed(), Operation::Apply, "new", Outcome::Done).view.last.expect("ended");
        last.undeclared = ["sise", "zone", "offered", "optional"].map(str::to_owned).to_vec();
        prepared.fields.offered("offered", 0);
        prepared.optional = vec!["optional".into()];
        let told = undeclared(&prepared, Some(&last)).expect("told");
        assert!(
            told.ends_with("spec.variables.zone: the module declares no variable zone; not passed"),
            "{told}"
        );
        assert_eq!(told.matches("declares no variable").count(), 2, "{told}");
        last.revision = None;
        assert!(!undeclared(&prepared, Some(&last)).expect("told").contains("zone"), "of other inputs");
    }

    #[test]
    fn a_key_without_a_value_is_named_with_what_was_meant() {
        let mut prepared = observed().prepared.expect("prepared");
        assert_eq!(unfilled(&prepared), None);
        let left = |key: &str, near: Option<&str>| Unfilled {
            variable: "name".into(),
            key: key.into(),
            near: near.map(str::to_owned),
        };
        prepared.fields.of_template("name", &WorkspaceTemplate::new("t", WorkspaceTemplateSpec::default()));
        prepared.unfilled = vec![left("cluster", Some("cluster_name")), left("x", None)];
        let told = "variable name of WorkspaceTemplate t: no value is given for ${cluster} (did you mean ${cluster_name}?); variable \
                    name of WorkspaceTemplate t: no value is given for ${x}; passed as written";
        assert_eq!(unfilled(&prepared).as_deref(), Some(told));
    }

    #[test]
    fn near_names() {
        let rows = [
            ("sise", Some("size")),
            ("szie", Some("size")),
            ("nmae", Some("name")),
            ("colour", None),
            ("", None),
        ];
        for (name, expected) in rows {
            assert_eq!(nearest(name, ["name", "size", "instance_type"].into_iter()), expected, "{name}");
        }
    }
}
