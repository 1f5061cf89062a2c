//! Dispatch of calls to the modules of the library.

use std::collections::HashMap;
use std::rc::Rc;

use crate::cel::budget::Cost;
use crate::cel::eval::Eval;
use crate::cel::keys::Entries;
use crate::cel::library::{convert, lists, named_format, net, quantity, semver, strings, times};
use crate::cel::value::{EvalError, Evaluated, MapVal, Val};
use crate::go::regexp::{self, CompiledPattern};
use crate::go::url;
use crate::patterns::matching_cost;

/// The size of a value, for the cost of calls on it.
pub(crate) fn size_of(value: &Val<'_>) -> usize {
    match value {
        Val::String(text) => text.len(),
        Val::Bytes(bytes) => bytes.len(),
        Val::List(list) => list.len(),
        Val::Map(map) => map.len(),
        Val::Url(url) => url.text().len(),
        Val::Semver(version) => version.size(),
        _ => 1,
    }
}

/// A function that is not called on anything.
pub(crate) fn global<'a>(eval: &mut Eval<'_, 'a>, name: &str, args: &[Val<'a>]) -> Evaluated<'a> {
    for arg in args {
        eval.spend_on_text(size_of(arg))?;
    }
    match (name, args) {
        ("size", [value]) => size(value),
        ("dyn", [value]) => Ok(value.clone()),
        ("type", [Val::Preserved(_)]) => Err(EvalError::other(
            "type conversion to 'type' not supported for values preserved by x-kubernetes-preserve-unknown-fields",
        )),
        ("type", [value]) => Ok(Val::Type(value.type_name())),
        ("bool" | "bytes" | "double" | "duration" | "int" | "string" | "timestamp" | "uint", [value]) => {
            convert::to(name, value)
        }
        ("matches", [Val::String(text), Val::String(pattern)]) => matches(eval, text, pattern),
        ("optional.of", [value]) => Ok(Val::some(value.clone())),
        ("optional.ofNonZeroValue", [value]) => {
            Ok(if is_zero(value) { Val::Optional(None) } else { Val::some(value.clone()) })
        }
        ("optional.none", []) => Ok(Val::Optional(None)),
        ("optional.unwrap", [Val::List(list)]) => {
            eval.spend_on_elements(list.len())?;
            lists::unwrap(list, eval.cost)
        }
        ("strings.quote", [Val::String(text)]) => Ok(Val::text(strings::quote(text))),
        ("sets.contains" | "sets.equivalent" | "sets.intersects", [Val::List(a), Val::List(b)]) => {
            eval.spend_on_elements(a.len().saturating_mul(b.len()).max(a.len().saturating_add(b.len())))?;
            lists::sets(name, a, b, eval.cost)
        }
        ("lists.range", [Val::Int(n)]) => {
            eval.spend_on_elements(usize::try_from(*n).unwrap_or(0))?;
            Ok(Val::list((0..*n).map(Val::Int).collect()))
        }
        ("url", [Val::String(text)]) => parse_url(text),
        ("isURL", [Val::String(text)]) => Ok(Val::Bool(url::parse_request_uri(text).is_some())),
        ("ip" | "isIP" | "ip.isCanonical" | "cidr" | "isCIDR", [Val::String(text)]) => net::parse(name, text),
        ("quantity" | "isQuantity", [Val::String(text)]) => quantity::parse(name, text),
        ("sign", [Val::Quantity(quantity)]) => Ok(Val::Int(quantity.sign())),
        ("semver" | "isSemver", [Val::String(text)]) => semver::parse(name, text, false, eval.cost),
        ("semver" | "isSemver", [Val::String(text), Val::Bool(normalize)]) => {
            semver::parse(name, text, *normalize, eval.cost)
        }
        ("format.named", [Val::String(format)]) => Ok(match named_format::find(format) {
            Some(format) => Val::some(Val::Format(format)),
            None => Val::Optional(None),
        }),
        (name, []) if name.starts_with("format.") => {
            let format = name.strip_prefix("format.").and_then(named_format::find);
            format.map(Val::Format).ok_or_else(|| EvalError::overload(name))
        }
        _ => Err(EvalError::overload(name)),
    }
}

/// A function called on `target`.
pub(crate) fn member<'a>(
    eval: &mut Eval<'_, 'a>,
    name: &str,
    target: &Val<'a>,
    args: &[Val<'a>],
) -> Evaluated<'a> {
    eval.spend_on_text(size_of(target))?;
    for arg in args {
        eval.cost.spend_on_bytes(size_of(arg))?;
    }
    if let ("size", []) = (name, args) {
        return size(target);
    }
    match target {
        Val::String(text) => match (name, args) {
            ("matches", [Val::String(pattern)]) => matches(eval, text, pattern),
            ("find" | "findAll", _) => find(eval, name, text, args),
            _ => strings::member(name, text, args, eval.cost),
        },
        Val::List(list) => {
            if matches!(name, "distinct" | "sort" | "flatten" | "indexOf" | "lastIndexOf") {
                eval.spend_on_elements(list.len())?;
            }
            if name == "distinct" {
                eval.spend_on_elements(list.len().saturating_mul(list.len()))?;
            }
            if let "join" | "reverse" | "slice" | "unwrapOpt" = name {
                eval.spend_on_elements(list.len())?;
            }
            lists::member(name, list, args, eval.cost)
        }
        Val::Optional(value) => match (name, args, value) {
            ("value", [], Some(value)) => Ok((**value).clone()),
            ("value", [], None) => Err(EvalError::other("optional.none() dereference")),
            ("hasValue", [], value) => Ok(Val::Bool(value.is_some())),
            _ => Err(EvalError::overload(name)),
        },
        Val::Timestamp(time) => times::of_timestamp(name, *time, args),
        Val::Duration(nanos) => times::of_duration(name, *nanos, args),
        Val::Url(url) => url_part(name, url, args, eval.cost),
        Val::Ip(ip) => net::of_ip(name, ip, args),
        Val::Cidr(cidr) => net::of_cidr(name, cidr, args),
        Val::Quantity(quantity) => quantity::member(name, quantity, args),
        Val::Semver(version) => semver::member(name, version, args),
        Val::Format(format) => named_format::member(name, format, args),
        _ if matches!(name, "contains" | "startsWith" | "endsWith" | "matches") => {
            Err(EvalError::bare_overload())
        }
        _ => Err(EvalError::overload(name)),
    }
}

