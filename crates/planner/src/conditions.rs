//! Conditions that keep their time while they do not change: as findings of a plan, or set one by one.

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

/// Longest message that the API accepts.
const LONGEST_MESSAGE: usize = 32_768;

/// Status of a condition.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Truth {
    /// It is so.
    True,
    /// It is not so.
    False,
    /// Nobody knows yet.
    Unknown,
}

impl Truth {
    /// As conditions write it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

impl From<bool> for Truth {
    fn from(so: bool) -> Self {
        if so { Self::True } else { Self::False }
    }
}

/// Conditions of one object, while a reconcile builds them from those of the last one.
#[derive(Clone, Debug)]
pub struct Conditions {
    list: Vec<Condition>,
    /// As the object has them: one that is taken away and set again keeps its time.
    before: Vec<Condition>,
    generation: Option<i64>,
    now: Timestamp,
}

impl Conditions {
    /// Starts from what the object has.
    pub fn new(current: &[Condition], generation: Option<i64>, now: Timestamp) -> Self {
        Self { list: current.to_vec(), before: current.to_vec(), generation, now }
    }

    /// Sets one condition. Nothing else about the others changes.
    pub fn set(&mut self, kind: &str, truth: impl Into<Truth>, reason: &str, message: impl Into<String>) {
        let truth = truth.into();
        let mut message = message.into();
        truncate(&mut message);
        let since = find(&self.before, kind)
            .filter(|before| before.status == truth.as_str())
            .map(|before| before.last_transition_time.clone());
        let fresh = Condition {
            type_: kind.to_owned(),
            status: truth.as_str().to_owned(),
            reason: reason.to_owned(),
            message,
            observed_generation: self.generation,
            last_transition_time: since.unwrap_or_else(|| Time(seconds(self.now))),
        };
        match self.list.iter_mut().find(|condition| condition.type_ == kind) {
            Some(known) => *known = fresh,
            None => self.list.push(fresh),
        }
    }

    /// Takes one condition away.
    pub fn clear(&mut self, kind: &str) {
        self.list.retain(|condition| condition.type_ != kind);
    }

    /// One condition.
    pub fn get(&self, kind: &str) -> Option<&Condition> {
        find(&self.list, kind)
    }

    /// The conditions, in the order in which they first appeared.
    pub fn into_list(self) -> Vec<Condition> {
        self.list
    }
}

/// Returns true if the condition is present and true.
pub fn is_true(conditions: &[Condition], kind: &str) -> bool {
    find(conditions, kind).is_some_and(|condition| condition.status == "True")
}

/// Status times have whole seconds, as the API stores them.
pub fn seconds(at: Timestamp) -> Timestamp {
    Timestamp::from_second(at.as_second()).unwrap_or(at)
}

fn truncate(message: &mut String) {
    if message.len() > LONGEST_MESSAGE {
        let end = (0..=LONGEST_MESSAGE - 3).rev().find(|end| message.is_char_boundary(*end)).unwrap_or(0);
        message.truncate(end);
        message.push('…');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("a time")
    }

    #[test]
    fn the_transition_time_moves_with_the_status_alone() {
        let mut first = Conditions::new(&[], Some(1), at(10));
        first.set("Ready", false, "Creating", "a");
        let list = first.into_list();
        let mut second = Conditions::new(&list, Some(2), at(20));
        second.set("Ready", false, "Failed", "b");
        assert_eq!(second.get("Ready").map(|c| c.last_transition_time.0), Some(at(10)));
        assert_eq!(second.get("Ready").and_then(|c| c.observed_generation), Some(2));
        second.set("Ready", true, "Ready", "");
        assert_eq!(second.get("Ready").map(|c| c.last_transition_time.0), Some(at(20)));
    }

    #[test]
    fn one_that_is_set_again_keeps_its_time() {
        let mut first = Conditions::new(&[], Some(1), at(10));
        first.set("Stalled", true, "Invalid", "a");
        let mut second = Conditions::new(&first.clone().into_list(), Some(1), at(20));
        second.clear("Stalled");
        second.set("Stalled", true, "Invalid", "a");
        assert_eq!(second.into_list(), first.into_list());
    }

    #[test]
    fn other_conditions_stay() {
        let mut conditions = Conditions::new(&[], None, at(1));
        conditions.set("A", true, "A", "");
        conditions.set("B", true, "B", "");
        conditions.set("A", false, "A", "");
        conditions.clear("B");
        assert_eq!(conditions.into_list().iter().map(|c| c.type_.as_str()).collect::<Vec<_>>(), ["A"]);
    }

    #[test]
    fn a_long_message_is_cut_at_a_character() {
        let mut conditions = Conditions::new(&[], None, at(1));
        conditions.set("A", true, "A", "ä".repeat(40_000));
        let message = &conditions.get("A").expect("it is set").message;
        assert!(message.len() <= LONGEST_MESSAGE && message.ends_with('…'));
    }
}
