//! Operators: equality, order and arithmetic.

use std::cmp::Ordering;
use std::collections::HashMap;

use serde_json::Value;

use crate::cel::budget::Cost;
use crate::cel::escape;
use crate::cel::keys::Key;
use crate::cel::library::size_of;
use crate::cel::value::{EvalError, Evaluated, JsonMap, List, MapVal, Val};
use crate::go::{text, time};
use crate::node::ListType;

/// The cost of an operator on these operands; none if it is not one.
pub(crate) fn cost(function: &str, args: &[Val<'_>]) -> Option<u64> {
    let text = |length: usize| u64::try_from(length.div_ceil(10)).unwrap_or(u64::MAX);
    Some(match (function, args) {
        ("_==_" | "_!=_" | "_<_" | "_<=_" | "_>_" | "_>=_", [a, b]) => text(size_of(a).min(size_of(b))),
        ("_+_", [a @ (Val::String(_) | Val::Bytes(_)), b]) => text(size_of(a).saturating_add(size_of(b))),
        ("_+_", [Val::List(a), Val::List(b)]) => u64::try_from(a.len() + b.len()).unwrap_or(u64::MAX).max(1),
        ("@in", [_, Val::List(list)]) => u64::try_from(list.len()).unwrap_or(u64::MAX),
        ("!_" | "-_", [_]) | ("_+_" | "_-_" | "_*_" | "_/_" | "_%_" | "@in" | "_[_]" | "_[?_]", [_, _]) => 1,
        _ => return None,
    })
}

/// Applies an operator. What it costs beyond [`cost`] is counted on the way.
pub(crate) fn operate<'a>(function: &str, args: &[Val<'a>], cost: &Cost) -> Evaluated<'a> {
    match (function, args) {
        ("!_", [Val::Bool(value)]) => Ok(Val::Bool(!value)),
        ("-_", [Val::Int(value)]) => {
            value.checked_neg().map(Val::Int).ok_or_else(|| EvalError::other("integer overflow"))
        }
        ("-_", [Val::Double(value)]) => Ok(Val::Double(-value)),
        ("_==_", [a, b]) => equal(a, b, cost).map(Val::Bool),
        ("_!=_", [a, b]) => equal(a, b, cost).map(|equal| Val::Bool(!equal)),
        ("_<_", [a, b]) => compare(a, b).map(|order| Val::Bool(order.is_lt())),
        ("_<=_", [a, b]) => compare(a, b).map(|order| Val::Bool(order.is_le())),
        ("_>_", [a, b]) => compare(a, b).map(|order| Val::Bool(order.is_gt())),
        ("_>=_", [a, b]) => compare(a, b).map(|order| Val::Bool(order.is_ge())),
        ("@in", [element, container]) => is_in(element, container, cost).map(Val::Bool),
        ("_[_]" | "_[?_]", [Val::Optional(value), key]) => optional_index(value.as_deref(), key, cost),
        ("_[_]", [container, key]) => index(container, key, cost)?.ok_or_else(|| missing(container, key)),
        ("_[?_]", [container, key]) => optional_index(Some(container), key, cost),
        (_, [a, b]) => arithmetic(function, a, b, cost),
        _ => Err(EvalError::bare_overload()),
    }
}

fn optional_index<'a>(container: Option<&Val<'a>>, key: &Val<'a>, cost: &Cost) -> Evaluated<'a> {
    let Some(container) = container else { return Ok(Val::Optional(None)) };
    Ok(match index(container, key, cost)? {
        Some(value) => Val::some(value),
        None => Val::Optional(None),
    })
}

