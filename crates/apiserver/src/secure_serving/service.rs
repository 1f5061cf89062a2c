//! One request: who asks, may they, what do they bring; then the API answers.

use std::{
    convert::Infallible,
    error::Error,
    net::IpAddr,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    sync::Arc,
    task::Poll,
    time::{Duration, SystemTime},
};

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Method, Request, Response, StatusCode, header, response};
use http_body::Body as _;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming;
use tokio::{sync::Semaphore, time::timeout};
use tokio_util::sync::CancellationToken;

use super::{
    Body, Finite, Impersonator, RequestHandler, UnsharedBytes,
    audit::AuditLog,
    connection_slots::ConnectionSlot,
    connection_timeouts::ConnectionTimeouts,
    decode_permits::DecodePermits,
    impersonation,
    limits::Limits,
    metrics::Metrics,
    recorded::{Recorded, RequestRecord},
    status::Refusal,
    user_budget::{BudgetShare, UserBudget},
    user_runtime::UserRuntime,
};
use crate::authn::{Certified, Token, User, authenticate};

/// The unit in which room for bodies is given out: a small body costs more than its bytes.
const ROOM: usize = 1 << 10;
/// The bytes read of a body beyond its limit before the connection is closed; as many as Go's server reads.
const SPARE: usize = 256 << 10;
/// A client that sends nothing for so long is no longer waited for, if its body is too long anyway.
const LULL: Duration = Duration::from_millis(500);

/// As many questions that anybody may ask are answered at a time on one connection.
pub(super) const PROBES: usize = 8;

/// State that all connections share.
pub(super) struct Service<A> {
    api: Arc<A>,
    token: Token,
    pub limits: Arc<Limits>,
    pub metrics: Arc<Metrics>,
    pub closing: CancellationToken,
    audit: Option<AuditLog>,
    room: Arc<UserBudget>,
    requests: Arc<UserBudget>,
    watches: Arc<UserBudget>,
    turns: DecodePermits,
    users: UserRuntime,
}

/// The peer of a connection.
pub(super) struct Peer {
    pub address: IpAddr,
    pub certified: Option<Certified>,
    pub pulse: Arc<ConnectionTimeouts>,
    pub slot: Arc<ConnectionSlot>,
    /// What a client that does not read its answers can hold of this connection with questions that anybody may ask.
    pub probes: Arc<Semaphore>,
}

impl<A: RequestHandler> Service<A> {
    pub fn new(
        api: Arc<A>,
        token: Token,
        limits: Limits,
        metrics: Arc<Metrics>,
        audit: Option<AuditLog>,
        closing: CancellationToken,
    ) -> Self {
        // Room for less than one body would refuse it for ever.
        let body = limits.body_bytes.div_ceil(ROOM);
        let room = UserBudget::new(limits.bodies_bytes.div_ceil(ROOM), body);
        Self {
            api,
            token,
            room,
            requests: UserBudget::new(limits.requests, 1),
            watches: UserBudget::new(limits.watches, 1),
            turns: DecodePermits::new(limits.decoded_bytes, limits.body_bytes),
            users: UserRuntime::default(),
            limits: Arc::new(limits),
            metrics,
            closing,
            audit,
        }
    }

    /// Answers one request; there is always an answer.
    pub async fn serve(
        self: Arc<Self>,
        peer: Arc<Peer>,
        request: Request<Incoming>,
    ) -> Result<Response<Recorded>, Infallible> {
        let busy = peer.pulse.request();
        let mut record =
            RequestRecord::begin(&request, peer.address, &self.metrics, self.audit.as_ref(), busy);
        let is_head = request.method() == Method::HEAD;
        let answer = self.answer(&mut record, &peer, request).await;
        let (mut head, mut body) = answer.unwrap_or_else(Refusal::into_response).into_parts();
        if is_head {
            body = without_content(&mut head, &body);
        }
        let is_watch = is_watch(&head, &body);
        let body = record.answered(head.status.as_u16(), body, is_watch, &self.closing);
        Ok(Response::from_parts(head, body))
    }

