//! Who is next, and whether there is room: pure, and told everything.

mod gate;
mod queue;

pub(crate) use gate::{Gate, Memory};
pub(crate) use queue::{Queue, Urgency};
