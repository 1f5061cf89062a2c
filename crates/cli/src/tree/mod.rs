//! The tree: what belongs to what, how each part stands, and why something is not ready.
//!
//! ```text
//! source (lists or watches an API) -> ObjectSummary -> build (who belongs to whom) -> Node
//!     -> fold (alike siblings become one line) -> render (lines for people), or JSON and YAML as it is
//! ```
//!
//! Everything but `source` is pure: objects and a time in, nodes or lines out.

pub mod build;
pub mod cause;
pub mod fold;
pub mod judge;
pub mod object_summary;
pub mod render;
pub mod source;

use jiff::Timestamp;
use serde::Serialize;

pub use cause::Cause;
pub use object_summary::Kind;

/// State of one object, ordered from well to unwell: the state of a group is its largest.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub enum State {
    /// It is what its spec says.
    Ready,
    /// It is usable, and what exists differs from what was applied.
    Drifted,
    /// Somebody switched it off.
    Paused,
    /// Work is under way.
    Working,
    /// It is on its way out.
    Deleting,
    /// It waits for something that is itself under way.
    Waiting,
    /// Its plan waits for a person's approval.
    Approval,
    /// Something that it needs is not there.
    Blocked,
    /// The work failed.
    Failed,
}

/// An object, and what belongs to it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Node {
    /// Kind of the object.
    pub kind: Kind,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    pub name: String,
    pub state: State,
    /// One word, as its status has it.
    pub phase: String,
    /// Short detail: counts, versions, progress of Terraform.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub detail: String,
    pub created: Option<Timestamp>,
    /// Why it is not ready: found in the deepest part that fails.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<Cause>,
    /// For how many alike siblings it stands.
    #[serde(skip_serializing_if = "is_one")]
    pub count: usize,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<Node>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn is_one(count: &usize) -> bool {
    *count == 1
}

impl Node {
    /// This node and all below it, parents first.
    pub fn walk<'a>(&'a self, visit: &mut impl FnMut(&'a Self)) {
        visit(self);
        for child in &self.children {
            child.walk(visit);
        }
    }

    /// The worst that this node or any part of it is.
    pub fn worst(&self) -> State {
        self.children.iter().map(Self::worst).fold(self.state, State::max)
    }
}

#[cfg(test)]
mod tests;
