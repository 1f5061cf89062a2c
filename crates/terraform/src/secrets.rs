//! Which values must not be shown.

use serde_json::Value;

use crate::{inputs::Inputs, module::Format, redact::Redactor};

/// Takes the secrets of a run out of texts: those of its inputs, and those its state is known to hold.
pub(crate) fn redactor(inputs: &Inputs, of_state: &[String]) -> Redactor {
    let mut secrets = of_state.to_vec();
    for variable in inputs.variables.values().filter(|variable| variable.sensitive) {
        leaves(&variable.value, &mut secrets);
    }
    for file in inputs.var_files.iter().filter(|file| file.sensitive) {
        match (file.format, serde_json::from_str::<Value>(&file.content)) {
            (Format::Json, Ok(values)) => leaves(&values, &mut secrets),
            _ => quoted(&file.content, &mut secrets),
        }
    }
    secrets.extend(inputs.env.values().filter(|value| value.sensitive).map(|value| value.value.clone()));
    for bytes in inputs.files.values() {
        let text = String::from_utf8_lossy(bytes);
        // `key = value` lines of credential files: the value alone is the secret.
        secrets.extend(
            text.lines()
                .filter_map(|line| line.split_once('='))
                .map(|(_, value)| value.trim().trim_matches('"').to_owned()),
        );
        if let Ok(value) = serde_json::from_str::<Value>(&text) {
            leaves(&value, &mut secrets);
        }
        secrets.push(text.into_owned());
    }
    Redactor::new(secrets)
}

/// Every text and number in a value.
fn leaves(value: &Value, into: &mut Vec<String>) {
    match value {
        Value::String(text) => into.push(text.clone()),
        Value::Number(number) => into.push(number.to_string()),
        Value::Array(items) => items.iter().for_each(|item| leaves(item, into)),
        Value::Object(object) => object.values().for_each(|item| leaves(item, into)),
        Value::Null | Value::Bool(_) => {}
    }
}

/// Every quoted text, and every line: heredocs are not quoted. Too much is redacted rather than too little.
fn quoted(text: &str, into: &mut Vec<String>) {
    for line in text.lines() {
        let mut parts = line.split('"');
        parts.next();
        while let (Some(inside), rest) = (parts.next(), parts.next()) {
            into.push(inside.to_owned());
            if rest.is_none() {
                break;
            }
        }
        if !line.contains(['"', '{', '}']) {
            let value = line.split_once('=').map_or(line, |(_, value)| value);
            into.push(value.trim().to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::inputs::{EnvValue, VarFile, Variable};

    #[test]
    fn secrets_are_found_wherever_they_come_in() {
        let mut inputs = Inputs::inline("");
        inputs
            .variables
            .insert("a".into(), Variable { value: json!({"deep": ["in-a-list"]}), sensitive: true });
        inputs.variables.insert("b".into(), Variable { value: json!("harmless"), sensitive: false });
        inputs.env.insert("T".into(), EnvValue { value: "token-in-env".into(), sensitive: true });
        inputs.files.insert("c".into(), b"[default]\naws_secret_access_key = file-secret\n".to_vec());
        let file = |format, content: &str| VarFile { format, content: content.into(), sensitive: true };
        inputs.var_files.push(file(Format::Json, r#"{"x": "json-secret"}"#));
        inputs
            .var_files
            .push(file(Format::Hcl, "x = \"hcl-secret\"\ny = <<E\nheredoc-secret\nE\nz = 987654\n"));
        let redactor = redactor(&inputs, &["state-secret".to_owned()]);
        for secret in [
            "in-a-list",
            "token-in-env",
            "file-secret",
            "json-secret",
            "hcl-secret",
            "heredoc-secret",
            "987654",
            "state-secret",
        ] {
            assert!(!redactor.clean(&format!("<{secret}>")).contains(secret), "{secret}");
        }
        assert_eq!(redactor.clean("<harmless>"), "<harmless>");
    }
}
