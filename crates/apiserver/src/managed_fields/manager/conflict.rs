//! Conflicts: fields an applier wants to change and another manager owns.

use std::fmt;

use crate::managed_fields::{
    element::{PathElement, display_path},
    managed::ManagedFieldsEntry,
    set::FieldSet,
};

/// Bytes of a message after which no more fields are named. It is cut far earlier where it is told: thousands of fields below a
/// long key would be as many long paths.
const MOST_TOLD: usize = 256 << 10;

/// The fields of one manager that are in the way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The owner in words: `"kubectl" using apps/v1`.
    pub manager: String,
    /// The fields, at least one.
    pub fields: FieldSet,
}

/// All conflicts of one apply, sorted by manager; never empty when it is an error.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conflicts(pub Vec<Conflict>);

/// One cause of a `Status`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConflictCause {
    /// `conflict with "kubectl" using apps/v1`
    pub message: String,
    /// `.spec.replicas`
    pub field: String,
}

/// The causes of a `Status`, each made when it is asked for.
pub struct Causes<'a> {
    rest: Box<dyn Iterator<Item = ConflictCause> + 'a>,
    left: usize,
}

impl fmt::Debug for Causes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Causes({} left)", self.left)
    }
}

impl Iterator for Causes<'_> {
    type Item = ConflictCause;

    fn next(&mut self) -> Option<ConflictCause> {
        self.left = self.left.saturating_sub(1);
        self.rest.next()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Causes<'_> {}

impl Conflicts {
    /// The reason of every cause.
    pub const CAUSE: &'static str = "FieldManagerConflict";

    pub(super) fn add(&mut self, owner: &ManagedFieldsEntry, fields: FieldSet) {
        if !fields.is_empty() {
            self.0.push(Conflict { manager: owner.to_string(), fields });
        }
    }

    /// The number of fields in conflict.
    fn count(&self) -> usize {
        self.0.iter().map(|conflict| conflict.fields.len()).sum()
    }

    /// Each manager with each of its fields.
    fn fields(&self) -> impl Iterator<Item = (&str, Vec<PathElement>)> {
        self.0.iter().flat_map(|conflict| {
            conflict.fields.iter_paths(Vec::new()).map(move |path| (conflict.manager.as_str(), path))
        })
    }

    /// The causes of the `Status`, one for each field.
    pub fn causes(&self) -> Causes<'_> {
        let cause = |(manager, path): (&str, Vec<PathElement>)| ConflictCause {
            message: format!("conflict with {manager}"),
            field: display_path(&path),
        };
        Causes { rest: Box::new(self.fields().map(cause)), left: self.count() }
    }
}

/// The message of the `Status`.
impl fmt::Display for Conflicts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.count();
        let mut told = 0;
        let mut last = None;
        if count != 1 {
            write!(f, "Apply failed with {count} conflicts: ")?;
        }
        for (manager, path) in self.fields() {
            let path = display_path(&path);
            if count == 1 {
                return write!(f, "Apply failed with 1 conflict: conflict with {manager}: {path}");
            }
            if last != Some(manager) {
                let line = if last.is_some() { "\n" } else { "" };
                write!(f, "{line}conflicts with {manager}:")?;
                last = Some(manager);
                told += manager.len();
            }
            write!(f, "\n- {path}")?;
            told += path.len() + 3;
            if told > MOST_TOLD {
                break;
            }
        }
        Ok(())
    }
}
