//! `capt up`: the whole management plane in one process.
//!
//! ```text
//! read and check every file -> open the plane (API, CRDs, engine, controllers) -> apply -> show until the end
//! ```
//!
//! Nothing is started before all files are known to be good, and nothing is applied before the plane stands.

mod apply;
mod plane;
mod show;
mod wait;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::audit::Audit;
use super::confine::{self, Confine};
use super::metrics::Address;
use super::tenants::CrossNamespace;
use super::{Outcome, Signals, duration, place};
use apply::Manifests;
use plane::Plane;
use show::{Event, Show};
use wait::{End, Waiting};

/// The offline cluster of `--demo`.
const DEMO: [&str; 3] = [
    include_str!("../../../../../examples/cluster/00-templates.yaml"),
    include_str!("../../../../../examples/cluster/10-cluster.yaml"),
    include_str!("../../../../../examples/cluster/20-workers.yaml"),
];

/// Time limit for a run to report the version of Terraform.
const HEARD: Duration = Duration::from_secs(1);

/// Start the API, the controllers and Terraform in this process.
///
/// Applies the files and shows their progress as a tree. All is kept in the data folder: stopped at any moment
/// and started again, it goes on where it was. Runs of Terraform that outlive it are taken up again.
///
/// Examples:
///   capt up --demo
///   capt up -f cluster.yaml -f machines/
///   capt up -f cluster/ --wait --timeout 30m
///   capt up -o json | jq -r 'select(.type == "status") | "\(.kind)/\(.name) \(.phase)"'
#[derive(Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the command line")]
#[command(verbatim_doc_comment)]
#[command(
    after_help = "Exit codes: 0 stopped on request or, with --wait, all is ready; 1 it could not start, a file is wrong or, with --wait, not all became ready; 2 wrong usage."
)]
pub struct Args {
    /// Files, or folders with *.yaml, *.yml and *.json files, to apply; - is standard input.
    #[arg(short, long = "filename", value_name = "FILE|DIR", num_args = 1..)]
    files: Vec<PathBuf>,
    /// Look into the folders of folders too.
    #[arg(short = 'R', long)]
    recursive: bool,
    /// Build an offline cluster with three machines: nothing but Terraform or OpenTofu is needed.
    #[arg(long)]
    demo: bool,
    /// Folder for objects, states and logs; made if it is not there [default: $CAPT_DATA_DIR, else that of the platform].
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Address of the API; port 0 takes a free one.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Allow an address that other machines reach.
    #[arg(long)]
    allow_remote: bool,
    #[command(flatten)]
    audit: Audit,
    #[command(flatten)]
    metrics: Address,
    /// Runs of Terraform at the same time [default: one per core].
    #[arg(long, value_name = "N")]
    slots: Option<usize>,
    #[command(flatten)]
    confine: Confine,
    /// References into other namespaces (Secrets, templates, outputs): all of them (open), or those that a ReferenceGrant there
    /// allows [default: open while no RoleBinding or ClusterRoleBinding gives rights to another user, else granted].
    #[arg(long, value_enum, value_name = "POLICY")]
    cross_namespace: Option<CrossNamespace>,
    /// Stop when all that was applied is ready, or cannot become ready.
    #[arg(long)]
    wait: bool,
    /// Time limit of the wait: 1h, 30m, 90s; 0 disables the timeout.
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = duration::parse, requires = "wait")]
    timeout: Duration,
    /// Print events for programs.
    #[arg(short, long, value_enum)]
    output: Option<Format>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
enum Format {
    /// One JSON object a line.
    Json,
}

pub fn run(args: &Args) -> io::Result<Outcome> {
    let manifests = match Manifests::read(&args.files, args.recursive, args.demo) {
        Ok(manifests) => manifests,
        Err(report) => {
            super::validate::print_text(&report)?;
            anstream::eprintln!("capt: validation failed: nothing was applied");
            return Ok(Outcome::Bad);
        }
    };
    super::validate::print_findings(&mut anstream::stderr().lock(), &manifests.warnings)?;
    let folder = args.data_dir.clone().map_or_else(place::default_folder, Ok)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let outcome = runtime.block_on(stand(args, &folder, &manifests))?;
    // Threads that still use the cryptography when the process exits would abort it. What blocks for longer is not waited for.
    runtime.shutdown_timeout(Duration::from_secs(1));
    Ok(outcome)
}

