//! Columns for people: aligned, three spaces apart, the last as long as it is. Ages as kubectl writes them.

use std::io::{self, Write};

use capt_terraform::redact::one_line;
use jiff::Timestamp;

/// The longest text of an object that is shown in one line.
const LONGEST: usize = 4096;

/// A text of an object in one line. Others wrote it: nothing of it steers the terminal.
pub fn plain(text: &str) -> String {
    one_line(text, LONGEST)
}

/// The same of a text whose lines stay apart.
pub fn plain_lines(text: &str) -> String {
    text.split('\n').map(plain).collect::<Vec<_>>().join("\n")
}

/// Writes rows under their heads.
pub fn write(out: &mut impl Write, heads: &[&str], rows: &[Vec<String>]) -> io::Result<()> {
    let widths = widths(heads, rows);
    if !rows.is_empty() {
        write_row(out, heads.iter().copied(), &widths)?;
    }
    for row in rows {
        write_row(out, row.iter().map(String::as_str), &widths)?;
    }
    Ok(())
}

fn widths(heads: &[&str], rows: &[Vec<String>]) -> Vec<usize> {
    let length = |at: usize| rows.iter().filter_map(move |row| row.get(at)).map(|cell| cell.chars().count());
    heads.iter().enumerate().map(|(at, head)| length(at).max().unwrap_or(0).max(head.len())).collect()
}

fn write_row<'a>(
    out: &mut impl Write,
    cells: impl Iterator<Item = &'a str>,
    widths: &[usize],
) -> io::Result<()> {
    let mut line = String::new();
    for (at, cell) in cells.map(plain).enumerate() {
        if at > 0 {
            line.push_str("   ");
        }
        line.push_str(&cell);
        let width = widths.get(at).copied().unwrap_or_default();
        line.extend(std::iter::repeat_n(' ', width.saturating_sub(cell.chars().count())));
    }
    writeln!(out, "{}", line.trim_end())
}

/// Time since an event: 12s, 3m4s, 5h, 2d.
pub fn age(then: Timestamp, now: Timestamp) -> String {
    span(now.duration_since(then).as_secs().max(0).unsigned_abs())
}

/// A time as kubectl shortens it: two units while they matter.
pub fn span(seconds: u64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    let two = |first: u64, unit: &str, rest: u64, small: &str| {
        if rest == 0 { format!("{first}{unit}") } else { format!("{first}{unit}{rest}{small}") }
    };
    match seconds {
        0..120 => format!("{seconds}s"),
        120..600 => two(minutes, "m", seconds % 60, "s"),
        600..10_800 => format!("{minutes}m"),
        10_800..28_800 => two(hours, "h", minutes % 60, "m"),
        28_800..172_800 => format!("{hours}h"),
        172_800..691_200 => two(days, "d", hours % 24, "h"),
        _ => format!("{days}d"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_as_long_as_they_need_to_be() {
        for (seconds, text) in [
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (185, "3m5s"),
            (1800, "30m"),
            (10_800, "3h"),
            (12_600, "3h30m"),
            (90_000, "25h"),
            (180_000, "2d2h"),
            (864_000, "10d"),
        ] {
            assert_eq!(span(seconds), text);
        }
    }

    #[test]
    fn columns_are_aligned_and_lines_end_where_their_text_does() {
        let mut out = Vec::new();
        let rows = vec![
            vec!["a".to_owned(), "é".to_owned(), String::new()],
            vec!["long".into(), "b".into(), "c".into()],
        ];
        write(&mut out, &["N", "X", "Y"], &rows).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "N      X   Y\na      é\nlong   b   c\n");
        let mut steered = Vec::new();
        write(&mut steered, &["N"], &[vec!["a\u{1b}[31mb\u{202e}\u{7}\nc".into()]]).unwrap();
        assert_eq!(String::from_utf8(steered).unwrap(), "N\nab\u{fffd}\u{fffd} c\n");
        let mut nothing = Vec::new();
        write(&mut nothing, &["N"], &[]).unwrap();
        assert!(nothing.is_empty());
    }
}