/// `==`. Values of different types differ; numbers compare by value. What the values themselves cost is spent before, see
/// [`equal_part`].
pub(crate) fn equal<'a>(a: &Val<'a>, b: &Val<'a>, cost: &Cost) -> Result<bool, EvalError> {
    Ok(match (a, b) {
        (Val::Null, Val::Null) => true,
        (Val::Null, _) | (_, Val::Null) => false,
        (Val::Preserved(a), b) => return is_same_json(a, b, cost),
        (a, Val::Preserved(b)) if !matches!(a, Val::List(_) | Val::Map(_)) => {
            return is_same_json(b, a, cost);
        }
        (Val::Bool(a), Val::Bool(b)) => a == b,
        (Val::Int(_) | Val::Uint(_) | Val::Double(_), Val::Int(_) | Val::Uint(_) | Val::Double(_)) => {
            compare_numbers(a, b) == Some(Ordering::Equal)
        }
        (Val::String(a), Val::String(b)) => **a == **b,
        (Val::Bytes(a), Val::Bytes(b)) => a == b,
        (Val::Duration(a), Val::Duration(b)) => a == b,
        (Val::Timestamp(a), Val::Timestamp(b)) => a == b,
        (Val::List(a), Val::List(b)) => return equal_lists(a, b, cost),
        (Val::Map(a), Val::Map(b)) => return equal_maps(a, b, cost),
        (Val::List(list), _) if list.is_json() => return Err(EvalError::bare_overload()),
        (Val::Map(MapVal::Json(_)), _) => return Err(EvalError::bare_overload()),
        (Val::Optional(a), Val::Optional(b)) => match (a, b) {
            (None, None) => true,
            (Some(a), Some(b)) => return equal_part(a, b, cost),
            _ => false,
        },
        (Val::Type(a), Val::Type(b)) | (Val::Format(a), Val::Format(b)) => a == b,
        (Val::Url(a), Val::Url(b)) => a.text() == b.text(),
        (Val::Ip(a), Val::Ip(b)) => a == b,
        (Val::Cidr(a), Val::Cidr(b)) => a == b,
        (Val::Quantity(a), Val::Quantity(b)) => a == b,
        (Val::Semver(a), Val::Semver(b)) => a.compare(b) == Ordering::Equal,
        _ => false,
    })
}

/// `==` of parts of values. Each costs whenever it is visited, however small it is: a value that shares its parts has
/// many more of them than bytes.
pub(crate) fn equal_part<'a>(a: &Val<'a>, b: &Val<'a>, cost: &Cost) -> Result<bool, EvalError> {
    cost.spend(part(a, b).max(1))?;
    equal(a, b, cost)
}

/// Same, where the visit was counted with all others before.
pub(crate) fn equal_counted<'a>(a: &Val<'a>, b: &Val<'a>, cost: &Cost) -> Result<bool, EvalError> {
    cost.spend(part(a, b))?;
    equal(a, b, cost)
}

/// Order of parts of values.
pub(crate) fn compare_part(a: &Val<'_>, b: &Val<'_>, cost: &Cost) -> Result<Ordering, EvalError> {
    cost.spend(part(a, b).max(1))?;
    compare(a, b)
}

fn part(a: &Val<'_>, b: &Val<'_>) -> u64 {
    u64::try_from(size_of(a).min(size_of(b)) / 10).unwrap_or(u64::MAX)
}

/// A value without a type in its schema, compared as the JSON it is.
fn is_same_json(json: &Value, other: &Val<'_>, cost: &Cost) -> Result<bool, EvalError> {
    match (json, other) {
        (json, Val::Preserved(other)) => same_json(json, other, cost),
        (Value::Bool(a), Val::Bool(b)) => Ok(a == b),
        (Value::Number(a), Val::Int(b)) => Ok(a.as_i64() == Some(*b)),
        (Value::Number(a), Val::Double(b)) => Ok(a.is_f64() && a.as_f64() == Some(*b)),
        (Value::String(a), Val::String(b)) => same_text(a, b, cost),
        (Value::Object(a), Val::Map(MapVal::Json(b))) => same_members(a, b.members, cost),
        _ => Ok(false),
    }
}

