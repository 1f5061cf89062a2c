//! What people ask of workspaces: approve a plan, try again, stop, take over a state. Asked of a machine, a control plane or
//! a cluster, it reaches the workspaces below.

use std::io;
use std::path::PathBuf;

use capt_api::conditions::types;
use capt_api::names::annotations;
use capt_api::workspace::{PlanSummary, WorkspaceTemplateApply, WorkspaceTemplateApplyStatus};
use capt_controllers::workspace::keeper;
use capt_planner::conditions::find;
use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::client::{Connection, Found, Target, Which, in_words};
use super::completion;
use super::family::family;
use super::object::{Kind, Reference, references};
use super::{Outcome, block_on};

/// Approve the plan that a workspace waits with.
///
/// The approval is for exactly the plan that is shown: when inputs or state change, it is void. Of a machine, control
/// plane or cluster: every plan below it that waits.
///
/// Examples:
///   capt plan network && capt approve network
///   capt approve network --plan 4f2a91c0d3e5b678
///   capt approve cluster/demo
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Approve {
    #[command(flatten)]
    objects: Objects,
    /// Approve only if this is the plan that waits.
    #[arg(long, value_name = "ID")]
    plan: Option<String>,
}

/// Run again now what failed, stalled or was cancelled.
///
/// A workspace runs again in any case; of a machine, control plane or cluster, the workspaces below it that are not
/// ready do.
///
/// Examples:
///   capt retry network
///   capt retry captmachine/web-x7k2p-0
///   capt retry cluster/demo
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Retry {
    #[command(flatten)]
    objects: Objects,
}

/// Interrupt the run of a workspace: gracefully, so that nothing is forgotten.
///
/// Of a machine, control plane or cluster: every run below it.
///
/// Examples:
///   capt cancel network
///   capt cancel cluster/demo
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Cancel {
    #[command(flatten)]
    objects: Objects,
}

/// Let a workspace take over an existing Terraform state, before its first run.
///
/// Refused where the workspace has resources already. The state travels in Secrets, which are removed afterwards.
///
/// Examples:
///   terraform state pull >old.tfstate && capt import-state network -f old.tfstate
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct ImportState {
    #[command(flatten)]
    which: Which,
    /// The state file: a terraform.tfstate, or what `terraform state pull` prints.
    #[arg(long, short = 'f', value_name = "FILE")]
    state: PathBuf,
}

/// Workspaces, by name or by what they belong to.
#[derive(Debug, clap::Args)]
struct Objects {
    /// A workspace, or KIND/NAME of a machine, node group, control plane or cluster.
    #[arg(required = true, value_name = "OBJECT", add = completion::objects())]
    objects: Vec<String>,
    #[command(flatten)]
    target: Target,
}

/// A workspace that something is asked of.
struct Asked {
    workspace: WorkspaceTemplateApply,
    /// Named itself, not found below something else.
    named: bool,
}

impl Asked {
    fn name(&self) -> String {
        self.workspace.name_any()
    }

    fn status(&self) -> WorkspaceTemplateApplyStatus {
        self.workspace.status.clone().unwrap_or_default()
    }
}

impl Objects {
    /// For each object that was named, the workspaces that are meant.
    async fn find(&self) -> io::Result<(Connection, Vec<(Reference, Vec<Asked>)>)> {
        let references = references(&self.objects, Some(Kind::named("WorkspaceTemplateApply")))?;
        let connection = self.target.connect().await?;
        let mut all = Vec::new();
        for reference in references {
            let members = family(&connection, &reference).await?;
            let named = members.first().is_some_and(|head| head.workspace().is_some());
            let workspaces = members.iter().filter_map(super::family::Member::workspace);
            let asked = workspaces.map(|workspace| Asked { workspace, named }).collect();
            all.push((reference, asked));
        }
        Ok((connection, all))
    }
}

async fn annotate(connection: &Connection, name: &str, key: &str, value: &str) -> io::Result<()> {
    let body = json!({"metadata": {"annotations": {key: value}}});
    let api = connection.api::<WorkspaceTemplateApply>();
    api.patch_metadata(name, &PatchParams::default(), &Patch::Merge(&body)).await.map_err(in_words)?;
    Ok(())
}

