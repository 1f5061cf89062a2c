//! Functions of strings. Positions count characters.

use crate::cel::budget::Cost;
use crate::cel::library::text_format;
use crate::cel::value::{EvalError, Evaluated, Str, Val};

pub(super) fn member<'a>(name: &str, text: &Str<'a>, args: &[Val<'a>], cost: &Cost) -> Evaluated<'a> {
    match (name, args) {
        ("contains", [Val::String(part)]) => Ok(Val::Bool(text.contains(&**part))),
        ("startsWith", [Val::String(part)]) => Ok(Val::Bool(text.starts_with(&**part))),
        ("endsWith", [Val::String(part)]) => Ok(Val::Bool(text.ends_with(&**part))),
        ("charAt", [Val::Int(index)]) => char_at(text, *index),
        ("indexOf", [Val::String(part)]) => index_of(text, part, 0),
        ("indexOf", [Val::String(part), Val::Int(from)]) => index_of(text, part, *from),
        ("lastIndexOf", [Val::String(part)]) => {
            let length = signed(text.chars().count());
            match (part.is_empty(), text.len() < part.len()) {
                (true, _) => Ok(Val::Int(length)),
                (_, true) => Ok(Val::Int(-1)),
                _ => last_index_of(text, part, length - 1),
            }
        }
        ("lastIndexOf", [Val::String(part), Val::Int(from)]) => last_index_of(text, part, *from),
        ("lowerAscii", []) => Ok(Val::text(text.to_ascii_lowercase())),
        ("upperAscii", []) => Ok(Val::text(text.to_ascii_uppercase())),
        ("trim", []) => Ok(Val::text(text.trim())),
        ("replace", [Val::String(old), Val::String(new)]) => replace(text, old, new, usize::MAX, cost),
        ("replace", [Val::String(old), Val::String(new), Val::Int(count)]) => {
            replace(text, old, new, usize::try_from(*count).unwrap_or(usize::MAX), cost)
        }
        ("split", [Val::String(separator)]) => split(text, separator, -1, cost),
        ("split", [Val::String(separator), Val::Int(limit)]) => split(text, separator, *limit, cost),
        ("substring", [Val::Int(start)]) => substring(text, *start, signed(text.chars().count())),
        ("substring", [Val::Int(start), Val::Int(end)]) if start > end => {
            Err(EvalError::other(format!("invalid substring range. start: {start}, end: {end}")))
        }
        ("substring", [Val::Int(start), Val::Int(end)]) => substring(text, *start, *end),
        ("format", [Val::List(arguments)]) => text_format::format(text, arguments, cost).map(Val::text),
        _ => Err(EvalError::overload(name)),
    }
}

fn signed(length: usize) -> i64 {
    i64::try_from(length).unwrap_or(i64::MAX)
}

/// What it grows by costs before it is made: an empty text is found before each character.
fn replace<'a>(text: &str, old: &str, new: &str, count: usize, cost: &Cost) -> Evaluated<'a> {
    let found = text.matches(old).take(count).count();
    cost.spend_on_text(found.saturating_mul(new.len().saturating_sub(old.len())))?;
    Ok(Val::text(text.replacen(old, new, count)))
}

fn out_of_range(index: i64) -> EvalError {
    EvalError::other(format!("index out of range: {index}"))
}

fn char_at<'a>(text: &str, index: i64) -> Evaluated<'a> {
    let position = usize::try_from(index).map_err(|_| out_of_range(index))?;
    match text.chars().nth(position) {
        Some(c) => Ok(Val::text(c.to_string())),
        None if text.chars().count() == position => Ok(Val::text("")),
        None => Err(out_of_range(index)),
    }
}

fn index_of<'a>(text: &str, part: &str, from: i64) -> Evaluated<'a> {
    if part.is_empty() {
        return Ok(Val::Int(from));
    }
    let skip = usize::try_from(from).map_err(|_| out_of_range(from))?;
    let Some((start, _)) = text.char_indices().nth(skip) else { return Ok(Val::Int(-1)) };
    let found = text[start..].find(part).map(|at| from + signed(text[start..start + at].chars().count()));
    Ok(Val::Int(found.unwrap_or(-1)))
}

fn last_index_of<'a>(text: &str, part: &str, from: i64) -> Evaluated<'a> {
    if part.is_empty() {
        return Ok(Val::Int(from));
    }
    let skip = usize::try_from(from).map_err(|_| out_of_range(from))?;
    let Some((position, _)) = text.char_indices().nth(skip) else { return Ok(Val::Int(-1)) };
    let end = text.floor_char_boundary(position + part.len());
    let found = text[..end].rfind(part).map(|at| text[..at].chars().count());
    Ok(Val::Int(found.map_or(-1, signed)))
}

/// Go's `SplitN`: a limit of zero gives nothing, a negative one is none; an empty separator
/// splits between characters. Each part is a text of its own, and costs before any is made.
fn split<'a>(text: &str, separator: &str, limit: i64, cost: &Cost) -> Evaluated<'a> {
    let limit = match limit {
        0 => return Ok(Val::list(Vec::new())),
        limit if limit < 0 => usize::MAX,
        limit => usize::try_from(limit).unwrap_or(usize::MAX),
    };
    if !separator.is_empty() {
        cost.spend_on_elements(text.splitn(limit, separator).count())?;
        return Ok(Val::list(text.splitn(limit, separator).map(Val::text).collect()));
    }
    cost.spend_on_elements(text.chars().take(limit).count())?;
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if parts.len() + 1 == limit {
            parts.push(Val::text(rest));
            break;
        }
        let (head, tail) = rest.split_at(c.len_utf8());
        parts.push(Val::text(head));
        rest = tail;
    }
    Ok(Val::list(parts))
}

fn substring<'a>(text: &str, start: i64, end: i64) -> Evaluated<'a> {
    let length = signed(text.chars().count());
    for index in [start, end] {
        if !(0..=length).contains(&index) {
            return Err(out_of_range(index));
        }
    }
    let skip = usize::try_from(start).unwrap_or(0);
    let take = usize::try_from(end - start).unwrap_or(0);
    Ok(Val::text(text.chars().skip(skip).take(take).collect::<String>()))
}

/// In double quotes, with CEL's escapes.
pub(super) fn quote(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{b}' => out.push_str("\\v"),
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
