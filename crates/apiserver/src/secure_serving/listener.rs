//! The listener: accepts, up to a number of connections, until it is closed.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use tokio::{
    net::{TcpListener, TcpStream},
    select,
    sync::watch,
    task::{JoinHandle, JoinSet},
    time::{sleep, timeout},
};
use tokio_rustls::{TlsAcceptor, rustls};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{
    RequestHandler, audit::AuditLog, connection, connection_slots::ConnectionSlots, limits::Limits,
    metrics::Metrics, service::Service,
};
use crate::authn::Identity;

/// Out of file descriptors, accepting fails at once and would spin.
const AFTER_FAILURE: Duration = Duration::from_millis(100);

/// Why nothing listens.
#[derive(Debug, thiserror::Error)]
pub enum ServingError {
    /// The address is not loopback, and that was not allowed.
    #[error("{0} can be reached from other machines; listen on 127.0.0.1 or ::1, or allow remote clients")]
    Remote(SocketAddr),
    /// The address cannot be had.
    #[error("listen on {0}")]
    Listen(SocketAddr, #[source] io::Error),
    /// The server's certificates do not serve.
    #[error("set up TLS")]
    Tls(#[source] rustls::Error),
}

/// Settings of the listener.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The address; port 0 takes a free one.
    pub listen: SocketAddr,
    /// True if the address may be one that other machines reach.
    pub allow_remote: bool,
    /// The limits of clients.
    pub limits: Limits,
    /// The audit log, if there is one.
    pub audit: Option<AuditLog>,
    /// The counters of requests; an API that serves `/metrics` shares them.
    pub metrics: Arc<Metrics>,
}

impl Default for Settings {
    /// A free port of the loopback interface, without an audit log.
    fn default() -> Self {
        Self {
            listen: (Ipv4Addr::LOCALHOST, 0).into(),
            allow_remote: false,
            limits: Limits::default(),
            audit: None,
            metrics: Arc::default(),
        }
    }
}

/// A listener. Dropping it begins to close it; [`SecureServer::close`] also waits.
pub struct SecureServer {
    address: SocketAddr,
    tls: watch::Sender<TlsAcceptor>,
    closing: DropGuard,
    accepting: JoinHandle<usize>,
    audit: Option<AuditLog>,
}

impl std::fmt::Debug for SecureServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SecureServer").field("address", &self.address).finish_non_exhaustive()
    }
}

impl SecureServer {
    /// Listens, and serves `api` to clients that `identity` authenticates. When this returns, connections are taken.
    pub async fn open<A: RequestHandler>(
        api: Arc<A>,
        identity: &Identity,
        settings: Settings,
    ) -> Result<Self, ServingError> {
        let Settings { listen, allow_remote, limits, audit, metrics } = settings;
        if !allow_remote && !listen.ip().to_canonical().is_loopback() {
            return Err(ServingError::Remote(listen));
        }
        let (tls, shown) = watch::channel(acceptor(identity)?);
        let listener =
            TcpListener::bind(listen).await.map_err(|error| ServingError::Listen(listen, error))?;
        let address = listener.local_addr().map_err(|error| ServingError::Listen(listen, error))?;
        let closing = CancellationToken::new();
        let service =
            Service::new(api, identity.owned_token(), limits, metrics, audit.clone(), closing.clone());
        let accepting = tokio::spawn(accept(listener, shown, Arc::new(service)));
        Ok(Self { address, tls, closing: closing.drop_guard(), accepting, audit })
    }

    /// Uses newer certificates for new connections. The token and open connections stay as they are.
    pub fn renew(&self, identity: &Identity) -> Result<(), ServingError> {
        self.tls.send_replace(acceptor(identity)?);
        Ok(())
    }

    /// The address of the listener.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The URL for clients on this machine.
    pub fn url(&self) -> String {
        let ip = match self.address.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
            ip => ip,
        };
        format!("https://{}", SocketAddr::new(ip, self.address.port()))
    }

    /// Takes no more connections, ends watches, lets requests finish, and cuts off what is left after
    /// [`Limits::shutdown`]. Tells how many connections were cut off.
    pub async fn close(self) -> usize {
        let Self { address: _, tls: _, closing, accepting, audit } = self;
        drop(closing);
        // The task ends by itself and does not panic; were it to, nothing would be left to cut off.
        let cut_off = accepting.await.unwrap_or_default();
        if let Some(audit) = audit {
            audit.flush().await;
        }
        cut_off
    }
}

fn acceptor(identity: &Identity) -> Result<TlsAcceptor, ServingError> {
    Ok(TlsAcceptor::from(Arc::new(identity.tls().map_err(ServingError::Tls)?)))
}

async fn accept<A: RequestHandler>(
    listener: TcpListener,
    tls: watch::Receiver<TlsAcceptor>,
    service: Arc<Service<A>>,
) -> usize {
    let slots = ConnectionSlots::new(&service.limits);
    let mut connections = JoinSet::new();
    loop {
        select! {
            () = service.closing.cancelled() => break,
            // Forgets those that have ended.
            Some(_) = connections.join_next() => {}
            accepted = next(&listener, &slots) => match accepted {
                Ok((stream, address)) => {
                    let slot = Arc::new(slots.enter(address.ip()));
                    let tls = tls.borrow().clone();
                    connections.spawn(connection::serve(service.clone(), tls, stream, address, slot));
                }
                Err(_) => sleep(AFTER_FAILURE).await,
            },
        }
    }
    drop(listener);
    let finished = async { while connections.join_next().await.is_some() {} };
    // Those still there after the deadline are cut off.
    let _ = timeout(service.limits.shutdown, finished).await;
    let cut_off = connections.len();
    connections.shutdown().await;
    cut_off
}

/// The next connection, once there may be one.
async fn next(listener: &TcpListener, slots: &ConnectionSlots) -> io::Result<(TcpStream, SocketAddr)> {
    slots.room().await;
    listener.accept().await
}
