//! Checks `metadata`, which every object has and no CRD describes, in the words of an API server.

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::error::{FieldError, FieldErrorKind, is_enough};
use crate::path::{FieldPath, Segment};
use crate::schema::UnknownField;

const KNOWN_FIELDS: [&str; 15] = [
    "annotations",
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "finalizers",
    "generateName",
    "generation",
    "labels",
    "managedFields",
    "name",
    "namespace",
    "ownerReferences",
    "resourceVersion",
    "selfLink",
    "uid",
];

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const NAME_PART: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LARGEST_ANNOTATIONS: usize = 256 * 1024;

/// Members of `metadata` that Kubernetes does not know.
pub fn unknown_fields(object: &Value) -> Vec<UnknownField> {
    let path = FieldPath::root().field("metadata");
    let known: Arc<[String]> = KNOWN_FIELDS.map(str::to_owned).into();
    members(object, "metadata")
        .filter(|(name, _)| !KNOWN_FIELDS.contains(&name.as_str()))
        .map(|(name, _)| UnknownField { path: path.field(name), known: Arc::clone(&known) })
        .collect()
}

/// The first error of `metadata`, if any.
pub fn validate(object: &Value) -> Vec<FieldError> {
    let path = FieldPath::root().field("metadata");
    let metadata = match object.get("metadata") {
        Some(Value::Object(metadata)) => metadata,
        None => &Map::new(),
        Some(_) => return vec![error(&path, FieldErrorKind::Invalid, None, "must be a map")],
    };
    let mut errors = Vec::new();
    names(metadata, &path, &mut errors);
    if let Some(generation) = metadata.get("generation").and_then(Value::as_i64).filter(|number| *number < 0)
    {
        let what = "must be greater than or equal to 0";
        errors.push(FieldError::new(
            &path.field("generation"),
            FieldErrorKind::Invalid,
            Value::from(generation),
            what,
        ));
    }
    labels(metadata, &path.field("labels"), &mut errors);
    annotations(metadata, &path.field("annotations"), &mut errors);
    owners(metadata, &path.field("ownerReferences"), &mut errors);
    finalizers(metadata, &path.field("finalizers"), &mut errors);
    errors
}

/// Every owner is named whole, and at most one of them is the controller.
fn owners(metadata: &Map<String, Value>, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let Some(owners) = list(metadata, path, errors) else { return };
    let mut controllers = Vec::new();
    // Which of them is wrong is not told: so upstream.
    for owner in owners {
        if is_enough(errors) {
            return;
        }
        for (key, what) in [
            ("apiVersion", "version must not be empty"),
            ("kind", "must not be empty"),
            ("name", "must not be empty"),
            ("uid", "must not be empty"),
        ] {
            if owner.get(key).and_then(Value::as_str).is_none_or(str::is_empty) {
                errors.push(error(&path.field(key), FieldErrorKind::Invalid, Some(""), what));
            }
        }
        if owner.get("controller") == Some(&Value::Bool(true)) {
            controllers.push(owner.get("name").and_then(Value::as_str).unwrap_or_default());
        }
    }
    if let [first, second, ..] = controllers[..] {
        let what = format!(
            "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {second}"
        );
        errors.push(FieldError::new(path, FieldErrorKind::Invalid, Value::Array(owners.clone()), what));
    }
}

fn finalizers(metadata: &Map<String, Value>, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let Some(finalizers) = list(metadata, path, errors) else { return };
    let mut names = Vec::new();
    for (index, finalizer) in finalizers.iter().enumerate() {
        if is_enough(errors) {
            return;
        }
        match finalizer.as_str() {
            Some(name) => {
                qualified_name(path, name, errors);
                names.push(name);
            }
            None => errors.push(not_a_string(&path.index(index))),
        }
    }
    if names.contains(&"orphan") && names.contains(&"foregroundDeletion") {
        let what = "finalizer orphan and foregroundDeletion cannot be both set";
        errors.push(FieldError::new(path, FieldErrorKind::Invalid, Value::Array(finalizers.clone()), what));
    }
}

/// A list of `metadata`; a wrong type is an error, and absent.
fn list<'a>(
    metadata: &'a Map<String, Value>,
    path: &FieldPath,
    errors: &mut Vec<FieldError>,
) -> Option<&'a Vec<Value>> {
    match metadata.get(last(path)) {
        Some(Value::Array(items)) => Some(items),
        None | Some(Value::Null) => None,
        Some(_) => {
            errors.push(error(path, FieldErrorKind::Invalid, None, "must be a list"));
            None
        }
    }
}

