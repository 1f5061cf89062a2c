//! Addresses that credentials of a kubeconfig may be sent to.
//!
//! ```text
//! server of the kubeconfig: https, certificates checked -> name resolved once -> address allowed -> config pinned to it
//! ```
//!
//! Whoever may write the Secret names the server. CAPT runs where they do not, beside the cloud's metadata service and other
//! services without TLS, and shows what is answered. So nothing is asked but a server that proves to be the one of the kubeconfig's CA,
//! at the address that was looked at.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use http::{HeaderValue, Uri, header};
use kube::Config;
use tokio::net::{TcpStream, lookup_host};

/// Addresses of one name that are looked at.
const ADDRESSES: usize = 4;

/// Why a server is not asked.
#[derive(Debug, Eq, PartialEq, thiserror::Error)]
pub enum RefusedEndpoint {
    /// Credentials do not go there.
    #[error("{0}")]
    OffLimits(String),
    /// Its name has no address.
    #[error("{0} does not resolve from here")]
    Unresolved(String),
}

/// A server that can be asked.
#[derive(Debug)]
pub struct Endpoint {
    /// Its name and port, for messages.
    pub shown: String,
    /// Its address.
    pub address: SocketAddr,
}

/// Resolves the server of a config, and has the config lead there and nowhere else: a name may have another address a moment later.
pub async fn pin(config: &mut Config, patience: Duration) -> Result<Endpoint, RefusedEndpoint> {
    let (host, port) = server(config).map_err(|why| RefusedEndpoint::OffLimits(why.to_owned()))?;
    let shown = format!("{host}:{port}");
    let found = tokio::time::timeout(patience, lookup_host((host.as_str(), port))).await;
    let all: Vec<SocketAddr> =
        found.ok().and_then(Result::ok).into_iter().flatten().take(ADDRESSES).collect();
    let first = *all.first().ok_or_else(|| RefusedEndpoint::Unresolved(host.clone()))?;
    let allowed: Vec<SocketAddr> = all.into_iter().filter(|address| !is_off_limits(address.ip())).collect();
    let Some(address) = reachable(&allowed, patience).await else {
        let why = format!("{shown} is {}, which no API of a cluster has", first.ip());
        return Err(RefusedEndpoint::OffLimits(why));
    };
    lead_to(config, &host, address)
        .map_err(|error| RefusedEndpoint::OffLimits(format!("{shown}: {error}")))?;
    Ok(Endpoint { shown, address })
}

/// The first address at which somebody listens: a name may have addresses of both kinds, or of a zone that is gone. Where nobody
/// does, the first, of which that is told.
async fn reachable(all: &[SocketAddr], patience: Duration) -> Option<SocketAddr> {
    if let [_, _, ..] = all {
        for address in all {
            if let Ok(Ok(_)) = tokio::time::timeout(patience, TcpStream::connect(address)).await {
                return Some(*address);
            }
        }
    }
    all.first().copied()
}

/// Under the name that its certificate has, and that a proxy before it may know it by.
fn lead_to(config: &mut Config, host: &str, address: SocketAddr) -> Result<(), http::Error> {
    let port = config.cluster_url.port().map(|port| format!(":{port}")).unwrap_or_default();
    let name = format!("{}{port}", config.cluster_url.host().unwrap_or_default());
    config.headers.push((header::HOST, HeaderValue::from_str(&name)?));
    config.tls_server_name.get_or_insert_with(|| host.to_owned());
    let path = config.cluster_url.path_and_query().map_or("/", |path| path.as_str()).to_owned();
    config.cluster_url =
        Uri::builder().scheme("https").authority(address.to_string()).path_and_query(path).build()?;
    Ok(())
}

/// Host and port of the server that the kubeconfig names; or why nobody is asked there.
fn server(config: &Config) -> Result<(String, u16), &'static str> {
    if config.cluster_url.scheme_str() != Some("https") {
        return Err("the kubeconfig's server is not https: credentials are not sent there");
    }
    if config.accept_invalid_certs {
        return Err("the kubeconfig does not check certificates: credentials are not sent there");
    }
    let host = config.cluster_url.host().ok_or("the kubeconfig's server has no host")?;
    let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    Ok((host, config.cluster_url.port_u16().unwrap_or(443)))
}

/// Addresses of the machine's own link: clouds have their metadata there, and no cluster has its API.
fn is_off_limits(ip: IpAddr) -> bool {
    match ip.to_canonical() {
        IpAddr::V4(ip) => ip.is_link_local() || ip.is_unspecified() || ip.is_broadcast() || ip.is_multicast(),
        IpAddr::V6(ip) => {
            let metadata = ip.segments() == [0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254];
            metadata || ip.is_unicast_link_local() || ip.is_unspecified() || ip.is_multicast()
        }
    }
}

/// Addresses that mean something else elsewhere.
pub fn is_private(ip: IpAddr) -> bool {
    match ip.to_canonical() {
        IpAddr::V4(ip) => {
            let shared = ip.octets()[0] == 100 && ip.octets()[1] & 0xc0 == 64;
            ip.is_private() || ip.is_loopback() || shared
        }
        IpAddr::V6(ip) => ip.is_loopback() || ip.is_unique_local(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn where_credentials_are_not_sent() {
        let base = || Config::new("https://api.example:6443".parse().unwrap());
        assert_eq!(server(&base()), Ok(("api.example".to_owned(), 6443)));
        assert_eq!(server(&Config::new("https://[::1]".parse().unwrap())), Ok(("::1".to_owned(), 443)));
        let mut unchecked = base();
        unchecked.accept_invalid_certs = true;
        let rows = [Config::new("http://api.example".parse().unwrap()), unchecked];
        for config in rows {
            assert!(server(&config).is_err(), "{config:?}");
        }
    }

    #[test]
    fn addresses() {
        let rows = [
            ("10.0.0.1", true, false),
            ("172.31.0.1", true, false),
            ("100.64.0.1", true, false),
            ("127.0.0.1", true, false),
            ("fd12::1", true, false),
            ("::ffff:192.168.0.1", true, false),
            ("8.8.8.8", false, false),
            ("100.128.0.1", false, false),
            ("2001:db8::1", false, false),
            ("169.254.169.254", false, true),
            ("::ffff:169.254.169.254", false, true),
            ("fd00:ec2::254", true, true),
            ("fe80::1", false, true),
            ("0.0.0.0", false, true),
            ("::", false, true),
        ];
        for (ip, private, off_limits) in rows {
            let ip = ip.parse().unwrap();
            assert_eq!((is_private(ip), is_off_limits(ip)), (private, off_limits), "{ip}");
        }
    }

    /// The name is for the certificate and for proxies, the path is kept, and the address is the one that was looked at.
    #[tokio::test]
    async fn a_config_leads_to_one_address() {
        let mut config = Config::new("https://user@localhost:6443/k8s/clusters/c-1".parse().unwrap());
        let endpoint = pin(&mut config, Duration::from_secs(60)).await.unwrap();
        assert_eq!(endpoint.shown, "localhost:6443");
        assert_eq!(config.cluster_url.to_string(), format!("https://{}/k8s/clusters/c-1", endpoint.address));
        assert_eq!(config.tls_server_name.as_deref(), Some("localhost"));
        assert_eq!(config.headers[0], (header::HOST, HeaderValue::from_static("localhost:6443")));
    }
}
