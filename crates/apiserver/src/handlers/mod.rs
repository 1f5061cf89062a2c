//! HTTP handlers: parse a request, let the storage do its work, answer in the form that the client accepts.
//!
//! A file a verb (`get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `delete_collection`), beside one for each
//! subresource (`scale`, `finalize`) and for the paths that are no resources. Handlers know no socket: a listener and an
//! in-process client call [`Api::respond`] alike.
//!
//! ```text
//! request -> path, query, headers -> authorize -> resource    -> verb -> storage          -> response, body
//!                                              -> reviews
//!                                              -> nonresource -> discovery, openapi, health, metrics
//! ```

mod authorize;
mod body;
#[cfg(test)]
mod bounds_tests;
mod call;
mod compute_once;
mod create;
mod delete;
mod delete_collection;
mod discovery;
mod finalize;
mod get;
mod health;
mod list;
mod metrics;
mod nonresource;
mod openapi;
mod patch;
mod request_object;
mod resource;
mod response;
mod response_budget;
mod reviews;
mod scale;
mod update;
mod watch;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Request, Response, header};
use http_body::Body as _;

use self::call::Call;
use crate::authn::User;
use crate::rbac;
use crate::request::path::{RequestPath, Verb};
use crate::request::query::Query;
use crate::request::write::Warnings;
use crate::secure_serving;
use crate::status::ApiError;
use crate::storage::Storage;

pub use self::body::Body;

/// The API: a storage behind HTTP.
#[derive(Debug)]
pub struct Api {
    /// The storage that reads and writes objects.
    pub storage: Arc<Storage>,
    /// Counters of secure serving, which `/metrics` shows beside those of the store.
    pub metrics: Arc<secure_serving::Metrics>,
    /// The budget of watch events that are in memory for one client alone.
    event_budget: Arc<secure_serving::UserBudget>,
    /// The budget of objects that responses have yet to send.
    response_budget: Arc<secure_serving::UserBudget>,
    openapi_documents: openapi::CurrentDocuments,
}

impl Api {
    /// An API on a storage, with counters of its own.
    pub fn new(storage: Arc<Storage>) -> Self {
        Self {
            storage,
            metrics: Arc::default(),
            event_budget: watch::budget(),
            response_budget: response_budget::budget(),
            openapi_documents: openapi::CurrentDocuments::default(),
        }
    }

    /// Answers a request of an authenticated user.
    pub async fn respond(self: &Arc<Self>, user: &User, request: Request<Bytes>) -> Response<Body> {
        let (mut parts, body) = request.into_parts();
        let decode_permit = Mutex::new(parts.extensions.remove());
        let impersonator = parts.extensions.remove::<secure_serving::Impersonator>();
        let call = Call {
            method: &parts.method,
            query: Query::parse(parts.uri.query().unwrap_or_default()),
            headers: &parts.headers,
            body: &body,
            user,
            budget_user: impersonator.as_ref().map_or(user, |secure_serving::Impersonator(user)| user),
            warnings: Warnings::default(),
            decode_permit,
            response_budget: &self.response_budget,
        };
        let target = RequestPath::parse(parts.uri.path());
        let handled = self.handle(&target, parts.uri.path(), &call);
        let result = match request_timeout(&target, &call) {
            Err(error) => Err(error),
            Ok(None) => handled.await,
            // As when the client goes away, a write may still be stored.
            Ok(Some(timeout)) => match tokio::time::timeout(timeout, handled).await {
                Ok(result) => result,
                Err(_) => Err(ApiError::out_of_time()),
            },
        };
        let mut response = result.unwrap_or_else(|error| response::error(&error, &call));
        for warning in call.warnings.all() {
            let text = format!("299 - \"{}\"", warning.replace('\\', "\\\\").replace('"', "\\\""));
            if let Ok(value) = HeaderValue::from_bytes(text.as_bytes()) {
                response.headers_mut().append(header::WARNING, value);
            }
        }
        let uncached = HeaderValue::from_static("no-cache, private");
        response.headers_mut().entry(header::CACHE_CONTROL).or_insert(uncached);
        if let Some(bytes) = unshared_bytes(&response) {
            response.extensions_mut().insert(bytes);
        }
        body::compressed(response, call.header(header::ACCEPT_ENCODING))
    }

    async fn handle(
        self: &Arc<Self>,
        target: &RequestPath,
        path: &str,
        call: &Call<'_>,
    ) -> Result<Response<Body>, ApiError> {
        self.authorize(target, path, call)?;
        match target {
            RequestPath::Resource(path) => match self.review(path, call) {
                Some(review) => review,
                None => self.resource(path, call).await,
            },
            target => self.nonresource(target, call).await,
        }
    }
}

/// The `timeout` of a request, if it has one that counts: kube-apiserver ignores that of a watch, and one above its own
/// limit.
fn request_timeout(target: &RequestPath, call: &Call<'_>) -> Result<Option<Duration>, ApiError> {
    const MAX: Duration = Duration::from_secs(60);
    let is_watch = matches!(target, RequestPath::Resource(path)
        if path.verb(call.method, call.query.flag("watch") == Some(true)) == Some(Verb::Watch));
    if is_watch {
        return Ok(None);
    }
    Ok(call.query.timeout()?.filter(|timeout| *timeout < MAX))
}

