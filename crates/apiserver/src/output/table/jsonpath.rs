//! JSON paths of columns: the language of `kubectl -o jsonpath`, without templates around it.
//!
//! ```text
//! .spec.size  ['a.b']  .metadata.labels.a\.b  [0]  [-1:]  [*]  ..name  [?(@.type=="Ready")].status
//! ```
//!
//! Parsing is total and not recursive in the text except inside filters and unions, whose depth is limited.

use std::str::FromStr;

use serde_json::Value;

use super::evaluate::{self, EvaluateError, Work};

/// Filters inside filters: more than anybody writes, less than the stack takes.
const DEPTH: usize = 16;

/// An invalid path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JsonPathError {
    /// A bracket is not closed.
    #[error("unterminated array")]
    Array,
    /// A filter is not closed.
    #[error("unterminated filter")]
    Filter,
    /// A quote is not closed, or has an escape that is none.
    #[error("unterminated quoted string")]
    Quote,
    /// Neither an index nor a slice nor a name in quotes.
    #[error("invalid array index {0}")]
    Index(String),
    /// Digits that make no number.
    #[error("cannot parse number {0}")]
    Number(String),
    /// `....`
    #[error("invalid multiple recursive descent")]
    Recursive,
    /// A backslash at the end.
    #[error("unclosed action")]
    Unclosed,
    /// Any other character.
    #[error("unrecognized character in action: {0:?}")]
    Character(char),
    /// Too many filters inside each other.
    #[error("nested too deeply")]
    Depth,
}

/// A path, ready to be evaluated.
#[derive(Clone, Debug, PartialEq)]
pub struct JsonPath {
    steps: Vec<Step>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    Field(String),
    /// Every member or item.
    Wildcard,
    /// The value and everything in it.
    Recursive,
    Slice {
        start: Option<i64>,
        end: SliceEnd,
        step: Option<i64>,
    },
    Union(Vec<Vec<Step>>),
    Filter {
        left: Vec<Step>,
        /// `None`: the left side exists.
        compare: Option<(Operator, Vec<Step>)>,
    },
    /// A value that stands in the path itself, in filters.
    Literal(Value),
    /// A word that means nothing here; upstream notices only when it gets there.
    Word(String),
}

/// The end of a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SliceEnd {
    /// `[n]`: after one item.
    One,
    /// `[n:]`
    Open,
    /// `[n:m]`
    At(i64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    /// Signs that are no operator; upstream notices only when it compares.
    Unknown,
}

impl FromStr for JsonPath {
    type Err = JsonPathError;

    fn from_str(text: &str) -> Result<Self, JsonPathError> {
        Ok(Self { steps: Parser::new(text, 0)?.parse()? })
    }
}

impl JsonPath {
    /// The first value found; nothing if there is none or the path does not fit the value.
    pub fn first<'a>(&'a self, value: &'a Value) -> Option<&'a Value> {
        self.first_within(value, &Work::default())
    }

    /// The first value found, with what is left of the work for a row.
    pub(super) fn first_within<'a>(&'a self, value: &'a Value, work: &Work) -> Option<&'a Value> {
        evaluate::evaluate(&self.steps, value, work).ok()?.into_iter().next()
    }

    /// All values found.
    pub fn all<'a>(&'a self, value: &'a Value) -> Result<Vec<&'a Value>, EvaluateError> {
        evaluate::evaluate(&self.steps, value, &Work::default())
    }
}

struct Parser<'a> {
    text: &'a str,
    position: usize,
    depth: usize,
    steps: Vec<Step>,
}

impl<'a> Parser<'a> {
    fn new(text: &'a str, depth: usize) -> Result<Self, JsonPathError> {
        if depth > DEPTH {
            return Err(JsonPathError::Depth);
        }
        Ok(Self { text, position: 0, depth, steps: Vec::new() })
    }

