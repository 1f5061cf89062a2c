//! Secret values of inputs.

mod parts;

use std::collections::BTreeSet;

use serde_json::Value;

use crate::{
    inputs::Inputs,
    module::{Format, values},
    redact::{self, Redactor},
};

/// Values of as many bytes are found in the middle of others.
const LONG: usize = 8;

/// Ends of names that say where or what something is, and not who may use it: what is called so is no secret, though a Secret holds it.
/// Nearly every output of a cloud has its region in it.
const PLACES: [&str; 11] = [
    "region",
    "zone",
    "location",
    "profile",
    "project",
    "project_id",
    "_format",
    "_type",
    // Of a service account of Google; any other may hold a password.
    "auth_uri",
    "token_uri",
    "_domain",
];

/// Takes the secrets of a run out of texts: those of its inputs, and those its state is known to hold.
pub(crate) fn redactor(inputs: &Inputs, of_state: &[String]) -> Redactor {
    let of_inputs = values(inputs);
    Redactor::new(of_state.iter().chain(&of_inputs))
}

/// Every secret value of inputs.
pub(crate) fn values(inputs: &Inputs) -> Vec<String> {
    let mut secrets = Vec::new();
    for (name, _) in inputs.variables.iter().filter(|(_, variable)| variable.sensitive) {
        named(name, &inputs.variables[name].value, &mut secrets);
    }
    for file in inputs.var_files.iter().filter(|file| file.sensitive) {
        if let (Format::Json, Ok(values)) = (file.format, serde_json::from_str::<Value>(&file.content)) {
            leaves(&values, &mut secrets);
            continue;
        }
        if let Some(values) = values::values(&file.content) {
            leaves(&values, &mut secrets);
        }
        quoted(&file.content, &mut secrets);
    }
    let env = inputs.env.iter().filter(|(name, value)| value.sensitive && !is_place(name));
    secrets.extend(env.map(|(_, value)| value.value.clone()));
    for bytes in inputs.files.values() {
        let text = String::from_utf8_lossy(bytes);
        // `key = value` lines of credential files: the value alone is the secret.
        secrets.extend(
            text.lines()
                .filter_map(|line| line.split_once('='))
                .filter(|(name, _)| !is_place(name.trim()))
                .map(|(_, value)| value.trim().trim_matches('"').to_owned()),
        );
        secrets.push(text.into_owned());
    }
    parts::add(&mut secrets);
    secrets
}

/// Names of outputs that hold a secret of the inputs, though the module does not call them sensitive.
///
/// A value of eight bytes or more is found anywhere in an output, in every form that a [`Redactor`] knows; a shorter one only
/// where it is all of a text, since `demo` is in half of the names of a cluster.
pub(crate) fn held<'a>(
    inputs: &Inputs,
    outputs: impl Iterator<Item = (&'a str, &'a Value)>,
) -> BTreeSet<String> {
    let mut outputs = outputs.peekable();
    let (long, short): (Vec<_>, Vec<_>) = values(inputs)
        .into_iter()
        .filter(|value| !redact::trivial(value))
        .partition(|value| value.trim().len() >= LONG);
    if outputs.peek().is_none() || (long.is_empty() && short.is_empty()) {
        return BTreeSet::new();
    }
    let long = Redactor::new(long);
    let short: BTreeSet<String> = short.iter().flat_map(|value| redact::whole_forms(value.trim())).collect();
    let holds = |text: &str| long.finds(text) || short.contains(text.trim().trim_end_matches('='));
    outputs.filter(|(_, value)| any_text(value, &holds)).map(|(name, _)| name.to_owned()).collect()
}

/// Returns true if `is` holds for any text of a value, keys of maps included.
fn any_text(value: &Value, is: &impl Fn(&str) -> bool) -> bool {
    match value {
        Value::String(text) => is(text),
        Value::Number(number) => is(&number.to_string()),
        Value::Array(items) => items.iter().any(|item| any_text(item, is)),
        Value::Object(fields) => fields.iter().any(|(key, item)| is(key) || any_text(item, is)),
        Value::Null | Value::Bool(_) => false,
    }
}

