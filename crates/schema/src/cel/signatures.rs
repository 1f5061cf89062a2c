//! The functions a rule can call: their overloads, written as they would be documented.
//!
//! `string.find(string) -> string` is called on a string, `size(list(A)) -> int` is not;
//! capital letters stand for any type, the same one throughout an overload.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::LazyLock;

use crate::cel::types::{Substitution, Type};

/// Names of the types of libraries, as messages show them.
pub(crate) const URL: &str = "kubernetes.URL";
pub(crate) const IP: &str = "net.IP";
pub(crate) const CIDR: &str = "net.CIDR";
pub(crate) const QUANTITY: &str = "kubernetes.Quantity";
pub(crate) const SEMVER: &str = "kubernetes.Semver";
pub(crate) const FORMAT: &str = "kubernetes.NamedFormat";

const STANDARD: &str = "
    !_(bool) -> bool
    -_(int) -> int
    -_(double) -> double
    _+_(bytes, bytes) -> bytes
    _+_(double, double) -> double
    _+_(duration, duration) -> duration
    _+_(duration, timestamp) -> timestamp
    _+_(timestamp, duration) -> timestamp
    _+_(int, int) -> int
    _+_(list(A), list(A)) -> list(A)
    _+_(string, string) -> string
    _+_(uint, uint) -> uint
    _-_(double, double) -> double
    _-_(duration, duration) -> duration
    _-_(int, int) -> int
    _-_(timestamp, duration) -> timestamp
    _-_(timestamp, timestamp) -> duration
    _-_(uint, uint) -> uint
    _*_(double, double) -> double
    _*_(int, int) -> int
    _*_(uint, uint) -> uint
    _/_(double, double) -> double
    _/_(int, int) -> int
    _/_(uint, uint) -> uint
    _%_(int, int) -> int
    _%_(uint, uint) -> uint
    _==_(A, A) -> bool
    _!=_(A, A) -> bool
    _[_](list(A), int) -> A
    _[_](map(A, B), A) -> B
    _[_](optional(list(A)), int) -> optional(A)
    _[_](optional(map(A, B)), A) -> optional(B)
    _[?_](list(A), int) -> optional(A)
    _[?_](optional(list(A)), int) -> optional(A)
    _[?_](map(A, B), A) -> optional(B)
    _[?_](optional(map(A, B)), A) -> optional(B)
    @in(A, list(A)) -> bool
    @in(A, map(A, B)) -> bool
    size(bytes) -> int
    size(list(A)) -> int
    size(map(A, B)) -> int
    size(string) -> int
    bytes.size() -> int
    list(A).size() -> int
    map(A, B).size() -> int
    string.size() -> int
    type(A) -> type(A)
    bool(bool) -> bool
    bool(string) -> bool
    bytes(bytes) -> bytes
    bytes(string) -> bytes
    double(double) -> double
    double(int) -> double
    double(string) -> double
    double(uint) -> double
    duration(duration) -> duration
    duration(int) -> duration
    duration(string) -> duration
    dyn(A) -> dyn
    int(int) -> int
    int(double) -> int
    int(duration) -> int
    int(string) -> int
    int(timestamp) -> int
    int(uint) -> int
    string(string) -> string
    string(bool) -> string
    string(bytes) -> string
    string(double) -> string
    string(duration) -> string
    string(int) -> string
    string(timestamp) -> string
    string(uint) -> string
    timestamp(timestamp) -> timestamp
    timestamp(int) -> timestamp
    timestamp(string) -> timestamp
    uint(uint) -> uint
    uint(double) -> uint
    uint(int) -> uint
    uint(string) -> uint
    string.contains(string) -> bool
    string.endsWith(string) -> bool
    string.startsWith(string) -> bool
    matches(string, string) -> bool
    string.matches(string) -> bool
    timestamp.getFullYear() -> int
    timestamp.getFullYear(string) -> int
    timestamp.getMonth() -> int
    timestamp.getMonth(string) -> int
    timestamp.getDayOfYear() -> int
    timestamp.getDayOfYear(string) -> int
    timestamp.getDayOfMonth() -> int
    timestamp.getDayOfMonth(string) -> int
    timestamp.getDate() -> int
    timestamp.getDate(string) -> int
    timestamp.getDayOfWeek() -> int
    timestamp.getDayOfWeek(string) -> int
    timestamp.getHours() -> int
    timestamp.getHours(string) -> int
    duration.getHours() -> int
    timestamp.getMinutes() -> int
    timestamp.getMinutes(string) -> int
    duration.getMinutes() -> int
    timestamp.getSeconds() -> int
    timestamp.getSeconds(string) -> int
    duration.getSeconds() -> int
    timestamp.getMilliseconds() -> int
    timestamp.getMilliseconds(string) -> int
    duration.getMilliseconds() -> int
