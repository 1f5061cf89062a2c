use proptest::prelude::*;

use super::*;

/// Constraint, versions that match, versions that do not. What concerns 1.11.4 was asked of Terraform 1.11.4 as a module's
/// `required_version`; the rest follows its documentation.
const TABLE: &[(&str, &[&str], &[&str])] = &[
    ("1.11.4", &["1.11.4", "v1.11.4", "1.11.4+build"], &["1.11.3", "1.11.4-beta1"]),
    ("= 1.11.4", &["1.11.4"], &["1.11.5"]),
    ("v1.11.4", &["1.11.4"], &[]),
    (">=1.11", &["1.11.4", "1.11", "2.0.0"], &["1.10.9", "1.12.0-beta1"]),
    ("> 1.11.4", &["1.11.5", "1.11.4.1"], &["1.11.4", "1.11.5-rc1"]),
    ("< 1.11.4", &["1.11.3"], &["1.11.4", "1.11.4-rc1"]),
    ("<= 1.11.4", &["1.11.4"], &["1.11.5"]),
    ("!= 1.11.4", &["1.11.5"], &["1.11.4", "1.12.0-alpha1"]),
    ("~> 1", &["1.11.4", "2.0.0", "9.9"], &["0.9.0"]),
    ("~> 1.11", &["1.11.4", "1.11.0", "1.99.0"], &["1.10.0", "2.0.0"]),
    ("~> 1.11.4", &["1.11.4", "1.11.9"], &["1.11.3", "1.12.0"]),
    ("~> 1.11.0", &["1.11.4"], &["1.12.0"]),
    ("~> 1.10.0", &["1.10.9"], &["1.11.4"]),
    ("~> 0.9", &["0.10.0"], &["1.11.4"]),
    ("~> 1.11.4.0", &["1.11.4.2"], &["1.11.4", "1.11.5"]),
    (">= 1.6, < 2.0", &["1.6.0", "1.11.4"], &["1.5.7", "2.0.0", "2.0.0-beta1"]),
    (" >= 1.6 , < 2 ", &["1.11.4"], &["2.0.0"]),
    (">= 01.6", &["1.11.4"], &["1.5.0"]),
    (">= 1.6.0.0", &["1.11.4"], &["1.5.9"]),
    (">= 1.6+meta", &["1.11.4"], &[]),
    ("1.12.0-beta1", &["1.12.0-beta1"], &["1.12.0", "1.12.0-beta2"]),
    (">= 1.12.0-beta1", &["1.12.0"], &["1.12.0-beta1", "1.12.0-rc1"]),
    ("~> 1.12.0-beta1", &[], &["1.12.0-beta1", "1.12.0", "1.12.1"]),
];

#[test]
fn constraints_match_what_terraform_matches() {
    for (constraint, matching, others) in TABLE {
        let parsed: Constraint = constraint.parse().expect("a constraint");
        for (versions, expected) in [(matching, true), (others, false)] {
            for version in *versions {
                let parsed_version: Version = version.parse().expect("a version");
                assert_eq!(parsed.matches(&parsed_version), expected, "{version} and {constraint:?}");
            }
        }
    }
}

/// Terraform 1.11.4 refuses each of these too.
#[test]
fn what_is_no_constraint() {
    for text in [
        ">= 1.6 < 2.0",
        ">= 1.6,",
        ", >= 1.6",
        "> = 1.6",
        "=> 1.6",
        ">= 1.6.x",
        "",
        "*",
        "== 1.11.4",
        ">= 1.6 || >= 2",
        "~> ",
        ">= +1",
        "1..2",
        "1.2-",
        "99999999999999999999",
    ] {
        let error = text.parse::<Constraint>().expect_err(text);
        assert!(error.to_string().contains("version constraint"), "{error}");
    }
}

#[test]
fn versions_are_ordered() {
    let ordered = [
        "0.9",
        "1.0.0-1",
        "1.0.0-2",
        "1.0.0-10",
        "1.0.0-alpha",
        "1.0.0-alpha.1",
        "1.0.0-beta",
        "1.0.0",
        "1.0.0.1",
        "1.2",
        "1.10",
    ];
    for pair in ordered.windows(2) {
        let [low, high] = [pair[0], pair[1]].map(|text| text.parse::<Version>().expect("a version"));
        assert!(low < high, "{low} < {high}");
    }
    assert_eq!("1.2".parse::<Version>(), "1.2.0".parse());
}

#[test]
fn a_prerelease_passes_for_its_release_by_its_core() {
    let version: Version = "1.12.0-beta1".parse().expect("a version");
    let constraint: Constraint = ">= 1.12".parse().expect("a constraint");
    assert!(!constraint.matches(&version) && constraint.matches(&version.core()));
}

proptest! {
    #[test]
    fn what_is_printed_reads_the_same(text in "(>=|<=|!=|~>|>|<|=)? ?v?[0-9]{1,3}(\\.[0-9]{1,3}){0,3}(-[a-z0-9]{1,4}(\\.[0-9]{1,2})?)?(\\+[a-z]{1,3})?") {
        let constraint: Constraint = text.parse().expect("a constraint");
        prop_assert_eq!(constraint.to_string().parse::<Constraint>(), Ok(constraint));
    }

    #[test]
    fn any_text_is_read_or_refused(text in "[0-9.<>=~!, v+a-]{0,20}") {
        let _ = text.parse::<Constraint>();
        let _ = text.parse::<Version>();
    }
}
