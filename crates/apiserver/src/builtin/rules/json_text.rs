//! Go's errors for a text that should be a JSON object.

use serde_json::Value;

/// Why `bytes` are not a JSON object, if they are not.
pub(super) fn object_error(bytes: &[u8]) -> Option<String> {
    match serde_json::from_slice::<Value>(bytes) {
        Ok(Value::Object(_) | Value::Null) => None,
        Ok(other) => {
            let found = match other {
                Value::Array(_) => "array",
                Value::String(_) => "string",
                Value::Bool(_) => "bool",
                _ => "number",
            };
            Some(format!("json: cannot unmarshal {found} into Go value of type map[string]interface {{}}"))
        }
        Err(error) if error.is_eof() => Some("unexpected end of JSON input".to_owned()),
        Err(error) => {
            // Columns count from one, in bytes of the line.
            let line = bytes.split(|b| *b == b'\n').nth(error.line().saturating_sub(1)).unwrap_or_default();
            let found = line.get(error.column().saturating_sub(1)).copied().unwrap_or_default();
            let found = char::from(found);
            let text = line.trim_ascii_start();
            let literal =
                ["null", "true", "false"].into_iter().find(|word| text.starts_with(&word.as_bytes()[..1]));
            Some(match literal.and_then(|word| Some((word, expected(word, text)?))) {
                Some((word, expected)) => {
                    format!("invalid character '{found}' in literal {word} (expecting '{expected}')")
                }
                None => format!("invalid character '{found}' looking for beginning of value"),
            })
        }
    }
}

/// The first letter of a word that a text which begins with it does not have.
fn expected(word: &str, text: &[u8]) -> Option<char> {
    word.bytes().zip(text).find(|(wanted, found)| wanted != *found).map(|(wanted, _)| char::from(wanted))
}
