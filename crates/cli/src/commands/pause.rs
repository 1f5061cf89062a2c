//! `capt pause` and `capt resume`: all work on an object stops, and goes on.

use std::io;

use capt_api::names::{annotations, labels};
use kube::ResourceExt;
use kube::api::{DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};

use super::client::{Connection, Target, in_words};
use super::object::{Accepts, Reference, ResourceKind};
use super::{Outcome, block_on, completion};

/// Stop all work on an object until it is resumed. Deletion is included.
///
/// A Terraform run in progress is completed. A paused Cluster stops everything that belongs to it; a paused
/// CaptMachineDeployment holds its rollout where it is, and still scales.
///
/// Examples:
///   capt pause network
///   capt pause cluster/demo
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Pause {
    #[command(flatten)]
    objects: PausableArgs,
}

/// Go on with what was paused.
///
/// Examples:
///   capt resume network
///   capt resume cluster/demo
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Resume {
    #[command(flatten)]
    objects: PausableArgs,
}

#[derive(Debug, clap::Args)]
struct PausableArgs {
    #[arg(required = true, value_name = "OBJECT", help = Accepts::ANY_OR_WORKSPACE.help, add = completion::objects(&Accepts::ANY_OR_WORKSPACE))]
    objects: Vec<String>,
    #[command(flatten)]
    target: Target,
}

pub fn pause(args: &Pause) -> io::Result<Outcome> {
    block_on(set(&args.objects, true))
}

pub fn resume(args: &Resume) -> io::Result<Outcome> {
    block_on(set(&args.objects, false))
}

async fn set(objects: &PausableArgs, paused: bool) -> io::Result<Outcome> {
    let references = Accepts::ANY_OR_WORKSPACE.read(&objects.objects)?;
    let connection = objects.target.connect().await?;
    for reference in &references {
        let object = reference.get(&connection).await?;
        if is_paused(&object) == paused {
            let already = if paused { "is paused already" } else { "is not paused" };
            anstream::println!("{reference} {already}");
        } else {
            let api = reference.kind.api(&connection, Some(&connection.namespace)).await?;
            let params = PatchParams { field_manager: Some("capt-cli".into()), ..PatchParams::default() };
            let body = body(reference.kind, &object, paused);
            api.patch(&reference.name, &params, &Patch::Merge(&body)).await.map_err(in_words)?;
            anstream::println!("{reference} {}", if paused { "is paused" } else { "is resumed" });
        }
        if !paused {
            warn_of_cluster(&connection, reference, &object).await?;
        }
    }
    Ok(Outcome::Good)
}

/// Returns true if a field or an annotation of an object pauses it.
pub fn is_paused(object: &DynamicObject) -> bool {
    let field = object.data.pointer("/spec/paused").and_then(Value::as_bool);
    field == Some(true) || object.annotations().contains_key(annotations::PAUSED)
}

fn body(kind: &ResourceKind, object: &DynamicObject, paused: bool) -> Value {
    let mut body = json!({});
    if kind.pausable {
        body["spec"] = json!({ "paused": paused });
    }
    // Somebody may have paused it either way; what goes on is paused in none.
    if paused && !kind.pausable {
        body["metadata"] = json!({"annotations": {annotations::PAUSED: "true"}});
    } else if !paused && object.annotations().contains_key(annotations::PAUSED) {
        body["metadata"] = json!({"annotations": {annotations::PAUSED: null}});
    }
    body
}

/// Warns if the object belongs to a paused Cluster, which keeps it paused.
async fn warn_of_cluster(
    connection: &Connection,
    reference: &Reference,
    object: &DynamicObject,
) -> io::Result<()> {
    let Some(name) = object.labels().get(labels::CLUSTER_NAME).filter(|_| !reference.kind.is_cluster())
    else {
        return Ok(());
    };
    let cluster = Reference { kind: ResourceKind::named("Cluster"), name: name.clone() };
    // Without Cluster API there is nothing to be warned of.
    if let Ok(Some(found)) = cluster.get_opt(connection).await
        && is_paused(&found)
    {
        anstream::println!("its Cluster {name} is paused and holds it: capt resume {cluster}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(value: Value) -> DynamicObject {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn what_was_paused_either_way_goes_on() {
        let both = object(json!({
            "metadata": {"annotations": {annotations::PAUSED: ""}}, "spec": {"paused": true},
        }));
        let neither = object(json!({"metadata": {}, "spec": {}}));
        assert!(is_paused(&both) && !is_paused(&neither));
        let (workspace, network) =
            (ResourceKind::named("WorkspaceTemplateApply"), ResourceKind::named("CAPTCluster"));
        let without = json!({"annotations": {annotations::PAUSED: null}});
        assert_eq!(body(workspace, &both, false), json!({"spec": {"paused": false}, "metadata": without}));
        assert_eq!(body(workspace, &neither, true), json!({"spec": {"paused": true}}));
        let with = json!({"annotations": {annotations::PAUSED: "true"}});
        assert_eq!(body(network, &neither, true), json!({"metadata": with}));
        assert_eq!(body(network, &both, false), json!({"metadata": without}));
    }
}
