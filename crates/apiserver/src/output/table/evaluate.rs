//! Evaluation of JSON paths.

use std::cell::Cell;
use std::cmp::Ordering;

use serde_json::Value;

use super::jsonpath::{Operator, SliceEnd, Step};

/// Results of one path at most: `..` on hostile objects must not take more memory than the objects.
const RESULTS: usize = 100_000;
/// Values that all paths of a row look at, counted anew by each of their steps: a union has thousands of them, each for every value.
const WORK: usize = 10 * RESULTS;

/// Why a path does not fit a value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EvaluateError {
    /// An index or a filter on something else.
    #[error("not array or slice")]
    NotAList,
    /// An index outside.
    #[error("array index out of bounds: index {index}, length {length}")]
    OutOfBounds {
        /// The index.
        index: i64,
        /// The length.
        length: usize,
    },
    /// A step of a slice must go forward.
    #[error("step must be > 0")]
    Step,
    /// A comparison of values of different or incomparable types.
    #[error("incompatible types for comparison")]
    Incomparable,
    /// More than one value on a side of a comparison.
    #[error("can only compare one element at a time")]
    Several,
    /// A comparison with signs that are no operator.
    #[error("unrecognized filter operator")]
    Operator,
    /// A word that means nothing.
    #[error("unrecognized identifier {0}")]
    Word(String),
    /// The path finds too much.
    #[error("too many results")]
    TooMany,
}

type Found<'a> = Vec<&'a Value>;

/// All values that the steps lead to. Members that are not there are no error.
pub(super) fn evaluate<'a>(
    steps: &'a [Step],
    value: &'a Value,
    work: &Work,
) -> Result<Found<'a>, EvaluateError> {
    walk(steps, vec![value], work)
}

/// The work that is left for one row.
pub(super) struct Work(Cell<usize>);

impl Default for Work {
    fn default() -> Self {
        Self(Cell::new(WORK))
    }
}

impl Work {
    fn spend(&self, values: usize) -> Result<(), EvaluateError> {
        let left = self.0.get().checked_sub(values);
        self.0.set(left.unwrap_or(0));
        left.map(drop).ok_or(EvaluateError::TooMany)
    }
}

fn walk<'a>(steps: &'a [Step], mut found: Found<'a>, work: &Work) -> Result<Found<'a>, EvaluateError> {
    for step in steps {
        work.spend(found.len() + 1)?;
        found = apply(step, found, work)?;
        if found.len() > RESULTS {
            return Err(EvaluateError::TooMany);
        }
    }
    Ok(found)
}

fn apply<'a>(step: &'a Step, input: Found<'a>, work: &Work) -> Result<Found<'a>, EvaluateError> {
    let mut out = Vec::new();
    match step {
        // A text stands for itself even where there is nothing, a number or a flag for each value.
        Step::Literal(value @ Value::String(_)) => out.push(value),
        Step::Literal(value) => out.extend(input.iter().map(|_| value)),
        Step::Word(word) => return Err(EvaluateError::Word(word.clone())),
        Step::Union(parts) => {
            for steps in parts {
                out.extend(walk(steps, input.clone(), work)?);
                if out.len() > RESULTS {
                    return Err(EvaluateError::TooMany);
                }
            }
        }
        Step::Field(name) => out.extend(input.into_iter().filter_map(|value| value.as_object()?.get(name))),
        Step::Wildcard => out.extend(input.into_iter().flat_map(children)),
        Step::Recursive => {
            for value in input {
                descend(value, &mut out, work)?;
            }
        }
        Step::Slice { start, end, step } => {
            for value in input.into_iter().filter(|value| !value.is_null()) {
                let items = value.as_array().ok_or(EvaluateError::NotAList)?;
                out.extend(cut(items, *start, *end, *step)?);
            }
        }
        Step::Filter { left, compare } => {
            for value in input {
                for item in value.as_array().ok_or(EvaluateError::NotAList)? {
                    work.spend(1)?;
                    if passes(item, left, compare.as_ref(), work)? {
                        out.push(item);
                    }
                }
            }
        }
    }
    Ok(out)
}

fn children(value: &Value) -> Box<dyn Iterator<Item = &Value> + '_> {
    match value {
        Value::Array(items) => Box::new(items.iter()),
        Value::Object(members) => Box::new(members.values()),
        _ => Box::new(std::iter::empty()),
    }
}

/// Every list and object in the value, the value first, without recursion.
fn descend<'a>(value: &'a Value, out: &mut Found<'a>, work: &Work) -> Result<(), EvaluateError> {
    let mut waiting = vec![value];
    while let Some(value) = waiting.pop() {
        work.spend(1)?;
        let inner: Vec<_> = children(value).collect();
        if inner.is_empty() {
            continue;
        }
        if out.len() >= RESULTS {
            return Err(EvaluateError::TooMany);
        }
        out.push(value);
        waiting.extend(inner.into_iter().rev());
    }
    Ok(())
}

