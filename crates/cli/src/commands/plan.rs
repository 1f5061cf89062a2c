//! `capt plan`: the plan that waits for a person, as Terraform shows it.

use std::io::{self, IsTerminal, Write};

use capt_api::conditions::{reasons, types};
use capt_api::workspace::{Approval, PlanSummary, WorkspaceTemplateApply};
use capt_planner::conditions::find;
use capt_terraform::stream::Action;
use capt_terraform::view::Plan;
use kube::ResourceExt;

use super::client::Target;
use super::logs::{the_workspace, visit};
use super::workspace::waiting_plan;
use super::{Outcome, block_on, completion};

/// Show the plan that a workspace waits with. Sensitive values are hidden.
///
/// Plans wait where `approval: Manual` is set, or where they would destroy more than `maxDestroy`. Ends with 1 where none
/// waits.
///
/// Examples:
///   capt plan network
///   capt plan captcontrolplane/demo && capt approve captcontrolplane/demo
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// A workspace, or KIND/NAME of what it belongs to.
    #[arg(required = true, num_args = 1..=2, value_name = "OBJECT", add = completion::objects())]
    object: Vec<String>,
    #[command(flatten)]
    target: Target,
}

pub fn run(args: &Args) -> io::Result<Outcome> {
    block_on(async {
        let connection = args.target.connect().await?;
        let workspace = the_workspace(&connection, &args.object).await?;
        let name = workspace.name_any();
        let status = workspace.status.clone().unwrap_or_default();
        let Some((summary, id)) = waiting_plan(&status) else {
            return none(&workspace);
        };
        let mut out = anstream::stdout().lock();
        match visit(&connection, &workspace)? {
            Some((_, visited)) if visited.plan().is_some_and(|plan| plan.id.as_str() == id) => {
                let colours = io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
                match visited.show_plan(colours) {
                    Ok(text) => write!(out, "{text}")?,
                    // Without the binary there is still what the engine wrote down.
                    Err(error) => {
                        visited.plan().map_or(Ok(()), |plan| changes(&mut out, plan))?;
                        writeln!(
                            out,
                            "\n(no more than that can be shown: {})",
                            super::client::in_words(error)
                        )?;
                    }
                }
            }
            _ => writeln!(
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

/// What a plan does, object by object.
fn changes(out: &mut impl Write, plan: &Plan) -> io::Result<()> {
    for change in &plan.changes {
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
    if workspace.spec.approval == Approval::Auto {
        writeln!(out, "plans are applied at once (approval: Auto); with approval: Manual they wait")?;
    }
    Ok(Outcome::Bad)
}
