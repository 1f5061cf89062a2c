//! One kube-apiserver with its etcd: fresh, ready, and gone when the test is.
//!
//! ```text
//! client --TLS, client certificate--> kube-apiserver (127.0.0.1:port) --unix socket--> etcd
//! ```
//!
//! Authorization is RBAC, as in a cluster; [`KubeApiserver::client`] is a member of `system:masters`, and acts for
//! others by impersonation. No controllers run: namespaces are not emptied, owned objects are not collected, pods
//! are not scheduled. Service-account admission is off for the same reason: nobody would make the accounts.
//!
//! Start-up needs no free port to be guessed. etcd has none, and the one of kube-apiserver is reserved first, by a
//! socket that is bound and never listens. While it exists the kernel gives the port to nobody who asks for any
//! port, but lets kube-apiserver, which names it, listen there (both sockets have `SO_REUSEADDR`).

use std::{
    error::Error as _,
    ffi::OsString,
    fmt, io,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    time::Duration,
};

use k8s_openapi::{ByteString, api::core::v1::Namespace};
use kube::{
    Api, Client, Config,
    config::{KubeConfigOptions, Kubeconfig, KubeconfigError},
    core::Request,
};
use serde_json::json;
use tokio::net::TcpSocket;

use crate::{
    peers::{Peer, Peers},
    pki::{Identity, Pki},
    process::{Folder, Process, ProcessError},
    wait::{TimedOut, until},
};

/// Two seconds on an idle machine; the rest is for machines that compile at the same time.
const READY_WITHIN: Duration = Duration::from_secs(300);

/// Made one after the other by a loop of the server that readiness does not cover. Nearly every test uses one of them,
/// and a test that compares lists is not to see them come.
const NAMESPACES: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];

/// Enough to see the fatal line and what led to it.
const LOG_LINES: usize = 30;

