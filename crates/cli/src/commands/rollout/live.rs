//! Rollouts of a deployment that lives in a cluster: look at one, hold it, go back.

use std::io::{self, Write};
use std::time::Duration;

use capt_api::conditions::{reasons, types};
use capt_api::machine::{CaptMachineDeployment, CaptMachineSet};
use capt_planner::Count;
use capt_planner::cause;
use capt_planner::conditions::find;
use capt_planner::revision;
use jiff::Timestamp;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

use super::super::client::{Connection, Target, in_words};
use super::super::object::{Accepts, Reference};
use super::super::{Outcome, block_on, completion};
use super::Format;

/// Interval of checks of a rollout.
const EVERY: Duration = Duration::from_millis(500);

/// Say how a rollout goes, and why it does not, until it is done: the new machines are available, and no old one is left.
/// Ends with 1 where it failed or is paused.
///
/// Examples:
///   capt rollout status workers
///   capt rollout status workers --no-wait
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct RolloutStatus {
    #[command(flatten)]
    which: DeploymentArgs,
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
    which: DeploymentArgs,
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
    which: DeploymentArgs,
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
    which: DeploymentArgs,
}

/// Pause a rollout. Scaling still works.
///
/// Examples:
///   capt rollout pause workers
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct PauseRollout {
    #[command(flatten)]
    which: DeploymentArgs,
}

/// Go on with a rollout that was held.
///
/// Examples:
///   capt rollout resume workers
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct ResumeRollout {
    #[command(flatten)]
    which: DeploymentArgs,
}

/// The deployment that is meant.
#[derive(Debug, clap::Args)]
struct DeploymentArgs {
    #[arg(required = true, num_args = 1..=2, value_name = "OBJECT", help = Accepts::DEPLOYMENT.help, add = completion::objects(&Accepts::DEPLOYMENT))]
    object: Vec<String>,
    #[command(flatten)]
    target: Target,
}

impl DeploymentArgs {
    async fn find(&self) -> io::Result<FoundDeployment> {
        let reference = Accepts::DEPLOYMENT.read_one(&self.object)?;
        deployment(&self.target.connect().await?, &reference).await
    }
}

/// A deployment, and where it was found.
pub struct FoundDeployment {
    api: Api<CaptMachineDeployment>,
    client: Client,
    namespace: String,
    pub object: CaptMachineDeployment,
}

impl FoundDeployment {
    fn name(&self) -> String {
        self.object.name_any()
    }
}

/// Finds a deployment.
pub async fn deployment(connection: &Connection, reference: &Reference) -> io::Result<FoundDeployment> {
    let object = reference.get(connection).await?.try_parse().map_err(in_words)?;
    let Connection { client, namespace, .. } = connection.clone();
    Ok(FoundDeployment { api: connection.api(), client, namespace, object })
}

/// The sets that a deployment owns.
async fn sets(found: &FoundDeployment) -> io::Result<Vec<CaptMachineSet>> {
    let api: Api<CaptMachineSet> = Api::namespaced(found.client.clone(), &found.namespace);
    let mut all = api.list(&ListParams::default()).await.map_err(in_words)?.items;
    all.retain(|set| {
        let owners = set.metadata.owner_references.iter().flatten();
        owners.into_iter().any(|owner| Some(&owner.uid) == found.object.metadata.uid.as_ref())
    });
    Ok(all)
}

async fn change(found: &FoundDeployment, spec: Value) -> io::Result<()> {
    let body = json!({ "spec": spec });
    let params = PatchParams { field_manager: Some("capt-cli".into()), ..PatchParams::default() };
    found.api.patch(&found.name(), &params, &Patch::Merge(&body)).await.map_err(in_words)?;
    Ok(())
}

/// State of a rollout.
#[derive(Debug, PartialEq)]
enum RolloutState {
    Under(String),
    Done(String),
    Failed(String),
}

