//! Order and admission of runs: pure, with all inputs as arguments.

mod gate;
mod queue;

pub(crate) use gate::{Gate, Memory};
pub(crate) use queue::{Queue, Urgency};
