//! Budget of an evaluation, and its cost so far.
//!
//! Two things are counted. The cost is in units of the order an API server counts in: one for a name, a field or a call, and
//! more for work that grows with the values. Whatever walks, makes or copies a value spends before it does, so that neither
//! time nor memory can outgrow the limits. The steps are what an API server does not count (literals, `&&`, rules that hold at
//! once) and still takes time, and since an evaluation cannot be interrupted, they have a bound of their own.

use std::cell::Cell;

use crate::cel::value::EvalError;

/// An API server's bound for one evaluation.
pub(crate) const CALL_LIMIT: u64 = 1_000_000;
/// An API server's bound for all rules of one object.
pub(crate) const OBJECT_LIMIT: u64 = 10_000_000;
/// Steps of all rules of one object: about a second. An expression has two or three for each unit of its cost, so that
/// [`OBJECT_LIMIT`] comes first for all but what is made to be free.
const OBJECT_STEPS: u64 = 50_000_000;
/// Steps that beginning an evaluation is worth.
const STEPS_TO_BEGIN: u64 = 10;
/// So many bytes that are only passed over, as when they are hashed, copied or decoded, cost one.
const BYTES: usize = 32;

/// Budget left for the rules of one object, or of all defaults of a schema.
pub(crate) struct Budget {
    cost: u64,
    steps: u64,
}

impl Default for Budget {
    fn default() -> Self {
        Self { cost: OBJECT_LIMIT, steps: OBJECT_STEPS }
    }
}

impl Budget {
    /// Takes a step for a rule that is looked at.
    pub fn look(&mut self) -> Result<(), Exhausted> {
        self.steps = self.steps.checked_sub(1).ok_or(Exhausted)?;
        Ok(())
    }

    /// Begins an evaluation.
    pub fn begin(&self) -> Cost {
        Cost { spent: Cell::new(0), steps: Cell::new(self.steps.saturating_sub(STEPS_TO_BEGIN)) }
    }

    /// Takes off what an evaluation took.
    pub fn pay(&mut self, cost: &Cost) -> Result<(), Exhausted> {
        self.steps = cost.steps.get();
        let rest = self.cost.checked_sub(cost.spent.get());
        self.cost = rest.unwrap_or_default();
        rest.map(drop).ok_or(Exhausted)
    }
}

/// Nothing is left of a [`Budget`].
#[derive(Debug)]
pub(crate) struct Exhausted;

/// Cost of an evaluation so far.
pub(crate) struct Cost {
    spent: Cell<u64>,
    /// Number left.
    steps: Cell<u64>,
}

impl Cost {
    /// Counts work; an error once there was too much.
    pub fn spend(&self, cost: u64) -> Result<(), EvalError> {
        let spent = self.spent.get().saturating_add(cost);
        self.spent.set(spent);
        if spent > CALL_LIMIT { Err(EvalError::CostLimit) } else { Ok(()) }
    }

    /// Counts work on so many bytes of text, or elements that are compared.
    pub fn spend_on_text(&self, length: usize) -> Result<(), EvalError> {
        self.spend(count(length.div_ceil(10)))
    }

    /// Counts elements that are made or visited.
    pub fn spend_on_elements(&self, elements: usize) -> Result<(), EvalError> {
        self.spend(count(elements))
    }

    /// Counts bytes that are only passed over. An API server does not count these; few are free.
    pub fn spend_on_bytes(&self, length: usize) -> Result<(), EvalError> {
        self.spend(count(length / BYTES))
    }

    /// Counts an expression that is looked at.
    pub fn step(&self) -> Result<(), EvalError> {
        let rest = self.steps.get().checked_sub(1);
        self.steps.set(rest.unwrap_or_default());
        rest.map(drop).ok_or(EvalError::CostLimit)
    }

    /// Returns true if it was too much, whatever became of the error.
    pub fn is_exceeded(&self) -> bool {
        self.spent.get() > CALL_LIMIT || self.steps.get() == 0
    }
}

fn count(size: usize) -> u64 {
    u64::try_from(size).unwrap_or(u64::MAX)
}
