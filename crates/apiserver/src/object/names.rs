//! Validation of names, with Kubernetes' messages.
//!
//! Each function returns everything that is wrong with a text; nothing means it is fine.

const LABEL_MAX: usize = 63;
const SUBDOMAIN_MAX: usize = 253;

const LABEL_FORMAT: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const LABEL_MESSAGE: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character";
const SUBDOMAIN_MESSAGE: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character";
const LABEL_1035_FORMAT: &str = "[a-z]([-a-z0-9]*[a-z0-9])?";
const LABEL_1035_MESSAGE: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character";
const KEY_FORMAT: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const KEY_MESSAGE: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";
const LABEL_VALUE_MESSAGE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";
const CONFIG_KEY_MESSAGE: &str =
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.'";

/// The rule for names of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameRule {
    /// A DNS label, for namespaces.
    Label,
    /// A DNS subdomain, for most kinds.
    Subdomain,
    /// Anything that fits in one segment of a path, for RBAC.
    PathSegment,
}

impl NameRule {
    /// The errors of a name; none if it is valid.
    pub fn check(self, name: &str) -> Vec<String> {
        match self {
            Self::Label => dns_label(name),
            Self::Subdomain => dns_subdomain(name),
            Self::PathSegment => path_segment(name),
        }
    }

    /// The errors of a `generateName`: the server completes it, so it may end with a dash.
    pub fn check_prefix(self, prefix: &str) -> Vec<String> {
        match (self, prefix.strip_suffix('-')) {
            (Self::PathSegment, _) => path_segment_characters(prefix),
            (_, Some(start)) if !start.is_empty() => self.check(&format!("{start}a")),
            _ => self.check(prefix),
        }
    }
}

/// RFC 1123 label.
pub fn dns_label(text: &str) -> Vec<String> {
    let mut errors = longer_than(text, LABEL_MAX);
    if !is_label(text) {
        errors.push(if is_subdomain(text) {
            "must not contain dots".to_owned()
        } else {
            format_error(LABEL_MESSAGE, LABEL_FORMAT, &["my-name", "123-abc"])
        });
    }
    errors
}

/// RFC 1123 subdomain.
pub fn dns_subdomain(text: &str) -> Vec<String> {
    let mut errors = longer_than(text, SUBDOMAIN_MAX);
    if !is_subdomain(text) {
        let format = format!("{LABEL_FORMAT}(\\.{LABEL_FORMAT})*");
        errors.push(format_error(SUBDOMAIN_MESSAGE, &format, &["example.com"]));
    }
    errors
}

/// RFC 1035 label: a label that starts with a letter.
pub fn dns_1035_label(text: &str) -> Vec<String> {
    let mut errors = longer_than(text, LABEL_MAX);
    if !is_label(text) || !text.starts_with(|c: char| c.is_ascii_lowercase()) {
        errors.push(format_error(LABEL_1035_MESSAGE, LABEL_1035_FORMAT, &["my-name", "abc-123"]));
    }
    errors
}

