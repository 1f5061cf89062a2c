//! IP addresses, networks and MAC addresses.

use std::net::{IpAddr, Ipv4Addr};

/// An address as `net.ParseIP` reads it, except that octets may have leading zeros, which
/// older Go versions allowed and Kubernetes' formats still do.
pub(crate) fn parse_ip_sloppy(text: &str) -> Option<IpAddr> {
    if text.contains(':') {
        return text.parse().ok();
    }
    let mut octets = [0u8; 4];
    let mut parts = text.split('.');
    for octet in &mut octets {
        let part = parts.next()?;
        let plain = !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        *octet = part.parse().ok().filter(|_| plain)?;
    }
    parts.next().is_none().then_some(IpAddr::V4(Ipv4Addr::from(octets)))
}

/// Returns whether this is a network in CIDR notation, leading zeros allowed.
pub(crate) fn is_cidr_sloppy(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else { return false };
    let Some(address) = parse_ip_sloppy(address) else { return false };
    let plain = !bits.is_empty() && bits.bytes().all(|b| b.is_ascii_digit());
    plain && bits.parse::<u32>().is_ok_and(|bits| bits <= max_bits(&address))
}

pub(crate) fn max_bits(address: &IpAddr) -> u32 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// `01:23:45:67:89:ab`, dashed, or dotted in groups of two bytes; 6, 8 or 20 bytes.
pub(crate) fn is_mac(text: &str) -> bool {
    let groups = |separator: char, digits: usize, counts: [usize; 3]| {
        let parts: Vec<&str> = text.split(separator).collect();
        counts.contains(&parts.len())
            && parts.iter().all(|part| part.len() == digits && part.bytes().all(|b| b.is_ascii_hexdigit()))
    };
    groups(':', 2, [6, 8, 20]) || groups('-', 2, [6, 8, 20]) || groups('.', 4, [3, 4, 10])
}
