//! One write, as both sides get it.

use serde_json::Value;

#[derive(Clone, Debug)]
pub enum Body {
    Create(Value),
    Update(Value),
    Merge(Value),
    Json(Value),
    Strategic(Value),
    /// With force or without.
    Apply(Value, bool),
}

#[derive(Clone, Debug)]
pub struct Step {
    pub api_version: String,
    pub manager: String,
    /// Whether it goes to the subresource.
    pub status: bool,
    pub body: Body,
}
