//! User operations on workspaces: approve a plan, retry, cancel, import a state. On a machine, a control plane or a cluster, they
//! reach the workspaces below it.

use std::io;
use std::path::PathBuf;

use capt_api::conditions::types;
use capt_api::names::{APPROVER, annotations};
use capt_api::workspace::{PlanSummary, WorkspaceTemplateApply, WorkspaceTemplateApplyStatus};
use capt_controllers::workspace::state_secrets;
use capt_planner::{Count, conditions::find};
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::json;

use super::client::{Connection, Target, in_words};
use super::completion;
use super::family::family;
use super::logs::the_workspace;
use super::object::{Accepts, Reference};
use super::{Outcome, block_on};

/// Longest name of a field manager that the API takes.
const MANAGER: usize = 128;

/// Approve the plan awaiting approval.
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
    objects: WorkspaceArgs,
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
    objects: WorkspaceArgs,
}

/// Interrupt the run of a workspace, gracefully.
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
    objects: WorkspaceArgs,
}

/// Let a workspace take over an existing Terraform state. This goes before its first run.
///
/// The workspace need not exist yet: one that is created later under that name takes the state over before it builds anything. Refused
/// where it has resources already. The state travels in Secrets, which are removed afterwards. In a manifest: spec.importState names a
/// Secret with the state.
///
/// Examples:
///   terraform state pull >old.tfstate && capt import-state network -f old.tfstate
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct ImportState {
    #[arg(required = true, num_args = 1..=2, value_name = "OBJECT", help = Accepts::WORKSPACES.help, add = completion::objects(&Accepts::WORKSPACES))]
    object: Vec<String>,
    #[command(flatten)]
    target: Target,
    /// The state file: a terraform.tfstate, or what `terraform state pull` prints.
    #[arg(long, short = 'f', value_name = "FILE")]
    state: PathBuf,
}

/// Workspaces, by name or by what they belong to.
#[derive(Debug, clap::Args)]
struct WorkspaceArgs {
    #[arg(required = true, value_name = "OBJECT", help = Accepts::WORKSPACES.help, add = completion::objects(&Accepts::WORKSPACES))]
    objects: Vec<String>,
    #[command(flatten)]
    target: Target,
}

/// A workspace that something is asked of.
struct RequestedWorkspace {
    workspace: WorkspaceTemplateApply,
    /// Named itself, not found below something else.
    named: bool,
}

impl RequestedWorkspace {
    fn name(&self) -> String {
        self.workspace.name_any()
    }

    fn status(&self) -> WorkspaceTemplateApplyStatus {
        self.workspace.status.clone().unwrap_or_default()
    }
}

impl WorkspaceArgs {
    /// For each object that was named, the workspaces that are meant.
    async fn find(&self) -> io::Result<(Connection, Vec<(Reference, Vec<RequestedWorkspace>)>)> {
        let references = Accepts::WORKSPACES.read(&self.objects)?;
        let connection = self.target.connect().await?;
        let mut all = Vec::new();
        for reference in references {
            let members = family(&connection, &reference).await?;
            let named = members.first().is_some_and(|head| head.workspace().is_some());
            let workspaces = members.iter().filter_map(super::family::Member::workspace);
            let asked = workspaces.map(|workspace| RequestedWorkspace { workspace, named }).collect();
            all.push((reference, asked));
        }
        Ok((connection, all))
    }
}

/// Asks something of a workspace.
pub async fn annotate(connection: &Connection, name: &str, key: &str, value: &str) -> io::Result<()> {
    annotate_as(connection, PatchParams::default(), name, key, value).await
}

async fn annotate_as(
    connection: &Connection,
    params: PatchParams,
    name: &str,
    key: &str,
    value: &str,
) -> io::Result<()> {
    let body = json!({"metadata": {"annotations": {key: value}}});
    let api = connection.api::<WorkspaceTemplateApply>();
    api.patch_metadata(name, &params, &Patch::Merge(&body)).await.map_err(in_words)?;
    Ok(())
}

