//! The two servers, spoken to in the same way: TLS, a client certificate, plain requests.

use std::time::Duration;

use capt_apiserver::{
    Server, ServerOptions,
    authn::{Identity, write_kubeconfig},
    secure_serving::{SecureServer, Settings},
};
use capt_e2e::KubeApiserver;
use http_body_util::BodyExt as _;
use kube::{
    Client, Config,
    client::Body,
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::Value;

/// Longer than any answer takes, watches included; kube-apiserver itself gives a request up after a minute.
const PATIENCE: Duration = Duration::from_secs(55);

/// Both servers.
pub struct Sides {
    pub real: Side,
    pub ours: Side,
    _serving: SecureServer,
    _server: Server,
}

pub struct Side {
    client: Client,
}

/// What one server is asked.
#[derive(Clone, Debug)]
pub struct Asked {
    pub method: &'static str,
    pub path: String,
    pub headers: Vec<(&'static str, String)>,
    pub body: String,
}

/// What it answered.
#[derive(Clone, Debug)]
pub struct Answer {
    pub code: u16,
    pub content_type: String,
    pub cache: String,
    pub warnings: Vec<String>,
    pub text: String,
}

impl Sides {
    pub async fn start(real: &KubeApiserver) -> Self {
        // A kube-apiserver has no controllers beside it.
        let options = ServerOptions { controllers: false, ..ServerOptions::default() };
        let server = Server::in_memory_with(&options).await.unwrap();
        let identity = Identity::in_memory(&[], std::time::SystemTime::now()).unwrap();
        let serving = SecureServer::open(std::sync::Arc::clone(server.api()), &identity, Settings::default())
            .await
            .unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kubeconfig");
        write_kubeconfig(&path, &serving.url(), &identity).unwrap();
        let kubeconfig = Kubeconfig::read_from(&path).unwrap();
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
        let (real, ours) = (Side::new(real.config().clone()), Side::new(config));
        Self { real, ours, _serving: serving, _server: server }
    }

    /// Asks both the same thing, at the same time.
    pub async fn ask(&self, real: &Asked, ours: &Asked) -> (Answer, Answer) {
        tokio::join!(self.real.ask(real), self.ours.ask(ours))
    }

    /// What both must do before anything can be compared.
    pub async fn both(&self, method: &'static str, path: &str, body: &Value) -> (Answer, Answer) {
        let headers = vec![("content-type", "application/json".to_owned())];
        let asked = Asked { method, path: path.to_owned(), headers, body: body.to_string() };
        let (real, ours) = self.ask(&asked, &asked).await;
        assert!(real.code < 300, "{method} {path}: {} {}", real.code, real.text);
        assert!(ours.code < 300, "{method} {path}: {} {}", ours.code, ours.text);
        (real, ours)
    }
}

impl Side {
    fn new(mut config: Config) -> Self {
        // What is to be tried again is an answer like any other.
        config.default_retry = false;
        Self { client: Client::try_from(config).unwrap() }
    }

    /// The answer; a server that gives none is one that differs.
    pub async fn ask(&self, asked: &Asked) -> Answer {
        let answer = tokio::time::timeout(PATIENCE, self.answer(asked)).await;
        answer.unwrap_or_else(|_| Answer::none(format!("no answer within {PATIENCE:?}")))
    }

    async fn answer(&self, asked: &Asked) -> Answer {
        let mut request = http::Request::builder().method(asked.method).uri(&asked.path);
        for (name, value) in &asked.headers {
            request = request.header(*name, value);
        }
        let request = request.body(Body::from(asked.body.clone().into_bytes())).unwrap();
        let response = match self.client.send(request).await {
            Ok(response) => response,
            Err(error) => return Answer::none(format!("{error:?}")),
        };
        let header = |name: &str| {
            response.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned()
        };
        let warnings = response.headers().get_all("warning").iter();
        let warnings = warnings.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).collect();
        let (content_type, cache) = (header("content-type"), header("cache-control"));
        let code = response.status().as_u16();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        Answer { code, content_type, cache, warnings, text }
    }
}

impl Answer {
    fn none(why: String) -> Self {
        Self { code: 0, content_type: String::new(), cache: String::new(), warnings: Vec::new(), text: why }
    }

    /// The body as JSON, whatever form it came in; text where it is neither.
    pub fn value(&self) -> Value {
        if self.content_type.starts_with("application/yaml") {
            return capt_yaml::single(&self.text).unwrap_or_else(|_| self.text.clone().into());
        }
        serde_json::from_str(&self.text).unwrap_or_else(|_| self.text.clone().into())
    }
}
