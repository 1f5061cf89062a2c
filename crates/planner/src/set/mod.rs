//! A set: exactly as many machines as it wants, each with a name that is given out once.
//!
//! ```text
//! adopt, release -> count live and pending -> create | delete | replace a failed one -> update in place -> status
//! ```
//!
//! **No over-creation, whatever the cache shows.** A name is written to `status.allocation` before its machine is
//! created, and counts as a machine from then on. The write fails where the set has changed since it was read, so no
//! create ever follows from a stale set; a machine that the cache does not show yet is pending and created again under
//! the same name.

mod build;
mod facts;
mod failures;
mod status;
mod victims;

use std::borrow::Borrow;
use std::collections::BTreeSet;
use std::fmt;

use capt_api::machine::{CaptMachine, CaptMachineSet, CaptMachineSetStatus};
use capt_api::names::annotations;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

pub use build::{in_place_update, machine};
pub(crate) use facts::{Facts, Reader};
pub use failures::WORKSPACE_SUFFIX;

use crate::availability::{MachineAvailability, earlier};
use crate::names;
use crate::owner::Kinship;
use crate::reason::Reason;

/// A set and its machines, as a controller observes them.
#[derive(Debug)]
pub struct SetObservation<'a, M> {
    /// The set.
    pub set: &'a CaptMachineSet,
    /// Machines that it owns, and those without an owner that its selector matches; others are ignored.
    pub machines: &'a [M],
    /// Numbers of pending names that will have no machine of this set: the API refused the create, or the name belongs
    /// to another; while the set is being deleted, also those that a live read did not find.
    pub absent: &'a [i64],
}

impl<M> Clone for SetObservation<'_, M> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<M> Copy for SetObservation<'_, M> {}

/// Settings that a controller may choose.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The most machines that are created, deleted to have fewer, or updated in place by one plan: what somebody decides
    /// meanwhile is seen before the next ones.
    pub burst: usize,
    /// Time that a machine must have failed before it is replaced; twice as long for each one before it that failed, too.
    pub failed_grace: SignedDuration,
    /// Order of the delete policy Random.
    pub seed: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self { burst: 100, failed_grace: SignedDuration::from_secs(60), seed: 0 }
    }
}

/// Plan of one step of a set.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SetPlan {
    /// To be written first, with the resourceVersion of the set that was observed; none where it has not changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<CaptMachineSetStatus>,
    /// True if `actions` may only follow a successful write of the status with that resourceVersion, even of one
    /// that has not changed: it proves that the set is the one that was observed.
    pub fence: bool,
    /// In this order.
    pub actions: Vec<SetAction>,
    /// Why nothing more is done yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waits: Vec<Reason>,
    /// Time of the next look, should nothing happen before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wake_at: Option<Timestamp>,
}

/// One thing to do for a set.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(tag = "action", rename_all = "PascalCase", rename_all_fields = "camelCase")]
pub enum SetAction {
    /// Create [`machine`]`(set, number)`. That it exists is a success.
    Create { name: String, number: i64, reason: Reason },
    /// Delete it if it has this uid and the resourceVersion that was observed: the choice may be another for what it has
    /// become. That it is gone is a success.
    Delete { name: String, uid: String, reason: Reason },
    /// Make the set its controller, if it has this uid and no controller.
    Adopt { name: String, uid: String, reason: Reason },
    /// Take the set out of its owners.
    Release { name: String, uid: String, reason: Reason },
    /// Apply [`in_place_update`]`(set)` to it with server-side apply, so that what the template dropped goes too.
    Update { name: String, uid: String, reason: Reason },
    /// Read it live. Where it is not there, or not the set's, say so with [`SetObservation::absent`].
    Probe { name: String, number: i64, reason: Reason },
    /// Take the set's finalizer off: nothing of it is left.
    Finish { reason: Reason },
}

impl SetAction {
    /// Why.
    pub fn reason(&self) -> &Reason {
        match self {
            Self::Create { reason, .. }
            | Self::Delete { reason, .. }
            | Self::Adopt { reason, .. }
            | Self::Release { reason, .. }
            | Self::Update { reason, .. }
            | Self::Probe { reason, .. }
            | Self::Finish { reason } => reason,
        }
    }
}

