//! Choice of the machines that go when there are too many.
//!
//! Machines that are being deleted are not asked any more. Then: annotated, failed, not ready, not available yet, and
//! last the delete policy; in an old set of a rollout, annotated ones that are available go after all that are not. Equal ones go by name, so that the same observation always gives the same answer.

use std::cmp::Reverse;

use capt_api::machine::DeletePolicy;
use capt_api::names::annotations;
use jiff::Timestamp;

use super::{Context, Live};
use crate::availability::MachineAvailability;
use crate::hash;
use crate::reason::Priority;

/// The machines to delete, the first to go first.
pub(super) fn choose<'c, 'a>(
    context: &'c Context<'a>,
    seed: u64,
    excess: usize,
) -> Vec<(&'c Live<'a>, Priority)> {
    if excess == 0 {
        return Vec::new();
    }
    let policy = context.set.spec.delete_policy;
    let unavailable_first = context.annotated(annotations::UNAVAILABLE_FIRST);
    let mut order: Vec<_> = context
        .live
        .iter()
        .map(|live| {
            let spared = unavailable_first && live.standing == MachineAvailability::Available;
            ((spared, priority(live), by_policy(policy, seed, live), live.name()), live)
        })
        .collect();
    let first = |(one, _): &(_, _), (other, _): &(_, _)| Ord::cmp(one, other);
    // Few of many go in most steps: only these have to be in order.
    if excess < order.len() {
        order.select_nth_unstable_by(excess, first);
        order.truncate(excess);
    }
    order.sort_unstable_by(first);
    order.into_iter().map(|((_, priority, ..), live)| (live, priority)).collect()
}

fn priority(live: &Live<'_>) -> Priority {
    match live.standing {
        _ if live.annotated => Priority::Annotated,
        MachineAvailability::Failed(_) | MachineAvailability::Terminating => Priority::Failed,
        MachineAvailability::NotReady => Priority::NotReady,
        MachineAvailability::Ready(_) => Priority::NotAvailable,
        MachineAvailability::Available => Priority::Policy,
    }
}

#[derive(Eq, Ord, PartialEq, PartialOrd)]
enum Rank {
    Random(u64),
    Oldest(Timestamp),
    Newest(Reverse<Timestamp>),
}

fn by_policy(policy: DeletePolicy, seed: u64, live: &Live<'_>) -> Rank {
    let created = live.machine.metadata.creation_timestamp.as_ref().map_or(Timestamp::MIN, |time| time.0);
    match policy {
        DeletePolicy::Random => Rank::Random(hash::seeded(seed, live.name())),
        DeletePolicy::Oldest => Rank::Oldest(created),
        DeletePolicy::Newest => Rank::Newest(Reverse(created)),
    }
}
