//! Modules that signal what is not theirs, and that leave processes behind.

use std::fs;

use capt_terraform::{
    Executor, Options,
    inputs::EnvValue,
    order::{Operation, Order, WorkspaceId},
    sandbox,
    view::Outcome,
};
use rustix::process::{Pid, Signal, kill_process};

use crate::lab::{Lab, PATIENCE, Tool, tool};

fn long() -> bool {
    std::env::var("CAPT_ATTACK").is_ok_and(|form| form == "long")
}

/// One resource that runs a command.
fn module(command: &str) -> String {
    let command = serde_json::to_string(command).expect("text").replace("${", "$${");
    format!(
        "resource \"terraform_data\" \"a\" {{\n  provisioner \"local-exec\" {{\n    command = {command}\n  }}\n}}\n"
    )
}

async fn shut_in(tool: &Tool) -> Lab {
    Lab::with(tool, |options: &mut Options| options.sandbox = true).await
}

/// What a run may write to, and this test reads.
fn notes(lab: &Lab, name: &str) -> String {
    fs::read_to_string(lab.folder_of(name).join("guest/work/notes")).unwrap_or_default()
}

fn pids(text: &str) -> Vec<Pid> {
    text.split_whitespace().filter_map(|word| Pid::from_raw(word.parse().ok()?)).collect()
}

fn lives(pid: Pid) -> bool {
    // One look, at what may go at any moment. One that nobody has waited for yet is none.
    let stat = stat(pid);
    !stat.is_empty() && !stat.contains(") Z ")
}

/// Whether it can still run code of its own: memory is the first thing that the kernel takes from one that ends.
fn has_memory(pid: Pid) -> bool {
    fs::read(format!("/proc/{}/cmdline", pid.as_raw_pid())).is_ok_and(|line| !line.is_empty())
}

fn stat(pid: Pid) -> String {
    fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_pid())).unwrap_or_default()
}

/// Processes whose command line has a word.
fn with_argument(word: &str) -> Vec<Pid> {
    let listed = fs::read_dir("/proc").expect("/proc").flatten();
    let numbers = listed.filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?));
    let said = |pid: &Pid| {
        let line = fs::read(format!("/proc/{}/cmdline", pid.as_raw_pid())).unwrap_or_default();
        line.split(|byte| *byte == 0).any(|argument| argument == word.as_bytes())
    };
    numbers.filter(said).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_cannot_signal_or_limit_its_guard_the_engine_or_another_run() {
    let Some(tool) = tool() else { return };
    if !sandbox::confines_signals() {
        capt_e2e::skip("the kernel does not confine signals");
        return;
    }
    let lab = shut_in(&tool).await;
    let (victim, gate) = (WorkspaceId::new("victim"), lab.folder.path());
    let waits =
        format!("echo $$ > notes; until [ -e {}/data/plugins/gate ]; do sleep 0.05; done", gate.display());
    lab.engine
        .start_run(Order::new(victim.clone(), Operation::Apply, Some(lab.inputs(&module(&waits)))))
        .await
        .expect("taken");
    capt_e2e::until("the victim runs", PATIENCE, async || {
        let there = fs::read_dir(lab.path("data/workspaces")).is_ok_and(|mut all| all.next().is_some());
        (there && !pids(&notes(&lab, "victim")).is_empty()).then_some(())
    })
    .await
    .expect("runs");
    let victims = pids(&notes(&lab, "victim"));
    let engine = std::process::id();
    // Its guard, the engine, the victim: whatever it gets hold of is written down. Nobody above them: a kernel that let it
    // through would lose more than this test.
    let attack = format!(
        "for p in $(awk '{{print $4}}' /proc/$PPID/stat) {engine} {}; do for s in TERM STOP KILL; do \
         kill -$s $p 2>/dev/null && echo $p >> notes; done; done; true",
        victims[0].as_raw_pid()
    );
    let attacked = lab.apply("attacker", lab.inputs(&module(&attack))).await;
    assert_eq!(attacked.outcome, Outcome::Done, "{attacked:?}");
    assert_eq!(notes(&lab, "attacker"), "", "was let to signal");
    // What works like a signal without being one: a processor time that is over, a priority at which nothing runs.
    let attack = format!(
        "for p in $(awk '{{print $4}}' /proc/$PPID/stat) {}; do \
         prlimit --pid $p --nofile=1024:1024 && echo limit $p >> notes; \
         renice -n 0 -p $p && echo priority $p >> notes; renice -n 0 -u $(id -u) && echo all >> notes; \
         taskset -p 1 $p && echo processors $p >> notes; ionice -c 3 -p $p && echo disk $p >> notes; \
         chrt -i -p 0 $p && echo policy $p >> notes; done 2>/dev/null; \
         for what in '-M 4096' -Q '-S 1'; do ipcmk $what && echo left behind $what >> notes; done 2>/dev/null; true",
        victims[0].as_raw_pid()
    );
    let attacked = lab.apply("limiter", lab.inputs(&module(&attack))).await;
    assert_eq!(attacked.outcome, Outcome::Done, "{attacked:?}");
    assert_eq!(notes(&lab, "limiter"), "", "was let to change others");
    let own = "prlimit --nofile=512:512 true && renice -n 19 -p 0 && nice -n 5 true";
    assert_eq!(lab.apply("own", lab.inputs(&module(own))).await.outcome, Outcome::Done, "may change itself");
    // Its own group is its own affair.
    let suicide = lab.apply("group", lab.inputs(&module("sleep 1000 & kill -9 0"))).await;
    assert!(matches!(&suicide.outcome, Outcome::Failed(_)), "{suicide:?}");
    assert!(victims.iter().all(|pid| lives(*pid)), "the victim was hit");
    fs::write(lab.path("data/plugins/gate"), "").expect("write");
    assert_eq!(lab.ended(&victim).await.outcome, Outcome::Done);
}

