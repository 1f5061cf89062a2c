//! The management plane: API, CRDs, engine and controllers on one data folder.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use capt_apiserver::authn::{Identity, write_kubeconfig};
use capt_apiserver::secure_serving::SecureServer;
use capt_apiserver::store::Store;
use capt_apiserver::{Server, ServerOptions};
use capt_controllers::cluster::core::install;
use capt_controllers::runtime::lease::{Held, LASTS, LeaseError, LeaseHealth};
use capt_controllers::workspace::state_secrets::SecretStateBackend;
use capt_controllers::{ClusterApi, Controllers, Options};
use capt_terraform::inputs::Choice;
use capt_terraform::state_backend::StateBackend;
use capt_terraform::{Engine, Executor};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use tokio::task::JoinSet;

use super::super::audit::Audit;
use super::super::client::in_words;
use super::super::confine::Confine;
use super::super::metrics::{Address, Process, Storage};
use super::super::tenants::CrossNamespace;
use super::super::{controller, logging, place, server};

/// Settings of a plane.
pub struct Settings<'a> {
    pub folder: &'a Path,
    pub listen: SocketAddr,
    pub allow_remote: bool,
    pub audit: &'a Audit,
    pub metrics: &'a Address,
    pub slots: Option<usize>,
    pub confine: &'a Confine,
    pub files: &'a [PathBuf],
    pub cross_namespace: Option<CrossNamespace>,
}

/// An open plane. It answers requests; its controllers are started apart, when all is applied.
pub struct Plane {
    store: Store,
    server: Server,
    serving: SecureServer,
    client: Client,
    engine: Engine,
    lease: Held,
    process: Arc<Process>,
    options: Options,
    controllers: Option<Controllers>,
    folder: PathBuf,
}

impl Plane {
    /// Opens it, with all CRDs in place.
    pub async fn open(settings: &Settings<'_>) -> io::Result<Self> {
        let folder = settings.folder;
        // In a new home not even the folder of all programs' data is there.
        if let Some(parent) = folder.parent() {
            let failed = |error| io::Error::other(format!("make folder {}: {error}", parent.display()));
            std::fs::create_dir_all(parent).map_err(failed)?;
        }
        let endpoint = settings.metrics.bind().await?;
        let store = server::open_store(folder)?;
        logging::to_file(&folder.join("capt.log"))?;
        let (server, serving, identity) = open_api(settings, &store).await?;
        let client = server.client("default");
        install_crds(&client).await?;
        let health = LeaseHealth::default();
        let written = store.clone();
        let storage = Storage::new(folder).with_store(move || written.read_only());
        let process = Arc::new(Process::new(health.clone(), storage));
        if let Some(endpoint) = endpoint {
            // What is printed is for people, or for programs that read events.
            tracing::info!(address = %endpoint.serve(&process), "serves metrics");
        }
        let mut lease = controller::take_lease(None, LASTS, health, &client).await?;
        let policy = match settings.cross_namespace {
            Some(policy) => policy,
            None => CrossNamespace::of_users(&client).await,
        };
        policy.tell(&mut lease).await.map_err(in_words)?;
        let state_backend = SecretStateBackend::new(client.clone(), lease.fence(), false, lease.namespace())
            .claimed(lease.claim());
        let state_backend = Arc::new(state_backend);
        let mut options = capt_terraform::Options::new(place::engine(folder));
        if let Some(slots) = settings.slots {
            options.slots = slots;
        }
        settings.confine.set(&mut options, folder, settings.files)?;
        options.state_backend = Some(Arc::clone(&state_backend) as Arc<dyn StateBackend>);
        let engine = Engine::start(options).await.map_err(in_words)?;
        // Last: whoever finds it finds an API that is ready.
        write_kubeconfig(&place::kubeconfig(folder), &serving.url(), &identity).map_err(in_words)?;
        // The CRD of Cluster is installed: whose it is decides who takes care of Clusters.
        let options = Options {
            state_backend: Some(state_backend),
            cluster_api: ClusterApi::Auto,
            cross_namespace: policy.into(),
            ..Options::default()
        };
        let folder = folder.to_owned();
        Ok(Self {
            store,
            server,
            serving,
            client,
            engine,
            lease,
            process,
            options,
            controllers: None,
            folder,
        })
    }

    pub fn client(&self) -> &Client {
        &self.client
    }

    pub fn url(&self) -> String {
        self.serving.url()
    }

    pub fn kubeconfig(&self) -> PathBuf {
        let path = place::kubeconfig(&self.folder);
        std::path::absolute(&path).unwrap_or(path)
    }

    /// Returns true if Terraform or OpenTofu is installed, even if it does not work.
    pub async fn has_terraform(&self) -> bool {
        self.engine.has_binary(&Choice::default()).await
    }