/// The member of `metadata` that `path` names.
fn last(path: &FieldPath) -> &str {
    match path.segments().last() {
        Some(Segment::Field(name) | Segment::Key(name)) => name,
        Some(Segment::Index(_)) | None => "",
    }
}

fn names(metadata: &Map<String, Value>, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let mut texts = [None; 3];
    for (key, text) in ["name", "generateName", "namespace"].into_iter().zip(&mut texts) {
        match metadata.get(key) {
            None | Some(Value::Null) => {}
            Some(Value::String(value)) => *text = Some(value.as_str()).filter(|value| !value.is_empty()),
            Some(_) => errors.push(not_a_string(&path.field(key))),
        }
    }
    let [name, generate_name, namespace] = texts;
    if let Some(prefix) = generate_name {
        // The API server appends letters and digits, so a trailing dash is fine.
        subdomain(&path.field("generateName"), prefix, prefix.trim_end_matches('-'), errors);
    }
    if let Some(name) = name {
        subdomain(&path.field("name"), name, name, errors);
    } else if generate_name.is_none() && errors.is_empty() {
        let what = "name or generateName is required";
        errors.push(error(&path.field("name"), FieldErrorKind::Required, None, what));
    }
    if let Some(namespace) = namespace
        && (!is_label(namespace) || namespace.len() > 63)
    {
        errors.push(error(&path.field("namespace"), FieldErrorKind::Invalid, Some(namespace), LABEL));
    }
}

fn subdomain(path: &FieldPath, shown: &str, name: &str, errors: &mut Vec<FieldError>) {
    if name.len() > 253 {
        let what = "must be no more than 253 characters";
        errors.push(error(path, FieldErrorKind::Invalid, Some(shown), what));
    }
    if !name.split('.').all(is_label) {
        errors.push(error(path, FieldErrorKind::Invalid, Some(shown), SUBDOMAIN));
    }
}

fn labels(metadata: &Map<String, Value>, path: &FieldPath, errors: &mut Vec<FieldError>) {
    for (key, value) in map(metadata, path, errors) {
        if is_enough(errors) {
            return;
        }
        qualified_name(path, key, errors);
        match value {
            Value::String(value) => {
                if value.len() > 63 {
                    let what = "must be no more than 63 bytes";
                    errors.push(error(path, FieldErrorKind::Invalid, Some(value), what));
                }
                if !is_label_value(value) {
                    errors.push(error(path, FieldErrorKind::Invalid, Some(value), LABEL_VALUE));
                }
            }
            _ => errors.push(not_a_string(&path.key(key))),
        }
    }
}

fn annotations(metadata: &Map<String, Value>, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let mut size = 0;
    for (key, value) in map(metadata, path, errors) {
        if is_enough(errors) {
            return;
        }
        let found = errors.len();
        qualified_name(path, &key.to_lowercase(), errors);
        // Validated in lower case, shown as it is.
        errors[found..].iter_mut().for_each(|error| error.value = Some(key.as_str().into()));
        match value {
            Value::String(value) => size += key.len() + value.len(),
            _ => errors.push(not_a_string(&path.key(key))),
        }
    }
    if size > LARGEST_ANNOTATIONS {
        let what = "may not be more than 262144 bytes";
        errors.push(error(path, FieldErrorKind::TooLong, None, what));
    }
}

/// A map of `metadata`; a wrong type is an error, and empty.
fn map<'a>(
    metadata: &'a Map<String, Value>,
    path: &FieldPath,
    errors: &mut Vec<FieldError>,
) -> Vec<(&'a String, &'a Value)> {
    match metadata.get(last(path)) {
        Some(Value::Object(members)) => members.iter().collect(),
        None | Some(Value::Null) => Vec::new(),
        Some(_) => {
            errors.push(error(path, FieldErrorKind::Invalid, None, "must be a map of strings"));
            Vec::new()
        }
    }
}