fn same_json(a: &Value, b: &Value, cost: &Cost) -> Result<bool, EvalError> {
    cost.spend(1)?;
    match (a, b) {
        (Value::String(a), Value::String(b)) => same_text(a, b, cost),
        (Value::Array(a), Value::Array(b)) => {
            if a.len() != b.len() {
                return Ok(false);
            }
            for (a, b) in a.iter().zip(b) {
                if !same_json(a, b, cost)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        (Value::Object(a), Value::Object(b)) => same_members(a, b, cost),
        (a, b) => Ok(a == b),
    }
}

fn same_text(a: &str, b: &str, cost: &Cost) -> Result<bool, EvalError> {
    cost.spend_on_bytes(a.len().min(b.len()))?;
    Ok(a == b)
}

fn same_members(
    a: &serde_json::Map<String, Value>,
    b: &serde_json::Map<String, Value>,
    cost: &Cost,
) -> Result<bool, EvalError> {
    if a.len() != b.len() {
        return Ok(false);
    }
    for (name, value) in a {
        cost.spend_on_bytes(name.len())?;
        match b.get(name) {
            Some(other) if same_json(value, other, cost)? => {}
            _ => return Ok(false),
        }
    }
    Ok(true)
}

fn equal_lists<'a>(a: &List<'a>, b: &List<'a>, cost: &Cost) -> Result<bool, EvalError> {
    if a.len() != b.len() {
        return Ok(false);
    }
    match a.identity {
        Some(ListType::Set) => {
            let ours = Known::of(a, None, cost)?;
            for element in b.iter(cost) {
                if ours.position(&element?, cost)?.is_none() {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        Some(ListType::Map(keys)) => {
            let ours = Known::of(a, Some(keys), cost)?;
            for element in b.iter(cost) {
                let element = element?;
                match ours.position(&element, cost)? {
                    Some(i) if equal_part(&ours.elements[i], &element, cost)? => {}
                    _ => return Ok(false),
                }
            }
            Ok(true)
        }
        _ => {
            for (a, b) in a.iter(cost).zip(b.iter(cost)) {
                if !equal_part(&a?, &b?, cost)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
    }
}

/// Elements of a set, or of a list with keys, to be looked up in. As in an API server's, the last of a key counts.
struct Known<'a> {
    keys: Option<&'a [String]>,
    elements: Vec<Val<'a>>,
    positions: HashMap<Key<'a>, usize>,
}

impl<'a> Known<'a> {
    fn of(list: &List<'a>, keys: Option<&'a [String]>, cost: &Cost) -> Result<Self, EvalError> {
        let mut known = Self { keys, elements: Vec::new(), positions: HashMap::new() };
        for element in list.iter(cost) {
            known.push(element?, cost)?;
        }
        Ok(known)
    }

    fn push(&mut self, element: Val<'a>, cost: &Cost) -> Result<(), EvalError> {
        cost.spend(1)?;
        if let Some(key) = self.key(&element, cost)? {
            self.positions.insert(key, self.elements.len());
        }
        self.elements.push(element);
        Ok(())
    }

    /// The key to look up; none for elements that are no scalars.
    fn key(&self, element: &Val<'a>, cost: &Cost) -> Result<Option<Key<'a>>, EvalError> {
        // It is hashed.
        let key_of = |value: &Val<'a>| -> Result<_, EvalError> {
            cost.spend_on_bytes(size_of(value))?;
            Ok(Key::of(value))
        };
        let Some(names) = self.keys else { return key_of(element) };
        let Val::Map(map) = element else {
            return Err(EvalError::other(
                "unexpected data format for element of array with x-kubernetes-list-type=map",
            ));
        };
        let key = |name: &String| match map.find_text(&escape::escape(name).unwrap_or(name.into()), cost)? {
            Some(value) => key_of(&value),
            None => Ok(None),
        };
        names.iter().map(key).collect::<Result<_, _>>().map(Key::Several).map(Some)
    }

    fn position(&self, element: &Val<'a>, cost: &Cost) -> Result<Option<usize>, EvalError> {
        if let Some(key) = self.key(element, cost)? {
            return Ok(self.positions.get(&key).copied());
        }
        for (position, candidate) in self.elements.iter().enumerate() {
            if equal_part(candidate, element, cost)? {
                return Ok(Some(position));
            }
        }
        Ok(None)
    }
}

fn equal_maps<'a>(a: &MapVal<'a>, b: &MapVal<'a>, cost: &Cost) -> Result<bool, EvalError> {
    if a.len() != b.len() {
        return Ok(false);
    }
    for key in a.keys(cost)? {
        match (a.find(&key, cost)?, b.find(&key, cost)?) {
            (None, None) => {}
            (Some(a), Some(b)) if equal_part(&a, &b, cost)? => {}
            _ => return Ok(false),
        }
    }
    match (a, b) {
        (MapVal::Json(a), MapVal::Json(b)) => same_unknown_members(a, b, cost),
        _ => Ok(true),
    }
}

/// Members that the schema does not state are compared as JSON.
fn same_unknown_members(a: &JsonMap<'_>, b: &JsonMap<'_>, cost: &Cost) -> Result<bool, EvalError> {
    if a.object.node.additional_schema().is_some() {
        return Ok(true);
    }
    for (name, value) in a.members.iter().filter(|(name, _)| a.object.property(name).is_none()) {
        cost.spend_on_bytes(name.len())?;
        match b.members.get(name) {
            Some(other) if !same_json(value, other, cost)? => return Ok(false),
            _ => {}
        }
    }
    Ok(true)
}

/// Order of numbers of any two types; none if one is not a number at all.
#[expect(clippy::cast_precision_loss, reason = "as cel-go compares")]
fn compare_numbers(a: &Val<'_>, b: &Val<'_>) -> Option<Ordering> {
    match (a, b) {
        (Val::Int(a), Val::Int(b)) => Some(a.cmp(b)),
        (Val::Uint(a), Val::Uint(b)) => Some(a.cmp(b)),
        (Val::Int(a), Val::Uint(b)) => Some(i128::from(*a).cmp(&i128::from(*b))),
        (Val::Uint(a), Val::Int(b)) => Some(i128::from(*a).cmp(&i128::from(*b))),
        (Val::Double(a), Val::Double(b)) => a.partial_cmp(b),
        (Val::Int(a), Val::Double(b)) => (*a as f64).partial_cmp(b),
        (Val::Double(a), Val::Int(b)) => a.partial_cmp(&(*b as f64)),
        (Val::Uint(a), Val::Double(b)) => (*a as f64).partial_cmp(b),
        (Val::Double(a), Val::Uint(b)) => a.partial_cmp(&(*b as f64)),
        _ => None,
    }
}

/// Order of values that have one. A NaN has none with anything.
pub(crate) fn compare(a: &Val<'_>, b: &Val<'_>) -> Result<Ordering, EvalError> {
    let ordering = match (a, b) {
        (Val::Bool(a), Val::Bool(b)) => Some(a.cmp(b)),
        (Val::String(a), Val::String(b)) => Some((**a).cmp(&**b)),
        (Val::Bytes(a), Val::Bytes(b)) => Some(a.cmp(b)),
        (Val::Duration(a), Val::Duration(b)) => Some(a.cmp(b)),
        (Val::Timestamp(a), Val::Timestamp(b)) => Some(a.cmp(b)),
        (Val::Double(a), _) if a.is_nan() => return Err(EvalError::other("NaN values cannot be ordered")),
        (_, Val::Double(b)) if b.is_nan() => return Err(EvalError::other("NaN values cannot be ordered")),
        (a, b) => compare_numbers(a, b),
    };
    ordering.ok_or_else(EvalError::bare_overload)
}

/// `x in y`.
fn is_in<'a>(element: &Val<'a>, container: &Val<'a>, cost: &Cost) -> Result<bool, EvalError> {
    match container {
        Val::List(list) => {
            for candidate in list.iter(cost) {
                if equal_counted(&candidate?, element, cost)? {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        Val::Map(map) => Ok(map.find(element, cost)?.is_some()),
        _ => Err(EvalError::overload("@in")),
    }
}

/// `x[y]`, none if there is no such element.
fn index<'a>(container: &Val<'a>, key: &Val<'a>, cost: &Cost) -> Result<Option<Val<'a>>, EvalError> {
    match container {
        Val::List(list) => {
            let position = match key {
                Val::Int(i) => usize::try_from(*i).ok(),
                Val::Uint(u) => usize::try_from(*u).ok(),
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "whole and not negative"
                )]
                Val::Double(d) if d.fract() == 0.0 && *d >= 0.0 => Some(*d as usize),
                other => {
                    return Err(EvalError::other(format!(
                        "unsupported index type '{}' in list",
                        other.type_name()
                    )));
                }
            };
            position.and_then(|position| list.get(position, cost)).transpose()
        }
        Val::Map(map) => map.find(key, cost),
        _ => Err(EvalError::overload("_[_]")),
    }
}

fn missing(container: &Val<'_>, key: &Val<'_>) -> EvalError {
    let shown = display(key);
    match container {
        Val::List(_) => EvalError::Other(format!("index out of bounds: {shown}")),
        _ => EvalError::NoSuchKey(shown),
    }
}

/// A key as messages show it.
pub(crate) fn display(value: &Val<'_>) -> String {
    match value {
        Val::String(text) => text.to_string(),
        Val::Int(i) => i.to_string(),
        Val::Uint(u) => u.to_string(),
        Val::Double(d) => text::float(*d),
        Val::Bool(b) => b.to_string(),
        Val::Null => "null".to_owned(),
        other => other.type_name().to_owned(),
    }
}

/// `+`, `-`, `*`, `/` and `%`.
pub(crate) fn arithmetic<'a>(function: &str, a: &Val<'a>, b: &Val<'a>, cost: &Cost) -> Evaluated<'a> {
    match (a, b) {
        (Val::Int(a), Val::Int(b)) => int(function, *a, *b).map(Val::Int),
        (Val::Uint(a), Val::Uint(b)) => uint(function, *a, *b).map(Val::Uint),
        (Val::Double(a), Val::Double(b)) => match function {
            "_+_" => Ok(Val::Double(a + b)),
            "_-_" => Ok(Val::Double(a - b)),
            "_*_" => Ok(Val::Double(a * b)),
            "_/_" => Ok(Val::Double(a / b)),
            _ => Err(EvalError::bare_overload()),
        },
        _ if function == "_+_" => add(a, b, cost),
        _ if function == "_-_" => subtract(a, b),
        _ => Err(EvalError::bare_overload()),
    }
}

fn int(function: &str, a: i64, b: i64) -> Result<i64, EvalError> {
    let overflow = || EvalError::other("integer overflow");
    match function {
        "_+_" => a.checked_add(b).ok_or_else(overflow),
        "_-_" => a.checked_sub(b).ok_or_else(overflow),
        "_*_" => a.checked_mul(b).ok_or_else(overflow),
        "_/_" if b == 0 => Err(EvalError::other("division by zero")),
        "_/_" => a.checked_div(b).ok_or_else(overflow),
        "_%_" if b == 0 => Err(EvalError::other("modulus by zero")),
        "_%_" => a.checked_rem(b).ok_or_else(overflow),
        _ => Err(EvalError::bare_overload()),
    }
}

fn uint(function: &str, a: u64, b: u64) -> Result<u64, EvalError> {
    let overflow = || EvalError::other("unsigned integer overflow");
    match function {
        "_+_" => a.checked_add(b).ok_or_else(overflow),
        "_-_" => a.checked_sub(b).ok_or_else(overflow),
        "_*_" => a.checked_mul(b).ok_or_else(overflow),
        "_/_" => a.checked_div(b).ok_or_else(|| EvalError::other("division by zero")),
        "_%_" => a.checked_rem(b).ok_or_else(|| EvalError::other("modulus by zero")),
        _ => Err(EvalError::bare_overload()),
    }
}

fn add<'a>(a: &Val<'a>, b: &Val<'a>, cost: &Cost) -> Evaluated<'a> {
    let overflow = |what: &str| EvalError::other(format!("{what} overflow"));
    match (a, b) {
        (Val::String(a), Val::String(b)) => Ok(Val::text([&**a, &**b].concat())),
        (Val::Bytes(a), Val::Bytes(b)) => Ok(Val::Bytes([&**a, &**b].concat().into())),
        (Val::List(a), Val::List(b)) => concat(a, b, cost).map(Val::List),
        (Val::Duration(a), Val::Duration(b)) => {
            a.checked_add(*b).map(Val::Duration).ok_or_else(|| overflow("duration"))
        }
        (Val::Timestamp(t), Val::Duration(d)) | (Val::Duration(d), Val::Timestamp(t)) => {
            time::add(*t, *d).map(Val::Timestamp).ok_or_else(|| overflow("timestamp"))
        }
        _ => Err(EvalError::bare_overload()),
    }
}

fn subtract<'a>(a: &Val<'a>, b: &Val<'a>) -> Evaluated<'a> {
    let overflow = |what: &str| EvalError::other(format!("{what} overflow"));
    match (a, b) {
        (Val::Duration(a), Val::Duration(b)) => {
            a.checked_sub(*b).map(Val::Duration).ok_or_else(|| overflow("duration"))
        }
        (Val::Timestamp(t), Val::Duration(d)) => d
            .checked_neg()
            .and_then(|d| time::add(*t, d))
            .map(Val::Timestamp)
            .ok_or_else(|| overflow("timestamp")),
        (Val::Timestamp(a), Val::Timestamp(b)) => {
            time::since(*a, *b).map(Val::Duration).ok_or_else(|| overflow("duration"))
        }
        _ => Err(EvalError::bare_overload()),
    }
}

/// `+` of lists: a set takes what is new, a map replaces what has the same keys.
fn concat<'a>(a: &List<'a>, b: &List<'a>, cost: &Cost) -> Result<List<'a>, EvalError> {
    let keys = match a.identity {
        Some(ListType::Set) => None,
        Some(ListType::Map(keys)) => Some(keys.as_slice()),
        _ => {
            let elements: Result<Vec<_>, _> = a.iter(cost).chain(b.iter(cost)).collect();
            return Ok(List::made(elements?, a.identity));
        }
    };
    let mut known = Known::of(a, keys, cost)?;
    for element in b.iter(cost) {
        let element = element?;
        match known.position(&element, cost)? {
            Some(i) if keys.is_some() => known.elements[i] = element,
            Some(_) => {}
            None => known.push(element, cost)?,
        }
    }
    Ok(List::made(known.elements, a.identity))
}
