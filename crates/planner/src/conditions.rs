//! Conditions that keep their time while they do not change.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

/// A condition to be: what is true, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// Type of the condition.
    pub kind: &'static str,
    /// True, False, or not known.
    pub holds: Option<bool>,
    /// One word.
    pub reason: &'static str,
    /// A sentence.
    pub message: String,
}

impl Finding {
    /// A finding that holds or does not.
    pub fn new(kind: &'static str, holds: bool, reason: &'static str, message: impl Into<String>) -> Self {
        Self { kind, holds: Some(holds), reason, message: message.into() }
    }

    fn status(&self) -> &'static str {
        match self.holds {
            Some(true) => "True",
            Some(false) => "False",
            None => "Unknown",
        }
    }
}

/// Puts findings beside the conditions that somebody else wrote. The time of a condition moves only when its status does.
pub fn merge(
    old: &[Condition],
    findings: Vec<Finding>,
    generation: Option<i64>,
    now: Timestamp,
) -> Vec<Condition> {
    let mut merged = old.to_vec();
    for finding in findings {
        let status = finding.status();
        let earlier = merged.iter_mut().find(|condition| condition.type_ == finding.kind);
        let mut condition = Condition {
            last_transition_time: Time(now),
            message: finding.message,
            observed_generation: generation,
            reason: finding.reason.to_owned(),
            status: status.to_owned(),
            type_: finding.kind.to_owned(),
        };
        match earlier {
            Some(earlier) => {
                if earlier.status == status {
                    condition.last_transition_time = earlier.last_transition_time.clone();
                }
                *earlier = condition;
            }
            None => merged.push(condition),
        }
    }
    merged
}

/// The condition of a type.
pub fn find<'a>(conditions: &'a [Condition], kind: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == kind)
}
