//! Limits of one client, and of all clients together.

use std::time::Duration;

/// Bounds on connections, requests and patience. The default suits a laptop and a few hundred watches.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Open connections. A client-go program holds one or two. When there are more, strangers and idle connections are
    /// closed first.
    pub connections: usize,
    /// Connections beyond these, for administrators.
    pub reserved_connections: usize,
    /// Requests under way that are no watches, without those of administrators, who have as many; half of it for one user.
    /// kube-apiserver's own number.
    pub requests: usize,
    /// Watches, likewise.
    pub watches: usize,
    /// Requests at once on one HTTP/2 connection. Every watch of an informer is one.
    pub streams: u32,
    /// Bytes of one request body; kube-apiserver's own bound.
    pub body_bytes: usize,
    /// Bytes of all request bodies being read or answered, shared as requests are; one that finds no room in time gets 429.
    pub bodies_bytes: usize,
    /// Bytes of request bodies that are decoded and answered at once, shared as requests are: as an object, a body may take a
    /// hundred times as much.
    pub decoded_bytes: usize,
    /// Bytes of the headers of one request. Far more than certificates in headers or long selectors take.
    pub header_bytes: u32,
    /// Number of headers of one request.
    pub headers: usize,
    /// Bytes of response that wait in one stream for a client that reads slowly.
    pub send_buffer: usize,
    /// From accept to the end of the TLS handshake.
    pub handshake: Duration,
    /// From the first byte of a request's head, or from the handshake, to the end of the head.
    pub head: Duration,
    /// From the end of the head to the end of the body.
    pub body: Duration,
    /// Between requests. Longer than the 90 seconds after which Go and hyper drop a pooled connection themselves:
    /// a request never meets a connection we are just closing.
    pub idle: Duration,
    /// Without progress in writing to a client that does not read, the whole connection or one stream of it.
    pub stalled: Duration,
    /// From the start of the shutdown until requests still running are cut off.
    pub shutdown: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 512,
            reserved_connections: 32,
            requests: 400,
            watches: 4096,
            streams: 250,
            body_bytes: 3 << 20,
            bodies_bytes: 64 << 20,
            decoded_bytes: 8 << 20,
            header_bytes: 64 << 10,
            headers: 100,
            send_buffer: 64 << 10,
            handshake: Duration::from_secs(10),
            head: Duration::from_secs(10),
            body: Duration::from_secs(30),
            idle: Duration::from_secs(180),
            stalled: Duration::from_secs(60),
            shutdown: Duration::from_secs(10),
        }
    }
}
