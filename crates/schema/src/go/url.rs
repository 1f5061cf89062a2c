//! URLs as `net/url` reads them: whether one is valid as a request URI, and its parts.

/// The parts of a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Url {
    /// In lower case; empty for a bare path.
    pub scheme: String,
    /// With the port.
    pub host: String,
    /// As written, percent-escapes included.
    pub escaped_path: String,
    /// As written, without the question mark.
    pub raw_query: String,
    text: String,
}

/// Reads what is valid as a request URI, and takes its fragment off.
pub(crate) fn parse(text: &str) -> Option<Url> {
    parse_request_uri(text)?;
    let mut url = parse_request_uri(text.split('#').next()?)?;
    text.clone_into(&mut url.text);
    Some(url)
}

/// Reads an absolute URL or an absolute path, with no fragment apart.
pub(crate) fn parse_request_uri(text: &str) -> Option<Url> {
    if text.is_empty() || text.chars().any(|c| c.is_ascii_control()) {
        return None;
    }
    if text == "*" {
        return Some(Url {
            scheme: String::new(),
            host: String::new(),
            escaped_path: "*".into(),
            raw_query: String::new(),
            text: text.into(),
        });
    }
    let (scheme, rest) = split_scheme(text)?;
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, path) = match rest.strip_prefix("//") {
        Some(after) if !scheme.is_empty() || !rest.starts_with("///") => {
            let end = after.find('/').unwrap_or(after.len());
            after.split_at(end)
        }
        // `mailto:x` is opaque, and only a path may do without a scheme.
        _ if !rest.starts_with('/') => return opaque(text, &scheme, rest, query),
        _ => ("", rest),
    };
    let host = parse_authority(authority)?;
    if !valid_escapes(path, |_| true) {
        return None;
    }
    Some(Url {
        scheme,
        host,
        escaped_path: path.to_owned(),
        raw_query: query.to_owned(),
        text: text.to_owned(),
    })
}

/// A URL without `//` after its scheme; it has no host and no path.
fn opaque(text: &str, scheme: &str, _rest: &str, query: &str) -> Option<Url> {
    (!scheme.is_empty()).then(|| Url {
        scheme: scheme.to_owned(),
        host: String::new(),
        escaped_path: String::new(),
        raw_query: query.to_owned(),
        text: text.to_owned(),
    })
}

/// The scheme in lower case (empty if there is none) and what follows its colon.
fn split_scheme(text: &str) -> Option<(String, &str)> {
    for (i, c) in text.char_indices() {
        match c {
            'a'..='z' | 'A'..='Z' => {}
            '0'..='9' | '+' | '-' | '.' if i > 0 => {}
            ':' if i > 0 => return Some((text[..i].to_lowercase(), &text[i + 1..])),
            ':' => return None,
            _ => break,
        }
    }
    Some((String::new(), text))
}

fn parse_authority(authority: &str) -> Option<String> {
    let (userinfo, host) = authority.rsplit_once('@').unwrap_or(("", authority));
    let user_ok = userinfo.chars().all(|c| c.is_ascii_alphanumeric() || "-._:~!$&'()*+,;=%@".contains(c));
    if !user_ok || !valid_escapes(userinfo, |_| true) {
        return None;
    }
    if let Some(rest) = host.strip_prefix('[') {
        let (_, port) = rest.rsplit_once(']')?;
        return valid_port(port).then(|| host.to_owned());
    }
    if let Some(i) = host.rfind(':')
        && !valid_port(&host[i..])
    {
        return None;
    }
    // A host may escape only what is not ASCII.
    let host_ok = host
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || "-._~!$&'()*+,;=:[]<>\"%".contains(c) || !c.is_ascii());
    (host_ok && valid_escapes(host, |byte| byte >= 0x80)).then(|| unescape(host))
}

fn valid_port(port: &str) -> bool {
    port.is_empty() || port.strip_prefix(':').is_some_and(|digits| digits.bytes().all(|b| b.is_ascii_digit()))
}

fn valid_escapes(text: &str, allowed: impl Fn(u8) -> bool) -> bool {
    let bytes = text.as_bytes();
    bytes.iter().enumerate().filter(|(_, byte)| **byte == b'%').all(|(i, _)| {
        bytes
            .get(i + 1..i + 3)
            .and_then(|hex| std::str::from_utf8(hex).ok())
            .filter(|hex| hex.bytes().all(|b| b.is_ascii_hexdigit()))
            .and_then(|hex| u8::from_str_radix(hex, 16).ok())
            .is_some_and(&allowed)
    })
}

fn unescape(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    let bytes = text.as_bytes();
    let mut i = 0;
    while i < bytes.len() {
        let hex = (bytes[i] == b'%')
            .then(|| bytes.get(i + 1..i + 3))
            .flatten()
            .and_then(|hex| std::str::from_utf8(hex).ok())
            .and_then(|hex| u8::from_str_radix(hex, 16).ok());
        out.push(hex.unwrap_or(bytes[i]));
        i += if hex.is_some() { 3 } else { 1 };
    }
    String::from_utf8_lossy(&out).into_owned()
}

impl Url {
    /// The host without its port and without the brackets of an IPv6 address.
    pub fn hostname(&self) -> &str {
        let host = match self.port() {
            "" => self.host.strip_suffix(':').unwrap_or(&self.host),
            port => &self.host[..self.host.len() - port.len() - 1],
        };
        host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
    }

    /// The port, or nothing.
    pub fn port(&self) -> &str {
        match self.host.rfind(':') {
            Some(i) if !self.host[i..].contains(']') => &self.host[i + 1..],
            _ => "",
        }
    }

    /// The query as pairs in the order written, with `+` and escapes resolved; a malformed
    /// pair is left out.
    pub fn query(&self) -> Vec<(String, String)> {
        self.raw_query
            .split('&')
            .filter(|pair| !pair.is_empty() && !pair.contains(';') && valid_escapes(pair, |_| true))
            .map(|pair| {
                let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
                (unescape(&key.replace('+', " ")), unescape(&value.replace('+', " ")))
            })
            .collect()
    }

    /// The URL as written.
    pub fn text(&self) -> &str {
        &self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_uris_are_told_from_others() {
        for (text, expected) in [
            ("https://example.com:8080/a?b=c", true),
            ("http://[::1]:80/", true),
            ("/path", true),
            ("mailto:a@b", true),
            ("example.com", false),
            ("../a", false),
            ("", false),
            (":x", false),
            ("http://a b/", false),
            ("http://a/%zz", false),
            ("http://a:b/", false),
        ] {
            assert_eq!(parse_request_uri(text).is_some(), expected, "{text}");
        }
    }

    #[test]
    fn parts_are_found() {
        let url = parse_request_uri("HTTPS://u:p@[::1]:80/a%20b?k=v%20w&k=x+y").expect("valid");
        assert_eq!(url.scheme, "https");
        assert_eq!(url.host, "[::1]:80");
        assert_eq!((url.hostname(), url.port()), ("::1", "80"));
        assert_eq!(url.escaped_path, "/a%20b");
        assert_eq!(url.query(), [("k".into(), "v w".into()), ("k".into(), "x y".into())]);
    }
}