impl secure_serving::RequestHandler for Api {
    async fn respond(self: Arc<Self>, user: User, request: Request<Bytes>) -> Response<Body> {
        Api::respond(&self, &user, request).await
    }

    fn may_impersonate(&self, user: &User, resource: &rbac::ResourceAttributes<'_>) -> rbac::Verdict {
        self.storage.rbac.authorize(
            &self.storage.store,
            user,
            "impersonate",
            &rbac::Attributes::Resource(*resource),
        )
    }
}

/// Marks a response, in its extensions, whose bytes are those of the store or of a document that responses share.
#[derive(Clone, Copy, Debug)]
struct SharedBytes;

/// The bytes that are in memory for this response alone, unless they are few, or produced while the client reads.
fn unshared_bytes(response: &Response<Body>) -> Option<secure_serving::UnsharedBytes> {
    let extensions = response.extensions();
    if extensions.get::<SharedBytes>().is_some() || extensions.get::<secure_serving::Finite>().is_some() {
        return None;
    }
    let bytes = response.body().size_hint().exact().and_then(|bytes| usize::try_from(bytes).ok());
    bytes.filter(|bytes| *bytes > body::FRAME_BYTES).map(secure_serving::UnsharedBytes)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn a_deletion_of_a_collection_releases_its_decode_permit() {
        let server = crate::Server::in_memory().await.unwrap();
        let (api, admin) = (server.api(), User::admin());
        let maps = "/api/v1/namespaces/default/configmaps";
        let permits = secure_serving::DecodePermits::new(1, 1);
        let permit = |patience| permits.take(&admin, 1, Duration::from_secs(patience));
        // The writer thread may complete each write before the poll: then the deletion is never pending, and is tried again.
        for _ in 0..100 {
            for n in 0..20 {
                let body = json!({"metadata": {"name": format!("a{n}")}}).to_string();
                let request =
                    Request::post(maps).header("content-type", "application/json").body(body.into());
                assert_eq!(api.respond(&admin, request.unwrap()).await.status().as_u16(), 201);
            }
            let mut request = Request::delete(maps)
                .header("content-type", "application/json")
                .body(Bytes::from_static(br#"{"apiVersion":"v1","kind":"DeleteOptions"}"#))
                .unwrap();
            request.extensions_mut().insert(permit(60).await.unwrap());
            assert!(permit(0).await.is_none());
            let mut deleted = Box::pin(api.respond(&admin, request));
            match futures::poll!(&mut deleted) {
                std::task::Poll::Pending => {
                    assert!(permit(0).await.is_some(), "the options are read");
                    assert_eq!(deleted.await.status().as_u16(), 200);
                    return;
                }
                std::task::Poll::Ready(answer) => assert_eq!(answer.status().as_u16(), 200),
            }
        }
        panic!("no deletion waited for its writes");
    }

    #[tokio::test]
    async fn responses_declare_their_unshared_bytes() {
        let server = crate::Server::in_memory().await.unwrap();
        let (api, admin) = (server.api(), User::admin());
        let maps = "/api/v1/namespaces/default/configmaps";
        let body = json!({"metadata": {"name": "large"}, "data": {"a": "x".repeat(200 << 10)}}).to_string();
        let request = Request::post(maps).header("content-type", "application/json").body(body.into());
        assert_eq!(api.respond(&admin, request.unwrap()).await.status().as_u16(), 201);
        let one = format!("{maps}/large");
        for (path, accept, is_unshared) in [
            (format!("{one}?pretty=true"), "application/json", false),
            (one.clone(), "application/yaml", true),
            (one.clone(), "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io", false),
            (format!("{one}?includeObject=Object"), "application/json;as=Table;v=v1;g=meta.k8s.io", true),
            (one, "application/json", false),
            (maps.to_owned(), "application/json", false),
            (format!("{maps}?pretty=true"), "application/json", false),
            (format!("{maps}?includeObject=Object"), "application/json;as=Table;v=v1;g=meta.k8s.io", true),
            ("/openapi/v2".to_owned(), "application/json", false),
            ("/openapi/v2".to_owned(), crate::openapi::gnostic::ACCEPT[0], false),
            ("/openapi/v3/api/v1".to_owned(), "application/json", false),
        ] {
            for encoding in ["identity", "gzip"] {
                let request =
                    Request::get(&path).header("accept", accept).header("accept-encoding", encoding);
                let answer = api.respond(&admin, request.body(Bytes::new()).unwrap()).await;
                assert_eq!(answer.status().as_u16(), 200, "{path} {accept}");
                let bytes = answer.extensions().get::<secure_serving::UnsharedBytes>();
                assert_eq!(
                    bytes.is_some_and(|bytes| bytes.0 > 200 << 10),
                    is_unshared,
                    "{path} {accept} {encoding}"
                );
            }
        }
    }
}
