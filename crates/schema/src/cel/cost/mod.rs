//! The worst case of what a rule can cost, from the bounds its schema sets.
//!
//! An API server refuses a rule whose estimate is too large for the number of values it can
//! be applied to, so the estimate is its: the sums, the unit (a name, a field or a call), the
//! treatment of what is not known. Macros are counted as the loops cel-go makes of them.

mod calls;
mod range;
mod sizes;

pub(crate) use sizes::min_size;

use std::collections::HashMap;

use crate::cel::ast::{Comprehension, Entry, Expr, ExprKind, Literal, Loop};
use crate::cel::check::{Types, type_identifier};
use crate::cel::cost::calls::Operand;
use crate::cel::cost::range::Range;
use crate::cel::cost::sizes::{MAX_REQUEST, Place};
use crate::cel::signatures;
use crate::cel::types::Type;
use crate::node::Node;

/// The maximal number of values of this schema in one request, if nothing bounds it.
pub(crate) fn max_cardinality(node: &Node) -> u64 {
    MAX_REQUEST / (min_size(node) + 1)
}

/// The most a checked expression can cost on a value of `node`.
pub(crate) fn estimate(expr: &Expr, types: &Types<'_>, node: &Node, resource: bool) -> u64 {
    let mut coster =
        Coster { types, root: Place::Node { node, resource }, known: HashMap::new(), locals: Vec::new() };
    coster.cost(expr).max
}

type Path = Vec<String>;

/// The sizes of the elements of a container.
#[derive(Clone, Copy)]
struct Elements {
    is_list: bool,
    keys: Range,
    values: Range,
}

/// The estimate of an expression besides its cost.
#[derive(Clone, Default)]
struct Known {
    path: Path,
    size: Option<Range>,
    elements: Option<Elements>,
}

struct Coster<'e, 'n> {
    types: &'e Types<'n>,
    root: Place<'n>,
    known: HashMap<*const Expr, Known>,
    locals: Vec<(&'e str, Known)>,
}

impl<'e, 'n> Coster<'e, 'n> {
    fn kind(&self, expr: &Expr) -> Type<'n> {
        self.types.of(expr)
    }

    fn known(&mut self, expr: &Expr) -> &mut Known {
        self.known.entry(std::ptr::from_ref(expr)).or_default()
    }

    fn local(&self, name: &str) -> Option<&Known> {
        self.locals.iter().rev().find(|(local, _)| *local == name).map(|(_, known)| known)
    }

    fn path(&self, expr: &Expr) -> Path {
        if let ExprKind::Ident(name) = &expr.kind
            && let Some(local) = self.local(name)
        {
            return local.path.clone();
        }
        self.known.get(&std::ptr::from_ref(expr)).map(|known| known.path.clone()).unwrap_or_default()
    }

    fn elements(&self, expr: &Expr) -> Option<Elements> {
        let own = self.known.get(&std::ptr::from_ref(expr)).and_then(|known| known.elements);
        own.or_else(|| match &expr.kind {
            ExprKind::Ident(name) => self.local(name)?.elements,
            _ => None,
        })
    }

    fn size_at(&self, path: &[String]) -> Option<Range> {
        if path.is_empty() {
            return None;
        }
        sizes::find(self.root, path).map(|place| Range::up_to(sizes::max_elements(place)))
    }

    fn size(&self, expr: &Expr) -> Option<Range> {
        let own = self.known.get(&std::ptr::from_ref(expr)).and_then(|known| known.size);
        own.or_else(|| literal_size(expr))
            .or_else(|| self.size_at(&self.path(expr)))
            .or_else(|| is_scalar(&self.kind(expr)).then_some(Range::ONE))
            .or_else(|| match &expr.kind {
                ExprKind::Ident(name) => self.local(name)?.size,
                _ => None,
            })
    }

    fn size_or_unknown(&self, expr: &Expr) -> Range {
        self.size(expr).unwrap_or(Range::UNKNOWN)
    }

