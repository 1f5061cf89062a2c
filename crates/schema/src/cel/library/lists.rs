//! Functions of lists.

use std::cmp::Ordering;

use crate::cel::budget::Cost;
use crate::cel::library::size_of;
use crate::cel::ops;
use crate::cel::value::{EvalError, Evaluated, List, Val};

pub(super) fn member<'a>(name: &str, list: &List<'a>, args: &[Val<'a>], cost: &Cost) -> Evaluated<'a> {
    match (name, args) {
        ("isSorted", []) => {
            let mut before: Option<Val<'a>> = None;
            for element in list.iter(cost) {
                let element = element?;
                if let Some(before) = &before
                    && ops::compare_part(before, &element, cost)?.is_gt()
                {
                    return Ok(Val::Bool(false));
                }
                before = Some(element);
            }
            Ok(Val::Bool(true))
        }
        ("sum", []) => sum(list, cost),
        ("min", []) => extreme(name, list, Ordering::Greater, cost),
        ("max", []) => extreme(name, list, Ordering::Less, cost),
        ("indexOf", [element]) => position(list, element, false, cost),
        ("lastIndexOf", [element]) => position(list, element, true, cost),
        ("join", []) => join(list, "", cost),
        ("join", [Val::String(separator)]) => join(list, separator, cost),
        ("slice", [Val::Int(start), Val::Int(end)]) => slice(list, *start, *end, cost),
        ("flatten", []) => flatten(list, 1, cost).map(Val::list),
        ("flatten", [Val::Int(depth)]) if *depth < 0 => Err(EvalError::other("level must be non-negative")),
        ("flatten", [Val::Int(depth)]) => flatten(list, *depth, cost).map(Val::list),
        ("sort", []) => {
            let elements = list.to_vec(cost)?;
            sort_by(elements.clone(), &elements, cost).map(Val::list)
        }
        ("reverse", []) => {
            let mut elements = list.to_vec(cost)?;
            elements.reverse();
            Ok(Val::list(elements))
        }
        ("distinct", []) => {
            let mut kept: Vec<Val<'a>> = Vec::new();
            for element in list.iter(cost) {
                let element = element?;
                if !has(&kept, &element, cost)? {
                    kept.push(element);
                }
            }
            Ok(Val::list(kept))
        }
        ("first", []) => optional(list.get(0, cost)),
        ("last", []) => optional(list.len().checked_sub(1).and_then(|last| list.get(last, cost))),
        ("unwrapOpt", []) => unwrap(list, cost),
        _ => Err(EvalError::overload(name)),
    }
}

fn optional(element: Option<Evaluated<'_>>) -> Evaluated<'_> {
    Ok(match element.transpose()? {
        Some(element) => Val::some(element),
        None => Val::Optional(None),
    })
}

/// Looks for an element. Its caller counts all visits at once.
fn has<'a>(elements: &[Val<'a>], element: &Val<'a>, cost: &Cost) -> Result<bool, EvalError> {
    for candidate in elements {
        if ops::equal_counted(candidate, element, cost)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn sum<'a>(list: &List<'a>, cost: &Cost) -> Evaluated<'a> {
    let mut total: Option<Val<'a>> = None;
    for element in list.iter(cost) {
        let element = element?;
        total = Some(match total {
            None => element,
            Some(total) => {
                cost.spend_on_text(size_of(&total).saturating_add(size_of(&element)))?;
                ops::arithmetic("_+_", &total, &element, cost)?
            }
        });
    }
    Ok(total.unwrap_or_else(|| list.zero()))
}

fn extreme<'a>(name: &str, list: &List<'a>, worse: Ordering, cost: &Cost) -> Evaluated<'a> {
    let mut found: Option<Val<'a>> = None;
    for element in list.iter(cost) {
        let element = element?;
        found = Some(match found {
            Some(best) if ops::compare_part(&best, &element, cost)? != worse => best,
            _ => element,
        });
    }
    found.ok_or_else(|| EvalError::other(format!("{name} called on empty list")))
}

fn position<'a>(list: &List<'a>, element: &Val<'a>, from_end: bool, cost: &Cost) -> Evaluated<'a> {
    let mut found = -1;
    for (index, candidate) in list.iter(cost).enumerate() {
        if ops::equal_counted(&candidate?, element, cost)? {
            found = i64::try_from(index).unwrap_or(i64::MAX);
            if !from_end {
                break;
            }
        }
    }
    Ok(Val::Int(found))
}

