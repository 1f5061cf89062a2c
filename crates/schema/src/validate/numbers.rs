//! Bounds, multiples and formats of numbers.
//!
//! Go compares integers as integers: a bound is truncated to one first. A bound that does not
//! fit the schema's own type is an error of every value.

use serde_json::{Number, Value};

use crate::error::FieldError;
use crate::go::text;
use crate::node::{Kind, Node};
use crate::path::{FieldPath, Trail};
use crate::validate::formats::Check;

/// Beyond this, a double no longer tells integers apart.
const MAX_JSON_INTEGER: f64 = 9_007_199_254_740_991.0;

/// Returns whether a double is an integer, give or take what division leaves behind.
#[expect(clippy::float_cmp, reason = "a whole double equals its own truncation")]
pub(crate) fn is_json_integer(value: f64) -> bool {
    if !value.is_finite() || !(-MAX_JSON_INTEGER - 1.0..=MAX_JSON_INTEGER).contains(&value) {
        return false;
    }
    let whole = value.trunc();
    if whole == value {
        return true;
    }
    if whole <= 0.0 {
        return false;
    }
    (value - whole) / (value + whole) < 1e-9
}

#[derive(Clone, Copy)]
enum Num {
    Int(i64),
    Double(f64),
}

impl Num {
    fn of(number: &Number) -> Self {
        match number.as_i64() {
            Some(int) => Self::Int(int),
            None => Self::Double(number.as_f64().unwrap_or(f64::NAN)),
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "compared as Go does")]
    fn as_f64(self) -> f64 {
        match self {
            Self::Int(int) => int as f64,
            Self::Double(double) => double,
        }
    }

    fn json(self) -> Value {
        match self {
            Self::Int(int) => Value::from(int),
            Self::Double(double) => Value::from(double),
        }
    }
}

pub(super) fn check(node: &Node, number: &Number, trail: Trail<'_>, errors: &mut Vec<FieldError>) {
    let value = Num::of(number);
    let range = Range { node, trail };
    range.check(value, "Checked", errors);
    let checks = &node.checks;
    if let Some(factor) = checks.multiple_of {
        let fits = range.check(Num::Double(factor), "MultipleOf", errors);
        errors.extend(multiple(if fits { value } else { Num::Double(value.as_f64()) }, factor, trail));
    }
    let mut bound = |limit: Option<f64>, prefix: &str, below: bool, exclusive: bool| {
        let Some(limit) = limit else { return };
        let fits = range.check(Num::Double(limit), prefix, errors);
        let value = if fits { value } else { Num::Double(value.as_f64()) };
        errors.extend(bounded(value, limit, below, exclusive, trail));
    };
    bound(checks.minimum, "Minimum boundary", false, checks.exclusive_minimum);
    bound(checks.maximum, "Maximum boundary", true, checks.exclusive_maximum);
}

#[expect(clippy::cast_possible_truncation, reason = "Go truncates the bound of an integer")]
fn bounded(value: Num, limit: f64, below: bool, exclusive: bool, trail: Trail<'_>) -> Option<FieldError> {
    let (outside, on_limit, shown) = match value {
        Num::Int(int) => {
            let limit = limit as i64;
            (if below { int > limit } else { int < limit }, int == limit, limit.to_string())
        }
        #[expect(clippy::float_cmp, reason = "a bound is met exactly or not")]
        Num::Double(double) => {
            (if below { double > limit } else { double < limit }, double == limit, text::float(limit))
        }
    };
    if !(outside || (exclusive && on_limit)) {
        return None;
    }
    let relation = match (below, exclusive) {
        (true, false) => "less than or equal to",
        (true, true) => "less than",
        (false, false) => "greater than or equal to",
        (false, true) => "greater than",
    };
    let detail = format!("{} in body should be {relation} {shown}", trail.name());
    Some(FieldError::invalid(&trail.to_path(), value.json(), detail))
}

#[expect(clippy::cast_possible_truncation, reason = "Go truncates the factor of an integer")]
fn multiple(value: Num, factor: f64, trail: Trail<'_>) -> Option<FieldError> {
    let (positive, divides, shown) = match value {
        Num::Int(int) => {
            let factor = factor as i64;
            (factor > 0, factor > 0 && int % factor == 0, factor.to_string())
        }
        Num::Double(double) => {
            let quotient = if factor < 1.0 { 1.0 / factor * double } else { double / factor };
            (factor > 0.0, is_json_integer(quotient), text::float(factor))
        }
    };
    let path = trail.to_path();
    let name = trail.name();
    if !positive {
        let detail = format!("factor MultipleOf declared for {name} must be positive: {shown}");
        return Some(FieldError::invalid(&path, factor_json(value, factor), detail));
    }
    (!divides).then(|| {
        FieldError::invalid(&path, value.json(), format!("{name} in body should be a multiple of {shown}"))
    })
}

#[expect(clippy::cast_possible_truncation, reason = "Go truncates the factor of an integer")]
fn factor_json(value: Num, factor: f64) -> Value {
    match value {
        Num::Int(_) => Value::from(factor as i64),
        Num::Double(_) => Value::from(factor),
    }
}

/// The range of the schema's type and format.
struct Range<'a> {
    node: &'a Node,
    trail: Trail<'a>,
}

impl Range<'_> {
    /// Returns whether `value` fits; if not, says so without a field, as an API server does.
    fn check(&self, value: Num, prefix: &str, errors: &mut Vec<FieldError>) -> bool {
        let format = self.node.checks.format.as_ref();
        let check = format.map(|format| format.check);
        let kind = self.node.kind.filter(|_| !self.node.int_or_string);
        let fits = match kind {
            Some(Kind::Integer) => {
                let (min, max) = match check {
                    Some(Check::Int32) => (i64::from(i32::MIN), i64::from(i32::MAX)),
                    _ => (i64::MIN, i64::MAX),
                };
                whole(value).is_some_and(|int| (min..=max).contains(&int))
            }
            #[expect(clippy::cast_possible_truncation, reason = "that is the question")]
            Some(Kind::Number) if check == Some(Check::Float) => (value.as_f64() as f32).is_finite(),
            _ => true,
        };
        if !fits {
            let kind = kind.map_or("", Kind::name);
            let name = self.trail.name();
            let detail = match format {
                Some(format) => {
                    format!("{prefix} value must be of type {kind} with format {} in {name}", format.name)
                }
                None => format!("{prefix} value must be of type {kind} (default format) in {name}"),
            };
            errors.push(FieldError::invalid(&FieldPath::root(), "", detail));
        }
        fits
    }
}

#[expect(clippy::cast_possible_truncation, reason = "whole and in range")]
fn whole(value: Num) -> Option<i64> {
    match value {
        Num::Int(int) => Some(int),
        Num::Double(double) => (double.fract() == 0.0
            && (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&double))
        .then_some(double as i64),
    }
}