";

/// Optional values; `or` and `orValue` evaluate their argument only if needed.
const OPTIONALS: &str = "
    optional.of(A) -> optional(A)
    optional.ofNonZeroValue(A) -> optional(A)
    optional.none() -> optional(A)
    optional(A).value() -> A
    optional(A).hasValue() -> bool
    optional(A).or(optional(A)) -> optional(A)
    optional(A).orValue(A) -> A
    list(A).last() -> optional(A)
    list(A).first() -> optional(A)
    optional.unwrap(list(optional(A))) -> list(A)
    list(optional(A)).unwrapOpt() -> list(A)
";

const EXTENSIONS: &str = "
    string.charAt(int) -> string
    string.indexOf(string) -> int
    string.indexOf(string, int) -> int
    string.lastIndexOf(string) -> int
    string.lastIndexOf(string, int) -> int
    string.lowerAscii() -> string
    string.upperAscii() -> string
    string.replace(string, string) -> string
    string.replace(string, string, int) -> string
    string.split(string) -> list(string)
    string.split(string, int) -> list(string)
    string.substring(int) -> string
    string.substring(int, int) -> string
    string.trim() -> string
    string.format(list(dyn)) -> string
    strings.quote(string) -> string
    list(string).join() -> string
    list(string).join(string) -> string
    sets.contains(list(A), list(A)) -> bool
    sets.equivalent(list(A), list(A)) -> bool
    sets.intersects(list(A), list(A)) -> bool
    list(A).slice(int, int) -> list(A)
    list(list(A)).flatten() -> list(A)
    list(dyn).flatten(int) -> list(dyn)
    lists.range(int) -> list(int)
    list(A).reverse() -> list(A)
    list(A).distinct() -> list(A)
";

const KUBERNETES: &str = "
    string.find(string) -> string
    string.findAll(string) -> list(string)
    string.findAll(string, int) -> list(string)
    list(A).indexOf(A) -> int
    list(A).lastIndexOf(A) -> int
    list(int).sum() -> int
    list(uint).sum() -> uint
    list(double).sum() -> double
    list(duration).sum() -> duration
    url(string) -> url
    isURL(string) -> bool
    url.getScheme() -> string
    url.getHost() -> string
    url.getHostname() -> string
    url.getPort() -> string
    url.getEscapedPath() -> string
    url.getQuery() -> map(string, list(string))
    ip(string) -> ip
    isIP(string) -> bool
    ip.isCanonical(string) -> bool
    string(ip) -> string
    ip.family() -> int
    ip.isUnspecified() -> bool
    ip.isLoopback() -> bool
    ip.isLinkLocalMulticast() -> bool
    ip.isLinkLocalUnicast() -> bool
    ip.isGlobalUnicast() -> bool
    cidr(string) -> cidr
    isCIDR(string) -> bool
    string(cidr) -> string
    cidr.containsIP(string) -> bool
    cidr.containsIP(ip) -> bool
    cidr.containsCIDR(string) -> bool
    cidr.containsCIDR(cidr) -> bool
    cidr.ip() -> ip
    cidr.prefixLength() -> int
    cidr.masked() -> cidr
    quantity(string) -> quantity
    isQuantity(string) -> bool
    sign(quantity) -> int
    quantity.isInteger() -> bool
    quantity.asInteger() -> int
    quantity.asApproximateFloat() -> double
    quantity.add(quantity) -> quantity
    quantity.add(int) -> quantity
    quantity.sub(quantity) -> quantity
    quantity.sub(int) -> quantity
    quantity.isGreaterThan(quantity) -> bool
    quantity.isLessThan(quantity) -> bool
    quantity.compareTo(quantity) -> int
    semver(string) -> semver
    semver(string, bool) -> semver
    isSemver(string) -> bool
    isSemver(string, bool) -> bool
    semver.major() -> int
    semver.minor() -> int
    semver.patch() -> int
    semver.isGreaterThan(semver) -> bool
    semver.isLessThan(semver) -> bool
    semver.compareTo(semver) -> int
    format.named(string) -> optional(format)
    format.validate(string) -> optional(list(string))
