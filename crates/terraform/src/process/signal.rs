//! Finding and signalling the processes of a run.

use std::{fs, path::Path};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

/// The name that every process of a run has in its environment, so that it is found again whatever became of its parents.
pub(crate) const RUN_VARIABLE: &str = "CAPT_RUN";

/// Kills a whole group.
pub(crate) fn kill_group(leader: u32) {
    if let Some(pid) = pid(leader) {
        // Gone already: what was wanted.
        let _ = kill_process_group(pid, Signal::KILL);
    }
}

/// Asks a process to stop in good order.
pub(crate) fn interrupt(process: u32) -> bool {
    pid(process).is_some_and(|pid| kill_process(pid, Signal::INT).is_ok())
}

/// Kills one process.
pub(crate) fn kill(process: u32) {
    if let Some(pid) = pid(process) {
        let _ = kill_process(pid, Signal::KILL);
    }
}

fn pid(id: u32) -> Option<Pid> {
    // 0 and 1 would mean "my group" and "everybody" to kill(2).
    i32::try_from(id).ok().filter(|id| *id > 1).and_then(Pid::from_raw)
}

/// The children of a process.
pub(crate) fn children(parent: u32) -> Vec<u32> {
    let listed = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children"));
    match listed {
        Ok(text) => text.split_whitespace().filter_map(|word| word.parse().ok()).collect(),
        // Kernels may lack that file.
        Err(_) if Path::new(&format!("/proc/{parent}")).exists() => {
            processes().filter(|process| parent_of(*process) == Some(parent)).collect()
        }
        Err(_) => Vec::new(),
    }
}

/// All processes of a run: those that carry its name.
pub(crate) fn of_run(mark: &str) -> Vec<u32> {
    let entry = format!("{RUN_VARIABLE}={mark}");
    processes()
        .filter(|process| {
            let environment = fs::read(format!("/proc/{process}/environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|variable| variable == entry.as_bytes())
        })
        .collect()
}

/// The wrapper among the processes of a run: the one whose parent is none of them.
pub(crate) fn eldest(processes: &[u32]) -> Option<u32> {
    processes
        .iter()
        .copied()
        .find(|process| parent_of(*process).is_none_or(|parent| !processes.contains(&parent)))
}

/// The most memory a process and those below it had, in bytes.
pub(crate) fn peak_memory(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let own = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix("kB")?.trim().parse::<u64>().ok())
        .unwrap_or(0)
        * 1024;
    children(process).into_iter().map(peak_memory).fold(own, u64::saturating_add)
}

fn processes() -> impl Iterator<Item = u32> {
    fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn parent_of(process: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name before it may hold spaces and brackets.
    let (_, rest) = stat.rsplit_once(") ")?;
    rest.split(' ').nth(1)?.parse().ok()
}
