//! `capt server`: the embedded Kubernetes API alone, for kubectl and any other client.

mod recover;

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use capt_apiserver::authn::{Identity, write_kubeconfig};
use capt_apiserver::secure_serving::{SecureServer, Settings};
use capt_apiserver::{Server, ServerOptions};

use super::audit::Audit;
use super::client::in_words;
use super::{Outcome, duration, logging, refuse_writes_beyond_the_file_limit, wait_for_a_signal};
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
    #[command(flatten)]
    audit: Audit,
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
    refuse_writes_beyond_the_file_limit()?;
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
    let settings = Settings {
        listen: args.listen,
        allow_remote: args.allow_remote,
        audit: args.audit.open()?,
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
            () = renew_certificates(folder, &serving, &kubeconfig) => {}
        }
    } else {
        wait_for_a_signal().await?;
    }
    anstream::println!("stopping");
    serving.close().await;
    Ok(Outcome::Good)
}

/// Each certificate is renewed when a third of its life is left: a day is soon enough, and so is the next one after a failure.
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// Interval at which the clock is looked at: one that was set makes certificates expire, or not valid yet.
const CLOCK_CHECK: Duration = Duration::from_secs(30);

/// Renews certificates that wear out, for as long as the server runs: every day, and when the clock was set.
pub async fn renew_certificates(folder: &Path, serving: &SecureServer, kubeconfig: &Path) {
    let mut looks = tokio::time::interval(CLOCK_CHECK);
    let mut renewed = (SystemTime::now(), Instant::now());
    loop {
        looks.tick().await;
        let now = SystemTime::now();
        if !is_renewal_due(renewed.0, now, renewed.1.elapsed()) {
            continue;
        }
        renewed = (now, Instant::now());
        if let Err(error) = renew(folder, serving, kubeconfig) {
            anstream::eprintln!("renew the certificates: {error}");
        }
    }
}

/// True a day after certificates were renewed, by either clock, and where the clock was set since. A clock that is put right in small
/// steps is not set.
fn is_renewal_due(renewed: SystemTime, now: SystemTime, elapsed: Duration) -> bool {
    let expected = renewed + elapsed;
    let off = now.duration_since(expected).or_else(|_| expected.duration_since(now)).unwrap_or_default();
    elapsed >= DAY || off > CLOCK_CHECK
}

fn renew(folder: &Path, serving: &SecureServer, kubeconfig: &Path) -> io::Result<()> {
    let identity = Identity::in_folder(folder, &[], SystemTime::now()).map_err(in_words)?;
    serving.renew(&identity).map_err(in_words)?;
    write_kubeconfig(kubeconfig, &serving.url(), &identity).map_err(in_words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificates_are_renewed_daily_and_when_the_clock_was_set() {
        let start = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
        let minute = Duration::from_secs(60);
        let rows = [
            ("at once", start, Duration::ZERO, false),
            ("a minute", start + minute, minute, false),
            ("a minute, put right by two seconds", start + minute - Duration::from_secs(2), minute, false),
            ("a day", start + DAY, DAY, true),
            ("a year ahead", start + 365 * DAY, minute, true),
            ("an hour back", start - 60 * minute, minute, true),
            ("asleep for a day", start + DAY, minute, true),
        ];
        for (case, now, elapsed, due) in rows {
            assert_eq!(is_renewal_due(start, now, elapsed), due, "{case}");
        }
    }
}
