//! The cases through an API, whichever it is, with the CRDs of `capt crds`.

use std::collections::HashMap;
use std::process::Command;
use std::time::Duration;

use http::{Method, Request};
use kube::Client;
use serde_json::Value;

use crate::cases::{Case, Refusal, Verdict};

/// Where the API server serves each kind.
pub type Paths = HashMap<String, String>;

/// What the API server answered.
struct Answer {
    body: Value,
    warnings: Vec<String>,
}

/// Installs the CRDs, and fails if the API server has the least to say about one.
pub async fn install_crds(client: &Client) -> Paths {
    let mut paths = Paths::new();
    for crd in crds() {
        let name = crd["metadata"]["name"].as_str().expect("a name");
        let answer = send(
            client,
            Method::POST,
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions?fieldValidation=Strict",
            Some(&crd),
        )
        .await;
        assert_eq!(answer.body["kind"], "CustomResourceDefinition", "{name}: {}", answer.body);
        assert!(answer.warnings.is_empty(), "{name}: {:?}", answer.warnings);
        let spec = &crd["spec"];
        let (group, plural) =
            (spec["group"].as_str().expect("a group"), spec["names"]["plural"].as_str().expect("a plural"));
        let path = format!("/apis/{group}/v1beta1/namespaces/default/{plural}");
        capt_e2e::until("the kind is served", Duration::from_secs(120), async || {
            let list = send(client, Method::GET, &path, None).await;
            (list.body["items"].is_array() && non_structural(client, name).await.is_none()).then_some(())
        })
        .await
        .unwrap_or_else(|error| panic!("{name}: {error}"));
        paths.insert(spec["names"]["kind"].as_str().expect("a kind").to_owned(), path);
    }
    paths
}

/// What the API server has against the schema of a CRD that it serves.
async fn non_structural(client: &Client, name: &str) -> Option<String> {
    let path = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}");
    let crd = send(client, Method::GET, &path, None).await.body;
    let conditions = crd["status"]["conditions"].as_array()?;
    let condition = conditions.iter().find(|condition| condition["type"] == "NonStructuralSchema")?;
    condition["message"].as_str().map(str::to_owned)
}

/// The CRDs as a user gets them.
fn crds() -> Vec<Value> {
    let output = Command::new(env!("CARGO_BIN_EXE_capt")).arg("crds").output().expect("capt runs");
    let text = String::from_utf8(output.stdout).expect("text");
    text.split("---\n")
        .filter(|part| !part.is_empty())
        .map(|part| serde_saphyr::from_str(part).expect("YAML"))
        .collect()
}

/// What the API server says of a case. Nothing is left behind.
pub async fn verdict(client: &Client, paths: &Paths, case: &Case) -> Verdict {
    let path = &paths[case.new["kind"].as_str().expect("a kind")];
    let answer = match &case.old {
        None => {
            send(client, Method::POST, &format!("{path}?dryRun=All&fieldValidation=Strict"), Some(&case.new))
                .await
        }
        Some(old) => {
            let name = old["metadata"]["name"].as_str().expect("a name");
            let made = send(client, Method::POST, path, Some(old)).await;
            let version = &made.body["metadata"]["resourceVersion"];
            assert!(
                version.is_string(),
                "{} / {}: the old object is refused: {}",
                case.file,
                case.name,
                made.body
            );
            let mut new = case.new.clone();
            new["metadata"]["resourceVersion"] = version.clone();
            let target = format!("{path}/{name}");
            let answer =
                send(client, Method::PUT, &format!("{target}?dryRun=All&fieldValidation=Strict"), Some(&new))
                    .await;
            send(client, Method::DELETE, &target, None).await;
            answer
        }
    };
    Verdict::of(refusals(&answer.body))
}

fn refusals(body: &Value) -> Vec<Refusal> {
    if body["kind"] != "Status" {
        return Vec::new();
    }
    let message = body["message"].as_str().unwrap_or_default();
    // Unknown fields are told in the message alone.
    if let Some((_, unknown)) = message.split_once("strict decoding error: ") {
        return unknown
            .split(", ")
            .filter_map(|part| part.strip_prefix("unknown field \"")?.strip_suffix('"'))
            .map(|field| Refusal { field: field.to_owned(), message: "unknown field".to_owned() })
            .collect();
    }
    let causes = body["details"]["causes"].as_array().unwrap_or_else(|| panic!("causes in {body}"));
    let text = |cause: &Value, key: &str| cause[key].as_str().unwrap_or_default().to_owned();
    causes
        .iter()
        .map(|cause| Refusal { field: text(cause, "field"), message: text(cause, "message") })
        // That rules were left out is said beside the causes, and is none.
        .filter(|refusal| !refusal.message.contains("some validation rules were not checked"))
        // The scale subresource says of `.spec.replicas` once more what the schema says of `spec.replicas`.
        .filter(|refusal| !refusal.field.starts_with('.'))
        .map(
            |refusal| {
                if refusal.field == "<nil>" { Refusal { field: String::new(), ..refusal } } else { refusal }
            },
        )
        .collect()
}

async fn send(client: &Client, method: Method, path: &str, body: Option<&Value>) -> Answer {
    let bytes = body.map(Value::to_string).unwrap_or_default().into_bytes();
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("Content-Type", "application/json")
        .body(kube::client::Body::from(bytes))
        .expect("a request");
    let response = client.send(request).await.expect("an answer");
    let warnings = response.headers().get_all("Warning").iter().map(|value| format!("{value:?}")).collect();
    let bytes = response.into_body().collect_bytes().await.expect("a whole answer");
    // A kind that is not served yet is answered in plain text.
    Answer { body: serde_json::from_slice(&bytes).unwrap_or_default(), warnings }
}
