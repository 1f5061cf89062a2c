//! Reasons, as data and in words. Every entry of a plan carries one; events, status and the CLI print it.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Reason and message of a state.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Why {
    /// Machine-readable reason.
    pub reason: String,
    /// Human-readable message.
    pub message: String,
}

impl Why {
    /// A reason with its message.
    pub fn new(reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self { reason: reason.into(), message: message.into() }
    }
}

/// A few of the lines of a message, and the number of the others.
pub fn few(lines: &[String]) -> String {
    const NAMED: usize = 5;
    let mut shown: Vec<String> = lines.iter().take(NAMED).cloned().collect();
    if lines.len() > NAMED {
        shown.push(format!("and {} more", lines.len() - NAMED));
    }
    shown.join("; ")
}

/// Reason why something is done, or not yet.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(tag = "reason", rename_all = "PascalCase", rename_all_fields = "camelCase")]
pub enum Reason {
    /// A revision that has no set yet.
    NewRevision { revision: i64, replicas: i32, ceiling: i32 },
    /// The current set may grow.
    Grow { total: i32, ceiling: i32, wanted: i32 },
    /// The current set is larger than the deployment wants.
    Shrink { wanted: i32 },
    /// Old replicas that serve nobody.
    UnavailableOld { count: i32, budget: i32 },
    /// Old replicas that the budget allows to take.
    Replaced { available: i32, min_available: i32 },
    /// Nothing else moves, and this old replica serves nobody.
    Deadlock,
    /// More replicas than the deployment wants, the oldest first.
    Surplus { total: i32, wanted: i32 },
    /// Recreate: all old machines go first.
    Recreate,
    /// Recreate: no old machine is left.
    OldGone,
    /// OnDelete: people deleted machines of this set.
    Deleted { count: i32 },
    /// OnDelete: the current set fills what people deleted.
    Fill { total: i32, wanted: i32 },
    /// Scaled while paused: each set in proportion to its size.
    Proportional { from: i32, to: i32 },
    /// An old set is current again.
    CurrentAgain { revision: i64 },
    /// Something that reaches machines in place has changed.
    InPlace { what: Vec<Field> },
    /// Beyond revisionHistoryLimit.
    History { limit: i32 },
    /// The parent is being deleted.
    OwnerDeleting,
    /// Nobody owned it, and the selector matches.
    Selected,
    /// The selector does not match any more.
    Unselected,
    /// No progress within the deadline, and the deployment asks for an undo.
    DeadlineExceeded { revision: i64 },

    /// Fewer machines than wanted.
    Missing { have: i32, wanted: i32 },
    /// The name was given out and its machine not seen yet: the same create again.
    NotSeenYet,
    /// More machines than wanted, and this one goes first.
    TooMany { have: i32, wanted: i32, first: Priority },
    /// The machine could not be built; so many in a row.
    Failed { in_a_row: i32 },

    /// Not yet: a set has not acted on its last change.
    AwaitSet { set: String },
    /// Not yet: the ceiling is reached.
    AwaitRoom { total: i32, ceiling: i32, terminating: i32 },
    /// Not yet: too few machines are available to take an old one.
    AwaitAvailable { available: i32, min_available: i32 },
    /// Not yet: old machines are still there.
    AwaitOldGone { left: i32 },
    /// Not yet: people have not deleted these old machines.
    AwaitPeople { left: i32 },
    /// Not now: paused.
    Paused,
    /// Not yet: names were given out and their machines not seen.
    AwaitMachines { pending: i32 },
    /// Not yet: deletion waits for children.
    AwaitChildren { left: i32 },
}

/// A field that reaches machines in place.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Field {
    /// Labels, annotations, node labels, tags, scaling, paused.
    Template,
    /// Seconds until a ready machine is available.
    MinReadySeconds,
    /// Order in which machines are deleted.
    DeletePolicy,
    /// Replicas of the deployment.
    DesiredReplicas,
    /// Switch that keeps the set from creating machines.
    DisableCreate,
    /// Switch that makes machines that are not available go before marked ones.
    UnavailableFirst,
}

