//! Takes secrets out of texts, by value.
//!
//! Whatever prints them (a provider's error, a provisioner, a crash), a known secret becomes `(sensitive)`: as it is, in JSON
//! or HCL quotes, in base64, and line by line where it has several lines. What a cleaned text holds is never a secret, not even
//! one that only the cutting put together, and cleaning it again changes nothing.
//!
//! Parse first and clean the texts after: a secret called `type` would take the keys out of a JSON line.

use std::{borrow::Cow, collections::BTreeSet, fmt, ops::Range};

use aho_corasick::{AhoCorasick, MatchKind};
use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD},
};

/// What stands in a secret's place.
const MASK: &str = "(sensitive)";

/// Below this a value is found in every text, and cutting it out tells more than it hides.
const SHORTEST: usize = 3;

/// The same for one line of a secret of several lines, where `users:` is no secret and a line of a key is longer.
const SHORTEST_LINE: usize = 6;

/// Knows the secrets, and takes them out.
#[derive(Clone)]
pub struct Redactor {
    secrets: AhoCorasick,
}

/// Shows how many, and not which.
impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redactor").field("secrets", &self.secrets.patterns_len()).finish()
    }
}

impl Default for Redactor {
    fn default() -> Self {
        Self::new([])
    }
}

impl Redactor {
    /// A redactor of these values. Those that are too short, or trivial (`true`, `null`, numbers below 1000), are left out.
    pub fn new(values: impl IntoIterator<Item = String>) -> Self {
        let mut forms = BTreeSet::new();
        for value in values {
            add_forms(&value, &mut forms);
        }
        let secrets = AhoCorasick::builder()
            // Two secrets can overlap in a text: all matches are wanted, not one of each spot.
            .match_kind(MatchKind::Standard)
            .build(forms)
            .expect("secrets take less than two billion bytes");
        Self { secrets }
    }

    /// The text without secrets.
    pub fn clean<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut clean = Cow::Borrowed(text);
        if self.secrets.patterns_len() == 0 {
            return clean;
        }
        // A second round finds what a mask and its neighbours spell by chance. Each such match takes in a whole mask and
        // more, so the text gets shorter with every round and this ends.
        while let Some(next) = self.round(&clean) {
            clean = Cow::Owned(next);
        }
        clean
    }

    /// `None` where there is nothing to take out.
    fn round(&self, text: &str) -> Option<String> {
        let mut cuts: Vec<Range<usize>> =
            self.secrets.find_overlapping_iter(text).map(|found| found.range()).collect();
        if cuts.is_empty() {
            return None;
        }
        let masks = text.match_indices(MASK).map(|(start, _)| start..start + MASK.len());
        let mut whole: Vec<(Range<usize>, bool)> = cuts.drain(..).map(|cut| (cut, true)).collect();
        whole.extend(masks.map(|mask| (mask, false)));
        whole.sort_unstable_by_key(|(range, _)| (range.start, range.end));
        Some(replace(text, &merge(whole)))
    }
}

/// Joins ranges that overlap, and drops masks that touch no secret: they stay as they are.
fn merge(ranges: Vec<(Range<usize>, bool)>) -> Vec<Range<usize>> {
    let mut merged: Vec<(Range<usize>, bool)> = Vec::with_capacity(ranges.len());
    for (range, secret) in ranges {
        match merged.last_mut() {
            Some((last, any)) if range.start < last.end => {
                last.end = last.end.max(range.end);
                *any |= secret;
            }
            _ => merged.push((range, secret)),
        }
    }
    merged.into_iter().filter(|(_, secret)| *secret).map(|(range, _)| range).collect()
}

fn replace(text: &str, cuts: &[Range<usize>]) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut from = 0;
    for cut in cuts {
        clean.push_str(&text[from..cut.start]);
        clean.push_str(MASK);
        from = cut.end;
    }
    clean.push_str(&text[from..]);
    clean
}

fn add_forms(value: &str, forms: &mut BTreeSet<String>) {
    // A secret from a file often ends in a newline that it loses on its way.
    for whole in [value, value.trim()] {
        if !trivial(whole) {
            add_encodings(whole, forms);
        }
    }
    if value.trim().contains('\n') {
        let lines = value.lines().map(str::trim).filter(|line| line.len() >= SHORTEST_LINE);
        // The first and last lines of every PEM file are the same.
        for line in lines.filter(|line| !trivial(line) && !line.starts_with("-----")) {
            add_encodings(line, forms);
        }
    }
}

fn add_encodings(value: &str, forms: &mut BTreeSet<String>) {
    let json = serde_json::to_string(value).expect("a string is JSON");
    let json = &json[1..json.len() - 1];
    // Go writes these three in its own way, and streams come from Go.
    let go = json.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026");
    let hcl = json.replace("${", "$${").replace("%{", "%%{");
    let encodings = [
        value.to_owned(),
        json.to_owned(),
        go,
        hcl,
        STANDARD_NO_PAD.encode(value),
        URL_SAFE_NO_PAD.encode(value),
    ];
    forms.extend(encodings.into_iter().filter(|form| !MASK.contains(form.as_str())));
}