/// Why there is no control plane.
#[derive(thiserror::Error)]
pub enum StartError {
    /// Keys or certificates could not be made.
    #[error("make the certificates of the control plane")]
    Pki(#[from] rcgen::Error),
    /// A process could not be started.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// No port could be had on the loopback interface.
    #[error("reserve a loopback port")]
    Port(#[source] io::Error),
    /// The kubeconfig that was written is not understood.
    #[error("read the kubeconfig of the control plane back")]
    Kubeconfig(#[from] KubeconfigError),
    /// The kubeconfig makes no client.
    #[error("make a client of the control plane")]
    Client(#[source] kube::Error),
    /// A process ended before the control plane was ready.
    #[error("{name} ended with status {status} before it was ready; {log}")]
    Ended { name: String, status: i32, log: String },
    /// The time was up.
    #[error("{timeout}; last answer: {last}\n{logs}")]
    NotReady { timeout: TimedOut, last: String, logs: String },
}

/// The form for people, with all causes: it is what `unwrap` in a test prints, and the derived form would show a log
/// as one line.
impl fmt::Debug for StartError {
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

/// A running control plane; dropping it stops it and removes its files.
///
/// It may be kept in a `static` and shared by the tests of a binary: statics are not dropped, but the end of the
/// process stops it as well.
pub struct KubeApiserver {
    // In the order in which they stop.
    apiserver: Process,
    etcd: Process,
    url: String,
    kubeconfig: PathBuf,
    config: Config,
    /// Keeps the port ours for as long as the server may need it.
    _port: TcpSocket,
}

impl KubeApiserver {
    /// The peers it is made of.
    pub const NEEDS: &[Peer] = &[Peer::KubeApiserver, Peer::Etcd];

    /// Starts a control plane and returns when `/readyz` says so and the namespaces that are always there exist.
    pub async fn start(peers: &Peers) -> Result<Self, StartError> {
        // The data does not outlive the process.
        Self::start_with(peers, &["--unsafe-no-fsync"]).await
    }

    /// The same, with an etcd that syncs every write to disk as in production: for measurements.
    pub async fn start_durable(peers: &Peers) -> Result<Self, StartError> {
        Self::start_with(peers, &[]).await
    }

    async fn start_with(peers: &Peers, etcd_options: &[&str]) -> Result<Self, StartError> {
        let pki = Pki::generate()?;
        let etcd = start_etcd(peers, etcd_options)?;
        let (port, address) = reserve_port().map_err(StartError::Port)?;
        let url = format!("https://{address}");

        let folder = Folder::new("kube-apiserver")?;
        let kubeconfig = folder.write("kubeconfig", kubeconfig(&url, &pki.ca, &pki.admin))?;
        let read_back = Kubeconfig::read_from(&kubeconfig)?;
        let config = Config::from_custom_kubeconfig(read_back, &KubeConfigOptions::default()).await?;
        let apiserver = start_apiserver(peers, folder, &pki, address, &etcd_socket(&etcd))?;

        let server = Self { apiserver, etcd, url, kubeconfig, config, _port: port };
        server.until_ready().await?;
        Ok(server)
    }

    /// A new client with all rights. Each call makes its own, because a client works only as long as the runtime
    /// it was made on, and every `#[tokio::test]` has its own.
    #[expect(clippy::missing_panics_doc, reason = "the same configuration made a client at start-up")]
    pub fn client(&self) -> Client {
        Client::try_from(self.config.clone()).expect("the same configuration made a client at start-up")
    }

    /// The configuration behind [`KubeApiserver::client`], to impersonate somebody or to change timeouts.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// A kubeconfig file for `kubectl` and other programs; it refers to no other file.
    pub fn kubeconfig_path(&self) -> &Path {
        &self.kubeconfig
    }

    /// The address of the API.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The process of kube-apiserver.
    pub fn apiserver(&self) -> &Process {
        &self.apiserver
    }

    /// The process of etcd.
    pub fn etcd(&self) -> &Process {
        &self.etcd
    }

    async fn until_ready(&self) -> Result<(), StartError> {
        let mut config = self.config.clone();
        // Here a refusal means not yet; the client's own retries would only delay the next look.
        config.default_retry = false;
        let client = Client::try_from(config).map_err(StartError::Client)?;
        let mut last = String::from("none");
        let ready = until("kube-apiserver is ready", READY_WITHIN, async || {
            if let Some(ended) = self.ended() {
                return Some(Err(ended));
            }
            match probe(&client).await {
                Ok(()) => Some(Ok(())),
                Err(not_yet) => {
                    last = not_yet;
                    None
                }
            }
        });
        match ready.await {
            Ok(outcome) => outcome,
            Err(timeout) => {
                let logs = [&self.apiserver, &self.etcd].map(|process| process.log_tail(LOG_LINES)).concat();
                Err(StartError::NotReady { timeout, last, logs })
            }
        }
    }

    /// The process that ended, if one has. etcd first: without it kube-apiserver ends as well, and says less.
    fn ended(&self) -> Option<StartError> {
        [&self.etcd, &self.apiserver].into_iter().find_map(|process| {
            let status = process.exit_status()?;
            Some(StartError::Ended {
                name: process.name().to_owned(),
                status,
                log: process.log_tail(LOG_LINES),
            })
        })
    }
}

impl fmt::Debug for KubeApiserver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not the configuration: it has the administrator's key.
        f.debug_struct("KubeApiserver").field("url", &self.url).finish_non_exhaustive()
    }
}

/// One look at the server; what it lacks, if it is not ready.
async fn probe(client: &Client) -> Result<(), String> {
    let readyz = Request::new("").get("readyz", &kube::api::GetParams::default());
    let readyz = readyz.map_err(|error| error.to_string())?;
    client.request_text(readyz).await.map_err(|error| error.to_string())?;
    let namespaces = Api::<Namespace>::all(client.clone());
    for name in NAMESPACES {
        match namespaces.get_opt(name).await {
            Ok(Some(_)) => {}
            Ok(None) => return Err(format!("the namespace {name} does not exist")),
            Err(error) => return Err(error.to_string()),
        }
    }
    Ok(())
}

/// A port that nobody else gets while the socket is there.
pub(crate) fn reserve_port() -> io::Result<(TcpSocket, SocketAddr)> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind((Ipv4Addr::LOCALHOST, 0).into())?;
    let address = socket.local_addr()?;
    Ok((socket, address))
}

fn start_etcd(peers: &Peers, options: &[&str]) -> Result<Process, ProcessError> {
    let folder = Folder::new("etcd")?;
    let clients = format!("--listen-client-urls=unix://{}", folder.path().join(ETCD_SOCKET).display());
    let mut arguments = vec![
        clients.as_str(),
        // Checked for a port and then used by nobody, there being one member.
        "--advertise-client-urls=unix://unused:1",
        "--listen-peer-urls=unix://peer:1",
        "--initial-advertise-peer-urls=unix://peer:1",
        "--initial-cluster=default=unix://peer:1",
        "--data-dir=data",
        // A lone member wins its first election after three heartbeats; nobody can disturb it later.
        "--heartbeat-interval=10",
        "--election-timeout=100",
        // As kubeadm sets it: lets the watch cache of kube-apiserver advance when nothing is written.
        "--watch-progress-notify-interval=5s",
    ];
    arguments.extend(options);
    folder.run(&peers.path(Peer::Etcd), arguments)
}

const ETCD_SOCKET: &str = "client.sock";

fn etcd_socket(etcd: &Process) -> PathBuf {
    etcd.folder().path().join(ETCD_SOCKET)
}

fn start_apiserver(
    peers: &Peers,
    folder: Folder,
    pki: &Pki,
    address: SocketAddr,
    etcd_socket: &Path,
) -> Result<Process, ProcessError> {
    folder.write("ca.crt", &pki.ca)?;
    folder.write("server.crt", &pki.server.certificate)?;
    folder.write("server.key", &pki.server.key)?;
    folder.write("token.key", &pki.token_key)?;
    folder.write("token.pub", &pki.token_public_key)?;
    let mut etcd = OsString::from("--etcd-servers=unix://");
    etcd.push(etcd_socket);
    let mut arguments = vec![etcd, format!("--secure-port={}", address.port()).into()];
    arguments.extend(
        [
            "--bind-address=127.0.0.1",
            // Without it the server looks for a default route, which a sandbox need not have.
            "--advertise-address=127.0.0.1",
            // Endpoints of the service `kubernetes` may not be on loopback.
            "--endpoint-reconciler-type=none",
            // A test that takes minutes still finds every revision that it was told.
            "--etcd-compaction-interval=0",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--authorization-mode=RBAC",
            "--client-ca-file=ca.crt",
            "--tls-cert-file=server.crt",
            "--tls-private-key-file=server.key",
            "--service-account-issuer=https://kubernetes.default.svc",
            "--service-account-key-file=token.pub",
            "--service-account-signing-key-file=token.key",
            "--disable-admission-plugins=ServiceAccount",
            "--profiling=false",
        ]
        .map(OsString::from),
    );
    folder.run(&peers.path(Peer::KubeApiserver), arguments)
}

/// JSON is YAML; credentials are inlined so that the file can be copied anywhere.
fn kubeconfig(url: &str, ca: &str, user: &Identity) -> String {
    let base64 = |pem: &str| ByteString(pem.as_bytes().to_vec());
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "capt-e2e",
        "contexts": [{"name": "capt-e2e", "context": {"cluster": "capt-e2e", "user": "admin"}}],
        "clusters": [{
            "name": "capt-e2e",
            "cluster": {"server": url, "certificate-authority-data": base64(ca)},
        }],
        "users": [{
            "name": "admin",
            "user": {
                "client-certificate-data": base64(&user.certificate),
                "client-key-data": base64(&user.key),
            },
        }],
    })
    .to_string()
}

#[cfg(test)]
mod tests;
