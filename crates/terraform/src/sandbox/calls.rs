//! System calls by which a process changes another one of its user without a signal, and which Landlock does not know: resource
//! limits (a processor time of no seconds kills), priorities, processors, memory of certain nodes. And those that leave things
//! behind in the kernel, those that change what a path means, and those that tell names.
//!
//! A run may use them on itself, as runtimes and shells do: there the number of the process is 0. Everything else is "not permitted".

use std::collections::BTreeMap;

use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};

/// The value of `which` that means all processes of a user.
const PRIORITY_OF_USER: u64 = 2;
const IO_PRIORITY_OF_USER: u64 = 3;

/// Calls whose first argument is a process, 0 being the caller.
const OF_A_PROCESS: [libc::c_long; 7] = [
    libc::SYS_prlimit64,
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_setattr,
    libc::SYS_sched_setparam,
    libc::SYS_sched_setscheduler,
    libc::SYS_migrate_pages,
    libc::SYS_move_pages,
];

/// Calls that say first what the second is: a process, a group or a user, 0 being the caller's.
const OF_ONE_OR_MANY: [(libc::c_long, u64); 2] =
    [(libc::SYS_setpriority, PRIORITY_OF_USER), (libc::SYS_ioprio_set, IO_PRIORITY_OF_USER)];

/// Calls that leave something in the kernel which outlives the run and belongs to its user: shared memory, queues, keys.
const LEFT_BEHIND: [libc::c_long; 8] = [
    libc::SYS_shmget,
    libc::SYS_semget,
    libc::SYS_msgget,
    // Landlock refuses to open a queue, and the kernel has made it by then; nor does it know of removing one.
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
];

/// Calls that change what a path means. Landlock knows paths, and not what the kernel does by itself for a file system that a run mounts:
/// an overlay makes and removes folders called `work` wherever its options say.
const OF_MOUNTS: [libc::c_long; 13] = [
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_setns,
    libc::SYS_fsopen,
    libc::SYS_fspick,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_mount_setattr,
    OPEN_TREE_ATTR,
];

/// `open_tree` and `mount_setattr` in one, since Linux 6.15.
const OPEN_TREE_ATTR: libc::c_long = 467;

/// Calls that watch files: they tell the names in folders that Landlock lets nobody list. Without the first ones programs (`tail -f`) know
/// that there are no watches, and look now and then; a descriptor of theirs may have been inherited.
const OF_WATCHES: [libc::c_long; 4] =
    [libc::SYS_inotify_init1, libc::SYS_inotify_add_watch, libc::SYS_fanotify_init, libc::SYS_fanotify_mark];

/// `inotify_init`, which the newer processors do not have.
const X86_INOTIFY_INIT: libc::c_long = 253;

/// Calls that can make a user namespace, where everybody may mount. Their first argument has the flags.
const OF_NAMESPACES: [libc::c_long; 2] = [libc::SYS_clone, libc::SYS_unshare];

/// The other numbers of all calls on x86-64, for programs with short pointers, where the kernel has them.
const X32: libc::c_long = 0x4000_0000;
/// One that is not the same number with that bit.
const X32_MOVE_PAGES: libc::c_long = X32 + 533;

/// Returns true if the kernel has such filters, and they are known for this processor.
pub(super) fn available() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    target().is_ok() && status.lines().any(|line| line.starts_with("Seccomp:"))
}

/// Keeps this thread, and what it starts or becomes, from changing processes that are not its own; nobody where no filter is
/// available.
pub(super) fn enter() -> Result<(), String> {
    if !available() {
        return Ok(());
    }
    for filter in [refused(), unknown()] {
        let filter = filter.map_err(|error| error.to_string())?;
        seccompiler::apply_filter(&filter).map_err(|error| error.to_string())?;
    }
    Ok(())
}

fn target() -> Result<TargetArch, BackendError> {
    std::env::consts::ARCH.try_into()
}

