//! Endpoints of Kubernetes APIs: modules return them as addresses, Cluster API wants host and port.

use std::net::Ipv6Addr;

use capt_api::refs::Endpoint;
use serde_json::Value;

/// The port of an address that names none.
const HTTPS: i32 = 443;
/// Longest host that the CRDs take.
const LONGEST: usize = 512;

/// Reason why an address is not an endpoint.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum NotAnEndpoint {
    /// Nothing is there.
    #[error("it is empty")]
    Empty,
    /// Not HTTPS.
    #[error("{0}:// is not https://")]
    Scheme(String),
    /// More than host and port.
    #[error("it has more than a host and a port: {0:?}")]
    More(String),
    /// Not a port.
    #[error("{0:?} is not a port from 1 to 65535")]
    Port(String),
    /// Not a host.
    #[error("{0:?} is not a host name or an address")]
    Host(String),
}

/// Reads an address: with or without scheme, port and last slash; IPv6 with or without brackets.
pub fn read(text: &str) -> Result<Endpoint, NotAnEndpoint> {
    let text = text.trim();
    if text.is_empty() {
        return Err(NotAnEndpoint::Empty);
    }
    let rest = match text.split_once("://") {
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("https") => rest,
        Some((scheme, _)) => return Err(NotAnEndpoint::Scheme(scheme.to_owned())),
        None => text,
    };
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    if rest.contains(['/', '?', '#', '@']) {
        return Err(NotAnEndpoint::More(rest.to_owned()));
    }
    let (host, port) = split(rest)?;
    let port = match port {
        None => HTTPS,
        Some(port) => port
            .parse::<u16>()
            .ok()
            .filter(|number| *number > 0 && port.chars().all(|c| c.is_ascii_digit()))
            .map(i32::from)
            .ok_or_else(|| NotAnEndpoint::Port(port.to_owned()))?,
    };
    Ok(Endpoint { host: host.to_owned(), port })
}

/// Reads the endpoint in the spec of an object, where that is one: v1beta1 writes an empty host and port 0 for none, and older objects a scheme.
pub fn of_spec(value: &Value) -> Option<Endpoint> {
    let host = value["host"].as_str().filter(|host| !host.is_empty())?;
    let port = value["port"].as_i64().and_then(|port| i32::try_from(port).ok()).filter(|port| *port > 0)?;
    Endpoint { host: host.to_owned(), port }.normalised()
}

/// Host and port, both checked for form.
fn split(rest: &str) -> Result<(&str, Option<&str>), NotAnEndpoint> {
    let bad = || NotAnEndpoint::Host(rest.to_owned());
    if let Some(inner) = rest.strip_prefix('[') {
        let (host, after) = inner.split_once(']').ok_or_else(bad)?;
        host.parse::<Ipv6Addr>().map_err(|_| bad())?;
        return match after.strip_prefix(':') {
            Some(port) => Ok((host, Some(port))),
            None if after.is_empty() => Ok((host, None)),
            None => Err(bad()),
        };
    }
    if rest.parse::<Ipv6Addr>().is_ok() {
        return Ok((rest, None));
    }
    let (host, port) = match rest.split_once(':') {
        Some((host, port)) => (host, Some(port)),
        None => (rest, None),
    };
    let labels = host.split('.').all(|label| {
        let inner = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        !label.is_empty() && label.chars().all(inner) && !label.starts_with('-') && !label.ends_with('-')
    });
    if host.len() > LONGEST || !labels {
        return Err(bad());
    }
    Ok((host, port))
}

/// Host and port for people.
pub fn show(endpoint: &Endpoint) -> String {
    let Endpoint { host, port } = endpoint;
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        for (text, host, port) in [
            ("https://ABC.gr7.eu-west-1.eks.amazonaws.com", "ABC.gr7.eu-west-1.eks.amazonaws.com", 443),
            ("https://api.example.com:6443/", "api.example.com", 6443),
            ("HTTPS://10.0.0.1", "10.0.0.1", 443),
            (" api.example.com ", "api.example.com", 443),
            ("localhost:1", "localhost", 1),
            ("[2001:db8::1]:6443", "2001:db8::1", 6443),
            ("https://[2001:db8::1]/", "2001:db8::1", 443),
            ("2001:db8::1", "2001:db8::1", 443),
        ] {
            assert_eq!(read(text), Ok(Endpoint { host: host.into(), port }), "{text}");
        }
    }

    #[test]
    fn no_addresses() {
        for text in [
            "",
            " ",
            "https://",
            "http://a",
            "ftp://a",
            "https://a/k8s",
            "https://u@a",
            "a?b",
            "a:0",
            "a:65536",
            "a:",
            "a:+1",
            "a:b",
            "a b",
            "[::1",
            "[a]",
            "[::1]x",
            ".a",
            "a..b",
            "-a",
            "https://https://a",
            "a\nb",
        ] {
            assert!(read(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn shown_and_read_again() {
        for text in ["a.example:6443", "[2001:db8::1]:443"] {
            assert_eq!(read(text).map(|endpoint| show(&endpoint)), Ok(text.to_owned()));
        }
    }
}
