//! A checked expression, ready to be evaluated any number of times.

use std::collections::HashMap;

use crate::cel::ast::{Expr, ExprKind, Issues, Literal};
use crate::cel::check;
use crate::cel::cost;
use crate::cel::eval;
use crate::cel::library;
use crate::cel::parser;
use crate::cel::types::Type;
use crate::cel::value::EvalError;
use crate::go::regexp::{CompiledPattern, PatternError};
use crate::node::Node;
use crate::patterns;

#[derive(Debug)]
pub(crate) struct Program {
    pub expr: Expr,
    /// The patterns that are written out in the expression.
    patterns: HashMap<String, CompiledPattern>,
    /// True if the variable `oldSelf` occurs.
    pub uses_old_self: bool,
    /// The most one evaluation can cost, by the bounds of the schema.
    pub max_cost: u64,
}

/// The expected type of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expected {
    Bool,
    String,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum CompileError {
    #[error("compilation failed: {}", .issues.render(.source_text))]
    Issues { issues: Issues, source_text: String },
    #[error("must evaluate to a {0}")]
    ResultType(&'static str),
    #[error("program instantiation failed: {0}")]
    Pattern(PatternError),
    /// A constant that cannot be converted.
    #[error("program instantiation failed: {0}")]
    Constant(EvalError),
}

impl Program {
    /// The patterns that are written out in the expression.
    pub fn patterns(&self) -> impl Iterator<Item = (&str, &CompiledPattern)> {
        self.patterns.iter().map(|(source, compiled)| (&**source, compiled))
    }

    /// Compiles a rule or message on `node`, where `resource` says whether its values have
    /// what every resource has.
    pub fn compile<'n>(
        source: &str,
        expected: Expected,
        variables: &[(&str, Type<'n>)],
        node: &'n Node,
        resource: bool,
    ) -> Result<Self, CompileError> {
        let failed = |issues| CompileError::Issues { issues, source_text: source.to_owned() };
        let expr = parser::parse(source).map_err(|issue| failed(issue.into()))?;
        let types = check::infer(&expr, variables).map_err(failed)?;
        match (expected, types.of(&expr)) {
            (Expected::Bool, Type::Bool) | (Expected::String, Type::String) => {}
            (Expected::Bool, _) => return Err(CompileError::ResultType("bool")),
            (Expected::String, _) => return Err(CompileError::ResultType("string")),
        }
        let mut sources = Vec::new();
        let mut uses_old_self = false;
        expr.walk(&mut |expr| match &expr.kind {
            ExprKind::Ident(name) if name == "oldSelf" => uses_old_self = true,
            ExprKind::Call { function, target, args } => {
                let pattern = match (function.as_str(), target.is_some()) {
                    ("matches" | "find" | "findAll", true) => args.first(),
                    ("matches", false) => args.get(1),
                    _ => None,
                };
                if let Some(ExprKind::Literal(Literal::String(pattern))) = pattern.map(|arg| &arg.kind) {
                    sources.push(pattern.clone());
                }
            }
            _ => {}
        });
        constants(&expr)?;
        let mut patterns = HashMap::new();
        for source in sources {
            let compiled = patterns::of_schema(&source).map_err(CompileError::Pattern)?;
            patterns.insert(source, compiled);
        }
        let max_cost = cost::estimate(&expr, &types, node, resource);
        types.finish(&expr).map_err(failed)?;
        Ok(Self { expr, patterns, uses_old_self, max_cost })
    }

    /// A pattern of the expression, compiled.
    pub fn pattern(&self, pattern: &str) -> Option<&CompiledPattern> {
        self.patterns.get(pattern)
    }
}

/// Converts what is written out, as `int('5')`, to see that it can be.
fn constants(expr: &Expr) -> Result<(), CompileError> {
    let mut failed = None;
    expr.walk(&mut |expr| {
        if let ExprKind::Call { function, target: None, args } = &expr.kind
            && matches!(function.as_str(), "bool" | "bytes" | "double" | "int" | "string" | "uint")
            && let [Expr { kind: ExprKind::Literal(literal), .. }] = args.as_slice()
            && let Err(error) = library::convert(function, &eval::constant(literal))
        {
            failed = failed.take().or(Some(error));
        }
    });
    failed.map_or(Ok(()), |error| Err(CompileError::Constant(error)))
}