/// Queues have names that all processes of a user share.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_neither_leaves_nor_removes_queues() {
    let Some(tool) = tool() else { return };
    if !sandbox::available() || !std::path::Path::new("/usr/bin/perl").exists() {
        capt_e2e::skip("the kernel has no Landlock, or there is no perl to make calls with");
        return;
    }
    let lab = shut_in(&tool).await;
    let name = format!("capt-test-{}", std::process::id());
    let (open, unlink) = (libc::SYS_mq_open, libc::SYS_mq_unlink);
    let call = |arguments: String| {
        format!("perl -e '$n = \"{name}\"; print syscall({arguments}) < 0 ? $!+0 : 0, \"\\n\"' >> notes; ")
    };
    let calls = [format!("{open}, $n, 0102, 0600, 0"), format!("{unlink}, $n")].map(call).concat();
    let attacked = lab.apply("a", lab.inputs(&module(&calls))).await;
    assert_eq!(attacked.outcome, Outcome::Done, "{attacked:?}");
    assert_eq!(notes(&lab, "a"), format!("{0}\n{0}\n", libc::EPERM));
}

/// Landlock does not know of watches, which tell the names in a folder that nobody may list.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_watches_no_folder() {
    let Some(tool) = tool() else { return };
    if !sandbox::available() || !std::path::Path::new("/usr/bin/perl").exists() {
        capt_e2e::skip("the kernel has no Landlock, or there is no perl to make calls with");
        return;
    }
    let lab = shut_in(&tool).await;
    let (begin, watch) = (libc::SYS_inotify_init1, libc::SYS_inotify_add_watch);
    let (begin_all, mark) = (libc::SYS_fanotify_init, libc::SYS_fanotify_mark);
    let workspaces = lab.path("data/workspaces");
    let script = format!(
        "sub said {{ print $_[0] < 0 ? $!+0 : 0, \"\\n\" }} $n = \"{}\"; $f = syscall({begin}, 0); said($f); \
         said(syscall({watch}, $f, $n, 0xfff)); said(syscall({begin_all}, 0, 0)); said(syscall({mark}, 0, 1, 0, 0, 0));",
        workspaces.display()
    );
    // Who follows a file looks at it now and then instead.
    let tail = "echo x > followed; timeout 1 tail -f followed 2>/dev/null | head -n 1 >> notes";
    let attacked = lab.apply("a", lab.inputs(&module(&format!("perl -e '{script}' >> notes; {tail}")))).await;
    assert_eq!(attacked.outcome, Outcome::Done, "{attacked:?}");
    assert_eq!(notes(&lab, "a"), format!("{0}\n{0}\n{0}\n{0}\nx\n", libc::EPERM));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_to_the_group_of_terraform_does_not_reach_the_guard() {
    let Some(tool) = tool() else { return };
    // On any kernel: nobody is shut in here.
    let lab = Lab::new(&tool).await;
    let seconds = seconds(5);
    let command = format!(
        "env -i setsid sleep {seconds} >/dev/null 2>&1 & until grep -q sleep /proc/$!/comm; do :; done; \
         kill -9 -$(awk '{{print $5}}' /proc/$PPID/stat)"
    );
    let killed = lab.apply("a", lab.inputs(&module(&command))).await;
    assert!(matches!(&killed.outcome, Outcome::Failed(_)), "{killed:?}");
    assert_eq!(with_argument(&seconds), [], "the guard was there to clear up");
}

