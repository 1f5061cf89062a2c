//! Secrets: some types need certain keys, the type stays, and what is immutable stays as well.

use base64::{Engine, prelude::BASE64_STANDARD};
use capt_schema::{FieldError, is_enough};
use serde_json::{Map, Value, json};

use super::{
    MAX_DATA, complaints, forbidden, get, immutable, invalid, json_text, path, required, text, too_long,
};
use crate::object::names::config_key;

const ACCOUNT_NAME: &str = "kubernetes.io/service-account.name";
const IMMUTABLE: &str = "field is immutable when `immutable` is set";

/// `stringData` is only for writing: it ends up in `data`.
pub(super) fn apply_defaults(secret: &mut Value) {
    let Value::Object(members) = secret else { return };
    if let Some(Value::Object(texts)) = members.shift_remove("stringData")
        && !texts.is_empty()
    {
        let data = members.entry("data").or_insert_with(|| json!({}));
        if !data.is_object() {
            *data = json!({});
        }
        for (key, value) in texts {
            data[key.as_str()] = BASE64_STANDARD.encode(value.as_str().unwrap_or_default()).into();
        }
    }
    let kind = members.entry("type").or_insert_with(|| "".into());
    if kind.as_str().is_none_or(str::is_empty) {
        *kind = "Opaque".into();
    }
}

pub(super) fn validate(secret: &Value) -> Vec<FieldError> {
    let none = Map::new();
    let data = secret.get("data").and_then(Value::as_object).unwrap_or(&none);
    let data_path = path(&["data"]);
    let mut errors = Vec::new();
    let mut size = 0;
    for (key, value) in data {
        if is_enough(&errors) {
            break;
        }
        errors.extend(complaints(&data_path.key(key), key, config_key(key)));
        size += decoded(value).len();
    }
    if size > MAX_DATA {
        errors.push(too_long(&data_path, MAX_DATA));
    }
    of_type(secret, data, &mut errors);
    errors
}

/// A certificate or key that TLS cannot be served with, in the words of Go's TLS; what is in the PEM is not looked at.
pub(super) fn warning(secret: &Value) -> Option<String> {
    if text(secret, &["type"]) != "kubernetes.io/tls" {
        return None;
    }
    let blocks = |key: &str| pem_blocks(&decoded(get(secret, &["data", key])));
    let (certificate, key) = (blocks("tls.crt"), blocks("tls.key"));
    if !certificate.iter().any(|block| block == "CERTIFICATE") {
        return Some(match &certificate[..] {
            [] => "tls: failed to find any PEM data in certificate input".to_owned(),
            [only] if only.ends_with("PRIVATE KEY") => {
                "tls: failed to find certificate PEM data in certificate input, but did find a private key; PEM \
                 inputs may have been switched"
                    .to_owned()
            }
            others => format!(
                "tls: failed to find \"CERTIFICATE\" PEM block in certificate input after skipping PEM blocks of \
                 the following types: [{}]",
                others.join(" ")
            ),
        });
    }
    if key.iter().any(|block| block.ends_with("PRIVATE KEY")) {
        return None;
    }
    Some(match &key[..] {
        [] => "tls: failed to find any PEM data in key input".to_owned(),
        [only] if only == "CERTIFICATE" => {
            "tls: found a certificate rather than a key in the PEM for the private key".to_owned()
        }
        others => format!(
            "tls: failed to find PEM block with type ending in \"PRIVATE KEY\" in key input after skipping PEM blocks \
             of the following types: [{}]",
            others.join(" ")
        ),
    })
}

/// The types of the blocks of a PEM file.
fn pem_blocks(bytes: &[u8]) -> Vec<String> {
    let content = String::from_utf8_lossy(bytes);
    let begun = content.split("-----BEGIN ").skip(1);
    let whole = begun.filter_map(|rest| {
        let (name, rest) = rest.split_once("-----")?;
        rest.contains(&format!("-----END {name}-----")).then(|| name.to_owned())
    });
    whole.collect()
}

fn of_type(secret: &Value, data: &Map<String, Value>, errors: &mut Vec<FieldError>) {
    let data_path = path(&["data"]);
    let missing = |key: &str| required(&data_path.key(key), "");
    let mut need = |keys: &[&str]| {
        errors.extend(keys.iter().filter(|key| !data.contains_key(**key)).map(|key| missing(key)));
    };
    match text(secret, &["type"]) {
        "kubernetes.io/tls" => need(&["tls.crt", "tls.key"]),
        // One of the two is enough.
        "kubernetes.io/basic-auth" if !data.contains_key("username") && !data.contains_key("password") => {
            need(&["username", "password"]);
        }
        "kubernetes.io/ssh-auth" if data.get("ssh-privatekey").is_none_or(|key| decoded(key).is_empty()) => {
            errors.push(missing("ssh-privatekey"));
        }
        "kubernetes.io/service-account-token"
            if text(secret, &["metadata", "annotations", ACCOUNT_NAME]).is_empty() =>
        {
            errors.push(required(&path(&["metadata", "annotations"]).key(ACCOUNT_NAME), ""));
        }
        "kubernetes.io/dockercfg" => errors.extend(docker_config(data, ".dockercfg")),
        "kubernetes.io/dockerconfigjson" => errors.extend(docker_config(data, ".dockerconfigjson")),
        _ => {}
    }
}

fn docker_config(data: &Map<String, Value>, key: &str) -> Option<FieldError> {
    let at = path(&["data"]).key(key);
    let Some(value) = data.get(key) else { return Some(required(&at, "")) };
    let error = json_text::object_error(&decoded(value))?;
    Some(invalid(&at, "<secret contents redacted>", error))
}

pub(super) fn validate_update(secret: &Value, old: &Value, emptied: Option<&str>) -> Vec<FieldError> {
    let mut errors: Vec<FieldError> =
        immutable(&path(&["type"]), get(secret, &["type"]), get(old, &["type"])).into_iter().collect();
    errors.extend(changed_immutable(secret, old, &["data"], emptied));
    errors.extend(validate(secret));
    errors
}

/// The errors of fields that changed although `immutable` is set.
pub(super) fn changed_immutable(
    object: &Value,
    old: &Value,
    fields: &[&str],
    emptied: Option<&str>,
) -> Vec<FieldError> {
    let is_immutable = |object: &Value| object.get("immutable") == Some(&Value::Bool(true));
    if !is_immutable(old) {
        return Vec::new();
    }
    let mutable = (!is_immutable(object)).then_some("immutable");
    let has_changed = |name: &str| get(object, &[name]) != get(old, &[name]) || emptied == Some(name);
    let changed = fields.iter().copied().filter(|name| has_changed(name));
    mutable.into_iter().chain(changed).map(|name| forbidden(&path(&[name]), IMMUTABLE)).collect()
}

fn decoded(value: &Value) -> Vec<u8> {
    BASE64_STANDARD.decode(value.as_str().unwrap_or_default()).unwrap_or_default()
}
