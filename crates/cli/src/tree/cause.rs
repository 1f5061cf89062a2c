//! Why something is not ready: what the deepest part that fails says.

use serde::Serialize;

use super::State;
use super::object_summary::Kind;

/// One line that names the true cause.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Cause {
    /// The object that says it.
    pub kind: Kind,
    pub name: String,
    pub state: State,
    /// One word.
    pub reason: String,
    /// Message of Terraform, a provider or CAPT, with the address of the resource, file and line if known.
    pub message: String,
    /// Number of levels below the object that it is the cause for.
    #[serde(skip)]
    pub depth: usize,
}

impl Cause {
    /// Weight of the explanation: a failure weighs more than something missing, and that more than a wait for something with a
    /// cause of its own.
    fn weight(&self) -> (State, usize) {
        (self.state.max(State::Deleting), self.depth)
    }

    /// Of the causes that a node and its parts have, the one that explains most; of equals, the first.
    pub fn of(own: Option<Self>, parts: impl Iterator<Item = Self>) -> Option<Self> {
        let below = parts.map(|cause| Self { depth: cause.depth + 1, ..cause });
        own.into_iter()
            .chain(below)
            .reduce(|best, next| if next.weight() > best.weight() { next } else { best })
    }

    /// Without the object's name, for a line below it.
    pub fn words(&self) -> String {
        match (self.reason.is_empty(), self.message.is_empty()) {
            (false, false) => format!("{}: {}", self.reason, self.message),
            (false, true) => self.reason.clone(),
            (true, _) => self.message.clone(),
        }
    }
}

impl std::fmt::Display for Cause {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}: {}", self.kind.word(), self.name, self.words())
    }
}
