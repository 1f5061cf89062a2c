//! Times of a simulation: seconds, or as people write them.

use std::fmt;

use jiff::SignedDuration;
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer};

/// Reads `90` and `1m30s`.
pub(super) fn seconds<'de, D: Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
    struct Reader;

    impl Visitor<'_> for Reader {
        type Value = u32;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("seconds, or a time such as 1m30s")
        }

        fn visit_u64<E: Error>(self, seconds: u64) -> Result<u32, E> {
            u32::try_from(seconds).map_err(|_| E::custom(format!("{seconds} seconds are too long")))
        }

        fn visit_i64<E: Error>(self, seconds: i64) -> Result<u32, E> {
            u32::try_from(seconds).map_err(|_| E::custom(format!("{seconds} seconds are no time to wait")))
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<u32, E> {
            let wrong = || E::custom(format!("{text:?} is neither seconds nor a time such as 1m30s"));
            // Days have 24 hours here, as in what is printed.
            let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
            let (days, rest) = match text.split_once('d').filter(|(days, _)| digits(days)) {
                Some((days, "")) => (days, "0s"),
                Some(parts) => parts,
                None => ("0", text),
            };
            let days: u32 = days.parse().map_err(|_| wrong())?;
            let time: SignedDuration = rest.parse().map_err(|_| wrong())?;
            let seconds = u32::try_from(time.as_secs()).map_err(|_| wrong())?;
            days.checked_mul(86_400).and_then(|days| days.checked_add(seconds)).ok_or_else(wrong)
        }
    }

    from.deserialize_any(Reader)
}

/// The same, where it may be left out.
pub(super) fn some_seconds<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u32>, D::Error> {
    #[derive(Deserialize)]
    struct Seconds(#[serde(deserialize_with = "seconds")] u32);

    Ok(Option::<Seconds>::deserialize(from)?.map(|Seconds(seconds)| seconds))
}

/// Seconds as people write them: `1h0m5s`, `4m`, `90s`.
pub fn in_words(seconds: i64) -> String {
    let (sign, seconds) = if seconds < 0 { ("-", -seconds) } else { ("", seconds) };
    let parts =
        [(seconds / 86_400, "d"), (seconds / 3_600 % 24, "h"), (seconds / 60 % 60, "m"), (seconds % 60, "s")];
    let parts = parts.iter().skip_while(|(number, _)| *number == 0);
    let shown = parts.fold(String::new(), |text, (number, unit)| text + &number.to_string() + unit);
    // Nothing after the last unit that counts.
    let short = ["0s", "0m", "0h"].iter().fold(shown, |text, zero| {
        let rest = text.strip_suffix(zero).filter(|rest| rest.ends_with(|c: char| c.is_ascii_alphabetic()));
        rest.map_or_else(|| text.clone(), str::to_owned)
    });
    if short.is_empty() { "0s".to_owned() } else { format!("{sign}{short}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn times_are_seconds_or_words() {
        for (value, expected) in [
            (json!(90), Some(90)),
            (json!("1m30s"), Some(90)),
            (json!("2h"), Some(7200)),
            (json!("90s"), Some(90)),
            (json!("7d"), Some(604_800)),
            (json!("1d1h"), Some(90_000)),
            (json!("90 seconds"), Some(90)),
            (json!("d"), None),
            (json!("99999999999999999999d"), None),
            (json!(-1), None),
            (json!("-1m"), None),
            (json!("soon"), None),
            (json!(1.5), None),
            (json!(5_000_000_000_u64), None),
        ] {
            assert_eq!(seconds(&value).ok(), expected, "{value}");
        }
        assert_eq!(some_seconds(&json!(null)).ok(), Some(None));
        assert_eq!(some_seconds(&json!("4m")).ok(), Some(Some(240)));
    }

    #[test]
    fn seconds_are_told_as_people_write_them() {
        for (seconds, expected) in [
            (0, "0s"),
            (45, "45s"),
            (60, "1m"),
            (90, "1m30s"),
            (600, "10m"),
            (3_600, "1h"),
            (3_605, "1h0m5s"),
            (5_400, "1h30m"),
            (86_400, "1d"),
            (90_000, "1d1h"),
        ] {
            assert_eq!(in_words(seconds), expected);
        }
    }
}
