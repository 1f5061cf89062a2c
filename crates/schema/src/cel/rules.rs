//! The rules of a schema (`x-kubernetes-validations`): compiled onto its nodes, and checked
//! against objects.

use serde_json::Value;

use crate::cel::budget::{Budget, Cost, Exhausted};
use crate::cel::eval::evaluate;
use crate::cel::program::{CompileError, Expected, Program};
use crate::cel::types::Type;
use crate::cel::value::{EvalError, Evaluated, Val};
use crate::compile::field_path;
use crate::compile::raw::{Props, RawRule};
use crate::error::{FieldError, FieldErrorKind};
use crate::go::regexp::CompiledPattern;
use crate::node::{Kind, Node};
use crate::path::{Segment, Trail};
use crate::validate::{Correlated, Errors, MapList};

/// A message longer than this is not used; an API server's bound.
const MAX_MESSAGE: usize = 5 * 1024;

/// One rule. It is kept even if it does not compile, since defaults are validated, and tell
/// about it, before rules are evaluated.
#[derive(Debug)]
pub(crate) struct Rule {
    pub(super) source: RawRule,
    pub(super) program: Result<Program, RuleError>,
    pub(super) message: Option<Result<Program, RuleError>>,
    /// The path of the error below the value, if it is not at the value itself.
    field_path: Vec<Segment>,
}

impl Rule {
    /// Bytes of all its texts.
    pub fn text(&self) -> usize {
        let RawRule { rule, message, message_expression, field_path, .. } = &self.source;
        [rule, message, message_expression, field_path].iter().map(|text| text.len()).sum()
    }

    /// The patterns that are written out in it.
    pub fn patterns(&self) -> impl Iterator<Item = (&str, &CompiledPattern)> {
        let programs = self.program.iter().chain(self.message.iter().flatten());
        programs.flat_map(Program::patterns)
    }
}

#[derive(Debug, thiserror::Error)]
pub(super) enum RuleError {
    /// The schema the rule is on has no type that rules can see.
    #[error("unable to convert structural schema to CEL declarations")]
    Untyped,
    #[error("{}", detail(.0, "cel expression", ""))]
    Rule(CompileError),
    #[error("{}", detail(.0, "messageExpression", "messageExpression "))]
    Message(CompileError),
}

fn detail(error: &CompileError, subject: &str, prefix: &str) -> String {
    match error {
        CompileError::Issues { .. } => format!("{prefix}{error}"),
        CompileError::Pattern(_) | CompileError::Constant(_) => error.to_string(),
        CompileError::ResultType(_) => format!("{subject} {error}"),
    }
}

/// Compiles the rules of `props` onto `node` and all below. The root is a resource.
pub(crate) fn attach(node: &mut Node, props: &Props, is_root: bool) {
    let resource = is_root || node.embedded_resource;
    node.rules = props.validations.iter().map(|rule| compile(rule, node, resource)).collect();
    let mut has_rules = !node.rules.is_empty();
    if let (Some(node), Some(props)) = (&mut node.items, props.items_schema()) {
        attach(node, props, false);
        has_rules |= node.has_rules;
    }
    if let (Some(crate::node::Additional::Schema(node)), Some(props)) =
        (&mut node.additional, props.additional_schema())
    {
        attach(node, props, false);
        has_rules |= node.has_rules;
    }
    for (name, node) in &mut node.properties {
        if let Some(props) = props.properties.get(name) {
            attach(node, props, false);
            has_rules |= node.has_rules;
        }
    }
    node.has_rules = has_rules;
}

fn compile(source: &RawRule, node: &Node, resource: bool) -> Rule {
    let optional = source.optional_old_self.unwrap_or_default();
    let variables = Type::of(node, resource).map(|t| {
        let old = if optional { Type::optional(t.clone()) } else { t.clone() };
        [("self", t), ("oldSelf", old)]
    });
    let program = match &variables {
        Some(variables) => {
            Program::compile(&source.rule, Expected::Bool, variables, node, resource).map_err(RuleError::Rule)
        }
        None => Err(RuleError::Untyped),
    };
    let message = match &variables {
        Some(variables) if program.is_ok() && !source.message_expression.is_empty() => Some(
            Program::compile(&source.message_expression, Expected::String, variables, node, resource)
                .map_err(RuleError::Message),
        ),
        _ => None,
    };
    let field_path = field_path::parse(&source.field_path, node).unwrap_or_default();
    Rule { source: source.clone(), program, message, field_path }
}

