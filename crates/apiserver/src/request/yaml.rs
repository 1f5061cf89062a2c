//! YAML bodies as JSON values.
//!
//! Nearly every body of a server-side apply is declared as YAML and is JSON, which a JSON parser reads several times as
//! fast. The JSON parser is used where both are certain to give the same value; everything else goes to the YAML parser.

use serde_json::Value;

use crate::json;

/// Digits that fit into any integer.
const DIGITS: usize = 18;

/// The largest float below which every whole number is exact.
const MAX_EXACT_FLOAT: f64 = 9_007_199_254_740_992.0;

/// A parsed document, and the keys that it has more than once.
type Parsed = (Value, Vec<capt_yaml::Repeated>);

/// Parses a YAML body. Only the first of several documents counts, as in kube-apiserver.
pub fn parse(bytes: &[u8]) -> Result<Parsed, String> {
    if let Some(value) = parse_json(bytes) {
        return Ok((value, Vec::new()));
    }
    let text = std::str::from_utf8(bytes).map_err(|_| "yaml: invalid leading UTF-8 octet".to_owned())?;
    parse_yaml(text)
}

fn parse_yaml(text: &str) -> Result<Parsed, String> {
    let parsed = capt_yaml::lenient(text);
    let (mut value, repeated) = parsed.map_err(|error| format!("yaml: line {}: {error}", error.at.line))?;
    integers_from_floats(&mut value);
    Ok((value, repeated))
}

/// Replaces floats without a fraction by integers, as the JSON parser does.
fn integers_from_floats(value: &mut Value) {
    match value {
        Value::Number(number) => {
            if let Some(float) = number.as_f64().filter(|_| number.is_f64())
                && float.fract() == 0.0
                && float.abs() < MAX_EXACT_FLOAT
            {
                #[expect(clippy::cast_possible_truncation, reason = "it is whole, and small enough")]
                let whole = float as i64;
                *value = whole.into();
            }
        }
        Value::Array(items) => items.iter_mut().for_each(integers_from_floats),
        Value::Object(members) => members.values_mut().for_each(integers_from_floats),
        _ => {}
    }
}

/// The value of a JSON document that the YAML parser reads as the same value; `None` where the two may differ.
fn parse_json(bytes: &[u8]) -> Option<Value> {
    if !bytes.starts_with(b"{") || !is_plain(bytes) {
        return None;
    }
    let json::Parsed { value, duplicates } = json::parse(bytes).ok()?;
    // The YAML parser reports duplicate keys by line.
    duplicates.is_empty().then_some(value)
}

/// Returns whether JSON has only ASCII texts with simple escapes, and no numbers but short integers.
fn is_plain(bytes: &[u8]) -> bool {
    let (mut in_text, mut escaped, mut digits) = (false, false, 0);
    bytes.iter().all(|byte| {
        if in_text {
            let simple = !escaped || matches!(byte, b'"' | b'\\' | b'n' | b't' | b'r');
            in_text = escaped || *byte != b'"';
            escaped = !escaped && *byte == b'\\';
            return simple && matches!(byte, b' '..=b'~');
        }
        // The e of `true` and `false` follows no digit.
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
        parse_yaml(text).ok().map(|(value, _)| value)
    }

    #[test]
    fn ambiguous_json_is_left_to_the_yaml_parser() {
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
            assert_eq!(parse_json(text.as_bytes()), None, "{text}");
        }
        let text = "{\"a\": [true, false, null, -7],\n \"b\": {\"yes\": \"say \\\"no\\\"\\n# : - <<\"}}";
        assert_eq!(parse_json(text.as_bytes()), yaml(text));
        assert!(yaml(text).is_some());
    }

    /// JSON, some of it with texts that are not texts in plain YAML.
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
        /// The JSON parser gives the value that the YAML parser gives, for compact and indented documents.
        #[test]
        fn the_same_as_yaml(value in any_json()) {
            for text in [value.to_string(), serde_json::to_string_pretty(&value).unwrap()] {
                if let Some(found) = parse_json(text.as_bytes()) {
                    prop_assert_eq!(Some(found), yaml(&text), "{}", text);
                }
            }
        }
    }
}
