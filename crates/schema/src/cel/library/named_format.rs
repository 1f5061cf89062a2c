//! Formats by name: `format.dns1123Label().validate(name)` is none if the text fits, else a
//! list of what is wrong.

use crate::cel::signatures::FORMATS;
use crate::cel::value::{EvalError, Evaluated, Val};
use crate::go::url;
use crate::validate::formats::{Check, Format, is_dns_label};

pub(super) fn find(name: &str) -> Option<&'static str> {
    FORMATS.into_iter().find(|format| *format == name)
}

pub(super) fn member<'a>(name: &str, format: &str, args: &[Val<'a>]) -> Evaluated<'a> {
    match (name, args) {
        ("validate", [Val::String(text)]) => {
            let problems = problems(format, text);
            Ok(if problems.is_empty() {
                Val::Optional(None)
            } else {
                Val::some(Val::list(problems.into_iter().map(Val::text).collect()))
            })
        }
        _ => Err(EvalError::overload(name)),
    }
}

fn too_long(max: usize) -> String {
    format!("must be no more than {max} bytes")
}

const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must \
    start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or \
    '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL_1035: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an \
    alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for \
    validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
const QUALIFIED: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end \
    with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
    '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or \
    '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex \
    used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

fn problems(format: &str, text: &str) -> Vec<String> {
    // A prefix may end with a dash, which something will follow.
    let prefix = format.strip_suffix("Prefix");
    let masked = match text.strip_suffix('-') {
        Some(head) if prefix.is_some() && text.len() > 1 => format!("{head}a"),
        _ => text.to_owned(),
    };
    let text = masked.as_str();
    let bounded = |max: usize, fits: bool, message: &str| {
        let long = (text.len() > max).then(|| too_long(max));
        let wrong = (!fits).then(|| message.to_owned());
        long.into_iter().chain(wrong).collect()
    };
    match prefix.unwrap_or(format) {
        "dns1123Label" => bounded(63, is_dns_label(text), LABEL),
        "dns1123Subdomain" => bounded(253, text.split('.').all(is_dns_label), SUBDOMAIN),
        "dns1035Label" => {
            let fits = is_dns_label(text) && text.starts_with(|c: char| c.is_ascii_lowercase());
            bounded(63, fits, LABEL_1035)
        }
        "qualifiedName" => qualified_name(text),
        "labelValue" => bounded(63, text.is_empty() || is_name_part(text), LABEL_VALUE),
        "uri" => match url::parse_request_uri(text) {
            Some(_) => Vec::new(),
            None => vec![format!("parse {}: invalid URI for request", crate::go::text::quote(text))],
        },
        "uuid" => strfmt("uuid", text, "does not match the UUID format"),
        "byte" => strfmt("byte", text, "invalid base64"),
        "date" => strfmt("date", text, "invalid date"),
        _ => strfmt("datetime", text, "invalid datetime"),
    }
}

fn strfmt(name: &str, text: &str, message: &str) -> Vec<String> {
    let fits = matches!(
        Format::effective("string", name),
        Some(Format { check: Check::Text(check), .. }) if check.accepts(text)
    );
    if fits { Vec::new() } else { vec![message.to_owned()] }
}

fn is_name_part(text: &str) -> bool {
    let ends = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    ends(text.chars().next())
        && ends(text.chars().next_back())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
}

fn qualified_name(text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    let parts: Vec<&str> = text.split('/').collect();
    let name = match parts[..] {
        [name] => name,
        [prefix, name] => {
            if prefix.is_empty() {
                problems.push("prefix part must be non-empty".to_owned());
            } else {
                if prefix.len() > 253 {
                    problems.push(format!("prefix part {}", too_long(253)));
                }
                if !prefix.split('.').all(is_dns_label) {
                    problems.push(format!("prefix part {SUBDOMAIN}"));
                }
            }
            name
        }
        _ => {
            return vec![format!(
                "a qualified name {} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
                QUALIFIED.strip_prefix("name part ").unwrap_or(QUALIFIED)
            )];
        }
    };
    if name.is_empty() {
        problems.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        problems.push(format!("name part {}", too_long(63)));
    }
    if !is_name_part(name) {
        problems.push(QUALIFIED.to_owned());
    }
    problems
}
