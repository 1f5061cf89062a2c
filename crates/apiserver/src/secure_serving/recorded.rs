//! The record of one request, from its head to the last byte of its answer, and the body that carries it.
//!
//! A record is closed by being dropped, so whatever ends a request (its answer, the client, a shutdown) is counted.

use std::{
    convert::Infallible,
    net::IpAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Instant,
};

use bytes::Bytes;
use http::{Method, Request, header};
use http_body::{Frame, SizeHint};
use jiff::Timestamp;
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use super::{
    Body,
    audit::{AuditLog, Line, Stage, shortened},
    connection_timeouts::Busy,
    metrics::Metrics,
    user_budget::BudgetShare,
    verb::{RecordedVerb, resource_of},
};
use crate::authn::User;

/// As nginx logs a client that went away before it was answered.
const CLIENT_GONE: u16 = 499;

/// The record of a request, for metrics and the audit log.
pub(super) struct RequestRecord {
    metrics: Arc<Metrics>,
    audit: Option<Audited>,
    verb: RecordedVerb,
    /// Of the path no more is kept: it may be as long as a head, and the answer, a refusal too, may wait for a client that does
    /// not read it.
    resource: String,
    watch: bool,
    started: Instant,
    code: u16,
    bytes: u64,
    busy: Busy,
    /// Its share of the budget of requests.
    share: Option<BudgetShare>,
    /// What its body takes of the room for bodies: an answer is about as large, and there until it is read. Then what a larger
    /// answer takes.
    room: Vec<BudgetShare>,
    /// Permit of its connection, for a request that needs no credentials.
    probe: Option<OwnedSemaphorePermit>,
}

/// The fields that only the audit log needs.
struct Audited {
    log: AuditLog,
    method: Method,
    path: String,
    user_agent: String,
    source: IpAddr,
    user: String,
    impersonator: Option<String>,
}

impl RequestRecord {
    pub fn begin<B>(
        request: &Request<B>,
        source: IpAddr,
        metrics: &Arc<Metrics>,
        audit: Option<&AuditLog>,
        busy: Busy,
    ) -> Self {
        let audit = audit.map(|log| Audited {
            log: log.clone(),
            method: request.method().clone(),
            path: shortened(request.uri().path()).to_owned(),
            user_agent: request
                .headers()
                .get(header::USER_AGENT)
                .map(|value| shortened(&String::from_utf8_lossy(value.as_bytes())).to_owned())
                .unwrap_or_default(),
            source,
            user: User::anonymous().name,
            impersonator: None,
        });
        let verb = RecordedVerb::of(request.method(), request.uri());
        metrics.begin();
        let metrics = metrics.clone();
        Self {
            metrics,
            audit,
            verb,
            resource: shortened(&resource_of(request.uri())).to_owned(),
            watch: false,
            started: Instant::now(),
            code: CLIENT_GONE,
            bytes: 0,
            busy,
            share: None,
            room: Vec::new(),
            probe: None,
        }
    }

    /// The request is `user`'s, asked for by `impersonator`.
    pub fn is_of(&mut self, user: &User, impersonator: Option<&User>) {
        if let Some(audited) = &mut self.audit {
            shortened(&user.name).clone_into(&mut audited.user);
            audited.impersonator = impersonator.map(|user| shortened(&user.name).to_owned());
        }
    }

    /// Takes what the request takes of a budget, in place of what it had.
    pub fn takes(&mut self, share: BudgetShare) {
        self.share = Some(share);
    }

    /// Takes what a question that anybody may ask takes of its connection.
    pub fn probes(&mut self, probe: OwnedSemaphorePermit) {
        self.probe = Some(probe);
    }

    /// Keeps room of the request's body, or of its answer, until the answer is sent.
    pub fn keeps(&mut self, room: Option<BudgetShare>) {
        self.room.extend(room);
    }

    /// Makes the body of the answer carry this record. That of a watch ends on `closing`.
    pub fn answered(
        mut self,
        code: u16,
        body: Body,
        is_watch: bool,
        closing: &CancellationToken,
    ) -> Recorded {
        self.code = code;
        let mut end = None;
        if is_watch {
            self.watch = true;
            self.metrics.is_watch();
            self.log(Stage::ResponseStarted);
            end = Some(Box::pin(closing.clone().cancelled_owned()));
        }
        Recorded { body, end, in_event: false, record: self }
    }

    fn log(&self, stage: Stage) {
        let Some(Audited { log, method, path, user_agent, source, user, impersonator }) = &self.audit else {
            return;
        };
        log.log(&Line {
            time: format!("{:.6}", Timestamp::now()),
            stage,
            user,
            impersonator: impersonator.as_deref(),
            source: source.to_string(),
            verb: self.verb.as_str(),
            method: method.as_str(),
            path,
            code: self.code,
            latency_ms: self.started.elapsed().as_secs_f64() * 1000.0,
            bytes: self.bytes,
            user_agent,
        });
        self.metrics.set_audit_lost(log.lost());
    }
}

impl Drop for RequestRecord {
    fn drop(&mut self) {
        self.metrics.end(self.verb, &self.resource, self.code, self.watch, self.started.elapsed());
        self.log(Stage::ResponseComplete);
    }
}

/// A body that keeps the record of its request.
pub(super) struct Recorded {
    body: Body,
    /// When a watch is to end; nothing else is cut short.
    end: Option<Pin<Box<WaitForCancellationFutureOwned>>>,
    /// True if the last frame of a watch ended before its event.
    in_event: bool,
    record: RequestRecord,
}

impl http_body::Body for Recorded {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if !self.in_event && self.end.as_mut().is_some_and(|end| end.as_mut().poll(cx).is_ready()) {
            return Poll::Ready(None);
        }
        self.record.busy.wanted();
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        if let Poll::Ready(Some(Ok(frame))) = &frame {
            self.record.busy.sending();
            let data = frame.data_ref().map_or(&[][..], |data| data);
            self.in_event = data.last().is_some_and(|last| *last != b'\n');
            self.record.bytes += data.len() as u64;
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