    fn operand(&self, expr: &'e Expr) -> Operand<'e, 'n> {
        let mut path = self.path(expr);
        let element = if path.is_empty() {
            None
        } else {
            path.push("@items".to_owned());
            self.size_at(&path)
        };
        Operand { expr, kind: self.kind(expr), size: self.size(expr), element }
    }

    fn cost(&mut self, expr: &'e Expr) -> Range {
        match &expr.kind {
            ExprKind::Literal(_) => Range::ZERO,
            ExprKind::Ident(name) => {
                let path = self.local(name).map_or_else(|| vec![name.clone()], |local| local.path.clone());
                self.known(expr).path = path;
                Range::ONE
            }
            ExprKind::Select { operand, optional: true, .. } => self.cost(operand).plus(Range::ONE),
            ExprKind::Select { operand, field, .. } => self.select(expr, operand, field),
            ExprKind::Has { operand, .. } => self.cost(operand),
            ExprKind::Call { function, target, args } => self.call(expr, function, target.as_deref(), args),
            ExprKind::And(left, right) | ExprKind::Or(left, right) => {
                let (left, right) = (self.cost(left), self.cost(right));
                Range { min: left.min, max: left.plus(right).max }
            }
            ExprKind::Conditional { condition, then, otherwise } => {
                self.conditional(expr, condition, then, otherwise)
            }
            ExprKind::List(entries) => self.literal(expr, entries, true),
            ExprKind::Map(entries) => self.literal(expr, entries, false),
            ExprKind::Comprehension(comprehension) => self.comprehension(expr, comprehension),
        }
    }

    fn select(&mut self, expr: &'e Expr, operand: &'e Expr, field: &str) -> Range {
        if let Some(name) = expr.qualified_name().filter(|name| type_identifier(name).is_some()) {
            self.known(expr).path = vec![name];
            return Range::ONE;
        }
        let mut cost = self.cost(operand);
        if matches!(self.kind(operand), Type::Map(..) | Type::Object(_) | Type::Var(_)) {
            cost = cost.plus(Range::ONE);
        }
        let mut path = self.path(operand);
        path.push(field.to_owned());
        self.known(expr).path = path;
        cost
    }

    fn call(&mut self, expr: &'e Expr, function: &str, target: Option<&'e Expr>, args: &'e [Expr]) -> Range {
        let args_cost = args.iter().fold(Range::ZERO, |sum, arg| sum.plus(self.cost(arg)));
        if let ("dyn", None, [arg]) = (function, target, args) {
            // Where the value is from is forgotten, its size is not.
            let (size, elements) = (self.size(arg), self.elements(arg));
            let known = self.known(expr);
            (known.size, known.elements) = (size, elements);
            return args_cost.plus(Range::ONE);
        }
        let namespaced = target
            .and_then(Expr::qualified_name)
            .map(|prefix| format!("{prefix}.{function}"))
            .filter(|name| signatures::lookup(name).is_some_and(|overloads| !overloads[0].member));
        let (function, target) = match &namespaced {
            Some(name) => (name.as_str(), None),
            None => (function, target),
        };
        let target_cost = target.map_or(Range::ZERO, |target| self.cost(target));
        let target_operand = target.map(|target| self.operand(target));
        let operands: Vec<Operand<'e, 'n>> = args.iter().map(|arg| self.operand(arg)).collect();
        let call = calls::estimate(function, target_operand.as_ref(), &operands);
        let mut size = call.size;
        if let ("_[_]", [container, _]) = (function, args) {
            let mut path = self.path(container);
            let is_list = matches!(self.kind(container), Type::List(_));
            path.push(if is_list { "@items" } else { "@values" }.to_owned());
            size = self.elements(container).map(|elements| elements.values);
            self.known(expr).path = path;
        }
        if let ("_+_", [left, right]) = (function, args) {
            self.known(expr).elements = union(self.elements(left), self.elements(right));
        }
        if size.is_some() {
            self.known(expr).size = size;
        }
        target_cost.plus(args_cost).plus(call.cost)
    }

