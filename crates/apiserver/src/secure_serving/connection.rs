//! One connection: TLS, the protocol its client chose, and its end.

use std::{net::SocketAddr, pin::pin, sync::Arc, time::Duration};

use hyper::{
    server::conn::{http1, http2},
    service::service_fn,
};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::graceful::GracefulConnection,
};
use tokio::{net::TcpStream, select, sync::Semaphore, time::timeout};
use tokio_rustls::TlsAcceptor;

use super::{
    RequestHandler,
    connection_slots::ConnectionSlot,
    connection_timeouts::{ConnectionTimeouts, MonitoredIo},
    limits::Limits,
    service::{PROBES, Peer, Service},
};
use crate::authn::Certified;

/// The time for a refused client to close its connection.
const GOODBYE: Duration = Duration::from_secs(1);
/// An HTTP/2 client that has gone without a word is noticed by an unanswered ping, watches or not.
const PING_EVERY: Duration = Duration::from_secs(30);
const PONG_WITHIN: Duration = Duration::from_secs(20);
/// How much of a request's body a client may send before it is read, over HTTP/2: a body that waits for its room is in memory
/// already. Half of the requests of a user may wait so.
const STREAM_WINDOW: u32 = 64 << 10;
/// The same of all bodies of a connection: some that wait must not keep another one from being sent.
const CONNECTION_WINDOW: u32 = 1 << 20;
/// The least hyper takes.
const SMALLEST_BUFFER: usize = 8 << 10;

/// Serves `stream` until either end has had enough. What goes wrong here is the client's to notice.
pub(super) async fn serve<A: RequestHandler>(
    service: Arc<Service<A>>,
    tls: TlsAcceptor,
    stream: TcpStream,
    address: SocketAddr,
    slot: Arc<ConnectionSlot>,
) {
    let metrics = service.metrics.clone();
    let _counted = metrics.connection();
    // Events are small and must not wait for more; failing to say so is not worth a connection.
    let _ = stream.set_nodelay(true);
    let shaken = select! {
        shaken = timeout(service.limits.handshake, tls.accept(stream)) => shaken,
        () = service.closing.cancelled() => return,
        () = slot.lost() => return,
    };
    let Ok(Ok(stream)) = shaken else { return };
    let (_, session) = stream.get_ref();
    let certified = session.peer_certificates().and_then(<[_]>::first).and_then(|leaf| Certified::read(leaf));
    let is_http2 = session.alpn_protocol() == Some(b"h2");

    let pulse = ConnectionTimeouts::new(service.limits.clone(), !is_http2);
    let stream = TokioIo::new(MonitoredIo { inner: stream, pulse: pulse.clone() });
    slot.established(&pulse);
    let peer = Arc::new(Peer {
        address: address.ip(),
        certified,
        pulse: pulse.clone(),
        slot: slot.clone(),
        probes: Arc::new(Semaphore::new(PROBES)),
    });
    let (limits, closing) = (service.limits.clone(), service.closing.clone());
    let answer = service_fn(move |request| service.clone().serve(peer.clone(), request));
    let closing = closing.cancelled();
    let over = async {
        select! {
            () = pulse.overdue() => {}
            () = slot.lost() => {}
        }
    };
    if is_http2 {
        drive(http2(&limits).serve_connection(stream, answer), over, closing).await;
    } else {
        drive(http1(&limits).serve_connection(stream, answer), over, closing).await;
    }
}

fn http1(limits: &Limits) -> http1::Builder {
    let mut builder = http1::Builder::new();
    // Heads are timed by the pulse. The number of headers is hyper's own 100: another number costs an allocation each.
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(None)
        .max_header_size(limits.header_bytes as usize)
        .max_buf_size(limits.send_buffer.max(limits.header_bytes as usize).max(SMALLEST_BUFFER));
    builder
}

fn http2(limits: &Limits) -> http2::Builder<TokioExecutor> {
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(limits.streams)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_header_list_size(limits.header_bytes)
        .max_send_buf_size(limits.send_buffer)
        .keep_alive_interval(PING_EVERY)
        .keep_alive_timeout(PONG_WITHIN);
    builder
}

/// Runs a connection to its end: its own, that of the server's patience, or that of the server.
async fn drive(
    connection: impl GracefulConnection,
    over: impl Future<Output = ()>,
    closing: impl Future<Output = ()>,
) {
    let (mut connection, mut over) = (pin!(connection), pin!(over));
    select! {
        _ = connection.as_mut() => return,
        () = over.as_mut() => {}
        () = closing => {
            connection.as_mut().graceful_shutdown();
            select! {
                _ = connection.as_mut() => return,
                () = over.as_mut() => {}
            }
        }
    }
    connection.as_mut().graceful_shutdown();
    // Late or not, it is dropped now.
    let _ = timeout(GOODBYE, connection).await;
}