    fn nested(&self, text: &str) -> Result<Vec<Step>, JsonPathError> {
        Parser::new(text, self.depth + 1)?.parse()
    }

    fn rest(&self) -> &'a str {
        &self.text[self.position..]
    }

    fn next(&mut self) -> Option<char> {
        let next = self.rest().chars().next();
        self.position += next.map_or(0, char::len_utf8);
        next
    }

    fn parse(mut self) -> Result<Vec<Step>, JsonPathError> {
        loop {
            let rest = self.rest();
            if rest.starts_with("[?(") {
                self.filter()?;
                continue;
            }
            if let Some(after) = rest.strip_prefix("..") {
                self.position += 2;
                if self.steps.last() == Some(&Step::Recursive) {
                    return Err(JsonPathError::Recursive);
                }
                self.steps.push(Step::Recursive);
                if after.starts_with(|c: char| c == '_' || c.is_alphanumeric()) {
                    self.field()?;
                }
                continue;
            }
            match self.next() {
                None => return Ok(self.steps),
                Some(' ' | '@' | '$') => {}
                Some('[') => self.brackets()?,
                Some('.') => self.field()?,
                Some(quote @ ('"' | '\'')) => self.quoted(quote)?,
                Some(c) if c == '+' || c == '-' || c.is_ascii_digit() => self.number(c)?,
                Some(c) if c == '_' || c.is_alphanumeric() => self.word(c),
                Some(c) => return Err(JsonPathError::Character(c)),
            }
        }
    }

    /// A member name, up to what ends one; a backslash takes the next character as it is.
    fn field(&mut self) -> Result<(), JsonPathError> {
        let start = self.position;
        while let Some(c) = self.rest().chars().next() {
            if ends_word(c) {
                break;
            }
            self.next();
            if c == '\\' {
                self.next().ok_or(JsonPathError::Unclosed)?;
            }
        }
        let name = &self.text[start..self.position];
        self.steps.push(if name == "*" { Step::Wildcard } else { Step::Field(name.replace('\\', "")) });
        Ok(())
    }

    fn quoted(&mut self, quote: char) -> Result<(), JsonPathError> {
        let mut value = String::new();
        loop {
            match self.next().ok_or(JsonPathError::Quote)? {
                '\n' => return Err(JsonPathError::Quote),
                '\\' => value.push(match self.next().ok_or(JsonPathError::Quote)? {
                    'n' => '\n',
                    't' => '\t',
                    'r' => '\r',
                    c @ ('\\' | '"' | '\'') => c,
                    _ => return Err(JsonPathError::Quote),
                }),
                c if c == quote => break,
                c => value.push(c),
            }
        }
        self.steps.push(Step::Literal(value.into()));
        Ok(())
    }

    fn number(&mut self, first: char) -> Result<(), JsonPathError> {
        let start = self.position - first.len_utf8();
        while self.rest().starts_with(|c: char| c == '.' || c.is_ascii_digit()) {
            self.next();
        }
        let text = &self.text[start..self.position];
        let value = match text.parse::<i64>() {
            Ok(integer) => integer.into(),
            Err(_) => match text.parse::<f64>() {
                Ok(float) if float.is_finite() => float.into(),
                _ => return Err(JsonPathError::Number(text.to_owned())),
            },
        };
        self.steps.push(Step::Literal(value));
        Ok(())
    }

    fn word(&mut self, first: char) {
        let start = self.position - first.len_utf8();
        self.position += self.rest().find(ends_word).unwrap_or(self.rest().len());
        self.steps.push(match &self.text[start..self.position] {
            "true" => Step::Literal(true.into()),
            "false" => Step::Literal(false.into()),
            other => Step::Word(other.to_owned()),
        });
    }

    /// Parses the content of brackets; the opening one is consumed.
    fn brackets(&mut self) -> Result<(), JsonPathError> {
        let length = self.rest().find([']', '\n']).ok_or(JsonPathError::Array)?;
        let inner = &self.rest()[..length];
        self.position += length;
        if self.next() != Some(']') {
            return Err(JsonPathError::Array);
        }
        if inner.contains(',') {
            let parts = inner.split(',').map(|part| self.nested(&format!("[{}]", part.trim_matches(' '))));
            let union = Step::Union(parts.collect::<Result<_, _>>()?);
            self.steps.push(union);
            return Ok(());
        }
        let name = inner.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\''));
        if let Some(name) = name.filter(|name| !name.contains('\'')) {
            // Upstream reads it as a path, so that dots in the name need a backslash here as well.
            let steps = self.nested(&format!(".{name}"))?;
            self.steps.extend(steps);
            return Ok(());
        }
        self.steps.push(slice(inner)?);
        Ok(())
    }

    fn filter(&mut self) -> Result<(), JsonPathError> {
        self.position += "[?(".len();
        let start = self.position;
        let mut open: Option<char> = None;
        let mut quoted = false;
        let mut before = ' ';
        let end = loop {
            let c = self.next().filter(|c| *c != '\n').ok_or(JsonPathError::Filter)?;
            match (c, open) {
                ('"' | '\'', None) if !quoted => open = Some(c),
                (c, Some(quote)) if c == quote && before != '\\' => (open, quoted) = (None, true),
                (')', None) => break self.position - 1,
                _ => {}
            }
            before = c;
        };
        if self.next() != Some(']') {
            return Err(JsonPathError::Filter);
        }
        let text = &self.text[start..end];
        let step = match comparison(text) {
            None => Step::Filter { left: self.nested(text)?, compare: None },
            Some((left, operator, right)) => {
                Step::Filter { left: self.nested(left)?, compare: Some((operator, self.nested(right)?)) }
            }
        };
        self.steps.push(step);
        Ok(())
    }
}

