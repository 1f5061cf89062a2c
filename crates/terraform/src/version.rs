//! Versions and constraints as Terraform means them: `>= 1.6, < 2.0`, `~> 1.9`.
//!
//! A prerelease is chosen by its exact version only; no other operator matches one. `required_version` of a module is
//! compared with [`Version::core`] instead: there Terraform lets a prerelease pass for the release it precedes. (OpenTofu 1.12
//! does not look at `required_version` at all.)

use std::{cmp::Ordering, fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// A version: numbers, perhaps a prerelease, perhaps build metadata (which is compared by nobody).
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Version {
    /// At least three: `1.2` is `1.2.0`.
    numbers: Vec<u64>,
    /// Number of parts that were written.
    written: usize,
    prerelease: Vec<PrereleasePart>,
    metadata: String,
}

/// A dot-separated piece of a prerelease: numbers come before words, and are compared as numbers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum PrereleasePart {
    Number(u64),
    Word(String),
}

/// A list of conditions that must all hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Constraint(Vec<(Operator, Version)>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Equal,
    NotEqual,
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
    /// `~>`: only the last number written may grow.
    Pessimistic,
}

/// Why a text is no version or constraint.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VersionError {
    /// Not a version.
    #[error("{0:?} is no version: expected something like 1.9.2")]
    Version(String),
    /// Not a constraint.
    #[error("{0:?} is no version constraint: expected something like \">= 1.6, < 2.0\" or \"~> 1.9\"")]
    Constraint(String),
}

impl Version {
    /// The release that a prerelease precedes; a release is its own.
    #[must_use]
    pub fn core(&self) -> Self {
        Self { prerelease: Vec::new(), metadata: String::new(), ..self.clone() }
    }

    /// True for `1.2.0-beta1`.
    pub fn is_prerelease(&self) -> bool {
        !self.prerelease.is_empty()
    }
}

impl FromStr for Version {
    type Err = VersionError;

    fn from_str(text: &str) -> Result<Self, VersionError> {
        let trimmed = text.trim();
        parse_version(trimmed).ok_or_else(|| VersionError::Version(trimmed.to_owned()))
    }
}

fn parse_version(text: &str) -> Option<Version> {
    let text = text.strip_prefix('v').unwrap_or(text);
    let (text, metadata) =
        text.split_once('+').map_or((text, None), |(text, metadata)| (text, Some(metadata)));
    let (numbers, prerelease) =
        text.split_once('-').map_or((text, None), |(numbers, rest)| (numbers, Some(rest)));
    let mut numbers = numbers.split('.').map(number).collect::<Option<Vec<u64>>>()?;
    let written = numbers.len();
    numbers.resize(written.max(3), 0);
    let prerelease = match prerelease {
        Some(text) => pieces(text)?
            .map(|piece| {
                number(piece).map_or_else(|| PrereleasePart::Word(piece.into()), PrereleasePart::Number)
            })
            .collect(),
        None => Vec::new(),
    };
    let metadata = match metadata {
        Some(text) => pieces(text)?.collect::<Vec<_>>().join("."),
        None => String::new(),
    };
    Some(Version { numbers, written, prerelease, metadata })
}

fn number(text: &str) -> Option<u64> {
    // `u64::from_str` takes a sign.
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

fn pieces(text: &str) -> Option<impl Iterator<Item = &str>> {
    let fine = |piece: &str| {
        !piece.is_empty() && piece.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    text.split('.').all(fine).then(|| text.split('.'))
}

impl Ord for Version {
    fn cmp(&self, other: &Self) -> Ordering {
        let longest = self.numbers.len().max(other.numbers.len());
        let at = |version: &Self, index: usize| version.numbers.get(index).copied().unwrap_or(0);
        let numbers =
            (0..longest).map(|index| at(self, index).cmp(&at(other, index))).find(|order| order.is_ne());
        numbers.unwrap_or_else(|| match (self.is_prerelease(), other.is_prerelease()) {
            (false, false) => Ordering::Equal,
            (true, false) => Ordering::Less,
            (false, true) => Ordering::Greater,
            (true, true) => self.prerelease.cmp(&other.prerelease),
        })
    }
}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Version {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Version {}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers: Vec<String> = self.numbers[..self.written].iter().map(u64::to_string).collect();
        f.write_str(&numbers.join("."))?;
        for (index, part) in self.prerelease.iter().enumerate() {
            f.write_str(if index == 0 { "-" } else { "." })?;
            match part {
                PrereleasePart::Number(number) => write!(f, "{number}")?,
                PrereleasePart::Word(word) => f.write_str(word)?,
            }
        }
        if self.metadata.is_empty() { Ok(()) } else { write!(f, "+{}", self.metadata) }
    }
}

impl TryFrom<String> for Version {
    type Error = VersionError;

    fn try_from(text: String) -> Result<Self, VersionError> {
        text.parse()
    }
}

impl From<Version> for String {
    fn from(version: Version) -> Self {
        version.to_string()
    }
}

impl Constraint {
    /// True where every condition holds.
    pub fn matches(&self, version: &Version) -> bool {
        self.0.iter().all(|(operator, bound)| operator.holds(version, bound))
    }
}

impl Operator {
    /// The longest first, so that `>=` is not read as `>`.
    const ALL: [(&'static str, Self); 7] = [
        (">=", Self::GreaterOrEqual),
        ("<=", Self::LessOrEqual),
        ("!=", Self::NotEqual),
        ("~>", Self::Pessimistic),
        (">", Self::Greater),
        ("<", Self::Less),
        ("=", Self::Equal),
    ];

    fn holds(self, version: &Version, bound: &Version) -> bool {
        if self != Self::Equal && version.is_prerelease() {
            return false;
        }
        match self {
            Self::Equal => version == bound,
            Self::NotEqual => version != bound,
            Self::Greater => version > bound,
            Self::GreaterOrEqual => version >= bound,
            Self::Less => version < bound,
            Self::LessOrEqual => version <= bound,
            Self::Pessimistic => {
                let fixed = bound.written - 1;
                // A version of fewer numbers than the bound leaves nothing that could grow; Terraform refuses it.
                !bound.is_prerelease()
                    && version >= bound
                    && version.numbers.len() >= bound.written
                    && version.numbers[..fixed] == bound.numbers[..fixed]
            }
        }
    }
}

impl FromStr for Constraint {
    type Err = VersionError;

    fn from_str(text: &str) -> Result<Self, VersionError> {
        let condition = |text: &str| {
            let text = text.trim();
            let (operator, rest) = Operator::ALL
                .iter()
                .find_map(|(sign, operator)| Some((*operator, text.strip_prefix(sign)?)))
                .unwrap_or((Operator::Equal, text));
            Some((operator, parse_version(rest.trim())?))
        };
        let conditions: Option<Vec<_>> = text.split(',').map(condition).collect();
        conditions.map(Self).ok_or_else(|| VersionError::Constraint(text.to_owned()))
    }
}

impl fmt::Display for Constraint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (operator, version)) in self.0.iter().enumerate() {
            let sign =
                Operator::ALL.iter().find(|(_, known)| known == operator).map_or("=", |(sign, _)| sign);
            write!(f, "{}{sign} {version}", if index == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

impl TryFrom<String> for Constraint {
    type Error = VersionError;

    fn try_from(text: String) -> Result<Self, VersionError> {
        text.parse()
    }
}

impl From<Constraint> for String {
    fn from(constraint: Constraint) -> Self {
        constraint.to_string()
    }
}

#[cfg(test)]
mod tests;