fn stand(object: &CaptMachineDeployment) -> RolloutState {
    let wanted = object.spec.replicas;
    let Some(status) = &object.status else {
        return RolloutState::Under("waiting for the controller".into());
    };
    if status.observed_generation != object.metadata.generation {
        return RolloutState::Under("waiting for the controller to see the change".into());
    }
    let condition = |kind: &str| find(&status.conditions, kind);
    let counts = format!(
        "{} of {wanted} up to date, {} available, {} being destroyed",
        status.updated_replicas, status.available_replicas, status.terminating_replicas
    );
    let done = condition(types::READY).is_some_and(|ready| ready.status == "True");
    // The new machines are there; old ones may still be, and cost.
    if done && status.terminating_replicas > 0 {
        return RolloutState::Under(format!(
            "{} up to date and available; {} still being destroyed",
            machines_are(wanted),
            machines_are(status.terminating_replicas)
        ));
    }
    if done {
        let revision = status.current_revision.unwrap_or_default();
        let (machines, are) = (Count(wanted, "machine"), if wanted == 1 { "is" } else { "are" });
        return RolloutState::Done(format!("rolled out: {machines} of revision {revision} {are} available"));
    }
    // What its machines say of themselves.
    let why_not = condition(types::READY).and_then(|ready| cause::of(&ready.message));
    if let Some(failed) = condition(types::PROGRESSING)
        && failed.reason == reasons::PROGRESS_DEADLINE_EXCEEDED
    {
        return RolloutState::Failed(format!("failed: {}", failed.message));
    }
    if object.spec.paused {
        let counts = cause::with(counts, why_not);
        return RolloutState::Failed(format!("paused: {counts}; continue with capt rollout resume"));
    }
    let why = condition(types::ROLLING_OUT).filter(|rolling| rolling.status == "True");
    let counts = match why {
        Some(why) => format!("{counts}; {}", why.message),
        None => counts,
    };
    RolloutState::Under(cause::with(counts, why_not))
}

fn machines_are(number: i32) -> String {
    format!("{} {}", Count(number, "machine"), if number == 1 { "is" } else { "are" })
}

pub fn status(args: &RolloutStatus) -> io::Result<Outcome> {
    block_on(async {
        let mut found: FoundDeployment = args.which.find().await?;
        let mut said = None;
        loop {
            let stand = stand(&found.object);
            if said.as_ref() != Some(&stand) {
                let (RolloutState::Under(words) | RolloutState::Done(words) | RolloutState::Failed(words)) =
                    &stand;
                writeln!(anstream::stdout(), "{words}")?;
            }
            match &stand {
                RolloutState::Done(_) => return Ok(Outcome::Good),
                RolloutState::Failed(_) => return Ok(Outcome::Bad),
                RolloutState::Under(_) if args.no_wait => return Ok(Outcome::Good),
                RolloutState::Under(_) => {}
            }
            said = Some(stand);
            tokio::time::sleep(EVERY).await;
            found.object = found.api.get(&found.name()).await.map_err(in_words)?;
        }
    })
}