/// Why one machine goes before the others.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Priority {
    /// Somebody annotated it with cluster.x-k8s.io/delete-machine.
    Annotated,
    /// It could not be built.
    Failed,
    /// It is not ready.
    NotReady,
    /// It is ready, and not for long enough.
    NotAvailable,
    /// The delete policy says so.
    Policy,
}

impl fmt::Display for Priority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Annotated => "it is annotated for deletion",
            Self::Failed => "it failed",
            Self::NotReady => "it is not ready",
            Self::NotAvailable => "it is not available yet",
            Self::Policy => "by delete policy",
        })
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Template => "template",
            Self::MinReadySeconds => "minReadySeconds",
            Self::DeletePolicy => "deletePolicy",
            Self::DesiredReplicas => "desired replicas",
            Self::DisableCreate => "disable-create",
            Self::UnavailableFirst => "unavailable-first",
        })
    }
}

/// "1 machine", "2 machines".
pub struct Count<N>(pub N, pub &'static str);

impl<N: fmt::Display> fmt::Display for Count<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = self.0.to_string();
        write!(f, "{number} {}{}", self.1, if number == "1" { "" } else { "s" })
    }
}

/// "1 of 3 machines is", "2 of 3 machines are", "0 of 1 machine is".
pub(crate) struct Share(pub(crate) i32, pub(crate) i32);

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(some, all) = *self;
        write!(
            f,
            "{some} of {} {}",
            Count(all, "machine"),
            if some == 1 || (all == 1 && some <= 1) { "is" } else { "are" }
        )
    }
}

