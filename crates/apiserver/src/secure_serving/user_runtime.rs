//! Threads for the requests of users who are not administrators.
//!
//! ```text
//! administrator ─────────────────────> the caller's threads
//! anybody else  ──respond, frames──> threads of their own, as many as there are processors
//! ```
//!
//! The work of one request is bounded, but some dozens that go through large objects at once take all threads for seconds.
//! On threads of their own they take their share of the processors, as the kernel gives it, and nobody waits behind them who
//! keeps the cluster going: the administrator, and the controllers in this process.

use std::{
    convert::Infallible,
    panic::resume_unwind,
    pin::Pin,
    sync::OnceLock,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http_body::{Body as _, Frame, SizeHint};
use http_body_util::BodyExt as _;
use tokio::{
    runtime::{Builder, Handle, Runtime},
    task::JoinError,
};
use tokio_util::task::AbortOnDropHandle;

use super::Body;

/// A body of at most this many bytes is made already: copying it takes no time worth a change of threads.
const WHOLE: u64 = 128 << 10;

/// The threads, started by the first request that needs them.
#[derive(Debug, Default)]
pub(super) struct UserRuntime(OnceLock<Option<Runtime>>);

impl UserRuntime {
    /// Where no thread can be started, the caller's are better than no answer.
    fn handle(&self) -> Handle {
        let start = || Builder::new_multi_thread().thread_name("capt-users").enable_all().build().ok();
        self.0.get_or_init(start).as_ref().map_or_else(Handle::current, |runtime| runtime.handle().clone())
    }

    /// Runs a future there. It is dropped with the one that is returned.
    pub async fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, JoinError> {
        AbortOnDropHandle::new(self.handle().spawn(work)).await
    }

    /// The same body, whose frames are made there.
    pub fn body(&self, body: Body) -> Body {
        if body.size_hint().upper().is_some_and(|bytes| bytes <= WHOLE) {
            return body;
        }
        let (hint, ended) = (body.size_hint(), body.is_end_stream());
        Relayed { runtime: self.handle(), body: Some(body), next: None, hint, ended }.boxed_unsync()
    }
}

impl Drop for UserRuntime {
    fn drop(&mut self) {
        // Waiting for threads is not for a thread that serves.
        if let Some(runtime) = self.0.take().flatten() {
            runtime.shutdown_background();
        }
    }
}

type NextFrame = (Body, Option<Result<Frame<Bytes>, Infallible>>);

/// A body whose frames are made on other threads, one at a time and only when one is asked for.
struct Relayed {
    runtime: Handle,
    /// The body, unless it is away.
    body: Option<Body>,
    /// The frame that is being made.
    next: Option<AbortOnDropHandle<NextFrame>>,
    hint: SizeHint,
    ended: bool,
}

impl http_body::Body for Relayed {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if let Some(mut body) = self.body.take() {
            let made = async move {
                let frame = body.frame().await;
                (body, frame)
            };
            self.next = Some(AbortOnDropHandle::new(self.runtime.spawn(made)));
        }
        // After a cut there is neither.
        let Some(next) = &mut self.next else { return Poll::Ready(None) };
        let made = ready!(Pin::new(next).poll(cx));
        self.next = None;
        match made {
            Ok((body, frame)) => {
                (self.hint, self.ended) = (body.size_hint(), body.is_end_stream());
                self.body = Some(body);
                Poll::Ready(frame)
            }
            Err(error) if error.is_panic() => resume_unwind(error.into_panic()),
            // The server is gone, and the client sees half an answer.
            Err(_) => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.ended
    }

    fn size_hint(&self) -> SizeHint {
        self.hint
    }
}
