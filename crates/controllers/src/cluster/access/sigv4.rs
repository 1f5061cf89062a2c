//! AWS Signature Version 4 in the query of a URL ("presigning"). Pure: whoever has the URL can send the request.

use std::fmt::Write;
use std::time::Duration;

use jiff::Timestamp;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use sha2::{Digest, Sha256};

use crate::runtime::hex::hex;

/// Characters that are percent-encoded: AWS leaves the unreserved ones of RFC 3986 as they are.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// Block of SHA-256, in bytes.
const BLOCK: usize = 64;
/// Format of times at AWS.
pub const TIME: &str = "%Y%m%dT%H%M%SZ";

/// Credentials that sign a request.
#[derive(Clone, Copy, Debug)]
pub struct Signer<'a> {
    /// Id of the access key.
    pub key_id: &'a str,
    /// The access key.
    pub secret: &'a str,
    /// Session token of a temporary key.
    pub session: Option<&'a str>,
}

/// A GET request without a body.
#[derive(Clone, Copy, Debug)]
pub struct Get<'a> {
    /// The host.
    pub host: &'a str,
    /// The path.
    pub path: &'a str,
    /// The query, decoded.
    pub query: &'a [(&'a str, &'a str)],
    /// Headers besides the host, in lower case.
    pub headers: &'a [(&'a str, &'a str)],
    /// Stand-in for the body: S3 has a word for it, all others its hash.
    pub payload: &'a str,
}

/// For whom a signature is.
#[derive(Clone, Copy, Debug)]
pub struct Scope<'a> {
    /// The region.
    pub region: &'a str,
    /// The service.
    pub service: &'a str,
}

/// A URL that holds its own signature.
pub fn presign(
    get: &Get<'_>,
    signer: &Signer<'_>,
    scope: &Scope<'_>,
    at: Timestamp,
    valid: Duration,
) -> String {
    let time = at.strftime(TIME).to_string();
    let day = &time[..8];
    let scope_text = format!("{day}/{}/{}/aws4_request", scope.region, scope.service);
    let mut headers: Vec<(&str, &str)> = get.headers.to_vec();
    headers.push(("host", get.host));
    headers.sort_unstable();
    let signed = headers.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(";");
    let credential = format!("{}/{scope_text}", signer.key_id);
    let seconds = valid.as_secs().to_string();
    let mut query: Vec<(&str, &str)> = get.query.to_vec();
    query.extend([
        ("X-Amz-Algorithm", "AWS4-HMAC-SHA256"),
        ("X-Amz-Credential", &credential),
        ("X-Amz-Date", &time),
        ("X-Amz-Expires", &seconds),
        ("X-Amz-SignedHeaders", &signed),
    ]);
    query.extend(signer.session.map(|session| ("X-Amz-Security-Token", session)));
    let query = canonical_query(&query);
    let lines = headers.iter().fold(String::new(), |mut text, (name, value)| {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{name}:{}", value.split_whitespace().collect::<Vec<_>>().join(" "));
        text
    });
    let request = format!("GET\n{}\n{query}\n{lines}\n{signed}\n{}", get.path, get.payload);
    let hashed = hex(&Sha256::digest(request.as_bytes()));
    let text = format!("AWS4-HMAC-SHA256\n{time}\n{scope_text}\n{hashed}");
    let signature = hex(&hmac(&signing_key(signer.secret, day, scope), text.as_bytes()));
    format!("https://{}{}?{query}&X-Amz-Signature={signature}", get.host, get.path)
}

fn canonical_query(query: &[(&str, &str)]) -> String {
    let encode = |text: &str| utf8_percent_encode(text, RESERVED).to_string();
    let mut pairs: Vec<(String, String)> =
        query.iter().map(|(name, value)| (encode(name), encode(value))).collect();
    pairs.sort_unstable();
    pairs.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("&")
}

fn signing_key(secret: &str, day: &str, scope: &Scope<'_>) -> [u8; 32] {
    let key = hmac(format!("AWS4{secret}").as_bytes(), day.as_bytes());
    let key = hmac(&key, scope.region.as_bytes());
    let key = hmac(&key, scope.service.as_bytes());
    hmac(&key, b"aws4_request")
}

/// HMAC-SHA256 (RFC 2104).
fn hmac(key: &[u8], message: &[u8]) -> [u8; 32] {
    let mut block = [0_u8; BLOCK];
    if key.len() > BLOCK {
        block[..32].copy_from_slice(&Sha256::digest(key));
    } else {
        block[..key.len()].copy_from_slice(key);
    }
    let pad = |with: u8| block.map(|byte| byte ^ with);
    let inner = Sha256::new().chain_update(pad(0x36)).chain_update(message).finalize();
    Sha256::new().chain_update(pad(0x5c)).chain_update(inner).finalize().into()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    /// RFC 4231, test cases 1, 2, 3 and 6.
    #[test]
    fn hmac_is_that_of_the_rfc() {
        let rows: [(&[u8], &[u8], &str); 4] = [
            (&[0x0b; 20], b"Hi There", "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"),
            (
                b"Jefe",
                b"what do ya want for nothing?",
                "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
            ),
            (&[0xaa; 20], &[0xdd; 50], "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe"),
            (
                &[0xaa; 131],
                b"Test Using Larger Than Block-Size Key - Hash Key First",
                "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54",
            ),
        ];
        for (key, message, expected) in rows {
            assert_eq!(hex(&hmac(key, message)), expected);
        }
    }

    /// The example in AWS's documentation of the derivation.
    #[test]
    fn the_signing_key_is_that_of_the_documentation() {
        let scope = Scope { region: "us-east-1", service: "iam" };
        let key = signing_key("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "20150830", &scope);
        assert_eq!(hex(&key), "c4afb1cc5771d871763a393e44b703571b55cc28424d1a5e86da6ed3c154a4b9");
    }

    /// The example of a presigned URL in the documentation of S3.
    #[test]
    fn a_url_is_that_of_the_documentation() {
        let get = Get {
            host: "examplebucket.s3.amazonaws.com",
            path: "/test.txt",
            query: &[],
            headers: &[],
            payload: "UNSIGNED-PAYLOAD",
        };
        let signer = Signer {
            key_id: "AKIAIOSFODNN7EXAMPLE",
            secret: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
            session: None,
        };
        let scope = Scope { region: "us-east-1", service: "s3" };
        let at = "2013-05-24T00:00:00Z".parse().unwrap();
        let url = presign(&get, &signer, &scope, at, Duration::from_secs(86_400));
        assert!(
            url.ends_with(
                "&X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404"
            ),
            "{url}"
        );
    }
}
