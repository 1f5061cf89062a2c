//! Secure serving with real TLS clients on one side and an API that plays dumb on the other.

mod clients;
mod identity;
mod limits;
mod shutdown;
mod threads;
mod who;

use std::{
    convert::Infallible,
    io,
    net::SocketAddr,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    task::{Context, Poll},
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use futures::StreamExt as _;
use http::{Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};
use tokio::{
    net::TcpStream,
    sync::{Notify, mpsc},
};
use tokio_rustls::{
    TlsConnector,
    client::TlsStream,
    rustls::{
        self, RootCertStore,
        pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
    },
};

use super::{
    Body, Finite, Impersonator, Limits, RequestHandler, SecureServer, Settings, UnsharedBytes, User,
};
use crate::authn::Identity;
use crate::rbac::{ResourceAttributes, Verdict};

/// Longer than anything here takes; reached only by a failure.
const DEADLINE: Duration = Duration::from_secs(120);

/// Answers by path; what it was asked to do slowly is steered by the test.
#[derive(Default)]
struct Dummy {
    entered: Notify,
    released: Notify,
    flooded: Arc<AtomicU64>,
    flood_ended: Arc<Notify>,
    gate: Arc<threads::Gate>,
}

impl RequestHandler for Dummy {
    async fn respond(self: Arc<Self>, user: User, request: Request<Bytes>) -> Response<Body> {
        match request.uri().path() {
            "/livez" => text("ok"),
            "/version" => text(include_str!("version.json")),
            "/whoami" => text(json!({"name": user.name, "groups": user.groups, "uid": user.uid}).to_string()),
            "/headers" => text(format!("{:?}", request.headers())),
            "/asking" => {
                text(request.extensions().get().map_or("", |Impersonator(asking)| &asking.name).to_owned())
            }
            "/length" => text(request.body().len().to_string()),
            "/panic" => panic!("asked to"),
            "/kept" => {
                self.gate.wait();
                text("ok")
            }
            "/kept/body" => {
                let gate = self.gate.clone();
                let frames = [b"o", b"k"].map(|part| Ok(Frame::data(Bytes::from_static(part))));
                let frames = futures::stream::iter(frames).inspect(move |_| gate.wait());
                let mut response = Response::new(http_body_util::StreamBody::new(frames).boxed_unsync());
                response.extensions_mut().insert(Finite);
                response
            }
            "/slow" => {
                self.entered.notify_one();
                self.released.notified().await;
                text("done")
            }
            "/api/v1/things" => {
                let (sender, receiver) = mpsc::channel(1);
                sender.try_send(Bytes::from_static(b"{\"type\":\"ADDED\"}\n")).unwrap();
                Response::new(Events { receiver, _sender: sender }.boxed_unsync())
            }
            "/api/v1/parts" => {
                let frames = futures::stream::unfold(0, move |sent| {
                    let api = self.clone();
                    async move {
                        let part: &[u8] = match sent {
                            0 => b"{\"type\":",
                            1 => {
                                api.released.notified().await;
                                b"\"ADDED\"}\n"
                            }
                            _ => std::future::pending().await,
                        };
                        Some((Ok(Frame::data(Bytes::from_static(part))), sent + 1))
                    }
                });
                Response::new(http_body_util::StreamBody::new(frames).boxed_unsync())
            }
            "/made" => {
                let mut response = self.flood();
                response.extensions_mut().insert(Finite);
                response.extensions_mut().insert(UnsharedBytes(2048));
                response
            }
            "/flood" => self.flood(),
            _ => {
                let mut response = text("not found");
                *response.status_mut() = http::StatusCode::NOT_FOUND;
                response
            }
        }
    }

    fn may_impersonate(&self, user: &User, wish: &ResourceAttributes<'_>) -> Verdict {
        let is_kept = wish.name == "kept";
        if is_kept {
            self.gate.wait();
        }
        Verdict { allowed: is_kept || user.is_master(), reason: String::new() }
    }
}

impl Dummy {
    fn flood(&self) -> Response<Body> {
        Response::new(Flood { sent: self.flooded.clone(), ended: self.flood_ended.clone() }.boxed_unsync())
    }
}

fn text(text: impl Into<Bytes>) -> Response<Body> {
    Response::new(Full::new(text.into()).boxed_unsync())
}

/// A watch with one event and no end of its own.
struct Events {
    receiver: mpsc::Receiver<Bytes>,
    _sender: mpsc::Sender<Bytes>,
}

impl http_body::Body for Events {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.receiver.poll_recv(cx).map(|event| event.map(|bytes| Ok(Frame::data(bytes))))
    }
}