fn ends_word(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n' | '.' | ',' | '[' | ']' | '$' | '@' | '{' | '}')
}

/// The two sides of a comparison; without an operator it is a question of existence.
fn comparison(text: &str) -> Option<(&str, Operator, &str)> {
    let operators = ['!', '<', '>', '='];
    let start = text.find(operators).filter(|start| *start > 0)?;
    let (left, rest) = text.split_at(start);
    // Upstream wants something on the right, and takes it from the operator if there is nothing else.
    let length = rest.find(|c| !operators.contains(&c)).unwrap_or(rest.len() - 1);
    let (operator, right) = rest.split_at(length);
    let operator = match operator {
        "" => return None,
        "==" => Operator::Equal,
        "!=" => Operator::NotEqual,
        "<" => Operator::Less,
        "<=" => Operator::LessOrEqual,
        ">" => Operator::Greater,
        ">=" => Operator::GreaterOrEqual,
        _ => Operator::Unknown,
    };
    Some((left, operator, right))
}

fn slice(inner: &str) -> Result<Step, JsonPathError> {
    let wrong = || JsonPathError::Index(inner.to_owned());
    if inner == "*" {
        return Ok(Step::Slice { start: None, end: SliceEnd::Open, step: None });
    }
    let parts: Vec<_> = inner.split(':').collect();
    let number = |text: &str| match text {
        "" => Ok(None),
        text if text.strip_prefix('-').unwrap_or(text).bytes().all(|b| b.is_ascii_digit()) => {
            text.parse().map(Some).map_err(|_| wrong())
        }
        _ => Err(wrong()),
    };
    match parts.as_slice() {
        [start] => Ok(Step::Slice { start: number(start)?, end: SliceEnd::One, step: None }),
        [start, rest @ ..] if rest.len() == 1 || rest.len() == 2 => Ok(Step::Slice {
            start: number(start)?,
            end: number(rest[0])?.map_or(SliceEnd::Open, SliceEnd::At),
            step: rest.get(1).map_or(Ok(None), |step| number(step))?,
        }),
        _ => Err(wrong()),
    }
}
