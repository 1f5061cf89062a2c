//! `capt kubeconfig`: how to reach the Kubernetes API of a workload cluster.

use std::io::{self, Write};

use capt_api::cluster::CAPTControlPlane;
use capt_api::conditions::types;
use capt_planner::conditions::find;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, ResourceExt};

use super::client::{Connection, Target, in_words};
use super::object::{Accepts, Reference};
use super::{Outcome, block_on, completion};

/// Print the kubeconfig of a workload cluster.
///
/// Examples:
///   capt kubeconfig demo >demo.kubeconfig
///   kubectl --kubeconfig <(capt kubeconfig demo) get nodes
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    #[arg(required = true, num_args = 1..=2, value_name = "OBJECT", help = Accepts::CLUSTER.help, add = completion::objects(&Accepts::CLUSTER))]
    object: Vec<String>,
    #[command(flatten)]
    target: Target,
}

pub fn run(args: &Args) -> io::Result<Outcome> {
    block_on(async {
        let cluster = Accepts::CLUSTER.read_one(&args.object)?;
        let connection = args.target.connect().await?;
        let name = &cluster.name;
        let secrets: Api<Secret> = connection.api();
        let found = secrets.get_opt(&format!("{name}-kubeconfig")).await.map_err(in_words)?;
        let Some(value) = found.and_then(|secret| secret.data?.remove("value")) else {
            return Err(missing(&connection, &cluster).await?);
        };
        io::stdout().lock().write_all(&value.0)?;
        Ok(Outcome::Good)
    })
}

/// Why there is none.
async fn missing(connection: &Connection, cluster: &Reference) -> io::Result<io::Error> {
    let name = &cluster.name;
    let planes: Api<CAPTControlPlane> = connection.api();
    let planes = planes.list(&kube::api::ListParams::default()).await.map_err(in_words)?.items;
    let label = capt_api::names::labels::CLUSTER_NAME;
    let plane = planes.iter().find(|plane| plane.labels().get(label).is_some_and(|of| of == name));
    let Some(plane) = plane else {
        // Says so where there is no such cluster at all.
        cluster.get(connection).await?;
        return Ok(io::Error::other(format!(
            "cluster {name} has no control plane that would give it a kubeconfig"
        )));
    };
    let conditions = plane.status.as_ref().map(|status| status.conditions.clone()).unwrap_or_default();
    let why = find(&conditions, types::READY)
        .filter(|ready| ready.status != "True")
        .map_or_else(|| "its control plane has given none".to_owned(), |ready| ready.message.clone());
    Ok(io::Error::other(format!(
        "cluster {name} has no kubeconfig yet: {why}\n  see how it goes: capt status {name}"
    )))
}