fn trivial(value: &str) -> bool {
    let value = value.trim();
    value.len() < SHORTEST
        || matches!(value.to_ascii_lowercase().as_str(), "true" | "false" | "null")
        || value.parse::<f64>().is_ok_and(|number| number.abs() < 1000.0)
        || MASK.contains(value)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn clean(secrets: &[&str], text: &str) -> String {
        Redactor::new(secrets.iter().map(|&secret| secret.to_owned())).clean(text).into_owned()
    }

    #[test]
    fn secrets_in_every_dress() {
        let rows: &[(&[&str], &str, &str)] = &[
            (&["hunter2"], "password is hunter2.", "password is (sensitive)."),
            (&["hunter2", "hunter2-long"], "hunter2-long hunter2", "(sensitive) (sensitive)"),
            (&["abcd", "cdefgh"], "abcdefgh", "(sensitive)"),
            (&["hunter2\n"], "hunter2", "(sensitive)"),
            (&["pa\"ss\\w"], r#"{"p":"pa\"ss\\w"}"#, r#"{"p":"(sensitive)"}"#),
            (&["a<b>&c"], r#""a\u003cb\u003e\u0026c""#, r#""(sensitive)""#),
            (&["x${y}"], r#"v = "x$${y}""#, r#"v = "(sensitive)""#),
            (&["hunter2"], "aHVudGVyMg==", "(sensitive)=="),
            (&["??>>secret"], "Pz8-PnNlY3JldA", "(sensitive)"),
            (&["first line\nsecond line\nx"], "a first line b", "a (sensitive) b"),
            (&["first line\nsecond line"], r#""first line\nsecond line""#, r#""(sensitive)""#),
            (&["日本語の秘密"], "「日本語の秘密」", "「(sensitive)」"),
            (
                &["-----BEGIN KEY-----\nabcdefgh\n-----END KEY-----"],
                "-----BEGIN KEY----- abcdefgh",
                "-----BEGIN KEY----- (sensitive)",
            ),
            // What is left alone.
            (
                &["ab", "true", "FALSE", "null", "12", "-999.5", "", "   \n", "sensitive"],
                "ab true null 12 sensitive",
                "ab true null 12 sensitive",
            ),
            (&["1000"], "port 1000", "port (sensitive)"),
            (&[], "nothing to hide", "nothing to hide"),
            // What a mask and its neighbours spell.
            (&["hunter2", "x(sensitive)y"], "xhunter2y", "(sensitive)"),
            (&["hunter2", "ve)foo"], "hunter2foo", "(sensitive)"),
        ];
        for (secrets, text, expected) in rows {
            assert_eq!(clean(secrets, text), *expected, "{secrets:?} in {text:?}");
        }
    }

    #[test]
    fn a_text_without_secrets_is_not_copied() {
        let redactor = Redactor::new(["hunter2".to_owned()]);
        assert!(matches!(redactor.clean("nothing here"), Cow::Borrowed(_)));
    }

    #[test]
    fn debug_shows_no_secret() {
        assert!(!format!("{:?}", Redactor::new(["hunter2".to_owned()])).contains("hunter2"));
    }

    #[test]
    fn long_texts_and_many_secrets() {
        let redactor = Redactor::new((0..2_000).map(|n| format!("secret-number-{n}-")));
        let text = "a line with secret-number-77- in it\n".repeat(100_000);
        assert!(!redactor.clean(&text).contains("secret-number"));
        // Every spot of this one matches, and all of it is one cut.
        assert_eq!(Redactor::new(["aaaa".to_owned()]).clean(&"a".repeat(1_000_000)), MASK);
    }

    proptest! {
        /// Over a small alphabet, so that secrets overlap, nest and spell masks.
        #[test]
        fn a_cleaned_text_holds_no_secret(
            secrets in proptest::collection::vec("[ab(sve)]{3,8}", 0..6),
            pieces in proptest::collection::vec("[ab(sve)i]{0,6}|\\(sensitive\\)", 0..12),
            picks in proptest::collection::vec(any::<prop::sample::Index>(), 0..6),
        ) {
            let mut text = pieces.concat();
            for pick in picks {
                if !secrets.is_empty() {
                    text.push_str(&secrets[pick.index(secrets.len())]);
                    text.push_str(pieces.get(pick.index(12)).map_or("", String::as_str));
                }
            }
            let redactor = Redactor::new(secrets.clone());
            let once = redactor.clean(&text).into_owned();
            for secret in secrets.iter().filter(|secret| !trivial(secret)) {
                prop_assert!(!once.contains(secret.as_str()), "{secret:?} in {once:?}");
            }
            prop_assert_eq!(&*redactor.clean(&once), &once);
        }

        #[test]
        fn any_secret_in_any_text(secret in "\\PC{3,30}", before in "\\PC{0,20}", after in "\\PC{0,20}") {
            let redactor = Redactor::new([secret.clone()]);
            let quoted = serde_json::to_string(&secret).expect("JSON");
            for form in [&secret, &quoted] {
                let clean = redactor.clean(&format!("{before}{form}{after}")).into_owned();
                prop_assert!(trivial(&secret) || !clean.contains(&secret), "{secret:?} in {clean:?}");
                prop_assert_eq!(&*redactor.clean(&clean), &clean);
            }
        }
    }
}
