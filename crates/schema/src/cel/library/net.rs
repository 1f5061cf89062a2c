//! IP addresses and networks.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::cel::value::{EvalError, Evaluated, Val};
use crate::go::net::max_bits;
use crate::go::text;

/// An address with a prefix length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cidr {
    address: IpAddr,
    bits: u32,
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

fn mask(address: IpAddr, bits: u32) -> IpAddr {
    match address {
        IpAddr::V4(v4) => {
            let mask = u32::MAX.checked_shl(32 - bits).unwrap_or(0);
            IpAddr::V4(Ipv4Addr::from(u32::from(v4) & mask))
        }
        IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shl(128 - bits).unwrap_or(0);
            IpAddr::V6(Ipv6Addr::from(u128::from(v6) & mask))
        }
    }
}

impl Cidr {
    fn contains(&self, ip: &IpAddr) -> bool {
        ip.is_ipv4() == self.address.is_ipv4() && mask(*ip, self.bits) == mask(self.address, self.bits)
    }
}

fn is_mapped(address: &IpAddr) -> bool {
    matches!(address, IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some())
}

fn parse_ip(raw: &str) -> Result<IpAddr, EvalError> {
    let quoted = text::quote(raw);
    if raw.contains('%') && raw.contains(':') {
        return Err(EvalError::other(format!("IP address {quoted} with zone value is not allowed")));
    }
    let address: IpAddr = raw.parse().map_err(|_| {
        EvalError::other(format!(
            "IP Address {quoted} parse error during conversion from string: ParseAddr({quoted}): unable to parse IP"
        ))
    })?;
    if is_mapped(&address) {
        return Err(EvalError::other(format!("IPv4-mapped IPv6 address {quoted} is not allowed")));
    }
    Ok(address)
}

fn parse_cidr(raw: &str) -> Result<Cidr, EvalError> {
    let quoted = text::quote(raw);
    let failed = || {
        EvalError::other(format!(
            "network address parse error during conversion from string: network address parse error during \
             conversion from string: netip.ParsePrefix({quoted}): no '/'"
        ))
    };
    let (address, bits) = raw.rsplit_once('/').ok_or_else(failed)?;
    let address: IpAddr = address.parse().map_err(|_| failed())?;
    let plain = bits.bytes().all(|b| b.is_ascii_digit()) && (bits.len() == 1 || !bits.starts_with('0'));
    let bits: u32 = bits.parse().ok().filter(|_| plain).ok_or_else(failed)?;
    if bits > max_bits(&address) {
        return Err(failed());
    }
    if is_mapped(&address) {
        return Err(EvalError::other(format!("IPv4-mapped IPv6 address {quoted} is not allowed")));
    }
    Ok(Cidr { address, bits })
}

/// `ip`, `isIP`, `ip.isCanonical`, `cidr` and `isCIDR`.
pub(super) fn parse<'a>(name: &str, raw: &str) -> Evaluated<'a> {
    match name {
        "ip" => parse_ip(raw).map(Val::Ip),
        "isIP" => Ok(Val::Bool(parse_ip(raw).is_ok())),
        "ip.isCanonical" => parse_ip(raw).map(|ip| Val::Bool(ip.to_string() == raw)),
        "cidr" => parse_cidr(raw).map(Val::Cidr),
        _ => Ok(Val::Bool(parse_cidr(raw).is_ok())),
    }
}

pub(super) fn of_ip<'a>(name: &str, ip: &IpAddr, args: &[Val<'a>]) -> Evaluated<'a> {
    if !args.is_empty() {
        return Err(EvalError::overload(name));
    }
    let link_local = match ip {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.segments()[0] & 0xffc0 == 0xfe80,
    };
    Ok(match name {
        "family" => Val::Int(if ip.is_ipv4() { 4 } else { 6 }),
        "isUnspecified" => Val::Bool(ip.is_unspecified()),
        "isLoopback" => Val::Bool(ip.is_loopback()),
        "isLinkLocalMulticast" => Val::Bool(match ip {
            IpAddr::V4(v4) => v4.octets()[..3] == [224, 0, 0],
            IpAddr::V6(v6) => v6.segments()[0] & 0xff0f == 0xff02,
        }),
        "isLinkLocalUnicast" => Val::Bool(link_local),
        "isGlobalUnicast" => {
            let broadcast = *ip == IpAddr::V4(Ipv4Addr::BROADCAST);
            Val::Bool(
                !(broadcast || ip.is_unspecified() || ip.is_loopback() || ip.is_multicast() || link_local),
            )
        }
        _ => return Err(EvalError::overload(name)),
    })
}

pub(super) fn of_cidr<'a>(name: &str, cidr: &Cidr, args: &[Val<'a>]) -> Evaluated<'a> {
    let contains_cidr = |other: Cidr| {
        let overlaps = cidr.contains(&other.address) || other.contains(&cidr.address);
        Val::Bool(overlaps && cidr.bits <= other.bits)
    };
    match (name, args) {
        ("containsIP", [Val::Ip(ip)]) => Ok(Val::Bool(cidr.contains(ip))),
        ("containsIP", [Val::String(raw)]) => parse_ip(raw).map(|ip| Val::Bool(cidr.contains(&ip))),
        ("containsCIDR", [Val::Cidr(other)]) => Ok(contains_cidr(*other)),
        ("containsCIDR", [Val::String(raw)]) => parse_cidr(raw).map(contains_cidr),
        ("ip", []) => Ok(Val::Ip(cidr.address)),
        ("prefixLength", []) => Ok(Val::Int(i64::from(cidr.bits))),
        ("masked", []) => Ok(Val::Cidr(Cidr { address: mask(cidr.address, cidr.bits), bits: cidr.bits })),
        _ => Err(EvalError::overload(name)),
    }
}
