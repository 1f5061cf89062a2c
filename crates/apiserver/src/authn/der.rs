//! The facts needed of a certificate: how long it is valid, whom it names, and what its signature is over.
//!
//! rustls verifies certificates but shows none of them. This reads them from one that rustls has verified, or that
//! we made ourselves: it checks lengths, not meaning. A whole X.509 parser would be a dozen crates for the same.

use std::time::SystemTime;

use jiff::{Timestamp, civil, tz::Offset};

/// The subject of a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Facts {
    pub not_before: SystemTime,
    pub not_after: SystemTime,
    /// The last `CN`, as kube-apiserver takes it.
    pub common_name: Option<String>,
    /// Every `O`, in order.
    pub organizations: Vec<String>,
    /// The bits of the public key.
    pub public_key: Vec<u8>,
    /// The bytes that are signed.
    pub signed: Vec<u8>,
    pub signature: Vec<u8>,
}

/// Not a certificate.
#[derive(Debug, thiserror::Error)]
#[error("read the {0} of a certificate")]
pub(super) struct Malformed(&'static str);

const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const OBJECT_ID: u8 = 0x06;
const UTF8_STRING: u8 = 0x0c;
const PRINTABLE_STRING: u8 = 0x13;
const IA5_STRING: u8 = 0x16;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
/// The explicit tag of the version, the only optional field ahead of what is read here.
const VERSION: u8 = 0xa0;

const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
const ORGANIZATION: &[u8] = &[0x55, 0x04, 0x0a];

/// Reads the facts of a certificate in DER.
pub(super) fn read(certificate: &[u8]) -> Result<Facts, Malformed> {
    let mut rest = certificate;
    let mut rest = expect(&mut rest, SEQUENCE, "envelope")?;
    let from_body = rest;
    let mut body = expect(&mut rest, SEQUENCE, "body")?;
    let signed = from_body[..from_body.len() - rest.len()].to_vec();
    let algorithm = expect(&mut rest, SEQUENCE, "signature algorithm")?;
    let signature = bits(&mut rest, "signature")?;
    if body.first() == Some(&VERSION) {
        expect(&mut body, VERSION, "version")?;
    }
    expect(&mut body, INTEGER, "serial number")?;
    // RFC 5280, 4.1.1.2: the one outside, which nothing signs, is the one inside.
    if expect(&mut body, SEQUENCE, "signature algorithm")? != algorithm {
        return Err(Malformed("signature algorithm"));
    }
    expect(&mut body, SEQUENCE, "issuer")?;
    let mut validity = expect(&mut body, SEQUENCE, "validity")?;
    let mut facts = Facts {
        not_before: time(&mut validity)?,
        not_after: time(&mut validity)?,
        common_name: None,
        organizations: Vec::new(),
        public_key: Vec::new(),
        signed,
        signature,
    };
    let mut subject = expect(&mut body, SEQUENCE, "subject")?;
    while !subject.is_empty() {
        let mut set = expect(&mut subject, SET, "subject")?;
        while !set.is_empty() {
            let mut attribute = expect(&mut set, SEQUENCE, "subject")?;
            let kind = expect(&mut attribute, OBJECT_ID, "subject")?;
            match kind {
                COMMON_NAME => facts.common_name = Some(text(&mut attribute)?),
                ORGANIZATION => facts.organizations.push(text(&mut attribute)?),
                _ => {}
            }
        }
    }
    let mut key = expect(&mut body, SEQUENCE, "public key")?;
    expect(&mut key, SEQUENCE, "public key")?;
    facts.public_key = bits(&mut key, "public key")?;
    Ok(facts)
}

fn bits(input: &mut &[u8], what: &'static str) -> Result<Vec<u8>, Malformed> {
    match expect(input, BIT_STRING, what)? {
        // Keys and signatures are whole bytes: no bits of the last one are unused.
        [0, bytes @ ..] => Ok(bytes.to_vec()),
        _ => Err(Malformed(what)),
    }
}

fn text(input: &mut &[u8]) -> Result<String, Malformed> {
    let (tag, value) = next(input).ok_or(Malformed("subject"))?;
    match tag {
        UTF8_STRING | PRINTABLE_STRING | IA5_STRING => {
            String::from_utf8(value.to_vec()).map_err(|_| Malformed("subject"))
        }
        _ => Err(Malformed("subject")),
    }
}

fn time(input: &mut &[u8]) -> Result<SystemTime, Malformed> {
    let malformed = || Malformed("validity");
    let (tag, value) = next(input).ok_or_else(malformed)?;
    let digits =
        std::str::from_utf8(value).ok().and_then(|text| text.strip_suffix('Z')).ok_or_else(malformed)?;
    let (year, rest) = match tag {
        UTC_TIME => digits.split_at_checked(2),
        GENERALIZED_TIME => digits.split_at_checked(4),
        _ => None,
    }
    .ok_or_else(malformed)?;
    if rest.len() != 10 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(malformed());
    }
    let mut year: i16 = year.parse().map_err(|_| malformed())?;
    if tag == UTC_TIME {
        // RFC 5280, 4.1.2.5.1: two digits mean 1950 to 2049.
        year += if year < 50 { 2000 } else { 1900 };
    }
    let two = |at: usize| rest[at..at + 2].parse::<i8>().map_err(|_| malformed());
    let date = civil::DateTime::new(year, two(0)?, two(2)?, two(4)?, two(6)?, two(8)?, 0)
        .map_err(|_| malformed())?;
    // The last day of 9999, which RFC 5280 has for "never expires", is past jiff's last.
    Ok(Offset::UTC.to_timestamp(date).unwrap_or(Timestamp::MAX).into())
}

