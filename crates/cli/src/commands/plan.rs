//! `capt plan`: the plan that waits for a person, or the drift that was found, as Terraform shows them.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use capt_api::conditions::{reasons, types};
use capt_api::workspace::{Approval, DriftPolicy, PlanSummary, WorkspaceTemplateApply};
use capt_planner::conditions::find;
use capt_terraform::executor::{PlanFormat, PlanSelector, Run, RunState, ShownPlan};
use capt_terraform::order::PlanId;
use capt_terraform::stream::{Action, Change};
use kube::ResourceExt;

use super::client::{Connection, Target};
use super::logs::{ended, id_of, reader, the_workspace, unreadable};
use super::object::Accepts;
use super::workspace::waiting_plan;
use super::{Outcome, block_on, completion, last_failed};

/// Time limit for Terraform to show a plan; with the largest plugins it takes seconds.
const LONGEST: Duration = Duration::from_secs(120);

/// Show the plan awaiting approval. Sensitive values are hidden.
///
/// Plans wait for approval if `approval: Manual` is set, or if they would destroy more than `maxDestroy`. Exits with 1 if no
/// plan waits. With --drift: the drift that the last check found, and what an apply would do about it; exits with 1 if there
/// is none.
///
/// Examples:
///   capt plan network
///   capt plan network --drift
///   capt plan captcontrolplane/demo && capt approve captcontrolplane/demo
///   capt plan captmachinedeployment/web --last-failed
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    #[arg(required = true, num_args = 1..=2, value_name = "OBJECT", help = Accepts::WORKSPACES.help, add = completion::objects(&Accepts::WORKSPACES))]
    object: Vec<String>,
    /// Show the plan of the last run that failed, also that of a machine which was replaced since.
    #[arg(long)]
    last_failed: bool,
    /// Show the drift that was found, and no plan.
    #[arg(long)]
    drift: bool,
    #[command(flatten)]
    target: Target,
}

pub fn run(args: &Args) -> io::Result<Outcome> {
    block_on(async {
        let object = Accepts::WORKSPACES.read_one(&args.object)?;
        let connection = args.target.connect().await?;
        if args.last_failed {
            let found = last_failed::find(&connection, &object).await?;
            return failed(&found.name, &found.run);
        }
        let workspace = the_workspace(&connection, &object).await?;
        let name = workspace.name_any();
        let status = workspace.status.clone().unwrap_or_default();
        if args.drift {
            return drift(&connection, &workspace).await;
        }
        let Some((summary, id)) = waiting_plan(&status) else {
            return none(&workspace);
        };
        let shown = read(&connection, &workspace, &PlanSelector::Waiting(PlanId::from(id.as_str()))).await?;
        let mut out = anstream::stdout().lock();
        match shown {
            Some(shown) => show(&mut out, shown)?,
            None => writeln!(
                out,
                "the plan itself is where the controller runs: name its folder with --data-dir, or run capt plan there"
            )?,
        }
        let PlanSummary { add, change, destroy, .. } = summary;
        writeln!(out, "\nplan {id} of {name}: {add} to add, {change} to change, {destroy} to destroy")?;
        let held = find(&status.conditions, types::READY);
        if let Some(why) = held.filter(|ready| ready.reason == reasons::PLAN_TOO_DESTRUCTIVE) {
            writeln!(out, "{}", why.message)?;
        }
        writeln!(out, "apply it: capt approve {name} --plan {id}")?;
        Ok(Outcome::Good)
    })
}

/// The plan of a run that failed.
fn failed(name: &str, run: &Run) -> io::Result<Outcome> {
    let mut out = anstream::stdout().lock();
    writeln!(out, "{name}, {}:", ended(run))?;
    let plan = match &run.state {
        RunState::Ended(end) => end.plan.as_ref(),
        RunState::UnderWay { .. } | RunState::Unknown => None,
    };
    let Some(plan) = plan else {
        writeln!(out, "it failed before it had a plan")?;
        return Ok(Outcome::Bad);
    };
    changes(&mut out, &plan.changes)?;
    writeln!(out, "{} to add, {} to change, {} to destroy", plan.add, plan.change, plan.destroy)?;
    Ok(Outcome::Good)
}

