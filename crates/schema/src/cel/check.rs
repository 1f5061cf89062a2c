//! The static check of a rule: every name declared, every field in the schema, every call
//! with an overload for its arguments.
//!
//! Types are inferred as cel-go does; what it leaves to run time (`dyn`) is left to run time
//! here.

use std::collections::HashMap;
use std::rc::Rc;

use crate::cel::ast::{Comprehension, Entry, Expr, ExprKind, Issue, Issues, Literal, Loop};
use crate::cel::deferred::{DeferredChecks, Typed};
use crate::cel::signatures::{self, Overload};
use crate::cel::types::{Substitution, Type, is_more_general};

/// The types found in an expression that is still where it was when it was checked.
pub(crate) struct Types<'n> {
    subst: Substitution<'n>,
    found: HashMap<*const Expr, Type<'n>>,
}

impl<'n> Types<'n> {
    /// Fails if one of the types that were asked for is too large.
    pub fn finish(&self, expr: &Expr) -> Result<(), Issues> {
        if !self.subst.is_too_large() {
            return Ok(());
        }
        let message = "the types in the expression are too large to be checked".to_owned();
        Err(Issue { position: expr.position, message }.into())
    }

    pub fn of(&self, expr: &Expr) -> Type<'n> {
        match self.found.get(&std::ptr::from_ref(expr)).map(|t| self.subst.resolve(t)) {
            Some(Type::Var(_)) | None => Type::Dyn,
            Some(t) => t,
        }
    }
}

/// The types of `expr` and of all in it, given those of the variables it may use.
pub(crate) fn infer<'n>(expr: &Expr, variables: &[(&str, Type<'n>)]) -> Result<Types<'n>, Issues> {
    let mut checker = Checker {
        scope: variables.iter().map(|(name, t)| ((*name).to_owned(), t.clone())).collect(),
        subst: Substitution::default(),
        issues: Issues::default(),
        deferred: DeferredChecks::default(),
        in_format: 0,
        found: HashMap::new(),
    };
    checker.expr(expr);
    let mut issues = checker.issues;
    if issues.is_empty() {
        issues = checker.deferred.finish(&checker.subst);
    }
    let types = Types { subst: checker.subst, found: checker.found };
    types.finish(expr)?;
    if issues.is_empty() { Ok(types) } else { Err(issues) }
}

/// The type that an identifier stands for, as in `type(x) == int`.
pub(crate) fn type_identifier(name: &str) -> Option<Type<'static>> {
    Some(match name {
        "bool" => Type::Bool,
        "bytes" => Type::Bytes,
        "double" => Type::Double,
        "google.protobuf.Duration" => Type::Duration,
        "google.protobuf.Timestamp" => Type::Timestamp,
        "int" => Type::Int,
        "list" => Type::list(Type::Dyn),
        "map" => Type::map(Type::Dyn, Type::Dyn),
        "null_type" => Type::Null,
        "string" => Type::String,
        "type" => Type::Type(Rc::new(Type::Dyn)),
        "uint" => Type::Uint,
        "optional_type" => Type::optional(Type::Dyn),
        "net.IP" => Type::Opaque(signatures::IP),
        "net.CIDR" => Type::Opaque(signatures::CIDR),
        _ => return None,
    })
}

struct Checker<'n> {
    scope: Vec<(String, Type<'n>)>,
    subst: Substitution<'n>,
    issues: Issues,
    deferred: DeferredChecks<'n>,
    /// The number of enclosing calls of `format`; literals there may mix types.
    in_format: usize,
    found: HashMap<*const Expr, Type<'n>>,
}

