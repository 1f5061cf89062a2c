//! Attacks on the engine: modules that want more than their run, and data folders that somebody damaged.

#[path = "../engine/lab.rs"]
#[expect(dead_code, reason = "the engine's own tests use the rest")]
mod lab;

mod arguments;
mod damaged;
mod fence;
mod held_up;
mod links;
mod origins;
mod plugins;
mod processes;
mod said;
mod secret_values;
mod takeover;
mod trees;

/// Whether this process runs that test alone. Where it does not, it has run it in a process of its own, which is `limited` first.
fn alone(test: &str, limited: &str) -> bool {
    const ALONE: &str = "CAPT_TEST_ALONE";
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    let ended = std::process::Command::new("sh")
        .args(["-c", &format!("{limited} && exec \"$0\" \"$@\"")])
        .arg(std::env::current_exe().expect("this program"))
        .args(["--exact", test, "--nocapture"])
        .env(ALONE, "1")
        .status();
    assert!(ended.expect("started").success(), "{test}, alone");
    false
}

/// The most memory that this process had, in bytes.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("/proc");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a peak");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") << 10
}
