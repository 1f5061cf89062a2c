//! `capt controller`: the controllers and the Terraform engine, on any Kubernetes API.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use capt_controllers::cluster::core::install::{self, Installed};
use capt_controllers::runtime::lease::{Candidate, Held, LeaseHealth};
use capt_controllers::workspace::state_secrets::SecretStateBackend;
use capt_controllers::{ClusterApi, Controllers, Options};
use capt_terraform::Engine;
use capt_terraform::engine::Lease;
use capt_terraform::guard::term::Term;
use capt_terraform::state_backend::StateBackend;

use super::client::{connect, in_words};
use super::confine::{self, Confine};
use super::metrics::{Address, Process, Storage};
use super::tenants::CrossNamespace;
use super::{Outcome, hand_in, logging, place, wait_for_a_signal};

/// Name of the Lease of the one controller that works.
pub const LEASE: &str = "capt-controller";

/// Run the controllers and Terraform on a Kubernetes API.
///
/// Works on the API that the kubeconfig names (or on that of the cluster it runs in). Runs of Terraform survive the end
/// of this process: the next one on the same data folder takes them up. Where states are in Secrets, so that a controller on
/// another machine can go on with them, the next one has to be there before the Lease runs out: then runs are interrupted.
///
/// Examples:
///   capt server --data-dir ./capt-data &
///   KUBECONFIG=./capt-data/kubeconfig capt controller --data-dir ./capt-data
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Folder for workspaces: their state, plans and logs; made if it is not there.
    #[arg(long, value_name = "DIR")]
    data_dir: PathBuf,
    /// The cluster to work on [default: KUBECONFIG, ~/.kube/config, or the cluster this runs in].
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Runs of Terraform at the same time [default: one per core].
    #[arg(long, value_name = "N")]
    slots: Option<usize>,
    /// Default location of states: in the data folder alone, or in Secrets beside their objects too [default: local; secrets in a
    /// cluster].
    #[arg(long, value_enum)]
    state: Option<State>,
    /// Reconciler of Cluster objects: CAPT, if the installed CRD of Cluster is CAPT's own (auto); CAPT, which installs its CRD if
    /// there is none (own); Cluster API core (core).
    #[arg(long, value_enum, default_value_t = Clusters::Auto)]
    cluster_api: Clusters,
    /// References into other namespaces (Secrets, templates, outputs): those that a ReferenceGrant there allows, or all of
    /// them (open), for an API with one user.
    #[arg(long, value_enum, value_name = "POLICY", default_value_t = CrossNamespace::Granted)]
    cross_namespace: CrossNamespace,
    /// Namespace of the Lease that keeps other controllers away [default: that of the kubeconfig].
    #[arg(long, value_name = "NAMESPACE")]
    lease_namespace: Option<String>,
    #[command(flatten)]
    confine: Confine,
    /// Duration of the Lease after its last renewal: other controllers wait this long for one that does not answer.
    #[arg(long, value_name = "TIME", default_value = "15s", value_parser = super::duration::parse)]
    lease_duration: Duration,
    #[command(flatten)]
    metrics: Address,
    /// Log as JSON, one object a line.
    #[arg(long)]
    log_json: bool,
}

/// Reconciler of Cluster objects.
#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
enum Clusters {
    /// CAPT, where the installed CRD is its own.
    Auto,
    /// CAPT, which installs its CRD where there is none.
    Own,
    /// Cluster API core.
    Core,
}

impl From<Clusters> for ClusterApi {
    fn from(choice: Clusters) -> Self {
        match choice {
            Clusters::Auto => Self::Auto,
            Clusters::Own => Self::Own,
            Clusters::Core => Self::Core,
        }
    }
}

/// Location of states.
#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
enum State {
    /// In the data folder.
    Local,
    /// In the data folder, and in Secrets.
    Secrets,
}

pub fn run(args: &Args) -> io::Result<Outcome> {
    logging::start(args.log_json);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(work(args))
}

