//! `capt rollout simulate`: a rollout on an imagined clock.
//!
//! ```text
//! files, an old and a new version, or a deployment that lives -> check -> simulate -> summary and moments
//! ```

use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

use capt_api::machine::{CaptMachine, CaptMachineSet};
use capt_planner::simulate::{Event, Happening, Report, Scenario, Start, run_judged};
use capt_yaml::documents;
use jiff::Timestamp;
use kube::api::ListParams;
use serde_json::{Value, json};

use super::super::client::{Target, in_words};
use super::super::live::size;
use super::super::object::{Accepts, Reference};
use super::super::validate::print_findings;
use super::super::wrap::hanging;
use super::super::{Outcome, block_on, completion, duration};
use super::live;
use crate::manifest::{Origin, Read};
use crate::validate::{ChangeCheck, check_kinds, check_timelines, items};

/// Kinds that live on an API.
const KINDS: [&str; 3] = [DEPLOYMENT, "CaptMachineSet", "CaptMachine"];
const DEPLOYMENT: &str = "CaptMachineDeployment";

/// Column behind the time in a list of steps.
const AFTER_TIME: usize = 9;

/// Time limit of a simulated rollout without one.
const WEEK: u32 = 7 * 24 * 3600;

/// Run a rollout on an imagined clock, with the decisions that the controllers would take.
///
/// Takes a deployment that lives, with its sets and machines and the clock of now; or an old and a new version of one; or
/// files with a CaptMachineDeployment, the CaptMachineSets and CaptMachines that exist, and a RolloutSimulation that says how
/// machines behave and what happens when. Says first when it is finished, how many machines are created and deleted, the most
/// that exist and the fewest that are available; then one row for each moment. Nothing is changed.
///
/// Examples:
///   capt rollout simulate cmd/web --set template.spec.instanceType=t3.large --ready-after 4m
///   capt rollout simulate cmd/web --set replicas=20 -o json
///   git show HEAD:web.yaml | capt rollout simulate --from - --to web.yaml
///   capt rollout simulate -f examples/rollouts/rolling-update.yaml
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
#[command(group = clap::ArgGroup::new("what").required(true).multiple(true).args(["object", "files", "from"]))]
#[command(
    after_help = "Exit codes: 0 it was simulated; 1 the input makes no sense, or a promise was broken, which is a bug; 2 wrong usage."
)]
pub struct Simulate {
    #[arg(num_args = 0..=2, conflicts_with = "from", value_name = "OBJECT", help = Accepts::DEPLOYMENT.help, add = completion::objects(&Accepts::DEPLOYMENT))]
    object: Vec<String>,
    /// Files, or folders with *.yaml, *.yml and *.json files; - is standard input. Beside a deployment that lives: its timeline.
    #[arg(short, long = "filename", value_name = "FILE|DIR", num_args = 1..)]
    files: Vec<PathBuf>,
    /// The deployment as it is, rolled out; with sets and machines, as they are.
    #[arg(long, value_name = "FILE", requires = "to")]
    from: Option<PathBuf>,
    /// The deployment as it is to be.
    #[arg(long, value_name = "FILE", requires = "from")]
    to: Option<PathBuf>,
    /// Change a field of the deployment's spec at the beginning: template.spec.instanceType=t3.large. May be repeated.
    #[arg(long, value_name = "FIELD=VALUE", value_parser = patch)]
    set: Vec<Value>,
    /// Time until a machine is ready: 4m, 90s [default: 60s].
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    ready_after: Option<Duration>,
    /// Time until a machine is destroyed [default: 30s].
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    gone_after: Option<Duration>,
    /// Time limit of the simulation [default: 1h with -f alone, else a week].
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    until: Option<Duration>,
    /// Format of the report.
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
    #[command(flatten)]
    target: Target,
}

#[derive(Clone, Copy, Debug, Default, clap::ValueEnum)]
enum Format {
    /// A summary and one row for each moment, for people.
    #[default]
    Text,
    /// One line for each step, with its reason.
    Steps,
    /// One JSON document, for programs.
    Json,
}

pub fn run(args: &Simulate) -> io::Result<Outcome> {
    let named = !args.object.is_empty();
    let object = named.then(|| Accepts::DEPLOYMENT.read_one(&args.object)).transpose()?;
    let path = |path: &PathBuf| Origin::from_argument(path, false).read();
    let sources: Vec<Read> = args.files.iter().chain(&args.from).flat_map(path).collect();
    let later: Vec<Read> = args.to.iter().flat_map(path).collect();
    let findings = [check_kinds(&sources, &KINDS), check_kinds(&later, &KINDS), check_timelines(&sources)];
    if let Some(wrong) = findings.iter().find(|report| !report.is_good()) {
        print_findings(&mut anstream::stderr().lock(), wrong)?;
        anstream::eprintln!("capt: validation failed: nothing was simulated");
        return Ok(Outcome::Bad);
    }
    let given = read(&sources);
    let timed = given.iter().any(|object| object["kind"] == "RolloutSimulation");
    let mut scenario = match &object {
        Some(object) => live(object, args, given)?,
        None => Scenario::from_documents(given).map_err(io::Error::other)?,
    };
    prepare(args, &mut scenario, read(&later), timed)?;
    let check = ChangeCheck::new();
    let judge = |old: &Value, new: &Value| {
        let problems = check.problems(DEPLOYMENT, old, new);
        if problems.is_empty() { Ok(()) } else { Err(problems.join("\n  ")) }
    };
    let report = run_judged(scenario, &judge).map_err(io::Error::other)?;
    print(&report, args.output)?;
    Ok(if report.violations.is_empty() { Outcome::Good } else { Outcome::Bad })
}