/// A name with an optional domain before a slash: label keys, finalizers.
pub fn qualified_name(text: &str) -> Vec<String> {
    const EXAMPLES: [&str; 3] = ["MyName", "my.name", "123-abc"];
    let mut errors = Vec::new();
    let parts: Vec<&str> = text.split('/').collect();
    let name = match parts[..] {
        [name] => name,
        [prefix, name] => {
            if prefix.is_empty() {
                errors.push("prefix part must be non-empty".to_owned());
            } else {
                errors.extend(dns_subdomain(prefix).into_iter().map(|error| format!("prefix part {error}")));
            }
            name
        }
        _ => {
            let error = format_error(KEY_MESSAGE, KEY_FORMAT, &EXAMPLES);
            return vec![format!(
                "a valid label key {error} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            )];
        }
    };
    if name.is_empty() {
        errors.push("name part must be non-empty".to_owned());
    } else {
        errors.extend(longer_than(name, LABEL_MAX).into_iter().map(|error| format!("name part {error}")));
    }
    if !is_key(name) {
        errors.push(format!("name part {}", format_error(KEY_MESSAGE, KEY_FORMAT, &EXAMPLES)));
    }
    errors
}

/// The value of a label.
pub fn label_value(text: &str) -> Vec<String> {
    let mut errors = longer_than(text, LABEL_MAX);
    if !text.is_empty() && !is_key(text) {
        let format = format!("({KEY_FORMAT})?");
        errors.push(format_error(LABEL_VALUE_MESSAGE, &format, &["MyValue", "my_value", "12345"]));
    }
    errors
}

/// A key of the data of a `ConfigMap` or a Secret; it may become the name of a file.
pub fn config_key(text: &str) -> Vec<String> {
    let mut errors = longer_than(text, SUBDOMAIN_MAX);
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if text.is_empty() || !text.chars().all(fits) {
        errors.push(format_error(
            CONFIG_KEY_MESSAGE,
            "[-._a-zA-Z0-9]+",
            &["key.name", "KEY_NAME", "key-name"],
        ));
    }
    match text {
        "." => errors.push("must not be '.'".to_owned()),
        ".." => errors.push("must not be '..'".to_owned()),
        _ if text.starts_with("..") => errors.push("must not start with '..'".to_owned()),
        _ => {}
    }
    errors
}

/// Anything that fits in one segment of a path.
pub fn path_segment(text: &str) -> Vec<String> {
    match text {
        "." | ".." => vec![format!("may not be '{text}'")],
        _ => path_segment_characters(text),
    }
}

fn path_segment_characters(text: &str) -> Vec<String> {
    ['/', '%'].into_iter().filter(|c| text.contains(*c)).map(|c| format!("may not contain '{c}'")).collect()
}

fn is_label(text: &str) -> bool {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    !text.is_empty() && text.bytes().all(inner) && !text.starts_with('-') && !text.ends_with('-')
}

fn is_subdomain(text: &str) -> bool {
    text.split('.').all(is_label)
}

fn is_key(text: &str) -> bool {
    let outer = |b: Option<u8>| b.is_some_and(|b| b.is_ascii_alphanumeric());
    let inner = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    outer(text.bytes().next()) && outer(text.bytes().last()) && text.bytes().all(inner)
}

fn longer_than(text: &str, most: usize) -> Vec<String> {
    if text.len() > most { vec![format!("must be no more than {most} characters")] } else { Vec::new() }
}

fn format_error(message: &str, format: &str, examples: &[&str]) -> String {
    let examples: Vec<String> = examples.iter().map(|example| format!("'{example}', ")).collect();
    format!("{message} (e.g. {}regex used for validation is '{format}')", examples.join(" or "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_judged_in_kubernetes_words() {
        type Rule = fn(&str) -> Vec<String>;
        let long = "a".repeat(254);
        let rows: &[(Rule, &str, &[&str])] = &[
            (dns_label, "a-1", &[]),
            (dns_label, "a.b", &["must not contain dots"]),
            (
                dns_label,
                "A",
                &[
                    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')",
                ],
            ),
            (dns_subdomain, "a.b-c.9", &[]),
            (dns_subdomain, &long, &["must be no more than 253 characters"]),
            (
                dns_subdomain,
                "a..b",
                &[
                    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
                ],
            ),
            (qualified_name, "example.com/Some.name", &[]),
            (
                qualified_name,
                "/",
                &[
                    "prefix part must be non-empty",
                    "name part must be non-empty",
                    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
                ],
            ),
            (config_key, "..data", &["must not start with '..'"]),
            (config_key, "tls.crt", &[]),
            (path_segment, "system:node%", &["may not contain '%'"]),
            (path_segment, "system:controller:a b", &[]),
        ];
        for (rule, text, expected) in rows {
            assert_eq!(rule(text), *expected, "{text}");
        }
    }

    #[test]
    fn a_generated_name_may_end_with_a_dash() {
        assert_eq!(NameRule::Label.check_prefix("a-"), Vec::<String>::new());
        assert_eq!(NameRule::Subdomain.check_prefix("-").len(), 1);
        assert_eq!(NameRule::PathSegment.check_prefix("system:"), Vec::<String>::new());
        assert_eq!(NameRule::Label.check("a-").len(), 1);
    }
}
