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
use http::{Method, Request, Uri, header};
use http_body::{Body as _, Frame, SizeHint};
use jiff::Timestamp;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use super::{
    Body,
    audit::{AuditLog, Line, Stage, shortened},
    caller::User,
    metrics::Metrics,
    pulse::Busy,
    verb::{Verb, resource_of},
};

/// As nginx logs a client that went away before it was answered.
const CLIENT_GONE: u16 = 499;

/// What is known of a request.
pub(super) struct Record {
    metrics: Arc<Metrics>,
    audit: Option<Audited>,
    verb: Verb,
    uri: Uri,
    watch: bool,
    started: Instant,
    code: u16,
    bytes: u64,
    _busy: Busy,
}

/// What only the audit log needs.
struct Audited {
    log: AuditLog,
    method: Method,
    path: String,
    user_agent: String,
    source: IpAddr,
    user: String,
    impersonator: Option<String>,
}

impl Record {
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
        let verb = Verb::of(request.method(), request.uri());
        metrics.begin();
        let metrics = metrics.clone();
        Self {
            metrics,
            audit,
            verb,
            uri: request.uri().clone(),
            watch: false,
            started: Instant::now(),
            code: CLIENT_GONE,
            bytes: 0,
            _busy: busy,
        }
    }

    /// The request is `user`'s, asked for by `impersonator`.
    pub fn is_of(&mut self, user: &User, impersonator: Option<&User>) {
        if let Some(audited) = &mut self.audit {
            shortened(&user.name).clone_into(&mut audited.user);
            audited.impersonator = impersonator.map(|user| user.name.clone());
        }
    }

    /// Makes the body of the answer carry this record. One of unknown length is a watch, and ends on `closing`.
    pub fn answered(mut self, code: u16, body: Body, closing: &CancellationToken) -> Recorded {
        self.code = code;
        let mut end = None;
        if !body.is_end_stream() && body.size_hint().exact().is_none() {
            self.watch = true;
            self.metrics.is_watch();
            self.log(Stage::ResponseStarted);
            end = Some(Box::pin(closing.clone().cancelled_owned()));
        }
        Recorded { body, end, record: self }
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

impl Drop for Record {
    fn drop(&mut self) {
        self.metrics.end(self.verb, &resource_of(&self.uri), self.code, self.watch, self.started.elapsed());
        self.log(Stage::ResponseComplete);
    }
}

/// A body that keeps the record of its request.
pub(super) struct Recorded {
    body: Body,
    /// When a watch is to end; nothing else is cut short.
    end: Option<Pin<Box<WaitForCancellationFutureOwned>>>,
    record: Record,
}

impl http_body::Body for Recorded {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.end.as_mut().is_some_and(|end| end.as_mut().poll(cx).is_ready()) {
            return Poll::Ready(None);
        }
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        if let Poll::Ready(Some(Ok(frame))) = &frame {
            self.record.bytes += frame.data_ref().map_or(0, Bytes::len) as u64;
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
