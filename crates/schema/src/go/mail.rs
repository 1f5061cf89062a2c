//! Mail addresses as `net/mail` reads them: `local@domain`, bare or in angle brackets after a
//! display name. Comments and encoded words are not read, groups neither.

/// Returns whether `text` is one address.
pub(crate) fn is_address(text: &str) -> bool {
    let text = text.trim_matches(|c| c == ' ' || c == '\t');
    match text.strip_suffix('>').and_then(|rest| rest.rsplit_once('<')) {
        Some((name, address)) => is_display_name(name.trim()) && is_addr_spec(address.trim()),
        None => is_addr_spec(text),
    }
}

fn is_display_name(name: &str) -> bool {
    name.is_empty()
        || is_quoted(name)
        || name
            .split_whitespace()
            .all(|word| is_quoted(word) || word.chars().all(|c| is_atom_char(c) || c == '.'))
}

fn is_addr_spec(text: &str) -> bool {
    let Some((local, domain)) = text.rsplit_once('@') else { return false };
    let local_ok = is_quoted(local) || is_dot_atom(local);
    let domain_ok = match domain.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        Some(literal) => literal.strip_prefix("IPv6:").unwrap_or(literal).parse::<std::net::IpAddr>().is_ok(),
        None => is_dot_atom(domain),
    };
    local_ok && domain_ok
}

fn is_quoted(text: &str) -> bool {
    let Some(inner) = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) else { return false };
    let mut escaped = false;
    for c in inner.chars() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return false,
            c if c.is_control() && c != '\t' => return false,
            _ => {}
        }
    }
    !escaped && text.len() >= 2
}

fn is_dot_atom(text: &str) -> bool {
    !text.is_empty() && text.split('.').all(|atom| !atom.is_empty() && atom.chars().all(is_atom_char))
}

fn is_atom_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || "!#$%&'*+-/=?^_`{|}~".contains(c) || !c.is_ascii()
}