/// Ways to leave a process behind, which sleeps for `$S`. None keeps the stream of its provisioner open: Terraform would wait
/// for that.
const LEFT: [(&str, &str); 4] = [
    ("setsid", "setsid sleep $S >/dev/null 2>&1 &"),
    ("twice", "(setsid sh -c \"sleep $S & exit 0\" >/dev/null 2>&1 &)"),
    ("bare", "env -i setsid sh -c \"cd /; exec sleep $S\" </dev/null >/dev/null 2>&1 &"),
    ("deaf", "setsid sh -c \"trap '' HUP INT TERM; sleep $S; sleep $S\" >/dev/null 2>&1 &"),
];

/// A number of seconds that no other process sleeps for.
fn seconds(test: u32) -> String {
    format!("{test}{:08}", std::process::id())
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_that_a_run_started_outlives_it() {
    let Some(tool) = tool() else { return };
    let lab = shut_in(&tool).await;
    for (at, (name, command)) in (1..).zip(LEFT) {
        let seconds = seconds(at);
        // It is there before the run ends, or nothing would be shown.
        let command = format!(
            "S={seconds}; {command}\nuntil cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' ' | grep -q \"sleep $S\"; do sleep 0.01; done",
        );
        let done = lab.apply(name, lab.inputs(&module(&command))).await;
        assert_eq!(done.outcome, Outcome::Done, "{name}: {done:?}");
        assert_eq!(with_argument(&seconds), [], "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_storm_of_forks_ends_with_its_run() {
    let Some(tool) = tool() else { return };
    let chains = if long() { 200 } else { 16 };
    let lab = shut_in(&tool).await;
    // Each link forks the next and ends: whoever is seen is gone already. A ceiling, for a guard that does not do its work.
    let link = r#"#!/bin/sh
[ -e "$2" ] && exit 0
[ "$1" -gt 1500 ] && exit 0
setsid "$0" $(($1 + 1)) "$2" storm-of-forks &
"#;
    let stop = lab.path("data/plugins/stop");
    let command = format!(
        "cat > link <<'END'\n{link}END\nchmod +x link; exec 9> held; flock 9; for i in $(seq {chains}); do ./link 0 {} storm-of-forks >/dev/null 2>&1 & done; sleep 0.3",
        stop.display()
    );
    let done = lab.apply("storm", lab.inputs(&module(&command))).await;
    assert_eq!(done.outcome, Outcome::Done, "{done:?}");
    // No link lives long enough to be listed; but each has the lock that the first one took.
    let held = fs::File::open(lab.folder_of("storm").join("guest/work/held")).expect("there");
    let free = held.try_lock().is_ok();
    fs::write(stop, "").expect("write");
    assert!(free, "something of {chains} chains is left");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_left_goes_where_another_engine_took_the_run_up() {
    let Some(tool) = tool() else { return };
    let lab = shut_in(&tool).await;
    let (gate, seconds) = (lab.path("data/plugins/gate"), seconds(6));
    let command = format!(
        "env -i setsid sleep {seconds} >/dev/null 2>&1 & echo $$ > notes; until [ -e {} ]; do sleep 0.05; done",
        gate.display()
    );
    let workspace = WorkspaceId::new("a");
    lab.engine
        .start_run(Order::new(workspace.clone(), Operation::Apply, Some(lab.inputs(&module(&command)))))
        .await
        .expect("taken");
    capt_e2e::until("it runs", PATIENCE, async || {
        (!with_argument(&seconds).is_empty() && !notes(&lab, "a").is_empty()).then_some(())
    })
    .await
    .expect("runs");
    let lab = lab.restart().await;
    fs::write(gate, "").expect("write");
    assert_eq!(lab.ended(&workspace).await.outcome, Outcome::Done);
    assert_eq!(with_argument(&seconds), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guard_that_is_killed_takes_terraform_with_it() {
    let Some(tool) = tool() else { return };
    let lab = Lab::new(&tool).await;
    let workspace = WorkspaceId::new("a");
    let seconds = seconds(7);
    let inputs = lab.inputs(&module(&format!("echo $PPID > notes; sleep {seconds}")));
    lab.engine.start_run(Order::new(workspace.clone(), Operation::Apply, Some(inputs))).await.expect("taken");
    let runs = async || (!with_argument(&seconds).is_empty()).then_some(());
    capt_e2e::until("it runs", PATIENCE, runs).await.expect("runs");
    let terraform = pids(&notes(&lab, "a"))[0];
    let guard = parent(terraform);
    // A polite one does not reach it: whoever stops all processes of a unit stops Terraform, which the guard waits for.
    kill_process(guard, Signal::TERM).expect("sent");
    kill_process(guard, Signal::INT).expect("sent");
    assert!(lives(guard) && lives(terraform));
    kill_process(guard, Signal::KILL).expect("sent");
    let ended = lab.ended(&workspace).await;
    assert_eq!(crate::lab::reason(&ended), "Killed", "{ended:?}");
    assert!(!has_memory(terraform), "{}", stat(terraform));
    assert_eq!(with_argument(&seconds), []);
}

fn parent(pid: Pid) -> Pid {
    let stat = stat(pid);
    let (_, rest) = stat.rsplit_once(") ").expect("a stat");
    Pid::from_raw(rest.split(' ').nth(1).expect("a parent").parse().expect("a number")).expect("a parent")
}

/// The environment of a run means nothing to its guard, which is not shut in.
#[tokio::test(flavor = "multi_thread")]
async fn the_environment_of_a_run_is_not_that_of_its_guard() {
    let Some(tool) = tool() else { return };
    let lab = Lab::new(&tool).await;
    let mut inputs = lab.inputs(&module("tr '\\0' '\\n' < /proc/$(awk '{print $4}' /proc/$PPID/stat)/environ > notes; echo own $MALLOC_CHECK_ >> notes"));
    inputs.env.insert("MALLOC_CHECK_".into(), EnvValue { value: "3".into(), sensitive: false });
    let done = lab.apply("a", inputs).await;
    assert_eq!(done.outcome, Outcome::Done, "{done:?}");
    let notes = notes(&lab, "a");
    assert!(notes.contains("own 3"), "{notes}");
    assert!(
        notes.lines().all(|line| !line.starts_with("MALLOC_CHECK_") && !line.starts_with("PATH=")),
        "{notes}"
    );
}