    async fn answer(
        &self,
        record: &mut RequestRecord,
        peer: &Peer,
        request: Request<Incoming>,
    ) -> Result<Response<Body>, Refusal> {
        let (mut head, body) = request.into_parts();
        // HTTP/1 is stopped earlier by hyper; HTTP/2 bounds the size alone.
        if head.headers.len() > self.limits.headers {
            let message = format!("Request header fields too many: limit is {}", self.limits.headers);
            return Err(Refusal::new(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "BadRequest", message));
        }
        let user = authenticate(peer.certified.as_ref(), &head.headers, &self.token, SystemTime::now())?;
        record.is_of(&user, None);
        peer.slot.is_of(&user)?;
        let is_public = impersonation::is_public(&head.method, head.uri.path());
        if is_public {
            // Whoever watches over the server is answered whatever strangers hold, each on a connection of its own.
            let probe = Arc::clone(&peer.probes).try_acquire_owned();
            record.probes(probe.map_err(|_| Refusal::busy())?);
        } else {
            record.takes(self.requests.take(&user, 1).ok_or_else(Refusal::busy)?);
        }
        if user.is_anonymous() && !is_public {
            return Err(Refusal::unauthorized());
        }
        // Requests count against the budgets of the impersonator.
        let asking = user.clone();
        let user = match self.impersonated(&user, &head.headers).await? {
            Some(wanted) => {
                record.is_of(&wanted, Some(&user));
                head.extensions.insert(Impersonator(user));
                wanted
            }
            None => user,
        };
        impersonation::strip(&mut head.headers);
        let (body, room) = if brings_nothing(&head.method) {
            self.ignore(body).await;
            (Bytes::new(), None)
        } else {
            self.read(&asking, body).await?
        };
        record.keeps(room);
        if !body.is_empty() {
            let turn = self.turns.take(&asking, body.len(), self.limits.body).await;
            head.extensions.insert(turn.ok_or_else(Refusal::busy)?);
        }
        let (is_read, length) = (brings_nothing(&head.method), body.len());
        // Whether the server is up is told whatever users ask of it.
        let here = asking.is_master() || is_public;
        let asked = ask(self.api.clone().respond(user, Request::from_parts(head, body)));
        let answer = if here {
            asked.await?
        } else {
            self.users
                .run(asked)
                .await
                .unwrap_or_else(|_| Err(Refusal::panicked()))?
                .map(|body| self.users.body(body))
        };
        let (head, body) = answer.into_parts();
        if is_watch(&head, &body) {
            record.takes(self.watches.take(&asking, 1).ok_or_else(Refusal::busy)?);
        }
        if let Some(UnsharedBytes(bytes)) = head.extensions.get()
            && *bytes > length
        {
            // Not waited for: the answer is there already.
            let room = self.room.take(&asking, (bytes - length).div_ceil(ROOM));
            let refusal = || if is_read { Refusal::busy() } else { Refusal::unanswered() };
            record.keeps(Some(room.ok_or_else(refusal)?));
        }
        Ok(Response::from_parts(head, body))
    }

    /// Authorizes impersonation. Each part goes through all rules, so that is done on the threads of the user.
    async fn impersonated(&self, user: &User, headers: &HeaderMap) -> Result<Option<User>, Refusal> {
        if !impersonation::is_wish(headers) {
            return Ok(None);
        }
        let (api, asking, headers) = (Arc::clone(&self.api), user.clone(), headers.clone());
        let wanted = async move {
            impersonation::impersonated(&asking, &headers, |wish| api.may_impersonate(&asking, wish))
        };
        if user.is_master() {
            return wanted.await;
        }
        self.users.run(wanted).await.unwrap_or_else(|_| Err(Refusal::panicked()))
    }

    /// Reads past a body that means nothing, as Go's server does; on a connection with more of it no other request follows.
    async fn ignore(&self, body: Incoming) {
        if !body.is_end_stream() {
            let _ = timeout(self.limits.body, drain(body, SPARE)).await;
        }
    }