impl<'n> Checker<'n> {
    fn issue(&mut self, position: usize, message: String) -> Type<'n> {
        self.issues.push(Issue { position, message });
        Type::Error
    }

    fn expr(&mut self, expr: &Expr) -> Type<'n> {
        if self.subst.is_too_large() {
            return Type::Error;
        }
        let inferred = self.infer(expr);
        self.subst.weigh(&inferred);
        self.found.insert(std::ptr::from_ref(expr), inferred.clone());
        inferred
    }

    fn infer(&mut self, expr: &Expr) -> Type<'n> {
        match &expr.kind {
            ExprKind::Literal(literal) => literal_type(literal),
            ExprKind::Ident(name) => self.ident(expr, name),
            ExprKind::Select { operand, field, optional } => self.select(expr, operand, field, *optional),
            ExprKind::Has { operand, field } => {
                let target = self.expr(operand);
                self.field(expr.position, &target, field, false);
                Type::Bool
            }
            ExprKind::Call { function, target, args } => {
                self.call(expr.position, function, target.as_deref(), args)
            }
            ExprKind::And(left, right) | ExprKind::Or(left, right) => {
                self.expect(left, &Type::Bool);
                self.expect(right, &Type::Bool);
                Type::Bool
            }
            ExprKind::Conditional { condition, then, otherwise } => {
                self.conditional(expr.position, condition, then, otherwise)
            }
            ExprKind::List(entries) => self.list(entries),
            ExprKind::Map(entries) => self.map(entries),
            ExprKind::Comprehension(comprehension) => self.comprehension(expr.position, comprehension),
        }
    }

    fn expect(&mut self, expr: &Expr, expected: &Type<'n>) {
        let actual = self.expr(expr);
        if !self.subst.assign(expected, &actual) {
            let actual = self.subst.resolve(&actual);
            self.issue(expr.position, format!("expected type '{expected}' but found '{actual}'"));
        }
    }

    fn lookup(&self, name: &str) -> Option<Type<'n>> {
        if let Some((_, t)) = self.scope.iter().rev().find(|(declared, _)| declared == name) {
            return Some(t.clone());
        }
        type_identifier(name).map(|t| Type::Type(Rc::new(t)))
    }

    fn ident(&mut self, expr: &Expr, name: &str) -> Type<'n> {
        match self.lookup(name) {
            Some(t) => t,
            None => self.issue(expr.position, format!("undeclared reference to '{name}' (in container '')")),
        }
    }

    fn select(&mut self, expr: &Expr, operand: &Expr, field: &str, optional: bool) -> Type<'n> {
        if let Some(name) = expr.qualified_name()
            && let Some(t) = type_identifier(&name)
        {
            return Type::Type(Rc::new(t));
        }
        let target = self.expr(operand);
        self.field(expr.position, &target, field, optional)
    }

    /// The type of a field; an optional's fields are optional.
    fn field(&mut self, position: usize, target: &Type<'n>, field: &str, optional: bool) -> Type<'n> {
        let target = self.subst.resolve(target);
        let (target, is_optional) = match target {
            Type::Optional(inner) => (self.subst.resolve(&inner), true),
            other => (other, false),
        };
        let found = match &target {
            Type::Map(_, value) => (**value).clone(),
            Type::Object(object) => match object.field(field) {
                Some(t) => t,
                None => self.issue(position, format!("undefined field '{field}'")),
            },
            Type::Var(_) => {
                self.subst.assign(&Type::Dyn, &target);
                Type::Dyn
            }
            Type::Dyn | Type::Error => Type::Dyn,
            other => {
                let message = format!("type '{other}' does not support field selection");
                self.issue(position, message);
                Type::Dyn
            }
        };
        if is_optional || optional { Type::optional(found) } else { found }
    }

    fn call(&mut self, position: usize, function: &str, target: Option<&Expr>, args: &[Expr]) -> Type<'n> {
        let formats = usize::from(function == "format");
        self.in_format += formats;
        let called = self.call_in_scope(position, function, target, args);
        self.in_format -= formats;
        called
    }

    fn call_in_scope(
        &mut self,
        position: usize,
        function: &str,
        target: Option<&Expr>,
        args: &[Expr],
    ) -> Type<'n> {
        let mut types: Vec<Type<'n>> = match (function, target.map(|target| &target.kind), args) {
            ("format", Some(ExprKind::Literal(Literal::String(template))), [list]) => {
                vec![self.template(position, template, list)]
            }
            _ => args.iter().map(|arg| self.expr(arg)).collect(),
        };
        self.deferred.arguments(function, target.is_some(), args);
        if let Some(target) = target {
            let namespaced = target.qualified_name().map(|prefix| format!("{prefix}.{function}"));
            if let Some(name) = namespaced
                && let Some(overloads) = signatures::lookup(&name)
            {
                return self.resolve(position, &name, overloads, &types, false);
            }
            let target = self.expr(target);
            types.insert(0, target);
        }
        match signatures::lookup(function) {
            Some(overloads) => self.resolve(position, function, overloads, &types, target.is_some()),
            None => self.issue(position, format!("undeclared reference to '{function}' (in container '')")),
        }
    }

    /// The arguments of a template that is written out, to be checked against it.
    fn template(&mut self, position: usize, template: &str, list: &Expr) -> Type<'n> {
        let ExprKind::List(entries) = &list.kind else { return self.expr(list) };
        let args: Vec<Typed<'n>> =
            entries.iter().map(|entry| (entry.value.position, self.entry_value(entry))).collect();
        self.deferred.template(position, template, args);
        self.found.insert(std::ptr::from_ref(list), Type::list(Type::Dyn));
        Type::list(Type::Dyn)
    }

    fn resolve(
        &mut self,
        position: usize,
        name: &str,
        overloads: &[Overload],
        types: &[Type<'n>],
        member: bool,
    ) -> Type<'n> {
        let mut result: Option<Type<'n>> = None;
        for overload in overloads.iter().filter(|overload| overload.member == member) {
            let (expected, overload_result) = overload.instantiate(&mut self.subst);
            if !self.subst.assign_all(&expected, types) {
                continue;
            }
            let overload_result = self.subst.resolve(&overload_result);
            result = Some(match result {
                None => overload_result,
                // Several could be meant, so which one is known at run time.
                Some(first) if is_same(&first, &overload_result) => first,
                Some(_) => Type::Dyn,
            });
        }
        if let Some(result) = result {
            return result;
        }
        let mut shown = types.iter().map(|t| self.subst.resolve(t).to_string());
        let signature = if member {
            let target = shown.next().unwrap_or_default();
            format!("{target}.({})", shown.collect::<Vec<_>>().join(", "))
        } else {
            format!("({})", shown.collect::<Vec<_>>().join(", "))
        };
        self.issue(position, format!("found no matching overload for '{name}' applied to '{signature}'"))
    }

    fn conditional(&mut self, position: usize, condition: &Expr, then: &Expr, otherwise: &Expr) -> Type<'n> {
        let types = [self.expr(condition), self.expr(then), self.expr(otherwise)];
        let a = self.subst.fresh();
        if self.subst.assign_all(&[Type::Bool, a.clone(), a.clone()], &types) {
            return self.subst.resolve(&a);
        }
        let shown = types.map(|t| self.subst.resolve(&t).to_string()).join(", ");
        self.issue(position, format!("found no matching overload for '_?_:_' applied to '({shown})'"))
    }

    /// The common type of the elements of a literal; that there is one is checked later.
    fn join(&mut self, elements: Vec<Typed<'n>>) -> Type<'n> {
        let mut common: Option<Type<'n>> = None;
        for (_, next) in &elements {
            common = Some(match common {
                Some(common) if !self.subst.assign(&common, next) => Type::Dyn,
                Some(common) if is_more_general(&common, next) => common,
                _ => next.clone(),
            });
        }
        if self.in_format == 0 {
            self.deferred.uniform(elements);
        }
        common.unwrap_or_else(|| self.subst.fresh())
    }

    fn entry_value(&mut self, entry: &Entry) -> Type<'n> {
        let t = self.expr(&entry.value);
        if !entry.optional {
            return t;
        }
        match self.subst.resolve(&t) {
            Type::Optional(inner) => (*inner).clone(),
            t if t.is_dyn() => t,
            t => self
                .issue(entry.value.position, format!("expected type 'optional_type({t})' but found '{t}'")),
        }
    }

    fn list(&mut self, entries: &[Entry]) -> Type<'n> {
        let elements = entries.iter().map(|entry| (entry.value.position, self.entry_value(entry))).collect();
        Type::list(self.join(elements))
    }

    fn map(&mut self, entries: &[Entry]) -> Type<'n> {
        let (mut keys, mut values) = (Vec::new(), Vec::new());
        for entry in entries {
            if let Some(key) = &entry.key {
                keys.push((key.position, self.expr(key)));
            }
            values.push((entry.value.position, self.entry_value(entry)));
        }
        let key = self.join(keys);
        Type::map(key, self.join(values))
    }

    fn comprehension(&mut self, position: usize, comprehension: &Comprehension) -> Type<'n> {
        let Comprehension { kind, range, variable, second, filter, body } = comprehension;
        let inferred = self.expr(range);
        let range_type = self.subst.resolve(&inferred);
        let (first_type, second_type) = match kind {
            Loop::OptMap | Loop::OptFlatMap => (self.optional_range(position, &range_type), Type::Dyn),
            _ => self.iteration(range, &range_type, second.is_some()),
        };
        let depth = self.scope.len();
        self.scope.push((variable.clone(), first_type.clone()));
        if let Some(second) = second {
            self.scope.push((second.clone(), second_type));
        }
        if let Some(filter) = filter {
            self.expect(filter, &Type::Bool);
        }
        let result = self.loop_result(position, *kind, body, &first_type, &range_type);
        self.scope.truncate(depth);
        result
    }

    fn iteration(&mut self, range: &Expr, range_type: &Type<'n>, two: bool) -> (Type<'n>, Type<'n>) {
        match range_type {
            Type::List(element) if two => (Type::Int, (**element).clone()),
            Type::List(element) => ((**element).clone(), Type::Dyn),
            Type::Map(key, value) => ((**key).clone(), (**value).clone()),
            Type::Dyn | Type::Error | Type::Var(_) => {
                self.subst.assign(&Type::Dyn, range_type);
                (Type::Dyn, Type::Dyn)
            }
            other => {
                let message = format!(
                    "expression of type '{other}' cannot be range of a comprehension (must be list, map, or dynamic)"
                );
                self.issue(range.position, message);
                (Type::Error, Type::Error)
            }
        }
    }

    fn optional_range(&mut self, position: usize, range_type: &Type<'n>) -> Type<'n> {
        match range_type {
            Type::Optional(value) => (**value).clone(),
            t if t.is_dyn() => Type::Dyn,
            other => self.issue(
                position,
                format!("found no matching overload for 'hasValue' applied to '{other}.()'"),
            ),
        }
    }

    fn loop_result(
        &mut self,
        position: usize,
        kind: Loop,
        body: &Expr,
        element: &Type<'n>,
        range: &Type<'n>,
    ) -> Type<'n> {
        match kind {
            Loop::All | Loop::Exists | Loop::ExistsOne => {
                self.expect(body, &Type::Bool);
                Type::Bool
            }
            Loop::Filter => {
                self.expect(body, &Type::Bool);
                Type::list(element.clone())
            }
            Loop::Map => Type::list(self.expr(body)),
            Loop::TransformMap => Type::map(element.clone(), self.expr(body)),
            Loop::TransformMapEntry => {
                let (key, value) = (self.subst.fresh(), self.subst.fresh());
                let map = Type::map(key, value);
                let entry = self.expr(body);
                if self.subst.assign(&map, &entry) {
                    return self.subst.resolve(&map);
                }
                let entry = self.subst.resolve(&entry);
                self.issue(
                    position,
                    format!("found no matching overload for 'cel.@mapInsert' applied to '(map(dyn, dyn), {entry})'"),
                )
            }
            Loop::SortBy => {
                let key = self.expr(body);
                self.sort_key(position, range, &key);
                range.clone()
            }
            Loop::OptMap => Type::optional(self.expr(body)),
            Loop::OptFlatMap => {
                let expected = Type::optional(self.subst.fresh());
                self.expect(body, &expected);
                self.subst.resolve(&expected)
            }
        }
    }

    fn sort_key(&mut self, position: usize, range: &Type<'n>, key: &Type<'n>) {
        let key = self.subst.resolve(key);
        let sortable = matches!(
            key,
            Type::Dyn
                | Type::Error
                | Type::Var(_)
                | Type::Bool
                | Type::Int
                | Type::Uint
                | Type::Double
                | Type::String
                | Type::Bytes
                | Type::Duration
                | Type::Timestamp
        );
        if !sortable {
            let message = format!(
                "found no matching overload for '@sortByAssociatedKeys' applied to '{range}.(list({key}))'"
            );
            self.issue(position, message);
        }
    }
}