async fn work(args: &Args) -> io::Result<Outcome> {
    super::refuse_writes_beyond_the_file_limit()?;
    let unprotected = args.confine.check(&args.data_dir)?;
    let client = connect(args.kubeconfig.as_deref(), &args.data_dir).await?;
    let mut options = capt_terraform::Options::new(place::engine(&args.data_dir));
    if let Some(slots) = args.slots {
        options.slots = slots;
    }
    args.confine.set(&mut options, &args.data_dir, &[])?;
    // Makes the folder.
    let term = Term::open(&options.folder)?;
    let health = LeaseHealth::default();
    let process = Arc::new(Process::new(health.clone(), Storage::new(&options.folder)));
    // One that waits for the Lease is asked how it is, too.
    if let Some(endpoint) = args.metrics.bind().await? {
        anstream::println!("metrics on http://{}/metrics", endpoint.serve(&process));
    }
    let lasts = args.lease_duration.max(Duration::from_secs(1));
    let mut lease = take_lease(args.lease_namespace.as_deref(), lasts, health, &client).await?;
    args.cross_namespace.tell(&mut lease).await.map_err(in_words)?;
    let in_cluster = std::env::var_os("KUBERNETES_SERVICE_HOST").is_some();
    let auto = args.state.map_or(in_cluster, |state| state == State::Secrets);
    hand_in::prepare(&options.folder, args.kubeconfig.as_deref(), &args.data_dir, &lease)?;
    lease.bind(term)?;
    options.lease = Some(Lease { lasts });
    let state_backend = SecretStateBackend::new(client.clone(), lease.fence(), auto, lease.namespace())
        .claimed(lease.claim());
    let state_backend = Arc::new(state_backend);
    options.state_backend = Some(Arc::clone(&state_backend) as Arc<dyn StateBackend>);
    if args.cluster_api == Clusters::Own
        && install::install(&client).await.map_err(in_words)? == Installed::Theirs
    {
        let message =
            format!("{} is not CAPT's: Cluster API core takes care of Clusters here", install::NAME);
        return Err(io::Error::other(message));
    }
    let engine = Engine::start(options).await.map_err(in_words)?;
    let settings = Options {
        state_backend: Some(state_backend),
        cluster_api: args.cluster_api.into(),
        cross_namespace: args.cross_namespace.into(),
        ..Options::default()
    };
    // States are fenced by themselves: the end of a run is handed in late rather than never.
    let mut controllers = Controllers::start(&lease.fenced(&client), Arc::new(engine.clone()), &settings);
    process.started(&controllers, &engine);
    confine::say(unprotected.as_deref());
    anstream::println!("controllers run; workspaces are in {}", place::engine(&args.data_dir).display());
    tokio::select! {
        signal = wait_for_a_signal() => signal?,
        () = controllers.ended() => return Err(io::Error::other("a controller ended")),
        // Without it somebody else may work on the same objects.
        lost = lease.keep() => return Err(in_words(lost)),
    }
    anstream::println!("stopping; runs of Terraform go on and are taken up at the next start");
    controllers.stop().await;
    // Journals are written; a stop that hangs would only be killed.
    let _ = tokio::time::timeout(Duration::from_secs(10), engine.stop()).await;
    lease.release().await;
    Ok(Outcome::Good)
}

/// Waits until no other controller works on this API.
pub async fn take_lease(
    namespace: Option<&str>,
    lasts: Duration,
    health: LeaseHealth,
    client: &kube::Client,
) -> io::Result<Held> {
    let namespace = namespace.unwrap_or(client.default_namespace());
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    // Each start is a holder of its own: what the one before it still writes must be told apart.
    let started = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let place = processes().unwrap_or_default();
    let holder = format!("{}_{}_{}_{place}", host.trim(), std::process::id(), started.as_millis());
    // One that was killed on this machine need not be waited for.
    let gone = |other: &str| is_gone(other, &place, |pid| std::path::Path::new("/proc").join(pid).exists());
    let candidate = Candidate { health, ..Candidate::new(namespace, LEASE, &holder, lasts) };
    candidate.take(client, gone).await.map_err(in_words)
}

/// Names what the numbers of processes mean something in: this boot of this kernel, and the namespace of processes. Hosts and containers
/// of one name differ in it.
fn processes() -> Option<String> {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let namespace = std::fs::read_link("/proc/self/ns/pid").ok()?;
    let number: String = namespace.to_str()?.chars().filter(char::is_ascii_digit).collect();
    Some(format!("{}-{number}", boot.trim()))
}

/// Returns true if the holder of a Lease is a process that cannot exist any more: one of the same `place`, whose process id is
/// not in use.
fn is_gone(holder: &str, place: &str, lives: impl Fn(&str) -> bool) -> bool {
    // A host's name has no underscore; what is not as this program writes it is waited for.
    let parts: Vec<&str> = holder.split('_').collect();
    matches!(parts[..], [_, pid, _, other] if !place.is_empty() && other == place && pid.parse::<u32>().is_ok() && !lives(pid))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_process_of_the_same_namespace_is_known_to_be_gone() {
        for (holder, place, lives, gone) in [
            ("host_12_1700000000000_boot-4026531836", "boot-4026531836", false, true),
            ("host_12_1700000000000_boot-4026531836", "boot-4026531836", true, false),
            // Another container, or another boot, of a host of the same name.
            ("host_12_1700000000000_boot-4026532210", "boot-4026531836", false, false),
            ("host_12_1700000000000_before-4026531836", "boot-4026531836", false, false),
            // Where nobody can tell; an earlier version; something else.
            ("host_12_1700000000000_", "", false, false),
            ("host_12_1700000000000", "boot-4026531836", false, false),
            ("host_.._1_boot-4026531836", "boot-4026531836", false, false),
            ("somebody", "boot-4026531836", false, false),
        ] {
            assert_eq!(is_gone(holder, place, |_| lives), gone, "{holder} at {place:?}");
        }
        assert!(processes().is_none_or(|place| !place.contains('_')), "a part of its own");
    }
}
