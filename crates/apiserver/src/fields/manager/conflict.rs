//! Conflicts: fields an applier wants to change and another manager owns.

use std::fmt;

use crate::fields::{
    element::{PathElement, display_path},
    managed::ManagedFieldsEntry,
};

/// One field and who owns it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The owner in words: `"kubectl" using apps/v1`.
    pub manager: String,
    /// The field.
    pub path: Vec<PathElement>,
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

impl Conflicts {
    /// The reason of every cause.
    pub const CAUSE: &'static str = "FieldManagerConflict";

    pub(super) fn add(&mut self, owner: &ManagedFieldsEntry, fields: &crate::fields::set::FieldSet) {
        let manager = owner.to_string();
        fields.for_each(|path| self.0.push(Conflict { manager: manager.clone(), path: path.to_vec() }));
    }

    /// The causes of the `Status`, one for each field.
    pub fn causes(&self) -> Vec<ConflictCause> {
        let cause = |conflict: &Conflict| ConflictCause {
            message: format!("conflict with {}", conflict.manager),
            field: display_path(&conflict.path),
        };
        self.0.iter().map(cause).collect()
    }
}

/// The message of the `Status`.
impl fmt::Display for Conflicts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [only] = self.0.as_slice() {
            let path = display_path(&only.path);
            return write!(f, "Apply failed with 1 conflict: conflict with {}: {path}", only.manager);
        }
        write!(f, "Apply failed with {} conflicts: ", self.0.len())?;
        let mut last = None;
        for conflict in &self.0 {
            if last != Some(&conflict.manager) {
                let line = if last.is_some() { "\n" } else { "" };
                write!(f, "{line}conflicts with {}:", conflict.manager)?;
                last = Some(&conflict.manager);
            }
            write!(f, "\n- {}", display_path(&conflict.path))?;
        }
        Ok(())
    }
}
