//! The API that a command talks to, and the object there that it is about.
//!
//! Every command that needs one flattens [`Target`] into its arguments and calls [`Target::connect`], which has asked the
//! API once before it returns: a later error is about the request, not about the way there.

mod choice;

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kube::config::Kubeconfig;
use kube::core::NamespaceResourceScope;
use kube::{Api, Client, Resource};

pub use choice::ApiSource;
use choice::ChoiceError;

use super::place;

/// Time limit of the first request to an API.
const FIRST_ANSWER: Duration = Duration::from_secs(10);

/// Heading of these options in help texts.
pub const HEADING: &str = "Which API";

/// Choice of an API, and of a namespace in it.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Target {
    /// The kubeconfig [default: $KUBECONFIG, else the embedded API when it runs, else ~/.kube/config].
    #[arg(help_heading = HEADING, long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig [default: the current one].
    #[arg(help_heading = HEADING, long, value_name = "NAME")]
    pub context: Option<String>,
    /// The namespace [default: that of the context].
    #[arg(help_heading = HEADING, short, long, value_name = "NAMESPACE")]
    pub namespace: Option<String>,
    /// The data folder of `capt up` or `capt controller` [default: $CAPT_DATA_DIR, else that of the platform].
    #[arg(help_heading = HEADING, long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
}

/// An API that has answered.
#[derive(Clone)]
pub struct Connection {
    pub client: Client,
    /// The namespace that is meant where none is said.
    pub namespace: String,
    /// Address of the API.
    pub address: String,
    /// Source of the choice.
    pub origin: ApiSource,
    /// Its version, as it says.
    pub version: String,
    /// The data folder whose controller works on it, as far as this machine knows.
    pub folder: Option<PathBuf>,
}

/// Why there is nothing to talk to.
#[derive(Debug, thiserror::Error)]
enum ConnectError {
    #[error("the API at {address} does not answer ({origin}): {why}\n  {what}")]
    Silent { address: String, origin: ApiSource, why: String, what: String },
    #[error(
        "the API at {address} does not know you ({origin}): {why}\n  renew your login, or choose another with --context or --kubeconfig"
    )]
    Unknown { address: String, origin: ApiSource, why: String },
}

impl Target {
    /// Connects to the API that is meant.
    pub async fn connect(&self) -> io::Result<Connection> {
        let (mut config, origin) = choice::choose(self).await.map_err(io::Error::other)?;
        let address = config.cluster_url.to_string().trim_end_matches('/').to_owned();
        config.connect_timeout = Some(FIRST_ANSWER);
        let namespace = self.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
        let client = Client::try_from(config).map_err(in_words)?;
        let version = first_answer(&client, &address, &origin).await.map_err(io::Error::other)?;
        let folder = self.data_dir.clone().or_else(|| default_folder_of(&address));
        Ok(Connection { client, namespace, address, origin, version, folder })
    }

    /// The data folder that is meant: the one that was named, else the default.
    pub fn own_folder(&self) -> Option<PathBuf> {
        self.data_dir.clone().or_else(|| place::default_folder().ok())
    }
}

/// Returns true if there is no API because nothing was ever started here.
pub fn before_first_start(error: &io::Error) -> bool {
    let choice = error.get_ref().and_then(|inner| inner.downcast_ref::<ChoiceError>());
    choice.is_some_and(ChoiceError::before_first_start)
}

impl Connection {
    /// Objects of a kind in the namespace that is meant.
    pub fn api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), &self.namespace)
    }
}

/// The default data folder, unless another API is known to be at home there: its workspaces may have the same names.
fn default_folder_of(address: &str) -> Option<PathBuf> {
    let folder = place::default_folder().ok()?;
    let Ok(kubeconfig) = Kubeconfig::read_from(place::kubeconfig(&folder)) else { return Some(folder) };
    let mut servers =
        kubeconfig.clusters.iter().filter_map(|named| named.cluster.as_ref()?.server.as_deref());
    servers.any(|server| server.trim_end_matches('/') == address).then_some(folder)
}

/// Asks for the version: what goes wrong here is about the way to the API, and is said so.
async fn first_answer(client: &Client, address: &str, origin: &ApiSource) -> Result<String, ConnectError> {
    let silent = |why: String| ConnectError::Silent {
        address: address.to_owned(),
        origin: origin.clone(),
        why,
        what: match origin {
            ApiSource::DataDir(folder) => format!("start it: capt up --data-dir {}", folder.display()),
            ApiSource::Embedded(_) => "start it: capt up".to_owned(),
            ApiSource::Flag(_) | ApiSource::Variable | ApiSource::Home | ApiSource::InCluster => {
                "start it, choose another with --context or --kubeconfig, or start one of your own: capt up"
                    .to_owned()
            }
        },
    };
    let Ok(answer) = tokio::time::timeout(FIRST_ANSWER, client.apiserver_version()).await else {
        return Err(silent(format!("no answer in {} s", FIRST_ANSWER.as_secs())));
    };
    match answer {
        Ok(version) => Ok(version.git_version),
        // It is there, and keeps its version to itself.
        Err(kube::Error::Api(status)) if status.code == 403 => Ok("unknown".to_owned()),
        Err(kube::Error::Api(status)) if status.code == 401 => Err(ConnectError::Unknown {
            address: address.to_owned(),
            origin: origin.clone(),
            why: status.message.clone(),
        }),
        Err(error) => Err(silent(deepest(&error))),
    }
}

/// The innermost cause: the layers above it only say that they were on the way.
fn deepest(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}

/// Connects to the cluster of a kubeconfig, or to the one everybody here means; `folder` is that of the embedded API.
pub async fn connect(kubeconfig: Option<&Path>, folder: &Path) -> io::Result<Client> {
    let mut target = Target { kubeconfig: kubeconfig.map(Path::to_owned), ..Target::default() };
    // A controller that was given a kubeconfig by its environment works on that one, whatever else is in its folder.
    if std::env::var_os("KUBECONFIG").is_none_or(|list| list.is_empty()) && place::kubeconfig(folder).exists()
    {
        target.data_dir = Some(folder.to_owned());
    }
    Ok(target.connect().await?.client)
}

/// An error with everything that led to it, in one line. What the API says is said in its own words.
pub fn in_words(error: impl std::error::Error + 'static) -> io::Error {
    if let Some(kube::Error::Api(status)) = (&error as &dyn std::error::Error).downcast_ref() {
        // An API answers so where it serves no such path, that is where the CRD is missing.
        let unknown = status.code == 404 && status.message.contains("page not found");
        return io::Error::other(if unknown {
            "the API does not know CAPT's kinds\n  install them: capt crds | kubectl apply --server-side -f -"
                .to_owned()
        } else {
            status.message.clone()
        });
    }
    let mut words = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let said = cause.to_string();
        if !words.contains(&said) {
            words = format!("{words}: {said}");
        }
        source = cause.source();
    }
    io::Error::other(words)
}