    fn conditional(
        &mut self,
        expr: &'e Expr,
        condition: &'e Expr,
        then: &'e Expr,
        otherwise: &'e Expr,
    ) -> Range {
        let condition = self.cost(condition);
        let branches = self.cost(then).union(self.cost(otherwise));
        let size = self.size_or_unknown(then).union(self.size_or_unknown(otherwise));
        let elements = union(self.elements(then), self.elements(otherwise));
        let known = self.known(expr);
        known.size = Some(size);
        known.elements = elements;
        condition.plus(branches)
    }

    fn literal(&mut self, expr: &'e Expr, entries: &'e [Entry], is_list: bool) -> Range {
        let mut cost = Range::fixed(if is_list { LIST } else { MAP });
        let (mut keys, mut values): (Option<Range>, Option<Range>) = (None, None);
        for entry in entries {
            if let Some(key) = &entry.key {
                cost = cost.plus(self.cost(key));
                let size = self.size_or_unknown(key);
                keys = Some(keys.map_or(size, |keys| keys.union(size)));
            }
            cost = cost.plus(self.cost(&entry.value));
            let size = self.size_or_unknown(&entry.value);
            values = Some(values.map_or(size, |values| values.union(size)));
        }
        let keys = if is_list { Range::ONE } else { keys.unwrap_or(Range::ZERO) };
        self.known(expr).elements = Some(Elements { is_list, keys, values: values.unwrap_or(Range::ZERO) });
        cost
    }

    fn comprehension(&mut self, expr: &'e Expr, comprehension: &'e Comprehension) -> Range {
        let Comprehension { kind, range, variable, second, filter, body } = comprehension;
        let mut cost = self.cost(range);
        if matches!(kind, Loop::OptMap | Loop::OptFlatMap) {
            return self.optional(expr, comprehension, cost);
        }
        let depth = self.locals.len();
        self.bind_elements(range, variable, second.as_deref());
        let filter_cost = filter.as_ref().map(|filter| self.cost(filter));
        let body_cost = self.cost(body);
        let body_size = self.size_or_unknown(body);
        let element_size = self.local(variable).and_then(|local| local.size);
        let element_size = element_size.or_else(|| self.size_at(&self.local(variable)?.path));
        self.locals.truncate(depth);
        let (init, each, result) = loop_costs(*kind, body_cost, filter_cost);
        let count = self.size_or_unknown(range);
        cost = cost.plus(init).plus(result).plus(count.times(each));
        let made = match kind {
            Loop::Map => Some(body_size),
            Loop::Filter => Some(element_size.unwrap_or(Range::UNKNOWN)),
            _ => None,
        };
        let known = match kind {
            Loop::All | Loop::Exists | Loop::ExistsOne => {
                Known { size: Some(Range::ONE), ..Known::default() }
            }
            Loop::SortBy => {
                let by_text = matches!(self.kind(body), Type::String | Type::Bytes);
                let sorted = calls::sort(count, by_text);
                cost = cost.plus(sorted.cost);
                Known { size: sorted.size, ..Known::default() }
            }
            _ => Known {
                size: Some(count),
                elements: made.map(|values| Elements {
                    is_list: true,
                    keys: Range::ONE,
                    values: Range { min: 0, max: values.max },
                }),
                ..Known::default()
            },
        };
        *self.known(expr) = known;
        cost
    }

