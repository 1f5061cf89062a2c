//! Property names as CEL identifiers: `a-b` is `a__dash__b`, `namespace` is `__namespace__`.

use std::borrow::Cow;

const WORDS: [&str; 21] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// The identifier of a property, if its name can have one.
pub(crate) fn escape(name: &str) -> Option<Cow<'_, str>> {
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    if WORDS.contains(&name) {
        return Some(Cow::Owned(format!("__{name}__")));
    }
    if !name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/')) {
        return None;
    }
    if !name.contains(['-', '.', '/']) && !name.contains("__") {
        return Some(Cow::Borrowed(name));
    }
    let mut out = String::with_capacity(name.len() + 16);
    let mut rest = name;
    while let Some(c) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix("__") {
            out.push_str("__underscores__");
            rest = after;
            continue;
        }
        match c {
            '-' => out.push_str("__dash__"),
            '.' => out.push_str("__dot__"),
            '/' => out.push_str("__slash__"),
            c => out.push(c),
        }
        rest = &rest[c.len_utf8()..];
    }
    Some(Cow::Owned(out))
}

/// The property an identifier stands for; none if it has an escape that is none.
pub(crate) fn unescape(identifier: &str) -> Option<Cow<'_, str>> {
    if !identifier.contains("__") {
        return Some(Cow::Borrowed(identifier));
    }
    let mut out = String::with_capacity(identifier.len());
    let mut rest = identifier;
    while !rest.is_empty() {
        let Some((word, after)) = escape_at(rest) else {
            let c = rest.chars().next()?;
            out.push(c);
            rest = &rest[c.len_utf8()..];
            continue;
        };
        out.push_str(match word {
            "underscores" => "__",
            "dot" => ".",
            "dash" => "-",
            "slash" => "/",
            // A reserved word is escaped as a whole or not at all.
            word if WORDS.contains(&word) && word.len() + 4 == identifier.len() => word,
            _ => return None,
        });
        rest = after;
    }
    Some(Cow::Owned(out))
}

/// `__word__` at the start of `text`: the word and what follows.
fn escape_at(text: &str) -> Option<(&str, &str)> {
    let inner = text.strip_prefix("__")?;
    let end = inner.find('_')?;
    let after = inner[end..].strip_prefix("__")?;
    (end > 0).then(|| (&inner[..end], after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_identifiers() {
        for (name, identifier) in [
            ("a", "a"),
            ("a_b", "a_b"),
            ("a-b", "a__dash__b"),
            ("a.b/c", "a__dot__b__slash__c"),
            ("a__b", "a__underscores__b"),
            ("namespace", "__namespace__"),
            ("namespaces", "namespaces"),
            ("-", "__dash__"),
        ] {
            assert_eq!(escape(name).as_deref(), Some(identifier), "{name}");
            assert_eq!(unescape(identifier).as_deref(), Some(name), "{identifier}");
        }
        for name in ["", "1a", "a b", "\u{e9}", "a$"] {
            assert_eq!(escape(name), None, "{name}");
        }
        for identifier in ["__x__", "a__if__", "__if__a"] {
            assert_eq!(unescape(identifier), None, "{identifier}");
        }
    }
}
