//! Authentication of requests: by a verified client certificate, by a bearer token, or as the anonymous user.
//!
//! The rules are kube-apiserver's: a certificate names its user (`CN`) and groups (`O`); credentials that are wrong are
//! refused even where none are needed.

use std::time::SystemTime;

use http::{HeaderMap, header};

use super::user::User;
use super::{der, identity::Token};

/// Credentials that are wrong, or not valid any more.
#[derive(Debug)]
pub(crate) struct Unauthorized;

/// The user of a client certificate, and until when it is one.
#[derive(Debug)]
pub(crate) struct Certified {
    user: User,
    until: SystemTime,
}

impl Certified {
    /// Reads a certificate that TLS has verified. A certificate without a name is ignored.
    pub fn read(certificate: &[u8]) -> Option<Self> {
        let der::Facts { not_after, common_name, organizations, .. } = der::read(certificate).ok()?;
        let name = common_name.filter(|name| !name.is_empty())?;
        Some(Self { user: User::known(name, organizations), until: not_after })
    }
}

/// The user of a request, before impersonation.
pub(crate) fn authenticate(
    certified: Option<&Certified>,
    headers: &HeaderMap,
    token: &Token,
    now: SystemTime,
) -> Result<User, Unauthorized> {
    // A connection may live longer than the certificate it was opened with.
    let expired = match certified {
        Some(certified) if now < certified.until => return Ok(certified.user.clone()),
        certified => certified.is_some(),
    };
    match bearer(headers) {
        Some(candidate) if token.is(candidate) => Ok(User::admin()),
        None if !expired => Ok(User::anonymous()),
        _ => Err(Unauthorized),
    }
}

/// The token of `Authorization: Bearer`, if there is one.
fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let value = headers.get(header::AUTHORIZATION)?.as_bytes().trim_ascii();
    let mut parts = value.splitn(3, |byte| *byte == b' ');
    let (scheme, token) = (parts.next()?, parts.next()?);
    (scheme.eq_ignore_ascii_case(b"bearer") && !token.is_empty()).then_some(token)
}

#[cfg(test)]
mod tests {
    use http::HeaderName;

    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).fold(
            HeaderMap::new(),
            |mut headers, (name, value): (HeaderName, http::HeaderValue)| {
                headers.append(name, value);
                headers
            },
        )
    }

    #[test]
    fn bearer_is_read_as_kubernetes_reads_it() {
        for (value, token) in [
            ("Bearer abc", Some("abc")),
            ("bearer abc", Some("abc")),
            ("  BEARER abc more", Some("abc")),
            ("Bearer", None),
            ("Bearer  abc", None),
            ("Basic abc", None),
            ("", None),
        ] {
            assert_eq!(bearer(&headers(&[("authorization", value)])), token.map(str::as_bytes), "{value:?}");
        }
    }
}