    fn bind_elements(&mut self, range: &'e Expr, variable: &'e str, second: Option<&'e str>) {
        let elements = self.elements(range);
        let is_list =
            elements.map_or_else(|| matches!(self.kind(range), Type::List(_)), |elements| elements.is_list);
        let mut bind = |name: &'e str, step: &str, size: Option<Range>| {
            let mut path = self.path(range);
            path.push(step.to_owned());
            self.locals.push((name, Known { path, size, elements: None }));
        };
        let (keys, values) = (elements.map(|e| e.keys), elements.map(|e| e.values));
        match (second, is_list) {
            (None, true) => bind(variable, "@items", values),
            (None, false) => bind(variable, "@keys", keys),
            (Some(second), is_list) => {
                bind(variable, if is_list { "@indices" } else { "@keys" }, keys);
                bind(second, if is_list { "@items" } else { "@values" }, values);
            }
        }
    }

    /// `target.hasValue() ? f(target.value()) : optional.none()`, with a variable bound.
    fn optional(&mut self, expr: &'e Expr, comprehension: &'e Comprehension, target: Range) -> Range {
        // Where the value is from is forgotten, and with it its size.
        self.locals.push((&comprehension.variable, Known::default()));
        let body = self.cost(&comprehension.body);
        self.locals.pop();
        let call = target.plus(Range::ONE);
        // The bound value is an empty loop over an empty list.
        let bound = Range::fixed(LIST).plus(call).plus(body);
        let wrapped = if comprehension.kind == Loop::OptMap { bound.plus(Range::ONE) } else { bound };
        let size = self.size(&comprehension.body).unwrap_or(Range::UNKNOWN);
        self.known(expr).size = is_scalar(&self.kind(&comprehension.body)).then_some(size);
        call.plus(wrapped.union(Range::ONE))
    }
}

const LIST: u64 = 10;
const MAP: u64 = 30;

/// The costs of a loop at its start, in each round and at its end.
fn loop_costs(kind: Loop, body: Range, filter: Option<Range>) -> (Range, Range, Range) {
    let either = |then: Range| match filter {
        Some(condition) => condition.plus(then.union(Range::ONE)),
        None => then,
    };
    let fixed = Range::fixed;
    match kind {
        // The accumulator is read to go on, and again to be combined.
        Loop::All => {
            (Range::ZERO, fixed(2).plus(Range { min: 1, max: body.max.saturating_add(1) }), Range::ONE)
        }
        Loop::Exists => {
            (Range::ZERO, fixed(3).plus(Range { min: 1, max: body.max.saturating_add(1) }), Range::ONE)
        }
        Loop::ExistsOne => (Range::ZERO, body.plus(Range { min: 1, max: 2 }), fixed(2)),
        Loop::Map => (fixed(LIST), either(fixed(LIST + 2).plus(body)), Range::ONE),
        Loop::Filter => (fixed(LIST), body.plus(fixed(LIST + 3).union(Range::ONE)), Range::ONE),
        Loop::TransformMap => (fixed(MAP), either(fixed(3).plus(body)), Range::ONE),
        Loop::TransformMapEntry => (fixed(MAP), either(fixed(2).plus(body)), Range::ONE),
        // A binding of the list, and a loop that makes the keys.
        Loop::SortBy => (fixed(LIST + 1 + 1 + LIST), fixed(LIST + 2).plus(body), Range::ONE),
        Loop::OptMap | Loop::OptFlatMap => (Range::ZERO, body, Range::ZERO),
    }
}

fn union(a: Option<Elements>, b: Option<Elements>) -> Option<Elements> {
    let (a, b) = (a?, b?);
    Some(Elements { is_list: a.is_list, keys: a.keys.union(b.keys), values: a.values.union(b.values) })
}

fn literal_size(expr: &Expr) -> Option<Range> {
    let size = match &expr.kind {
        ExprKind::Literal(Literal::String(text)) => text.chars().count(),
        ExprKind::Literal(Literal::Bytes(bytes)) => bytes.len(),
        ExprKind::Literal(_) => 1,
        ExprKind::List(entries) | ExprKind::Map(entries) => entries.len(),
        _ => return None,
    };
    Some(Range::fixed(size as u64))
}

fn is_scalar(kind: &Type<'_>) -> bool {
    match kind {
        Type::Bool | Type::Double | Type::Duration | Type::Int | Type::Timestamp | Type::Uint => true,
        Type::Optional(inner) => is_scalar(inner),
        _ => false,
    }
}
