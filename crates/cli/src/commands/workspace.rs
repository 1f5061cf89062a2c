//! What people ask of a workspace: approve its plan, try again, stop, take over a state.

use std::io;
use std::path::PathBuf;

use capt_api::names::annotations;
use capt_api::workspace::WorkspaceTemplateApply;
use capt_controllers::workspace::keeper;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::client::{self, Which, in_words};
use super::{Outcome, block_on};

/// Approve the plan that a workspace waits with.
///
/// The approval is for exactly the plan that is shown: when inputs or state change, it is void.
#[derive(Debug, clap::Args)]
pub struct Approve {
    #[command(flatten)]
    which: Which,
    /// Approve only if this is the plan that waits.
    #[arg(long, value_name = "ID")]
    plan: Option<String>,
}

/// Run again now what failed, stalled or was cancelled.
#[derive(Debug, clap::Args)]
pub struct Retry {
    #[command(flatten)]
    which: Which,
}

/// Interrupt the run of a workspace: gracefully, so that nothing is forgotten.
#[derive(Debug, clap::Args)]
pub struct Cancel {
    #[command(flatten)]
    which: Which,
}

/// Let a workspace take over an existing Terraform state, before its first run.
///
/// Refused where the workspace has resources already. The state travels in Secrets, which are removed afterwards.
#[derive(Debug, clap::Args)]
pub struct ImportState {
    #[command(flatten)]
    which: Which,
    /// The state file: a terraform.tfstate, or what `terraform state pull` prints.
    #[arg(long, short = 'f', value_name = "FILE")]
    state: PathBuf,
}

type Found = client::Found<WorkspaceTemplateApply>;

async fn annotate(found: &Found, name: &str, key: &str, value: &str) -> io::Result<()> {
    let body = json!({"metadata": {"annotations": {key: value}}});
    found.api.patch_metadata(name, &PatchParams::default(), &Patch::Merge(&body)).await.map_err(in_words)?;
    Ok(())
}

pub fn approve(args: &Approve) -> io::Result<Outcome> {
    block_on(async {
        let found: Found = args.which.find().await?;
        let name = &args.which.name;
        let status = found.object.status.clone().unwrap_or_default();
        let waits = status
            .conditions
            .iter()
            .any(|condition| condition.type_ == "Planned" && condition.status == "True");
        let plan = status.plan.filter(|_| waits);
        let Some((plan, id)) = plan.and_then(|plan| plan.id.clone().map(|id| (plan, id))) else {
            return Err(io::Error::other(format!("{name} has no plan that waits for approval")));
        };
        if let Some(wanted) = args.plan.as_ref().filter(|wanted| **wanted != id) {
            return Err(io::Error::other(format!(
                "{name} waits with plan {id}, not {wanted}: look at it again"
            )));
        }
        annotate(&found, name, annotations::APPROVE, &id).await?;
        anstream::println!(
            "approved plan {id} of {name}: {} to add, {} to change, {} to destroy",
            plan.add,
            plan.change,
            plan.destroy
        );
        Ok(Outcome::Good)
    })
}

pub fn retry(args: &Retry) -> io::Result<Outcome> {
    block_on(async {
        let found: Found = args.which.find().await?;
        annotate(&found, &args.which.name, annotations::RETRY, "now").await?;
        anstream::println!("{} runs again", args.which.name);
        Ok(Outcome::Good)
    })
}

pub fn cancel(args: &Cancel) -> io::Result<Outcome> {
    block_on(async {
        let found: Found = args.which.find().await?;
        if found.object.status.as_ref().is_none_or(|status| status.progress.is_none()) {
            return Err(io::Error::other(format!("{} has no run to cancel", args.which.name)));
        }
        annotate(&found, &args.which.name, annotations::CANCEL, "now").await?;
        anstream::println!(
            "the run of {} is interrupted; capt retry {} runs it again",
            args.which.name,
            args.which.name
        );
        Ok(Outcome::Good)
    })
}

pub fn import_state(args: &ImportState) -> io::Result<Outcome> {
    block_on(async {
        let found: Found = args.which.find().await?;
        let name = &args.which.name;
        let resources = found.object.status.as_ref().and_then(|status| status.resources).unwrap_or_default();
        if resources > 0 {
            return Err(io::Error::other(format!(
                "{name} has {resources} resources already: nothing is taken over"
            )));
        }
        let read = |error: io::Error| io::Error::other(format!("read {}: {error}", args.state.display()));
        let bytes = std::fs::read(&args.state).map_err(read)?;
        let state = capt_terraform::state::State::read(&bytes)
            .map_err(|error| io::Error::other(format!("{}: {error}", args.state.display())))?;
        let secret = format!("capt-import-{name}");
        let written = keeper::write_import(&found.client, &found.namespace, &secret, bytes).await;
        written.map_err(io::Error::other)?;
        annotate(&found, name, annotations::IMPORT_STATE, &secret).await?;
        anstream::println!(
            "{name} takes over {} resources of serial {}; kubectl describe wtapply {name} shows how it goes",
            state.resources.len(),
            state.serial
        );
        Ok(Outcome::Good)
    })
}