fn expect<'a>(input: &mut &'a [u8], tag: u8, what: &'static str) -> Result<&'a [u8], Malformed> {
    next(input).filter(|(found, _)| *found == tag).map(|(_, value)| value).ok_or(Malformed(what))
}

/// Takes one tag, length and value off `input`.
fn next<'a>(input: &mut &'a [u8]) -> Option<(u8, &'a [u8])> {
    let (&tag, rest) = input.split_first()?;
    let (&length, rest) = rest.split_first()?;
    let (length, rest) = if length < 0x80 {
        (usize::from(length), rest)
    } else {
        // Three bytes of length are 16 MiB, more than any certificate.
        let (bytes, rest) =
            rest.split_at_checked(usize::from(length & 0x7f)).filter(|(bytes, _)| bytes.len() <= 3)?;
        (bytes.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)), rest)
    };
    let (value, rest) = rest.split_at_checked(length)?;
    *input = rest;
    Some((tag, value))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rcgen::{CertificateParams, DnType, KeyPair};

    use super::*;

    fn certificate(not_after: &str) -> Vec<u8> {
        let mut params = CertificateParams::default();
        params.not_after = SystemTime::from(not_after.parse::<Timestamp>().unwrap()).into();
        params.distinguished_name.push(DnType::CountryName, "JP");
        params.distinguished_name.push(DnType::OrganizationName, "system:masters");
        params.distinguished_name.push(DnType::CommonName, "山田");
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec()
    }

    #[test]
    fn reads_names_and_both_forms_of_time() {
        for not_after in ["2049-12-31T23:59:58Z", "2050-01-01T00:00:00Z"] {
            let facts = read(&certificate(not_after)).unwrap();
            assert_eq!(facts.not_after, SystemTime::from(not_after.parse::<Timestamp>().unwrap()));
            assert_eq!(facts.not_before, SystemTime::UNIX_EPOCH + Duration::from_secs(86400 * (365 * 5 + 1)));
            assert_eq!(facts.common_name.as_deref(), Some("山田"));
            assert_eq!(facts.organizations, ["system:masters"]);
        }
    }

    #[test]
    fn the_end_of_time_is_a_time() {
        let mut input = &b"\x18\x0f99991231235959Z"[..];
        assert_eq!(time(&mut input).unwrap(), SystemTime::from(Timestamp::MAX));
        for wrong in
            [&b"\x17\x0d491331235959Z"[..], b"\x17\x0d4912312359590", b"\x17\x0b4912312359Z", b"\x04\x00"]
        {
            assert!(time(&mut { wrong }).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn survives_every_cut_and_every_flipped_byte() {
        let whole = certificate("2049-12-31T23:59:58Z");
        for end in 0..whole.len() {
            assert!(read(&whole[..end]).is_err(), "cut at {end}");
            let mut flipped = whole.clone();
            flipped[end] ^= 0xff;
            let _ = read(&flipped);
        }
    }
}
