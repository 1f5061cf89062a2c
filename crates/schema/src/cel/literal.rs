//! Escapes in string and bytes literals.

use crate::cel::ast::Literal;

/// The value of a literal whose quotes were removed.
pub(crate) fn unescape(body: &str, raw: bool, bytes: bool) -> Result<Literal, String> {
    // Line ends are the same on every platform.
    let body = body.replace("\r\n", "\n").replace('\r', "\n");
    if raw {
        return Ok(if bytes { Literal::Bytes(body.into_bytes()) } else { Literal::String(body) });
    }
    let mut out = Vec::with_capacity(body.len());
    let mut chars = body.chars();
    while let Some(c) = chars.next() {
        if c == '\\' {
            escape(&mut chars, bytes, &mut out)?;
        } else {
            out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
        }
    }
    if bytes {
        return Ok(Literal::Bytes(out));
    }
    String::from_utf8(out).map(Literal::String).map_err(|_| "invalid string literal".to_owned())
}

fn escape(chars: &mut std::str::Chars<'_>, bytes: bool, out: &mut Vec<u8>) -> Result<(), String> {
    let invalid = || "unable to unescape string".to_owned();
    let c = chars.next().ok_or_else(invalid)?;
    let code = match c {
        'a' => 0x07,
        'b' => 0x08,
        'f' => 0x0c,
        'n' => 0x0a,
        'r' => 0x0d,
        't' => 0x09,
        'v' => 0x0b,
        '\\' | '\'' | '"' | '`' | '?' => u32::from(c),
        'x' | 'X' => digits(chars, "", 2, 16).ok_or_else(invalid)?,
        'u' if !bytes => digits(chars, "", 4, 16).ok_or_else(invalid)?,
        'U' if !bytes => digits(chars, "", 8, 16).ok_or_else(invalid)?,
        '0'..='3' => digits(chars, &c.to_string(), 2, 8).ok_or_else(invalid)?,
        _ => return Err(invalid()),
    };
    if bytes {
        out.push(u8::try_from(code).map_err(|_| invalid())?);
    } else {
        let c = char::from_u32(code).ok_or_else(invalid)?;
        out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
    }
    Ok(())
}

fn digits(chars: &mut std::str::Chars<'_>, first: &str, count: usize, radix: u32) -> Option<u32> {
    let text: String = first.chars().chain(chars.by_ref().take(count)).collect();
    let complete = text.len() == first.len() + count && text.chars().all(|c| c.is_digit(radix));
    u32::from_str_radix(&text, radix).ok().filter(|_| complete)
}
