//! The grammar of CEL, by precedence climbing.
//!
//! Depth is bounded so that this, and every later walk over an expression, may recurse.

use crate::cel::ast::{Entry, Expr, ExprKind, Issue, Literal};
use crate::cel::lexer::{RESERVED, Spanned, Token, tokenize};
use crate::cel::macros;

/// Expressions nested in each other, be it by brackets or, as the chain `a.b.c`, without.
const MAX_DEPTH: usize = 250;
/// Brackets nested in each other. cel-go takes 250; a debug build needs some 10 KiB of stack
/// for each here, and threads have 2 MiB.
const MAX_BRACKETS: usize = 100;

/// Characters of an expression; cel-go's bound.
const MAX_LENGTH: usize = 100_000;

/// Parses a whole expression.
pub(crate) fn parse(source: &str) -> Result<Expr, Issue> {
    let length = source.chars().count();
    if length > MAX_LENGTH {
        let message = format!("expression code point size exceeds limit: size: {length}, limit {MAX_LENGTH}");
        return Err(Issue { position: 0, message });
    }
    let tokens = tokenize(source)?;
    let mut parser = Parser { tokens: &tokens, at: 0, depth: 0 };
    parser.expression().and_then(|expr| match parser.peek() {
        Token::End => Ok(expr),
        _ => Err(parser.unexpected()),
    })
}

type Parsed<T> = Result<T, Issue>;

struct Parser<'a> {
    tokens: &'a [Spanned],
    at: usize,
    depth: usize,
}

/// Binary operators by precedence, the loosest first; `||` and `&&` are below these.
const LEVELS: [&[&str]; 3] = [&["<", "<=", ">=", ">", "==", "!=", "in"], &["+", "-"], &["*", "/", "%"]];