pub fn history(args: &History) -> io::Result<Outcome> {
    block_on(async {
        let found: FoundDeployment = args.which.find().await?;
        let sets = sets(&found).await?;
        let entries = revision::history(&found.object, &sets.iter().collect::<Vec<_>>());
        let mut out = anstream::stdout().lock();
        if let Some(wanted) = args.revision {
            let Some(entry) = entries.iter().find(|entry| entry.revision == wanted) else {
                return Err(io::Error::other(format!("{} has no revision {wanted}", found.name())));
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
        let found: FoundDeployment = args.which.find().await?;
        let sets = sets(&found).await?;
        let sets: Vec<&CaptMachineSet> = sets.iter().collect();
        let (number, template) =
            revision::undo(&found.object, &sets, args.to_revision).map_err(io::Error::other)?;
        // Whole, and only over the version that was read: what the template has gained since goes.
        let mut object = found.object.clone();
        object.spec.template = template;
        let params = PostParams { field_manager: Some("capt-cli".into()), ..PostParams::default() };
        found.api.replace(&found.name(), &params, &object).await.map_err(in_words)?;
        writeln!(anstream::stdout(), "{} goes back to revision {number}", found.name())?;
        Ok(Outcome::Good)
    })
}

pub fn restart(args: &Restart) -> io::Result<Outcome> {
    block_on(async {
        let mut found: FoundDeployment = args.which.find().await?;
        capt_planner::deployment::restart(&mut found.object, Timestamp::now());
        let after = json!({"rolloutAfter": found.object.spec.rollout_after});
        change(&found, after).await?;
        writeln!(anstream::stdout(), "{} replaces its machines", found.name())?;
        Ok(Outcome::Good)
    })
}

pub fn pause(args: &PauseRollout) -> io::Result<Outcome> {
    set_paused(&args.which, true, "is paused")
}

pub fn resume(args: &ResumeRollout) -> io::Result<Outcome> {
    set_paused(&args.which, false, "is resumed")
}

fn set_paused(which: &DeploymentArgs, paused: bool, words: &str) -> io::Result<Outcome> {
    block_on(async {
        let found: FoundDeployment = which.find().await?;
        if found.object.spec.paused == paused {
            let already = if paused { "is paused already" } else { "is not paused" };
            return Err(io::Error::other(format!("{} {already}", found.name())));
        }
        change(&found, json!({ "paused": paused })).await?;
        writeln!(anstream::stdout(), "{} {words}", found.name())?;
        Ok(Outcome::Good)
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    fn deployment(conditions: &Value, counts: &Value) -> CaptMachineDeployment {
        let mut status = json!({"observedGeneration": 2, "currentRevision": 4});
        status.as_object_mut().unwrap().extend(counts.as_object().unwrap().clone());
        let full = |(kind, value): (&String, &Value)| {
            let mut condition = json!({"type": kind, "lastTransitionTime": "2026-01-01T00:00:00Z"});
            condition.as_object_mut().unwrap().extend(value.as_object().unwrap().clone());
            condition
        };
        status["conditions"] = conditions.as_object().unwrap().iter().map(full).collect();
        serde_json::from_value(json!({
            "metadata": {"name": "web", "generation": 2},
            "spec": {
                "replicas": 3, "selector": {"matchLabels": {"app": "web"}},
                "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"workspaceTemplateRef": {"name": "machine"}}},
            },
            "status": status,
        }))
        .unwrap()
    }

    #[test]
    fn a_rollout_is_done_when_no_old_machine_is_left() {
        let ready = json!({"Ready": {"status": "True", "reason": "Ready", "message": ""}});
        let counts = |going: i32| json!({"updatedReplicas": 3, "availableReplicas": 3, "replicas": 3, "terminatingReplicas": going});
        assert_eq!(
            stand(&deployment(&ready, &counts(1))),
            RolloutState::Under(
                "3 machines are up to date and available; 1 machine is still being destroyed".into()
            )
        );
        assert_eq!(
            stand(&deployment(&ready, &counts(0))),
            RolloutState::Done("rolled out: 3 machines of revision 4 are available".into())
        );
    }

    #[test]
    fn one_machine_is_and_two_are() {
        let ready = json!({"Ready": {"status": "True", "reason": "Ready", "message": ""}});
        let of_one = |going: i32| {
            let mut one = deployment(&ready, &json!({"terminatingReplicas": going}));
            one.spec.replicas = 1;
            stand(&one)
        };
        let words = "1 machine is up to date and available; 2 machines are still being destroyed";
        assert_eq!(of_one(2), RolloutState::Under(words.into()));
        assert_eq!(of_one(0), RolloutState::Done("rolled out: 1 machine of revision 4 is available".into()));
    }

    #[test]
    fn a_rollout_tells_why_it_does_not_go_on() {
        let cause = "CaptMachine web-0: workspace web-0-machine: Error: no capacity";
        let counts = json!({"updatedReplicas": 1, "availableReplicas": 3, "replicas": 4});
        let ready = json!({"status": "False", "reason": "InProgress", "message": format!("3 of 3 machines are available and 1 up to date; {cause}")});
        let rolling = json!({"status": "True", "reason": "InProgress", "message": "3 machines are of an old revision; waiting for machines"});
        let under = stand(&deployment(&json!({"Ready": ready, "RollingOut": rolling}), &counts));
        let RolloutState::Under(words) = under else { panic!("{under:?}") };
        assert!(words.ends_with(&format!("waiting for machines; {cause}")), "{words}");
        let late = json!({"status": "False", "reason": "ProgressDeadlineExceeded", "message": format!("no progress for 600 seconds; 1 of 3 machines are up to date; {cause}")});
        let failed = stand(&deployment(&json!({"Ready": ready, "Progressing": late}), &counts));
        let RolloutState::Failed(words) = failed else { panic!("{failed:?}") };
        assert!(words.starts_with("failed: no progress") && words.ends_with(cause), "{words}");
    }
}
