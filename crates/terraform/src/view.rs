//! Observed state of workspaces, in memory: reading it starts no process.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    failure::Failure,
    inputs::Revision,
    order::{Operation, PlanId, RunId},
    state::Outputs,
    stream::{Change, Progress},
};

/// Observed state of a workspace.
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
    /// Origin of the code that made all that exists; nothing if it is not known.
    pub origin: Option<String>,
    /// Number of resources in the state.
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

/// Claim of a workspace to the state of a lineage. Of two claims the later one yields: adopting a state never blocks its earlier
/// owner.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// The lineage.
    pub lineage: String,
    /// Time of the claim; the end of time if it was not recorded.
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
    /// Operation of the run.
    pub operation: Operation,
    /// The revision it works towards, once known.
    pub revision: Option<Revision>,
    /// Current phase.
    pub phase: Phase,
    /// Progress of the apply.
    pub progress: Progress,
    /// Time of the order, then of the start of its first process.
    pub since: Timestamp,
    /// Reason that it waits for the state backend.
    pub waits_for: Option<String>,
}

/// Phase of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Phase {
    /// It waits for its turn.
    Queued,
    /// Modules and providers are fetched, once for all workspaces with the same module.
    Initialising,
    /// It makes a plan.
    Planning,
    /// It creates and changes objects.
    Applying,
    /// It destroys objects.
    Destroying,
    /// It looks for drift.
    Refreshing,
    /// It imports objects into the state.
    Importing,
}

/// A run that ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finished {
    /// Its name.
    pub id: RunId,
    /// Operation of the run.
    pub operation: Operation,
    /// The revision it worked towards.
    pub revision: Option<Revision>,
    /// Start of its first process.
    pub started: Timestamp,
    /// End of the run.
    pub ended: Timestamp,
    /// Outcome of the run.
    pub outcome: Outcome,
    /// Its plan, if it made one.
    pub plan: Option<Plan>,
    /// Changes made outside of Terraform.
    pub drift: Vec<Change>,
    /// Warnings, redacted.
    pub warnings: Vec<String>,
    /// Names of values that the module declares no variable for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub undeclared: Vec<String>,
}

/// Outcome of a run.
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
