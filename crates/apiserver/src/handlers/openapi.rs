//! OpenAPI: `/openapi/v3` and its documents, `/openapi/v2`.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::BodyExt as _;
use serde_json::Value;

use super::body::{Chunk, ChunkedBody, FRAME_BYTES, whole};
use super::compute_once::{ComputedOnce, Queue};
use super::{Api, Body, Call, SharedBytes, nonresource};
use crate::openapi;
use crate::registry::Catalogue;
use crate::request::accept::negotiate_openapi;
use crate::request::path::{GroupVersion, RequestPath};
use crate::resource::Resource;
use crate::status::ApiError;

/// The index and the documents of OpenAPI v3.
type OpenApiV3 = (Arc<Bytes>, Vec<Document>);

/// One OpenAPI v3 document.
#[derive(Debug)]
struct Document {
    /// The path below `/openapi/v3/`.
    path: String,
    /// Hash of the content; it is part of the URL in the index.
    hash: String,
    bytes: Arc<Bytes>,
}

/// OpenAPI documents of one catalogue, generated on the first request for them. All responses share their bytes, and hold them
/// within the response budget. Requests that wait for them hold nothing else of the catalogue.
#[derive(Debug, Default)]
pub(super) struct Documents {
    v3: ComputedOnce<Arc<OpenApiV3>>,
    v2: ComputedOnce<Arc<Bytes>>,
    v2_protobuf: ComputedOnce<Arc<Bytes>>,
}

/// The documents of the current catalogue.
#[derive(Debug, Default)]
pub(super) struct CurrentDocuments(Mutex<(Weak<Catalogue>, Arc<Documents>)>);

impl CurrentDocuments {
    fn of(&self, catalogue: &Arc<Catalogue>) -> Arc<Documents> {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !Weak::ptr_eq(&last.0, &Arc::downgrade(catalogue)) {
            *last = (Arc::downgrade(catalogue), Arc::default());
        }
        Arc::clone(&last.1)
    }
}

impl Documents {
    async fn v3(&self, catalogue: &Weak<Catalogue>, queue: Queue) -> Result<Arc<OpenApiV3>, ApiError> {
        let make = |resources: &[Arc<Resource>]| {
            let (index, documents) = openapi::all(resources);
            let document = |(path, hash, document)| Document { path, hash, bytes: json_bytes(&document) };
            Arc::new((json_bytes(&index), documents.into_iter().map(document).collect()))
        };
        self.v3.get(queue, from_resources(catalogue, make)).await
    }

    async fn v2(&self, catalogue: &Weak<Catalogue>, queue: Queue) -> Result<Arc<Bytes>, ApiError> {
        let make = |resources: &[Arc<Resource>]| json_bytes(&openapi::document_v2(resources));
        self.v2.get(queue, from_resources(catalogue, make)).await
    }

    async fn v2_protobuf(&self, catalogue: &Weak<Catalogue>, queue: Queue) -> Result<Arc<Bytes>, ApiError> {
        let make = |resources: &[Arc<Resource>]| {
            Arc::new(openapi::gnostic::document(&openapi::document_v2(resources)).into())
        };
        self.v2_protobuf.get(queue, from_resources(catalogue, make)).await
    }
}

/// Computes a value from the resources of a catalogue; `None` once the catalogue has been replaced.
fn from_resources<T>(
    catalogue: &Weak<Catalogue>,
    compute: impl FnOnce(&[Arc<Resource>]) -> T + Send + 'static,
) -> impl FnOnce() -> Option<T> + Send + 'static {
    let catalogue = Weak::clone(catalogue);
    move || {
        let catalogue = catalogue.upgrade()?;
        Some(compute(&nonresource::resources(&catalogue)))
    }
}

impl Api {
    /// Answers with an OpenAPI document. Where definitions are replaced while it is generated, it is that of the new ones.
    pub(super) async fn openapi(
        &self,
        target: &RequestPath,
        call: &Call<'_>,
    ) -> Result<Response<Body>, ApiError> {
        let queue = if call.budget_user.is_master() { Queue::Administrator } else { Queue::User };
        let mut tries = 0;
        loop {
            let (documents, catalogue) = {
                let current = self.storage.registry.current();
                (self.openapi_documents.of(&current), Arc::downgrade(&current))
            };
            match documents.answer(&catalogue, target, call, queue).await {
                Err(ApiError::Internal(_)) if catalogue.strong_count() == 0 && tries < TRIES => tries += 1,
                answer => return answer,
            }
        }
    }
}

/// The number of attempts to generate a document whose definitions keep changing.
const TRIES: usize = 10;

impl Documents {
    async fn answer(
        &self,
        catalogue: &Weak<Catalogue>,
        target: &RequestPath,
        call: &Call<'_>,
        queue: Queue,
    ) -> Result<Response<Body>, ApiError> {
        match target {
            RequestPath::OpenApiV3Index => openapi_answer(call, &self.v3(catalogue, queue).await?.0),
            RequestPath::OpenApiV3(version) => {
                let path = document_path(version);
                let all = self.v3(catalogue, queue).await?;
                let document = all.1.iter().find(|document| document.path == path);
                hashed_answer(call, document.ok_or(ApiError::PageNotFound)?)
            }
            _ if wants_protobuf(call) => Ok(Response::builder()
                .extension(SharedBytes)
                .header(header::CONTENT_TYPE, openapi::gnostic::CONTENT_TYPE)
                .body(shared(call, &self.v2_protobuf(catalogue, queue).await?))
                .expect("headers of our own are valid")),
            _ => openapi_answer(call, &self.v2(catalogue, queue).await?),
        }
    }
}

