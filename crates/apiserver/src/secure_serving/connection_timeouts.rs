//! Whether a connection is still worth keeping: it reads a head, serves a request or waits for the next, and each
//! may take only so long.
//!
//! ```text
//! Head --request--> Busy --response sent--> Idle --first byte (HTTP/1)--> Head
//! ```
//!
//! hyper has one timer for heads, which also runs between requests: it cannot be both short for a slow attacker and
//! long for a pooled connection. On HTTP/2 a byte may be a ping, so only requests end idleness there; heads are
//! bounded in size, and a connection that never completes one is idle. A write that makes no progress counts too.

use std::{
    collections::HashMap,
    io,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Instant, sleep_until},
};

use super::limits::Limits;

#[derive(Debug)]
struct Beat {
    requests: usize,
    /// While no request is under way: since when, and whether a head has begun.
    since: Instant,
    in_head: bool,
    /// Since when the peer takes nothing.
    stalled: Option<Instant>,
    /// Since when each answer waits for the peer to take a frame: on HTTP/2 one stream may, while the others go on.
    unread: HashMap<u64, Instant>,
    /// The number of the next request.
    next: u64,
}

/// The state of one connection, shared by its socket, its requests and its watchdog.
#[derive(Debug)]
pub(super) struct ConnectionTimeouts {
    beat: Mutex<Beat>,
    limits: Arc<Limits>,
    /// A byte between requests begins a head.
    bytes_count: bool,
}

impl ConnectionTimeouts {
    pub fn new(limits: Arc<Limits>, bytes_count: bool) -> Arc<Self> {
        let beat = Beat {
            requests: 0,
            since: Instant::now(),
            in_head: true,
            stalled: None,
            unread: HashMap::new(),
            next: 0,
        };
        Arc::new(Self { beat: Mutex::new(beat), limits, bytes_count })
    }

    /// A request begins; it ends when the guard is dropped.
    pub fn request(self: &Arc<Self>) -> Busy {
        let id = self.with(|beat| {
            beat.requests += 1;
            beat.next += 1;
            beat.next
        });
        Busy { pulse: self.clone(), id }
    }

    /// Since when no request is under way.
    pub fn idle_since(&self) -> Option<Instant> {
        self.with(|beat| (beat.requests == 0).then_some(beat.since))
    }

    /// Returns when the connection is to be closed.
    pub async fn overdue(&self) {
        loop {
            let (due, now) = (self.due(), Instant::now());
            if due.is_some_and(|due| due <= now) {
                return;
            }
            // The state can turn to one that ends sooner, but to none that ends sooner than a head.
            let look_again = now + self.limits.head.min(self.limits.stalled);
            sleep_until(due.map_or(look_again, |due| due.min(look_again))).await;
        }
    }

    fn due(&self) -> Option<Instant> {
        self.with(|beat| {
            let patience = if beat.in_head { self.limits.head } else { self.limits.idle };
            let waiting = (beat.requests == 0).then(|| beat.since + patience);
            let stuck = beat.stalled.iter().chain(beat.unread.values()).min();
            let stuck = stuck.map(|since| *since + self.limits.stalled);
            waiting.into_iter().chain(stuck).min()
        })
    }

    fn read(&self) {
        if self.bytes_count {
            self.with(|beat| {
                if beat.requests == 0 && !beat.in_head {
                    (beat.in_head, beat.since) = (true, Instant::now());
                }
            });
        }
    }

    fn wrote(&self, progress: bool) {
        self.with(|beat| match (progress, beat.stalled) {
            (true, _) => beat.stalled = None,
            (false, None) => beat.stalled = Some(Instant::now()),
            (false, Some(_)) => {}
        });
    }

    fn with<T>(&self, change: impl FnOnce(&mut Beat) -> T) -> T {
        change(&mut self.beat.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A request under way.
pub(super) struct Busy {
    pulse: Arc<ConnectionTimeouts>,
    id: u64,
}

impl Busy {
    /// The connection asks for a frame of the answer, so it has sent those before.
    pub fn wanted(&self) {
        self.pulse.with(|beat| beat.unread.remove(&self.id));
    }

    /// The connection was given a frame to send.
    pub fn sending(&self) {
        self.pulse.with(|beat| beat.unread.insert(self.id, Instant::now()));
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.pulse.with(|beat| {
            beat.unread.remove(&self.id);
            beat.requests -= 1;
            (beat.in_head, beat.since) = (false, Instant::now());
        });
    }
}

/// A socket whose reads and writes are felt.
pub(super) struct MonitoredIo<S> {
    pub inner: S,
    pub pulse: Arc<ConnectionTimeouts>,
}

impl<S: AsyncRead + Unpin> AsyncRead for MonitoredIo<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.inner).poll_read(cx, buffer);
        if buffer.filled().len() > before {
            self.pulse.read();
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for MonitoredIo<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write(cx, bytes);
        self.pulse.wrote(written.is_ready());
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.inner).poll_flush(cx);
        self.pulse.wrote(flushed.is_ready());
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write_vectored(cx, slices);
        self.pulse.wrote(written.is_ready());
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::{advance, timeout};

    use super::*;

    fn limits() -> Arc<Limits> {
        Arc::new(Limits {
            head: Duration::from_secs(10),
            idle: Duration::from_secs(100),
            stalled: Duration::from_secs(50),
            ..Limits::default()
        })
    }

    async fn seconds_left(pulse: &ConnectionTimeouts) -> Option<u64> {
        let start = Instant::now();
        timeout(Duration::from_secs(1000), pulse.overdue()).await.ok().map(|()| start.elapsed().as_secs())
    }

    #[tokio::test(start_paused = true)]
    async fn each_phase_has_its_patience() {
        let pulse = ConnectionTimeouts::new(limits(), true);
        assert_eq!(seconds_left(&pulse).await, Some(10), "the first head");

        let request = pulse.request();
        assert_eq!(seconds_left(&pulse).await, None, "a request may last");
        drop(request);
        assert_eq!(seconds_left(&pulse).await, Some(100), "idle");

        drop(pulse.request());
        advance(Duration::from_secs(60)).await;
        pulse.read();
        advance(Duration::from_secs(3)).await;
        pulse.read();
        assert_eq!(seconds_left(&pulse).await, Some(7), "a trickle of bytes does not prolong a head");
    }

    #[tokio::test(start_paused = true)]
    async fn http2_pings_neither_begin_a_head_nor_prolong_idleness() {
        let pulse = ConnectionTimeouts::new(limits(), false);
        drop(pulse.request());
        advance(Duration::from_secs(60)).await;
        pulse.read();
        assert_eq!(seconds_left(&pulse).await, Some(40));
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_takes_nothing_is_overdue_even_with_a_request_under_way() {
        let pulse = ConnectionTimeouts::new(limits(), true);
        let _watch = pulse.request();
        pulse.wrote(false);
        advance(Duration::from_secs(20)).await;
        pulse.wrote(false);
        assert_eq!(seconds_left(&pulse).await, Some(30));
        pulse.wrote(true);
        assert_eq!(seconds_left(&pulse).await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_whose_frames_are_not_taken_is_overdue_even_with_others_going_on() {
        let pulse = ConnectionTimeouts::new(limits(), false);
        let (unread, read) = (pulse.request(), pulse.request());
        unread.sending();
        for _ in 0..4 {
            read.sending();
            advance(Duration::from_secs(10)).await;
            read.wanted();
            pulse.wrote(true);
        }
        assert_eq!(seconds_left(&pulse).await, Some(10));
        unread.wanted();
        assert_eq!(seconds_left(&pulse).await, None);
    }
}
