//! Evaluation, with a bound: see [`budget`](crate::cel::budget).

use std::collections::HashMap;

use crate::cel::ast::{Comprehension, Entry, Expr, ExprKind, Literal, Loop};
use crate::cel::budget::Cost;
use crate::cel::check::type_identifier;
use crate::cel::keys::{Entries, insert, replace};
use crate::cel::library;
use crate::cel::ops;
use crate::cel::program::Program;
use crate::cel::signatures;
use crate::cel::value::{EvalError, Evaluated, MapVal, Str, Val};
use crate::go::regexp::{self, CompiledPattern, PatternError};

/// Bytes of a pattern that comes with an object, compiled; a tenth of what one of a schema may take.
const MOST_OF_PATTERN: usize = 1 << 20;
/// Compiling as many of them costs one.
const BYTES_OF_PATTERN: usize = 8;

/// The result of an evaluation. What it costs is counted on top of what its variables did.
pub(crate) fn evaluate<'a>(
    program: &'a Program,
    variables: Vec<(&'a str, Val<'a>)>,
    cost: &Cost,
) -> Evaluated<'a> {
    let mut eval = Eval { program, variables, cost, made: HashMap::new() };
    let result = eval.expr(&program.expr);
    if cost.is_exceeded() { Err(EvalError::CostLimit) } else { result }
}

pub(crate) struct Eval<'c, 'a> {
    pub program: &'a Program,
    variables: Vec<(&'a str, Val<'a>)>,
    pub cost: &'c Cost,
    /// Patterns that are not of the program.
    made: HashMap<Box<str>, CompiledPattern>,
}