/// Reads a plan; nothing where it is on another machine.
async fn read(
    connection: &Connection,
    workspace: &WorkspaceTemplateApply,
    plan: &PlanSelector,
) -> io::Result<Option<ShownPlan>> {
    let Some(reader) = reader(connection) else { return Ok(None) };
    let colours = io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let format = PlanFormat { colours, limit: LONGEST };
    reader.read_plan(&id_of(workspace), plan, &format).await.map_err(|error| unreadable(&error))
}

/// Prints what the binary shows; without it, what was written down of its changes.
fn show(out: &mut impl Write, plan: ShownPlan) -> io::Result<()> {
    match plan.text {
        Ok(text) => write!(out, "{text}"),
        Err(error) => {
            changes(out, &plan.changes)?;
            writeln!(out, "\n(no more than that can be shown: {})", super::client::in_words(error))
        }
    }
}

/// Shows the drift that was found.
async fn drift(connection: &Connection, workspace: &WorkspaceTemplateApply) -> io::Result<Outcome> {
    let name = workspace.name_any();
    let status = workspace.status.clone().unwrap_or_default();
    let found = find(&status.conditions, types::DRIFTED);
    let shown = read(connection, workspace, &PlanSelector::Drift).await?;
    let mut out = anstream::stdout().lock();
    let Some(found) = found.filter(|found| found.status == "True") else {
        let why = match (found, &workspace.spec.drift_detection) {
            (Some(found), _) => found.message.clone(),
            (None, Some(detection)) if detection.policy != DriftPolicy::Off => {
                format!("the first look comes {} after the last run", detection.interval)
            }
            (None, _) => "drift detection is off: set spec.driftDetection".to_owned(),
        };
        writeln!(out, "no drift of {name} is known: {why}")?;
        return Ok(Outcome::Bad);
    };
    match shown {
        Some(shown) => show(&mut out, shown)?,
        None => writeln!(
            out,
            "the difference itself is where the controller runs: name its folder with --data-dir, or run capt plan there"
        )?,
    }
    writeln!(out, "\n{name} has drifted: {}", found.message)?;
    writeln!(out, "put it back: capt retry {name}; always: spec.driftDetection.policy: Correct")?;
    Ok(Outcome::Good)
}

/// Prints the changes of a plan, object by object.
fn changes(out: &mut impl Write, changes: &[Change]) -> io::Result<()> {
    for change in changes {
        let sign = match change.action {
            Action::Create | Action::Import => "  +",
            Action::Update => "  ~",
            Action::Delete => "  -",
            Action::Replace => "-/+",
            Action::Forget => "  .",
            Action::Move => " ->",
            Action::NoOp | Action::Read | Action::Ephemeral | Action::Unknown => continue,
        };
        writeln!(out, "{sign} {}", change.address)?;
    }
    Ok(())
}

/// Says that no plan waits, and why.
fn none(workspace: &WorkspaceTemplateApply) -> io::Result<Outcome> {
    let name = workspace.name_any();
    let status = workspace.status.clone().unwrap_or_default();
    let ready = find(&status.conditions, types::READY);
    let why = match ready {
        Some(ready) if ready.status == "True" => "its inputs are applied".to_owned(),
        Some(ready) => format!("{}: {}", ready.reason, ready.message),
        None => "the controller has not seen it yet".to_owned(),
    };
    let mut out = anstream::stdout().lock();
    writeln!(out, "no plan of {name} waits: {why}")?;
    if let Some(PlanSummary { add, change, destroy, .. }) = status.plan {
        writeln!(out, "the last one: {add} to add, {change} to change, {destroy} to destroy")?;
    }
    if find(&status.conditions, types::DRIFTED).is_some_and(|found| found.status == "True") {
        writeln!(out, "what exists differs from what was applied: capt plan {name} --drift")?;
    }
    if workspace.spec.approval == Approval::Auto {
        writeln!(out, "plans are applied at once (approval: Auto); with approval: Manual they wait")?;
    }
    Ok(Outcome::Bad)
}