/// `role` or `example.com/role`.
fn qualified_name(path: &FieldPath, key: &str, errors: &mut Vec<FieldError>) {
    let mut refuse = |what: &str| errors.push(error(path, FieldErrorKind::Invalid, Some(key), what));
    let (prefix, name) = match key.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    match prefix {
        Some("") => refuse("prefix part must be non-empty"),
        Some(prefix) if prefix.len() > 253 || !prefix.split('.').all(is_label) => {
            refuse(&format!("prefix part {SUBDOMAIN}"));
        }
        _ => {}
    }
    if name.is_empty() {
        refuse("name part must be non-empty");
    } else if name.len() > 63 {
        refuse("name part must be no more than 63 characters");
    }
    if !is_label_value(&name.chars().take(63).collect::<String>()) || name.is_empty() {
        refuse(NAME_PART);
    }
}

fn is_label(text: &str) -> bool {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    !text.is_empty()
        && text.chars().all(|c| inner(c) || c == '-')
        && text.starts_with(inner)
        && text.ends_with(inner)
}

fn is_label_value(text: &str) -> bool {
    let edge = |c: char| c.is_ascii_alphanumeric();
    text.is_empty()
        || (text.chars().all(|c| edge(c) || matches!(c, '-' | '_' | '.'))
            && text.starts_with(edge)
            && text.ends_with(edge))
}

fn members<'a>(object: &'a Value, key: &str) -> impl Iterator<Item = (&'a String, &'a Value)> {
    object.get(key).and_then(Value::as_object).into_iter().flatten()
}

fn not_a_string(path: &FieldPath) -> FieldError {
    error(path, FieldErrorKind::Invalid, None, "must be of type string")
}

fn error(path: &FieldPath, kind: FieldErrorKind, value: Option<&str>, detail: &str) -> FieldError {
    FieldError::new(path, kind, value.map(Value::from), detail)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn metadata_is_refused_in_the_words_of_an_api_server() {
        let rows = [
            (json!({"name": "a.b-1", "labels": {"x.y/z": ""}, "annotations": {"K": "v"}}), vec![]),
            (json!({"generateName": "a-"}), vec![]),
            (json!({}), vec!["metadata.name: Required value: name or generateName is required"]),
            (
                json!({"name": "A"}),
                vec!["metadata.name: Invalid value: \"A\": a lowercase RFC 1123 subdomain must consist"],
            ),
            (json!({"name": 3}), vec!["metadata.name: Invalid value: must be of type string"]),
            (
                json!({"name": "a", "labels": {"k": "no good"}}),
                vec!["metadata.labels: Invalid value: \"no good\": a valid label must be"],
            ),
            (
                json!({"name": "a", "labels": {"/k": "v"}}),
                vec!["metadata.labels: Invalid value: \"/k\": prefix part must be non-empty"],
            ),
            (
                json!({"name": "a", "labels": ["v"]}),
                vec!["metadata.labels: Invalid value: must be a map of strings"],
            ),
            (
                json!({"name": "a", "annotations": {"k": 1}}),
                vec!["metadata.annotations[k]: Invalid value: must be of type string"],
            ),
            (
                json!({"name": "a", "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p"}]}),
                vec!["metadata.ownerReferences.uid: Invalid value: \"\": must not be empty"],
            ),
            (
                json!({"name": "a", "finalizers": ["no good"]}),
                vec!["metadata.finalizers: Invalid value: \"no good\": name part must consist"],
            ),
        ];
        for (metadata, expected) in rows {
            let errors: Vec<String> =
                validate(&json!({"metadata": metadata})).iter().map(ToString::to_string).collect();
            assert_eq!(errors.len(), expected.len(), "{metadata}: {errors:#?}");
            for (error, expected) in errors.iter().zip(expected) {
                assert!(error.starts_with(expected), "{error}\n{expected}");
            }
        }
    }

    #[test]
    fn mistakes_are_told_in_bounds() {
        const MANY: usize = 100_000;
        let keys = |value: Value| (0..MANY).map(|n| (format!("/{n}"), value.clone())).collect::<Map<_, _>>();
        for metadata in [
            json!({"name": "a", "ownerReferences": vec![json!({}); MANY]}),
            json!({"name": "a", "finalizers": vec!["no good"; MANY]}),
            json!({"name": "a", "finalizers": vec![1; MANY]}),
            json!({"name": "a", "labels": keys("no good".into())}),
            json!({"name": "a", "annotations": keys(1.into())}),
        ] {
            let found = validate(&json!({"metadata": metadata})).len();
            assert!((1_000..1_010).contains(&found), "{found}");
        }
    }
}