";

/// The names a format can be asked for by, each also a function `format.<name>()`.
pub(crate) const FORMATS: [&str; 13] = [
    "dns1123Label",
    "dns1123Subdomain",
    "dns1035Label",
    "qualifiedName",
    "dns1123LabelPrefix",
    "dns1123SubdomainPrefix",
    "dns1035LabelPrefix",
    "labelValue",
    "uri",
    "uuid",
    "byte",
    "date",
    "datetime",
];

/// Functions spelled with a dot that are not called on what stands before it.
const NAMESPACED: [&str; 9] = [
    "optional.of",
    "optional.ofNonZeroValue",
    "optional.none",
    "optional.unwrap",
    "strings.quote",
    "sets.contains",
    "sets.equivalent",
    "sets.intersects",
    "lists.range",
];

/// One overload. `Var(n)` is its n-th type parameter.
#[derive(Debug)]
pub(crate) struct Overload {
    pub member: bool,
    pub args: Vec<TypePattern>,
    pub result: TypePattern,
}

/// A type in a signature; it refers to no schema, so it can be shared between threads.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum TypePattern {
    Simple(&'static str),
    List(Box<TypePattern>),
    Map(Box<TypePattern>, Box<TypePattern>),
    Optional(Box<TypePattern>),
    TypeOf(Box<TypePattern>),
    Parameter(u8),
}

static FUNCTIONS: LazyLock<HashMap<String, Vec<Overload>>> = LazyLock::new(|| {
    let mut functions: HashMap<String, Vec<Overload>> = HashMap::new();
    let mut declare = |line: &str| {
        if let Some((name, overload)) = parse(line) {
            functions.entry(name).or_default().push(overload);
        }
    };
    for table in [STANDARD, OPTIONALS, EXTENSIONS, KUBERNETES] {
        table.lines().map(str::trim).filter(|line| !line.is_empty()).for_each(&mut declare);
    }
    for operator in ["_<_", "_<=_", "_>_", "_>=_"] {
        for kind in ["bool", "string", "bytes", "timestamp", "duration"] {
            declare(&format!("{operator}({kind}, {kind}) -> bool"));
        }
        for left in ["int", "uint", "double"] {
            for right in ["int", "uint", "double"] {
                declare(&format!("{operator}({left}, {right}) -> bool"));
            }
        }
    }
    for kind in ["int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes"] {
        declare(&format!("list({kind}).isSorted() -> bool"));
        declare(&format!("list({kind}).min() -> {kind}"));
        declare(&format!("list({kind}).max() -> {kind}"));
        declare(&format!("list({kind}).sort() -> list({kind})"));
    }
    for name in FORMATS {
        declare(&format!("format.{name}() -> format"));
    }
    functions
});

/// The overloads of a function, by its name (with its namespace, if it has one).
pub(crate) fn lookup(name: &str) -> Option<&'static [Overload]> {
    FUNCTIONS.get(name).map(Vec::as_slice)
}

fn parse(line: &str) -> Option<(String, Overload)> {
    let (call, result) = line.split_once(" -> ")?;
    let result = pattern(result)?;
    // The arguments open at the last bracket that is not inside another.
    let inner = call.strip_suffix(')')?;
    let mut depth = 0;
    let open = inner.char_indices().rev().find_map(|(i, c)| {
        match c {
            ')' => depth += 1,
            '(' if depth == 0 => return Some(i),
            '(' => depth -= 1,
            _ => {}
        }
        None
    })?;
    let (head, args) = (&inner[..open], &inner[open + 1..]);
    let mut patterns = Vec::new();
    let is_named_format = head.starts_with("format.") && head != "format.validate";
    let split = if NAMESPACED.contains(&head) || is_named_format || head == "ip.isCanonical" {
        None
    } else {
        head.rsplit_once('.')
    };
    let name = match split {
        Some((target, name)) => {
            patterns.push(pattern(target)?);
            name
        }
        None => head,
    };
    for arg in split_args(args) {
        patterns.push(pattern(arg)?);
    }
    Some((name.to_owned(), Overload { member: split.is_some(), args: patterns, result }))
}

