//! What the server says of itself: paths, discovery, OpenAPI, version.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use bytes::Bytes;
use http::{HeaderValue, Method, Response, StatusCode, header};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};

use super::made::{Made, Turn};
use super::pieces::{self, Piece, Pieces};
use super::{Api, Body, Call, Shared, health, whole};
use crate::builtin;
use crate::discovery;
use crate::openapi;
use crate::registry::Catalogue;
use crate::request::accept::{Endpoint, Format, negotiate_discovery, negotiate_openapi};
use crate::request::path::{GroupVersion, Target};
use crate::resource::Resource;
use crate::status::ApiError;

/// The index, and each document.
type OpenApiV3 = (Arc<Bytes>, Vec<Document>);

/// One OpenAPI v3 document.
#[derive(Debug)]
struct Document {
    /// Below `/openapi/v3/`.
    path: String,
    /// Of its content; the index names it in the address.
    hash: String,
    bytes: Arc<Bytes>,
}

/// OpenAPI documents of one catalogue, made when they are first asked for. Every answer shares the bytes, and none keeps them
/// without room. Requests that wait for them hold nothing else of the catalogue.
#[derive(Debug, Default)]
pub(super) struct Documents {
    v3: Made<Arc<OpenApiV3>>,
    v2: Made<Arc<Bytes>>,
    v2_protobuf: Made<Arc<Bytes>>,
}

/// The documents of the catalogue that was asked for last.
#[derive(Debug, Default)]
pub(super) struct Described(Mutex<(Weak<Catalogue>, Arc<Documents>)>);

impl Described {
    fn documents(&self, catalogue: &Arc<Catalogue>) -> Arc<Documents> {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !Weak::ptr_eq(&last.0, &Arc::downgrade(catalogue)) {
            *last = (Arc::downgrade(catalogue), Arc::default());
        }
        Arc::clone(&last.1)
    }
}

/// Stored and virtual resources.
fn resources(catalogue: &Catalogue) -> Vec<Arc<Resource>> {
    catalogue.resources().iter().cloned().chain(builtin::virtual_resources()).collect()
}

impl Documents {
    async fn v3(&self, catalogue: &Weak<Catalogue>, turn: Turn) -> Result<Arc<OpenApiV3>, ApiError> {
        let make = |resources: &[Arc<Resource>]| {
            let (index, documents) = openapi::all(resources);
            let document = |(path, hash, document)| Document { path, hash, bytes: json_bytes(&document) };
            Arc::new((json_bytes(&index), documents.into_iter().map(document).collect()))
        };
        self.v3.get(turn, of(catalogue, make)).await
    }

    async fn v2(&self, catalogue: &Weak<Catalogue>, turn: Turn) -> Result<Arc<Bytes>, ApiError> {
        let make = |resources: &[Arc<Resource>]| json_bytes(&openapi::document_v2(resources));
        self.v2.get(turn, of(catalogue, make)).await
    }

    async fn v2_protobuf(&self, catalogue: &Weak<Catalogue>, turn: Turn) -> Result<Arc<Bytes>, ApiError> {
        let make = |resources: &[Arc<Resource>]| {
            Arc::new(openapi::gnostic::document(&openapi::document_v2(resources)).into())
        };
        self.v2_protobuf.get(turn, of(catalogue, make)).await
    }
}

/// Makes something of the resources of a catalogue; nothing, if others are served by then and nobody waits any more.
fn of<T>(
    catalogue: &Weak<Catalogue>,
    make: impl FnOnce(&[Arc<Resource>]) -> T + Send + 'static,
) -> impl FnOnce() -> Option<T> + Send + 'static {
    let catalogue = Weak::clone(catalogue);
    move || {
        let catalogue = catalogue.upgrade()?;
        Some(make(&resources(&catalogue)))
    }
}

impl Api {
    /// Everything that is not a resource.
    pub(super) async fn document(
        &self,
        target: &Target,
        call: &Call<'_>,
    ) -> Result<Response<Body>, ApiError> {
        let catalogue = self.storage.registry.current();
        let resources = resources(&catalogue);
        let turn = if call.payer.is_master() { Turn::Administrator } else { Turn::User };
        if *call.method != Method::GET && has_router(target, &resources) {
            return Err(ApiError::MethodNotAllowed);
        }
        match target {
            Target::CoreVersions | Target::Groups | Target::Group(_) | Target::Resources(_) => {
                discover(target, call, &resources)
            }
            Target::OpenApiV3Index | Target::OpenApiV3(_) | Target::OpenApiV2 => {
                drop(catalogue);
                self.openapi(target, call, turn).await
            }
            Target::Version => Ok(json_answer(&crate::version::document())),
            Target::Root => Ok(root(&resources)),
            Target::Health(probe, check) => self.health(*probe, check.as_deref(), call),
            Target::Metrics if [Method::GET, Method::HEAD].contains(call.method) => Ok(self.metrics_answer()),
            Target::UnknownResource => Err(ApiError::UnknownResource),
            Target::Metrics => Err(ApiError::MethodNotAllowed),
            Target::Unknown | Target::Malformed | Target::Resource(_) => Err(ApiError::PageNotFound),
        }
    }
}