impl<'a> Eval<'_, 'a> {
    pub fn spend(&self, cost: u64) -> Result<(), EvalError> {
        self.cost.spend(cost)
    }

    pub fn spend_on_text(&self, length: usize) -> Result<(), EvalError> {
        self.cost.spend_on_text(length)
    }

    pub fn spend_on_elements(&self, count: usize) -> Result<(), EvalError> {
        self.cost.spend_on_elements(count)
    }

    /// A pattern of the program, or one that came with the object and is compiled once. An API server does not count that; here
    /// it costs as much as it takes.
    pub fn pattern(&mut self, pattern: &str) -> Result<(&CompiledPattern, &Cost), EvalError> {
        if let Some(compiled) = self.program.pattern(pattern) {
            return Ok((compiled, self.cost));
        }
        if !self.made.contains_key(pattern) {
            let compiled = regexp::compile_within(pattern, MOST_OF_PATTERN);
            let size = match &compiled {
                Ok(compiled) => compiled.size,
                Err(PatternError::Syntax(regex::Error::CompiledTooBig(_))) => MOST_OF_PATTERN,
                Err(_) => pattern.len(),
            };
            self.spend_on_elements(size / BYTES_OF_PATTERN)?;
            let compiled = compiled.map_err(|error| EvalError::other(error.to_string()))?;
            self.made.insert(pattern.into(), compiled);
        }
        let compiled = self.made.get(pattern).ok_or(EvalError::CostLimit)?;
        Ok((compiled, self.cost))
    }

    pub fn expr(&mut self, expr: &'a Expr) -> Evaluated<'a> {
        self.cost.step()?;
        match &expr.kind {
            ExprKind::Literal(literal) => {
                if let Literal::Bytes(bytes) = literal {
                    self.cost.spend_on_bytes(bytes.len())?;
                }
                Ok(constant(literal))
            }
            ExprKind::Ident(name) => self.ident(name),
            ExprKind::Select { operand, field, optional } => self.select(expr, operand, field, *optional),
            ExprKind::Has { operand, field } => {
                let operand = self.expr(operand)?;
                has(&operand, field, self.cost).map(Val::Bool)
            }
            ExprKind::Call { function, target, args } => self.call(function, target.as_deref(), args),
            ExprKind::And(left, right) => self.logical(left, right, false),
            ExprKind::Or(left, right) => self.logical(left, right, true),
            ExprKind::Conditional { condition, then, otherwise } => match self.expr(condition)? {
                Val::Bool(true) => self.expr(then),
                Val::Bool(false) => self.expr(otherwise),
                _ => Err(EvalError::bare_overload()),
            },
            ExprKind::List(entries) => self.list(entries),
            ExprKind::Map(entries) => self.map(entries),
            ExprKind::Comprehension(comprehension) => self.comprehension(comprehension),
        }
    }

    fn ident(&mut self, name: &'a str) -> Evaluated<'a> {
        self.spend(1)?;
        // It is compared with others.
        self.cost.spend_on_bytes(name.len())?;
        if let Some((_, value)) = self.variables.iter().rev().find(|(declared, _)| *declared == name) {
            return Ok(value.clone());
        }
        match type_identifier(name) {
            Some(_) => Ok(Val::Type(type_name(name))),
            None => Err(EvalError::other(format!("no such attribute(s): {name}"))),
        }
    }

    fn select(&mut self, expr: &Expr, operand: &'a Expr, field: &'a str, optional: bool) -> Evaluated<'a> {
        if ends_a_type(field)
            && let Some(name) = expr.qualified_name()
            && type_identifier(&name).is_some()
        {
            return Ok(Val::Type(type_name(&name)));
        }
        self.spend(1)?;
        self.cost.spend_on_bytes(field.len())?;
        let operand = self.expr(operand)?;
        // An optional's fields are optional, whether asked for with `.?` or not.
        let (operand, optional) = match operand {
            Val::Optional(None) => return Ok(Val::Optional(None)),
            Val::Optional(Some(value)) => ((*value).clone(), true),
            other => (other, optional),
        };
        match (member_of(&operand, field, self.cost)?, optional) {
            (Some(value), true) => Ok(Val::some(value)),
            (None, true) => Ok(Val::Optional(None)),
            (Some(value), false) => Ok(value),
            (None, false) => Err(EvalError::NoSuchKey(field.to_owned())),
        }
    }

    /// `&&` and `||`: if one side decides, the other's error does not matter.
    fn logical(&mut self, left: &'a Expr, right: &'a Expr, decisive: bool) -> Evaluated<'a> {
        let left = self.expr(left);
        if matches!(left, Err(EvalError::CostLimit)) {
            return left;
        }
        if matches!(left, Ok(Val::Bool(value)) if value == decisive) {
            return left;
        }
        let right = self.expr(right);
        match (left, right) {
            (_, Ok(Val::Bool(value))) if value == decisive => Ok(Val::Bool(decisive)),
            (_, Err(EvalError::CostLimit)) => Err(EvalError::CostLimit),
            (Ok(Val::Bool(_)), Ok(Val::Bool(_))) => Ok(Val::Bool(!decisive)),
            (Err(error), _) | (Ok(Val::Bool(_)), Err(error)) => Err(error),
            _ => Err(EvalError::bare_overload()),
        }
    }

    fn call(&mut self, function: &'a str, target: Option<&'a Expr>, args: &'a [Expr]) -> Evaluated<'a> {
        let namespaced = target
            .and_then(namespace)
            .map(|prefix| format!("{prefix}.{function}"))
            .filter(|name| signatures::lookup(name).is_some_and(|overloads| !overloads[0].member));
        if let Some(name) = namespaced {
            let args = self.arguments(args)?;
            return library::global(self, &name, &args);
        }
        let Some(target) = target else {
            let args = self.arguments(args)?;
            return self.operator(function, &args);
        };
        let target = self.expr(target)?;
        if let (Val::Optional(value), [default]) = (&target, args)
            && matches!(function, "or" | "orValue")
        {
            return match value {
                Some(value) if function == "orValue" => Ok((**value).clone()),
                Some(_) => Ok(target),
                None => self.expr(default),
            };
        }
        let args = self.arguments(args)?;
        library::member(self, function, &target, &args)
    }

    fn arguments(&mut self, args: &'a [Expr]) -> Result<Vec<Val<'a>>, EvalError> {
        args.iter().map(|arg| self.expr(arg)).collect()
    }

    fn operator(&mut self, function: &'a str, args: &[Val<'a>]) -> Evaluated<'a> {
        match ops::cost(function, args) {
            Some(cost) => {
                self.spend(cost)?;
                ops::operate(function, args, self.cost)
            }
            None => library::global(self, function, args),
        }
    }

    /// The value of an entry; none if it is an optional without one.
    fn entry(&mut self, entry: &'a Entry) -> Result<Option<Val<'a>>, EvalError> {
        let value = self.expr(&entry.value)?;
        if !entry.optional {
            return Ok(Some(value));
        }
        match value {
            Val::Optional(value) => Ok(value.map(|value| (*value).clone())),
            _ => Err(EvalError::other("cannot initialize optional entry from non-optional value")),
        }
    }

    fn list(&mut self, entries: &'a [Entry]) -> Evaluated<'a> {
        self.spend_on_elements(entries.len().max(LIST))?;
        let mut elements = Vec::with_capacity(entries.len());
        for entry in entries {
            elements.extend(self.entry(entry)?);
        }
        Ok(Val::list(elements))
    }

    fn map(&mut self, entries: &'a [Entry]) -> Evaluated<'a> {
        self.spend_on_elements(entries.len().max(MAP))?;
        let mut made = Entries::default();
        for entry in entries {
            let Some(key) = &entry.key else { continue };
            let key = self.expr(key)?;
            if let Some(value) = self.entry(entry)? {
                replace(&mut made, key, value, self.cost)?;
            }
        }
        Ok(Val::Map(MapVal::Made(made.into())))
    }

    fn comprehension(&mut self, comprehension: &'a Comprehension) -> Evaluated<'a> {
        let range = self.expr(&comprehension.range)?;
        match (comprehension.kind, &range) {
            (Loop::OptMap | Loop::OptFlatMap, Val::Optional(value)) => {
                let Some(value) = value else { return Ok(Val::Optional(None)) };
                let result =
                    self.bind(comprehension, (**value).clone(), None, |eval| eval.expr(&comprehension.body))?;
                Ok(if comprehension.kind == Loop::OptMap { Val::some(result) } else { result })
            }
            (Loop::OptMap | Loop::OptFlatMap, _) => Err(EvalError::overload("hasValue")),
            (Loop::All, _) => self.quantify(comprehension, &range, false),
            (Loop::Exists, _) => self.quantify(comprehension, &range, true),
            (Loop::ExistsOne, _) => {
                let mut count = 0;
                self.each(comprehension, &range, |eval, _, _| match eval.expr(&comprehension.body)? {
                    Val::Bool(found) => {
                        count += usize::from(found);
                        Ok(())
                    }
                    _ => Err(EvalError::bare_overload()),
                })?;
                Ok(Val::Bool(count == 1))
            }
            (Loop::Map | Loop::Filter | Loop::SortBy, _) => self.transform(comprehension, &range),
            (Loop::TransformMap | Loop::TransformMapEntry, _) => self.transform_map(comprehension, &range),
        }
    }

    /// `all` and `exists`: one element can decide, whatever errors others have.
    fn quantify(
        &mut self,
        comprehension: &'a Comprehension,
        range: &Val<'a>,
        decisive: bool,
    ) -> Evaluated<'a> {
        let mut decided = false;
        let mut first_error = None;
        self.each(comprehension, range, |eval, _, _| {
            if decided {
                return Ok(());
            }
            match eval.expr(&comprehension.body) {
                Err(EvalError::CostLimit) => return Err(EvalError::CostLimit),
                Ok(Val::Bool(value)) => decided = value == decisive,
                Ok(_) => first_error = first_error.take().or(Some(EvalError::bare_overload())),
                Err(error) => first_error = first_error.take().or(Some(error)),
            }
            Ok(())
        })?;
        match first_error {
            _ if decided => Ok(Val::Bool(decisive)),
            Some(error) => Err(error),
            None => Ok(Val::Bool(!decisive)),
        }
    }

    fn transform(&mut self, comprehension: &'a Comprehension, range: &Val<'a>) -> Evaluated<'a> {
        let mut elements = Vec::new();
        let mut keys = Vec::new();
        self.each(comprehension, range, |eval, first, _| {
            let result = eval.expr(&comprehension.body)?;
            match (comprehension.kind, result) {
                (Loop::Filter, Val::Bool(true)) => {
                    eval.spend_on_elements(LIST + 2)?;
                    elements.push(first.clone());
                }
                (Loop::Filter, Val::Bool(false)) => {}
                (Loop::Filter, _) => return Err(EvalError::bare_overload()),
                (Loop::SortBy, key) => {
                    elements.push(first.clone());
                    keys.push(key);
                }
                (_, result) => elements.push(result),
            }
            Ok(())
        })?;
        if comprehension.kind == Loop::SortBy {
            return library::sort_by(elements, &keys, self.cost).map(Val::list);
        }
        Ok(Val::list(elements))
    }

    fn transform_map(&mut self, comprehension: &'a Comprehension, range: &Val<'a>) -> Evaluated<'a> {
        let mut entries = Entries::default();
        self.each(comprehension, range, |eval, first, _| {
            let result = eval.expr(&comprehension.body)?;
            if comprehension.kind == Loop::TransformMap {
                return insert(&mut entries, first.clone(), result, eval.cost);
            }
            let Val::Map(map) = result else { return Err(EvalError::bare_overload()) };
            for key in map.keys(eval.cost)? {
                eval.spend(1)?;
                if let Some(value) = map.find(&key, eval.cost)? {
                    insert(&mut entries, key, value, eval.cost)?;
                }
            }
            Ok(())
        })?;
        Ok(Val::Map(MapVal::Made(entries.into())))
    }

    /// Calls `body` for each element that the filter takes, with the variables bound.
    fn each(
        &mut self,
        comprehension: &'a Comprehension,
        range: &Val<'a>,
        mut body: impl FnMut(&mut Self, &Val<'a>, Option<&Val<'a>>) -> Result<(), EvalError>,
    ) -> Result<(), EvalError> {
        let two = comprehension.second.is_some();
        let mut step = |eval: &mut Self, first: Val<'a>, second: Option<Val<'a>>| {
            eval.spend(round_cost(comprehension.kind))?;
            eval.bind(comprehension, first.clone(), second.clone(), |eval| {
                if let Some(filter) = &comprehension.filter {
                    match eval.expr(filter)? {
                        Val::Bool(true) => {}
                        Val::Bool(false) => return Ok(()),
                        _ => return Err(EvalError::bare_overload()),
                    }
                }
                body(eval, &first, second.as_ref())
            })
        };
        match range {
            Val::List(list) => {
                for index in 0..list.len() {
                    let Some(element) = list.get(index, self.cost) else { break };
                    let element = element?;
                    if two {
                        let index = i64::try_from(index).unwrap_or(i64::MAX);
                        step(self, Val::Int(index), Some(element))?;
                    } else {
                        step(self, element, None)?;
                    }
                }
                Ok(())
            }
            Val::Map(map) => {
                for key in map.keys(self.cost)? {
                    let value = if two { map.find(&key, self.cost)? } else { None };
                    step(self, key, value)?;
                }
                Ok(())
            }
            other => {
                let name = other.go_type();
                Err(EvalError::other(format!("got '{name}', expected iterable type")))
            }
        }
    }

    fn bind<T>(
        &mut self,
        comprehension: &'a Comprehension,
        first: Val<'a>,
        second: Option<Val<'a>>,
        body: impl FnOnce(&mut Self) -> Result<T, EvalError>,
    ) -> Result<T, EvalError> {
        let depth = self.variables.len();
        self.variables.push((&comprehension.variable, first));
        if let (Some(name), Some(value)) = (&comprehension.second, second) {
            self.variables.push((name, value));
        }
        let result = body(self);
        self.variables.truncate(depth);
        result
    }
}