impl fmt::Display for SetAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Create { name, .. } => write!(f, "created {name}")?,
            Self::Delete { name, .. } => write!(f, "deleted {name}")?,
            Self::Adopt { name, .. } => write!(f, "adopted {name}")?,
            Self::Release { name, .. } => write!(f, "released {name}")?,
            Self::Update { name, .. } => write!(f, "updated {name}")?,
            Self::Probe { name, .. } => write!(f, "looked for {name}")?,
            Self::Finish { .. } => f.write_str("finished")?,
        }
        write!(f, ": {}", self.reason())
    }
}

/// The creates of a plan in growing batches (1, 2, 4, ...): a template that the API refuses costs one refused request,
/// not a hundred. Carry out a batch at once, and stop at the first that has a failure.
pub fn batches(actions: &[SetAction]) -> impl Iterator<Item = &[SetAction]> {
    let mut rest = actions;
    let mut size = 1;
    std::iter::from_fn(move || {
        let (batch, left) = rest.split_at(size.min(rest.len()));
        rest = left;
        size = size.saturating_mul(2);
        (!batch.is_empty()).then_some(batch)
    })
}

/// A machine of the set that is not being deleted.
pub(crate) struct Live<'a> {
    pub(crate) machine: &'a CaptMachine,
    pub(crate) standing: MachineAvailability,
    /// True if it has all labels of its set's template.
    pub(crate) fully_labeled: bool,
    /// True if it has all in-place fields of its set's template.
    pub(crate) up_to_date: bool,
    /// True if a user has annotated it to go first.
    pub(crate) annotated: bool,
}

impl<'a> Live<'a> {
    pub(crate) fn name(&self) -> &'a str {
        self.machine.metadata.name.as_deref().unwrap_or_default()
    }
    fn uid(&self) -> String {
        self.machine.metadata.uid.clone().unwrap_or_default()
    }
}

/// Observations and counts that a plan is made from.
pub(crate) struct Context<'a> {
    pub(crate) set: &'a CaptMachineSet,
    pub(crate) now: Timestamp,
    pub(crate) live: Vec<Live<'a>>,
    pub(crate) terminating: i32,
    /// Obstacles that keep machines from going, in a fixed order.
    pub(crate) stuck: Vec<String>,
    /// Given out, not seen, not known to be absent.
    pub(crate) pending: BTreeSet<i64>,
    pub(crate) next: i64,
}

impl Context<'_> {
    pub(crate) fn wanted(&self) -> i32 {
        if self.deleting() { 0 } else { self.set.spec.replicas.max(0) }
    }
    pub(crate) fn live_count(&self) -> i32 {
        count(self.live.len())
    }
    pub(crate) fn have(&self) -> i32 {
        count(self.live.len() + self.pending.len())
    }
    pub(crate) fn deleting(&self) -> bool {
        self.set.metadata.deletion_timestamp.is_some()
    }
    /// Returns true if the set is deleted without its machines.
    pub(crate) fn orphans(&self) -> bool {
        self.set.metadata.finalizers.iter().flatten().any(|finalizer| finalizer == "orphan")
    }
    fn annotated(&self, key: &str) -> bool {
        self.set.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(key))
    }
    fn set_name(&self) -> &str {
        self.set.metadata.name.as_deref().unwrap_or_default()
    }
}

/// Far above any number of machines that the API allows.
pub(crate) fn count(length: usize) -> i32 {
    i32::try_from(length).unwrap_or(i32::MAX)
}

/// Decides the next step of a set. Linear in the machines; n log n in those that must go.
///
/// A controller must:
/// 1. plan only on a cache that shows its own deletes (after a start, or after taking a lease: on a new list);
/// 2. where `fence` is set, write the status with the observed resourceVersion first, and stop where that fails;
/// 3. delete a machine only with the resourceVersion that was observed;
/// 4. work on one set once at a time, and take an outcome that it does not know as done until it has read live.
///
/// It need not wait to see its own creates.
pub fn plan<M: Borrow<CaptMachine>>(
    observed: SetObservation<'_, M>,
    settings: &Settings,
    now: Timestamp,
) -> SetPlan {
    let SetObservation { set, machines, absent } = observed;
    let reader = Reader::new(set);
    let machines = machines.iter().map(|machine| (machine.borrow(), reader.read(machine.borrow(), now)));
    plan_known(set, machines, absent, settings, now)
}