/// The plan that waits for a person.
pub fn waiting_plan(status: &WorkspaceTemplateApplyStatus) -> Option<(PlanSummary, String)> {
    let waits = find(&status.conditions, types::PLANNED).is_some_and(|planned| planned.status == "True");
    let plan = status.plan.clone().filter(|_| waits)?;
    let id = plan.id.clone()?;
    Some((plan, id))
}

pub fn approve(args: &Approve) -> io::Result<Outcome> {
    block_on(async {
        let (connection, all) = args.objects.find().await?;
        for (reference, asked) in all {
            let waiting: Vec<_> = asked
                .iter()
                .filter_map(|asked| Some((asked.name(), waiting_plan(&asked.status())?)))
                .collect();
            if waiting.is_empty() {
                return Err(io::Error::other(format!(
                    "{} has no plan that waits for approval",
                    reference.name
                )));
            }
            for (name, (plan, id)) in waiting {
                if let Some(wanted) = args.plan.as_ref().filter(|wanted| **wanted != id) {
                    return Err(io::Error::other(format!(
                        "{name} waits with plan {id}, not {wanted}\n  look at it again: capt plan {name}"
                    )));
                }
                annotate(&connection, &name, annotations::APPROVE, &id).await?;
                let PlanSummary { add, change, destroy, .. } = plan;
                anstream::println!(
                    "approved plan {id} of {name}: {add} to add, {change} to change, {destroy} to destroy"
                );
            }
        }
        Ok(Outcome::Good)
    })
}

pub fn retry(args: &Retry) -> io::Result<Outcome> {
    block_on(async {
        let (connection, all) = args.objects.find().await?;
        for (reference, asked) in all {
            let again: Vec<String> = asked
                .iter()
                .filter(|asked| asked.named || failed(&asked.status()))
                .map(Asked::name)
                .collect();
            if again.is_empty() {
                return Err(io::Error::other(format!(
                    "nothing of {reference} has failed, stalled or was cancelled: its {} workspaces are ready or under way",
                    asked.len()
                )));
            }
            for name in again {
                annotate(&connection, &name, annotations::RETRY, "now").await?;
                anstream::println!("{name} runs again");
            }
        }
        Ok(Outcome::Good)
    })
}

/// Not ready, and nothing is under way.
fn failed(status: &WorkspaceTemplateApplyStatus) -> bool {
    let ready = find(&status.conditions, types::READY).is_some_and(|ready| ready.status == "True");
    !ready && status.progress.is_none()
}

pub fn cancel(args: &Cancel) -> io::Result<Outcome> {
    block_on(async {
        let (connection, all) = args.objects.find().await?;
        for (reference, asked) in all {
            let runs: Vec<String> =
                asked.iter().filter(|asked| asked.status().progress.is_some()).map(Asked::name).collect();
            if runs.is_empty() {
                return Err(io::Error::other(format!("{} has no run to cancel", reference.name)));
            }
            for name in runs {
                annotate(&connection, &name, annotations::CANCEL, "now").await?;
                anstream::println!("the run of {name} is interrupted; capt retry {name} runs it again");
            }
        }
        Ok(Outcome::Good)
    })
}

pub fn import_state(args: &ImportState) -> io::Result<Outcome> {
    block_on(async {
        let read = |error: io::Error| io::Error::other(format!("read {}: {error}", args.state.display()));
        let bytes = std::fs::read(&args.state).map_err(read)?;
        let state = capt_terraform::state::State::read(&bytes)
            .map_err(|error| io::Error::other(format!("{}: {error}", args.state.display())))?;
        let connection = args.which.target.connect().await?;
        let found: Found<WorkspaceTemplateApply> = args.which.find_in(&connection).await?;
        let name = &args.which.name;
        let resources = found.object.status.as_ref().and_then(|status| status.resources).unwrap_or_default();
        if resources > 0 {
            return Err(io::Error::other(format!(
                "{name} has {resources} resources already: nothing is taken over"
            )));
        }
        let secret = format!("capt-import-{name}");
        let written = keeper::write_import(&found.client, &found.namespace, &secret, bytes).await;
        written.map_err(io::Error::other)?;
        annotate(&connection, name, annotations::IMPORT_STATE, &secret).await?;
        anstream::println!(
            "{name} takes over {} resources of serial {}; kubectl describe wtapply {name} shows how it goes",
            state.resources.len(),
            state.serial
        );
        Ok(Outcome::Good)
    })
}
