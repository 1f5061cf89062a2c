//! Certificates and keys as modules give them: PEM, or PEM in base64. Pure.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// Why a text is not what it should be.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum PemError {
    /// Neither PEM nor base64.
    #[error("it is neither PEM nor PEM in base64")]
    NotBase64,
    /// The bytes are no PEM.
    #[error("there is no PEM block of type {0} in it")]
    NoBlock(&'static str),
    /// A block holds something else than its label says.
    #[error("a {0} block in it holds no DER")]
    Broken(&'static str),
}

/// Certificates, as PEM.
pub fn certificates(text: &str) -> Result<String, PemError> {
    checked(text, "CERTIFICATE")
}

/// A private key, as PEM.
pub fn private_key(text: &str) -> Result<String, PemError> {
    checked(text, "PRIVATE KEY")
}

/// The text as PEM, all blocks of which are sound and at least one of which is a `kind`.
fn checked(text: &str, kind: &'static str) -> Result<String, PemError> {
    let text = text.trim();
    let decoded;
    let pem = if text.starts_with("-----BEGIN ") {
        text
    } else {
        let compact: String = text.chars().filter(|c| !c.is_whitespace()).collect();
        let bytes = STANDARD.decode(compact).map_err(|_| PemError::NotBase64)?;
        decoded = String::from_utf8(bytes).map_err(|_| PemError::NoBlock(kind))?;
        decoded.trim()
    };
    let mut found = false;
    let mut rest = pem;
    while let Some((_, after)) = rest.split_once("-----BEGIN ") {
        let (label, after) = after.split_once("-----").ok_or(PemError::NoBlock(kind))?;
        let end = format!("-----END {label}-----");
        let (body, after) = after.split_once(&end).ok_or(PemError::Broken(kind))?;
        // Keys have their algorithm before the words.
        if label.ends_with(kind) {
            is_der(body).then_some(()).ok_or(PemError::Broken(kind))?;
            found = true;
        }
        rest = after;
    }
    if found { Ok(format!("{pem}\n")) } else { Err(PemError::NoBlock(kind)) }
}

/// Returns true if a block holds one DER sequence and nothing after it.
fn is_der(body: &str) -> bool {
    let compact: String = body.chars().filter(|c| !c.is_whitespace()).collect();
    let Ok(bytes) = STANDARD.decode(compact) else { return false };
    let [0x30, length, rest @ ..] = bytes.as_slice() else { return false };
    if *length < 0x80 {
        return rest.len() == usize::from(*length);
    }
    let count = usize::from(length & 0x7f);
    let (true, Some((size, content))) = ((1..=4).contains(&count), rest.split_at_checked(count)) else {
        return false;
    };
    size.iter().fold(0_usize, |sum, byte| sum << 8 | usize::from(*byte)) == content.len()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
pub mod tests {
    use super::*;

    /// A well-formed certificate whose key was thrown away.
    pub const CA: &str = "-----BEGIN CERTIFICATE-----
MIIBUTCCAQOgAwIBAgIUZaxrZv5CFF3+guZekMo/NoaS3yIwBQYDK2VwMBUxEzAR
BgNVBAMMCm9mZmxpbmUtY2EwIBcNMjYxMTE1MDcxMjIxWhgPMjEyNjEwMjIwNzEy
MjFaMBUxEzARBgNVBAMMCm9mZmxpbmUtY2EwKjAFBgMrZXADIQDuwXTRe4DfIrBt
TURECgSs7yd5e07XhmmZGDpn3U9mH6NjMGEwHQYDVR0OBBYEFKQsJmNu2n9tri6S
rAto7EbjlxZgMB8GA1UdIwQYMBaAFKQsJmNu2n9tri6SrAto7EbjlxZgMA8GA1Ud
EwEB/wQFMAMBAf8wDgYDVR0PAQH/BAQDAgIEMAUGAytlcANBAIDbskJPTQ+oFhXH
cGAF5Cx2EiTs4zSeYfbG+fDNkqwoJlCUzKsFHDekMsnYrMY6v7DTa/S7K8lRfSbs
72gSvA8=
-----END CERTIFICATE-----
";
    /// A block that holds a sequence, and looks like a key to us.
    pub const KEY: &str = "-----BEGIN EC PRIVATE KEY-----\nMAMCAQE=\n-----END EC PRIVATE KEY-----\n";

    #[test]
    fn pem_is_taken_as_it_is_and_in_base64() {
        let wrapped: String = STANDARD
            .encode(CA)
            .as_bytes()
            .chunks(64)
            .fold(String::new(), |text, line| text + std::str::from_utf8(line).unwrap() + "\n");
        for text in [CA.to_owned(), format!("\n  {CA}\n\n"), STANDARD.encode(CA), wrapped] {
            assert_eq!(certificates(&text).as_deref(), Ok(CA));
        }
        let two = format!("{CA}{CA}");
        assert_eq!(certificates(&two).as_ref(), Ok(&two), "a bundle");
        assert_eq!(private_key(KEY).as_deref(), Ok(KEY));
    }

    #[test]
    fn what_is_none_is_refused() {
        let cut = CA.replace("-----END CERTIFICATE-----", "");
        let short = CA.replace("72gSvA8=", "72gSvA==");
        let rows = [
            ("", PemError::NoBlock("CERTIFICATE")),
            ("not base64!", PemError::NotBase64),
            ("aGVsbG8=", PemError::NoBlock("CERTIFICATE")),
            (KEY, PemError::NoBlock("CERTIFICATE")),
            (&cut, PemError::Broken("CERTIFICATE")),
            (&short, PemError::Broken("CERTIFICATE")),
            ("-----BEGIN CERTIFICATE-----\n%%\n-----END CERTIFICATE-----", PemError::Broken("CERTIFICATE")),
        ];
        for (text, error) in rows {
            assert_eq!(certificates(text), Err(error), "{text}");
        }
        assert_eq!(private_key(CA), Err(PemError::NoBlock("PRIVATE KEY")));
    }
}
