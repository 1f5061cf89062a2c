//! Times on the command line, as Go and Kubernetes write them, and days.

use std::time::Duration;

/// Whole numbers with a unit each, such as 7d, 1h30m, 90s or 500ms; or 0. A day has 24 hours.
pub fn parse(text: &str) -> Result<Duration, String> {
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let wrong = || format!("{text:?} is not a time such as 7d, 1h30m, 90s or 500ms");
    let mut rest = text;
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
        let count: u64 = rest[..digits].parse().map_err(|_| wrong())?;
        rest = &rest[digits..];
        let letters = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let unit = match &rest[..letters] {
            "d" => Duration::from_secs(24 * 3600),
            "h" => Duration::from_secs(3600),
            "m" => Duration::from_secs(60),
            "s" => Duration::from_secs(1),
            "ms" => Duration::from_millis(1),
            _ => return Err(wrong()),
        };
        let count = u32::try_from(count).map_err(|_| wrong())?;
        total = total.saturating_add(unit.saturating_mul(count));
        rest = &rest[letters..];
    }
    if text.is_empty() { Err(wrong()) } else { Ok(total) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        let rows = [
            ("7d", 604_800_000),
            ("1d1h", 90_000_000),
            ("1h", 3_600_000),
            ("90m", 5_400_000),
            ("1h30m", 5_400_000),
            ("30s", 30_000),
            ("250ms", 250),
            ("0", 0),
        ];
        for (text, wanted) in rows {
            assert_eq!(parse(text), Ok(Duration::from_millis(wanted)), "{text}");
        }
        for text in ["", "h", "5", "-1h", "d", "1h30", "99999999999h"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
