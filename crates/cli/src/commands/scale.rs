//! `capt scale`: how many machines a deployment or a set has.

use std::io::{self, Write};
use std::time::Duration;

use kube::ResourceExt;
use kube::api::{DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::client::{Connection, Target, in_words};
use super::object::{Accepts, Reference};
use super::{Outcome, block_on, completion, duration};

/// Interval of checks while scaling.
const EVERY: Duration = Duration::from_millis(500);

/// Set the number of machines of a deployment or a set.
///
/// Examples:
///   capt scale workers --replicas 5
///   capt scale workers --replicas 0 --wait --timeout 10m
///   capt scale captmachineset/workers-x7k2p --replicas 2
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    #[arg(required = true, value_name = "OBJECT", help = Accepts::SCALABLE.help, add = completion::objects(&Accepts::SCALABLE))]
    objects: Vec<String>,
    /// Number of replicas.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(0..))]
    replicas: i32,
    /// Wait until that many are available, and no more are there.
    #[arg(long)]
    wait: bool,
    /// With --wait: how long, for example 90s or 10m; 0 disables the timeout.
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = duration::parse)]
    timeout: Duration,
    #[command(flatten)]
    target: Target,
}

pub fn run(args: &Args) -> io::Result<Outcome> {
    block_on(async {
        let references = Accepts::SCALABLE.read(&args.objects)?;
        let connection = args.target.connect().await?;
        for reference in &references {
            scale(&connection, reference, args.replicas).await?;
        }
        let deadline = (!args.timeout.is_zero()).then(|| Instant::now() + args.timeout);
        if args.wait {
            for reference in &references {
                wait(&connection, reference, deadline).await?;
            }
        }
        Ok(Outcome::Good)
    })
}

async fn scale(connection: &Connection, reference: &Reference, replicas: i32) -> io::Result<()> {
    let object = reference.get(connection).await?;
    if let Some(owner) = object.owner_references().iter().find(|owner| owner.controller == Some(true)) {
        return Err(io::Error::other(format!(
            "{reference} belongs to {} {}, which would undo it\n  scale that: capt scale {}/{} --replicas {replicas}",
            owner.kind,
            owner.name,
            owner.kind.to_lowercase(),
            owner.name
        )));
    }
    let api = reference.kind.api(connection, Some(&connection.namespace)).await?;
    let body = json!({"spec": {"replicas": replicas}});
    let params = PatchParams { field_manager: Some("capt-cli".into()), ..PatchParams::default() };
    api.patch_scale(&reference.name, &params, &Patch::Merge(&body)).await.map_err(in_words)?;
    let before = object.data.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or_default();
    writeln!(anstream::stdout(), "{reference} scaled from {before} to {replicas}")
}

async fn wait(connection: &Connection, reference: &Reference, deadline: Option<Instant>) -> io::Result<()> {
    let mut said = String::new();
    loop {
        let stand = stand(&reference.get(connection).await?);
        let (Ok(words) | Err(words)) = &stand;
        if *words != said {
            writeln!(anstream::stdout(), "{reference}: {words}")?;
            said.clone_from(words);
        }
        if stand.is_ok() {
            return Ok(());
        }
        if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            return Err(io::Error::other(format!(
                "{reference} is not there yet: {said}\n  why: capt status, capt events {reference}"
            )));
        }
        tokio::time::sleep(EVERY).await;
    }
}

/// Progress: `Ok` if done, else `Err`.
fn stand(object: &DynamicObject) -> Result<String, String> {
    let number = |path: &str| object.data.pointer(path).and_then(Value::as_i64).unwrap_or_default();
    let wanted = number("/spec/replicas");
    let (there, available) = (number("/status/replicas"), number("/status/availableReplicas"));
    let terminating = number("/status/terminatingReplicas");
    let seen = object.data.pointer("/status/observedGeneration").and_then(Value::as_i64);
    if seen != object.metadata.generation {
        return Err("waiting for the controller to see the change".to_owned());
    }
    let words = format!("{available} of {wanted} available");
    if there == wanted && available == wanted && terminating == 0 {
        return Ok(words);
    }
    Err(match (there > wanted, terminating) {
        (_, leaving) if leaving > 0 => format!("{words}, {leaving} being destroyed"),
        (true, _) => format!("{words}, {} too many", there - wanted),
        (false, _) => words,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_there_when_nothing_is_missing_and_nothing_too_much() {
        let object = |generation: i64, status: Value| -> DynamicObject {
            let metadata = json!({"generation": generation});
            serde_json::from_value(json!({"metadata": metadata, "spec": {"replicas": 3}, "status": status}))
                .unwrap()
        };
        let status = |there, available, leaving| json!({"observedGeneration": 1, "replicas": there, "availableReplicas": available, "terminatingReplicas": leaving});
        assert_eq!(stand(&object(1, status(3, 3, 0))), Ok("3 of 3 available".into()));
        assert_eq!(stand(&object(1, status(3, 2, 0))), Err("2 of 3 available".into()));
        assert_eq!(stand(&object(1, status(4, 3, 0))), Err("3 of 3 available, 1 too many".into()));
        assert_eq!(stand(&object(1, status(3, 3, 1))), Err("3 of 3 available, 1 being destroyed".into()));
        assert!(stand(&object(2, status(3, 3, 0))).unwrap_err().contains("waiting"));
    }
}
