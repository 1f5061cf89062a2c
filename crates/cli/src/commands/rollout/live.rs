//! Rollouts of a deployment that lives in a cluster: look at one, hold it, go back.

use std::io::{self, Write};
use std::time::Duration;

use capt_api::conditions::{reasons, types};
use capt_api::machine::{CaptMachineDeployment, CaptMachineSet};
use capt_planner::conditions::find;
use capt_planner::revision;
use jiff::Timestamp;
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::super::client::{self, Which, in_words};
use super::super::{Outcome, block_on};
use super::Format;

/// How often a rollout is looked at.
const EVERY: Duration = Duration::from_millis(500);

/// Say how a rollout goes, until it is done. Ends with 1 where it failed or is paused.
///
/// Examples:
///   capt rollout status workers
///   capt rollout status workers --no-wait
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Status {
    #[command(flatten)]
    which: Which,
    /// Say how it stands now, and do not wait.
    #[arg(long)]
    no_wait: bool,
}

/// List the revisions of a deployment, or show one.
///
/// Examples:
///   capt rollout history workers
///   capt rollout history workers --revision 2
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct History {
    #[command(flatten)]
    which: Which,
    /// Show the template of this revision.
    #[arg(long, value_name = "NUMBER")]
    revision: Option<i64>,
    /// Format of the list.
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

/// Go back to an earlier revision.
///
/// Examples:
///   capt rollout undo workers
///   capt rollout undo workers --to-revision 2
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Undo {
    #[command(flatten)]
    which: Which,
    /// The revision [default: the one before the current].
    #[arg(long, value_name = "NUMBER")]
    to_revision: Option<i64>,
}

/// Replace every machine, step by step, though nothing has changed.
///
/// Examples:
///   capt rollout restart workers
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Restart {
    #[command(flatten)]
    which: Which,
}

/// Hold a rollout where it is. Scaling goes on.
///
/// Examples:
///   capt rollout pause workers
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Pause {
    #[command(flatten)]
    which: Which,
}

/// Go on with a rollout that was held.
///
/// Examples:
///   capt rollout resume workers
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Resume {
    #[command(flatten)]
    which: Which,
}

type Found = client::Found<CaptMachineDeployment>;

/// The sets that a deployment owns.
async fn sets(found: &Found) -> io::Result<Vec<CaptMachineSet>> {
    let api: Api<CaptMachineSet> = Api::namespaced(found.client.clone(), &found.namespace);
    let mut all = api.list(&ListParams::default()).await.map_err(in_words)?.items;
    all.retain(|set| {
        let owners = set.metadata.owner_references.iter().flatten();
        owners.into_iter().any(|owner| Some(&owner.uid) == found.object.metadata.uid.as_ref())
    });
    Ok(all)
}

async fn change(found: &Found, name: &str, spec: Value) -> io::Result<()> {
    let body = json!({ "spec": spec });
    let params = PatchParams { field_manager: Some("capt-cli".into()), ..PatchParams::default() };
    found.api.patch(name, &params, &Patch::Merge(&body)).await.map_err(in_words)?;
    Ok(())
}

/// How a rollout stands.
#[derive(Debug, PartialEq)]
enum Stand {
    Under(String),
    Done(String),
    Failed(String),
}

fn stand(object: &CaptMachineDeployment) -> Stand {
    let wanted = object.spec.replicas;
    let Some(status) = &object.status else { return Stand::Under("waiting for the controller".into()) };
    if status.observed_generation != object.metadata.generation {
        return Stand::Under("waiting for the controller to see the change".into());
    }
    let condition = |kind: &str| find(&status.conditions, kind);
    let counts = format!(
        "{} of {wanted} machines are up to date, {} available, {} being destroyed",
        status.updated_replicas, status.available_replicas, status.terminating_replicas
    );
    if condition(types::READY).is_some_and(|ready| ready.status == "True") {
        let revision = status.current_revision.unwrap_or_default();
        return Stand::Done(format!("rolled out: {wanted} machines of revision {revision} are available"));
    }
    if let Some(failed) = condition(types::PROGRESSING)
        && failed.reason == reasons::PROGRESS_DEADLINE_EXCEEDED
    {
        return Stand::Failed(format!("failed: {}", failed.message));
    }
    if object.spec.paused {
        return Stand::Failed(format!("paused: {counts}; capt rollout resume goes on"));
    }
    let why = condition(types::ROLLING_OUT).filter(|rolling| rolling.status == "True");
    Stand::Under(match why {
        Some(why) => format!("{counts}; {}", why.message),
        None => counts,
    })
}

pub fn status(args: &Status) -> io::Result<Outcome> {
    block_on(async {
        let mut found: Found = args.which.find().await?;
        let mut said = None;
        loop {
            let stand = stand(&found.object);
            if said.as_ref() != Some(&stand) {
                let (Stand::Under(words) | Stand::Done(words) | Stand::Failed(words)) = &stand;
                writeln!(anstream::stdout(), "{words}")?;
            }
            match &stand {
                Stand::Done(_) => return Ok(Outcome::Good),
                Stand::Failed(_) => return Ok(Outcome::Bad),
                Stand::Under(_) if args.no_wait => return Ok(Outcome::Good),
                Stand::Under(_) => {}
            }
            said = Some(stand);
            tokio::time::sleep(EVERY).await;
            found.object = found.api.get(&args.which.name).await.map_err(in_words)?;
        }
    })
}

pub fn history(args: &History) -> io::Result<Outcome> {
    block_on(async {
        let found: Found = args.which.find().await?;
        let sets = sets(&found).await?;
        let entries = revision::history(&found.object, &sets.iter().collect::<Vec<_>>());
        let mut out = anstream::stdout().lock();
        if let Some(wanted) = args.revision {
            let Some(entry) = entries.iter().find(|entry| entry.revision == wanted) else {
                return Err(io::Error::other(format!("{} has no revision {wanted}", args.which.name)));
            };
            match args.output {
                Format::Json => serde_json::to_writer_pretty(&mut out, &entry.template)?,
                Format::Text => {
                    let text = serde_saphyr::to_string(&entry.template).map_err(io::Error::other)?;
                    write!(out, "{text}")?;
                }
            }
        } else if matches!(args.output, Format::Json) {
            serde_json::to_writer_pretty(&mut out, &entries)?;
            writeln!(out)?;
        } else {
            writeln!(out, "{:<9} {:<32} {:<8} INSTANCE-TYPE", "REVISION", "SET", "MACHINES")?;
            for entry in &entries {
                let set = sets.iter().find(|set| set.metadata.name.as_ref() == Some(&entry.set));
                let machines = set.and_then(|set| set.status.as_ref()).map_or(0, |status| status.replicas);
                let spec = &entry.template.spec;
                let config = spec.node_group_config.as_ref().map(|config| &config.instance_type);
                let kind = spec.instance_type.as_ref().or(config).map_or("", String::as_str);
                let number = format!("{}{}", entry.revision, if entry.current { "*" } else { "" });
                writeln!(out, "{number:<9} {:<32} {machines:<8} {kind}", entry.set)?;
            }
        }
        Ok(Outcome::Good)
    })
}

pub fn undo(args: &Undo) -> io::Result<Outcome> {
    block_on(async {
        let found: Found = args.which.find().await?;
        let sets = sets(&found).await?;
        let sets: Vec<&CaptMachineSet> = sets.iter().collect();
        let (number, template) =
            revision::undo(&found.object, &sets, args.to_revision).map_err(io::Error::other)?;
        // Whole, and only over the version that was read: what the template has gained since goes.
        let mut object = found.object.clone();
        object.spec.template = template;
        let params = PostParams { field_manager: Some("capt-cli".into()), ..PostParams::default() };
        found.api.replace(&args.which.name, &params, &object).await.map_err(in_words)?;
        writeln!(anstream::stdout(), "{} goes back to revision {number}", args.which.name)?;
        Ok(Outcome::Good)
    })
}

pub fn restart(args: &Restart) -> io::Result<Outcome> {
    block_on(async {
        let mut found: Found = args.which.find().await?;
        capt_planner::deployment::restart(&mut found.object, Timestamp::now());
        let after = json!({"rolloutAfter": found.object.spec.rollout_after});
        change(&found, &args.which.name, after).await?;
        writeln!(anstream::stdout(), "{} replaces its machines", args.which.name)?;
        Ok(Outcome::Good)
    })
}

pub fn pause(args: &Pause) -> io::Result<Outcome> {
    set_paused(&args.which, true, "is paused")
}

pub fn resume(args: &Resume) -> io::Result<Outcome> {
    set_paused(&args.which, false, "goes on")
}

fn set_paused(which: &Which, paused: bool, words: &str) -> io::Result<Outcome> {
    block_on(async {
        let found: Found = which.find().await?;
        if found.object.spec.paused == paused {
            let already = if paused { "is paused already" } else { "is not paused" };
            return Err(io::Error::other(format!("{} {already}", which.name)));
        }
        change(&found, &which.name, json!({ "paused": paused })).await?;
        writeln!(anstream::stdout(), "{} {words}", which.name)?;
        Ok(Outcome::Good)
    })
}
