//! The core manager of Cluster API, beside a kube-apiserver: its CRDs, its webhooks and its controllers.
//!
//! ```text
//! kube-apiserver --admission and conversion webhooks, TLS--> core (port of its own) --kubeconfig--> kube-apiserver
//! ```
//!
//! Everything is installed as a release installs it, but for two things. Webhooks are named by URL, because the manager
//! is no pod behind a service; and it has the rights of the administrator. Managed topologies are switched on.
//!
//! Its webhook server cannot be told an interface: it alone of all peers listens on every one.

use std::{error::Error as _, fmt, fs, io, path::Path, time::Duration};

use k8s_openapi::ByteString;
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, GroupVersionKind, PostParams},
};
use serde_json::{Value, json};

use crate::{
    apiserver::{KubeApiserver, reserve_port},
    peers::{Peer, Peers},
    pki::Pki,
    process::{Folder, Process, ProcessError},
    wait::{TimedOut, until},
};

/// Some seconds on an idle machine; the rest is for machines that compile at the same time.
const READY_WITHIN: Duration = Duration::from_secs(300);

/// Enough to see the fatal line and what led to it.
const LOG_LINES: usize = 30;

/// Why core does not run.
#[derive(thiserror::Error)]
pub enum CoreError {
    /// Keys or certificates could not be made.
    #[error("make the certificate of the webhooks")]
    Pki(#[from] rcgen::Error),
    /// The process could not be started.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// No port could be had.
    #[error("reserve a port")]
    Port(#[source] io::Error),
    /// A manifest could not be read.
    #[error("read {path}: {problem}")]
    Manifest { path: String, problem: String },
    /// The API refused a manifest.
    #[error("install {name}")]
    Install {
        name: String,
        #[source]
        source: kube::Error,
    },
    /// It ended before it was ready.
    #[error("core ended with status {status} before it was ready; {log}")]
    Ended { status: i32, log: String },
    /// The time was up.
    #[error("{timeout}; last answer: {last}\n{log}")]
    NotReady { timeout: TimedOut, last: String, log: String },
}

/// The form for people, with all causes: it is what `unwrap` in a test prints.
impl fmt::Debug for CoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")?;
        let mut cause = self.source();
        while let Some(error) = cause {
            write!(f, ": {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}

/// A running manager; dropping it stops it. What it installed stays as long as the kube-apiserver.
#[derive(Debug)]
pub struct ClusterApiCore {
    process: Process,
    /// Keeps the port of the webhooks ours.
    _port: tokio::net::TcpSocket,
}

impl ClusterApiCore {
    /// What it needs beside [`KubeApiserver::NEEDS`].
    pub const NEEDS: &[Peer] = &[Peer::ClusterApiCore, Peer::ClusterApiCrds];

    /// Installs Cluster API on `server`, and returns when its webhooks answer.
    pub async fn start(peers: &Peers, server: &KubeApiserver) -> Result<Self, CoreError> {
        let client = server.client();
        let pki = Pki::generate()?;
        let (port, address) = reserve_port().map_err(CoreError::Port)?;
        let webhooks = Webhooks { url: format!("https://{address}"), ca: ByteString(pki.ca.into_bytes()) };
        let manifests = peers.path(Peer::ClusterApiCrds);
        install_crds(&client, &manifests, &webhooks).await?;
        for configuration in read(&manifests.join("webhook/manifests.yaml"))? {
            install(&client, webhooks.admit(configuration)).await?;
        }

        let folder = Folder::new("core")?;
        folder.write("tls.crt", &pki.server.certificate)?;
        folder.write("tls.key", &pki.server.key)?;
        let arguments = [
            format!("--kubeconfig={}", server.kubeconfig_path().display()),
            format!("--webhook-port={}", address.port()),
            "--webhook-cert-dir=.".to_owned(),
            "--feature-gates=ClusterTopology=true".to_owned(),
            // Nobody asks for metrics or health; readiness is seen by what it does.
            "--diagnostics-address=0".to_owned(),
            "--health-addr=0".to_owned(),
        ];
        let process = folder.run(&peers.path(Peer::ClusterApiCore), arguments)?;
        let core = Self { process, _port: port };
        core.until_ready(&client).await?;
        Ok(core)
    }

    /// Its process.
    pub fn process(&self) -> &Process {
        &self.process
    }

    async fn until_ready(&self, client: &Client) -> Result<(), CoreError> {
        let clusters =
            Api::default_namespaced_with(client.clone(), &resource("cluster.x-k8s.io", "v1beta2", "Cluster"));
        let probe: DynamicObject = serde_json::from_value(json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": {"name": "probe"},
            "spec": {"infrastructureRef": {"apiGroup": "example.com", "kind": "Probe", "name": "probe"}},
        }))
        .expect("it is an object");
        let dry = PostParams { dry_run: true, ..PostParams::default() };
        let mut last = String::from("none");
        let ready = until("the webhooks of core answer", READY_WITHIN, async || {
            if let Some(status) = self.process.exit_status() {
                return Some(Err(CoreError::Ended { status, log: self.process.log_tail(LOG_LINES) }));
            }
            match clusters.create(&dry, &probe).await {
                Ok(_) => Some(Ok(())),
                Err(not_yet) => {
                    last = not_yet.to_string();
                    None
                }
            }
        });
        match ready.await {
            Ok(outcome) => outcome,
            Err(timeout) => Err(CoreError::NotReady { timeout, last, log: self.process.log_tail(LOG_LINES) }),
        }
    }
}

/// Where core answers kube-apiserver.
struct Webhooks {
    url: String,
    ca: ByteString,
}

impl Webhooks {
    fn at(&self, path: &str) -> Value {
        json!({"url": format!("{}{path}", self.url), "caBundle": self.ca})
    }

    /// A CRD whose versions core converts.
    fn convert(&self, mut crd: Value) -> Value {
        crd["spec"]["conversion"] = json!({
            "strategy": "Webhook",
            "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": self.at("/convert")},
        });
        crd
    }

    /// A configuration of webhooks that go to core, each by its own path.
    fn admit(&self, mut configuration: Value) -> Value {
        for webhook in configuration["webhooks"].as_array_mut().into_iter().flatten() {
            let path = webhook["clientConfig"]["service"]["path"].as_str().unwrap_or_default().to_owned();
            webhook["clientConfig"] = self.at(&path);
        }
        configuration
    }
}

async fn install_crds(client: &Client, folder: &Path, webhooks: &Webhooks) -> Result<(), CoreError> {
    let unreadable = |problem: io::Error| CoreError::Manifest {
        path: folder.display().to_string(),
        problem: problem.to_string(),
    };
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if path.is_file() {
            for crd in read(&path)? {
                names.push(crd["metadata"]["name"].as_str().unwrap_or_default().to_owned());
                install(client, webhooks.convert(crd)).await?;
            }
        }
    }
    let crds: Api<DynamicObject> =
        Api::all_with(client.clone(), &resource("apiextensions.k8s.io", "v1", "CustomResourceDefinition"));
    for name in names {
        let what = format!("{name} is served");
        let served = until(&what, READY_WITHIN, async || {
            let crd = crds.get(&name).await.ok()?;
            let conditions = crd.data["status"]["conditions"].as_array()?;
            let established = |one: &Value| one["type"] == "Established" && one["status"] == "True";
            conditions.iter().any(established).then_some(())
        });
        served.await.map_err(|timeout| CoreError::NotReady {
            timeout,
            last: String::new(),
            log: String::new(),
        })?;
    }
    Ok(())
}

async fn install(client: &Client, manifest: Value) -> Result<(), CoreError> {
    let text =
        |pointer: &str| manifest.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (version, kind, name) = (text("/apiVersion"), text("/kind"), text("/metadata/name"));
    let (group, version) = version.split_once('/').unwrap_or(("", &version));
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource(group, version, &kind));
    let object: DynamicObject = serde_json::from_value(manifest)
        .map_err(|problem| CoreError::Manifest { path: name.clone(), problem: problem.to_string() })?;
    api.create(&PostParams::default(), &object)
        .await
        .map(drop)
        .map_err(|source| CoreError::Install { name, source })
}

fn resource(group: &str, version: &str, kind: &str) -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind))
}

/// The documents of a file.
fn read(path: &Path) -> Result<Vec<Value>, CoreError> {
    let wrong = |problem: String| CoreError::Manifest { path: path.display().to_string(), problem };
    let text = fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    serde_saphyr::from_multiple(&text).map_err(|error| wrong(error.to_string()))
}

#[cfg(test)]
mod tests;