/// Writes as the user that the API knows: the managed fields then tell who approved.
async fn as_user(connection: &Connection) -> PatchParams {
    let api: Api<SelfSubjectReview> = Api::all(connection.client.clone());
    let review = api.create(&PostParams::default(), &SelfSubjectReview::default()).await;
    let user = review.ok().and_then(|review| review.status?.user_info?.username);
    // The API takes printable names of at most 128 characters; one that cannot say who it is writes without.
    let manager = format!("{APPROVER}{}", user.unwrap_or_else(|| "an unknown user".to_owned()));
    let manager = manager.chars().map(|c| if c.is_control() { '?' } else { c }).take(MANAGER).collect();
    PatchParams { field_manager: Some(manager), ..PatchParams::default() }
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
        let user = as_user(&connection).await;
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
                        "{name} waits with plan {id}, not {wanted}\n  show it: capt plan {name}"
                    )));
                }
                annotate_as(&connection, user.clone(), &name, annotations::APPROVE, &id).await?;
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
                .map(RequestedWorkspace::name)
                .collect();
            if again.is_empty() {
                return Err(io::Error::other(format!(
                    "nothing of {reference} has failed, stalled or was cancelled: its {} {} ready or under way",
                    Count(asked.len(), "workspace"),
                    if asked.len() == 1 { "is" } else { "are" }
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
            let runs: Vec<String> = asked
                .iter()
                .filter(|asked| asked.status().progress.is_some())
                .map(RequestedWorkspace::name)
                .collect();
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
        let object = Accepts::WORKSPACES.read_one(&args.object)?;
        let read = |error: io::Error| io::Error::other(format!("read {}: {error}", args.state.display()));
        let bytes = std::fs::read(&args.state).map_err(read)?;
        let state = capt_terraform::state::State::read(&bytes)
            .map_err(|error| io::Error::other(format!("{}: {error}", args.state.display())))?;
        let connection = args.target.connect().await?;
        // A workspace may be created later; what it belongs to tells its name only once it exists.
        let name = &match object.kind.name.as_str() {
            "WorkspaceTemplateApply" => object.name,
            _ => the_workspace(&connection, &object).await?.name_any(),
        };
        let found = connection.api::<WorkspaceTemplateApply>().get_opt(name).await.map_err(in_words)?;
        let status = found.as_ref().and_then(|found| found.status.as_ref());
        let resources = status.and_then(|status| status.resources).unwrap_or_default();
        let lost = status.is_some_and(is_lost);
        if resources > 0 && !lost {
            return Err(io::Error::other(format!(
                "{name} has {} already: nothing is taken over",
                Count(resources, "resource")
            )));
        }
        let secret = state_secrets::import_name(name);
        let written =
            state_secrets::write_import(&connection.client, &connection.namespace, &secret, bytes).await;
        written.map_err(io::Error::other)?;
        let (many, serial) = (Count(state.resources.len(), "resource"), state.serial);
        if found.is_some() {
            annotate(&connection, name, annotations::IMPORT_STATE, &secret).await?;
            anstream::println!("{name} takes over {many} of serial {serial}");
            anstream::println!(
                "  next: capt status wtapply/{name} shows its progress; approval: Manual shows the plan before it is applied"
            );
        } else {
            anstream::println!(
                "a state of {many} and serial {serial} waits in Secret {secret} for WorkspaceTemplateApply {name}, which does not exist yet"
            );
            anstream::println!(
                "  next: create it in namespace {}; it takes the state over before its first run (with approval: Manual it shows the plan first)",
                connection.namespace
            );
        }
        Ok(Outcome::Good)
    })
}

/// Returns true if a workspace is blocked because its state was lost.
fn is_lost(status: &WorkspaceTemplateApplyStatus) -> bool {
    find(&status.conditions, types::READY).is_some_and(|ready| ready.reason == "StateLost")
}
