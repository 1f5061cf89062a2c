//! One request: who asks, may they, what do they bring; then the API answers.

use std::{
    convert::Infallible,
    net::IpAddr,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    sync::Arc,
    task::Poll,
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body::Body as _;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use super::{
    Api, Body,
    audit::AuditLog,
    caller::{self, Certified, User},
    identity::Token,
    limits::Limits,
    metrics::Metrics,
    pulse::Pulse,
    recorded::{Record, Recorded},
    status::Refusal,
};

/// The unit in which room for bodies is given out: a semaphore counts in 32 bits.
const ROOM: usize = 1 << 10;
/// How much more than is taken is read of a body that is too long; as much as Go's server does.
const SPARE: usize = 256 << 10;
/// A client that sends nothing for so long is no longer waited for, if its body is too long anyway.
const LULL: Duration = Duration::from_millis(500);

/// What all connections share.
pub(super) struct Service<A> {
    api: Arc<A>,
    token: Token,
    pub limits: Arc<Limits>,
    pub metrics: Arc<Metrics>,
    pub closing: CancellationToken,
    audit: Option<AuditLog>,
    room: Arc<Semaphore>,
}

/// What a connection knows of its other end.
pub(super) struct Peer {
    pub address: IpAddr,
    pub certified: Option<Certified>,
    pub pulse: Arc<Pulse>,
}

impl<A: Api> Service<A> {
    pub fn new(
        api: Arc<A>,
        token: Token,
        limits: Limits,
        metrics: Arc<Metrics>,
        audit: Option<AuditLog>,
        closing: CancellationToken,
    ) -> Self {
        // Room for less than one body would refuse it for ever.
        let room = limits.bodies_bytes.max(limits.body_bytes).div_ceil(ROOM);
        let room = Arc::new(Semaphore::new(room.min(Semaphore::MAX_PERMITS)));
        Self { api, token, limits: Arc::new(limits), metrics, closing, audit, room }
    }

    /// Answers one request; there is always an answer.
    pub async fn serve(
        self: Arc<Self>,
        peer: Arc<Peer>,
        request: Request<Incoming>,
    ) -> Result<Response<Recorded>, Infallible> {
        let busy = peer.pulse.request();
        let mut record = Record::begin(&request, peer.address, &self.metrics, self.audit.as_ref(), busy);
        let answer = self.answer(&mut record, &peer, request).await;
        let (head, body) = answer.unwrap_or_else(Refusal::into_response).into_parts();
        let body = record.answered(head.status.as_u16(), body, &self.closing);
        Ok(Response::from_parts(head, body))
    }

    async fn answer(
        &self,
        record: &mut Record,
        peer: &Peer,
        request: Request<Incoming>,
    ) -> Result<Response<Body>, Refusal> {
        let (mut head, body) = request.into_parts();
        // HTTP/1 is stopped earlier by hyper; HTTP/2 bounds the size alone.
        if head.headers.len() > self.limits.headers {
            let message = format!("Request header fields too many: limit is {}", self.limits.headers);
            return Err(Refusal::new(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "BadRequest", message));
        }
        let user =
            caller::authenticate(peer.certified.as_ref(), &head.headers, &self.token, SystemTime::now())?;
        record.is_of(&user, None);
        if user.is_anonymous() && !caller::is_public(&head.method, head.uri.path()) {
            return Err(Refusal::unauthorized());
        }
        let user =
            match caller::impersonated(&user, &head.headers, |wish| self.api.may_impersonate(&user, wish))? {
                Some(wanted) => {
                    record.is_of(&wanted, Some(&user));
                    wanted
                }
                None => user,
            };
        caller::strip(&mut head.headers);
        let (body, _room) = self.read(body).await?;
        self.ask(user, Request::from_parts(head, body)).await
    }

    /// The whole body, and the room it takes until it is answered.
    async fn read(&self, body: Incoming) -> Result<(Bytes, Option<OwnedSemaphorePermit>), Refusal> {
        if body.is_end_stream() {
            return Ok((Bytes::new(), None));
        }
        let limit = self.limits.body_bytes;
        let declared = body.size_hint().exact().map(|size| usize::try_from(size).unwrap_or(usize::MAX));
        if declared.is_some_and(|size| size > limit) {
            // A client that is still sending when the connection ends may never see the answer.
            drain(body, limit + SPARE).await;
            return Err(Refusal::too_large(limit));
        }
        let units = u32::try_from(declared.unwrap_or(limit).div_ceil(ROOM)).unwrap_or(u32::MAX);
        let room = timeout(self.limits.body, self.room.clone().acquire_many_owned(units))
            .await
            .ok()
            .and_then(Result::ok)
            .ok_or_else(Refusal::busy)?;
        match timeout(self.limits.body, Limited::new(body, limit).collect()).await {
            Ok(Ok(whole)) => Ok((whole.to_bytes(), Some(room))),
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

    /// Asks the API. A panic ends this request alone, not the others of an HTTP/2 connection.
    async fn ask(&self, user: User, request: Request<Bytes>) -> Result<Response<Body>, Refusal> {
        let mut asked = pin!(self.api.clone().respond(user, request));
        std::future::poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| asked.as_mut().poll(cx))) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(response)) => Poll::Ready(Ok(response)),
            // The future is not polled again: whatever it left half done is only dropped.
            Err(_) => Poll::Ready(Err(Refusal::panicked())),
        })
        .await
    }
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
