//! The whole server: store, API, and what it does by itself.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::BodyExt;
use serde_json::{Value, json};

use crate::authn::User;
use crate::control::{self, ServerOptions};
use crate::handlers::{Api, Body};
use crate::rbac::{self, defaults};
use crate::registry::{Catalogue, ServeError};
use crate::request::write::WriteOptions;
use crate::secure_serving::Metrics;
use crate::status::ApiError;
use crate::storage::{Change, PatchBody, Source, Storage, Target};
use crate::store::{OpenError, Options, Store};

/// Namespaces that are always there.
const NAMESPACES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The store cannot be opened.
    #[error("open the store")]
    Store(#[from] OpenError),
    /// A built-in resource cannot be served; never in a released build.
    #[error("serve what is built in")]
    Serve(#[from] ServeError),
    /// The namespaces that are always there cannot be written.
    #[error("write the first namespaces: {0}")]
    Namespaces(ApiError),
}

/// A running server. It stops when it is dropped.
#[derive(Debug)]
pub struct Server {
    api: Arc<Api>,
    tasks: control::Tasks,
}

impl Server {
    /// Starts on a data folder, which is made if it is not there.
    pub async fn open(folder: &Path) -> Result<Self, StartError> {
        Self::open_with(folder, &ServerOptions::default()).await
    }

    /// Starts on a data folder, with options.
    pub async fn open_with(folder: &Path, options: &ServerOptions) -> Result<Self, StartError> {
        Self::on(Store::open(folder, &Options::default())?, options).await
    }

    /// Starts with nothing on disk, for tests.
    pub async fn in_memory() -> Result<Self, StartError> {
        Self::in_memory_with(&ServerOptions::default()).await
    }

    /// Starts with nothing on disk, with options.
    pub async fn in_memory_with(options: &ServerOptions) -> Result<Self, StartError> {
        Self::on(Store::in_memory(&Options::default())?, options).await
    }

    /// Starts on a store that is open.
    pub async fn on(store: Store, options: &ServerOptions) -> Result<Self, StartError> {
        let storage = Arc::new(Storage::new(store, Arc::new(System)));
        storage.registry.replace(Catalogue::built_in()?);
        ensure(&storage).await?;
        // What CRDs define is served before the first request, not some time after it.
        control::refresh(&storage).await;
        let tasks = control::start(&storage, options);
        Ok(Self { api: Arc::new(Api::new(storage)), tasks })
    }

    /// Stops, and closes the store even while clients are still around. Without it the store is closed when the last of
    /// them is dropped.
    pub async fn close(self) {
        let Self { api, tasks } = self;
        tasks.shutdown().await;
        api.storage.store.close().await;
    }

    /// The API, to be put behind a listener.
    pub fn api(&self) -> &Arc<Api> {
        &self.api
    }

    /// The counters that `/metrics` shows; secure serving in front of the API counts here.
    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.api.metrics
    }

    /// A client in this process, without a socket, with all rights.
    pub fn client(&self, namespace: &str) -> kube::Client {
        let api = Arc::clone(&self.api);
        let service = tower::service_fn(move |request: Request<kube::client::Body>| {
            let api = Arc::clone(&api);
            async move { respond(&api, request).await }
        });
        kube::Client::new(service, namespace)
    }
}

async fn respond(
    api: &Arc<Api>,
    request: Request<kube::client::Body>,
) -> Result<Response<Body>, kube::Error> {
    let (parts, body) = request.into_parts();
    let bytes: Bytes = body.collect().await?.to_bytes();
    Ok(api.respond(&User::admin(), Request::from_parts(parts, bytes)).await)
}

/// Makes what is always there.
async fn ensure(storage: &Storage) -> Result<(), StartError> {
    ensure_namespaces(storage).await.map_err(StartError::Namespaces)?;
    ensure_roles(storage).await;
    Ok(())
}

async fn ensure_namespaces(storage: &Storage) -> Result<(), ApiError> {
    let catalogue = storage.registry.current();
    let served = catalogue.find("", "v1", "namespaces").ok_or(ApiError::UnknownResource)?;
    let target = Target { served: Arc::clone(served), namespace: None, status: false };
    for name in NAMESPACES {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        match storage.create(&target, namespace, &WriteOptions::default(), "kube-apiserver").await {
            // One that is being deleted is made again by the first start after it is gone.
            Ok(_) | Err(ApiError::AlreadyExists { .. } | ApiError::Deleting { .. }) => {}
            // A store that has some already can still be read, and be made room in.
            Err(error) if storage.store.snapshot().count(&served.store_name, None) > 0 => {
                tracing::warn!("cannot make the namespace {name}: {error}");
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Adds what is missing of the roles and bindings that are always there. Where somebody made of one what cannot be brought up to
/// date, that is told: a server that does not start for it is worse.
async fn ensure_roles(storage: &Storage) {
    let catalogue = storage.registry.current();
    let all = [("clusterroles", defaults::roles()), ("clusterrolebindings", defaults::bindings())];
    for (plural, objects) in all {
        let Some(served) = catalogue.find(rbac::GROUP, "v1", plural) else { continue };
        let target = Target { served: Arc::clone(served), namespace: None, status: false };
        // Together, so that a new store writes them to disk at once.
        let writes = objects.into_iter().map(|object| ensure_role(storage, &target, object));
        for refused in futures::future::join_all(writes).await.into_iter().filter_map(Result::err) {
            tracing::warn!("cannot bring the default {plural} up to date: {refused}");
        }
    }
    control::collect_roles(storage).await;
}

async fn ensure_role(storage: &Storage, target: &Target, default: Value) -> Result<(), ApiError> {
    let (options, manager) = (WriteOptions::default(), "kube-apiserver");
    let name = default["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    match storage.get_value(target, &name) {
        Ok(live) => match defaults::repair(&live, &default) {
            Some(patch) => {
                let change = Change::Patch(PatchBody::Merge(patch));
                storage.change(target, &name, &change, &options, manager).await.map(drop)
            }
            None => Ok(()),
        },
        Err(ApiError::NotFound { .. }) => storage.create(target, default, &options, manager).await.map(drop),
        Err(error) => Err(error),
    }
}

/// The real time and real chance.
struct System;

impl Source for System {
    fn now(&self) -> String {
        let seconds = jiff::Timestamp::now().as_second();
        jiff::Timestamp::from_second(seconds).map_or_else(|_| String::new(), |now| now.to_string())
    }

    fn uid(&self) -> String {
        uuid::Uuid::new_v4().to_string()
    }

    fn draw(&self, below: usize) -> usize {
        let random = uuid::Uuid::new_v4().as_u128() % (below.max(1) as u128);
        usize::try_from(random).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests;
