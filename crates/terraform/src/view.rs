//! What is known of a workspace: read from memory, never by a process.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    failure::Failure,
    inputs::Revision,
    order::{Operation, PlanId, RunId},
    state::Outputs,
    stream::{Change, Progress},
};

/// All that is known of a workspace.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// The run that is queued or under way.
    pub run: Option<Running>,
    /// The run that ended last.
    pub last: Option<Finished>,
    /// The inputs of the last apply that succeeded; `None` again after a destroy.
    pub applied: Option<Revision>,
    /// An apply was ever started, or the state holds resources: deleting it needs a destroy.
    pub touched: bool,
    /// An apply of known inputs was started, here or by somebody who sealed what was kept of it: nobody else can say so.
    pub begun: bool,
    /// The kept plan, while it can still be applied.
    pub plan: Option<Plan>,
    /// Outputs, sensitive ones too.
    pub outputs: Outputs,
    /// Names of outputs that are sensitive because they hold a secret of the inputs, and not because the module says so.
    pub masked: Vec<String>,
    /// Whose code made all that is there; nothing where nobody vouches for it.
    pub origin: Option<String>,
    /// How many resources the state holds.
    pub resources: usize,
    /// The state's serial.
    pub serial: u64,
    /// The lineage of its state, and since when it has that.
    pub claim: Option<Claim>,
    /// The hash of the place that a backend keeps the state in, of what was built.
    pub backend: Option<String>,
    /// The Terraform workspace that was selected there.
    pub selected: Selected,
    /// State or record are damaged or gone: nothing is run until they are back.
    pub trouble: Option<Failure>,
}

impl View {
    /// Since when its state is its own.
    pub(crate) fn since(&self) -> Timestamp {
        self.claim.as_ref().map_or(Timestamp::MAX, |claim| claim.since)
    }
}

/// Since when a workspace has the state of a lineage. Of two that have one, the later gives way: nobody who takes up a state holds up who
/// has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// The lineage.
    pub lineage: String,
    /// The end of time where nobody noted it.
    pub since: Timestamp,
}

impl Claim {
    /// Of a workspace of which nobody noted since when.
    pub(crate) fn unknown(lineage: &str) -> Option<Self> {
        (!lineage.is_empty()).then(|| Self { lineage: lineage.to_owned(), since: Timestamp::MAX })
    }
}

/// The Terraform workspace that something was built in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Selected {
    /// Nothing was built, or nobody knows how.
    #[default]
    Unknown,
    /// The default one.
    Default,
    /// That of this name.
    Named(String),
}

/// A run that is queued or under way.
#[derive(Clone, Debug, PartialEq)]
pub struct Running {
    /// Its name.
    pub id: RunId,
    /// What it does.
    pub operation: Operation,
    /// The revision it works towards, once known.
    pub revision: Option<Revision>,
    /// What it is at.
    pub phase: Phase,
    /// How far it is.
    pub progress: Progress,
    /// When it was ordered, then when its first process started.
    pub since: Timestamp,
    /// What it waits for at the place where its state is kept.
    pub waits_for: Option<String>,
}

/// What a run is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Phase {
    /// It waits for its turn.
    Queued,
    /// Modules and providers are fetched, once for all workspaces alike.
    Initialising,
    /// It finds out what to do.
    Planning,
    /// It makes and changes things.
    Applying,
    /// It destroys things.
    Destroying,
    /// It looks for drift.
    Refreshing,
    /// It takes something into the state.
    Importing,
}

/// A run that ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finished {
    /// Its name.
    pub id: RunId,
    /// What it did.
    pub operation: Operation,
    /// The revision it worked towards.
    pub revision: Option<Revision>,
    /// When its first process started.
    pub started: Timestamp,
    /// When it ended.
    pub ended: Timestamp,
    /// How it ended.
    pub outcome: Outcome,
    /// What it planned, where it planned anything.
    pub plan: Option<Plan>,
    /// What changed behind Terraform's back.
    pub drift: Vec<Change>,
    /// Warnings, redacted.
    pub warnings: Vec<String>,
    /// Names of values that the module declares no variable for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub undeclared: Vec<String>,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Outcome {
    /// As ordered.
    Done,
    /// With a plan that waits.
    Planned,
    /// With a plan that would destroy more than allowed, and waits.
    Held,
    /// It failed.
    Failed(Failure),
    /// It was cancelled.
    Cancelled,
    /// It took too long.
    TimedOut,
}

impl Outcome {
    /// One word.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Planned => "planned",
            Self::Held => "held",
            Self::Failed(_) => "failed",
            Self::Cancelled => "cancelled",
            Self::TimedOut => "timedout",
        }
    }
}

/// A plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// Its name.
    pub id: PlanId,
    /// The inputs it was made from.
    pub revision: Revision,
    /// Whose code and credentials it was made with, where owners are kept apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
    /// The state it was made on.
    pub serial: u64,
    /// Objects it makes; a replacement is one made and one destroyed.
    pub add: u32,
    /// Objects it changes in place.
    pub change: u32,
    /// Objects it destroys.
    pub destroy: u32,
    /// Object by object.
    pub changes: Vec<Change>,
}