/// Checks the rules of a whole object.
pub(crate) fn check(
    node: &Node,
    new: &Value,
    old: Option<&Value>,
    correlated: Option<&Correlated<'_>>,
    budget: &mut Budget,
    errors: &mut Vec<FieldError>,
) {
    let place = Place { node, trail: Trail::ROOT, new, old, is_root: true };
    let ratchet = Ratchet { current: correlated, nearest: None };
    // Being stopped is told by an error already pushed.
    let mut walk = Walk { budget, errors: Errors::default() };
    let _ = walk.visit(&place, ratchet);
    errors.extend(walk.errors.into_inner());
}

/// Rules are no longer run: they cost too much, or enough was found.
struct Stopped;

/// A node, and the values it applies to.
#[derive(Clone, Copy)]
struct Place<'a> {
    node: &'a Node,
    trail: Trail<'a>,
    new: &'a Value,
    old: Option<&'a Value>,
    is_root: bool,
}

/// Whether what is wrong here was wrong before: the value's old self, or that of the nearest
/// value above that has one, decides.
#[derive(Clone, Copy)]
struct Ratchet<'c, 'a> {
    current: Option<&'c Correlated<'a>>,
    nearest: Option<&'c Correlated<'a>>,
}

impl Ratchet<'_, '_> {
    fn forgives(&self) -> bool {
        self.current.or(self.nearest).is_some_and(Correlated::is_unchanged)
    }
}

struct Walk<'b> {
    budget: &'b mut Budget,
    errors: Errors,
}

