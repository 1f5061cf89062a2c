//! Semantic versions.

use std::cmp::Ordering;
use std::rc::Rc;

use crate::cel::budget::Cost;
use crate::cel::value::{EvalError, Evaluated, Val};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Semver {
    numbers: [u64; 3],
    pre: Vec<Identifier>,
    /// Bytes of what is compared.
    size: usize,
}

/// A number sorts before a word.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Identifier {
    Number(u64),
    Word(String),
}

impl Semver {
    fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("Version string empty".to_owned());
        }
        let (rest, build) = text.split_once('+').map_or((text, None), |(rest, build)| (rest, Some(build)));
        let (core, pre) = rest.split_once('-').map_or((rest, None), |(core, pre)| (core, Some(pre)));
        let parts: Vec<&str> = core.splitn(3, '.').collect();
        let [major, minor, patch] = parts[..] else {
            return Err("No Major.Minor.Patch elements found".to_owned());
        };
        let mut numbers = [0; 3];
        for ((number, part), name) in
            numbers.iter_mut().zip([major, minor, patch]).zip(["major", "minor", "patch"])
        {
            *number = numeric(part, name)?;
        }
        let pre = pre.map_or(Ok(Vec::new()), |pre| pre.split('.').map(identifier).collect())?;
        if let Some(build) = build {
            for part in build.split('.') {
                if part.is_empty() {
                    return Err("Build meta data is empty".to_owned());
                }
                if !part.bytes().all(is_identifier_byte) {
                    return Err(format!("Invalid character(s) found in build meta data \"{part}\""));
                }
            }
        }
        Ok(Self { numbers, pre, size: rest.len() })
    }

    /// With a `v` before it, leading zeros or missing numbers.
    fn normalize(text: &str) -> Result<Self, String> {
        let text = text.strip_prefix('v').unwrap_or(text);
        let mut parts: Vec<String> = text
            .splitn(3, '.')
            .map(|part| {
                let trimmed = part.trim_start_matches('0');
                let kept = trimmed.starts_with(|c: char| c.is_ascii_digit());
                if part.len() <= 1 || kept {
                    if part.len() > 1 { trimmed } else { part }.to_owned()
                } else {
                    format!("0{trimmed}")
                }
            })
            .collect();
        if parts.len() < 3 {
            if parts.last().is_some_and(|part| part.contains(['+', '-'])) {
                return Err("short version cannot contain PreRelease/Build meta data".to_owned());
            }
            parts.resize(3, "0".to_owned());
        }
        Self::parse(&parts.join("."))
    }

    pub fn size(&self) -> usize {
        self.size
    }

    pub fn compare(&self, other: &Self) -> Ordering {
        let by_pre = || match (self.pre.is_empty(), other.pre.is_empty()) {
            (true, true) => Ordering::Equal,
            (true, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
            (false, false) => self.pre.cmp(&other.pre),
        };
        self.numbers.cmp(&other.numbers).then_with(by_pre)
    }
}

fn is_identifier_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-'
}

fn numeric(part: &str, name: &str) -> Result<u64, String> {
    if part.is_empty() || !part.bytes().all(|b| b.is_ascii_digit()) {
        return Err(format!("Invalid character(s) found in {name} number \"{part}\""));
    }
    if part.len() > 1 && part.starts_with('0') {
        return Err(format!("{} number must not contain leading zeroes \"{part}\"", capitalize(name)));
    }
    part.parse().map_err(|_| format!("{} number \"{part}\" is out of range", capitalize(name)))
}

fn capitalize(name: &str) -> String {
    let (first, rest) = name.split_at(1);
    first.to_uppercase() + rest
}

fn identifier(part: &str) -> Result<Identifier, String> {
    if part.is_empty() {
        return Err("Prerelease is empty".to_owned());
    }
    if part.bytes().all(|b| b.is_ascii_digit()) {
        if part.len() > 1 && part.starts_with('0') {
            return Err(format!("Numeric PreRelease version must not contain leading zeroes \"{part}\""));
        }
        return part.parse().map(Identifier::Number).map_err(|_| "PreRelease is out of range".to_owned());
    }
    if part.bytes().all(is_identifier_byte) {
        Ok(Identifier::Word(part.to_owned()))
    } else {
        Err(format!("Invalid character(s) found in prerelease \"{part}\""))
    }
}

/// `semver` and `isSemver`.
pub(super) fn parse<'a>(name: &str, text: &str, normalize: bool, cost: &Cost) -> Evaluated<'a> {
    // Each identifier is a text of its own.
    cost.spend_on_elements(text.bytes().filter(|byte| *byte == b'.').count())?;
    let parsed = if normalize { Semver::normalize(text) } else { Semver::parse(text) };
    if name == "isSemver" {
        return Ok(Val::Bool(parsed.is_ok()));
    }
    parsed.map(|version| Val::Semver(Rc::new(version))).map_err(EvalError::Other)
}

pub(super) fn member<'a>(name: &str, version: &Semver, args: &[Val<'a>]) -> Evaluated<'a> {
    let number = |i: usize| Val::Int(i64::try_from(version.numbers[i]).unwrap_or(i64::MAX));
    Ok(match (name, args) {
        ("major", []) => number(0),
        ("minor", []) => number(1),
        ("patch", []) => number(2),
        ("isGreaterThan", [Val::Semver(other)]) => Val::Bool(version.compare(other).is_gt()),
        ("isLessThan", [Val::Semver(other)]) => Val::Bool(version.compare(other).is_lt()),
        ("compareTo", [Val::Semver(other)]) => Val::Int(version.compare(other) as i64),
        _ => return Err(EvalError::overload(name)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_and_ordered() {
        for text in ["1.2.3", "0.0.0", "1.2.3-alpha.1+build.5", "1.2.3-0a"] {
            assert!(Semver::parse(text).is_ok(), "{text}");
        }
        for text in ["", "1.2", "v1.2.3", "01.2.3", "1.2.3-", "1.2.3-01", "1.2.3+", "1.2.x"] {
            assert!(Semver::parse(text).is_err(), "{text}");
        }
        for (text, same) in [("v1.2", "1.2.0"), ("1", "1.0.0"), ("v01.02.03", "1.2.3"), ("0.0.00", "0.0.0")] {
            assert_eq!(Semver::normalize(text), Semver::parse(same), "{text}");
        }
        let order = ["1.0.0-1", "1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-beta", "1.0.0", "1.0.1", "1.10.0"];
        for pair in order.windows(2) {
            let (a, b) = (Semver::parse(pair[0]).expect("valid"), Semver::parse(pair[1]).expect("valid"));
            assert_eq!(a.compare(&b), Ordering::Less, "{pair:?}");
        }
    }
}
