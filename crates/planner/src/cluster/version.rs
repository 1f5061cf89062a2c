//! Kubernetes versions, as modules and Cluster API want them.

/// Major and minor version, as managed control planes want it: `1.33` of `v1.33.2`.
pub fn minor(version: &str) -> String {
    let plain = full(version);
    let mut parts = plain.split(['.', '-', '+']);
    match (parts.next(), parts.next()) {
        (Some(major), Some(minor)) => format!("{major}.{minor}"),
        _ => plain.to_owned(),
    }
}

/// The version without a leading v.
pub fn full(version: &str) -> &str {
    version.strip_prefix('v').unwrap_or(version)
}

/// The version that runs, of the one that was asked for and the one that the module returned.
///
/// A module returns what its cloud calls the version, which may have no patch. Cluster API compares it with the spec and
/// takes a lower one for an upgrade that is under way: so the spec's own words are used where they mean the same.
pub fn running(asked: &str, returned: Option<&str>) -> String {
    match returned.filter(|text| !text.is_empty()) {
        Some(returned) if minor(returned) != minor(asked) => returned.to_owned(),
        _ => asked.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minors() {
        for (version, expected) in [
            ("1.33", "1.33"),
            ("v1.33.2", "1.33"),
            ("1.33.2-eks-1", "1.33"),
            ("v1.33-beta", "1.33"),
            ("1", "1"),
        ] {
            assert_eq!(minor(version), expected);
        }
    }

    #[test]
    fn what_runs() {
        assert_eq!(running("v1.33.2", Some("1.33")), "v1.33.2", "or workers would wait for ever");
        assert_eq!(running("1.33", None), "1.33");
        assert_eq!(running("1.33", Some("")), "1.33");
        assert_eq!(running("1.33", Some("1.32")), "1.32", "the cloud knows better");
    }
}