impl Walk<'_> {
    fn visit(&mut self, place: &Place<'_>, ratchet: Ratchet<'_, '_>) -> Result<(), Stopped> {
        if place.new.is_null() || !place.node.has_rules {
            return Ok(());
        }
        self.rules(place, ratchet)?;
        match place.new {
            Value::Array(elements) => self.elements(place, elements, ratchet),
            Value::Object(members) => {
                let old = place.old.and_then(Value::as_object);
                if let Some(schema) = place.node.additional_schema() {
                    for (name, member) in members {
                        let old = old.and_then(|old| old.get(name));
                        self.member(place, name, schema, place.trail.key(name), (member, old), ratchet)?;
                    }
                }
                for (name, member) in members {
                    if let Some(schema) = place.node.properties.get(name) {
                        let old = old.and_then(|old| old.get(name));
                        self.member(place, name, schema, place.trail.field(name), (member, old), ratchet)?;
                    }
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn member(
        &mut self,
        parent: &Place<'_>,
        name: &str,
        node: &Node,
        trail: Trail<'_>,
        (new, old): (&Value, Option<&Value>),
        ratchet: Ratchet<'_, '_>,
    ) -> Result<(), Stopped> {
        if !node.has_rules {
            return Ok(());
        }
        let place = Place { node, trail, new, old: old.filter(|old| !old.is_null()), is_root: false };
        if ratchet.current.is_none() {
            return self.visit(&place, ratchet);
        }
        // Old and new are of one kind by construction, so a change of these is invisible.
        if parent.is_root && matches!(name, "apiVersion" | "kind") {
            return self.visit(&place, Ratchet { current: None, nearest: None });
        }
        let child = ratchet.current.and_then(|current| current.key(name));
        self.visit(&place, Ratchet { current: child.as_ref(), nearest: ratchet.current })
    }

    fn elements(
        &mut self,
        place: &Place<'_>,
        elements: &[Value],
        ratchet: Ratchet<'_, '_>,
    ) -> Result<(), Stopped> {
        let Some(items) = place.node.items.as_deref().filter(|items| items.has_rules) else { return Ok(()) };
        let old = place.old.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let old = MapList::new(place.node, old);
        for (index, new) in elements.iter().enumerate() {
            let place = Place {
                node: items,
                trail: place.trail.index(index),
                new,
                old: old.get(new),
                is_root: false,
            };
            match ratchet.current {
                None => self.visit(&place, ratchet)?,
                Some(current) => {
                    let child = current.index(index);
                    self.visit(&place, Ratchet { current: child.as_ref(), nearest: Some(current) })?;
                }
            }
        }
        Ok(())
    }

    fn rules(&mut self, place: &Place<'_>, ratchet: Ratchet<'_, '_>) -> Result<(), Stopped> {
        let resource = place.is_root || place.node.embedded_resource;
        for rule in &place.node.rules {
            if self.errors.is_enough() {
                return Err(Stopped);
            }
            self.budget.look().map_err(|Exhausted| self.exhausted(place))?;
            let program = match &rule.program {
                Ok(program) => program,
                Err(error) => {
                    self.fail(place, format!("rule compile error: {error}"));
                    continue;
                }
            };
            let optional = rule.source.optional_old_self.unwrap_or_default();
            if program.uses_old_self && place.old.is_none() && !optional {
                continue;
            }
            let context = Context { place, resource };
            let cost = self.budget.begin();
            let result = context.evaluate(program, optional, &cost);
            self.pay(place, &cost, &result, &rule.source)?;
            match result {
                Ok(Val::Bool(true)) => {}
                Ok(_) => self.violated(&context, rule, program, ratchet)?,
                Err(error) => self.failed(place, &error, &rule.source),
            }
        }
        Ok(())
    }

    fn fail(&mut self, place: &Place<'_>, detail: impl Into<String>) {
        let kind = place.node.kind.map_or("", Kind::name);
        self.errors.push(FieldError::invalid(&place.trail.to_path(), kind, detail));
    }

    fn pay(
        &mut self,
        place: &Place<'_>,
        cost: &Cost,
        result: &Evaluated<'_>,
        rule: &RawRule,
    ) -> Result<(), Stopped> {
        if matches!(result, Err(EvalError::CostLimit)) {
            let detail = format!(
                "'{}': no further validation rules will be run due to call cost exceeds limit for rule: {}",
                EvalError::CostLimit,
                rule_text(rule)
            );
            self.fail(place, detail);
            return Err(Stopped);
        }
        self.budget.pay(cost).map_err(|Exhausted| self.exhausted(place))
    }

    fn exhausted(&mut self, place: &Place<'_>) -> Stopped {
        self.fail(
            place,
            "validation failed due to running out of cost budget, no further validation rules will be run",
        );
        Stopped
    }

    fn failed(&mut self, place: &Place<'_>, error: &EvalError, rule: &RawRule) {
        let text = rule_text(rule);
        let detail = match error {
            EvalError::NoSuchOverload(_) => format!(
                "'{error}': call arguments did not match a supported operator, function or macro signature for rule: {text}"
            ),
            error => format!("{error} evaluating rule: {text}"),
        };
        self.fail(place, detail);
    }

    fn violated(
        &mut self,
        context: &Context<'_, '_>,
        rule: &Rule,
        program: &Program,
        ratchet: Ratchet<'_, '_>,
    ) -> Result<(), Stopped> {
        let place = context.place;
        let message = match &rule.message {
            Some(Ok(message)) => {
                let cost = self.budget.begin();
                let result = context.evaluate(message, false, &cost);
                self.pay(place, &cost, &result, &rule.source)?;
                result.ok().and_then(|value| usable_message(&value))
            }
            _ => None,
        };
        if !program.uses_old_self && ratchet.forgives() {
            return Ok(());
        }
        let message = message.unwrap_or_else(|| {
            if rule.source.message.is_empty() {
                format!("failed rule: {}", rule_text(&rule.source))
            } else {
                rule.source.message.trim().to_owned()
            }
        });
        let mut path = place.trail.to_path();
        for segment in &rule.field_path {
            path = path.child(segment.clone());
        }
        let value = match place.node.kind {
            Some(Kind::Object | Kind::Array) => None,
            _ => Some(place.new.clone()),
        };
        self.errors.push(match rule.source.reason.as_deref() {
            Some("FieldValueForbidden") => FieldError::forbidden(&path, message),
            Some("FieldValueRequired") => FieldError::required(&path, message),
            Some("FieldValueDuplicate") => FieldError::new(&path, FieldErrorKind::Duplicate, value, ""),
            _ => FieldError::new(&path, FieldErrorKind::Invalid, value, message),
        });
        Ok(())
    }
}

/// The variables of a rule's expressions.
struct Context<'p, 'a> {
    place: &'p Place<'a>,
    resource: bool,
}

impl<'a> Context<'_, 'a> {
    /// `oldSelf` is an optional only for a rule that asked for it; its message expression
    /// sees the plain value, or none.
    fn evaluate<'r>(&self, program: &'r Program, optional_old: bool, cost: &Cost) -> Evaluated<'r>
    where
        'a: 'r,
    {
        let node = self.place.node;
        let value =
            |value: &'a Value| -> Evaluated<'r> { Val::of_resource(value, node, self.resource, cost) };
        let mut variables = Vec::with_capacity(4);
        variables.push(("self", value(self.place.new)?));
        if program.uses_old_self {
            match (self.place.old.map(value).transpose()?, optional_old) {
                (Some(old), true) => variables.push(("oldSelf", Val::some(old))),
                (None, true) => variables.push(("oldSelf", Val::Optional(None))),
                (Some(old), false) => variables.push(("oldSelf", old)),
                (None, false) => {}
            }
        }
        evaluate(program, variables, cost)
    }
}

fn rule_text(rule: &RawRule) -> &str {
    if rule.message.is_empty() { rule.rule.trim() } else { rule.message.trim() }
}

fn usable_message(value: &Val<'_>) -> Option<String> {
    let Val::String(text) = value else { return None };
    let text = text.trim();
    let usable = !text.is_empty() && text.len() <= MAX_MESSAGE && !text.contains('\n');
    usable.then(|| text.to_owned())
}
