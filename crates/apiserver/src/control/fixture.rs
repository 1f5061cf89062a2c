//! Requests of an administrator to a server, and definitions.

use bytes::Bytes;
use http::Request;
use http_body_util::BodyExt as _;
use serde_json::{Value, json};

use crate::Server;
use crate::authn::User;

pub(crate) const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

pub(crate) async fn ask(server: &Server, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let (method, kind) = match method {
        "PATCH" => (method, "application/merge-patch+json"),
        "APPLY" => ("PATCH", "application/apply-patch+yaml"),
        _ => (method, "application/json"),
    };
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let request = Request::builder().method(method).uri(path).header("content-type", kind);
    let answer = server.api().respond(&User::admin(), request.body(Bytes::from(body)).unwrap()).await;
    let code = answer.status().as_u16();
    let text = answer.into_body().collect().await.unwrap().to_bytes();
    (code, serde_json::from_slice(&text).unwrap_or_default())
}

/// A definition in `example.com` of one version.
pub(crate) fn definition(plural: &str, kind: &str) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.example.com")},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": plural, "kind": kind},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}]},
    })
}

pub(crate) async fn define(server: &Server, definition: &Value) {
    let (code, told) = ask(server, "POST", CRDS, definition).await;
    assert_eq!(code, 201, "{told}");
}
