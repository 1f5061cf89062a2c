//! Readiness and availability of a machine, and the time of the next change.

use capt_api::conditions::types;
use capt_api::machine::{CaptMachine, MachinePhase};
use jiff::{SignedDuration, Timestamp};

/// Availability of a machine.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum MachineAvailability {
    /// It is being deleted; it never counts as ready or available.
    Terminating,
    /// It could not be built, since this moment where that is known.
    Failed(Option<Timestamp>),
    /// It is being built, or has stopped being ready.
    NotReady,
    /// It is ready, and will be available at this moment.
    Ready(Timestamp),
    /// It has been ready for long enough.
    Available,
}

impl MachineAvailability {
    /// Returns true if the machine counts as ready.
    pub fn is_ready(self) -> bool {
        matches!(self, Self::Ready(_) | Self::Available)
    }
}

/// Returns the availability of a machine now.
pub fn standing(machine: &CaptMachine, min_ready_seconds: i32, now: Timestamp) -> MachineAvailability {
    if machine.metadata.deletion_timestamp.is_some() {
        return MachineAvailability::Terminating;
    }
    let Some(status) = &machine.status else { return MachineAvailability::NotReady };
    if status.phase == Some(MachinePhase::Failed) {
        return MachineAvailability::Failed(failed_since(machine));
    }
    if !status.ready {
        return MachineAvailability::NotReady;
    }
    if min_ready_seconds <= 0 {
        return MachineAvailability::Available;
    }
    let since = status
        .last_transition_time
        .as_ref()
        .or(machine.metadata.creation_timestamp.as_ref())
        .map_or(now, |time| time.0);
    let due = after(since, min_ready_seconds);
    if due <= now { MachineAvailability::Available } else { MachineAvailability::Ready(due) }
}

/// A moment some seconds later; the last moment there is where that would be beyond it.
pub(crate) fn after(time: Timestamp, seconds: i32) -> Timestamp {
    time.saturating_add(SignedDuration::from_secs(seconds.into()))
        .expect("a duration in seconds is no calendar span")
}

fn failed_since(machine: &CaptMachine) -> Option<Timestamp> {
    let status = machine.status.as_ref()?;
    let condition = |kind: &str| status.conditions.iter().find(|condition| condition.type_ == kind);
    condition(types::STALLED)
        .or_else(|| condition(types::READY))
        .map(|condition| condition.last_transition_time.0)
        .or_else(|| status.last_transition_time.as_ref().map(|time| time.0))
        .or_else(|| machine.metadata.creation_timestamp.as_ref().map(|time| time.0))
}

/// The earlier of two moments that may not come.
pub(crate) fn earlier(one: Option<Timestamp>, other: Option<Timestamp>) -> Option<Timestamp> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use capt_api::machine::{CaptMachineSpec, CaptMachineStatus};
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn ready_since(second: i64) -> CaptMachine {
        let mut machine = CaptMachine::new("m", CaptMachineSpec::default());
        machine.status = Some(CaptMachineStatus {
            ready: true,
            last_transition_time: Some(Time(at(second))),
            ..CaptMachineStatus::default()
        });
        machine
    }

    #[test]
    fn a_ready_machine_is_available_after_min_ready_seconds() {
        let machine = ready_since(100);
        assert_eq!(standing(&machine, 0, at(0)), MachineAvailability::Available);
        assert_eq!(standing(&machine, 30, at(129)), MachineAvailability::Ready(at(130)));
        assert_eq!(standing(&machine, 30, at(130)), MachineAvailability::Available);
        assert!(matches!(standing(&machine, i32::MAX, at(130)), MachineAvailability::Ready(_)));
    }

    #[test]
    fn a_terminating_machine_is_never_available() {
        let mut machine = ready_since(0);
        machine.metadata.deletion_timestamp = Some(Time(at(50)));
        assert_eq!(standing(&machine, 0, at(60)), MachineAvailability::Terminating);
    }

    #[test]
    fn a_machine_without_status_is_not_ready() {
        let machine = CaptMachine::new("m", CaptMachineSpec::default());
        assert_eq!(standing(&machine, 0, at(0)), MachineAvailability::NotReady);
    }
}
