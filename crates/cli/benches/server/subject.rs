//! A server under load: `capt server` on a data folder, or kube-apiserver with an etcd that syncs to disk.

use std::{
    fs,
    io::{BufRead, BufReader},
    net::SocketAddr,
    path::Path,
    process::{Child, Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use base64::{Engine, engine::general_purpose::STANDARD};
use capt_e2e::{KubeApiserver, Peers};
use serde_json::Value;
use tokio_rustls::rustls::{
    ClientConfig, RootCertStore,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};

use crate::client::{Client, request};

/// The kernel counts the time of processes in hundredths of a second on every platform Rust's Linux has.
const TICKS: f64 = 100.0;

/// A server that answers.
pub struct Subject {
    address: SocketAddr,
    tls: Arc<ClientConfig>,
    pids: Vec<u32>,
    /// From the start of the process to the first good answer of `/readyz`.
    pub ready: Duration,
    _running: Running,
}

#[expect(dead_code, reason = "held until dropped, which ends it")]
enum Running {
    Ours(Ended),
    Theirs(Box<KubeApiserver>),
}

/// A process that ends with its handle.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Subject {
    /// `capt server` in a folder, which may hold the data of an earlier one.
    pub async fn ours(folder: &Path) -> Self {
        let started = Instant::now();
        let mut process = Command::new(env!("CARGO_BIN_EXE_capt"))
            .args(["server", "--data-dir"])
            .arg(folder)
            .stdout(Stdio::piped())
            .spawn()
            .expect("capt runs");
        let mut lines = BufReader::new(process.stdout.take().expect("a pipe")).lines();
        lines.by_ref().take(2).for_each(|line| drop(line.expect("capt says where it listens")));
        let (address, tls) = read_kubeconfig(&folder.join("kubeconfig"));
        let pids = vec![process.id()];
        let running = Running::Ours(Ended(process));
        let mut subject = Self { address, tls, pids, ready: Duration::ZERO, _running: running };
        let status = subject.client().await.send(&request("GET", "/readyz", "", "")).await;
        assert_eq!(status.expect("an answer"), 200);
        subject.ready = started.elapsed();
        subject
    }

    /// kube-apiserver and etcd, in folders of their own.
    pub async fn theirs(peers: &Peers) -> Self {
        let started = Instant::now();
        let server = KubeApiserver::start_durable(peers).await.expect("kube-apiserver starts");
        let ready = started.elapsed();
        let (address, tls) = read_kubeconfig(server.kubeconfig_path());
        let pids = vec![server.apiserver().pid(), server.etcd().pid()];
        Self { address, tls, pids, ready, _running: Running::Theirs(Box::new(server)) }
    }

    /// A new connection.
    pub async fn client(&self) -> Client {
        Client::connect(self.address, Arc::clone(&self.tls)).await.expect("the server takes a connection")
    }

    /// Resident memory of its processes, in MB.
    pub fn memory(&self) -> f64 {
        let kib = |pid: &u32| -> f64 {
            let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
            line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or_default()
        };
        self.pids.iter().map(kib).sum::<f64>() * 1024.0 / 1e6
    }

    /// Processor time its processes have taken so far, in seconds.
    pub fn processor(&self) -> f64 {
        let ticks = |pid: &u32| -> f64 {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            // Behind the name, which may hold anything: state is the first field, user and system time the 12th and 13th.
            let fields = stat.rsplit_once(") ").map_or("", |(_, fields)| fields);
            fields.split(' ').skip(11).take(2).filter_map(|field| field.parse::<f64>().ok()).sum()
        };
        self.pids.iter().map(ticks).sum::<f64>() / TICKS
    }
}

fn read_kubeconfig(path: &Path) -> (SocketAddr, Arc<ClientConfig>) {
    let text = fs::read_to_string(path).expect("the server wrote a kubeconfig");
    let config: Value = serde_saphyr::from_str(&text).expect("a kubeconfig is YAML");
    let (cluster, user) = (&config["clusters"][0]["cluster"], &config["users"][0]["user"]);
    let pem = |value: &Value| STANDARD.decode(value.as_str().expect("text")).expect("base64");
    let address = cluster["server"].as_str().and_then(|url| url.strip_prefix("https://")?.parse().ok());
    let mut roots = RootCertStore::empty();
    let authority = CertificateDer::from_pem_slice(&pem(&cluster["certificate-authority-data"]));
    roots.add(authority.expect("a certificate")).expect("a certificate of an authority");
    let certificate = CertificateDer::from_pem_slice(&pem(&user["client-certificate-data"])).expect("one");
    let key = PrivateKeyDer::from_pem_slice(&pem(&user["client-key-data"])).expect("a key");
    let tls = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("the versions are the provider's own")
        .with_root_certificates(roots)
        .with_client_auth_cert(vec![certificate], key)
        .expect("the key is the certificate's");
    (address.expect("the address of a socket"), Arc::new(tls))
}
