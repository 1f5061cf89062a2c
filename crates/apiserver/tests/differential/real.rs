//! The real API server, spoken to in plain requests.

use http::{Method, Request};
use kube::client::Body;
use serde_json::Value;

/// For what is a matter of seconds on an idle machine.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(180);

/// An answer: status code and body.
#[derive(Clone, Debug)]
pub struct Answer {
    pub code: u16,
    pub body: Value,
}

impl Answer {
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.code)
    }
}

pub struct Real {
    client: kube::Client,
}

impl Real {
    pub fn new(client: kube::Client) -> Self {
        Self { client }
    }

    pub async fn call(&self, method: Method, uri: &str, content_type: &str, body: &Value) -> Answer {
        let request = Request::builder()
            .method(method)
            .uri(uri)
            .header("content-type", content_type)
            .body(Body::from(serde_json::to_vec(body).unwrap()))
            .unwrap();
        let response = self.client.send(request).await.unwrap();
        let code = response.status().as_u16();
        let bytes = response.into_body().collect_bytes().await.unwrap();
        Answer { code, body: serde_json::from_slice(&bytes).unwrap_or(Value::Null) }
    }

    pub async fn get(&self, uri: &str) -> Answer {
        self.call(Method::GET, uri, "application/json", &Value::Null).await
    }

    /// Makes a definition, and waits until an object called `none` is missed at each of `probes`.
    pub async fn create_crd(&self, crd: &Value, probes: &[String]) {
        let uri = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        let answer = self.call(Method::POST, uri, "application/json", crd).await;
        assert!(answer.is_success(), "{answer:?}");
        for probe in probes {
            let served = || async { (self.get(probe).await.body["details"]["name"] == "none").then_some(()) };
            capt_e2e::until("the resource is served", PATIENCE, served).await.unwrap();
        }
    }

    /// The schemas of a group version, by name.
    pub async fn schemas(&self, path: &str) -> serde_json::Map<String, Value> {
        let uri = format!("/openapi/v3/{path}");
        // A server that has just started need not have put its description together yet.
        let described = || async { self.get(&uri).await.body["components"]["schemas"].as_object().cloned() };
        capt_e2e::until("the schemas are described", PATIENCE, described).await.unwrap()
    }
}

/// What differs between any two servers.
pub fn without_identity(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(metadata) = object["metadata"].as_object_mut() {
        for name in ["uid", "resourceVersion", "creationTimestamp", "generation", "selfLink"] {
            metadata.shift_remove(name);
        }
    }
    object
}
