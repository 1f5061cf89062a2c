//! Calls that are not calls: the macros of CEL and of its extensions.

use crate::cel::ast::{Comprehension, Expr, ExprKind, Issue, Loop};

/// `has(a.b)`, or a call.
pub(super) fn global_call(function: String, mut args: Vec<Expr>, position: usize) -> Result<Expr, Issue> {
    if function == "has" && args.len() == 1 {
        let argument = args.remove(0);
        let argument_position = argument.position;
        return match argument.kind {
            ExprKind::Select { operand, field, optional: false } => {
                Ok(Expr::new(position, ExprKind::Has { operand, field }))
            }
            _ => Err(Issue {
                position: argument_position,
                message: "invalid argument to has() macro".to_owned(),
            }),
        };
    }
    Ok(Expr::new(position, ExprKind::Call { function, target: None, args }))
}

/// `range.all(x, p)` and its kin, or a call on a target.
pub(super) fn member_call(
    target: Expr,
    function: String,
    args: Vec<Expr>,
    position: usize,
) -> Result<Expr, Issue> {
    let Some(shape) = shape(&function, args.len()) else {
        let target = Some(Box::new(target));
        return Ok(Expr::new(position, ExprKind::Call { function, target, args }));
    };
    let mut args = args.into_iter();
    let mut missing = || Issue { position, message: format!("too few arguments of {function}()") };
    let variable = variable(args.next().ok_or_else(&mut missing)?)?;
    let second = if shape.two_variables {
        let argument = args.next().ok_or_else(&mut missing)?;
        let at = argument.position;
        let name = self::variable(argument)?;
        if name == variable {
            return Err(Issue { position: at, message: format!("duplicate variable name: {name}") });
        }
        Some(name)
    } else {
        None
    };
    let filter = if shape.filtered { Some(args.next().ok_or_else(&mut missing)?) } else { None };
    let body = args.next().ok_or_else(&mut missing)?;
    let comprehension = Comprehension { kind: shape.kind, range: target, variable, second, filter, body };
    Ok(Expr::new(position, ExprKind::Comprehension(Box::new(comprehension))))
}

struct Shape {
    kind: Loop,
    two_variables: bool,
    filtered: bool,
}

fn shape(function: &str, args: usize) -> Option<Shape> {
    let shape = |kind, two_variables, filtered| Some(Shape { kind, two_variables, filtered });
    match (function, args) {
        ("all", 2) => shape(Loop::All, false, false),
        ("all", 3) => shape(Loop::All, true, false),
        ("exists", 2) => shape(Loop::Exists, false, false),
        ("exists", 3) => shape(Loop::Exists, true, false),
        ("exists_one" | "existsOne", 2) => shape(Loop::ExistsOne, false, false),
        ("exists_one" | "existsOne", 3) => shape(Loop::ExistsOne, true, false),
        ("map", 2) => shape(Loop::Map, false, false),
        ("map", 3) => shape(Loop::Map, false, true),
        ("filter", 2) => shape(Loop::Filter, false, false),
        ("transformList", 3) => shape(Loop::Map, true, false),
        ("transformList", 4) => shape(Loop::Map, true, true),
        ("transformMap", 3) => shape(Loop::TransformMap, true, false),
        ("transformMap", 4) => shape(Loop::TransformMap, true, true),
        ("transformMapEntry", 3) => shape(Loop::TransformMapEntry, true, false),
        ("transformMapEntry", 4) => shape(Loop::TransformMapEntry, true, true),
        ("sortBy", 2) => shape(Loop::SortBy, false, false),
        ("optMap", 2) => shape(Loop::OptMap, false, false),
        ("optFlatMap", 2) => shape(Loop::OptFlatMap, false, false),
        _ => None,
    }
}

fn variable(argument: Expr) -> Result<String, Issue> {
    match argument.kind {
        ExprKind::Ident(name) => Ok(name),
        _ => Err(Issue { position: argument.position, message: "argument must be a simple name".to_owned() }),
    }
}