fn is_place(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name == "type" || PLACES.iter().any(|end| name.ends_with(end))
}

/// Collects the value of a name, unless the name stands for no secret.
fn named(name: &str, value: &Value, into: &mut Vec<String>) {
    if !is_place(name) {
        leaves(value, into);
    }
}

/// Every text and number in a value.
fn leaves(value: &Value, into: &mut Vec<String>) {
    match value {
        Value::String(text) => into.push(text.clone()),
        Value::Number(number) => into.push(number.to_string()),
        Value::Array(items) => items.iter().for_each(|item| leaves(item, into)),
        Value::Object(object) => object.iter().for_each(|(name, item)| named(name, item, into)),
        Value::Null | Value::Bool(_) => {}
    }
}

/// Every quoted text, and every line: heredocs are not quoted. Too much is redacted rather than too little.
fn quoted(text: &str, into: &mut Vec<String>) {
    for line in text.lines() {
        if line.split_once('=').is_some_and(|(name, _)| is_place(name.trim())) {
            continue;
        }
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
        let escaped = r#"
quote   = "correct\"horse battery"
dollar  = "money$${goes}here"
percent = "half%%{done}now"
accent  = "caf\u00e9-au-lait"
slash   = "zebra\\crossing"
list    = [48151623, "42-in-a-list"]
deep    = { key = { inner = "deep\tdown" } }
script  = <<-E
    echo "quoted in a heredoc"
  E
"#;
        inputs.var_files.push(file(Format::Hcl, escaped));
        let redactor = redactor(&inputs, &["state-secret".to_owned()]);
        for secret in [
            "correct\"horse battery",
            "money${goes}here",
            "half%{done}now",
            "caf\u{e9}-au-lait",
            "zebra\\crossing",
            "48151623",
            "42-in-a-list",
            "deep\tdown",
            "echo \"quoted in a heredoc\"",
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

    const KUBECONFIG: &str = r#"apiVersion: v1
kind: Config
current-context: default
clusters:
- name: default
  cluster: {server: "https://api.example.com:6443", certificate-authority-data: LS0tLS1CRUdJTg==}
contexts:
- name: default
  context: {cluster: default, user: default}
users:
- name: default
  user:
    token: token-of-a-user
    "client-key-data": 'key ''of'' a user'
    password: >-
      folded
      password
    exec:
      command: aws
      args: [eks, get-token, --secret, "an \u0061rgument"]
      env: [{name: AWS_SECRET_ACCESS_KEY, value: !!str access-key}]
    auth-provider:
      config:
        raw: '{"refresh": {"token": "token-in-a-text"}}'
"#;

    fn with(change: impl FnOnce(&mut Inputs)) -> Redactor {
        let mut inputs = Inputs::inline("");
        change(&mut inputs);
        redactor(&inputs, &[])
    }

    fn assert_hides(redactor: &Redactor, secrets: &[&str]) {
        for secret in secrets {
            assert!(!redactor.clean(&format!("<{secret}>")).contains(secret), "{secret}");
        }
    }

    #[test]
    fn parts_of_yaml_and_json_are_secrets_wherever_they_come_in() {
        let as_json: Value = json!({"type": "service_account", "project_id": "demo-project", "client_id": 1_048_151_623,
            "private_key": "-----BEGIN KEY-----\nshort\nlines\n-----END KEY-----\n", "token_uri": "https://example.com/token"});
        let nested = json!([{"a": {"password": "pass \"word\""}}, as_json.to_string()]).to_string();
        let of_json = ["1048151623", "-----BEGIN KEY-----\nshort\nlines\n-----END KEY-----", "pass \"word\""];
        let of_yaml = [
            "token-of-a-user",
            "key 'of' a user",
            "folded password",
            "an argument",
            "access-key",
            "token-in-a-text",
        ];
        let variable = |text: &str| Variable { value: json!({"deep": [text]}), sensitive: true };
        let env = |text: &str| EnvValue { value: text.to_owned(), sensitive: true };
        for (text, secrets) in
            [(nested.as_str(), &of_json[..]), (KUBECONFIG, &of_yaml), ("token: one-line", &["one-line"])]
        {
            assert_hides(
                &with(|inputs| drop(inputs.files.insert("f".into(), text.as_bytes().to_vec()))),
                secrets,
            );
            assert_hides(&with(|inputs| drop(inputs.env.insert("E".into(), env(text)))), secrets);
            assert_hides(&with(|inputs| drop(inputs.variables.insert("v".into(), variable(text)))), secrets);
        }
        // No YAML, by the tab and by the template.
        let template = "\u{feff}user:\n\t- \"token\": 'token-of-a-line',\n\tname: {{ name }}\n";
        let lines = with(|inputs| drop(inputs.files.insert("f".into(), template.as_bytes().to_vec())));
        assert_hides(&lines, &["token-of-a-line"]);
    }

    #[test]
    fn words_of_a_kubeconfig_are_no_secrets() {
        let said = "aws eks: Config of v1 in default at https://api.example.com:6443, region eu-central-1";
        let config = format!("{KUBECONFIG}region: eu-central-1\n");
        let json =
            r#"{"apiVersion": "v1", "kind": "Config", "clusters": [{"name": "default"}], "users": []}"#;
        for text in [config.as_str(), json, "kind: Config", "name: default"] {
            let redactor = with(|inputs| drop(inputs.files.insert("f".into(), text.as_bytes().to_vec())));
            assert_eq!(redactor.clean(said), said, "{text}");
        }
    }

    #[test]
    fn outputs_that_hold_a_secret_are_found_at_any_depth() {
        let mut inputs = Inputs::inline("");
        let secret = |value: &str| Variable { value: json!(value), sensitive: true };
        inputs.variables.insert("password".into(), secret("hunter2 & co"));
        inputs.variables.insert("user".into(), secret("demo"));
        inputs.variables.insert("pin".into(), secret("48151623"));
        inputs.variables.insert("region".into(), secret("eu-central-1"));
        inputs.variables.insert("token_uri".into(), secret("https://oauth2.example.com/token"));
        inputs.variables.insert("database_uri".into(), secret("postgres://admin:correct-horse@db/x"));
        inputs.env.insert("AWS_REGION".into(), EnvValue { value: "us-east-1".into(), sensitive: true });
        let rows = [
            (json!("hunter2 & co"), true),
            (json!("postgres://demo:hunter2+%26+co@db.example.com/x"), true),
            (json!({"a": [{"b": "x hunter2 & co y"}]}), true),
            (json!({"hunter2 & co": 1}), true),
            (json!("aHVudGVyMiAmIGNv"), true),
            (json!("ZGVtbzpodW50ZXIyICYgY28="), true),
            (json!("68756e74657232202620636f"), true),
            (json!(48_151_623), true),
            (json!("demo"), true),
            (json!("postgres://admin:correct-horse@db/x"), true),
            (json!("https://oauth2.example.com/token"), false),
            (json!(["x", "ZGVtbw=="]), true),
            // A short value in a longer one, and where things are.
            (json!("demo-cluster"), false),
            (json!("https://abc.us-east-1.eks.amazonaws.com"), false),
            (json!({"zone": "eu-central-1a"}), false),
            (json!([true, null, 1, "", "hunter"]), false),
        ];
        for (value, expected) in rows {
            let found = held(&inputs, [("out", &value)].into_iter());
            assert_eq!(!found.is_empty(), expected, "{value}");
        }
    }
}
