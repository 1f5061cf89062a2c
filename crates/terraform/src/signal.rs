//! Finding and signalling the processes of a run.

use std::{collections::VecDeque, fs, io::Read as _, os::unix::fs::MetadataExt, path::Path, time::Duration};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

/// The name that every process of a run has in its environment, so that it is found again whatever became of its parents.
pub(crate) const RUN_VARIABLE: &str = "CAPT_RUN";

/// As much of an environment is read: a process can say that its environment is all of its memory. Its own name is among the first.
const ENVIRONMENT: u64 = 256 << 10;
/// The memory of as many processes of a run is counted.
const COUNTED: usize = 1024;

/// Time that what was killed is waited for. What the kernel does not let go by then never runs any code of its own again.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

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

/// Stops a process where it is.
pub(crate) fn stop(process: u32) {
    if let Some(pid) = pid(process) {
        let _ = kill_process(pid, Signal::STOP);
    }
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

/// The children of a process, whichever of its threads started them, the eldest first.
pub(crate) fn children(parent: u32) -> Vec<u32> {
    let threads: Vec<_> =
        fs::read_dir(format!("/proc/{parent}/task")).into_iter().flatten().flatten().collect();
    // A thread may end meanwhile.
    let listed: Vec<String> =
        threads.iter().filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok()).collect();
    if listed.is_empty() && !threads.is_empty() {
        // Kernels may lack that file.
        return processes().filter(|process| parent_of(*process) == Some(parent)).collect();
    }
    listed.iter().flat_map(|text| text.split_whitespace()).filter_map(|word| word.parse().ok()).collect()
}

/// All processes below one.
pub(crate) fn descendants(process: u32) -> Vec<u32> {
    let mut all = children(process);
    let mut at = 0;
    while let Some(parent) = all.get(at) {
        let below = children(*parent);
        all.extend(below);
        at += 1;
    }
    all
}

/// All processes of a run: those that carry its name.
pub(crate) fn of_run(mark: &str) -> Vec<u32> {
    processes().filter(|process| carries(*process, mark)).collect()
}

/// The guard of a run: what carries its name and has that file as its standard input.
pub(crate) fn guard_of(mark: &str, alive: &Path) -> Option<u32> {
    processes().find(|process| reads_from(*process, alive) && carries(*process, mark))
}

fn carries(process: u32, mark: &str) -> bool {
    let entry = format!("{RUN_VARIABLE}={mark}");
    let mut environment = Vec::new();
    // What cannot be read is not a process of ours, or gone.
    let _ = fs::File::open(format!("/proc/{process}/environ"))
        .and_then(|file| file.take(ENVIRONMENT).read_to_end(&mut environment));
    environment.split(|byte| *byte == 0).any(|variable| variable == entry.as_bytes())
}

/// Returns true if a file is open as the standard input of a process. That of a guard is a file that nothing of its run can open; a
/// run can only hold a handle of its path, and take the mark of another run.
fn reads_from(process: u32, path: &Path) -> bool {
    /// As `/proc` shows it, in octal.
    const PATH_ONLY: u32 = 0o10_000_000;
    let place = |path: &Path| fs::metadata(path).ok().map(|found| (found.dev(), found.ino()));
    let input = Path::new("/proc").join(process.to_string());
    let info = fs::read_to_string(input.join("fdinfo/0")).unwrap_or_default();
    let flags =
        info.lines().find_map(|line| u32::from_str_radix(line.strip_prefix("flags:")?.trim(), 8).ok());
    let file = place(&input.join("fd/0"));
    flags.is_some_and(|flags| flags & PATH_ONLY == 0) && file.is_some() && file == place(path)
}

/// The most memory a process and those below it had, in bytes. Modules make trees of processes as deep and as wide as they like, of
/// which the first are counted.
pub(crate) fn peak_memory(process: u32) -> u64 {
    let (mut all, mut sum) = (VecDeque::from([process]), 0_u64);
    for _ in 0..COUNTED {
        let Some(process) = all.pop_front() else { break };
        let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
        let own = status.lines().find_map(|line| {
            line.strip_prefix("VmHWM:")?.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()
        });
        sum = sum.saturating_add(own.unwrap_or_default().saturating_mul(1024));
        all.extend(children(process).into_iter().take(COUNTED));
    }
    sum
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

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn who_has_a_file_open_is_told_from_who_knows_its_path() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("alive");
        let open = || fs::OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
        let handle = || {
            let flags = rustix::fs::OFlags::PATH | rustix::fs::OFlags::CLOEXEC;
            rustix::fs::open(&path, flags, rustix::fs::Mode::empty()).expect("a handle")
        };
        let asked = |input: Stdio| {
            let mut child = Command::new("sleep").arg("1000").stdin(input).spawn().expect("sleep");
            let answer = reads_from(child.id(), &path);
            child.kill().and_then(|()| child.wait()).expect("ended");
            answer
        };
        assert!(asked(open().expect("open").into()));
        assert!(!asked(handle().into()));
        assert!(!asked(Stdio::null()));
    }

    /// Ends with all that it started.
    struct Started(std::process::Child);

    impl Drop for Started {
        fn drop(&mut self) {
            kill_group(self.0.id());
            let _ = self.0.wait();
        }
    }

    fn start(command: &mut Command) -> Started {
        use std::os::unix::process::CommandExt as _;
        Started(command.process_group(0).stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("starts"))
    }

    #[test]
    fn the_memory_of_a_deep_tree_is_counted_on_a_small_stack() {
        // Each level starts the next and waits for it; the last one says that all are there.
        let script =
            r#"if [ "$1" -gt 0 ]; then sh -c "$0" "$0" $(($1 - 1)); exit; fi; echo deep; sleep 1000"#;
        let mut tree = start(Command::new("sh").args(["-c", script, script, "150"]));
        let mut said = [0; 4];
        tree.0.stdout.as_mut().expect("a pipe").read_exact(&mut said).expect("all levels are there");
        let root = tree.0.id();
        assert!(descendants(root).len() >= 150);
        let counted = std::thread::Builder::new().stack_size(96 << 10).spawn(move || peak_memory(root));
        let counted = counted.expect("a thread").join().expect("no more stack than for one");
        assert!(counted > 150 * (100 << 10), "{counted} bytes");
    }

    #[test]
    fn only_so_much_of_an_environment_is_read() {
        let carrier = |ballast: &str| {
            let mut command = Command::new("sleep");
            command.arg("1000").env_clear().env(RUN_VARIABLE, "mark");
            // The environment is sorted by name.
            for number in 0..10 {
                command.env(format!("{ballast}{number}"), "x".repeat(100 << 10));
            }
            command.env("PATH", "/usr/bin:/bin");
            start(&mut command)
        };
        let (found, hidden) = (carrier("Z"), carrier("A"));
        assert!(carries(found.0.id(), "mark") && !carries(found.0.id(), "mar"));
        assert!(!carries(hidden.0.id(), "mark"), "more than {ENVIRONMENT} bytes were read");
    }
}