/// A watch with as many events as anybody takes.
struct Flood {
    sent: Arc<AtomicU64>,
    ended: Arc<Notify>,
}

impl Drop for Flood {
    fn drop(&mut self) {
        self.ended.notify_one();
    }
}

impl http_body::Body for Flood {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        const EVENT: &[u8] = &[b'\n'; 16 << 10];
        self.sent.fetch_add(EVENT.len() as u64, Relaxed);
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(EVENT)))))
    }
}

/// A server with a dummy behind it.
struct Harness {
    api: Arc<Dummy>,
    identity: Identity,
    serving: SecureServer,
}

impl Harness {
    async fn new() -> Self {
        Self::with(Settings::default()).await
    }

    async fn limited(limits: Limits) -> Self {
        Self::with(Settings { limits, ..Settings::default() }).await
    }

    async fn with(settings: Settings) -> Self {
        let identity = Identity::in_memory(&[], SystemTime::now()).unwrap();
        Self::of(identity, settings).await
    }

    async fn of(identity: Identity, settings: Settings) -> Self {
        let api = Arc::new(Dummy::default());
        let serving = SecureServer::open(api.clone(), &identity, settings).await.unwrap();
        Self { api, identity, serving }
    }

    /// A connection without a client certificate.
    async fn connect(&self, protocol: &str) -> TlsStream<TcpStream> {
        connect(self.serving.address(), self.identity.ca_certificate(), None, protocol).await.unwrap()
    }

    /// Asks once, on a connection of its own.
    async fn ask(&self, request: Request<Full<Bytes>>) -> (u16, String) {
        Http1::on(self.connect("http/1.1").await).await.ask(request).await.unwrap()
    }

    /// A request of the administrator, by token.
    fn get(&self, path: &str) -> Request<Full<Bytes>> {
        let mut request = get(path);
        let value = format!("Bearer {}", self.identity.token()).parse().unwrap();
        request.headers_mut().insert("authorization", value);
        request
    }
}

fn get(path: &str) -> Request<Full<Bytes>> {
    Request::get(path).header("host", "localhost").body(Full::default()).unwrap()
}

async fn connect(
    address: SocketAddr,
    ca: &str,
    client: Option<(&str, &str)>,
    protocol: &str,
) -> io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(ca.as_bytes()).unwrap()).unwrap();
    let builder = rustls::ClientConfig::builder_with_provider(crate::authn::provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_root_certificates(roots);
    let mut config = match client {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => {
            let chain =
                CertificateDer::pem_slice_iter(certificate.as_bytes()).collect::<Result<_, _>>().unwrap();
            let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
            builder.with_client_auth_cert(chain, key).unwrap()
        }
    };
    config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
    let stream = TcpStream::connect(address).await?;
    TlsConnector::from(Arc::new(config)).connect(ServerName::from(address.ip()), stream).await
}

/// A client of one HTTP/1 connection.
struct Http1(hyper::client::conn::http1::SendRequest<Full<Bytes>>);

impl Http1 {
    async fn on(stream: TlsStream<TcpStream>) -> Self {
        let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        Self(sender)
    }

    async fn ask(&mut self, request: Request<Full<Bytes>>) -> hyper::Result<(u16, String)> {
        read(self.0.send_request(request).await?).await
    }
}

/// A client of one HTTP/2 connection.
struct Http2(hyper::client::conn::http2::SendRequest<Full<Bytes>>);

impl Http2 {
    async fn on(stream: TlsStream<TcpStream>) -> Self {
        let io = TokioIo::new(stream);
        let (sender, connection) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await.unwrap();
        tokio::spawn(connection);
        Self(sender)
    }

    async fn ask(&mut self, request: Request<Full<Bytes>>) -> hyper::Result<(u16, String)> {
        read(self.0.send_request(request).await?).await
    }
}

async fn read(response: Response<Incoming>) -> hyper::Result<(u16, String)> {
    let (head, body) = response.into_parts();
    let body = body.collect().await?.to_bytes();
    Ok((head.status.as_u16(), String::from_utf8(body.to_vec()).unwrap()))
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// Waits for what must come about.
async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(DEADLINE, what).await.expect("within the deadline")
}