    /// The whole body, and the room it takes until the answer is sent.
    async fn read(&self, user: &User, body: Incoming) -> Result<(Bytes, Option<BudgetShare>), Refusal> {
        if body.is_end_stream() {
            return Ok((Bytes::new(), None));
        }
        let limit = self.limits.body_bytes;
        let declared = body.size_hint().exact().map(|size| usize::try_from(size).unwrap_or(usize::MAX));
        if declared.is_some_and(|size| size > limit) {
            // A client that is still sending when the connection ends may never see the answer.
            let _ = timeout(self.limits.body, drain(body, limit + SPARE)).await;
            return Err(Refusal::too_large(limit));
        }
        let units = declared.unwrap_or(limit).div_ceil(ROOM);
        let room = self.room.take_within(user, units, self.limits.body).await.ok_or_else(Refusal::busy)?;
        match timeout(self.limits.body, whole(Limited::new(body, limit), declared.unwrap_or_default())).await
        {
            Ok(Ok(whole)) => Ok((whole, Some(room))),
            Ok(Err(error)) if error.is::<LengthLimitError>() => Err(Refusal::too_large(limit)),
            Ok(Err(error)) => {
                let message = format!("read the request body: {error}");
                Err(Refusal::new(StatusCode::BAD_REQUEST, "BadRequest", message))
            }
            Err(_) => {
                let message = format!("the request body did not arrive within {:?}", self.limits.body);
                Err(Refusal::new(StatusCode::REQUEST_TIMEOUT, "Timeout", message))
            }
        }
    }
}

/// Waits for the API's answer. A panic ends this request alone, not the others of an HTTP/2 connection.
async fn ask(asked: impl Future<Output = Response<Body>>) -> Result<Response<Body>, Refusal> {
    let mut asked = pin!(asked);
    std::future::poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| asked.as_mut().poll(cx))) {
        Ok(Poll::Pending) => Poll::Pending,
        Ok(Poll::Ready(response)) => Poll::Ready(Ok(response)),
        // The future is not polled again: whatever it left half done is only dropped.
        Err(_) => Poll::Ready(Err(Refusal::panicked())),
    })
    .await
}

/// The body of an answer to HEAD, whose headers are those of GET. Over HTTP/2 hyper sends whatever body it is given, which
/// clients take for a broken stream.
fn without_content(head: &mut response::Parts, body: &Body) -> Body {
    if let Some(length) = body.size_hint().exact() {
        head.headers.entry(header::CONTENT_LENGTH).or_insert_with(|| length.into());
    }
    http_body_util::Empty::new().boxed_unsync()
}

/// A body of unknown length is a watch, unless it is marked as finite.
fn is_watch(head: &response::Parts, body: &Body) -> bool {
    let is_finite = head.extensions.get::<Finite>().is_some();
    !is_finite && !body.is_end_stream() && body.size_hint().exact().is_none()
}

/// Returns whether the body of a method is ignored: reading it would hold room while the request waits for something else.
fn brings_nothing(method: &Method) -> bool {
    ![Method::POST, Method::PUT, Method::PATCH, Method::DELETE].contains(method)
}

/// A body in one piece. It may come byte by byte, and a piece of its own for each would take far more room than it has.
async fn whole(mut body: Limited<Incoming>, expected: usize) -> Result<Bytes, Box<dyn Error + Send + Sync>> {
    let mut whole = BytesMut::with_capacity(expected);
    while let Some(frame) = body.frame().await {
        if let Some(data) = frame?.data_ref() {
            whole.extend_from_slice(data);
        }
    }
    Ok(whole.freeze())
}

/// Reads a body while it comes, and keeps nothing of it.
async fn drain(mut body: Incoming, most: usize) {
    let mut read = 0;
    while read < most
        && let Ok(Some(Ok(frame))) = timeout(LULL, body.frame()).await
    {
        read += frame.data_ref().map_or(0, Bytes::len);
    }
}
