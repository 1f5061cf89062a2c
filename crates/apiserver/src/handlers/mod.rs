//! HTTP in, HTTP out: what a request asks for, done by the storage, answered in the form the client accepts.
//!
//! Knows no socket: a listener and an in-process client call [`Api::respond`] alike.
//!
//! ```text
//! request -> path, query, headers -> [resource] storage | [documents] discovery, OpenAPI, health -> answer
//! ```

mod answer;
mod authorize;
#[cfg(test)]
mod bounds_tests;
mod compress;
mod documents;
mod health;
mod kept;
mod made;
mod metrics;
mod pieces;
mod resource;
mod reviews;
mod watch;

use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response, header};
use http_body::Body as _;
use http_body_util::BodyExt;

use crate::authn::User;
use crate::rbac;
use crate::request::body::Yaml;
use crate::request::path::{Target, Verb};
use crate::request::query::Query;
use crate::request::write::{Warnings, Write, WriteOptions};
use crate::secure_serving::{self};
use crate::status::ApiError;
use crate::storage::Storage;
use crate::store::Object;

/// The body of an answer: whole, made while it is read, or a stream of watch events.
pub type Body = http_body_util::combinators::UnsyncBoxBody<Bytes, Infallible>;

/// The API: a storage behind HTTP.
#[derive(Debug)]
pub struct Api {
    /// Does the work.
    pub storage: Arc<Storage>,
    /// Counters of secure serving, which `/metrics` shows beside those of the store.
    pub metrics: Arc<secure_serving::Metrics>,
    /// Room for events of watches that are no bytes of the store.
    made: Arc<secure_serving::Shares>,
    /// Room for objects that answers have yet to send.
    held: Arc<secure_serving::Shares>,
    described: documents::Described,
}

/// A YAML body as JSON, or what is wrong with it. Of several documents the first one counts, as upstream.
pub(crate) fn read_yaml(text: &str) -> Result<Yaml, String> {
    if let Some(value) = read_json(text) {
        return Ok((value, Vec::new()));
    }
    let read = capt_yaml::lenient(text);
    let (mut value, repeated) = read.map_err(|error| format!("yaml: line {}: {error}", error.at.line))?;
    shorten(&mut value);
    Ok((value, repeated))
}

/// YAML that is JSON, as programs write what they apply; read as such it takes a tenth of the time. `None` where the two could
/// differ: in escapes, characters beyond ASCII, merge keys, members given twice, and numbers that are not whole or too large.
fn read_json(text: &str) -> Option<serde_json::Value> {
    let plain = |byte: u8| matches!(byte, b' '..=b'~' | b'\n');
    if !text.starts_with('{') || text.contains("\\u") || text.contains("\"<<\"") || !text.bytes().all(plain) {
        return None;
    }
    let parsed = crate::json::parse(text.as_bytes()).ok()?;
    (parsed.duplicates.is_empty() && has_plain_numbers(&parsed.value)).then_some(parsed.value)
}

