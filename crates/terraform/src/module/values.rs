//! Files of values: `name = value`, in HCL.

use hcl_edit::{
    expr::{Expression, ObjectKey},
    structure::{Attribute, Body},
    template::{Element, Template},
    visit::{self, Visit},
};
use serde_json::{Map, Value};

use super::hcl::{parse, without_mark};

/// The values of a file as far as they are literals, each text as Terraform reads it; nothing where it is no HCL.
pub(crate) fn values(text: &str) -> Option<Value> {
    let body: Body = parse(without_mark(text).0).ok()?;
    let named = |attribute: &Attribute| (attribute.key.to_string(), value(&attribute.value));
    Some(Value::Object(body.attributes().map(named).collect()))
}

fn value(expression: &Expression) -> Value {
    match expression {
        Expression::String(text) => Value::from(text.as_str()),
        // Each digit as it is written: no number of any size loses one.
        Expression::Number(number) => Value::from(number.to_string().trim()),
        Expression::Array(items) => items.iter().map(value).collect(),
        Expression::Object(fields) => {
            let named = fields.iter().map(|(key, field)| (name(key), value(field.expr())));
            Value::Object(named.collect::<Map<_, _>>())
        }
        Expression::StringTemplate(template) => {
            literals(|texts| visit::visit_string_template(texts, template))
        }
        Expression::HeredocTemplate(heredoc) => {
            let whole = text(&heredoc.template);
            whole.lines().map(|line| Value::from(line.trim())).chain([Value::from(whole.as_str())]).collect()
        }
        other => literals(|texts| visit::visit_expr(texts, other)),
    }
}

fn name(key: &ObjectKey) -> String {
    match key {
        ObjectKey::Ident(name) => name.to_string(),
        ObjectKey::Expression(Expression::String(name)) => name.to_string(),
        ObjectKey::Expression(_) => String::new(),
    }
}

/// Text of a template without its interpolations.
fn text(template: &Template) -> String {
    let literal = |element: &Element| match element {
        Element::Literal(text) => Some(text.to_string()),
        Element::Interpolation(_) | Element::Directive(_) => None,
    };
    template.iter().filter_map(literal).collect()
}

/// All literals in an expression that is none itself.
fn literals(visit: impl FnOnce(&mut Texts)) -> Value {
    let mut texts = Texts(Vec::new());
    visit(&mut texts);
    Value::Array(texts.0)
}

struct Texts(Vec<Value>);

impl Visit for Texts {
    fn visit_string(&mut self, node: &hcl_edit::Decorated<String>) {
        self.0.push(Value::from(node.as_str()));
    }
    fn visit_literal(&mut self, node: &hcl_edit::repr::Spanned<String>) {
        self.0.push(Value::from(node.as_str()));
    }
    fn visit_number(&mut self, node: &hcl_edit::Formatted<hcl_edit::Number>) {
        self.0.push(Value::from(node.to_string().trim()));
    }
}
