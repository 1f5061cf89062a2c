//! The management plane: API, CRDs, engine and controllers on one data folder.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use capt_apiserver::door::{Door, Identity, write_kubeconfig};
use capt_apiserver::{Server, ServerOptions};
use capt_controllers::cluster::core::install;
use capt_controllers::runtime::lease::Held;
use capt_controllers::workspace::keeper::SecretKeeper;
use capt_controllers::{ClusterApi, Controllers, Options};
use capt_terraform::Engine;
use capt_terraform::keeper::Keeper;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use tokio::task::JoinSet;

use super::super::client::in_words;
use super::super::{controller, place, server};

/// How a plane is opened.
pub struct Settings<'a> {
    pub folder: &'a Path,
    pub listen: SocketAddr,
    pub allow_remote: bool,
    pub slots: Option<usize>,
}

/// An open plane. It answers requests; its controllers are started apart, when all is applied.
pub struct Plane {
    server: Server,
    door: Door,
    client: Client,
    engine: Engine,
    lease: Held,
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
        let server = Server::open_with(folder, &ServerOptions::default()).await.map_err(in_words)?;
        let identity = Identity::in_folder(folder, &[], SystemTime::now()).map_err(in_words)?;
        let doors = capt_apiserver::door::Settings {
            listen: settings.listen,
            allow_remote: settings.allow_remote,
            metrics: Arc::clone(server.metrics()),
            ..capt_apiserver::door::Settings::default()
        };
        let door = Door::open(Arc::clone(server.api()), &identity, doors).await.map_err(in_words)?;
        let client = server.client("default");
        let (lease, installed) = tokio::join!(controller::take_lease(None, &client), install_crds(&client));
        let (lease, ()) = (lease?, installed?);
        let keeper = Arc::new(SecretKeeper::new(client.clone(), lease.fence(), false));
        let mut options = capt_terraform::Options::new(place::engine(folder));
        if let Some(slots) = settings.slots {
            options.slots = slots;
        }
        options.sandbox = controller::sandbox_helper();
        options.keeper = Some(Arc::clone(&keeper) as Arc<dyn Keeper>);
        let engine = Engine::start(options).await.map_err(in_words)?;
        // Last: whoever finds it finds an API that is ready.
        write_kubeconfig(&place::kubeconfig(folder), &door.url(), &identity).map_err(in_words)?;
        let options = Options { keeper: Some(keeper), cluster_api: ClusterApi::Own, ..Options::default() };
        Ok(Self {
            server,
            door,
            client,
            engine,
            lease,
            options,
            controllers: None,
            folder: folder.to_owned(),
        })
    }

    pub fn client(&self) -> &Client {
        &self.client
    }

    pub fn url(&self) -> String {
        self.door.url()
    }

    pub fn kubeconfig(&self) -> PathBuf {
        let path = place::kubeconfig(&self.folder);
        std::path::absolute(&path).unwrap_or(path)
    }

    /// Says what to do where neither binary is installed.
    pub fn needs_terraform(&self) -> io::Result<()> {
        let found = self.engine.binary(&capt_terraform::inputs::Choice::default());
        found.map(drop).map_err(|failure| {
            io::Error::other(format!(
                "{}\n  install one of them; in a checkout of CAPT, make tools gets OpenTofu",
                failure.message
            ))
        })
    }

    pub fn start_controllers(&mut self) {
        self.controllers = Some(Controllers::start(&self.client, &self.engine, &self.options));
    }

    /// Ends when something ended that never should, and says what. Renews certificates meanwhile.
    pub async fn broken(&mut self) -> io::Error {
        let kubeconfig = place::kubeconfig(&self.folder);
        let controllers = self.controllers.as_mut();
        tokio::select! {
            () = async { match controllers { Some(controllers) => controllers.ended().await, None => std::future::pending().await } } => io::Error::other("a controller ended"),
            lost = self.lease.keep() => in_words(lost),
            () = server::renew_daily(&self.folder, &self.door, &kubeconfig) => io::Error::other("certificates are not renewed any more"),
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
        let Self { server, door, engine, lease, controllers, .. } = self;
        drop(controllers);
        // Journals are written; a stop that hangs would only be killed.
        let _ = tokio::time::timeout(Duration::from_secs(10), engine.stop()).await;
        lease.release().await;
        door.close().await;
        server.close().await;
    }
}

/// Installs the CRDs of CAPT and that of Cluster, or brings them up to date.
async fn install_crds(client: &Client) -> io::Result<()> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let params = PatchParams::apply("capt-up").force();
    // All at once: the store writes together what comes together.
    let mut installs = JoinSet::new();
    for crd in capt_api::crd::written() {
        let name = crd["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        if name != install::NAME {
            let (api, params) = (api.clone(), params.clone());
            // What comes back is long, and known.
            installs.spawn(async move { api.patch_metadata(&name, &params, &Patch::Apply(&crd)).await });
        }
    }
    let own = install::install(client).await;
    for done in installs.join_all().await {
        done.map_err(in_words)?;
    }
    own.map_err(in_words)?;
    Ok(())
}