fn split_args(args: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut depth, mut start) = (0, 0);
    for (i, c) in args.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(args[start..i].trim());
                start = i + 1;
            }
            _ => {}
        }
    }
    if !args[start..].trim().is_empty() {
        parts.push(args[start..].trim());
    }
    parts
}

const SIMPLE: [&str; 16] = [
    "bool",
    "int",
    "uint",
    "double",
    "string",
    "bytes",
    "duration",
    "timestamp",
    "dyn",
    "url",
    "ip",
    "cidr",
    "quantity",
    "semver",
    "format",
    "null",
];

fn pattern(text: &str) -> Option<TypePattern> {
    let nested =
        |prefix: &str| text.strip_prefix(prefix)?.strip_prefix('(')?.strip_suffix(')').map(split_args);
    if let Some(args) = nested("list") {
        return Some(TypePattern::List(Box::new(pattern(args.first()?)?)));
    }
    if let Some(args) = nested("map") {
        return Some(TypePattern::Map(Box::new(pattern(args.first()?)?), Box::new(pattern(args.get(1)?)?)));
    }
    if let Some(args) = nested("optional") {
        return Some(TypePattern::Optional(Box::new(pattern(args.first()?)?)));
    }
    if let Some(args) = nested("type") {
        return Some(TypePattern::TypeOf(Box::new(pattern(args.first()?)?)));
    }
    if let Some(name) = SIMPLE.iter().find(|name| **name == text) {
        return Some(TypePattern::Simple(name));
    }
    match text.as_bytes() {
        [letter @ b'A'..=b'Z'] => Some(TypePattern::Parameter(letter - b'A')),
        _ => None,
    }
}

impl Overload {
    /// The types of the arguments and of the result, with fresh variables for parameters.
    pub fn instantiate<'n>(&self, subst: &mut Substitution<'n>) -> (Vec<Type<'n>>, Type<'n>) {
        let mut parameters: [Option<Type<'n>>; 2] = [None, None];
        let mut fresh = |i: u8| {
            let slot = &mut parameters[usize::from(i.min(1))];
            slot.get_or_insert_with(|| subst.fresh()).clone()
        };
        let args = self.args.iter().map(|arg| instantiate(arg, &mut fresh)).collect();
        let result = instantiate(&self.result, &mut fresh);
        (args, result)
    }
}

fn instantiate<'n>(pattern: &TypePattern, fresh: &mut impl FnMut(u8) -> Type<'n>) -> Type<'n> {
    match pattern {
        TypePattern::Simple(name) => match *name {
            "bool" => Type::Bool,
            "int" => Type::Int,
            "uint" => Type::Uint,
            "double" => Type::Double,
            "string" => Type::String,
            "bytes" => Type::Bytes,
            "duration" => Type::Duration,
            "timestamp" => Type::Timestamp,
            "null" => Type::Null,
            "url" => Type::Opaque(URL),
            "ip" => Type::Opaque(IP),
            "cidr" => Type::Opaque(CIDR),
            "quantity" => Type::Opaque(QUANTITY),
            "semver" => Type::Opaque(SEMVER),
            "format" => Type::Opaque(FORMAT),
            _ => Type::Dyn,
        },
        TypePattern::List(element) => Type::list(instantiate(element, fresh)),
        TypePattern::Map(key, value) => {
            let key = instantiate(key, fresh);
            Type::map(key, instantiate(value, fresh))
        }
        TypePattern::Optional(value) => Type::optional(instantiate(value, fresh)),
        TypePattern::TypeOf(of) => Type::Type(Rc::new(instantiate(of, fresh))),
        TypePattern::Parameter(i) => fresh(*i),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_tables_is_a_signature() {
        for table in [STANDARD, OPTIONALS, EXTENSIONS, KUBERNETES] {
            for line in table.lines().map(str::trim).filter(|line| !line.is_empty()) {
                assert!(parse(line).is_some(), "{line}");
            }
        }
        assert!(lookup("optional.of").is_some_and(|o| !o[0].member));
        assert!(lookup("ip.isCanonical").is_some());
        assert!(lookup("family").is_some_and(|o| o[0].member && o[0].args.len() == 1));
        assert!(lookup("format.dns1123Label").is_some_and(|o| !o[0].member));
        assert!(lookup("validate").is_some_and(|o| o[0].member));
        assert_eq!(lookup("_<_").map(<[_]>::len), Some(14));
    }
}
