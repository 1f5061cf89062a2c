//! `capt migrate`: from the Go version of CAPT, which ran Terraform by Crossplane's provider-terraform, to this one.
//!
//! Without `--apply` nothing is written. With it: CRDs, provider configs, states, in this order, and nothing that starts a run; the controller
//! is started afterwards, takes the states over, and finds nothing to build. Every step can be repeated.

mod claims;
mod convert;
mod world;

use std::io;

use super::client::Target;
use super::{Outcome, block_on};
use world::World;

/// Move from the Go version of CAPT to this one.
///
/// Shows what would be done; --apply does it: CRDs over the old ones, a WorkspaceProviderConfig for each ProviderConfig that templates
/// use, and the states of Crossplane's workspaces, which are paused. Workspaces get approval: Manual, so that a plan that would change
/// anything waits for a person. Scale the old controllers down before, and start `capt controller` afterwards. A Workspace that more than
/// one WorkspaceTemplateApply could be of is handed over to none; the command names them and ends with 1.
///
/// Examples:
///   capt migrate
///   capt migrate --apply && capt controller
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Do it.
    #[arg(long)]
    apply: bool,
    #[command(flatten)]
    target: Target,
}

pub fn run(args: &Args) -> io::Result<Outcome> {
    block_on(async {
        let connection = args.target.connect().await?;
        let world = World::read(&connection.client).await?;
        let plan = world.plan(&connection.client).await?;
        for note in &plan.notes {
            anstream::println!("note: {note}");
        }
        for conflict in &plan.conflicts {
            anstream::println!("warning: {conflict}");
        }
        for step in &plan.steps {
            anstream::println!("{} {step}", if args.apply { "now:" } else { "would:" });
            if args.apply {
                step.act(&connection.client).await?;
            }
        }
        if args.apply {
            anstream::println!(
                "next: start capt controller; `capt status` shows each workspace, `capt plan NAME` a plan that waits"
            );
        } else {
            anstream::println!(
                "nothing was changed; next: scale the old controllers down, then capt migrate --apply"
            );
        }
        Ok(if plan.conflicts.is_empty() { Outcome::Good } else { Outcome::Bad })
    })
}
