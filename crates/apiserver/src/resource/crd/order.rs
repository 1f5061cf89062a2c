//! The order of versions of an API.

use std::cmp::Ordering;

/// The stability of a version, most stable first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stability {
    Stable,
    Beta,
    Alpha,
}

/// Kubernetes' priority of versions, best first: `v2`, `v1`, `v1beta2`, `v1beta1`, `v1alpha1`, and then all that
/// are not named this way, by their names.
pub fn compare_versions(a: &str, b: &str) -> Ordering {
    match (parse(a), parse(b)) {
        (Some((stability, major, minor)), Some((other_stability, other_major, other_minor))) => {
            stability.cmp(&other_stability).then(other_major.cmp(&major)).then(other_minor.cmp(&minor))
        }
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => a.cmp(b),
    }
}

fn parse(version: &str) -> Option<(Stability, u64, u64)> {
    let rest = version.strip_prefix('v')?;
    for (word, stability) in [("alpha", Stability::Alpha), ("beta", Stability::Beta)] {
        if let Some((major, minor)) = rest.split_once(word) {
            return Some((stability, number(major)?, number(minor)?));
        }
    }
    Some((Stability::Stable, number(rest)?, 0))
}

fn number(digits: &str) -> Option<u64> {
    if digits.starts_with('0') || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stable_comes_before_beta_before_alpha_before_the_rest() {
        let ordered = [
            "v10",
            "v2",
            "v1",
            "v11beta2",
            "v10beta3",
            "v3beta1",
            "v12alpha1",
            "v11alpha2",
            "foo1",
            "foo10",
            "v0",
            "v1beta",
        ];
        let mut shuffled = ordered;
        shuffled.reverse();
        shuffled.sort_by(|a, b| compare_versions(a, b));
        assert_eq!(shuffled, ordered);
    }
}
