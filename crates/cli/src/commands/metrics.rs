//! Metrics and health of this process: `/metrics`, `/livez`, `/readyz` and `/healthz` on an address of their own.

mod exposition;
mod health;
mod listener;
mod storage;

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

use capt_controllers::Controllers;
use capt_controllers::runtime::FirstList;
use capt_controllers::runtime::lease::LeaseHealth;
use capt_controllers::runtime::metrics::Metrics;
use capt_terraform::Engine;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Bytes;
use tokio::net::TcpListener;

use health::Probe;
pub use storage::Storage;

/// Where they are served.
#[derive(Debug, clap::Args)]
pub struct Address {
    /// Serve metrics in Prometheus' format at http://ADDR/metrics, and health at /livez and /readyz beside it.
    #[arg(long = "metrics", value_name = "ADDR")]
    address: Option<SocketAddr>,
}

impl Address {
    /// Takes the address, where one is given: an address that cannot be had is told before anything is started.
    pub async fn bind(&self) -> io::Result<Option<Endpoint>> {
        let Some(address) = self.address else { return Ok(None) };
        let failed = |error| io::Error::other(format!("serve metrics on {address}: {error}"));
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Some(Endpoint { listener, address }))
    }
}

/// An address that was taken. Clients wait until it serves.
pub struct Endpoint {
    listener: TcpListener,
    address: SocketAddr,
}

impl Endpoint {
    /// Serves until the process ends; gives the address.
    pub fn serve(self, process: &Arc<Process>) -> SocketAddr {
        let process = Arc::clone(process);
        tokio::spawn(listener::serve(self.listener, move |request| {
            let process = Arc::clone(&process);
            async move { process.answer(&request).await }
        }));
        self.address
    }
}

/// The process, as far as metrics and probes tell of it.
pub struct Process {
    lease: LeaseHealth,
    storage: Storage,
    running: OnceLock<Running>,
}

/// State of a process that holds the Lease.
struct Running {
    caches: Vec<FirstList>,
    metrics: Arc<Metrics>,
    engine: Engine,
}

impl Process {
    /// One whose controllers do not run yet.
    pub fn new(lease: LeaseHealth, storage: Storage) -> Self {
        Self { lease, storage, running: OnceLock::new() }
    }

    /// Tells that the controllers run.
    pub fn started(&self, controllers: &Controllers, engine: &Engine) {
        let (caches, metrics) = (controllers.caches().to_vec(), Arc::clone(controllers.metrics()));
        // They are started once.
        let _ = self.running.set(Running { caches, metrics, engine: engine.clone() });
    }

    async fn answer<B>(&self, request: &Request<B>) -> Response<Full<Bytes>> {
        let path = request.uri().path();
        let probe = Probe::of(path);
        if path != "/metrics" && probe.is_none() {
            return text(StatusCode::NOT_FOUND, "metrics are at /metrics, health is at /livez and /readyz\n");
        }
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            let mut refused = text(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD\n");
            refused.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
            return refused;
        }
        match probe {
            Some((probe, check)) => {
                self.health(probe, check, request.uri().query().unwrap_or_default()).await
            }
            None => self.exposition(),
        }
    }
}

fn text(code: StatusCode, text: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(text.into()));
    *response.status_mut() = code;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

#[cfg(test)]
mod tests;
