//! Conditions: set by type, with a transition time that moves only when the status does.

pub use capt_planner::conditions::{Conditions, Truth, find, is_true, seconds};