fn member_of<'a>(operand: &Val<'a>, field: &str, cost: &Cost) -> Result<Option<Val<'a>>, EvalError> {
    match operand {
        Val::Map(map) => map.find_text(field, cost),
        Val::List(_) => Err(EvalError::other("unsupported index type 'string' in list")),
        _ => Ok(None),
    }
}

fn has(operand: &Val<'_>, field: &str, cost: &Cost) -> Result<bool, EvalError> {
    match operand {
        Val::Optional(None) => Ok(false),
        Val::Optional(Some(value)) => has(value, field, cost),
        operand => Ok(member_of(operand, field, cost)?.is_some()),
    }
}

/// Cost of making a list or a map; one with more literals costs as much as it has.
const LIST: usize = 10;
const MAP: usize = 30;

/// Returns true if a field can be the last part of a type's name. Whole names are long, and fields are asked for often.
fn ends_a_type(field: &str) -> bool {
    matches!(field, "Duration" | "Timestamp" | "IP" | "CIDR")
}

/// Returns the possible namespace of a function; none has a dot.
fn namespace(target: &Expr) -> Option<&str> {
    match &target.kind {
        ExprKind::Ident(name) => Some(name),
        _ => None,
    }
}

/// What a round of a loop costs besides its body: reading the accumulator, combining it with
/// the body's result, and asking whether to go on.
fn round_cost(kind: Loop) -> u64 {
    match kind {
        Loop::All | Loop::TransformMap => 3,
        Loop::Exists => 4,
        Loop::Map | Loop::SortBy => 12,
        Loop::ExistsOne | Loop::TransformMapEntry => 2,
        Loop::Filter | Loop::OptMap | Loop::OptFlatMap => 1,
    }
}

/// The name of a type as values carry it.
fn type_name(identifier: &str) -> &'static str {
    const NAMES: [&str; 15] = [
        "bool",
        "bytes",
        "double",
        "google.protobuf.Duration",
        "google.protobuf.Timestamp",
        "int",
        "list",
        "map",
        "null_type",
        "string",
        "type",
        "uint",
        "optional_type",
        "net.IP",
        "net.CIDR",
    ];
    NAMES.into_iter().find(|name| *name == identifier).unwrap_or("type")
}

/// The value of a literal.
pub(crate) fn constant(literal: &Literal) -> Val<'_> {
    match literal {
        Literal::Null => Val::Null,
        Literal::Bool(value) => Val::Bool(*value),
        Literal::Int(value) => Val::Int(*value),
        Literal::Uint(value) => Val::Uint(*value),
        Literal::Double(value) => Val::Double(*value),
        Literal::String(value) => Val::String(Str::Borrowed(value)),
        Literal::Bytes(value) => Val::Bytes(value.as_slice().into()),
    }
}

#[cfg(test)]
mod tests;