fn cut(
    items: &[Value],
    start: Option<i64>,
    end: SliceEnd,
    step: Option<i64>,
) -> Result<impl Iterator<Item = &Value>, EvaluateError> {
    let length = i64::try_from(items.len()).unwrap_or(i64::MAX);
    let from_end = |index: i64| if index < 0 { index.saturating_add(length) } else { index };
    let first = from_end(start.unwrap_or(0));
    let last = match (end, start.unwrap_or(0)) {
        (SliceEnd::Open, _) | (SliceEnd::One, -1) => length,
        (SliceEnd::One, start) => from_end(start.saturating_add(1)),
        (SliceEnd::At(end), _) => from_end(end),
    };
    let outside = |index: i64| EvaluateError::OutOfBounds { index, length: items.len() };
    let range = if first == last {
        0..0
    } else {
        let from =
            usize::try_from(first).ok().filter(|from| *from < items.len()).ok_or_else(|| outside(first))?;
        let to =
            usize::try_from(last).ok().filter(|to| *to <= items.len()).ok_or_else(|| outside(last - 1))?;
        if from > to {
            return Err(outside(first));
        }
        from..to
    };
    let step = usize::try_from(step.unwrap_or(1)).ok().filter(|step| *step > 0).ok_or(EvaluateError::Step)?;
    Ok(items[range].iter().step_by(step))
}

fn passes<'a>(
    item: &'a Value,
    left: &'a [Step],
    compare: Option<&'a (Operator, Vec<Step>)>,
    work: &Work,
) -> Result<bool, EvaluateError> {
    let Some((operator, right)) = compare else {
        // Upstream does not look at errors here, and goes on with what it had.
        return Ok(walk(left, vec![item], work).map_or(true, |found| !found.is_empty()));
    };
    let (Some(left), Some(right)) = (single(left, item, work)?, single(right, item, work)?) else {
        return Ok(false);
    };
    let ordered = || order(left, right).ok_or(EvaluateError::Incomparable);
    Ok(match operator {
        Operator::Equal => equal(left, right)?,
        Operator::NotEqual => !equal(left, right)?,
        Operator::Less => ordered()? == Ordering::Less,
        Operator::LessOrEqual => ordered()? != Ordering::Greater,
        Operator::Greater => ordered()? == Ordering::Greater,
        Operator::GreaterOrEqual => ordered()? != Ordering::Less,
        Operator::Unknown => return Err(EvaluateError::Operator),
    })
}

fn single<'a>(steps: &'a [Step], item: &'a Value, work: &Work) -> Result<Option<&'a Value>, EvaluateError> {
    let mut found = walk(steps, vec![item], work)?;
    match found.len() {
        0 | 1 => Ok(found.pop()),
        _ => Err(EvaluateError::Several),
    }
}

fn equal(left: &Value, right: &Value) -> Result<bool, EvaluateError> {
    match (left, right) {
        (Value::Bool(left), Value::Bool(right)) => Ok(left == right),
        _ => order(left, right).map(Ordering::is_eq).ok_or(EvaluateError::Incomparable),
    }
}

/// Texts with texts, whole numbers with whole numbers, fractions with fractions; nothing else compares upstream.
fn order(left: &Value, right: &Value) -> Option<Ordering> {
    match (left, right) {
        (Value::String(left), Value::String(right)) => Some(left.cmp(right)),
        (Value::Number(left), Value::Number(right)) => match (left.as_i64(), right.as_i64()) {
            (Some(left), Some(right)) => Some(left.cmp(&right)),
            (None, None) => left.as_f64()?.partial_cmp(&right.as_f64()?),
            _ => None,
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::jsonpath::JsonPath;
    use super::*;

    /// However little of a path there is for how much of an object.
    #[test]
    fn paths_end_at_their_bounds() {
        let many = |name: &str| format!("['{}']", vec![name; 20_000].join("','"));
        let object = json!({"l": vec![json!({"a": [1, 2]}); 10_000], "d": {"a": {"a": {"a": {"a": 1}}}}});
        for (path, expected) in [
            (".l[*].a[*]".to_owned(), Ok(20_000)),
            // Results that are many, ones that are none, ones on the way.
            (format!(".l[*]{}", many("a")), Err(EvaluateError::TooMany)),
            (format!(".l[*]{}", many("b")), Err(EvaluateError::TooMany)),
            (format!(".l[*]{}.b", many("a")), Err(EvaluateError::TooMany)),
            (format!(".d{}", many("b")), Ok(0)),
            ("..a".to_owned(), Ok(10_004)),
        ] {
            let parsed: JsonPath = path.parse().unwrap();
            assert_eq!(parsed.all(&object).map(|found| found.len()), expected, "{path:.40}");
        }
    }
}
