use std::process::ExitStatus;

use super::*;
use crate::wait::until;

const SOON: std::time::Duration = std::time::Duration::from_secs(120);

/// Whether a process exists, be it only as a zombie.
pub fn exists(pid: u32) -> bool {
    sh(&format!("kill -0 {pid} 2>/dev/null")).success()
}

fn sh(script: &str) -> ExitStatus {
    Command::new("sh").args(["-c", script]).status().unwrap()
}

/// A process that would run for an hour.
fn sleeper() -> Process {
    Folder::new("sleeper").unwrap().run(Path::new("sleep"), ["3600"]).unwrap()
}

#[test]
fn dropping_stops_the_process_and_removes_the_folder() {
    let process = sleeper();
    let (pid, path) = (process.pid(), process.folder().path().to_owned());
    assert!(exists(pid) && path.is_dir());
    assert_eq!(process.exit_status(), None);
    drop(process);
    assert!(!exists(pid) && !path.exists());
}

#[test]
fn a_folder_in_which_nothing_ran_is_removed() {
    let folder = Folder::new("idle").unwrap();
    let file = folder.write("file", "contents").unwrap();
    assert_eq!(fs::read_to_string(&file).unwrap(), "contents");
    drop(folder);
    assert!(!file.parent().unwrap().exists());
}

#[tokio::test]
async fn arguments_arrive_and_an_early_end_is_seen() {
    let folder = Folder::new("early-end").unwrap();
    let script = r#"printf '<%s>\n' "$@" >&2; exit 3"#;
    let arguments = ["-c", script, "sh", " a  b ", r"\n'$HOME\"];
    let process = folder.run(Path::new("sh"), arguments).unwrap();
    let status = until("the process ends", SOON, async || process.exit_status()).await.unwrap();
    assert_eq!(status, 3);
    assert_eq!(process.log_tail(1), "last lines of the log of early-end:\n    <\\n'$HOME\\>\n");
    assert!(process.log_tail(2).contains("< a  b >"));
}

#[tokio::test]
async fn a_program_that_does_not_exist_ends_with_127() {
    let process = Folder::new("absent").unwrap().run(Path::new("/no/such/program"), ["x"]).unwrap();
    let status = until("the process ends", SOON, async || process.exit_status()).await.unwrap();
    assert_eq!(status, 127);
    assert!(process.log_tail(5).contains("/no/such/program"));
}

#[test]
fn an_argument_the_guard_cannot_read_is_refused() {
    for argument in ["", "two\nlines"] {
        let error = Folder::new("refused").unwrap().run(Path::new("echo"), [argument]).unwrap_err();
        assert!(matches!(error, ProcessError::Argument { .. }), "{error}");
    }
}

#[tokio::test]
async fn dropping_cleans_up_after_a_killed_guard() {
    let process = sleeper();
    let (pid, path) = (process.pid(), process.folder().path().to_owned());
    assert!(sh(&format!("kill -9 {}", process.folder.guard.id())).success());
    drop(process);
    assert!(!path.exists());
    // Its parent is init now, which takes a moment to reap it.
    until("the process is gone", SOON, async || (!exists(pid)).then_some(())).await.unwrap();
}
