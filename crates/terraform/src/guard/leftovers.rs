//! Killing what a run left behind.
//!
//! All of it is below the guard, whatever it did to its group, session or environment: an orphan becomes a child of the guard, which
//! is a subreaper. What forks faster than it can be killed is stopped first: then it makes nothing more, still counts against the
//! limits of its user, and is killed at rest.

use std::{
    collections::BTreeSet,
    thread::sleep,
    time::{Duration, Instant},
};

use rustix::{
    io::Errno,
    process::{WaitOptions, getpid, setpriority_process, wait},
};

use crate::signal::{self, PATIENCE};

/// Between a kill and the next look.
const PAUSE: Duration = Duration::from_millis(1);

/// Kills all that is below this process, until nothing is. False where the kernel does not let go of something.
pub(super) fn clear() -> bool {
    let own = getpid().as_raw_nonzero().get().unsigned_abs();
    let mut stopped = BTreeSet::new();
    let mut last = Instant::now();
    if !reap(&mut stopped) {
        return true;
    }
    // Among many that want the processor; needs a right that most have not.
    let _ = setpriority_process(None, -20);
    while reap(&mut stopped) {
        if last.elapsed() >= PATIENCE {
            return false;
        }
        // Its own children first and alone, as long as there are others than before: that is one file to read, and
        // what forks and ends at once comes up there.
        if stop(&signal::children(own), &mut stopped) || stop(&signal::descendants(own), &mut stopped) {
            last = Instant::now();
            continue;
        }
        stopped.iter().copied().for_each(signal::kill);
        sleep(PAUSE);
    }
    true
}

/// Stops what is not stopped yet. False where there is no such process.
fn stop(found: &[u32], stopped: &mut BTreeSet<u32>) -> bool {
    let before = stopped.len();
    for process in found {
        if stopped.insert(*process) {
            signal::stop(*process);
        }
    }
    stopped.len() > before
}

/// Takes in who has ended, whose number may be that of another one soon. False when there is no child any more.
fn reap(stopped: &mut BTreeSet<u32>) -> bool {
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some((process, _))) => _ = stopped.remove(&process.as_raw_nonzero().get().unsigned_abs()),
            Ok(None) => return true,
            Err(Errno::INTR) => {}
            Err(_) => return false,
        }
    }
}
