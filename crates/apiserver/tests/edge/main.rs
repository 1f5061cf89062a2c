//! The edge beside the real kube-apiserver: same verdicts, same words, same tables.
//!
//! Skipped where the peers are not built.

#![expect(clippy::unwrap_used, reason = "a test; clippy knows only those in `#[test]` functions")]

mod edge;
mod output;
mod random;
mod requests;
mod served;
#[path = "../support/surface.rs"]
mod surface;

use std::fmt::Write as _;
use std::sync::Arc;

use capt_apiserver::Server;
use capt_apiserver::authn::{Identity, write_kubeconfig};
use capt_apiserver::secure_serving::{SecureServer, Settings};
use capt_e2e::{KubeApiserver, Peers};
use http_body_util::BodyExt as _;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config, client::Body};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

/// For what is a matter of milliseconds on an idle machine.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(180);

static SERVER: OnceCell<Option<KubeApiserver>> = OnceCell::const_new();

/// A client of the one server of this process, with the objects of [`seed`]; `None` means skip.
async fn real() -> Option<Real> {
    let server = SERVER.get_or_init(|| async {
        let peers = Peers::find_or_skip(KubeApiserver::NEEDS)?;
        let server = KubeApiserver::start(&peers).await.unwrap();
        seed(&Real { client: server.client() }).await;
        Some(server)
    });
    Some(Real { client: server.await.as_ref()?.client() })
}

static EMBEDDED: OnceCell<Config> = OnceCell::const_new();

/// A client of the one embedded server of this process, behind secure serving and with the same objects. What the parts of the edge
/// say does not tell whether a request gets to them.
async fn embedded() -> Real {
    let client = |config: &Config| Real { client: Client::try_from(config.clone()).unwrap() };
    let config = EMBEDDED.get_or_init(|| async {
        let (sender, served) = tokio::sync::oneshot::channel();
        // On a runtime of its own, which outlives that of the test which came first.
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Runtime::new().unwrap();
            runtime.block_on(async {
                let (config, _kept) = serve().await;
                sender.send(config).unwrap();
                std::future::pending::<()>().await;
            });
        });
        let config = served.await.unwrap();
        seed(&client(&config)).await;
        config
    });
    client(config.await)
}

/// How to reach a new server, and what it lives by.
async fn serve() -> (Config, (Server, SecureServer)) {
    let server = Server::in_memory().await.unwrap();
    let identity = Identity::in_memory(&[], std::time::SystemTime::now()).unwrap();
    let serving = SecureServer::open(Arc::clone(server.api()), &identity, Settings::default()).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kubeconfig");
    write_kubeconfig(&path, &serving.url(), &identity).unwrap();
    let kubeconfig = Kubeconfig::read_from(&path).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    (config, (server, serving))
}

struct Real {
    client: Client,
}

/// A request, and an answer.
#[derive(Clone, Debug, Default)]
struct Sent {
    method: &'static str,
    path: String,
    headers: Vec<(&'static str, String)>,
    body: String,
}

#[derive(Debug, PartialEq)]
struct Got {
    code: u16,
    text: String,
}

impl Got {
    fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }
}

fn get(path: impl Into<String>) -> Sent {
    Sent { method: "GET", path: path.into(), ..Sent::default() }
}

fn send(method: &'static str, path: impl Into<String>, content_type: &str, body: impl Into<String>) -> Sent {
    let headers = vec![("content-type", content_type.to_owned())];
    Sent { method, path: path.into(), headers, body: body.into() }
}

impl Sent {
    fn accept(mut self, accept: &str) -> Self {
        self.headers.push(("accept", accept.to_owned()));
        self
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| *key == name).map(|(_, value)| value.as_str())
    }
}

impl Real {
    async fn ask(&self, sent: &Sent) -> Got {
        let mut request = http::Request::builder().method(sent.method).uri(&sent.path);
        for (key, value) in &sent.headers {
            request = request.header(*key, value);
        }
        let request = request.body(Body::from(sent.body.clone().into_bytes())).unwrap();
        let response = self.client.send(request).await.unwrap();
        let code = response.status().as_u16();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        Got { code, text: String::from_utf8_lossy(&bytes).into_owned() }
    }

    async fn create(&self, path: &str, object: Value) {
        let got = self.ask(&send("POST", path, "application/json", object.to_string())).await;
        assert_eq!(got.code, 201, "{path}: {}", got.text);
    }
}

/// A query from pairs.
fn query(pairs: &[(&str, &str)]) -> String {
    let mut out = String::new();
    for (key, value) in pairs {
        let sign = if out.is_empty() { '?' } else { '&' };
        write!(out, "{sign}{key}={}", utf8_percent_encode(value, NON_ALPHANUMERIC)).unwrap();
    }
    out
}

/// Objects that the tests read; nobody writes afterwards.
async fn seed(real: &Real) {
    real.create("/api/v1/namespaces", json!({"metadata": {"name": "edge"}})).await;
    let labels = [
        json!({}),
        json!({"a": "a"}),
        json!({"a": "b", "b": ""}),
        json!({"a": "1", "c": "c"}),
        json!({"b": "2", "c": "a"}),
    ];
    for (index, labels) in labels.into_iter().enumerate() {
        let object = json!({"metadata": {"name": format!("m{index}"), "labels": labels}, "data": {"k": "v"}});
        real.create("/api/v1/namespaces/edge/configmaps", object).await;
    }
    let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    // Both, so that no test sees the definition of another one come.
    for crd in [output::crd(), random::gadgets()] {
        let one = format!("{crds}/{}", crd["metadata"]["name"].as_str().unwrap());
        real.create(crds, crd).await;
        // What is established is written no more.
        capt_e2e::until("the CRD is established", PATIENCE, async || {
            let crd = real.ask(&get(one.as_str())).await.json();
            capt_apiserver::resource::crd::is_established(&crd).then_some(())
        })
        .await
        .unwrap();
    }
    let things = "/apis/edge.example.com/v1/namespaces/edge/things";
    capt_e2e::until("the CRD is served", PATIENCE, async || {
        // The status subresource is served a moment after the rest.
        let got = real.ask(&get(format!("{things}/none/status"))).await;
        got.text.contains("things.edge.example.com").then_some(())
    })
    .await
    .unwrap();
    for thing in output::things() {
        real.create(things, thing.clone()).await;
        let mut status = send(
            "PATCH",
            format!("{things}/{}/status", thing["metadata"]["name"].as_str().unwrap()),
            "application/merge-patch+json",
            "",
        );
        status.body = json!({"status": thing["status"]}).to_string();
        assert_eq!(real.ask(&status).await.code, 200);
    }
    for (path, object) in output::built_in() {
        real.create(path, object).await;
    }
}
