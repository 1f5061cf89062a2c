//! Validation of label keys and values, with Kubernetes' messages.

const NAME: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const NAME_RULE: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
                         alphanumeric character";
const VALUE_RULE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or \
                          '.', and must start and end with an alphanumeric character";
const SUBDOMAIN: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const SUBDOMAIN_RULE: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' \
                              or '.', and must start and end with an alphanumeric character";
/// Of names and of values.
const LENGTH: usize = 63;
const SUBDOMAIN_LENGTH: usize = 253;

fn rule(text: &str, pattern: &str, examples: &[&str]) -> String {
    let examples: Vec<_> = examples.iter().map(|example| format!("'{example}', ")).collect();
    format!("{text} (e.g. {}regex used for validation is '{pattern}')", examples.join(" or "))
}

fn name_rule() -> String {
    rule(NAME_RULE, NAME, &["MyName", "my.name", "123-abc"])
}

fn too_long(limit: usize) -> String {
    format!("must be no more than {limit} bytes")
}

fn is_name(text: &str) -> bool {
    let edge = |b: Option<&u8>| b.is_some_and(u8::is_ascii_alphanumeric);
    let inner = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    let bytes = text.as_bytes();
    edge(bytes.first()) && edge(bytes.last()) && bytes.iter().all(|b| inner(*b))
}

fn is_subdomain(text: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    text.split('.').all(|label| {
        !label.is_empty() && !label.starts_with('-') && !label.ends_with('-') && label.bytes().all(allowed)
    })
}

/// The errors of a label key; none if it is valid.
pub fn label_key_problems(key: &str) -> Vec<String> {
    let mut problems = Vec::new();
    let name = match key.split('/').collect::<Vec<_>>().as_slice() {
        [name] => *name,
        [prefix, name] => {
            problems.extend(prefix_problems(prefix));
            *name
        }
        _ => {
            let end = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')";
            return vec![format!("a valid label key {} {end}", name_rule())];
        }
    };
    if name.is_empty() {
        problems.push("name part must be non-empty".to_owned());
    } else if name.len() > LENGTH {
        problems.push(format!("name part {}", too_long(LENGTH)));
    }
    if !is_name(name) {
        problems.push(format!("name part {}", name_rule()));
    }
    problems
}

fn prefix_problems(prefix: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if prefix.is_empty() {
        problems.push("prefix part must be non-empty".to_owned());
        return problems;
    }
    if prefix.len() > SUBDOMAIN_LENGTH {
        problems.push(format!("prefix part {}", too_long(SUBDOMAIN_LENGTH)));
    }
    if !is_subdomain(prefix) {
        problems.push(format!("prefix part {}", rule(SUBDOMAIN_RULE, SUBDOMAIN, &["example.com"])));
    }
    problems
}

/// The errors of a label value; none if it is valid.
pub fn label_value_problems(value: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if value.len() > LENGTH {
        problems.push(too_long(LENGTH));
    }
    if !value.is_empty() && !is_name(value) {
        problems.push(rule(VALUE_RULE, &format!("({NAME})?"), &["MyValue", "my_value", "12345"]));
    }
    problems
}