async fn stand(args: &Args, folder: &std::path::Path, manifests: &Manifests) -> io::Result<Outcome> {
    super::refuse_writes_beyond_the_file_limit()?;
    let mut signals = Signals::listen()?;
    let mut show = Show::new(args.output.is_some());
    let settings = plane::Settings {
        folder,
        listen: args.listen,
        allow_remote: args.allow_remote,
        audit: &args.audit,
        metrics: &args.metrics,
        slots: args.slots,
        confine: &args.confine,
        files: &args.files,
        cross_namespace: args.cross_namespace,
    };
    let unprotected = args.confine.check(folder)?;
    let mut plane = Plane::open(&settings).await?;
    confine::say(unprotected.as_deref());
    match follow(args, &mut plane, manifests, &mut show, &mut signals).await {
        Ok(end) => {
            let again = again(args, manifests);
            let outcome = leave(plane, &mut show, end, &mut signals, &again).await?;
            if args.demo && end == End::Ready {
                show.next_steps(&again)?;
            }
            Ok(outcome)
        }
        Err(error) => {
            plane.close().await;
            Err(error)
        }
    }
}

/// Applies the files and shows their progress.
async fn follow(
    args: &Args,
    plane: &mut Plane,
    manifests: &Manifests,
    show: &mut Show,
    signals: &mut Signals,
) -> io::Result<End> {
    if args.demo && !plane.has_terraform().await {
        plane.needs_terraform().await?;
    }
    show.event(&Event::Listening { url: plane.url(), kubeconfig: plane.kubeconfig() })?;
    let applied = manifests.apply(plane.client(), show).await?;
    let looked = plane.start_controllers();
    let waiting = Waiting::new(applied, args.wait, args.timeout, args.demo);
    let (client, terraform) = (plane.client().clone(), plane.needs_terraform());
    // Runs tell the version, for nothing. Asked now, it would be in their way.
    let terraform = async {
        tokio::time::sleep(HEARD).await;
        terraform.await
    };
    let end = tokio::select! {
        end = waiting.until_the_end(&client, looked, show) => end,
        () = signals.next() => Ok(End::Asked),
        why = plane.broken() => Err(why),
        // What is applied stays, and goes on with one that will do.
        Err(why) = terraform, if args.demo => Err(why),
    }?;
    if args.demo && end == End::NotReady {
        // What to do about the binary, where that is the cause.
        plane.needs_terraform().await?;
    }
    Ok(end)
}

/// Stops without losing anything: what runs ends first, or goes on alone.
async fn leave(
    plane: Plane,
    show: &mut Show,
    end: End,
    signals: &mut Signals,
    again: &str,
) -> io::Result<Outcome> {
    let running = plane.under_way();
    if end == End::Asked && running > 0 {
        show.event(&Event::Finishing { runs: running })?;
        tokio::select! {
            () = plane.finish() => {}
            () = signals.next() => {}
        }
    }
    let left = plane.under_way();
    plane.close().await;
    show.event(&Event::Stopped { runs: left, again: again.to_owned() })?;
    Ok(if end == End::NotReady { Outcome::Bad } else { Outcome::Good })
}

/// The command that goes on from here: what was applied is kept, so that no file needs to be named; the folders that objects
/// name do.
fn again(args: &Args, manifests: &Manifests) -> String {
    let mut words = vec![format!("{} up", show::program())];
    words.extend(args.data_dir.iter().map(|folder| format!("--data-dir {}", folder.display())));
    let given = args.confine.roots(&[]).unwrap_or_default();
    let roots = args.confine.roots(&args.files).unwrap_or_default();
    let named = roots.iter().filter(|root| given.contains(root) || manifests.name(root));
    words.extend(named.map(|root| format!("--allow-path {}", root.display())));
    words.join(" ")
}
