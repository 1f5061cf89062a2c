//! `capt server`: the embedded Kubernetes API alone, for kubectl and any other client.

mod recover;

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use capt_apiserver::authn::{Identity, write_kubeconfig};
use capt_apiserver::secure_serving::{AuditLog, Rotation, SecureServer, Settings};
use capt_apiserver::{Server, ServerOptions};

use super::client::in_words;
use super::{Outcome, duration, logging, wait_for_a_signal};
pub use recover::open_store;

/// Serve a Kubernetes API from this process: no etcd, no Docker.
///
/// Serves namespaces, secrets, configmaps, events, leases, RBAC objects, CRDs and every custom resource they
/// define. An answered write survives a crash of the process or the machine.
///
/// Examples:
///   capt server --data-dir ./capt-data
///   capt server --in-memory --kubeconfig /tmp/capt.kubeconfig
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment, args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Args {
    #[command(subcommand)]
    action: Option<Action>,
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
    /// File to write the kubeconfig to [default: DIR/kubeconfig, or ./capt.kubeconfig with --in-memory].
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Time to keep events after their last update: 1h, 90m, 30s; 0 keeps them without limit.
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = duration::parse)]
    event_ttl: Duration,
    /// Log every request to this file, one JSON line each; never a body.
    #[arg(long, value_name = "FILE")]
    audit_log: Option<PathBuf>,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    Recover(recover::Args),
}

pub fn run(args: &Args) -> io::Result<Outcome> {
    if let Some(Action::Recover(args)) = &args.action {
        return recover::run(args);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(serve(args))
}

async fn serve(args: &Args) -> io::Result<Outcome> {
    logging::start(false);
    let event_ttl = Some(args.event_ttl).filter(|ttl| !ttl.is_zero());
    let options = ServerOptions { event_ttl, ..ServerOptions::default() };
    let (server, identity) = if let Some(folder) = &args.data_dir {
        let server = Server::on(open_store(folder)?, &options).await.map_err(in_words)?;
        (server, Identity::in_folder(folder, &[], SystemTime::now()).map_err(in_words)?)
    } else {
        let server = Server::in_memory_with(&options).await.map_err(in_words)?;
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
        metrics: Arc::clone(server.metrics()),
        ..Settings::default()
    };
    let serving =
        SecureServer::open(Arc::clone(server.api()), &identity, settings).await.map_err(in_words)?;
    let kubeconfig = args.kubeconfig.clone().unwrap_or_else(|| match &args.data_dir {
        Some(folder) => folder.join("kubeconfig"),
        None => "capt.kubeconfig".into(),
    });
    match write_kubeconfig(&kubeconfig, &serving.url(), &identity) {
        // Whoever makes room needs the API for it: the kubeconfig that is there is of the same user.
        Err(error) if error.is_full_disk() => {
            let server = serving.url();
            anstream::eprintln!("{}; use what is there with --server {server}", in_words(error));
        }
        written => written.map_err(in_words)?,
    }
    anstream::println!("listening on {}", serving.url());
    anstream::println!("export KUBECONFIG={}", std::path::absolute(&kubeconfig)?.display());
    if let Some(folder) = &args.data_dir {
        tokio::select! {
            ended = wait_for_a_signal() => ended?,
            () = renew_daily(folder, &serving, &kubeconfig) => {}
        }
    } else {
        wait_for_a_signal().await?;
    }
    anstream::println!("stopping");
    serving.close().await;
    Ok(Outcome::Good)
}

/// Renews certificates that wear out, for as long as the server runs.
pub async fn renew_daily(folder: &Path, serving: &SecureServer, kubeconfig: &Path) {
    // Each is renewed when a third of its life is left: a day is soon enough, and so is the next one after a failure.
    let mut days = tokio::time::interval(Duration::from_secs(24 * 60 * 60));
    days.tick().await;
    loop {
        days.tick().await;
        if let Err(error) = renew(folder, serving, kubeconfig) {
            anstream::eprintln!("renew the certificates: {error}");
        }
    }
}

fn renew(folder: &Path, serving: &SecureServer, kubeconfig: &Path) -> io::Result<()> {
    let identity = Identity::in_folder(folder, &[], SystemTime::now()).map_err(in_words)?;
    serving.renew(&identity).map_err(in_words)?;
    write_kubeconfig(kubeconfig, &serving.url(), &identity).map_err(in_words)
}
