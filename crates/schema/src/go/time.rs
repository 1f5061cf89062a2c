//! Durations and times.

use std::sync::LazyLock;

use jiff::civil::{Date, DateTime};
use jiff::tz::{Offset, TimeZone};
use jiff::{SignedDuration, Timestamp, Zoned};
use regex::Regex;

const SECOND: i128 = 1_000_000_000;
const UNITS: [(&str, i128); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("\u{b5}s", 1_000),
    ("\u{3bc}s", 1_000),
    ("ms", 1_000_000),
    ("s", SECOND),
    ("m", 60 * SECOND),
    ("h", 3600 * SECOND),
];

/// A duration such as `1h30m`, in nanoseconds.
pub(crate) fn parse_duration(text: &str) -> Option<i64> {
    let (negative, rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total: i128 = 0;
    let mut rest = rest;
    while !rest.is_empty() {
        let (nanos, after) = duration_part(rest)?;
        total = total.checked_add(nanos)?;
        rest = after;
    }
    i64::try_from(if negative { -total } else { total }).ok()
}

/// One `<number><unit>`: its nanoseconds and what follows it.
fn duration_part(text: &str) -> Option<(i128, &str)> {
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.'))?;
    let (number, rest) = text.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return None;
    }
    let unit_end = rest.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(rest.len());
    let (unit, rest) = rest.split_at(unit_end);
    let scale = UNITS.iter().find(|(name, _)| *name == unit)?.1;
    let whole: i128 = if whole.is_empty() { 0 } else { whole.parse::<i64>().ok()?.into() };
    let mut nanos = whole.checked_mul(scale)?;
    // Digits beyond a nanosecond of an hour are lost, as in Go.
    let mut place = scale;
    let mut part: i128 = 0;
    let mut divisor: i128 = 1;
    for digit in fraction.bytes().take(18) {
        part = part * 10 + i128::from(digit - b'0');
        divisor *= 10;
    }
    place = place.checked_mul(part)? / divisor;
    nanos = nanos.checked_add(place)?;
    Some((nanos, rest))
}

static SCALA: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"([0-9]+)[\t\n\x0C\r ]*([A-Za-z\u{b5}]+)").ok());

/// Spelled-out units: the last name of each may be continued (`hours`).
const NAMES: [(&[&str], i128); 8] = [
    (&["ns", "nano"], 1),
    (&["us", "\u{b5}s", "micro"], 1_000),
    (&["ms", "milli"], 1_000_000),
    (&["s", "sec"], SECOND),
    (&["m", "min"], 60 * SECOND),
    (&["h", "hr", "hour"], 3600 * SECOND),
    (&["d", "day"], 24 * 3600 * SECOND),
    (&["w", "wk", "week"], 7 * 24 * 3600 * SECOND),
];

/// A duration as the `duration` format reads it: Go's, or with spelled-out units (`2 days`).
pub(crate) fn parse_format_duration(text: &str) -> Option<i64> {
    if let Some(nanos) = parse_duration(text) {
        return Some(nanos);
    }
    let mut total: i64 = 0;
    let mut found = false;
    for part in SCALA.as_ref()?.captures_iter(text) {
        let factor: i64 = part[1].parse().ok()?;
        let unit = part[2].to_lowercase();
        for (variants, scale) in NAMES {
            for (i, variant) in variants.iter().enumerate() {
                let last = i + 1 == variants.len();
                if unit == *variant || (last && unit.starts_with(variant)) {
                    found = true;
                    let scale = i64::try_from(scale).unwrap_or(i64::MAX);
                    total = total.wrapping_add(factor.wrapping_mul(scale));
                }
            }
        }
    }
    found.then_some(total)
}

/// `2006-01-02`.
pub(crate) fn parse_date(text: &str) -> Option<Date> {
    let mut parts = text.splitn(3, '-');
    let (year, month, day) = (parts.next()?, parts.next()?, parts.next()?);
    let digits = |part: &str, len: usize| part.len() == len && part.bytes().all(|b| b.is_ascii_digit());
    if !(digits(year, 4) && digits(month, 2) && digits(day, 2)) {
        return None;
    }
    Date::new(year.parse().ok()?, month.parse().ok()?, day.parse().ok()?).ok()
}

static TIME: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"^([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))$").ok()
});

/// Returns whether the `date-time` format takes this.
pub(crate) fn is_format_date_time(text: &str) -> bool {
    let lower = text.to_lowercase();
    let mut halves = lower.split('t');
    let (Some(date), Some(time)) = (halves.next(), halves.next()) else { return false };
    let Some(parts) = TIME.as_ref().and_then(|regex| regex.captures(time)) else { return false };
    text.len() >= 4
        && parse_date(date).is_some()
        && &parts[1] <= "23"
        && &parts[2] <= "59"
        && &parts[3] <= "59"
}