fn has_plain_numbers(value: &serde_json::Value) -> bool {
    match value {
        serde_json::Value::Number(number) => number.is_i64(),
        serde_json::Value::Array(items) => items.iter().all(has_plain_numbers),
        serde_json::Value::Object(members) => members.values().all(has_plain_numbers),
        _ => true,
    }
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
    /// Whose budgets count: not those of the user who is impersonated.
    payer: &'a User,
    pub warnings: Warnings,
    /// While the body, or what it became, is there.
    turn: Mutex<Option<secure_serving::Turn>>,
    /// Room for objects that the answer has yet to send.
    held: &'a Arc<secure_serving::Shares>,
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

    /// The body was decoded to something small: another one may be, whatever this request waits for now.
    pub fn is_decoded(&self) {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    /// Objects that wait to be sent to the client.
    fn keep(&self, objects: Vec<Arc<Object>>) -> kept::Objects {
        kept::Objects::new(self.held, self.payer, objects)
    }

    /// A text of the catalogue that waits to be sent to the client.
    fn keep_text(&self, text: &Arc<Bytes>) -> kept::Text {
        kept::Text::new(self.held, self.payer, text)
    }

    /// Objects of a target that become a list while the client reads it.
    fn wait(&self, target: &crate::storage::Target, objects: Vec<Arc<Object>>) -> pieces::Waiting {
        let (room, user) = (Arc::clone(self.held), self.payer.in_budgets());
        let maker = pieces::Maker {
            target: kept::Subject::new(self.held, self.payer, target),
            grow: Box::new(move |bytes| kept::share(&room, &user, bytes).ok().flatten()),
        };
        pieces::Waiting { objects: self.keep(objects), maker }
    }

    /// Room for bytes of the request that are kept for as long as its answer lasts; a few need none.
    fn keep_bytes(&self, bytes: usize) -> Result<Option<secure_serving::Share>, ApiError> {
        kept::share(self.held, self.payer, bytes)
    }

    pub fn user_agent(&self) -> &str {
        self.header(header::USER_AGENT).unwrap_or_default()
    }
}

impl Api {
    /// An API on a storage, with counters of its own.
    pub fn new(storage: Arc<Storage>) -> Self {
        Self {
            storage,
            metrics: Arc::default(),
            made: watch::room(),
            held: kept::room(),
            described: documents::Described::default(),
        }
    }

    /// Answers a request. Whoever sent it has been let in before.
    pub async fn respond(self: &Arc<Self>, user: &User, request: Request<Bytes>) -> Response<Body> {
        let (mut parts, body) = request.into_parts();
        let turn = Mutex::new(parts.extensions.remove());
        let asking = parts.extensions.remove::<secure_serving::Asking>();
        let call = Call {
            method: &parts.method,
            query: Query::parse(parts.uri.query().unwrap_or_default()),
            headers: &parts.headers,
            body: &body,
            user,
            payer: asking.as_ref().map_or(user, |secure_serving::Asking(asking)| asking),
            warnings: Warnings::default(),
            turn,
            held: &self.held,
        };
        let target = Target::parse(parts.uri.path());
        let asked = self.answer(&target, parts.uri.path(), &call);
        let answer = match patience(&target, &call) {
            Err(error) => Err(error),
            Ok(None) => asked.await,
            // As when the client goes away, what was begun may still be done.
            Ok(Some(patience)) => match tokio::time::timeout(patience, asked).await {
                Ok(answer) => answer,
                Err(_) => Err(ApiError::out_of_time()),
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
        if let Some(bytes) = made(&response) {
            response.extensions_mut().insert(bytes);
        }
        compress::compressed(response, call.header(header::ACCEPT_ENCODING))
    }

    async fn answer(
        self: &Arc<Self>,
        target: &Target,
        path: &str,
        call: &Call<'_>,
    ) -> Result<Response<Body>, ApiError> {
        self.authorize(target, path, call)?;
        match target {
            Target::Resource(path) => match self.review(path, call) {
                Some(review) => review,
                None => self.resource(path, call).await,
            },
            target => self.document(target, call).await,
        }
    }
}

/// How long a request may take, where it says so in `timeout`. A watch does not look at it, and what is longer than
/// upstream's limit is as good as none.
fn patience(target: &Target, call: &Call<'_>) -> Result<Option<Duration>, ApiError> {
    const MOST: Duration = Duration::from_secs(60);
    let is_watch = matches!(target, Target::Resource(path)
        if path.verb(call.method, call.query.flag("watch") == Some(true)) == Some(Verb::Watch));
    if is_watch {
        return Ok(None);
    }
    Ok(call.query.timeout()?.filter(|wanted| *wanted < MOST))
}

impl secure_serving::Api for Api {
    async fn respond(self: Arc<Self>, user: User, request: Request<Bytes>) -> Response<Body> {
        Api::respond(&self, &user, request).await
    }

    fn may_impersonate(&self, user: &User, wish: &rbac::Resource<'_>) -> rbac::Verdict {
        self.storage.rbac.authorize(&self.storage.store, user, "impersonate", &rbac::Object::Resource(*wish))
    }
}

/// Marks a response, in its extensions, whose bytes are not its own: the store's, or those of all answers of the kind.
#[derive(Clone, Copy, Debug)]
struct Shared;

/// What was made for an answer alone, unless it is small, or made while it is read.
fn made(response: &Response<Body>) -> Option<secure_serving::Made> {
    let extensions = response.extensions();
    if extensions.get::<Shared>().is_some() || extensions.get::<secure_serving::Finite>().is_some() {
        return None;
    }
    let bytes = response.body().size_hint().exact().and_then(|bytes| usize::try_from(bytes).ok());
    bytes.filter(|bytes| *bytes > pieces::FRAME).map(secure_serving::Made)
}

/// A body that is known whole. A large one is handed on in parts: whoever sends it holds what the request took of the
/// budgets until the last of them.
pub(crate) fn whole(bytes: impl Into<Bytes>) -> Body {
    let bytes = bytes.into();
    match bytes.len() {
        ..=pieces::FRAME => http_body_util::Full::new(bytes).boxed_unsync(),
        length => pieces::Pieces::known([pieces::Piece::Made(bytes)], length).boxed_unsync(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    pub(super) fn value() -> impl Strategy<Value = Value> {
        let text = prop_oneof!["[ -~]{0,12}", "[ -~\\n\\t\u{e9}\u{7f}\u{1F600}]{0,6}", Just("<<".to_owned())];
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            text.clone().prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 4, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::vec((text.clone(), inner), 0..4)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    #[tokio::test]
    async fn others_decode_while_a_collection_is_deleted() {
        let server = crate::Server::in_memory().await.unwrap();
        let (api, admin) = (server.api(), User::admin());
        let maps = "/api/v1/namespaces/default/configmaps";
        let turns = secure_serving::Turns::new(1, 1);
        let turn = |patience| turns.take(&admin, 1, Duration::from_secs(patience));
        // The thread that writes may answer each write before it is looked for: then the deletion never waits, and is tried again.
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
            request.extensions_mut().insert(turn(60).await.unwrap());
            assert!(turn(0).await.is_none());
            let mut deleted = Box::pin(api.respond(&admin, request));
            match futures::poll!(&mut deleted) {
                std::task::Poll::Pending => {
                    assert!(turn(0).await.is_some(), "the options are read");
                    assert_eq!(deleted.await.status().as_u16(), 200);
                    return;
                }
                std::task::Poll::Ready(answer) => assert_eq!(answer.status().as_u16(), 200),
            }
        }
        panic!("no deletion waited for its writes");
    }

    #[tokio::test]
    async fn what_is_made_for_one_answer_is_told() {
        let server = crate::Server::in_memory().await.unwrap();
        let (api, admin) = (server.api(), User::admin());
        let maps = "/api/v1/namespaces/default/configmaps";
        let body = json!({"metadata": {"name": "large"}, "data": {"a": "x".repeat(200 << 10)}}).to_string();
        let request = Request::post(maps).header("content-type", "application/json").body(body.into());
        assert_eq!(api.respond(&admin, request.unwrap()).await.status().as_u16(), 201);
        let one = format!("{maps}/large");
        for (path, accept, is_made) in [
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
                let made = answer.extensions().get::<secure_serving::Made>();
                assert_eq!(
                    made.is_some_and(|made| made.0 > 200 << 10),
                    is_made,
                    "{path} {accept} {encoding}"
                );
            }
        }
    }

    proptest! {
        #[test]
        fn json_is_read_as_the_yaml_that_it_is(value in value(), pretty: bool) {
            let whole = json!({"a": value});
            let text = if pretty { format!("{whole:#}") } else { whole.to_string() };
            if let Some(read) = read_json(&text) {
                let (mut yaml, repeated) = capt_yaml::lenient(&text).unwrap();
                shorten(&mut yaml);
                prop_assert_eq!(read, yaml);
                prop_assert!(repeated.is_empty());
            }
        }
    }

    #[test]
    fn what_is_not_the_same_in_both_is_left_to_yaml() {
        for text in [
            r#"{"a": 1, "a": 2}"#,
            r#"{"a": 1.5}"#,
            r#"{"a": 18446744073709551615}"#,
            r#"{"a": "\u00e9"}"#,
            r#"{"<<": {"b": 1}}"#,
            "{\"a\":\t1}",
            "a: 1",
            "{a: 1}",
            "[1]",
        ] {
            assert_eq!(read_json(text), None, "{text}");
        }
        assert_eq!(
            read_json(r#"{"a": [1, -2, "x\n", null, true, {}]}"#),
            Some(json!({"a": [1, -2, "x\n", null, true, {}]}))
        );
    }
}