impl Parser<'_> {
    fn peek(&self) -> &Token {
        &self.tokens[self.at].token
    }

    fn position(&self) -> usize {
        self.tokens[self.at].position
    }

    fn advance(&mut self) -> Token {
        let token = self.tokens[self.at].token.clone();
        if token != Token::End {
            self.at += 1;
        }
        token
    }

    fn accept(&mut self, symbol: &str) -> bool {
        let found = matches!(self.peek(), Token::Symbol(found) if *found == symbol);
        if found {
            self.at += 1;
        }
        found
    }

    fn expect(&mut self, symbol: &str) -> Parsed<()> {
        if self.accept(symbol) { Ok(()) } else { Err(self.unexpected()) }
    }

    fn unexpected(&self) -> Issue {
        let found = match self.peek() {
            Token::End => "<EOF>".to_owned(),
            Token::Ident(name) => name.clone(),
            Token::Literal(literal) => literal.text(),
            Token::Symbol(symbol) => (*symbol).to_owned(),
            Token::In => "in".to_owned(),
        };
        Issue { position: self.position(), message: format!("Syntax error: mismatched input '{found}'") }
    }

    fn nested<T>(&mut self, parse: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.depth >= MAX_BRACKETS {
            return Err(self.too_deep(MAX_BRACKETS));
        }
        self.depth += 1;
        let parsed = parse(self);
        self.depth -= 1;
        parsed
    }

    fn too_deep(&self, limit: usize) -> Issue {
        let message = format!("expression recursion limit exceeded: {limit}");
        Issue { position: self.position(), message }
    }

    fn shallow(&self, expr: Expr) -> Parsed<Expr> {
        if expr.depth > MAX_DEPTH { Err(self.too_deep(MAX_DEPTH)) } else { Ok(expr) }
    }

    fn expression(&mut self) -> Parsed<Expr> {
        self.nested(|parser| {
            let condition = parser.or()?;
            let position = parser.position();
            if !parser.accept("?") {
                return Ok(condition);
            }
            let then = parser.or()?;
            parser.expect(":")?;
            let otherwise = parser.expression()?;
            let kind = ExprKind::Conditional {
                condition: Box::new(condition),
                then: Box::new(then),
                otherwise: Box::new(otherwise),
            };
            Ok(Expr::new(position, kind))
        })
    }

    fn or(&mut self) -> Parsed<Expr> {
        self.logical("||", ExprKind::Or, |parser| parser.logical("&&", ExprKind::And, |p| p.binary(0)))
    }

    /// A chain of `&&` or `||`, nested as a balanced tree so that a long one is not deep.
    fn logical(
        &mut self,
        symbol: &str,
        kind: fn(Box<Expr>, Box<Expr>) -> ExprKind,
        operand: fn(&mut Self) -> Parsed<Expr>,
    ) -> Parsed<Expr> {
        let mut operands = vec![operand(self)?];
        let mut positions = Vec::new();
        loop {
            let position = self.position();
            if !self.accept(symbol) {
                break;
            }
            positions.push(position);
            operands.push(operand(self)?);
        }
        Ok(balance(&mut operands.into_iter(), &positions, kind))
    }

    fn binary(&mut self, level: usize) -> Parsed<Expr> {
        let Some(operators) = LEVELS.get(level) else { return self.unary() };
        let mut left = self.binary(level + 1)?;
        loop {
            let position = self.position();
            let operator = match self.peek() {
                Token::Symbol(symbol) if operators.contains(symbol) => *symbol,
                Token::In if operators.contains(&"in") => "in",
                _ => return Ok(left),
            };
            self.at += 1;
            let right = self.binary(level + 1)?;
            let function = if operator == "in" { "@in".to_owned() } else { format!("_{operator}_") };
            let kind = ExprKind::Call { function, target: None, args: vec![left, right] };
            left = self.shallow(Expr::new(position, kind))?;
        }
    }

    fn unary(&mut self) -> Parsed<Expr> {
        for (symbol, function) in [("!", "!_"), ("-", "-_")] {
            let position = self.position();
            let mut count = 0;
            while self.accept(symbol) {
                count += 1;
            }
            if count == 0 {
                continue;
            }
            // A sign before a number is part of it.
            if symbol == "-"
                && count == 1
                && let Token::Literal(Literal::Int(_) | Literal::Double(_)) = self.peek()
            {
                return self.negative_number(position);
            }
            let operand = self.nested(Self::member)?;
            if count % 2 == 0 {
                return Ok(operand);
            }
            let kind = ExprKind::Call { function: function.to_owned(), target: None, args: vec![operand] };
            return Ok(Expr::new(position, kind));
        }
        self.member()
    }

    fn negative_number(&mut self, position: usize) -> Parsed<Expr> {
        let literal = match self.advance() {
            Token::Literal(Literal::Int(value)) => Literal::Int(value.wrapping_neg()),
            Token::Literal(Literal::Double(value)) => Literal::Double(-value),
            _ => return Err(self.unexpected()),
        };
        self.members(Expr::new(position, ExprKind::Literal(literal)))
    }

    fn member(&mut self) -> Parsed<Expr> {
        let primary = self.primary()?;
        self.members(primary)
    }

    fn members(&mut self, mut expr: Expr) -> Parsed<Expr> {
        loop {
            expr = self.shallow(expr)?;
            let position = self.position();
            if self.accept(".") {
                let optional = self.accept("?");
                let Token::Ident(field) = self.peek().clone() else { return Err(self.unexpected()) };
                self.at += 1;
                let call_position = self.position();
                if !optional && self.accept("(") {
                    let args = self.arguments(")")?;
                    expr = macros::member_call(expr, field, args, call_position)?;
                } else {
                    let kind = ExprKind::Select { operand: Box::new(expr), field, optional };
                    expr = Expr::new(position, kind);
                }
            } else if self.accept("[") {
                let optional = self.accept("?");
                let index = self.expression()?;
                self.expect("]")?;
                let function = if optional { "_[?_]" } else { "_[_]" }.to_owned();
                expr =
                    Expr::new(position, ExprKind::Call { function, target: None, args: vec![expr, index] });
            } else if matches!(self.peek(), Token::Symbol("{")) && expr.is_name() {
                return Err(Issue {
                    position,
                    message: "construction of messages is not supported".to_owned(),
                });
            } else {
                return Ok(expr);
            }
        }
    }

    fn arguments(&mut self, close: &str) -> Parsed<Vec<Expr>> {
        let mut args = Vec::new();
        if self.accept(close) {
            return Ok(args);
        }
        loop {
            args.push(self.expression()?);
            if self.accept(close) {
                return Ok(args);
            }
            self.expect(",")?;
        }
    }

    fn primary(&mut self) -> Parsed<Expr> {
        let position = self.position();
        // A leading dot asks for the root scope, which is the only one.
        if self.accept(".") && !matches!(self.peek(), Token::Ident(_)) {
            return Err(self.unexpected());
        }
        match self.peek().clone() {
            Token::Ident(name) => {
                self.at += 1;
                if RESERVED.contains(&name.as_str()) {
                    return Err(Issue { position, message: format!("reserved identifier: {name}") });
                }
                let call_position = self.position();
                if self.accept("(") {
                    let args = self.arguments(")")?;
                    return macros::global_call(name, args, call_position);
                }
                Ok(Expr::new(position, ExprKind::Ident(name)))
            }
            Token::Literal(Literal::Int(i64::MIN)) => {
                Err(Issue { position, message: "invalid int literal".to_owned() })
            }
            Token::Literal(literal) => {
                self.at += 1;
                Ok(Expr::new(position, ExprKind::Literal(literal)))
            }
            Token::Symbol("(") => {
                self.at += 1;
                let expr = self.expression()?;
                self.expect(")")?;
                Ok(expr)
            }
            Token::Symbol("[") => {
                self.at += 1;
                Ok(Expr::new(position, ExprKind::List(self.entries("]", false)?)))
            }
            Token::Symbol("{") => {
                self.at += 1;
                Ok(Expr::new(position, ExprKind::Map(self.entries("}", true)?)))
            }
            _ => Err(self.unexpected()),
        }
    }

    fn entries(&mut self, close: &str, keyed: bool) -> Parsed<Vec<Entry>> {
        let mut entries = Vec::new();
        while !self.accept(close) {
            let optional = self.accept("?");
            let first = self.expression()?;
            entries.push(if keyed {
                self.expect(":")?;
                Entry { key: Some(first), value: self.expression()?, optional }
            } else {
                Entry { key: None, value: first, optional }
            });
            if !self.accept(",") {
                self.expect(close)?;
                break;
            }
        }
        Ok(entries)
    }
}

fn balance(
    operands: &mut std::vec::IntoIter<Expr>,
    positions: &[usize],
    kind: fn(Box<Expr>, Box<Expr>) -> ExprKind,
) -> Expr {
    let middle = positions.len() / 2;
    let Some(&position) = positions.get(middle) else {
        // One operand more than operators: the last call for each leaf.
        return operands.next().unwrap_or_else(|| Expr::new(0, ExprKind::Literal(Literal::Null)));
    };
    let left = balance(operands, &positions[..middle], kind);
    let right = balance(operands, &positions[middle + 1..], kind);
    Expr::new(position, kind(Box::new(left), Box::new(right)))
}
