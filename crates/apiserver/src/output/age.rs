//! Ages in kubectl's short notation.

use jiff::Timestamp;

/// The time since `then`, as `kubectl` shows it: `5m`, `3d4h`. A future of more than a second is `<invalid>`.
pub fn since(then: Timestamp, now: Timestamp) -> String {
    human_seconds(now.duration_since(then).as_secs())
}

/// The age of an RFC 3339 time; `<unknown>` for none, `<invalid>` for what is none.
pub fn since_text(then: &str, now: Timestamp) -> String {
    match then {
        "" | "null" => "<unknown>".to_owned(),
        then => then.parse().map_or_else(|_| "<invalid>".to_owned(), |then| since(then, now)),
    }
}

/// A duration with two or three significant figures. Years have 365 days.
pub fn human_seconds(seconds: i64) -> String {
    const MINUTE: i64 = 60;
    const HOUR: i64 = 60 * MINUTE;
    const DAY: i64 = 24 * HOUR;
    const YEAR: i64 = 365 * DAY;
    let one = |unit: i64, sign: char| format!("{}{sign}", seconds / unit);
    let two = |unit: i64, sign: char, part: i64, part_sign: char| match seconds % unit / part {
        0 => one(unit, sign),
        rest => format!("{}{sign}{rest}{part_sign}", seconds / unit),
    };
    match seconds {
        ..-1 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        0..120 => one(1, 's'),
        120..600 => two(MINUTE, 'm', 1, 's'),
        600..10_800 => one(MINUTE, 'm'),
        10_800..28_800 => two(HOUR, 'h', MINUTE, 'm'),
        28_800..172_800 => one(HOUR, 'h'),
        172_800..691_200 => two(DAY, 'd', HOUR, 'h'),
        691_200..63_072_000 => one(DAY, 'd'),
        63_072_000..252_288_000 => two(YEAR, 'y', DAY, 'd'),
        _ => one(YEAR, 'y'),
    }
}