impl Api {
    /// Waits for a document. Where its definitions are replaced meanwhile, it is that of the new ones.
    async fn openapi(
        &self,
        target: &Target,
        call: &Call<'_>,
        turn: Turn,
    ) -> Result<Response<Body>, ApiError> {
        let mut tries = 0;
        loop {
            let (documents, catalogue) = {
                let current = self.storage.registry.current();
                (self.described.documents(&current), Arc::downgrade(&current))
            };
            match documents.answer(&catalogue, target, call, turn).await {
                Err(ApiError::Internal(_)) if catalogue.strong_count() == 0 && tries < TRIES => tries += 1,
                answer => return answer,
            }
        }
    }
}

/// How often a document is asked for again where its definitions change.
const TRIES: usize = 10;

impl Documents {
    async fn answer(
        &self,
        catalogue: &Weak<Catalogue>,
        target: &Target,
        call: &Call<'_>,
        turn: Turn,
    ) -> Result<Response<Body>, ApiError> {
        match target {
            Target::OpenApiV3Index => openapi_answer(call, &self.v3(catalogue, turn).await?.0),
            Target::OpenApiV3(version) => {
                let path = document_path(version);
                let all = self.v3(catalogue, turn).await?;
                let document = all.1.iter().find(|document| document.path == path);
                hashed_answer(call, document.ok_or(ApiError::PageNotFound)?)
            }
            _ if wants_protobuf(call) => Ok(Response::builder()
                .extension(Shared)
                .header(header::CONTENT_TYPE, openapi::gnostic::CONTENT_TYPE)
                .body(shared(call, &self.v2_protobuf(catalogue, turn).await?))
                .expect("headers of our own are valid")),
            _ => openapi_answer(call, &self.v2(catalogue, turn).await?),
        }
    }
}

/// Whether a client of `/openapi/v2` asks for protobuf, and does not take JSON.
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

fn discover(
    target: &Target,
    call: &Call<'_>,
    resources: &[Arc<Resource>],
) -> Result<Response<Body>, ApiError> {
    let endpoint = if *target == Target::Groups { Endpoint::Custom } else { Endpoint::BuiltIn };
    let accepted = negotiate_discovery(call.header(header::ACCEPT), endpoint)?;
    let host = call.header(header::HOST).unwrap_or_default();
    let (document, aggregates) = match target {
        Target::CoreVersions if accepted.aggregated => (Some(discovery::aggregated_core(resources)), true),
        Target::Groups if accepted.aggregated => (Some(discovery::aggregated_groups(resources)), true),
        Target::CoreVersions => (Some(discovery::api_versions(host)), false),
        Target::Groups => (Some(discovery::api_groups(resources)), false),
        Target::Group(group) => (discovery::api_group(group, resources), false),
        Target::Resources(version) => {
            (discovery::api_resources(&version.group, &version.version, resources), false)
        }
        _ => (None, false),
    };
    let document = document.ok_or(ApiError::PageNotFound)?;
    let media_type = if aggregates { accepted.content_type() } else { accepted.format.media_type() };
    let etag = format!("\"{}\"", discovery::content_hash(&document));
    if call.header(header::IF_NONE_MATCH) == Some(etag.as_str()) {
        let unchanged = Response::builder().status(StatusCode::NOT_MODIFIED).header(header::ETAG, etag);
        return Ok(unchanged.body(whole("")).expect("headers of our own are valid"));
    }
    let bytes = match accepted.format {
        Format::Json => document.to_string(),
        Format::Yaml => serde_saphyr::to_string(&document).expect("a JSON value is YAML"),
    };
    Ok(Response::builder()
        .header(header::CONTENT_TYPE, media_type)
        .header(header::VARY, "Accept")
        .header(header::ETAG, etag)
        .body(whole(bytes))
        .expect("headers of our own are valid"))
}

fn json_bytes(document: &Value) -> Arc<Bytes> {
    Arc::new(document.to_string().into())
}

