//! The term of the lease that runs go on under, and what becomes of one whose term is over.
//!
//! The holder of a lease writes into one file of its data folder until when it holds it. Guards of runs that somebody else could go
//! on with read it: when that time has come and nobody has renewed it, Terraform is interrupted, as a cancelled run is. So it needs
//! nobody who is alive and well, and the next holder can tell when the run must have ended: [`ends_within`].

use std::{
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::{Path, PathBuf},
    time::Duration,
};

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use crate::private_files::write_private;

/// Time limit of a process that was interrupted twice; it does not save anything any more.
pub(crate) const LAST_GRACE: Duration = Duration::from_secs(10);
/// Interval at which a guard reads the clock: no timer counts the time that a machine is suspended.
pub(crate) const TICK: Duration = Duration::from_millis(500);
/// Time limit for handing in a state.
pub(crate) const HAND_IN: Duration = Duration::from_secs(30);
/// For a machine that is busy with other things.
const SLACK: Duration = Duration::from_secs(5);

/// A moment by the clock that all processes of a machine share and nobody sets, suspended time included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(Duration);

impl Moment {
    /// Now.
    pub fn now() -> Self {
        let now = clock_gettime(ClockId::Boottime);
        let (seconds, nanos) = (u64::try_from(now.tv_sec), u32::try_from(now.tv_nsec));
        Self(Duration::new(seconds.unwrap_or_default(), nanos.unwrap_or_default()))
    }

    /// So much later.
    #[must_use]
    pub fn after(self, time: Duration) -> Self {
        Self(self.0.saturating_add(time))
    }

    fn since(self, before: Self) -> Duration {
        self.0.saturating_sub(before.0)
    }
}

/// Longest time from the end of a term to the hand-in of the run's last state, with that grace.
pub fn ends_within(grace: Duration) -> Duration {
    TICK + grace + grace.min(LAST_GRACE) + HAND_IN + SLACK
}

/// The term of the holder of a lease.
pub struct Term {
    file: File,
    boot: String,
}

impl Term {
    /// The file of the term in the data folder of an engine.
    pub fn path(folder: &Path) -> PathBuf {
        folder.join("term")
    }

    /// Of an engine in that folder, which is made (0700) where it is missing.
    pub fn open(folder: &Path) -> io::Result<Self> {
        crate::private_files::make_private(folder)?;
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(Self::path(folder))?;
        Ok(Self { file, boot: boot()? })
    }

    /// Lets runs go on until then. In place: a full disk does not end a term.
    pub fn renew(&self, until: Moment) -> io::Result<()> {
        self.file.write_all_at(line(&self.boot, until).as_bytes(), 0)
    }
}

/// Writes a term that nobody renews: the time that one process has.
pub(crate) fn write_once(path: &Path, until: Moment) -> io::Result<()> {
    write_private(path, line(&boot()?, until).as_bytes())
}

/// The command that hands in the last state of a run whose engine did not take it in: given the folder of the workspace, it
/// keeps what [`last_state`](crate::engine::last_state) says.
#[derive(Debug, Serialize, Deserialize)]
pub struct HandIn {
    /// The program.
    pub program: PathBuf,
    /// Its arguments, but for the folder.
    pub args: Vec<String>,
    /// All of its environment: that of a run is none to reach an API with.
    pub env: Vec<(String, String)>,
}

impl HandIn {
    /// Writes it down for the guards of an engine in that folder; nobody else may read it.
    pub fn write(&self, folder: &Path) -> io::Result<()> {
        let path = Self::beside(&Term::path(folder));
        crate::private_files::write_whole(&path, &serde_json::to_vec(self)?)
    }

    pub(crate) fn read(term: &Path) -> io::Result<Self> {
        Ok(serde_json::from_slice(&fs::read(Self::beside(term))?)?)
    }

    fn beside(term: &Path) -> PathBuf {
        term.with_file_name("hand-in.json")
    }
}

fn line(boot: &str, until: Moment) -> String {
    format!("{boot} {:020}\n", until.0.as_millis())
}