/// An RFC 3339 time, or one without an offset if `local` allows it (then read as UTC).
pub(crate) fn parse_time(text: &str, local: bool) -> Option<Timestamp> {
    let (date, time) = text.split_at_checked(10)?;
    let date = parse_date(date)?;
    let time = time.strip_prefix('T')?;
    let (clock, rest) = time.split_at_checked(8)?;
    let mut parts = clock.splitn(3, ':');
    let mut two = || parts.next().filter(|p| p.len() == 2 && p.bytes().all(|b| b.is_ascii_digit()));
    let (hour, minute, second) = (two()?.parse().ok()?, two()?.parse().ok()?, two()?.parse().ok()?);
    let (nanos, zone) = fraction(rest)?;
    let offset = match zone {
        "Z" => Offset::UTC,
        "" if local => Offset::UTC,
        zone => parse_offset(zone)?,
    };
    let civil = DateTime::from_parts(date, jiff::civil::Time::new(hour, minute, second, nanos).ok()?);
    offset.to_timestamp(civil).ok()
}

fn fraction(text: &str) -> Option<(i32, &str)> {
    let Some(rest) = text.strip_prefix(['.', ',']) else { return Some((0, text)) };
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (digits, zone) = rest.split_at(end);
    if digits.is_empty() {
        return None;
    }
    let nanos: String = digits.chars().chain("000000000".chars()).take(9).collect();
    Some((nanos.parse().ok()?, zone))
}

/// `+02:00`.
pub(crate) fn parse_offset(text: &str) -> Option<Offset> {
    let sign = match text.as_bytes().first()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let (hours, minutes) = text[1..].split_once(':')?;
    let number = |part: &str| -> Option<i32> {
        let plain = part.len() == 2 && part.bytes().all(|b| b.is_ascii_digit());
        part.parse().ok().filter(|_| plain)
    };
    let (hours, minutes) = (number(hours)?, number(minutes)?);
    (hours <= 24 && minutes < 60).then(|| Offset::from_seconds(sign * (hours * 3600 + minutes * 60)).ok())?
}

/// The local time of a moment in a zone named as CEL does: `UTC`, an offset with or without
/// its `+`, or an IANA name.
pub(crate) fn in_zone(time: Timestamp, zone: &str) -> Option<Zoned> {
    if zone.is_empty() || zone == "UTC" {
        return Some(time.to_zoned(TimeZone::UTC));
    }
    if zone.contains(':') {
        let signed = if zone.starts_with(['+', '-']) { zone.to_owned() } else { format!("+{zone}") };
        return parse_offset(&signed).map(|offset| time.to_zoned(offset.to_time_zone()));
    }
    TimeZone::get(zone).ok().map(|zone| time.to_zoned(zone))
}

/// RFC 3339 with as many fractional digits as needed, in UTC.
pub(crate) fn time_text(time: Timestamp) -> String {
    time.to_string()
}

/// The time `nanos` after `time`.
pub(crate) fn add(time: Timestamp, nanos: i64) -> Option<Timestamp> {
    time.checked_add(SignedDuration::from_nanos(nanos)).ok()
}

/// The nanoseconds from `earlier` to `later`.
pub(crate) fn since(later: Timestamp, earlier: Timestamp) -> Option<i64> {
    i64::try_from(later.as_nanosecond() - earlier.as_nanosecond()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_go_does() {
        let rows: &[(&str, Option<i64>)] = &[
            ("0", Some(0)),
            ("1h30m", Some(5_400_000_000_000)),
            ("-1.5s", Some(-1_500_000_000)),
            ("1us2ns", Some(1002)),
            (".5m", Some(30_000_000_000)),
            ("1.s", Some(1_000_000_000)),
            ("", None),
            ("-", None),
            ("1", None),
            ("1d", None),
            ("1 h", None),
            (".s", None),
            ("9223372036854775807ns", Some(i64::MAX)),
            ("9223372036854775808ns", None),
            ("3000000h", None),
        ];
        for (text, expected) in rows {
            assert_eq!(parse_duration(text), *expected, "{text}");
        }
        for (text, expected) in
            [("2 days", Some(172_800_000_000_000)), ("1h", Some(3_600_000_000_000)), ("x", None)]
        {
            assert_eq!(parse_format_duration(text), expected, "{text}");
        }
    }

    #[test]
    fn times_are_read_and_printed() {
        for (text, expected) in [
            ("2024-01-02T03:04:05Z", Some("2024-01-02T03:04:05Z")),
            ("2024-01-02T03:04:05.120+02:00", Some("2024-01-02T01:04:05.12Z")),
            ("2024-01-02T03:04:05", None),
            ("2024-13-02T03:04:05Z", None),
            ("2024-01-02t03:04:05z", None),
        ] {
            assert_eq!(parse_time(text, false).map(time_text).as_deref(), expected, "{text}");
        }
        assert!(parse_time("2024-01-02T03:04:05", true).is_some());
        for (text, expected) in
            [("2024-01-02t03:04:05z", true), ("2024-01-02T24:00:00Z", false), ("2024-01-02 03:04:05Z", false)]
        {
            assert_eq!(is_format_date_time(text), expected, "{text}");
        }
    }
}
