//! Admission of processes: by count and by memory.

use std::fs;

/// Memory, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Memory {
    /// Memory that all processes together may be expected to use.
    pub budget: u64,
    /// Memory that the machine could give right now.
    pub available: u64,
}

impl Memory {
    /// As the machine and the cgroup have it. Without `/proc`, memory is no limit.
    pub fn now(budget: Option<u64>) -> Self {
        let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let field = |name: &str| {
            let line = meminfo.lines().find_map(|line| line.strip_prefix(name))?;
            line.trim_start_matches(':')
                .trim()
                .strip_suffix("kB")?
                .trim()
                .parse::<u64>()
                .ok()
                .map(|kb| kb * 1024)
        };
        let cgroup = |name: &str| {
            fs::read_to_string(format!("/sys/fs/cgroup/{name}")).ok()?.trim().parse::<u64>().ok()
        };
        let limit = cgroup("memory.max");
        let total = field("MemTotal").into_iter().chain(limit).min().unwrap_or(u64::MAX);
        let free_in_group =
            limit.zip(cgroup("memory.current")).map(|(limit, used)| limit.saturating_sub(used));
        let available = field("MemAvailable").into_iter().chain(free_in_group).min().unwrap_or(u64::MAX);
        Self { budget: budget.unwrap_or(total / 5 * 4), available }
    }
}

/// Counts what is inside. Whoever is let in must leave with the same estimate.
#[derive(Debug)]
pub(crate) struct Gate {
    slots: usize,
    inside: usize,
    expected: u64,
}

impl Gate {
    pub fn new(slots: usize) -> Self {
        Self { slots: slots.max(1), inside: 0, expected: 0 }
    }

    /// Lets one in that is expected to use `estimate` bytes, if there is room. One alone is always let in: it may not fit, but
    /// waiting would not help it.
    pub fn enter(&mut self, estimate: u64, memory: Memory) -> bool {
        let fits = self.expected.saturating_add(estimate) <= memory.budget && estimate <= memory.available;
        let room = self.inside == 0 || (self.inside < self.slots && fits);
        if room {
            self.force(estimate);
        }
        room
    }

    /// Counts one that is inside already: an adopted run.
    pub fn force(&mut self, estimate: u64) {
        self.inside += 1;
        self.expected = self.expected.saturating_add(estimate);
    }

    pub fn leave(&mut self, estimate: u64) {
        self.inside -= 1;
        self.expected = self.expected.saturating_sub(estimate);
    }

    pub fn slots(&self) -> usize {
        self.slots
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLENTY: Memory = Memory { budget: 1000, available: 1000 };

    #[test]
    fn counts_slots() {
        let mut gate = Gate::new(2);
        assert!(gate.enter(1, PLENTY) && gate.enter(1, PLENTY) && !gate.enter(1, PLENTY));
        gate.leave(1);
        assert!(gate.enter(1, PLENTY));
    }

    #[test]
    fn counts_memory_by_estimate() {
        let mut gate = Gate::new(10);
        assert!(gate.enter(600, PLENTY));
        assert!(!gate.enter(600, PLENTY), "two would not fit");
        assert!(gate.enter(400, PLENTY));
        gate.leave(600);
        assert!(gate.enter(600, PLENTY));
    }

    #[test]
    fn minds_what_the_machine_has_left() {
        let mut gate = Gate::new(10);
        let little = Memory { budget: 1000, available: 50 };
        assert!(gate.enter(100, little), "one alone always runs");
        assert!(!gate.enter(100, little));
        assert!(gate.enter(40, little));
    }

    #[test]
    fn one_alone_always_runs() {
        let mut gate = Gate::new(2);
        assert!(gate.enter(1 << 60, PLENTY));
        assert!(!gate.enter(1, PLENTY));
    }

    #[test]
    fn adopted_runs_count() {
        let mut gate = Gate::new(1);
        gate.force(10);
        gate.force(10);
        assert!(!gate.enter(1, PLENTY));
        gate.leave(10);
        gate.leave(10);
        assert!(gate.enter(1, PLENTY));
    }

    #[test]
    fn this_machine_has_memory() {
        let memory = Memory::now(None);
        assert!(memory.budget > 0 && memory.available > 0);
        assert_eq!(Memory::now(Some(7)).budget, 7);
    }
}
