//! Orders for runs, and the identifiers in them.

use std::{fmt, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{
    hash::sha256,
    inputs::{Inputs, Revision},
    pool::Urgency,
};

/// The name of a workspace: `namespace/name`, though any text will do.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct WorkspaceId(String);

impl WorkspaceId {
    /// A workspace of that name.
    pub fn new(name: impl Into<String>) -> Self {
        Self(name.into())
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whose it is: its namespace.
    pub(crate) fn tenant(&self) -> Option<&str> {
        self.0.split_once('/').map(|(namespace, _)| namespace)
    }

    /// A folder name that is safe everywhere, and unlike that of any other workspace.
    pub(crate) fn folder(&self) -> String {
        let safe: String = self
            .0
            .chars()
            .take(40)
            .map(|c| if c.is_ascii_lowercase() || c.is_ascii_digit() { c } else { '-' })
            .collect();
        format!("{}-{}", safe.trim_matches('-'), &sha256([self.0.as_bytes()])[..16])
    }
}

impl fmt::Display for WorkspaceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub(crate) String);

        impl $name {
            /// As text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.to_owned())
            }
        }
    };
}

name! {
    /// The name of a run. Later runs sort after earlier ones.
    RunId
}
name! {
    /// The name of a saved plan. It covers the inputs, the state it was made on, and the plan itself: whoever approves an id
    /// approves exactly that.
    PlanId
}

/// An order for one run.
#[derive(Clone, Debug)]
pub struct Order {
    /// Of which workspace.
    pub workspace: WorkspaceId,
    /// Runs of one group take turns with those of the others: the cluster.
    pub group: String,
    /// Others are built on it: it goes before what nobody waits for.
    pub leads: bool,
    /// Operation to run.
    pub operation: Operation,
    /// Inputs to run with. `None`: those of the last apply. A destroy and a refresh always take module and variables from the last
    /// apply, and from here only what lets them reach the cloud (environment, files, plugins, binary).
    pub inputs: Option<Inputs>,
    /// Their revision, where whoever orders knows it.
    pub revision: Option<Revision>,
    /// Time limit of each process.
    pub timeout: Duration,
    /// An apply that would destroy more objects stops, and keeps its plan.
    pub max_destroy: Option<u32>,
    /// Something else has applied it: the run goes on only if the backend holds a state with resources.
    pub expects_state: bool,
}

impl Order {
    /// An order without limits on what it destroys, for at most an hour.
    pub fn new(workspace: WorkspaceId, operation: Operation, inputs: Option<Inputs>) -> Self {
        let group = workspace.as_str().to_owned();
        let timeout = Duration::from_secs(3600);
        Self {
            workspace,
            group,
            leads: false,
            operation,
            inputs,
            revision: None,
            timeout,
            max_destroy: None,
            expects_state: false,
        }
    }

    pub(crate) const fn urgency(&self) -> Urgency {
        match self.operation.urgency() {
            Urgency::Ordinary if self.leads => Urgency::Leading,
            urgency => urgency,
        }
    }
}

/// Operation of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Operation {
    /// Makes a plan, and keeps it.
    Plan,
    /// Makes it so.
    Apply,
    /// Does what a kept plan says, if it is that one and nothing changed since.
    ApplyPlan(PlanId),
    /// Destroys everything.
    Destroy,
    /// Looks for drift: what an apply of the last applied inputs would change, and what changed behind Terraform's back.
    /// Changes nothing.
    Refresh,
    /// Takes something that exists into the state.
    Import {
        /// Its address in the module.
        address: String,
        /// Its id in the cloud.
        id: String,
    },
}

impl Operation {
    /// One word.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Plan => "plan",
            Self::Apply | Self::ApplyPlan(_) => "apply",
            Self::Destroy => "destroy",
            Self::Refresh => "refresh",
            Self::Import { .. } => "import",
        }
    }

    pub(crate) const fn urgency(&self) -> Urgency {
        match self {
            Self::Destroy => Urgency::Deletion,
            Self::Plan | Self::Apply | Self::ApplyPlan(_) | Self::Refresh | Self::Import { .. } => {
                Urgency::Ordinary
            }
        }
    }

    /// It can make or destroy things, or change the state.
    pub const fn changes(&self) -> bool {
        match self {
            Self::Apply | Self::ApplyPlan(_) | Self::Destroy | Self::Import { .. } => true,
            Self::Plan | Self::Refresh => false,
        }
    }
}

/// Why an order is not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Another run of the workspace is queued or under way.
    #[error("{workspace}: run {run} is not over yet")]
    Busy {
        /// The workspace.
        workspace: WorkspaceId,
        /// That run.
        run: RunId,
    },
    /// The engine stops.
    #[error("the engine stops")]
    Stopping,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folder_names_are_safe_and_unique() {
        let long = "x".repeat(500);
        let names = ["a/b", "a-b", "A/b", "", "..", "../../etc", "日本/語", "a b\n", &long, "a/b "];
        let folders: std::collections::BTreeSet<String> =
            names.iter().map(|name| WorkspaceId::new(*name).folder()).collect();
        assert_eq!(folders.len(), names.len());
        for folder in folders {
            assert!(
                folder.len() < 64
                    && folder.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-'),
                "{folder}"
            );
        }
    }
}
