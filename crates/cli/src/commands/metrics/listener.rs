//! A small HTTP server: one request for each connection, some connections at a time, and a pause where none can be accepted.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

/// Connections at a time: a few scrapers and probes. More of them wait in the kernel's queue.
const CONNECTIONS: usize = 32;
/// Time limit of a client to send the head of its request: scrapers and probes send it at once.
const HEAD: Duration = Duration::from_secs(5);
/// Time limit of a whole connection.
const CONNECTION: Duration = Duration::from_secs(30);
/// Largest head of a request.
const HEAD_BYTES: usize = 16 << 10;
/// The first pause after a connection could not be accepted, as Go's HTTP server has it: without descriptors accepting fails at once.
const FIRST_PAUSE: Duration = Duration::from_millis(5);
/// The longest one. Each is twice the one before.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Accepts connections.
pub trait Accept: Send + 'static {
    /// A connection.
    type Stream: AsyncRead + AsyncWrite + Send + Unpin + 'static;
    /// The next one.
    fn accept(&self) -> impl Future<Output = io::Result<Self::Stream>> + Send;
}

impl Accept for TcpListener {
    type Stream = TcpStream;

    async fn accept(&self) -> io::Result<TcpStream> {
        Self::accept(self).await.map(|(stream, _)| stream)
    }
}

/// Answers whoever connects, until it is dropped.
pub async fn serve<A, F>(listener: A, answer: impl Fn(Request<Incoming>) -> F + Clone + Send + 'static)
where
    A: Accept,
    F: Future<Output = Response<Full<Bytes>>> + Send + 'static,
{
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    let mut pause = FIRST_PAUSE;
    loop {
        let place = Arc::clone(&places).acquire_owned().await.expect("nobody closes the places");
        match listener.accept().await {
            Ok(stream) => {
                pause = FIRST_PAUSE;
                let connection = connection(stream, answer.clone());
                tokio::spawn(async move {
                    // What goes wrong on a connection is its client's to notice.
                    let _ = timeout(CONNECTION, connection).await;
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "accept a connection for metrics or health: tried again after a pause");
                sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        }
    }
}

async fn connection<F>(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    answer: impl Fn(Request<Incoming>) -> F + Send + 'static,
) where
    F: Future<Output = Response<Full<Bytes>>> + Send + 'static,
{
    let answer = service_fn(move |request| {
        let answer = answer(request);
        async move { Ok::<_, Infallible>(answer.await) }
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEAD).max_buf_size(HEAD_BYTES).keep_alive(false);
    let _ = builder.serve_connection(TokioIo::new(stream), answer).await;
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use http::StatusCode;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
    use tokio::sync::{Mutex, mpsc};
    use tokio::time::Instant;

    use super::*;

    /// Fails as often as `fails`, and then gives what is sent to it.
    struct Fake {
        fails: usize,
        asked: Arc<AtomicUsize>,
        streams: Mutex<mpsc::UnboundedReceiver<DuplexStream>>,
    }

    impl Accept for Fake {
        type Stream = DuplexStream;

        async fn accept(&self) -> io::Result<DuplexStream> {
            if self.asked.fetch_add(1, Ordering::Relaxed) < self.fails {
                return Err(rustix::io::Errno::MFILE.into());
            }
            match self.streams.lock().await.recv().await {
                Some(stream) => Ok(stream),
                None => std::future::pending().await,
            }
        }
    }

    /// Serves "ok"; gives the number of calls of accept, and what connects.
    fn served(fails: usize) -> (Arc<AtomicUsize>, impl Fn() -> DuplexStream) {
        let (send, streams) = mpsc::unbounded_channel();
        let asked = Arc::new(AtomicUsize::new(0));
        let fake = Fake { fails, asked: Arc::clone(&asked), streams: Mutex::new(streams) };
        tokio::spawn(serve(fake, |_| async { super::super::text(StatusCode::OK, "ok") }));
        let connect = move || {
            let (here, there) = duplex(1 << 16);
            send.send(there).unwrap();
            here
        };
        (asked, connect)
    }

    async fn answer(stream: &mut DuplexStream) -> String {
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        text
    }

    #[tokio::test(start_paused = true)]
    async fn without_descriptors_it_does_not_spin() {
        // As many as a loop without pauses has at once.
        let (asked, connect) = served(10_000);
        sleep(Duration::from_secs(60)).await;
        let times = asked.load(Ordering::Relaxed);
        assert!((60..80).contains(&times), "accepted {times} times in a minute");
        drop(connect);

        let (_, connect) = served(12);
        let mut client = connect();
        client.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
        assert!(answer(&mut client).await.starts_with("HTTP/1.1 200 OK"), "it goes on once there are some");
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_says_nothing_is_sent_away() {
        let (_, connect) = served(0);
        let start = Instant::now();
        for begun in ["", "GET / HTTP/1.1\r\nHo"] {
            let mut client = connect();
            client.write_all(begun.as_bytes()).await.unwrap();
            let _ = answer(&mut client).await;
        }
        assert!(start.elapsed() <= HEAD * 2 + Duration::from_secs(1), "{:?}", start.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn so_many_connections_and_no_more() {
        let (asked, connect) = served(0);
        let silent: Vec<DuplexStream> = (0..CONNECTIONS + 10).map(|_| connect()).collect();
        tokio::task::yield_now().await;
        sleep(Duration::from_secs(1)).await;
        assert_eq!(asked.load(Ordering::Relaxed), CONNECTIONS);
        drop(silent);
        let mut client = connect();
        client.write_all(b"HEAD / HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
        let answer = answer(&mut client).await;
        assert!(answer.contains("connection: close") && answer.ends_with("\r\n\r\n"), "{answer}");
    }
}
