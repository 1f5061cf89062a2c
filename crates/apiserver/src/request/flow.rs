//! JSON where YAML may stand.
//!
//! Nearly every body of a server-side apply says it is YAML and is JSON, which a JSON parser reads several times as
//! fast. It is used for what both read alike beyond doubt; all else is left to the YAML parser.

use serde_json::Value;

use crate::json::{self, Parsed};

/// Digits that fit into any integer.
const DIGITS: usize = 18;

/// The value of a JSON document that YAML reads as the same value; `None` where the two may differ.
pub fn parse(bytes: &[u8]) -> Option<Value> {
    if !bytes.starts_with(b"{") || !is_plain(bytes) {
        return None;
    }
    let Parsed { value, duplicates } = json::parse(bytes).ok()?;
    // What is there twice is told by its line then.
    duplicates.is_empty().then_some(value)
}

/// No text beyond ASCII and simple escapes, and no number but a short integer.
fn is_plain(bytes: &[u8]) -> bool {
    let (mut in_text, mut escaped, mut digits) = (false, false, 0);
    bytes.iter().all(|byte| {
        if in_text {
            let simple = !escaped || matches!(byte, b'"' | b'\\' | b'n' | b't' | b'r');
            in_text = escaped || *byte != b'"';
            escaped = !escaped && *byte == b'\\';
            return simple && matches!(byte, b' '..=b'~');
        }
        // `true` and `false` have an e, but behind no digit.
        let exponent = digits > 0 && matches!(byte, b'e' | b'E');
        digits = if byte.is_ascii_digit() { digits + 1 } else { 0 };
        in_text = *byte == b'"';
        !exponent && *byte != b'.' && digits <= DIGITS && matches!(byte, b' '..=b'~' | b'\n')
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn yaml(text: &str) -> Option<Value> {
        crate::handlers::read_yaml(text).ok().map(|(value, _)| value)
    }

    #[test]
    fn what_the_two_may_read_differently_is_left_to_yaml() {
        for text in [
            r#"{"a": 1.0}"#,
            r#"{"a": 1e3}"#,
            r#"{"a": 12345678901234567890}"#,
            r#"{"a": 1, "a": 2}"#,
            r#"{"a": "\u0041"}"#,
            r#"{"a": "\/"}"#,
            "{\"a\": \"\u{e9}\"}",
            "{\"a\":\t1}",
            "a: 1",
            "{a: 1}",
            "[1]",
            r#"{"a": 1} {"b": 2}"#,
        ] {
            assert_eq!(parse(text.as_bytes()), None, "{text}");
        }
        let text = "{\"a\": [true, false, null, -7],\n \"b\": {\"yes\": \"say \\\"no\\\"\\n# : - <<\"}}";
        assert_eq!(parse(text.as_bytes()), yaml(text));
        assert!(yaml(text).is_some());
    }

    /// JSON, some of it with what YAML has other ideas about.
    fn any_json() -> impl Strategy<Value = Value> {
        let text = prop_oneof![
            "[ -~]{0,12}",
            "(yes|null|~|1|0x1f|<<|---|& a|\\* a|! a|%|@|'|\\[|#)",
            any::<String>(),
        ];
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            (-1_000i64..1_000).prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            text.clone().prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 24, 4, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(text.clone(), inner, 0..4)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(512))]
        /// Whatever is read here is what YAML would have read, written narrow or wide.
        #[test]
        fn the_same_as_yaml(value in any_json()) {
            for text in [value.to_string(), serde_json::to_string_pretty(&value).unwrap()] {
                if let Some(found) = parse(text.as_bytes()) {
                    prop_assert_eq!(Some(found), yaml(&text), "{}", text);
                }
            }
        }
    }
}
