//! Answers secure serving gives by itself, in the form of Kubernetes: a `Status`.

use std::convert::Infallible;

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};

use super::Body;
use crate::authn::Unauthorized;

/// A failed request: HTTP code, machine-readable reason, message.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Refusal {
    pub code: StatusCode,
    pub reason: &'static str,
    pub message: String,
    pub details: Option<Value>,
    /// Seconds after which to try again.
    pub retry_after: Option<u16>,
}

impl From<Unauthorized> for Refusal {
    fn from(_: Unauthorized) -> Self {
        Self::unauthorized()
    }
}

impl Refusal {
    pub fn new(code: StatusCode, reason: &'static str, message: impl Into<String>) -> Self {
        Self { code, reason, message: message.into(), details: None, retry_after: None }
    }

    pub fn unauthorized() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "Unauthorized", "Unauthorized")
    }

    pub fn too_large(limit: usize) -> Self {
        let message = format!("Request entity too large: limit is {limit}");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge", message)
    }

    pub fn busy() -> Self {
        let message = "Too many requests, please try again later.";
        Self { retry_after: Some(1), ..Self::new(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", message) }
    }

    /// What was asked for is done, and may be asked for again.
    pub fn unanswered() -> Self {
        let message = "The request was carried out, but there is no room for its answer.";
        Self::new(StatusCode::GATEWAY_TIMEOUT, "Timeout", message)
    }

    pub fn panicked() -> Self {
        let message = "This request caused apiserver to panic. Look in the logs for details.";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", message)
    }

    pub fn into_response(self) -> Response<Body> {
        let Self { code, reason, message, details, retry_after } = self;
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": message, "reason": reason,
        });
        if let Some(details) = details {
            status["details"] = details;
        }
        status["code"] = code.as_u16().into();
        let body = Full::new(Bytes::from(status.to_string()));
        let mut response = Response::new(body.map_err(|never: Infallible| match never {}).boxed_unsync());
        *response.status_mut() = code;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
        if let Some(seconds) = retry_after {
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
        response
    }
}
