//! Choice of the API: by a flag, else `$KUBECONFIG`, else the embedded one if it runs, else the kubeconfig in the home folder,
//! else the cluster that this process runs in.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use tokio::net::TcpStream;

use super::{Target, in_words};
use crate::commands::place;

/// Time limit of the embedded API to answer before the next choice: it is on this machine.
const EMBEDDED_ANSWERS: Duration = Duration::from_millis(500);

/// Source of the choice of an API.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ApiSource {
    /// `--kubeconfig`.
    Flag(PathBuf),
    /// `--data-dir`: the embedded API of that folder.
    DataDir(PathBuf),
    /// `$KUBECONFIG`.
    Variable,
    /// The embedded API, which runs.
    Embedded(PathBuf),
    /// `~/.kube/config`.
    Home,
    /// The cluster this process runs in.
    InCluster,
}

impl fmt::Display for ApiSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(path) => write!(f, "--kubeconfig {}", path.display()),
            Self::DataDir(folder) => write!(f, "--data-dir {}", folder.display()),
            Self::Variable => {
                let list = std::env::var_os("KUBECONFIG").unwrap_or_default();
                write!(f, "$KUBECONFIG: {}", Path::new(&list).display())
            }
            Self::Embedded(path) => write!(f, "the embedded API: {}", path.display()),
            Self::Home => f.write_str("~/.kube/config"),
            Self::InCluster => f.write_str("the cluster this runs in"),
        }
    }
}

/// Why no API was found, or the one that was is of no use.
#[derive(Debug, thiserror::Error)]
pub enum ChoiceError {
    #[error("there is no Kubernetes API to talk to: neither --kubeconfig nor $KUBECONFIG nor ~/.kube/config names one, and none runs on {}\n  start one: capt up", .0.display())]
    Nothing(PathBuf),
    #[error("there is no Kubernetes API in --data-dir {}: it has no kubeconfig\n  start one: capt up --data-dir {}", .0.display(), .0.display())]
    NotThere(PathBuf),
    #[error("read the kubeconfig ({origin}): {why}")]
    Unreadable { origin: ApiSource, why: io::Error },
    #[error("there is no context {name} ({origin}); there are: {}", .there.join(", "))]
    NoContext { name: String, origin: ApiSource, there: Vec<String> },
}

impl ChoiceError {
    /// Returns true if the data folder holds nothing of an earlier start.
    pub fn before_first_start(&self) -> bool {
        match self {
            Self::Nothing(folder) | Self::NotThere(folder) => {
                !place::kubeconfig(folder).exists() && !place::engine(folder).exists()
            }
            Self::Unreadable { .. } | Self::NoContext { .. } => false,
        }
    }
}

/// Finds out which API is meant, and how to reach it.
pub async fn choose(target: &Target) -> Result<(Config, ApiSource), ChoiceError> {
    if let Some(path) = &target.kubeconfig {
        return read(path, ApiSource::Flag(path.clone()), target).await;
    }
    if let Some(folder) = &target.data_dir {
        let path = place::kubeconfig(folder);
        if path.exists() {
            return read(&path, ApiSource::DataDir(folder.clone()), target).await;
        }
        // The folder may be that of a controller alone, which works on an API of somebody else.
        if !place::engine(folder).exists() {
            return Err(ChoiceError::NotThere(folder.clone()));
        }
    }
    if std::env::var_os("KUBECONFIG").is_some_and(|list| !list.is_empty()) {
        return standard(ApiSource::Variable, target).await;
    }
    let folder = target.own_folder();
    // A context is one of the user's own: the embedded API has none to choose from.
    if target.context.is_none()
        && let Some(path) = folder.as_deref().map(place::kubeconfig).filter(|path| path.exists())
        && let Ok((config, origin)) = read(&path, ApiSource::Embedded(path.clone()), target).await
        && answers(&config).await
    {
        return Ok((config, origin));
    }
    if home_kubeconfig().is_some_and(|path| path.exists()) {
        return standard(ApiSource::Home, target).await;
    }
    if let Ok(config) = Config::incluster() {
        return Ok((config, ApiSource::InCluster));
    }
    Err(ChoiceError::Nothing(folder.unwrap_or_default()))
}

fn home_kubeconfig() -> Option<PathBuf> {
    std::env::var_os("HOME").map(|home| Path::new(&home).join(".kube/config"))
}

fn options(target: &Target) -> KubeConfigOptions {
    KubeConfigOptions { context: target.context.clone(), ..KubeConfigOptions::default() }
}

/// A kubeconfig that was named.
async fn read(path: &Path, origin: ApiSource, target: &Target) -> Result<(Config, ApiSource), ChoiceError> {
    let unreadable = |error| ChoiceError::Unreadable { origin: origin.clone(), why: in_words(error) };
    let kubeconfig = Kubeconfig::read_from(path).map_err(unreadable)?;
    resolve(kubeconfig, origin, target).await
}

/// The kubeconfigs that every client of Kubernetes reads.
async fn standard(origin: ApiSource, target: &Target) -> Result<(Config, ApiSource), ChoiceError> {
    let unreadable = |error| ChoiceError::Unreadable { origin: origin.clone(), why: in_words(error) };
    let kubeconfig = Kubeconfig::read().map_err(unreadable)?;
    resolve(kubeconfig, origin, target).await
}

async fn resolve(
    kubeconfig: Kubeconfig,
    origin: ApiSource,
    target: &Target,
) -> Result<(Config, ApiSource), ChoiceError> {
    let there: Vec<String> = kubeconfig.contexts.iter().map(|context| context.name.clone()).collect();
    match Config::from_custom_kubeconfig(kubeconfig, &options(target)).await {
        Ok(config) => Ok((config, origin)),
        Err(KubeconfigError::LoadContext(name)) => Err(ChoiceError::NoContext { name, origin, there }),
        Err(error) => Err(ChoiceError::Unreadable { origin, why: in_words(error) }),
    }
}

/// Returns true if a server answers at the address.
async fn answers(config: &Config) -> bool {
    let url = &config.cluster_url;
    let Some(host) = url.host() else { return false };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let port = url.port_u16().unwrap_or(443);
    matches!(tokio::time::timeout(EMBEDDED_ANSWERS, TcpStream::connect((host, port))).await, Ok(Ok(_)))
}
