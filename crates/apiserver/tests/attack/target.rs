//! The server under attack: this test binary once more, as a process whose memory is the server's.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use capt_apiserver::Server;
use capt_apiserver::authn::Identity;
use capt_apiserver::secure_serving::{Limits, SecureServer, Settings};
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::{http1::SendRequest, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};
use tokio::net::{TcpSocket, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, pem::PemObject as _};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto::aws_lc_rs};

/// What makes this binary a server: how many connections it takes.
const SERVE: &str = "CAPT_ATTACK_SERVE";
/// Longer than anything here takes; reached only by a failure.
pub const DEADLINE: Duration = Duration::from_secs(300);

/// Serves until its input ends, where it is started to do so.
#[test]
fn serves_until_its_input_ends() {
    let Ok(connections) = std::env::var(SERVE) else { return };
    let limits = Limits { connections: connections.parse().unwrap(), ..Limits::default() };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let server = Server::in_memory().await.unwrap();
        let identity = Identity::in_memory(&[], SystemTime::now()).unwrap();
        let settings = Settings { limits, ..Settings::default() };
        let serving = SecureServer::open(Arc::clone(server.api()), &identity, settings).await.unwrap();
        let told =
            json!({"address": serving.address(), "ca": identity.ca_certificate(), "token": identity.token()});
        writeln!(std::io::stdout(), "\nSERVING {told}").unwrap();
        tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new())).await.unwrap().unwrap();
    });
}

/// A server in a process of its own.
pub struct Target {
    child: Child,
    address: SocketAddr,
    connector: TlsConnector,
    token: String,
}

impl Target {
    pub fn start() -> Self {
        Self::with_connections(Limits::default().connections)
    }

    pub fn with_connections(connections: usize) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "target::serves_until_its_input_ends", "--nocapture"])
            .env(SERVE, connections.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let told = lines.find_map(|line| line.unwrap().strip_prefix("SERVING ").map(str::to_owned)).unwrap();
        let told: Value = serde_json::from_str(&told).unwrap();
        let text = |name: &str| told[name].as_str().unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(text("ca").as_bytes()).unwrap()).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        Self {
            address: text("address").parse().unwrap(),
            connector: TlsConnector::from(Arc::new(config)),
            token: text("token").to_owned(),
            child,
        }
    }

    pub fn token(&self) -> &str {
        &self.token
    }

    /// The most memory the process ever had, in bytes. The kernel counts in batches: a little less may follow.
    pub fn most_memory(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.split_whitespace().next().unwrap().parse::<u64>().unwrap() * 1024
    }

    /// Processor time the process has used, in the kernel's ticks.
    pub fn ticks(&self) -> u64 {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        let after_name = stat.rsplit(')').next().unwrap();
        after_name.split_whitespace().skip(11).take(2).map(|field| field.parse::<u64>().unwrap()).sum()
    }

    pub async fn tcp(&self) -> TcpStream {
        let socket = TcpSocket::new_v4().unwrap();
        // Otherwise the kernel takes megabytes of what nobody reads.
        socket.set_recv_buffer_size(32 << 10).unwrap();
        socket.connect(self.address).await.unwrap()
    }

    /// A connection of nobody yet.
    pub async fn tls(&self) -> TlsStream<TcpStream> {
        let name = ServerName::from(self.address.ip());
        self.connector.connect(name, self.tcp().await).await.unwrap()
    }

    /// A client of HTTP/2 that takes a little of each answer and no more until it is read.
    pub async fn http2(&self) -> http2::SendRequest<Full<Bytes>> {
        self.http2_taking(1 << 10).await
    }

    /// A client of HTTP/2 that takes so many bytes of each answer and no more until it is read.
    pub async fn http2_taking(&self, window: u32) -> http2::SendRequest<Full<Bytes>> {
        let mut config = ClientConfig::clone(self.connector.config());
        config.alpn_protocols = vec![b"h2".to_vec()];
        let name = ServerName::from(self.address.ip());
        let stream = TlsConnector::from(Arc::new(config)).connect(name, self.tcp().await).await.unwrap();
        let mut http = http2::Builder::new(TokioExecutor::new());
        http.initial_stream_window_size(window).initial_connection_window_size(1 << 20);
        let (sender, connection) = http.handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        sender
    }

    /// A client on a connection of its own.
    pub async fn client(&self) -> Client {
        let io = TokioIo::new(self.tls().await);
        // A hundred warnings are as many headers as hyper takes unless it is told otherwise.
        let mut http = hyper::client::conn::http1::Builder::new();
        let (sender, connection) = http.max_headers(200).handshake(io).await.unwrap();
        tokio::spawn(connection);
        Client { sender, token: self.token.clone(), user: None }
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The administrator, on one connection, or somebody whom they act as.
pub struct Client {
    sender: SendRequest<Full<Bytes>>,
    token: String,
    user: Option<&'static str>,
}

impl Client {
    /// The rights of a user from now on; budgets are those of the administrator.
    pub fn acting_as(self, user: &'static str) -> Self {
        Self { user: Some(user), ..self }
    }

    pub async fn send(&mut self, method: &str, path: &str, kind: &str, body: Vec<u8>) -> Response<Incoming> {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", "localhost")
            .header("authorization", format!("Bearer {}", self.token))
            .header("content-type", kind);
        if let Some(user) = self.user {
            request = request.header("impersonate-user", user);
        }
        let request = request.body(Full::from(body)).unwrap();
        tokio::time::timeout(DEADLINE, self.sender.send_request(request)).await.unwrap().unwrap()
    }

    /// Code and body of an answer.
    pub async fn ask(&mut self, method: &str, path: &str, kind: &str, body: Vec<u8>) -> (u16, Value) {
        let answer = self.send(method, path, kind, body).await;
        let code = answer.status().as_u16();
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        (code, serde_json::from_slice(&body).unwrap_or_default())
    }

    pub async fn get(&mut self, path: &str) -> (u16, Value) {
        self.ask("GET", path, "application/json", Vec::new()).await
    }

    /// The code of an answer that is to be a table.
    pub async fn as_table(&mut self, path: &str) -> u16 {
        let accept = "application/json;as=Table;v=v1;g=meta.k8s.io";
        let request = Request::builder()
            .uri(path)
            .header("host", "localhost")
            .header("authorization", format!("Bearer {}", self.token))
            .header("accept", accept);
        let request = request.body(Full::default()).unwrap();
        let answer =
            tokio::time::timeout(DEADLINE, self.sender.send_request(request)).await.unwrap().unwrap();
        let code = answer.status().as_u16();
        answer.into_body().collect().await.unwrap();
        code
    }

    pub async fn create(&mut self, path: &str, object: &Value) -> (u16, Value) {
        self.ask("POST", path, "application/json", object.to_string().into_bytes()).await
    }
}
