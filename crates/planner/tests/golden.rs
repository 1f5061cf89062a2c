//! Whole rollouts, step by step, as files that people can read.
//!
//! Each `tests/golden/NAME.yaml` is a scenario in the format of `docs/rollouts.md`; `NAME.txt` is what the simulation
//! says. At every step the simulation checks the ceiling, the floor and that no set has a machine too many.
//! `CAPT_BLESS=1` writes the expected files anew: read the difference before you keep it.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};

use capt_planner::simulate::{Report, Scenario, run};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

fn simulate(path: &Path) -> Report {
    let name = path.display();
    let text = std::fs::read_to_string(path).unwrap();
    let documents = capt_yaml::documents(&text)
        .into_iter()
        .map(|document| document.unwrap_or_else(|error| panic!("{name}: {error}")).root.to_json())
        .collect();
    let scenario = Scenario::from_documents(documents).unwrap_or_else(|error| panic!("{name}: {error}"));
    run(scenario).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn scenarios() -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = std::fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "yaml"))
        .collect();
    all.sort();
    all
}

#[test]
fn every_rollout_goes_as_written_down() {
    let bless = std::env::var_os("CAPT_BLESS").is_some();
    let all = scenarios();
    assert!(all.len() >= 40, "only {} scenarios", all.len());
    let mut wrong = Vec::new();
    for path in all {
        let report = simulate(&path);
        assert!(report.violations.is_empty(), "{}: {:#?}", path.display(), report.violations);
        let text = report.to_string();
        let expected = path.with_extension("txt");
        if bless {
            std::fs::write(&expected, text).unwrap();
        } else if std::fs::read_to_string(&expected).unwrap_or_default() != text {
            wrong.push(format!("{}:\n{text}", path.display()));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} differ (CAPT_BLESS=1 writes them anew):\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

/// Scenarios named `*-stuck` cannot end well, `*-deleted` end without a deployment, `*-paused` rest; all others are done.
#[test]
fn every_rollout_ends_as_its_name_says() {
    for path in scenarios() {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let end = simulate(&path).end;
        if name.ends_with("-deleted") {
            assert!(!end.exists && end.counts.live + end.counts.terminating == 0, "{name}: {end:?}");
        } else if name.ends_with("-orphaned") {
            assert!(!end.exists && end.counts.live > 0, "{name}: {end:?}");
        } else {
            let rests = name.ends_with("-stuck") || name.ends_with("-paused");
            assert_eq!(end.ready, !rests, "{name}: {end:?}");
        }
    }
}

#[test]
fn a_simulation_is_the_same_every_time() {
    for path in scenarios() {
        assert_eq!(simulate(&path), simulate(&path), "{}", path.display());
    }
}
