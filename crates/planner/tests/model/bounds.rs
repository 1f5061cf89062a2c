//! How much happens.

use std::fmt;

use capt_api::machine::StrategyKind;

/// What somebody deletes. A machine is a fault.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Deletes {
    Nothing,
    Set,
    Deployment,
    Both,
}

/// Which machines never become ready.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Broken {
    None,
    /// Those of every revision but the first.
    Edits,
    /// All that are made.
    All,
}

/// How much happens.
#[allow(clippy::struct_excessive_bools, reason = "each is one thing that a test turns on")]
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    pub replicas: i32,
    pub surge: i32,
    pub unavailable: i32,
    pub strategy: StrategyKind,
    /// How often somebody edits the template.
    pub edits: u8,
    /// Whether the last edit goes back to the first template.
    pub back: bool,
    /// Sizes that somebody scales to, one after the other.
    pub scales: &'static [i32],
    /// How often a machine fails, vanishes or is deleted by somebody.
    pub faults: u8,
    /// Whether machines only vanish.
    pub only_vanish: bool,
    /// Whether somebody deletes them, and only old ones, when nothing else moves.
    pub only_delete: bool,
    pub crashes: u8,
    /// Whether a machine must have been ready for a while before it counts.
    pub min_ready: bool,
    /// How often somebody pauses the deployment, to resume it later.
    pub pauses: u8,
    /// Levels that somebody deletes: each at any time, at most once.
    pub deletes: Deletes,
    /// How many machines that nobody owns turn up, and how often a machine loses its labels.
    pub strays: u8,
    pub unlabels: u8,
    /// How many machines are not ready in the beginning, and how often somebody marks one for deletion.
    pub unready: i32,
    pub marks: u8,
    /// Whether the first set has no owner in the beginning.
    pub orphaned: bool,
    /// Whether sets plan again without having seen their own creates.
    pub blind: bool,
    /// Whether the progress deadline can pass, which asks for an undo.
    pub deadlines: bool,
    pub broken: Broken,
    /// Whether to follow a fair schedule from every state.
    pub converges: bool,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            replicas: 1,
            surge: 0,
            unavailable: 0,
            strategy: StrategyKind::RollingUpdate,
            edits: 0,
            back: false,
            scales: &[],
            faults: 0,
            only_vanish: false,
            only_delete: false,
            crashes: 0,
            min_ready: false,
            pauses: 0,
            deletes: Deletes::Nothing,
            strays: 0,
            unlabels: 0,
            unready: 0,
            marks: 0,
            orphaned: false,
            blind: false,
            deadlines: false,
            broken: Broken::None,
            converges: false,
        }
    }
}

// What plans depend on.
impl PartialEq for Bounds {
    fn eq(&self, other: &Self) -> bool {
        self.surge == other.surge
            && self.unavailable == other.unavailable
            && self.strategy == other.strategy
            && self.min_ready == other.min_ready
            && self.deadlines == other.deadlines
    }
}
impl Eq for Bounds {}
impl std::hash::Hash for Bounds {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        (self.surge, self.unavailable, self.strategy as u8, self.min_ready, self.deadlines).hash(state);
    }
}

impl fmt::Display for Bounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { replicas, surge, unavailable, strategy, edits, back, scales, .. } = self;
        let Self { faults, only_vanish, only_delete, crashes, blind, converges, deadlines, broken, .. } =
            self;
        let Self { min_ready, pauses, deletes, strays, unlabels, marks, unready, orphaned, .. } = self;
        write!(
            f,
            "{strategy:?} {replicas} replicas, surge {surge}, unavailable {unavailable}, {edits} edits"
        )?;
        write!(f, "{}", if *back { " (the last one back)" } else { "" })?;
        write!(f, ", scaled to {scales:?}, {faults} faults, {crashes} crashes")?;
        write!(f, "{}", if *only_vanish { ", faults only vanish" } else { "" })?;
        write!(f, "{}", if *only_delete { ", old machines are deleted at rest" } else { "" })?;
        write!(f, "{}", if *min_ready { ", minReadySeconds" } else { "" })?;
        write!(f, "{}", if *orphaned { ", the set is adopted" } else { "" })?;
        for (count, what) in
            [(pauses, "pauses"), (strays, "strays"), (unlabels, "labels lost"), (marks, "marks")]
        {
            if *count > 0 {
                write!(f, ", {count} {what}")?;
            }
        }
        if *unready > 0 {
            write!(f, ", {unready} not ready")?;
        }
        if *deletes != Deletes::Nothing {
            write!(f, ", somebody deletes: {deletes:?}")?;
        }
        write!(f, "{}", if *deadlines { ", deadlines with undo" } else { "" })?;
        if *broken != Broken::None {
            write!(f, ", never ready: {broken:?}")?;
        }
        write!(f, "{}", if *blind { ", blind to own creates" } else { "" })?;
        write!(f, "{}", if *converges { ", convergence from every state" } else { "" })
    }
}
