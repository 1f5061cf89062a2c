//! Costs of calls, and sizes of their results.

use crate::cel::ast::{Expr, ExprKind, Literal};
use crate::cel::cost::range::Range;
use crate::cel::signatures::{CIDR, FORMAT, IP, QUANTITY, SEMVER, URL};
use crate::cel::types::Type;

const TEXT: f64 = 0.1;
const PATTERN: f64 = 0.25;
/// Patterns of named formats are about this long.
const FORMAT_PATTERN: f64 = 128.0;
/// An address has 4 to 16 bytes.
const ADDRESS: Range = Range { min: 4, max: 16 };

/// An argument or the target of a call.
#[derive(Clone)]
pub(super) struct Operand<'e, 'n> {
    pub expr: &'e Expr,
    pub kind: Type<'n>,
    /// None if nothing is known.
    pub size: Option<Range>,
    /// The size of the elements of a list, if it is one.
    pub element: Option<Range>,
}

impl Operand<'_, '_> {
    pub fn size(&self) -> Range {
        self.size.unwrap_or(Range::UNKNOWN)
    }

    fn is_text(&self) -> bool {
        matches!(self.kind, Type::String | Type::Bytes)
    }

    fn may_be(&self, fits: impl Fn(&Type<'_>) -> bool) -> bool {
        self.kind.is_dyn() || matches!(self.kind, Type::Var(_)) || fits(&self.kind)
    }

    fn literal_int(&self) -> Option<u64> {
        match self.expr.kind {
            ExprKind::Literal(Literal::Int(value)) => u64::try_from(value).ok(),
            _ => None,
        }
    }
}

/// The cost of a call without its operands', and the size of its result if it follows.
pub(super) struct Call {
    pub cost: Range,
    pub size: Option<Range>,
}

fn cost(cost: Range) -> Call {
    Call { cost, size: None }
}

fn sized(cost: Range, size: Range) -> Call {
    Call { cost, size: Some(size) }
}

pub(super) fn estimate<'e, 'n>(
    function: &str,
    target: Option<&Operand<'e, 'n>>,
    args: &[Operand<'e, 'n>],
) -> Call {
    match (target, args) {
        (None, [a, b]) => operator(function, a, b),
        (None, [a]) => unary(function, a),
        (Some(target), args) => member(function, target, args),
        _ => None,
    }
    .unwrap_or_else(|| cost(Range::ONE))
}

fn operator(function: &str, a: &Operand<'_, '_>, b: &Operand<'_, '_>) -> Option<Call> {
    let list = |t: &Type<'_>| matches!(t, Type::List(_));
    let text = |t: &Type<'_>| matches!(t, Type::String | Type::Bytes);
    Some(match function {
        "_==_" | "_!=_" => equality(function, a, b),
        "_<_" | "_<=_" | "_>_" | "_>=_" if a.may_be(text) && b.may_be(text) => {
            // If it may also be a number, that costs one.
            let compared = comparison(a, b);
            cost(if a.is_text() && b.is_text() { compared } else { compared.union(Range::ONE) })
        }
        "@in" if b.may_be(list) => {
            let scanned = b.size();
            cost(if list(&b.kind) { scanned } else { scanned.union(Range::ONE) })
        }
        "_+_" if a.may_be(text) && b.may_be(text) => {
            let size = a.size().plus(b.size());
            let joined = size.scaled(TEXT);
            sized(if a.is_text() && b.is_text() { joined } else { joined.union(Range::ONE) }, size)
        }
        "_+_" if a.may_be(list) && b.may_be(list) => sized(Range::ONE, a.size().plus(b.size())),
        "sets.contains" | "sets.intersects" => cost(a.size().times(b.size()).plus(Range::ONE)),
        "sets.equivalent" => cost(a.size().times(b.size()).scaled(2.0).plus(Range::ONE)),
        "semver" | "isSemver" => cost(a.size().scaled(TEXT)),
        _ => return None,
    })
}

fn comparison(a: &Operand<'_, '_>, b: &Operand<'_, '_>) -> Range {
    let max = a.size().max.min(b.size().max);
    Range { min: u64::from(max > 0), max }.scaled(TEXT)
}

fn equality(function: &str, a: &Operand<'_, '_>, b: &Operand<'_, '_>) -> Call {
    if let (Type::Opaque(left), Type::Opaque(right)) = (&a.kind, &b.kind)
        && left == right
        && function == "_==_"
    {
        return match *left {
            IP | CIDR | QUANTITY | SEMVER => cost(Range::ONE),
            FORMAT => cost(Range { min: 1, max: 64 }.scaled(TEXT)),
            URL => {
                let max = b.size.map_or(1, |size| size.max);
                cost(Range { min: 1, max }.scaled(TEXT))
            }
            _ => cost(comparison(a, b)),
        };
    }
    cost(comparison(a, b))
}

fn unary(function: &str, a: &Operand<'_, '_>) -> Option<Call> {
    let text = a.size().scaled(TEXT);
    Some(match function {
        "url" => sized(text, a.size()),
        "bytes" if matches!(a.kind, Type::String) => {
            sized(text, Range { min: a.size().min, max: a.size().max.saturating_mul(4) })
        }
        "string" if matches!(a.kind, Type::Bytes) => {
            sized(text, Range { min: a.size().min / 4, max: a.size().max })
        }
        "strings.quote" => {
            let size = a.size();
            let quoted =
                Range { min: size.min.saturating_add(2), max: size.max.saturating_mul(2).saturating_add(2) };
            sized(text, quoted)
        }
        "cidr" | "isIP" | "isCIDR" | "ip" | "quantity" | "isQuantity" | "semver" | "isSemver" => cost(text),
        "ip.isCanonical" => cost(a.size().scaled(2.0 * TEXT)),
        "lists.range" => allocating(1.0, Range::fixed(a.literal_int().unwrap_or(u64::MAX))),
        _ => return None,
    })
}

/// A call that makes a list.
fn allocating(factor: f64, size: Range) -> Call {
    sized(size.scaled(factor).plus(Range::fixed(11)), size)
}

fn member(function: &str, target: &Operand<'_, '_>, args: &[Operand<'_, '_>]) -> Option<Call> {
    match target.kind {
        Type::List(_) => list_member(function, target, args),
        Type::Opaque(_) => address_member(function, args),
        _ => text_member(function, target, args),
    }
}

fn address_member(function: &str, args: &[Operand<'_, '_>]) -> Option<Call> {
    let compared = ADDRESS.plus(ADDRESS).scaled(TEXT);
    let [arg] = args else { return None };
    let parsed = if matches!(arg.kind, Type::String) { arg.size().scaled(TEXT) } else { Range::ZERO };
    match function {
        "containsIP" => Some(cost(compared.plus(parsed))),
        "containsCIDR" => Some(cost(compared.plus(ADDRESS.scaled(TEXT)).plus(Range::ONE).plus(parsed))),
        "validate" => Some(cost(arg.size().scaled(TEXT).scaled(FORMAT_PATTERN * PATTERN))),
        _ => None,
    }
}

fn list_member(function: &str, target: &Operand<'_, '_>, args: &[Operand<'_, '_>]) -> Option<Call> {
    let size = target.size();
    let Type::List(element_type) = &target.kind else { return None };
    let element_is_text = matches!(**element_type, Type::String | Type::Bytes);
    let element = target.element.unwrap_or(Range::UNKNOWN);
    Some(match function {
        "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" => {
            let each = if element_is_text { Range::ONE.plus(element.scaled(TEXT)) } else { Range::ONE };
            cost(size.times(each))
        }
        "join" => {
            let mut joined = size.times(element);
            if let Some(separator) = args.first() {
                let gaps = Range { min: size.min.saturating_sub(1), max: size.max.saturating_sub(1) };
                joined = joined.plus(separator.size().times(gaps));
            }
            sized(joined.scaled(TEXT), joined)
        }
        "slice" => {
            let start = args.first().and_then(Operand::literal_int).unwrap_or(0);
            let end = args.get(1).and_then(Operand::literal_int).unwrap_or(size.max);
            allocating(1.0, Range::fixed(end.saturating_sub(start)))
        }
        "reverse" => allocating(1.0, size),
        #[expect(clippy::cast_precision_loss, reason = "an estimate")]
        "flatten" => match args.first() {
            Some(depth) => allocating(depth.literal_int().unwrap_or(u64::MAX) as f64, size),
            None => allocating(1.0, size),
        },
        "distinct" => allocating(2.0, size.times(size)),
        "sort" => sort(size, element_is_text),
        _ => return None,
    })
}

/// Sorting by keys as many as `size`.
pub(super) fn sort(size: Range, by_text: bool) -> Call {
    allocating(if by_text { 2.0 + TEXT } else { 2.0 }, size.times(size))
}

fn text_member(function: &str, target: &Operand<'_, '_>, args: &[Operand<'_, '_>]) -> Option<Call> {
    let size = target.size();
    let text = size.scaled(TEXT);
    Some(match (function, args) {
        ("startsWith" | "endsWith", [part]) => cost(part.size().scaled(TEXT)),
        ("contains", [part]) => cost(text.times(part.size().scaled(TEXT))),
        ("matches" | "find" | "findAll", [pattern, ..]) => {
            let scanned = size.plus(Range::ONE).scaled(TEXT).times(pattern.size().scaled(PATTERN));
            if function == "matches" { cost(scanned) } else { sized(scanned, Range::up_to(size.max)) }
        }
        ("format" | "indexOf" | "lastIndexOf", _) => cost(text),
        ("lowerAscii" | "upperAscii" | "substring" | "trim", _) => sized(text, size),
        ("replace", [old, new, ..]) => sized(size.scaled(2.0 * TEXT), replaced(size, old.size(), new.size())),
        ("split", args) => {
            let max = args.get(1).and_then(Operand::literal_int).unwrap_or(size.max);
            sized(size.scaled(2.0 * TEXT), Range::up_to(max))
        }
        // A dynamic list.
        ("isSorted" | "sum" | "max" | "min", _) => cost(size),
        _ => return None,
    })
}

/// The size of a text after `old` was replaced by `new` throughout.
fn replaced(size: Range, old: Range, new: Range) -> Range {
    let (count_max, kept_max) = if old.min == 0 {
        (size.max.saturating_add(1), size.max)
    } else if new.max <= old.min {
        (0, size.max)
    } else {
        (size.max.div_ceil(old.min), 0)
    };
    let (count_min, kept_min) = if old.max == 0 {
        (size.min.saturating_add(1), size.min)
    } else if old.max <= new.min {
        (0, size.min)
    } else {
        (size.min.div_ceil(old.max), 0)
    };
    let count = Range { min: count_min, max: count_max };
    count.times(new).plus(Range { min: kept_min, max: kept_max })
}
