//! The string and number formats that CRDs can ask for, as kube-apiserver 1.36 checks them.
//! A format it does not know is no restriction.

use std::sync::LazyLock;

use regex::Regex;

use crate::go::{mail, net, time, url};

/// A format that values are checked against.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Format {
    /// As the schema writes it.
    pub name: String,
    pub check: Check,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Check {
    Int32,
    Int64,
    Float,
    Double,
    Text(Text),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Text {
    BsonObjectId,
    Uri,
    Email,
    Hostname,
    Ipv4,
    Ipv6,
    Cidr,
    Mac,
    Uuid,
    Uuid3,
    Uuid4,
    Uuid5,
    Isbn,
    Isbn10,
    Isbn13,
    CreditCard,
    Ssn,
    HexColor,
    RgbColor,
    Byte,
    Password,
    Date,
    Duration,
    DateTime,
    K8sShortName,
    K8sLongName,
}

impl Format {
    /// The format to check values of a schema of type `kind` (empty for none) against.
    pub fn effective(kind: &str, name: &str) -> Option<Self> {
        let check = match (kind, name) {
            ("integer", "int32") => Check::Int32,
            ("integer", "int64") => Check::Int64,
            ("number", "float") => Check::Float,
            ("number", "double") => Check::Double,
            ("" | "string", name) => Check::Text(Text::parse(name)?),
            _ => return None,
        };
        Some(Self { name: name.to_owned(), check })
    }
}

impl Text {
    /// Dashes do not count: `date-time` is `datetime`.
    fn parse(name: &str) -> Option<Self> {
        Some(match name.replace('-', "").as_str() {
            "bsonobjectid" => Self::BsonObjectId,
            "uri" => Self::Uri,
            "email" => Self::Email,
            "hostname" => Self::Hostname,
            "ipv4" => Self::Ipv4,
            "ipv6" => Self::Ipv6,
            "cidr" => Self::Cidr,
            "mac" => Self::Mac,
            "uuid" => Self::Uuid,
            "uuid3" => Self::Uuid3,
            "uuid4" => Self::Uuid4,
            "uuid5" => Self::Uuid5,
            "isbn" => Self::Isbn,
            "isbn10" => Self::Isbn10,
            "isbn13" => Self::Isbn13,
            "creditcard" => Self::CreditCard,
            "ssn" => Self::Ssn,
            "hexcolor" => Self::HexColor,
            "rgbcolor" => Self::RgbColor,
            "byte" => Self::Byte,
            "password" => Self::Password,
            "date" => Self::Date,
            "duration" => Self::Duration,
            "datetime" => Self::DateTime,
            "k8sshortname" => Self::K8sShortName,
            "k8slongname" => Self::K8sLongName,
            _ => return None,
        })
    }

    pub fn accepts(self, text: &str) -> bool {
        match self {
            Self::Password => true,
            Self::BsonObjectId => text.len() == 24 && text.bytes().all(|b| b.is_ascii_hexdigit()),
            Self::Uri => url::parse_request_uri(text).is_some(),
            Self::Email => mail::is_address(text),
            Self::Hostname => is_hostname(text),
            Self::Ipv4 => text.contains('.') && net::parse_ip_sloppy(text).is_some(),
            Self::Ipv6 => text.contains(':') && text.parse::<std::net::IpAddr>().is_ok(),
            Self::Cidr => net::is_cidr_sloppy(text),
            Self::Mac => net::is_mac(text),
            Self::Uuid => is_uuid(text, None),
            Self::Uuid3 => is_uuid(text, Some('3')),
            Self::Uuid4 => is_uuid(text, Some('4')),
            Self::Uuid5 => is_uuid(text, Some('5')),
            Self::Isbn => is_isbn10(text) || is_isbn13(text),
            Self::Isbn10 => is_isbn10(text),
            Self::Isbn13 => is_isbn13(text),
            Self::CreditCard => is_credit_card(text),
            Self::Ssn => text.len() == 11 && matches(&SSN, text),
            Self::HexColor => matches(&HEX_COLOR, text),
            Self::RgbColor => matches(&RGB_COLOR, text),
            Self::Byte => is_base64(text),
            Self::Date => time::parse_date(text).is_some(),
            Self::Duration => time::parse_format_duration(text).is_some(),
            Self::DateTime => time::is_format_date_time(text),
            Self::K8sShortName => text.len() <= 63 && is_dns_label(text),
            Self::K8sLongName => text.len() <= 253 && text.split('.').all(is_dns_label),
        }
    }
}

type Lazy = LazyLock<Option<Regex>>;

static SSN: Lazy = LazyLock::new(|| Regex::new("^[0-9]{3}[- ]?[0-9]{2}[- ]?[0-9]{4}$").ok());
static HEX_COLOR: Lazy = LazyLock::new(|| Regex::new("^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$").ok());
static RGB_COLOR: Lazy = LazyLock::new(|| {
    let part = r"[\t\n\x0C\r ]*(?:0|[1-9][0-9]?|1[0-9][0-9]?|2[0-4][0-9]|25[0-5])[\t\n\x0C\r ]*";
    Regex::new(&format!(r"^rgb\({part},{part},{part}\)$")).ok()
});
static HOSTNAME: Lazy = LazyLock::new(|| {
    let any = r"a-zA-Z0-9\p{S}\p{L}";
    let single = format!(r"[{any}]((-?[{any}]{{0,62}})?)");
    let dotted = format!(r"([{any}](([{any}-]{{0,61}}[{any}])?)(\.)){{1,}}([a-zA-Z\p{{L}}]){{2,63}}");
    Regex::new(&format!("^({single}|{dotted})$")).ok()
});
static CARD: Lazy = LazyLock::new(|| {
    Regex::new(
        "^(?:4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}\
         |3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35[0-9]{3})[0-9]{11})$",
    )
    .ok()
});

fn matches(regex: &Lazy, text: &str) -> bool {
    regex.as_ref().is_some_and(|regex| regex.is_match(text))
}

fn is_hostname(text: &str) -> bool {
    text.len() <= 255 && text.split('.').all(|label| label.len() <= 63) && matches(&HOSTNAME, text)
}

/// Lower-case letters, digits and dashes, the latter not at an end.
pub(crate) fn is_dns_label(text: &str) -> bool {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let bytes = text.as_bytes();
    match (bytes.first(), bytes.last()) {
        (Some(first), Some(last)) => {
            inner(*first) && inner(*last) && bytes.iter().all(|b| inner(*b) || *b == b'-')
        }
        _ => false,
    }
}

/// Groups of 8, 4, 4, 4 and 12 hex digits; the dashes are optional, each by itself.
fn is_uuid(text: &str, version: Option<char>) -> bool {
    let mut rest = text;
    let mut groups = [""; 5];
    for (i, (group, len)) in groups.iter_mut().zip([8, 4, 4, 4, 12]).enumerate() {
        if i > 0 {
            rest = rest.strip_prefix('-').unwrap_or(rest);
        }
        let Some((head, tail)) = rest.split_at_checked(len) else { return false };
        if !head.bytes().all(|b| b.is_ascii_hexdigit()) {
            return false;
        }
        (*group, rest) = (head, tail);
    }
    let version_ok = version.is_none_or(|version| groups[2].starts_with(version));
    let variant_ok =
        matches!(version, None | Some('3')) || groups[3].starts_with(['8', '9', 'a', 'b', 'A', 'B']);
    rest.is_empty() && version_ok && variant_ok
}

fn isbn_digits(text: &str) -> Vec<char> {
    text.chars().filter(|c| !matches!(c, ' ' | '\t' | '\n' | '\r' | '\u{c}' | '-')).collect()
}

fn is_isbn10(text: &str) -> bool {
    let digits = isbn_digits(text);
    digits.len() == 10
        && digits.iter().enumerate().all(|(i, c)| c.is_ascii_digit() || (i == 9 && *c == 'X'))
        && (1u32..).zip(&digits).map(|(weight, c)| weight * c.to_digit(10).unwrap_or(10)).sum::<u32>() % 11
            == 0
}

fn is_isbn13(text: &str) -> bool {
    let digits: Option<Vec<u32>> = isbn_digits(text).into_iter().map(|c| c.to_digit(10)).collect();
    digits.is_some_and(|digits| {
        digits.len() == 13
            && digits.iter().zip([1, 3].into_iter().cycle()).map(|(d, weight)| d * weight).sum::<u32>() % 10
                == 0
    })
}

fn is_credit_card(text: &str) -> bool {
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    let luhn: u32 = digits
        .chars()
        .rev()
        .filter_map(|c| c.to_digit(10))
        .enumerate()
        .map(|(i, d)| if i % 2 == 1 { (2 * d) / 10 + (2 * d) % 10 } else { d })
        .sum();
    matches(&CARD, &digits) && luhn.is_multiple_of(10)
}

/// Padded base64; the empty string is not.
fn is_base64(text: &str) -> bool {
    let body = text.trim_end_matches('=');
    let padding = text.len() - body.len();
    !text.is_empty()
        && text.len().is_multiple_of(4)
        && padding <= 2
        && body.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'+' || b == b'/')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_accepted_and_refused() {
        let rows: &[(&str, &[&str], &[&str])] = &[
            ("date-time", &["2020-01-02T03:04:05Z"], &["2020-01-02", ""]),
            ("datetime", &["2020-01-02T03:04:05+01:00"], &["x"]),
            ("date", &["2020-02-29"], &["2021-02-29", "2020-2-9"]),
            ("duration", &["1h", "2 days", "22 ns"], &["1x", ""]),
            ("byte", &["YQ==", "YWI=", "YWJj"], &["", "YQ", "Y=Q=", "!!!!"]),
            ("ipv4", &["1.2.3.4", "01.2.3.4", "::ffff:1.2.3.4"], &["1.2.3", "256.1.1.1", "::1"]),
            ("ipv6", &["::1", "fe80::1"], &["1.2.3.4", "::1%eth0"]),
            ("cidr", &["10.0.0.0/8", "::/0"], &["10.0.0.0", "10.0.0.0/33", "x/8"]),
            ("mac", &["01:23:45:67:89:ab", "0123.4567.89ab"], &["01:23:45", "01-23:45:67:89:ab"]),
            ("uri", &["https://a.b/c", "/c"], &["a.b", ""]),
            ("email", &["a@b.c", "X Y <a@b>"], &["a", "a@", "a b@c"]),
            ("hostname", &["a", "a.example", "a-b.cd"], &["-a", "a_b", "a.b-"]),
            ("uuid", &["123e4567-e89b-12d3-a456-426614174000", "123E4567E89B12D3A456426614174000"], &["x"]),
            ("uuid4", &["123e4567-e89b-42d3-a456-426614174000"], &["123e4567-e89b-12d3-a456-426614174000"]),
            ("isbn", &["0321751043", "978-0321751041"], &["0321751044"]),
            ("creditcard", &["4111-1111-1111-1111"], &["4111-1111-1111-1112"]),
            ("hexcolor", &["#fff", "A0B1C2"], &["#ff"]),
            ("rgbcolor", &["rgb(1, 2,255)"], &["rgb(1,2,256)"]),
            ("ssn", &["123-45-6789"], &["123456789"]),
            ("k8s-short-name", &["a-1"], &["A", "a-", "a.b"]),
            ("k8s-long-name", &["a.b-1"], &["a..b"]),
            ("password", &["", "x"], &[]),
            ("bsonobjectid", &["507f1f77bcf86cd799439011"], &["507f"]),
        ];
        for (name, good, bad) in rows {
            let format = Format::effective("string", name).expect(name);
            let Check::Text(check) = format.check else { panic!("{name} is a text format") };
            for text in *good {
                assert!(check.accepts(text), "{name} should accept {text:?}");
            }
            for text in *bad {
                assert!(!check.accepts(text), "{name} should refuse {text:?}");
            }
        }
    }

    #[test]
    fn a_format_counts_only_for_its_type() {
        assert!(Format::effective("integer", "int32").is_some());
        for (kind, name) in
            [("integer", "date"), ("string", "int32"), ("object", "uuid"), ("string", "unheard-of")]
        {
            assert_eq!(Format::effective(kind, name), None, "{kind} {name}");
        }
    }
}