fn join<'a>(list: &List<'a>, separator: &str, cost: &Cost) -> Evaluated<'a> {
    let mut out = String::new();
    for (i, element) in list.iter(cost).enumerate() {
        match element? {
            Val::String(text) => {
                cost.spend_on_text(separator.len().saturating_add(text.len()))?;
                if i > 0 {
                    out.push_str(separator);
                }
                out.push_str(&text);
            }
            other => {
                return Err(EvalError::other(format!("join: invalid input: {}", ops::display(&other))));
            }
        }
    }
    Ok(Val::text(out))
}

fn slice<'a>(list: &List<'a>, start: i64, end: i64, cost: &Cost) -> Evaluated<'a> {
    let length = i64::try_from(list.len()).unwrap_or(i64::MAX);
    let problem = if start < 0 || end < 0 {
        Some("negative indexes not supported".to_owned())
    } else if start > end {
        Some("start index must be less than or equal to end index".to_owned())
    } else if length < end {
        Some(format!("list is length {length}"))
    } else {
        None
    };
    if let Some(problem) = problem {
        return Err(EvalError::other(format!("cannot slice({start}, {end}), {problem}")));
    }
    let (start, end) = (usize::try_from(start).unwrap_or(0), usize::try_from(end).unwrap_or(0));
    let elements: Result<Vec<_>, _> = (start..end).filter_map(|index| list.get(index, cost)).collect();
    elements.map(Val::list)
}

fn flatten<'a>(list: &List<'a>, depth: i64, cost: &Cost) -> Result<Vec<Val<'a>>, EvalError> {
    let mut flat = Vec::new();
    for element in list.iter(cost) {
        match element? {
            Val::List(inner) if depth > 0 => {
                cost.spend_on_elements(inner.len())?;
                flat.extend(flatten(&inner, depth - 1, cost)?);
            }
            other => flat.push(other),
        }
    }
    Ok(flat)
}

/// The values of the optionals that have one.
pub(super) fn unwrap<'a>(list: &List<'a>, cost: &Cost) -> Evaluated<'a> {
    let mut values = Vec::new();
    for element in list.iter(cost) {
        match element? {
            Val::Optional(value) => values.extend(value.map(|value| (*value).clone())),
            _ => return Err(EvalError::other("value is not an optional")),
        }
    }
    Ok(Val::list(values))
}

pub(super) fn sets<'a>(name: &str, a: &List<'a>, b: &List<'a>, cost: &Cost) -> Evaluated<'a> {
    let (a, b) = (a.to_vec(cost)?, b.to_vec(cost)?);
    let contains = |outer: &[Val<'a>], inner: &[Val<'a>]| -> Result<bool, EvalError> {
        for element in inner {
            if !has(outer, element, cost)? {
                return Ok(false);
            }
        }
        Ok(true)
    };
    Ok(Val::Bool(match name {
        "sets.contains" => contains(&a, &b)?,
        "sets.equivalent" => contains(&a, &b)? && contains(&b, &a)?,
        _ => {
            let mut found = false;
            for element in &a {
                found = found || has(&b, element, cost)?;
            }
            found
        }
    }))
}

/// `elements` in the order of their `keys`, which must be of one type.
pub(crate) fn sort_by<'a>(
    elements: Vec<Val<'a>>,
    keys: &[Val<'a>],
    cost: &Cost,
) -> Result<Vec<Val<'a>>, EvalError> {
    let Some(first) = keys.first() else { return Ok(elements) };
    if keys.iter().any(|key| key.type_name() != first.type_name()) {
        return Err(EvalError::other("list elements must have the same type"));
    }
    spend_on_sorting(keys.iter().map(size_of), cost)?;
    for key in keys {
        ops::compare(first, key).map_err(|_| EvalError::other("list elements must be comparable"))?;
    }
    let mut paired: Vec<(&Val<'a>, Val<'a>)> = keys.iter().zip(elements).collect();
    paired.sort_by(|(a, _), (b, _)| ops::compare(a, b).unwrap_or(Ordering::Equal));
    Ok(paired.into_iter().map(|(_, element)| element).collect())
}

/// Sorting cannot be stopped, so that all its comparisons cost before the first: each key is in as many as the number of
/// keys has bits.
pub(super) fn spend_on_sorting(
    sizes: impl ExactSizeIterator<Item = usize>,
    cost: &Cost,
) -> Result<(), EvalError> {
    /// So many bytes are compared while one key is moved.
    const BYTES: usize = 32;
    let count = sizes.len();
    let bits = usize::try_from(usize::BITS - count.leading_zeros()).unwrap_or(usize::MAX);
    let work = sizes.fold(count, |work, size| work.saturating_add(size / BYTES));
    cost.spend_on_text(work.saturating_mul(bits))
}
