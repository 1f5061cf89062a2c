//! Handing in the last state of a run whose controller cannot do so any more: it was stopped, or lost its Lease and ended.
//!
//! No command for people: the guard of the run starts it, with the environment of the controller.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use capt_controllers::runtime::lease::Held;
use capt_controllers::workspace::state_secrets::SecretStateBackend;
use capt_terraform::engine::last_state;
use capt_terraform::guard::THIS_PROGRAM;
use capt_terraform::guard::term::HandIn;
use capt_terraform::state_backend::StateBackend;

use super::client::{connect, in_words};

/// First argument.
const ROLE: &str = "__hand-in-state";
/// Time limit of one attempt.
const PATIENCE: Duration = Duration::from_secs(10);

/// Writes down for guards how it is called.
pub fn prepare(engine: &Path, kubeconfig: Option<&Path>, data_dir: &Path, lease: &Held) -> io::Result<()> {
    let text = |path: PathBuf| path.to_string_lossy().into_owned();
    let kubeconfig = kubeconfig.map(std::path::absolute).transpose()?.map(text).unwrap_or_default();
    let args = vec![
        ROLE.to_owned(),
        lease.fence().to_string(),
        lease.claim().holder().to_owned(),
        lease.namespace().to_owned(),
        kubeconfig,
        text(std::path::absolute(data_dir)?),
    ];
    let env = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect();
    HandIn { program: THIS_PROGRAM.into(), args, env }.write(engine)
}

/// Hands in, if that is what this process was started for.
pub fn dispatch() -> Option<ExitCode> {
    let mut args = std::env::args_os().skip(1);
    args.next().filter(|role| role == ROLE)?;
    let args: Vec<_> = args.collect();
    let [fence, holder, own, kubeconfig, data_dir, workspace] = args.as_slice() else {
        return Some(ExitCode::FAILURE);
    };
    let term = (fence.as_os_str(), holder.as_os_str());
    let done = hand_in(term, own, Path::new(kubeconfig), Path::new(data_dir), Path::new(workspace));
    Some(if done.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn hand_in(
    (fence, holder): (&OsStr, &OsStr),
    own: &OsStr,
    kubeconfig: &Path,
    data_dir: &Path,
    workspace: &Path,
) -> io::Result<()> {
    let fence = fence.to_str().and_then(|fence| fence.parse().ok()).ok_or(io::ErrorKind::InvalidInput)?;
    let kubeconfig = Some(kubeconfig).filter(|path| !path.as_os_str().is_empty());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let work = async {
        let Some((id, kept)) = last_state(workspace).map_err(|failure| io::Error::other(failure.message))?
        else {
            return Ok(());
        };
        let client = connect(kubeconfig, data_dir).await?;
        // Kept where it was when the run began: nobody says anything else.
        SecretStateBackend::new(client, fence, false, &own.to_string_lossy())
            .former(holder.to_string_lossy().into_owned())
            .keep(&id, kept)
            .await
            .map_err(in_words)
    };
    runtime.block_on(async { tokio::time::timeout(PATIENCE, work).await })?
}