    /// Says what to do where neither binary is installed, or none will do.
    pub fn needs_terraform(&self) -> impl Future<Output = io::Result<()>> + use<> {
        let engine = self.engine.clone();
        async move {
            engine.binary(&Choice::default()).await.map(drop).map_err(|failure| {
                io::Error::other(format!(
                    "{}\n  install one of them; in a checkout of CAPT, make tools gets OpenTofu",
                    failure.message
                ))
            })
        }
    }

    /// Starts the controllers. What is given back ends when they have looked at all that is there.
    pub fn start_controllers(&mut self) -> impl Future<Output = ()> + use<> {
        let controllers = Controllers::start(&self.client, Arc::new(self.engine.clone()), &self.options);
        self.process.started(&controllers, &self.engine);
        let looked = controllers.looked();
        self.controllers = Some(controllers);
        looked
    }

    /// Ends when something ended that never should, and says what. Renews certificates meanwhile.
    pub async fn broken(&mut self) -> io::Error {
        let kubeconfig = place::kubeconfig(&self.folder);
        let controllers = self.controllers.as_mut();
        let ended = async {
            match controllers {
                Some(controllers) => controllers.ended().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = ended => io::Error::other("a controller ended"),
            why = keep_lease(&mut self.lease, &self.store) => why,
            () = server::renew_certificates(&self.folder, &self.serving, &kubeconfig) => io::Error::other("certificates are not renewed any more"),
        }
    }

    /// Runs of Terraform that have begun and not ended.
    pub fn under_way(&self) -> usize {
        self.engine.under_way()
    }

    /// Starts no run any more, and waits until those that have begun ended. Controllers tell how.
    pub async fn finish(&self) {
        self.engine.finish().await;
    }

    /// Closes it. What still runs goes on, and is taken up at the next start.
    pub async fn close(self) {
        let Self { server, serving, engine, lease, controllers, .. } = self;
        if let Some(controllers) = controllers {
            controllers.stop().await;
        }
        // Journals are written; a stop that hangs would only be killed.
        let _ = tokio::time::timeout(Duration::from_secs(10), engine.stop()).await;
        lease.release().await;
        serving.close().await;
        server.close().await;
    }
}

/// Opens the API on a store.
async fn open_api(settings: &Settings<'_>, store: &Store) -> io::Result<(Server, SecureServer, Identity)> {
    let place = settings.folder.to_owned();
    let identity = tokio::task::spawn_blocking(move || Identity::in_folder(&place, &[], SystemTime::now()));
    let server = Server::on(store.clone(), &ServerOptions::default()).await.map_err(in_words)?;
    let identity = identity.await.map_err(in_words)?.map_err(in_words)?;
    let serving = capt_apiserver::secure_serving::Settings {
        listen: settings.listen,
        allow_remote: settings.allow_remote,
        audit: settings.audit.open()?,
        metrics: Arc::clone(server.metrics()),
        ..capt_apiserver::secure_serving::Settings::default()
    };
    let serving = SecureServer::open(Arc::clone(server.api()), &identity, serving).await.map_err(in_words)?;
    Ok((server, serving, identity))
}

/// Keeps the Lease; ends when somebody else took it, or when nothing can be written any more. While the disk is full it
/// cannot be renewed, but then nobody else can take it either: the API it is in is that of this process.
async fn keep_lease(lease: &mut Held, store: &Store) -> io::Error {
    let mut told = false;
    loop {
        let lost = lease.keep().await;
        if let Some(reason) = store.stats().read_only {
            return io::Error::other(format!("the store takes no more writes: {reason}"));
        }
        if !matches!(lost, LeaseError::Lost(_)) || !lease.confirm().await {
            return in_words(lost);
        }
        if !told {
            anstream::eprintln!(
                "capt: objects cannot be written, the disk may be full: goes on when there is space again"
            );
            told = true;
        }
    }
}

/// Field manager that applies the CRDs of CAPT.
const MANAGER: &str = "capt-up";

/// Installs the CRDs of CAPT, that of Cluster and those that belong to it, or brings them up to date.
async fn install_crds(client: &Client) -> io::Result<()> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let params = PatchParams::apply(MANAGER).force();
    // All at once: the store writes together what comes together.
    let mut installs = JoinSet::new();
    for crd in capt_api::crds() {
        let (api, params) = (api.clone(), params.clone());
        // What comes back is long, and known.
        installs
            .spawn(async move { api.patch_metadata(&crd.name_any(), &params, &Patch::Apply(&crd)).await });
    }
    let own = install::install(client).await;
    for done in installs.join_all().await {
        done.map_err(in_words)?;
    }
    own.map_err(in_words)?;
    Ok(())
}