/// Returns whether a client of `/openapi/v2` accepts protobuf, and not JSON.
fn wants_protobuf(call: &Call<'_>) -> bool {
    let accept = call.header(header::ACCEPT).unwrap_or_default();
    negotiate_openapi(Some(accept)).is_none()
        && accept.split(',').any(|one| openapi::gnostic::ACCEPT.contains(&one.trim()))
}

fn document_path(version: &GroupVersion) -> String {
    if version.group.is_empty() {
        format!("api/{}", version.version)
    } else {
        format!("apis/{}/{}", version.group, version.version)
    }
}

fn json_bytes(document: &Value) -> Arc<Bytes> {
    Arc::new(document.to_string().into())
}

/// A body of shared bytes: after the catalogue is replaced, it is held within the response budget, else cut.
fn shared(call: &Call<'_>, document: &Arc<Bytes>) -> Body {
    match document.len() {
        ..=FRAME_BYTES => whole(Bytes::clone(document)),
        length => ChunkedBody::with_length([Chunk::Text(call.hold_text(document), 0)], length).boxed_unsync(),
    }
}

fn openapi_answer(call: &Call<'_>, document: &Arc<Bytes>) -> Result<Response<Body>, ApiError> {
    if negotiate_openapi(call.header(header::ACCEPT)).is_none() {
        let message = "only the following media types are accepted: application/json".to_owned();
        return Err(ApiError::NotAcceptable { message, routed: false });
    }
    Ok(Response::builder()
        .extension(SharedBytes)
        .header(header::CONTENT_TYPE, "application/json")
        .body(shared(call, document))
        .expect("headers of our own are valid"))
}

/// Answers a request for a document by its hash, which can be cached for ever; an outdated hash is redirected.
fn hashed_answer(call: &Call<'_>, document: &Document) -> Result<Response<Body>, ApiError> {
    let Document { path, hash, bytes } = document;
    let mut answer = openapi_answer(call, bytes)?;
    let headers = answer.headers_mut();
    match call.query.text("hash") {
        Some(known) if known == hash => {
            headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("public, immutable"));
            headers.insert(header::VARY, HeaderValue::from_static("Accept"));
            Ok(answer)
        }
        Some(_) => {
            let moved = Response::builder()
                .status(StatusCode::MOVED_PERMANENTLY)
                .header(header::LOCATION, format!("/openapi/v3/{path}?hash={hash}"))
                .body(whole(""));
            Ok(moved.expect("a path of letters, dots and digits is a header"))
        }
        None => Ok(answer),
    }
}

#[cfg(test)]
mod tests {
    use http::Request;

    use std::sync::PoisonError;

    use super::*;
    use crate::Server;
    use crate::authn::User;
    use crate::control::fixture::{ask, define, definition};
    use crate::handlers::compute_once::QUEUES;

    /// On the one thread of this test, no request is served while a document is generated on it.
    #[tokio::test]
    async fn other_requests_are_served_while_documents_are_generated() {
        let server = Server::in_memory().await.unwrap();
        let ask = async |path: &str, accept: &str| {
            let request = Request::get(path).header("accept", accept).body(Bytes::new()).unwrap();
            server.api().respond(&User::admin(), request).await.status().as_u16()
        };
        let json = "application/json";
        for (path, accept) in [
            ("/openapi/v2", json),
            ("/openapi/v2", openapi::gnostic::ACCEPT[0]),
            ("/openapi/v3", json),
            ("/openapi/v3/api/v1", json),
        ] {
            let mut asked = Box::pin(ask(path, accept));
            let is_generated = path == "/openapi/v3/api/v1";
            assert_eq!(futures::poll!(&mut asked).is_pending(), !is_generated, "{path} {accept}");
            assert_eq!(ask("/readyz", json).await, 200);
            if !is_generated {
                // A client that goes away does not cancel it.
                drop(asked);
                assert_eq!(ask(path, accept).await, 200, "{path} {accept}");
            }
            let again = Box::pin(ask(path, accept));
            assert!(futures::poll!(again).is_ready(), "{path} {accept} is generated once");
        }
    }

    #[tokio::test]
    async fn a_request_that_waits_for_a_document_holds_no_definitions() {
        let server = Server::in_memory().await.unwrap();
        define(&server, &definition("widgets", "Widget")).await;
        let (taken, is_taken) = std::sync::mpsc::channel();
        let (done, is_done) = std::sync::mpsc::channel::<()>();
        let before = std::thread::spawn(move || {
            let _queues = QUEUES.each_ref().map(|queue| queue.lock().unwrap_or_else(PoisonError::into_inner));
            taken.send(()).unwrap();
            is_done.recv().unwrap();
        });
        is_taken.recv().unwrap();
        let old = Arc::downgrade(&server.api().storage.registry.current());
        let mut waiting = Box::pin(ask(&server, "GET", "/openapi/v2", &Value::Null));
        assert!(futures::poll!(&mut waiting).is_pending());
        define(&server, &definition("gadgets", "Gadget")).await;
        assert_eq!(old.strong_count(), 0, "the waiting request holds it");
        done.send(()).unwrap();
        before.join().unwrap();
        let (code, document) = waiting.await;
        assert_eq!(code, 200, "{document}");
        assert!(document.to_string().contains("Gadget"), "the document of the new catalogue");
    }
}