fn size<'a>(value: &Val<'a>) -> Evaluated<'a> {
    let size = match value {
        Val::String(text) => text.chars().count(),
        Val::Bytes(bytes) => bytes.len(),
        Val::List(list) => list.len(),
        Val::Map(map) => map.len(),
        _ => return Err(EvalError::overload("size")),
    };
    Ok(Val::Int(i64::try_from(size).unwrap_or(i64::MAX)))
}

fn is_zero(value: &Val<'_>) -> bool {
    match value {
        Val::Null | Val::Optional(None) => true,
        Val::Bool(value) => !value,
        Val::Int(value) | Val::Duration(value) => *value == 0,
        Val::Uint(value) => *value == 0,
        Val::Double(value) => *value == 0.0,
        // A part of the object is never zero to an API server.
        Val::String(text) => text.is_empty(),
        Val::Bytes(bytes) => bytes.is_empty(),
        Val::List(list) => !list.is_json() && list.len() == 0,
        Val::Map(MapVal::Made(entries)) => entries.len() == 0,
        _ => false,
    }
}

/// Uses a pattern of the rule, or one made on the way, on a text.
fn with_pattern<T>(
    eval: &mut Eval<'_, '_>,
    text: &str,
    pattern: &str,
    use_it: impl FnOnce(&CompiledPattern, &Cost) -> Result<T, EvalError>,
) -> Result<T, EvalError> {
    // The cost of a match is bounded by the product of both lengths,
    eval.spend_on_text((text.len() / 10 + 1).saturating_mul(pattern.len() / 4 + 1).saturating_mul(10))?;
    let (compiled, cost) = eval.pattern(pattern)?;
    // but for a pattern that is short and becomes large, such as `\pL{999}`. An API server does not count that.
    if compiled.size > regexp::SMALLEST {
        cost.spend(matching_cost(compiled, text.len()))?;
    }
    use_it(compiled, cost)
}

fn matches<'a>(eval: &mut Eval<'_, 'a>, text: &str, pattern: &str) -> Evaluated<'a> {
    with_pattern(eval, text, pattern, |pattern, _| Ok(Val::Bool(pattern.regex.is_match(text))))
}

fn find<'a>(eval: &mut Eval<'_, 'a>, name: &str, text: &str, args: &[Val<'a>]) -> Evaluated<'a> {
    let (Some(Val::String(pattern)), limit) = (args.first(), args.get(1)) else {
        return Err(EvalError::overload(name));
    };
    let limit = match limit {
        None => usize::MAX,
        Some(Val::Int(n)) => usize::try_from(*n).unwrap_or(usize::MAX),
        Some(_) => return Err(EvalError::overload(name)),
    };
    let limit = if name == "find" { 1 } else { limit };
    let found = with_pattern(eval, text, pattern, |pattern, cost| {
        let mut all = Vec::new();
        for found in pattern.regex.find_iter(text).take(limit) {
            // The next one may be looked for until the end of the text, and be found right here.
            if limit > 1 {
                cost.spend(matching_cost(pattern, text.len() - found.end()).max(1))?;
            }
            all.push(found.as_str());
        }
        Ok(all)
    })?;
    if name == "find" {
        return Ok(Val::text(found.first().copied().unwrap_or_default()));
    }
    Ok(Val::list(found.into_iter().map(Val::text).collect()))
}

fn parse_url<'a>(text: &str) -> Evaluated<'a> {
    url::parse(text).map(|url| Val::Url(Rc::new(url))).ok_or_else(|| {
        EvalError::other(format!(
            "URL parse error during conversion from string: parse {}: invalid URI for request",
            crate::go::text::quote(text)
        ))
    })
}

fn url_part<'a>(name: &str, url: &url::Url, args: &[Val<'a>], cost: &Cost) -> Evaluated<'a> {
    let text = match (name, args) {
        ("getScheme", []) => url.scheme.as_str(),
        ("getHost", []) => &url.host,
        ("getHostname", []) => url.hostname(),
        ("getPort", []) => url.port(),
        ("getEscapedPath", []) => url.escaped_path.as_str(),
        ("getQuery", []) => {
            // Each name and each value is a text of its own.
            let pairs = url.raw_query.split('&').count();
            cost.spend_on_elements(pairs.saturating_mul(2))?;
            return Ok(query(url));
        }
        _ => return Err(EvalError::overload(name)),
    };
    Ok(Val::text(text))
}

fn query<'a>(url: &url::Url) -> Val<'a> {
    let mut names = Vec::new();
    let mut found: HashMap<String, Vec<Val<'a>>> = HashMap::new();
    for (name, value) in url.query() {
        let values = found.entry(name.clone()).or_default();
        if values.is_empty() {
            names.push(name);
        }
        values.push(Val::text(value));
    }
    let mut entries = Entries::default();
    for name in names {
        let values = found.remove(&name).unwrap_or_default();
        entries.push(Val::text(name), Val::list(values));
    }
    Val::Map(MapVal::Made(entries.into()))
}