fn is_same(a: &Type<'_>, b: &Type<'_>) -> bool {
    is_more_general(a, b) && is_more_general(b, a)
}

fn literal_type(literal: &Literal) -> Type<'static> {
    match literal {
        Literal::Null => Type::Null,
        Literal::Bool(_) => Type::Bool,
        Literal::Int(_) => Type::Int,
        Literal::Uint(_) => Type::Uint,
        Literal::Double(_) => Type::Double,
        Literal::String(_) => Type::String,
        Literal::Bytes(_) => Type::Bytes,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::Schema;

    /// The errors of a rule; none if it compiles.
    fn told(rule: &str) -> String {
        let schema = json!({"type": "object", "x-kubernetes-validations": [{"rule": rule}]});
        Schema::compile(&schema).map_or_else(|errors| errors[0].detail.clone(), |_| String::new())
    }

    /// Each step doubles the type: the thirtieth would have a billion parts.
    #[test]
    fn types_are_bounded() {
        let doubled =
            |steps: usize| told(&format!("optional.of(0){}.hasValue()", ".optMap(a, {a: a})".repeat(steps)));
        assert_eq!(doubled(4), "");
        for steps in [30, 120] {
            assert!(doubled(steps).contains("too large to be checked"), "{}", doubled(steps));
        }
        // The same by what variables stand for, which is found out from the outside in.
        let mut rule = "true".to_owned();
        for n in (0..40).rev() {
            let next = n + 1;
            rule = format!("optional.of([]).optMap(a{n}, {rule} && a{n} == [{{a{next}: a{next}}}])");
            rule = format!("{rule}.hasValue()");
        }
        let rule = format!("optional.of([]).optMap(a40, {rule}).hasValue()");
        let _ = told(&rule);
    }

    /// An element of a literal binds a variable; none of the bindings before it is copied.
    #[test]
    fn long_literals_are_checked() {
        let lists = vec!["[]"; 20_000].join(",");
        assert_eq!(told(&format!("[{lists}].size() > 0")), "");
    }

    #[test]
    fn mistakes_are_told_in_bounds() {
        let names: Vec<String> = (0..5_000).map(|n| format!("x{n}")).collect();
        let rule = names.join("&&");
        let said = told(&rule);
        assert_eq!(said.matches("undeclared reference").count(), 100);
        assert!(said.ends_with("\n4900 more errors were truncated"), "{}", &said[said.len() - 200..]);
        assert!(said.len() < 100 * 2_500, "{}", said.len());
        let last = said.lines().rev().skip(1).take(2).collect::<Vec<_>>();
        let (dots, line) = (last[0], last[1]);
        assert!(line[dots.len() - 1..].starts_with("x99&&"), "{line} {dots}");

        let long = format!("'{}' == ''", "x".repeat(100_000));
        assert!(told(&long).contains("expression code point size exceeds limit"), "{:.300}", told(&long));

        // A default is wrong with each of its elements.
        let rule = json!([{"rule": rule}]);
        let items = json!({"type": "string", "x-kubernetes-validations": rule});
        let default = vec!["a"; 2_000];
        let list = json!({"type": "array", "items": items, "default": default});
        let errors = Schema::compile(&json!({"type": "object", "properties": {"l": list}})).unwrap_err();
        let bytes: usize = errors.iter().map(|error| error.detail.len()).sum();
        assert!(bytes < 20 << 20, "{bytes}");
    }
}