/// A body whose bytes are the catalogue's. When others are served, it is held as far as there is room for it, or cut.
fn shared(call: &Call<'_>, document: &Arc<Bytes>) -> Body {
    match document.len() {
        ..=pieces::FRAME => whole(Bytes::clone(document)),
        length => Pieces::known([Piece::Text(call.keep_text(document), 0)], length).boxed_unsync(),
    }
}

fn openapi_answer(call: &Call<'_>, document: &Arc<Bytes>) -> Result<Response<Body>, ApiError> {
    if negotiate_openapi(call.header(header::ACCEPT)).is_none() {
        let message = "only the following media types are accepted: application/json".to_owned();
        return Err(ApiError::NotAcceptable { message, routed: false });
    }
    Ok(Response::builder()
        .extension(Shared)
        .header(header::CONTENT_TYPE, "application/json")
        .body(shared(call, document))
        .expect("headers of our own are valid"))
}

/// A document under the hash that the client knows of it: it never changes there. Under another hash it is elsewhere now.
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

/// True of documents that a router serves, which knows one method for them.
fn has_router(target: &Target, resources: &[Arc<Resource>]) -> bool {
    match target {
        Target::CoreVersions | Target::Version => true,
        Target::Resources(of) => {
            resources.iter().any(|resource| !resource.custom && resource.group == of.group)
        }
        _ => false,
    }
}

/// `/`: the paths that answer, without those of objects.
fn root(resources: &[Arc<Resource>]) -> Response<Body> {
    let mut paths: Vec<String> = [
        "/api",
        "/api/v1",
        "/apis",
        "/apis/",
        "/metrics",
        "/openapi/v2",
        "/openapi/v3",
        "/openapi/v3/",
        "/version",
    ]
    .map(str::to_owned)
    .into();
    for group in discovery::groups(resources) {
        paths.push(format!("/apis/{}", group.name));
        paths.extend(group.versions.iter().map(|version| format!("/apis/{}/{version}", group.name)));
    }
    paths.extend(health::paths());
    paths.sort_unstable();
    Response::builder()
        .header(header::CONTENT_TYPE, "application/json")
        .body(whole(format!("{:#}", json!({"paths": paths}))))
        .expect("headers of our own are valid")
}

fn json_answer(value: &Value) -> Response<Body> {
    Response::builder()
        .header(header::CONTENT_TYPE, "application/json")
        .body(whole(format!("{value}\n")))
        .expect("headers of our own are valid")
}

#[cfg(test)]
mod tests {
    use http::Request;

    use std::sync::PoisonError;

    use super::*;
    use crate::Server;
    use crate::authn::User;
    use crate::control::fixture::{ask, define, definition};
    use crate::handlers::made::TURNS;

    /// On the one thread of this test, nobody is served while something is made on it.
    #[tokio::test]
    async fn others_are_served_while_documents_are_made() {
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
            let is_made = path == "/openapi/v3/api/v1";
            assert_eq!(futures::poll!(&mut asked).is_pending(), !is_made, "{path} {accept}");
            assert_eq!(ask("/readyz", json).await, 200);
            if !is_made {
                // Who goes away takes nothing along.
                drop(asked);
                assert_eq!(ask(path, accept).await, 200, "{path} {accept}");
            }
            let again = Box::pin(ask(path, accept));
            assert!(futures::poll!(again).is_ready(), "{path} {accept} is made once");
        }
    }

    #[tokio::test]
    async fn a_request_that_waits_for_a_document_holds_no_definitions() {
        let server = Server::in_memory().await.unwrap();
        define(&server, &definition("widgets", "Widget")).await;
        let (taken, is_taken) = std::sync::mpsc::channel();
        let (done, is_done) = std::sync::mpsc::channel::<()>();
        let before = std::thread::spawn(move || {
            let _turns = TURNS.each_ref().map(|turn| turn.lock().unwrap_or_else(PoisonError::into_inner));
            taken.send(()).unwrap();
            is_done.recv().unwrap();
        });
        is_taken.recv().unwrap();
        let old = Arc::downgrade(&server.api().storage.registry.current());
        let mut waiting = Box::pin(ask(&server, "GET", "/openapi/v2", &Value::Null));
        assert!(futures::poll!(&mut waiting).is_pending());
        define(&server, &definition("gadgets", "Gadget")).await;
        assert_eq!(old.strong_count(), 0, "it is held by who waits");
        done.send(()).unwrap();
        before.join().unwrap();
        let (code, document) = waiting.await;
        assert_eq!(code, 200, "{document}");
        assert!(document.to_string().contains("Gadget"), "of what is served by now");
    }
}
