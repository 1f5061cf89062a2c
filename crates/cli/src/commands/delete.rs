//! `capt delete`: shows what goes, asks, and follows it to its end.

mod blockers;
mod follow;
mod preview;

use std::io::{self, BufRead, IsTerminal, Write};
use std::time::Duration;

use capt_api::names::labels;
use kube::api::DeleteParams;
use kube::{Resource, ResourceExt};

use super::client::{Connection, Target, in_words};
use super::family::{Member, below};
use super::object::{Accepts, Reference};
use super::{Outcome, block_on, completion, duration};

/// Delete objects with all that belongs to them. Shows what will be destroyed and what is in the way, and asks.
///
/// Of a Cluster first the machines go, then node groups and the control plane, then the network. Interrupting this command does not
/// stop the deletion.
///
/// Examples:
///   capt delete cluster demo
///   capt delete cluster demo --yes --timeout 30m
///   capt delete captmachine/web-x7k2p-0 wtapply/network
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    #[arg(required = true, value_name = "OBJECT", help = Accepts::ANY.help, add = completion::objects(&Accepts::ANY))]
    objects: Vec<String>,
    /// Do not ask.
    #[arg(short, long)]
    yes: bool,
    /// Follow the deletion to its end.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value_t = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    wait: bool,
    /// Time limit for following the deletion, for example 90s or 10m; 0 disables the timeout.
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = duration::parse)]
    timeout: Duration,
    #[command(flatten)]
    target: Target,
}

pub fn run(args: &Args) -> io::Result<Outcome> {
    block_on(async {
        let references = Accepts::ANY.read(&args.objects)?;
        let connection = args.target.connect().await?;
        let mut families = Vec::new();
        for reference in &references {
            let head = Member { kind: reference.kind, object: reference.get(&connection).await? };
            refuse_what_comes_back(reference, &head)?;
            families.push(below(&connection, head).await?);
        }
        let all: Vec<&Member> = families.iter().flatten().collect();
        preview::print(&families, &blockers::find(&connection, &all).await)?;
        if !args.yes && !agreed(&references)? {
            writeln!(anstream::stdout(), "nothing is deleted")?;
            return Ok(Outcome::Bad);
        }
        for members in &families {
            delete(&connection, members).await?;
        }
        if !args.wait {
            let names: Vec<String> = references.iter().map(ToString::to_string).collect();
            writeln!(anstream::stdout(), "{}: the deletion continues in the background", names.join(", "))?;
            return Ok(Outcome::Good);
        }
        let members: Vec<Member> = families.into_iter().flatten().collect();
        follow::to_the_end(&connection, members, args.timeout).await
    })
}

/// Refuses to delete an object that its controller would create again.
fn refuse_what_comes_back(reference: &Reference, head: &Member) -> io::Result<()> {
    // A machine of a set is replaced: that is what people delete it for.
    if head.kind.name == "CaptMachine" {
        return Ok(());
    }
    match head.object.owner_references().iter().find(|owner| owner.controller == Some(true)) {
        Some(owner) if head.object.meta().deletion_timestamp.is_none() => Err(io::Error::other(format!(
            "{reference} belongs to {} {}, which would make it again\n  delete that: capt delete {}/{}",
            owner.kind,
            owner.name,
            owner.kind.to_lowercase(),
            owner.name
        ))),
        _ => Ok(()),
    }
}

/// Asks; true for yes.
fn agreed(references: &[Reference]) -> io::Result<bool> {
    let stdin = io::stdin();
    if !stdin.is_terminal() {
        return Err(io::Error::other("no terminal to confirm on: add --yes to delete it"));
    }
    let names: Vec<String> = references.iter().map(ToString::to_string).collect();
    let mut out = anstream::stderr();
    write!(out, "Delete {}? [y/N] ", names.join(", "))?;
    out.flush()?;
    let mut answer = String::new();
    stdin.lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}

/// Deletes the head, then those that only carry its name: nobody else would.
async fn delete(connection: &Connection, members: &[Member]) -> io::Result<()> {
    let Some((head, rest)) = members.split_first() else { return Ok(()) };
    remove(connection, head).await?;
    if !head.kind.is_cluster() {
        return Ok(());
    }
    let name = head.object.name_any();
    let fleet = ["CaptMachineDeployment", "CaptMachineSet", "CaptMachine", "NodeGroup"];
    for kind in fleet {
        for member in rest.iter().filter(|member| member.kind.name == kind) {
            let owned = member.object.owner_references().iter().any(|owner| owner.controller == Some(true));
            if !owned && member.object.labels().get(labels::CLUSTER_NAME) == Some(&name) {
                remove(connection, member).await?;
            }
        }
    }
    Ok(())
}

async fn remove(connection: &Connection, member: &Member) -> io::Result<()> {
    let api = member.kind.api(connection, Some(&connection.namespace)).await?;
    match api.delete(&member.object.name_any(), &DeleteParams::background()).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        Err(error) => Err(in_words(error)),
    }
}
