//! HTTP in, HTTP out: what a request asks for, done by the engine, answered in the form the client accepts.
//!
//! Knows no socket: a listener and an in-process client call [`Api::respond`] alike.
//!
//! ```text
//! request -> path, query, headers -> [resource] engine | [documents] discovery, OpenAPI, health -> answer
//! ```

mod answer;
mod authorize;
mod compress;
mod documents;
mod metrics;
mod resource;
mod reviews;
mod watch;

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response, header};
use http_body_util::BodyExt;

pub use documents::Descriptions;

use crate::door::{self, User};
use crate::engine::Engine;
use crate::rbac;
use crate::request::body::Yaml;
use crate::request::path::Target;
use crate::request::query::Query;
use crate::request::write::{Warnings, Write, WriteOptions};
use crate::status::ApiError;

/// The body of an answer: whole, or a stream of watch events.
pub type Body = http_body_util::combinators::UnsyncBoxBody<Bytes, Infallible>;

/// The API: an engine behind HTTP.
#[derive(Debug)]
pub struct Api {
    /// Does the work.
    pub engine: Arc<Engine>,
    /// What `/metrics` shows besides the store; the door in front counts here.
    pub metrics: Arc<door::Metrics>,
}

/// A YAML body as JSON, or what is wrong with it. Of several documents the first one counts, as upstream.
pub(crate) fn read_yaml(text: &str) -> Result<Yaml, String> {
    let read = capt_yaml::lenient(text);
    let (mut value, repeated) = read.map_err(|error| format!("yaml: line {}: {error}", error.at.line))?;
    shorten(&mut value);
    Ok((value, repeated))
}

/// Writes numbers without a fraction as integers, as JSON is read.
fn shorten(value: &mut serde_json::Value) {
    /// Up to here every whole number is its own.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    match value {
        serde_json::Value::Number(number) => {
            if let Some(float) = number.as_f64().filter(|_| number.is_f64())
                && float.fract() == 0.0
                && float.abs() < EXACT
            {
                #[expect(clippy::cast_possible_truncation, reason = "it is whole, and small enough")]
                let whole = float as i64;
                *value = whole.into();
            }
        }
        serde_json::Value::Array(items) => items.iter_mut().for_each(shorten),
        serde_json::Value::Object(members) => members.values_mut().for_each(shorten),
        _ => {}
    }
}

/// A request with its parts taken apart.
pub(crate) struct Call<'a> {
    pub method: &'a http::Method,
    pub query: Query,
    pub headers: &'a HeaderMap,
    pub body: &'a Bytes,
    pub user: &'a User,
    pub warnings: Warnings,
}

impl Call<'_> {
    pub fn header(&self, name: header::HeaderName) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// The options of a write; warnings go to the answer.
    pub fn write_options(&self, write: Write) -> Result<WriteOptions, ApiError> {
        let options = WriteOptions::parse(&self.query, write)?;
        // Whoever may do everything has nothing that limits their writes.
        let user = (!self.user.is_master()).then(|| Arc::new(self.user.clone()));
        Ok(WriteOptions { warnings: self.warnings.clone(), user, ..options })
    }

    pub fn user_agent(&self) -> &str {
        self.header(header::USER_AGENT).unwrap_or_default()
    }
}

impl Api {
    /// An API on an engine, with counters of its own.
    pub fn new(engine: Arc<Engine>) -> Self {
        Self { engine, metrics: Arc::default() }
    }

    /// Answers a request. Whoever sent it has been let in before.
    pub async fn respond(self: &Arc<Self>, user: &User, request: Request<Bytes>) -> Response<Body> {
        let (parts, body) = request.into_parts();
        let call = Call {
            method: &parts.method,
            query: Query::parse(parts.uri.query().unwrap_or_default()),
            headers: &parts.headers,
            body: &body,
            user,
            warnings: Warnings::default(),
        };
        let target = Target::parse(parts.uri.path());
        let answer = match self.authorize(&target, parts.uri.path(), &call) {
            Err(error) => Err(error),
            Ok(()) => match &target {
                Target::Resource(path) => match self.review(path, &call) {
                    Some(review) => review,
                    None => self.resource(path, &call).await,
                },
                target => self.document(target, &call),
            },
        };
        let mut response = answer.unwrap_or_else(|error| answer::error(&error, &call));
        for warning in call.warnings.all() {
            let text = format!("299 - \"{}\"", warning.replace('\\', "\\\\").replace('"', "\\\""));
            if let Ok(value) = HeaderValue::from_bytes(text.as_bytes()) {
                response.headers_mut().append(header::WARNING, value);
            }
        }
        // Every answer may be another one the next time.
        let never = HeaderValue::from_static("no-cache, private");
        response.headers_mut().entry(header::CACHE_CONTROL).or_insert(never);
        compress::compressed(response, call.header(header::ACCEPT_ENCODING)).await
    }
}

impl door::Api for Api {
    async fn respond(self: Arc<Self>, user: User, request: Request<Bytes>) -> Response<Body> {
        Api::respond(&self, &user, request).await
    }

    fn may_impersonate(&self, user: &User, wish: &rbac::Resource<'_>) -> rbac::Verdict {
        self.engine.rbac.authorize(&self.engine.store, user, "impersonate", &rbac::Object::Resource(*wish))
    }
}

/// A body that is known whole.
pub(crate) fn whole(bytes: impl Into<Bytes>) -> Body {
    http_body_util::Full::new(bytes.into()).boxed_unsync()
}