/// Filter of the system calls that are not permitted.
fn refused() -> Result<BpfProgram, BackendError> {
    let another = |argument| SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, 0);
    let mut rules = BTreeMap::new();
    for call in OF_A_PROCESS {
        rules.insert(call, vec![SeccompRule::new(vec![another(0)?])?]);
    }
    for (call, user) in OF_ONE_OR_MANY {
        let all = SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, user)?;
        rules.insert(call, vec![SeccompRule::new(vec![another(1)?])?, SeccompRule::new(vec![all])?]);
    }
    // Whatever their arguments are.
    let always = LEFT_BEHIND.into_iter().chain(OF_MOUNTS).chain(OF_WATCHES);
    rules.extend(always.map(|call| (call, Vec::new())));
    let user = u64::from(libc::CLONE_NEWUSER.unsigned_abs());
    let namespace = SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::MaskedEq(user), user)?;
    let namespace = vec![SeccompRule::new(vec![namespace])?];
    rules.extend(OF_NAMESPACES.map(|call| (call, namespace.clone())));
    if cfg!(target_arch = "x86_64") {
        rules.insert(X86_INOTIFY_INIT, Vec::new());
        rules.extend(rules.get(&libc::SYS_move_pages).cloned().map(|same| (X32_MOVE_PAGES, same)));
    }
    program(rules, libc::EPERM)
}

/// `clone3` keeps its flags in memory, where no filter can look: the kernel is one that does not have it, and libraries use `clone`.
fn unknown() -> Result<BpfProgram, BackendError> {
    program(BTreeMap::from([(libc::SYS_clone3, Vec::new())]), libc::ENOSYS)
}

fn program(
    mut rules: BTreeMap<libc::c_long, Vec<SeccompRule>>,
    answer: libc::c_int,
) -> Result<BpfProgram, BackendError> {
    if cfg!(target_arch = "x86_64") {
        let again: Vec<_> = rules.iter().map(|(call, rules)| (call | X32, rules.clone())).collect();
        rules.extend(again);
    }
    let answer = SeccompAction::Errno(answer.unsigned_abs());
    SeccompFilter::new(rules, SeccompAction::Allow, answer, target()?)?.try_into()
}

#[cfg(test)]
mod tests {
    use rustix::process::{Pid, Resource, getpid, getrlimit, prlimit};

    use super::*;

    #[test]
    fn a_thread_changes_itself_and_nobody_else() {
        let told = std::thread::spawn(|| {
            enter().expect("a filter");
            let limit = getrlimit(Resource::Core);
            let other = |pid: Pid| prlimit(Some(pid), Resource::Core, limit).err();
            let (own, init) = (prlimit(None, Resource::Core, limit), Pid::INIT);
            (
                own.err(),
                other(getpid()),
                other(init),
                rustix::process::setpriority_user(rustix::process::getuid(), 0).err(),
            )
        });
        let refused = Some(rustix::io::Errno::PERM);
        assert_eq!(told.join().expect("a thread"), (None, refused, refused, refused));
    }
    /// As root, most of these say something else without the filter: their arguments are wrong.
    #[test]
    fn nothing_is_mounted_and_no_user_namespace_is_made() {
        if std::process::Command::new("perl").arg("-v").output().is_err() {
            capt_e2e::skip("there is no perl to make calls with");
            return;
        }
        let calls: Vec<_> = OF_MOUNTS.iter().map(|call| (*call, 0, libc::EPERM)).collect();
        let rest = [
            (libc::SYS_unshare, libc::CLONE_NEWUSER, libc::EPERM),
            (libc::SYS_unshare, libc::CLONE_NEWUSER | libc::CLONE_NEWNS, libc::EPERM),
            (libc::SYS_clone, libc::CLONE_NEWUSER | libc::SIGCHLD, libc::EPERM),
            (libc::SYS_clone3, 0, libc::ENOSYS),
            // Of files only: runtimes do this for a thread.
            (libc::SYS_unshare, libc::CLONE_FS, 0),
        ];
        let calls: Vec<_> = calls.into_iter().chain(rest).collect();
        let scripts: Vec<String> = calls
            .iter()
            .map(|(call, flags, _)| {
                format!("$! = 0; syscall({call}, {flags}, 0, 0, 0, 0); print $!+0, \"\\n\";")
            })
            .collect();
        let script = scripts.concat();
        // A thread and a process: both begin although there is no `clone3`.
        let told = std::thread::spawn(move || {
            enter().expect("a filter");
            std::thread::spawn(move || std::process::Command::new("perl").args(["-e", &script]).output())
                .join()
                .expect("a thread")
        });
        let told = told.join().expect("a thread").expect("a process");
        let told: Vec<i32> = String::from_utf8_lossy(&told.stdout).lines().flat_map(str::parse).collect();
        let expected: Vec<i32> = calls.iter().map(|(_, _, errno)| *errno).collect();
        assert_eq!(told, expected, "{calls:?}");
    }
}
