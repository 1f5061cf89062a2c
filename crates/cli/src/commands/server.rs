//! `capt server`: the embedded Kubernetes API alone, for kubectl and any other client.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use capt_apiserver::Server;
use capt_apiserver::door::{AuditLog, Door, Identity, Metrics, Rotation, Settings, write_kubeconfig};

use super::client::in_words;
use super::{Outcome, wait_for_a_signal};

/// Serve a Kubernetes API from this process: no etcd, no Docker.
///
/// Serves namespaces, secrets, configmaps, events, leases, RBAC objects, CRDs and every custom resource they
/// define. An answered write survives a crash of the process or the machine.
///
/// Examples:
///   capt server --data-dir ./capt-data
///   capt server --in-memory --kubeconfig /tmp/capt.kubeconfig
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Folder for objects, certificates and the kubeconfig; made if it is not there.
    #[arg(long, value_name = "DIR", required_unless_present = "in_memory", conflicts_with = "in_memory")]
    data_dir: Option<PathBuf>,
    /// Keep nothing on disk: all is gone when the server stops.
    #[arg(long)]
    in_memory: bool,
    /// Address to listen on; port 0 takes a free one.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Allow an address that other machines reach.
    #[arg(long)]
    allow_remote: bool,
    /// Where to write the kubeconfig [default: DIR/kubeconfig, or ./capt.kubeconfig with --in-memory].
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Log every request to this file, one JSON line each; never a body.
    #[arg(long, value_name = "FILE")]
    audit_log: Option<PathBuf>,
}

pub fn run(args: &Args) -> io::Result<Outcome> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(serve(args))
}

async fn serve(args: &Args) -> io::Result<Outcome> {
    let (server, identity) = if let Some(folder) = &args.data_dir {
        let server = Server::open(folder).await.map_err(in_words)?;
        (server, Identity::in_folder(folder, &[], SystemTime::now()).map_err(in_words)?)
    } else {
        let server = Server::in_memory().await.map_err(in_words)?;
        (server, Identity::in_memory(&[], SystemTime::now()).map_err(in_words)?)
    };
    let audit = match &args.audit_log {
        Some(path) => Some(AuditLog::open(path, Rotation::default()).map_err(in_words)?),
        None => None,
    };
    let settings = Settings {
        listen: args.listen,
        allow_remote: args.allow_remote,
        audit,
        metrics: Arc::new(Metrics::default()),
        ..Settings::default()
    };
    let door = Door::open(Arc::clone(server.api()), &identity, settings).await.map_err(in_words)?;
    let kubeconfig = args.kubeconfig.clone().unwrap_or_else(|| match &args.data_dir {
        Some(folder) => folder.join("kubeconfig"),
        None => "capt.kubeconfig".into(),
    });
    write_kubeconfig(&kubeconfig, &door.url(), &identity).map_err(in_words)?;
    anstream::println!("listening on {}", door.url());
    anstream::println!("export KUBECONFIG={}", std::path::absolute(&kubeconfig)?.display());
    wait_for_a_signal().await?;
    anstream::println!("stopping");
    door.close().await;
    Ok(Outcome::Good)
}
