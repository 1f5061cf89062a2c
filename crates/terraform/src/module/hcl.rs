//! Modules written in HCL.

use hcl_edit::{
    Span as _,
    expr::{Expression, ObjectKey},
    structure::{Block, Body},
};

use serde_json::Value;

use super::{BackendBlock, Collector, Declaration, Problem};

/// Terraform lets a text begin with one; the parser does not.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// The text as the parser wants it, and how many bytes that took off its beginning.
pub(super) fn without_mark(text: &str) -> (&str, usize) {
    let rest = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
    (rest, text.len() - rest.len())
}

pub(super) fn parse(text: &str) -> Result<Body, Problem> {
    let number = |number: usize| u32::try_from(number).ok();
    hcl_edit::parser::parse_body(text).map_err(|error| Problem {
        message: error.message().to_owned(),
        file: None,
        line: number(error.location().line()),
        column: number(error.location().column()),
    })
}

pub(super) fn collect(text: &str, to: &mut Collector) -> Result<(), Problem> {
    let (text, _) = without_mark(text);
    for block in parse(text)?.blocks() {
        top(block, text, to);
    }
    Ok(())
}

fn top(block: &Block, text: &str, to: &mut Collector) {
    let label = |index: usize| block.labels.get(index).map_or("", |label| label.as_str());
    match block.ident.as_str() {
        "variable" => drop(to.declared.variables.insert(label(0).to_owned(), variable(&block.body, text))),
        "output" => drop(
            to.declared.outputs.insert(label(0).to_owned(), flag(&block.body, "sensitive").unwrap_or(false)),
        ),
        "terraform" => settings(&block.body, text, to),
        "provider" => to.configures(label(0), word(&block.body, "alias")),
        "resource" | "data" | "ephemeral" => to.object(label(0), provider_of(&block.body)),
        "check" => {
            for data in block.body.get_blocks("data") {
                to.object(data.labels.first().map_or("", |label| label.as_str()), provider_of(&data.body));
            }
        }
        "import" => import(&block.body, to),
        "module" => to.calls_module(),
        // What was removed or moved needs its provider only while the state still holds it.
        "locals" | "moved" | "removed" => {}
        _ => to.unknown_block(),
    }
}

fn variable(body: &Body, text: &str) -> Declaration {
    let type_text = body.get_attribute("type").and_then(|attribute| {
        let span = attribute.value.span()?;
        Some(text.get(span)?.trim().to_owned())
    });
    Declaration {
        required: !body.has_attribute("default"),
        sensitive: flag(body, "sensitive").unwrap_or(false),
        ephemeral: flag(body, "ephemeral").unwrap_or(false),
        nullable: flag(body, "nullable").unwrap_or(true),
        type_text,
    }
}

fn settings(body: &Body, text: &str, to: &mut Collector) {
    if let Some(constraint) = word(body, "required_version") {
        to.requires_version(constraint);
    }
    for block in body.blocks() {
        match block.ident.as_str() {
            "required_providers" => {
                for attribute in block.body.attributes() {
                    to.requires(attribute.key.as_str(), source_of(&attribute.value));
                }
            }
            "backend" => to.has_backend(backend(block, text)),
            "cloud" => to.has_cloud(block.span().and_then(|span| line_of(text, span.start))),
            "encryption" => to.has_encryption(block.span().and_then(|span| line_of(text, span.start))),
            _ => to.unknown_block(),
        }
    }
}

fn backend(block: &Block, text: &str) -> BackendBlock {
    let literal =
        |value: &Expression| value.as_str().map(Value::from).or_else(|| value.as_bool().map(Value::from));
    let settings = block.body.attributes();
    let settings = settings.map(|setting| (setting.key.as_str().to_owned(), literal(&setting.value)));
    let blocks = block.body.blocks().map(|inner| (inner.ident.as_str().to_owned(), None));
    BackendBlock {
        kind: block.labels.first().map_or("", |label| label.as_str()).to_owned(),
        text: block.span().and_then(|span| text.get(span)).unwrap_or_default().to_owned(),
        settings: settings.chain(blocks).collect(),
    }
}

fn source_of(requirement: &Expression) -> Option<&str> {
    requirement.as_object()?.iter().find_map(|(key, value)| {
        let key = match key {
            ObjectKey::Ident(ident) => ident.as_str(),
            ObjectKey::Expression(expression) => expression.as_str()?,
        };
        (key == "source").then(|| value.expr().as_str()).flatten()
    })
}

fn import(body: &Body, to: &mut Collector) {
    match body.get_attribute("to").and_then(|attribute| root(&attribute.value)) {
        // Into a module: its own blocks, or its call, say what it needs.
        Some("module") => {}
        Some(kind) => to.object(kind, provider_of(body)),
        None => to.unknown_block(),
    }
}

/// `aws` of `provider = aws.west`.
fn provider_of(body: &Body) -> Option<&str> {
    root(&body.get_attribute("provider")?.value)
}

/// The first name of a reference.
fn root(expression: &Expression) -> Option<&str> {
    match expression {
        Expression::Variable(name) => Some(name.as_str()),
        Expression::Traversal(traversal) => root(&traversal.expr),
        // Written in quotes before Terraform 0.12.
        Expression::String(text) => text.split('.').next(),
        _ => None,
    }
}

pub(super) fn word<'a>(body: &'a Body, name: &str) -> Option<&'a str> {
    body.get_attribute(name)?.value.as_str()
}

fn flag(body: &Body, name: &str) -> Option<bool> {
    let value = &body.get_attribute(name)?.value;
    value.as_bool().or_else(|| value.as_str()?.parse().ok())
}

fn line_of(text: &str, offset: usize) -> Option<u32> {
    let before = text.get(..offset)?;
    u32::try_from(before.bytes().filter(|byte| *byte == b'\n').count() + 1).ok()
}
