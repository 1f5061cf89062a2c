//! Expressions. Macros are nodes of their own, so that checks and evaluation see what was
//! meant instead of what cel-go expands it to.

use crate::go::text;

/// An expression and where it is in the source, in characters from its start.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Expr {
    pub position: usize,
    /// The nesting depth of the expression, itself included.
    pub depth: usize,
    pub kind: ExprKind,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Literal {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(String),
    Bytes(Vec<u8>),
}

/// An operand that may be marked `?` in a list or map literal: then it is an optional whose
/// value is taken if there is one.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    /// Only of maps.
    pub key: Option<Expr>,
    pub value: Expr,
    pub optional: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ExprKind {
    Literal(Literal),
    Ident(String),
    Select { operand: Box<Expr>, field: String, optional: bool },
    Has { operand: Box<Expr>, field: String },
    Call { function: String, target: Option<Box<Expr>>, args: Vec<Expr> },
    And(Box<Expr>, Box<Expr>),
    Or(Box<Expr>, Box<Expr>),
    Conditional { condition: Box<Expr>, then: Box<Expr>, otherwise: Box<Expr> },
    List(Vec<Entry>),
    Map(Vec<Entry>),
    Comprehension(Box<Comprehension>),
}

/// A macro that binds variables to the elements of its range.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Comprehension {
    pub kind: Loop,
    pub range: Expr,
    /// One variable (an element or a key), or two (index or key, and value).
    pub variable: String,
    pub second: Option<String>,
    pub filter: Option<Expr>,
    pub body: Expr,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loop {
    All,
    Exists,
    ExistsOne,
    /// `map` and `transformList`.
    Map,
    Filter,
    TransformMap,
    TransformMapEntry,
    SortBy,
    /// `optMap`: the range is an optional, bound if it has a value.
    OptMap,
    OptFlatMap,
}

/// Bytes and parts of names that mean something as a whole: `google.protobuf.Timestamp`.
const LONGEST_NAME: usize = 64;
const MOST_PARTS: usize = 4;

impl Expr {
    pub fn new(position: usize, kind: ExprKind) -> Self {
        let mut expr = Self { position, depth: 0, kind };
        let mut deepest = 0;
        expr.children(&mut |child| deepest = deepest.max(child.depth));
        expr.depth = deepest + 1;
        expr
    }

    /// The dotted name this spells, if it is nothing but one and no longer than those of types and of functions with a namespace are.
    pub fn qualified_name(&self) -> Option<String> {
        let (mut expr, mut parts, mut length) = (self, Vec::new(), 0);
        loop {
            let (part, operand) = match &expr.kind {
                ExprKind::Ident(name) => (name, None),
                ExprKind::Select { operand, field, optional: false } => (field, Some(operand)),
                _ => return None,
            };
            length += part.len();
            parts.push(part.as_str());
            if length > LONGEST_NAME || parts.len() > MOST_PARTS {
                return None;
            }
            let Some(operand) = operand else { break };
            expr = operand;
        }
        parts.reverse();
        Some(parts.join("."))
    }

    /// Returns true if it is nothing but a dotted name, of whatever length.
    pub fn is_name(&self) -> bool {
        let mut expr = self;
        loop {
            match &expr.kind {
                ExprKind::Ident(_) => return true,
                ExprKind::Select { operand, optional: false, .. } => expr = operand,
                _ => return false,
            }
        }
    }

    /// Calls `visit` on this and every expression below it.
    pub fn walk(&self, visit: &mut dyn FnMut(&Expr)) {
        visit(self);
        self.children(&mut |child| child.walk(visit));
    }

    /// Calls `visit` on each expression directly below this one.
    fn children(&self, visit: &mut dyn FnMut(&Expr)) {
        match &self.kind {
            ExprKind::Literal(_) | ExprKind::Ident(_) => {}
            ExprKind::Select { operand, .. } | ExprKind::Has { operand, .. } => visit(operand),
            ExprKind::Call { target, args, .. } => {
                for part in target.as_deref().into_iter().chain(args) {
                    visit(part);
                }
            }
            ExprKind::And(left, right) | ExprKind::Or(left, right) => {
                visit(left);
                visit(right);
            }
            ExprKind::Conditional { condition, then, otherwise } => {
                visit(condition);
                visit(then);
                visit(otherwise);
            }
            ExprKind::List(entries) | ExprKind::Map(entries) => {
                for entry in entries {
                    for part in entry.key.iter().chain([&entry.value]) {
                        visit(part);
                    }
                }
            }
            ExprKind::Comprehension(comprehension) => {
                visit(&comprehension.range);
                for part in comprehension.filter.iter().chain([&comprehension.body]) {
                    visit(part);
                }
            }
        }
    }
}

/// An error in an expression, with its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Issue {
    pub position: usize,
    pub message: String,
}

/// Characters of a line that an issue shows; of a longer one, those around the issue.
const SHOWN: usize = 1_000;

impl Issue {
    /// The issue with the line it is on, in the words of an API server.
    fn render(&self, source: &str) -> String {
        let mut line_start = 0;
        let mut line_number = 1;
        let mut column = self.position;
        let mut line = source;
        let mut length = 0;
        for (i, text) in source.split('\n').enumerate() {
            length = text.chars().count();
            if self.position <= line_start + length {
                line = text;
                line_number = i + 1;
                column = self.position - line_start;
                break;
            }
            line_start += length + 1;
        }
        let left_out = if length > SHOWN { column.saturating_sub(SHOWN / 2) } else { 0 };
        let line = line.chars().skip(left_out).take(SHOWN);
        let line: String = line.map(|c| if c == '\t' { ' ' } else { c }).collect();
        let dots = line.chars().take(column - left_out);
        let dots: String = dots.map(|c| if c.is_ascii() { '.' } else { '\u{ff0e}' }).collect();
        format!("ERROR: <input>:{line_number}:{}: {}\n | {line}\n | {dots}^", column + 1, self.message)
    }
}

/// As many issues of an expression are told; cel-go's bound.
const MOST_ISSUES: usize = 100;

/// What is wrong with an expression: the first mistakes that were found, and how many there are besides.
#[derive(Debug, Default)]
pub(crate) struct Issues {
    told: Vec<Issue>,
    more: usize,
}

impl Issues {
    pub fn push(&mut self, issue: Issue) {
        if self.told.len() < MOST_ISSUES {
            self.told.push(issue);
        } else {
            self.more += 1;
        }
    }

    pub fn is_empty(&self) -> bool {
        self.told.is_empty()
    }

    /// All that are told, each with its line.
    pub fn render(&self, source: &str) -> String {
        let mut told: Vec<&Issue> = self.told.iter().collect();
        told.sort_by_key(|issue| issue.position);
        let mut lines: Vec<String> = told.iter().map(|issue| issue.render(source)).collect();
        if self.more > 0 {
            lines.push(format!("{} more errors were truncated", self.more));
        }
        lines.join("\n")
    }
}

impl From<Issue> for Issues {
    fn from(issue: Issue) -> Self {
        Self { told: vec![issue], more: 0 }
    }
}

impl Literal {
    /// As it would be written.
    pub fn text(&self) -> String {
        match self {
            Self::Null => "null".to_owned(),
            Self::Bool(b) => b.to_string(),
            Self::Int(i) => i.to_string(),
            Self::Uint(u) => format!("{u}u"),
            Self::Double(d) => text::float(*d),
            Self::String(s) => text::quote(s),
            Self::Bytes(_) => "b\"...\"".to_owned(),
        }
    }
}