/// The objects of files that are in order.
fn read(sources: &[Read]) -> Vec<Value> {
    let mut objects = Vec::new();
    for source in sources.iter().flatten() {
        for document in documents(&source.text).flatten() {
            items(&document.root, &mut |item| objects.push(item.to_json()));
        }
    }
    objects
}

/// A deployment as it lives, with what is its own, now; and a timeline from files.
fn live(reference: &Reference, args: &Simulate, given: Vec<Value>) -> io::Result<Scenario> {
    block_on(async {
        let connection = args.target.connect().await?;
        let deployment = live::deployment(&connection, reference).await?.object;
        let all = ListParams::default();
        let sets = connection.api::<CaptMachineSet>().list(&all).await.map_err(in_words)?.items;
        let machines = connection.api::<CaptMachine>().list(&all).await.map_err(in_words)?.items;
        let mut documents = vec![serde_json::to_value(&deployment)?];
        documents.extend(given);
        let scenario = Scenario::from_documents(documents).map_err(io::Error::other)?;
        Ok(Scenario { sets, machines, clock: Some(Timestamp::now()), ..scenario })
    })
}

/// Adds what the command line says.
fn prepare(args: &Simulate, scenario: &mut Scenario, later: Vec<Value>, timed: bool) -> io::Result<()> {
    let simulation = &mut scenario.simulation;
    let changed = args.to.is_some() || !args.set.is_empty();
    if !timed && (!args.object.is_empty() || changed) {
        simulation.until = WEEK;
        // A deployment alone has long been rolled out: how it came to be is not the question.
        let alone = scenario.sets.is_empty() && scenario.machines.is_empty() && args.object.is_empty();
        simulation.start = if alone { Start::Steady } else { Start::AsGiven };
    }
    let mut first: Vec<Event> = Vec::new();
    if args.to.is_some() {
        let new = Scenario::from_documents(later.clone()).map_err(io::Error::other)?;
        let (old, new) = (&scenario.deployment.metadata, &new.deployment.metadata);
        if (&old.name, &old.namespace) != (&new.name, &new.namespace) {
            let (old, new) =
                (old.name.as_deref().unwrap_or_default(), new.name.as_deref().unwrap_or_default());
            let words = format!("--from is of {old} and --to of {new}");
            return Err(io::Error::other(format!(
                "{words}: a rollout is between two versions of one deployment"
            )));
        }
        let new = later.into_iter().find(|object| object["kind"] == DEPLOYMENT).unwrap_or_default();
        first.push(Event { at: 0, what: Happening::Replace(new) });
    }
    first.extend(args.set.iter().map(|patch| Event { at: 0, what: Happening::Patch(patch.clone()) }));
    simulation.events.splice(0..0, first);
    let machines = &mut simulation.machines;
    machines.ready_after = seconds(args.ready_after)?.or(machines.ready_after);
    machines.gone_after = seconds(args.gone_after)?.or(machines.gone_after);
    simulation.until = seconds(args.until)?.unwrap_or(simulation.until);
    Ok(())
}

fn seconds(time: Option<Duration>) -> io::Result<Option<u32>> {
    let long = |_| io::Error::other("no rollout takes a century");
    time.map(|time| u32::try_from(time.as_secs())).transpose().map_err(long)
}

/// Reads `template.spec.instanceType=t3.large` as a merge patch; a value is what it would be in YAML.
fn patch(text: &str) -> Result<Value, String> {
    let wrong = || format!("{text:?} is not FIELD=VALUE, such as template.spec.instanceType=t3.large");
    let (path, value) = text.split_once('=').ok_or_else(wrong)?;
    let path = path.strip_prefix("spec.").unwrap_or(path);
    if path.split('.').any(str::is_empty) {
        return Err(wrong());
    }
    let value = if value.is_empty() {
        json!("")
    } else {
        capt_yaml::single(value).map_err(|error| error.to_string())?
    };
    let nested = path.rsplit('.').fold(value, |inner, name| json!({ name: inner }));
    Ok(json!({ "spec": nested }))
}

fn print(report: &Report, format: Format) -> io::Result<()> {
    let width = size().map(|(width, _)| width);
    let mut out = anstream::stdout().lock();
    let tell = |line: String| writeln!(out, "{line}");
    match format {
        Format::Text => {
            let lines = report.by_moment().lines();
            lines.iter().flat_map(|(line, indent)| hanging(line, width, *indent)).try_for_each(tell)
        }
        Format::Steps => {
            let lines = report.to_string();
            lines.lines().flat_map(|line| hanging(line, width, AFTER_TIME)).try_for_each(tell)
        }
        Format::Json => {
            serde_json::to_writer_pretty(&mut out, report)?;
            writeln!(out)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_set_as_in_yaml() {
        let rows = [
            ("replicas=5", json!({"spec": {"replicas": 5}})),
            ("spec.paused=true", json!({"spec": {"paused": true}})),
            (
                "template.spec.instanceType=t3.large",
                json!({"spec": {"template": {"spec": {"instanceType": "t3.large"}}}}),
            ),
            (
                "strategy.rollingUpdate.maxSurge=25%",
                json!({"spec": {"strategy": {"rollingUpdate": {"maxSurge": "25%"}}}}),
            ),
            ("template.spec.tags={a: b=c}", json!({"spec": {"template": {"spec": {"tags": {"a": "b=c"}}}}})),
            ("rolloutAfter=null", json!({"spec": {"rolloutAfter": null}})),
        ];
        for (text, expected) in rows {
            assert_eq!(patch(text), Ok(expected), "{text}");
        }
        for text in ["replicas", "=5", "a..b=1", "a=[", "spec.=1"] {
            assert!(patch(text).is_err(), "{text}");
        }
    }
}