/// Until when runs may go on: not after a restart of the machine, nor as long as nobody says.
pub(crate) fn read(path: &Path) -> Option<Moment> {
    let (text, boot) = (fs::read_to_string(path).ok()?, boot().ok()?);
    let until = text.strip_prefix(&boot)?.strip_prefix(' ')?.strip_suffix('\n')?;
    Some(Moment(Duration::from_millis(until.parse().ok()?)))
}

/// Tells one run of the machine from the next: its clock begins again.
fn boot() -> io::Result<String> {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").map(|id| id.trim().to_owned())
}

/// Progress of ending a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FencePhase {
    /// It may go on.
    Granted,
    /// Interrupted, once or twice, at that moment.
    Interrupted(u8, Moment),
    Killed,
}

/// Action of a guard on Terraform.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FenceAction {
    None,
    Interrupt,
    Kill,
}

/// Decides about the next action. A term that is over is not resumed: the next holder counts on it.
pub(crate) fn decide(
    phase: FencePhase,
    until: Option<Moment>,
    now: Moment,
    grace: Duration,
) -> (FencePhase, FenceAction) {
    match phase {
        FencePhase::Granted if until.is_none_or(|until| now >= until) => {
            (FencePhase::Interrupted(1, now), FenceAction::Interrupt)
        }
        FencePhase::Interrupted(1, at) if now.since(at) >= grace => {
            (FencePhase::Interrupted(2, now), FenceAction::Interrupt)
        }
        FencePhase::Interrupted(2, at) if now.since(at) >= grace.min(LAST_GRACE) => {
            (FencePhase::Killed, FenceAction::Kill)
        }
        phase => (phase, FenceAction::None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRACE: Duration = Duration::from_secs(60);

    fn at(seconds: u64) -> Moment {
        Moment(Duration::from_secs(seconds))
    }

    #[test]
    fn a_run_goes_on_while_its_term_is_renewed_and_ends_when_it_is_not() {
        use FenceAction::{Interrupt, Kill};
        use FencePhase::{Granted, Interrupted, Killed};
        let rows = [
            // Phase, until, now -> phase, action.
            (Granted, Some(15), 14, Granted, FenceAction::None),
            (Granted, Some(30), 15, Granted, FenceAction::None),
            (Granted, Some(15), 15, Interrupted(1, at(15)), Interrupt),
            (Granted, Some(15), 999, Interrupted(1, at(999)), Interrupt),
            (Granted, None, 1, Interrupted(1, at(1)), Interrupt),
            (Interrupted(1, at(15)), Some(15), 74, Interrupted(1, at(15)), FenceAction::None),
            // Too late: somebody else may have begun.
            (Interrupted(1, at(15)), Some(1000), 20, Interrupted(1, at(15)), FenceAction::None),
            (Interrupted(1, at(15)), Some(15), 75, Interrupted(2, at(75)), Interrupt),
            (Interrupted(2, at(75)), Some(15), 84, Interrupted(2, at(75)), FenceAction::None),
            (Interrupted(2, at(75)), Some(15), 85, Killed, Kill),
            (Killed, Some(15), 999, Killed, FenceAction::None),
        ];
        for (row, (phase, until, now, next, action)) in rows.into_iter().enumerate() {
            assert_eq!(decide(phase, until.map(at), at(now), GRACE), (next, action), "row {row}");
        }
        let last = at(15).after(ends_within(GRACE));
        assert!(last > at(85).after(HAND_IN), "whoever comes next waits longer than all of that takes");
    }

    #[test]
    fn a_term_is_read_as_it_was_written() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = Term::path(folder.path());
        assert_eq!(read(&path), None, "nobody says");
        let term = Term::open(folder.path()).expect("opens");
        assert_eq!(read(&path), None);
        for until in [at(1), at(9_999_999), at(20)] {
            term.renew(until).expect("written");
            assert_eq!(read(&path), Some(until));
        }
        fs::write(&path, line("0d5fa5c3-0000-0000-0000-000000000000", at(99))).expect("write");
        assert_eq!(read(&path), None, "of another run of the machine");
        fs::write(&path, &line(&boot().expect("a boot"), at(99))[..40]).expect("write");
        assert_eq!(read(&path), None, "half of one");
        let opened = Term::open(folder.path()).expect("again");
        opened.renew(at(7)).expect("written");
        assert_eq!(read(&path), Some(at(7)));
        assert!(Moment::now() <= Moment::now());
    }
}