/// "1 exists", "2 exist".
pub(crate) fn exist(count: i32) -> &'static str {
    if count == 1 { "exists" } else { "exist" }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NewRevision { revision, replicas, ceiling } => {
                let fit = if *replicas == 1 { "fits" } else { "fit" };
                write!(f, "revision {revision} is new; {replicas} {fit} under the ceiling of {ceiling}")
            }
            Self::Grow { total, ceiling, wanted } => {
                write!(f, "{total} of at most {ceiling} {}; {wanted} wanted", exist(*total))
            }
            Self::Shrink { wanted } => write!(f, "{wanted} wanted"),
            Self::UnavailableOld { count, budget } => {
                write!(f, "{}; budget {budget}", Count(*count, "unavailable old replica"))
            }
            Self::Replaced { available, min_available } => {
                write!(f, "{available} available, at least {min_available} must be")
            }
            Self::Deadlock => f.write_str("nothing else can move and it serves nobody"),
            Self::Surplus { total, wanted } => {
                write!(f, "{}, {wanted} wanted; the oldest go first", Count(*total, "replica"))
            }
            Self::Recreate => f.write_str("Recreate: old machines go first"),
            Self::OldGone => f.write_str("Recreate: no old machine is left"),
            Self::Deleted { count } => write!(f, "OnDelete: {} gone", Count(*count, "old machine")),
            Self::Fill { total, wanted } => write!(f, "OnDelete: {total} of {wanted} {}", exist(*total)),
            Self::Proportional { from, to } => {
                write!(f, "paused: each set in proportion from {from} to {to}")
            }
            Self::CurrentAgain { revision } => write!(f, "current again, as revision {revision}"),
            Self::InPlace { what } => {
                f.write_str("in place: ")?;
                for (index, field) in what.iter().enumerate() {
                    write!(f, "{}{field}", if index == 0 { "" } else { ", " })?;
                }
                Ok(())
            }
            Self::History { limit } => write!(f, "history keeps {limit}"),
            Self::OwnerDeleting => f.write_str("its owner is being deleted"),
            Self::Selected => f.write_str("nobody owns it and the selector matches"),
            Self::Unselected => f.write_str("the selector does not match any more"),
            Self::DeadlineExceeded { revision } => {
                write!(f, "revision {revision} made no progress within its deadline")
            }
            Self::Missing { have, wanted } => write!(f, "{have} of {wanted} {}", exist(*have)),
            Self::NotSeenYet => f.write_str("its name is given out; the same create again"),
            Self::TooMany { have, wanted, first } => {
                write!(f, "{have} {}, {wanted} wanted; {first}", exist(*have))
            }
            Self::Failed { in_a_row: ..=1 } => f.write_str("it failed and is replaced"),
            Self::Failed { in_a_row } => write!(f, "it failed and is replaced; {in_a_row} failed in a row"),
            Self::AwaitSet { set } => write!(f, "waiting for {set} to act on its last change"),
            Self::AwaitRoom { total, ceiling, terminating: 0 } if total <= ceiling => {
                write!(f, "waiting for room: {total} of at most {ceiling} {}", exist(*total))
            }
            // One that failed, or that somebody deleted, is replaced while it is still being destroyed.
            Self::AwaitRoom { total, ceiling, terminating } if total > ceiling => write!(
                f,
                "waiting for room: {total} {}, {terminating} of them terminating, and at most {ceiling} may before one is made",
                exist(*total)
            ),
            Self::AwaitRoom { total, ceiling, terminating } => {
                let exist = exist(*total);
                write!(f, "waiting for room: {total} of at most {ceiling} {exist}, {terminating} terminating")
            }
            Self::AwaitAvailable { available, min_available } => {
                write!(f, "waiting for machines: {available} available, at least {min_available} must be")
            }
            Self::AwaitOldGone { left } => write!(f, "waiting: {} left", Count(*left, "old machine")),
            Self::AwaitPeople { left } => {
                write!(f, "OnDelete: waiting until somebody deletes {}", Count(*left, "old machine"))
            }
            Self::Paused => f.write_str("paused"),
            Self::AwaitMachines { pending } => write!(f, "waiting to see {}", Count(*pending, "new machine")),
            Self::AwaitChildren { left } => write!(f, "waiting for {} to go", Count(*left, "dependent")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nouns_and_verbs_agree_with_their_numbers() {
        let first = Priority::NotReady;
        for (reason, one, two) in [
            (
                (|n| Reason::NewRevision { revision: 1, replicas: n, ceiling: 4 }) as fn(i32) -> Reason,
                "revision 1 is new; 1 fits under the ceiling of 4",
                "revision 1 is new; 2 fit under the ceiling of 4",
            ),
            (
                |n| Reason::Grow { total: n, ceiling: 4, wanted: 3 },
                "1 of at most 4 exists; 3 wanted",
                "2 of at most 4 exist; 3 wanted",
            ),
            (
                |n| Reason::UnavailableOld { count: n, budget: 1 },
                "1 unavailable old replica; budget 1",
                "2 unavailable old replicas; budget 1",
            ),
            (
                |n| Reason::Surplus { total: n, wanted: 0 },
                "1 replica, 0 wanted; the oldest go first",
                "2 replicas, 0 wanted; the oldest go first",
            ),
            (|n| Reason::Fill { total: n, wanted: 3 }, "OnDelete: 1 of 3 exists", "OnDelete: 2 of 3 exist"),
            (|n| Reason::Missing { have: n, wanted: 3 }, "1 of 3 exists", "2 of 3 exist"),
            (
                |n| Reason::AwaitRoom { total: n, ceiling: 4, terminating: 0 },
                "waiting for room: 1 of at most 4 exists",
                "waiting for room: 2 of at most 4 exist",
            ),
            (
                |n| Reason::AwaitOldGone { left: n },
                "waiting: 1 old machine left",
                "waiting: 2 old machines left",
            ),
            (
                |n| Reason::AwaitChildren { left: n },
                "waiting for 1 dependent to go",
                "waiting for 2 dependents to go",
            ),
        ] {
            assert_eq!((reason(1).to_string().as_str(), reason(2).to_string().as_str()), (one, two));
        }
        let too_many = Reason::TooMany { have: 1, wanted: 0, first };
        assert_eq!(too_many.to_string(), "1 exists, 0 wanted; it is not ready");
        for (share, text) in [
            (Share(0, 1), "0 of 1 machine is"),
            (Share(1, 1), "1 of 1 machine is"),
            (Share(1, 3), "1 of 3 machines is"),
            (Share(0, 3), "0 of 3 machines are"),
            (Share(2, 3), "2 of 3 machines are"),
            (Share(2, 1), "2 of 1 machine are"),
            (Share(0, 0), "0 of 0 machines are"),
        ] {
            assert_eq!(share.to_string(), text);
        }
    }
}
