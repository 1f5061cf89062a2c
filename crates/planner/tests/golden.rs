//! Whole rollouts, step by step, as files that people can read.
//!
//! Each `tests/golden/NAME.yaml` is a scenario in the format of `docs/rollouts.md`; `NAME.txt` is what the simulation
//! says. At every step the simulation checks the ceiling, the floor and that no set has a machine too many.
//! `CAPT_BLESS=1` writes the expected files anew: read the difference before you keep it.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use capt_api::machine::StrategyKind;
use capt_planner::simulate::{Deletion, Event, Happening, Pick, Report, Scenario, ScenarioError, run};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

fn simulate(path: &Path) -> Report {
    run(scenario(path)).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn scenario(path: &Path) -> Scenario {
    let name = path.display();
    let text = std::fs::read_to_string(path).unwrap();
    let documents = capt_yaml::documents(&text)
        .map(|document| document.unwrap_or_else(|error| panic!("{name}: {error}")).root.to_json())
        .collect();
    Scenario::from_documents(documents).unwrap_or_else(|error| panic!("{name}: {error}"))
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

/// What somebody may delete.
fn deletions() -> Vec<Happening> {
    let of = |revision, count| Pick { revision, count, ..Pick::default() };
    vec![
        Happening::DeleteDeployment(Deletion::Background),
        Happening::DeleteDeployment(Deletion::Foreground),
        Happening::DeleteDeployment(Deletion::Orphan),
        Happening::DeleteSet(of(Some(1), None)),
        Happening::DeleteSet(of(Some(2), None)),
        Happening::DeleteSet(of(None, None)),
        Happening::DeleteMachines(of(Some(1), Some(1))),
        Happening::DeleteMachines(of(Some(2), Some(1))),
        Happening::DeleteMachines(of(None, None)),
    ]
}

/// Every rollout that ends well, once more for each moment at which something happens in it, that moment and the second
/// after it, and for each level that somebody may delete then: the promises hold, and the end is what was asked for.
#[test]
fn any_level_may_be_deleted_at_any_step() {
    let mut tried = 0;
    for path in scenarios() {
        let base = simulate(&path);
        // A machine that was released lives on, whatever is deleted; one that never becomes ready, or is not any more, may be
        // all that is left.
        let released = path.file_stem().is_some_and(|name| name == "release-machine");
        let sick =
            scenario(&path).simulation.events.iter().any(|event| matches!(event.what, Happening::Unready(_)));
        if !base.end.ready || released || sick || !scenario(&path).simulation.rules.is_empty() {
            continue;
        }
        let on_delete = scenario(&path).deployment.spec.strategy.kind == StrategyKind::OnDelete;
        let moments: BTreeSet<i64> = base.steps.iter().flat_map(|step| [step.at, step.at + 1]).collect();
        for (at, what) in moments.iter().flat_map(|at| deletions().into_iter().map(|what| (*at, what))) {
            let mut scenario = scenario(&path);
            scenario.simulation.until += 3600;
            scenario.simulation.events.push(Event { at: u32::try_from(at).unwrap(), what: what.clone() });
            let report = match run(scenario) {
                Ok(report) => report,
                // There is no such set or machine then; or what the scenario does later, it finds no more.
                Err(ScenarioError::NoMatch { .. } | ScenarioError::Undo { .. }) => continue,
                Err(error) => panic!("{}: {error}", path.display()),
            };
            tried += 1;
            let place = format!("{} at {at}: {what:?}", path.display());
            // A decision cannot know what somebody deletes at the same moment: the floor is less by that.
            let by_hand = !matches!(what, Happening::DeleteDeployment(_));
            let broken = report.violations.iter().find(|text| !by_hand || !text.contains("must be"));
            assert!(broken.is_none(), "{place}: {broken:?}\n{report}");
            match what {
                Happening::DeleteDeployment(Deletion::Orphan) => {
                    assert!(!report.end.exists, "{place}: {report}");
                }
                Happening::DeleteDeployment(_) => {
                    let counts = report.end.counts;
                    assert!(!report.end.exists && counts.live + counts.terminating == 0, "{place}: {report}");
                }
                // OnDelete waits for people: old machines that nobody deletes stay.
                _ if on_delete => {
                    let counts = report.end.counts;
                    assert!(
                        counts.live == counts.ceiling && counts.available == counts.live,
                        "{place}: {report}"
                    );
                }
                _ => assert!(report.end.ready, "{place}: {report}"),
            }
        }
    }
    println!("{tried} deletions");
    assert!(tried > 1000, "only {tried}");
}