/// The same, of machines whose facts are known.
pub(crate) fn plan_known<'a>(
    set: &'a CaptMachineSet,
    machines: impl Iterator<Item = (&'a CaptMachine, Facts)>,
    absent: &[i64],
    settings: &Settings,
    now: Timestamp,
) -> SetPlan {
    let mut plan = SetPlan::default();
    let mut context = count_machines(set, machines, absent, now, &mut plan);
    if context.annotated(annotations::PAUSED) {
        plan.actions.clear();
        plan.waits.push(Reason::Paused);
    } else if context.deleting() {
        take_down(&context, &mut plan);
    } else {
        scale(&mut context, settings, &mut plan);
        update_in_place(&context, settings, &mut plan);
    }
    plan.fence = plan.actions.iter().any(|action| matches!(action, SetAction::Create { .. }));
    for live in &context.live {
        if let MachineAvailability::Ready(due) = live.standing {
            plan.wake_at = earlier(plan.wake_at, Some(due));
        }
    }
    let status = status::status(&context, settings);
    if set.status.as_ref() != Some(&status) {
        plan.status = Some(status);
    }
    plan
}

fn count_machines<'a>(
    set: &'a CaptMachineSet,
    machines: impl Iterator<Item = (&'a CaptMachine, Facts)>,
    absent: &[i64],
    now: Timestamp,
    plan: &mut SetPlan,
) -> Context<'a> {
    let allocation = set.status.as_ref().and_then(|status| status.allocation.clone()).unwrap_or_default();
    let mut next = allocation.next;
    let mut pending: BTreeSet<i64> = allocation.pending.into_iter().collect();
    let mut live = Vec::with_capacity(machines.size_hint().0);
    let (mut terminating, mut stuck) = (0, Vec::new());
    for (machine, facts) in machines {
        let Facts { number, kinship, matches, fully_labeled, up_to_date, annotated, .. } = facts;
        let standing = facts.standing(now);
        if let Some(number) = number {
            next = next.max(number + 1);
            pending.remove(&number);
        }
        let name = || machine.metadata.name.clone().unwrap_or_default();
        let uid = || machine.metadata.uid.clone().unwrap_or_default();
        let deleting = standing == MachineAvailability::Terminating;
        match kinship {
            Kinship::Foreign => continue,
            Kinship::Orphan if deleting || !matches || set.metadata.deletion_timestamp.is_some() => continue,
            Kinship::Orphan => {
                plan.actions.push(SetAction::Adopt { name: name(), uid: uid(), reason: Reason::Selected });
            }
            Kinship::Ours if !matches && !deleting => {
                plan.actions.push(SetAction::Release {
                    name: name(),
                    uid: uid(),
                    reason: Reason::Unselected,
                });
                continue;
            }
            Kinship::Ours => {}
        }
        match standing {
            MachineAvailability::Terminating => {
                terminating += 1;
                stuck.extend(crate::cause::of_machine(machine));
            }
            standing => live.push(Live { machine, standing, fully_labeled, up_to_date, annotated }),
        }
    }
    for number in absent {
        pending.remove(number);
    }
    stuck.sort_unstable();
    Context { set, now, live, terminating, stuck, pending, next }
}

fn take_down(context: &Context<'_>, plan: &mut SetPlan) {
    plan.actions.retain(|action| matches!(action, SetAction::Release { .. }));
    if context.orphans() {
        // Whoever deletes this way wants to keep the machines.
        plan.actions.push(SetAction::Finish { reason: Reason::OwnerDeleting });
        return;
    }
    plan.actions.extend(context.live.iter().map(|live| SetAction::Delete {
        name: live.name().to_owned(),
        uid: live.uid(),
        reason: Reason::OwnerDeleting,
    }));
    probe(context, plan);
    let left = context.have() + context.terminating;
    if left == 0 {
        plan.actions.push(SetAction::Finish { reason: Reason::OwnerDeleting });
    } else {
        plan.waits.push(Reason::AwaitChildren { left });
    }
}

fn probe(context: &Context<'_>, plan: &mut SetPlan) {
    plan.actions.extend(context.pending.iter().map(|number| SetAction::Probe {
        name: names::machine_name(context.set_name(), *number),
        number: *number,
        reason: Reason::NotSeenYet,
    }));
    if !context.pending.is_empty() {
        plan.waits.push(Reason::AwaitMachines { pending: count(context.pending.len()) });
    }
}

fn scale(context: &mut Context<'_>, settings: &Settings, plan: &mut SetPlan) {
    let (have, wanted) = (context.have(), context.wanted());
    let create = |number, reason| SetAction::Create {
        name: names::machine_name(context.set_name(), number),
        number,
        reason,
    };
    // Also where there are too many: a name that was given out may yet turn into a machine, through a request that was
    // under way in a crash. The same create settles it; then it can go.
    plan.actions.extend(context.pending.iter().map(|number| create(*number, Reason::NotSeenYet)));
    if have > wanted {
        let excess = usize::try_from(context.live_count() - wanted).unwrap_or(0).min(settings.burst);
        let victims = victims::choose(context, settings.seed, excess);
        plan.actions.extend(victims.into_iter().map(|(live, first)| SetAction::Delete {
            name: live.name().to_owned(),
            uid: live.uid(),
            reason: Reason::TooMany { have, wanted, first },
        }));
        return;
    }
    if !context.annotated(annotations::DISABLE_CREATE) {
        let room = settings.burst.saturating_sub(context.pending.len());
        let missing = usize::try_from(wanted - have).unwrap_or(0).min(room);
        let fresh: Vec<i64> = (context.next..).take(missing).collect();
        plan.actions.extend(fresh.iter().map(|number| create(*number, Reason::Missing { have, wanted })));
        context.next += i64::try_from(missing).expect("at most a burst");
        context.pending.extend(fresh);
    }
    if have == wanted {
        replace_failed(context, settings, plan);
    }
}

/// Replaces one failed machine at a time, and only while few others are being built: a broken template costs a machine
/// a minute at first, and ever less often, not a storm.
fn replace_failed(context: &Context<'_>, settings: &Settings, plan: &mut SetPlan) {
    let building = context.live.iter().filter(|live| live.standing == MachineAvailability::NotReady).count();
    let in_flight = count(building + context.pending.len());
    let Some((live, since)) = failures::newest(context) else { return };
    let in_a_row = failures::last(context).map_or(1, |last| last.failures);
    if in_flight >= (context.wanted() / 10).max(1) {
        return;
    }
    let delay = failures::delay(in_a_row, settings);
    let due = since.saturating_add(delay).expect("a duration in seconds is no calendar span");
    if due <= context.now {
        plan.actions.push(SetAction::Delete {
            name: live.name().to_owned(),
            uid: live.uid(),
            reason: Reason::Failed { in_a_row },
        });
    } else {
        plan.wake_at = earlier(plan.wake_at, Some(due));
    }
}

fn update_in_place(context: &Context<'_>, settings: &Settings, plan: &mut SetPlan) {
    let going: BTreeSet<&str> = plan
        .actions
        .iter()
        .filter_map(|action| match action {
            SetAction::Delete { name, .. } => Some(name.as_str()),
            _ => None,
        })
        .collect();
    let stale: Vec<SetAction> = context
        .live
        .iter()
        .filter(|live| !live.up_to_date && !going.contains(live.name()))
        .take(settings.burst)
        .map(|live| SetAction::Update {
            name: live.name().to_owned(),
            uid: live.uid(),
            reason: Reason::InPlace { what: vec![crate::reason::Field::Template] },
        })
        .collect();
    plan.actions.extend(stale);
}

#[cfg(test)]
mod tests;
