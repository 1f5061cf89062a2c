//! Label selectors: `app=web,tier in (front,back),!canary,weight>3`.

use std::{collections::BTreeSet, fmt};

use serde_json::{Map, Value};

use super::key::{label_key_problems, label_value_problems};
use crate::status::{Cause, joined};

/// An invalid selector, with kube-apiserver's message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LabelSelectorError {
    /// Something else was expected between requirements.
    #[error("found '{found}', expected: {expected}")]
    Unexpected {
        /// The word that is there.
        found: String,
        /// The tokens that are allowed there.
        expected: &'static str,
    },
    /// A requirement is no requirement.
    #[error("unable to parse requirement: {0}")]
    Requirement(String),
}

/// The operator of a requirement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// `=`
    Equals,
    /// `==`
    DoubleEquals,
    /// `!=`
    NotEquals,
    /// `in`
    In,
    /// `notin`
    NotIn,
    /// The key alone.
    Exists,
    /// `!` before the key.
    Absent,
    /// `>`
    Greater,
    /// `<`
    Less,
}

/// One condition on one label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelRequirement {
    /// The label.
    pub key: String,
    /// The operator.
    pub operator: Operator,
    /// With what.
    pub values: BTreeSet<String>,
}

/// Conditions that must all hold.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct LabelSelector {
    requirements: Vec<LabelRequirement>,
}

impl LabelSelector {
    /// Parses a selector; the empty text selects everything.
    pub fn parse(text: &str) -> Result<Self, LabelSelectorError> {
        let mut requirements = Parser { tokens: scan(text), position: 0 }.parse()?;
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(Self { requirements })
    }

    /// Returns whether it selects everything.
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// The conditions, by key.
    pub fn requirements(&self) -> &[LabelRequirement] {
        &self.requirements
    }

    /// An estimate of the bytes that it takes in memory: hundreds for a few bytes of text.
    pub fn bytes(&self) -> usize {
        /// Of a requirement, and of a node of a set.
        const EACH: usize = 128;
        const NODE: usize = 288;
        let bytes = |requirement: &LabelRequirement| {
            let LabelRequirement { key, operator: _, values } = requirement;
            let texts: usize = values.iter().map(|value| value.len() + EACH / 4).sum();
            EACH + key.len() + texts + values.len().div_ceil(6) * NODE
        };
        self.requirements.iter().map(bytes).sum()
    }

    /// Returns whether an object with these labels is selected.
    pub fn matches<'a>(&self, label: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.requirements.iter().all(|requirement| requirement.matches(label(&requirement.key)))
    }

    /// Returns whether an object is selected.
    pub fn matches_object(&self, object: &Value) -> bool {
        let labels: Option<&Map<String, Value>> = object["metadata"]["labels"].as_object();
        self.matches(|key| labels?.get(key)?.as_str())
    }
}

impl LabelRequirement {
    fn matches(&self, value: Option<&str>) -> bool {
        match self.operator {
            Operator::Equals | Operator::DoubleEquals | Operator::In => {
                value.is_some_and(|value| self.values.contains(value))
            }
            Operator::NotEquals | Operator::NotIn => value.is_none_or(|value| !self.values.contains(value)),
            Operator::Exists => value.is_some(),
            Operator::Absent => value.is_none(),
            Operator::Greater => self.compares(value, |label, bound| label > bound),
            Operator::Less => self.compares(value, |label, bound| label < bound),
        }
    }

    fn compares(&self, label: Option<&str>, holds: fn(i64, i64) -> bool) -> bool {
        let number = |text: Option<&str>| text?.parse().ok();
        let bound = number(self.values.first().map(String::as_str));
        number(label).zip(bound).is_some_and(|(label, bound)| holds(label, bound))
    }

    fn check(self) -> Result<Self, LabelSelectorError> {
        let mut causes = Vec::new();
        let wrong_key = label_key_problems(&self.key);
        if !wrong_key.is_empty() {
            causes.push(Cause::invalid("key", &Value::from(self.key.as_str()), &wrong_key.join("; ")));
        }
        for (index, value) in self.values.iter().enumerate() {
            let numeric = matches!(self.operator, Operator::Greater | Operator::Less);
            if numeric && value.parse::<i64>().is_err() {
                let detail = "for 'Gt', 'Lt' operators, the value must be an integer";
                let field = format!("values[{index}]");
                causes.push(Cause::invalid(&field, &Value::from(value.as_str()), detail));
            }
        }
        for (index, value) in self.values.iter().enumerate() {
            let problems = label_value_problems(value);
            if !problems.is_empty() {
                let field = format!("values[{index}][{}]", self.key);
                causes.push(Cause::invalid(&field, &Value::from(value.as_str()), &problems.join("; ")));
            }
        }
        if causes.is_empty() {
            return Ok(self);
        }
        Err(LabelSelectorError::Requirement(joined(&Cause::bounded(causes))))
    }
}

impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, requirement) in self.requirements.iter().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            requirement.fmt(f)?;
        }
        Ok(())
    }
}

impl fmt::Display for LabelRequirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, operator, values } = self;
        let values = values.iter().map(String::as_str).collect::<Vec<_>>().join(",");
        match operator {
            Operator::Exists => write!(f, "{key}"),
            Operator::Absent => write!(f, "!{key}"),
            Operator::Equals => write!(f, "{key}={values}"),
            Operator::DoubleEquals => write!(f, "{key}=={values}"),
            Operator::NotEquals => write!(f, "{key}!={values}"),
            Operator::Greater => write!(f, "{key}>{values}"),
            Operator::Less => write!(f, "{key}<{values}"),
            Operator::In => write!(f, "{key} in ({values})"),
            Operator::NotIn => write!(f, "{key} notin ({values})"),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token<'a> {
    /// Keys and values, and the words `in` and `notin`, which are operators only where one is expected.
    Word(&'a str),
    Symbol(&'a str),
    End,
}

const SYMBOLS: [&str; 9] = ["==", "!=", "=", "!", "(", ")", ",", ">", "<"];
const SPACE: [char; 4] = [' ', '\t', '\r', '\n'];

/// The words of a selector. A NUL ends it, as it ends upstream's scanner.
fn scan(text: &str) -> Vec<Token<'_>> {
    let mut rest = text.split('\0').next().unwrap_or_default();
    let mut tokens = Vec::new();
    loop {
        rest = rest.trim_start_matches(SPACE);
        let Some(first) = rest.chars().next() else { break };
        let length = if "=!(),><".contains(first) {
            let symbol = SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol));
            let length = symbol.map_or(first.len_utf8(), |symbol| symbol.len());
            tokens.push(Token::Symbol(&rest[..length]));
            length
        } else {
            let length =
                rest.find(|c: char| "=!(),><".contains(c) || SPACE.contains(&c)).unwrap_or(rest.len());
            tokens.push(Token::Word(&rest[..length]));
            length
        };
        rest = &rest[length..];
    }
    tokens.push(Token::End);
    tokens
}

impl<'a> Token<'a> {
    fn text(self) -> &'a str {
        match self {
            Self::Word(text) | Self::Symbol(text) => text,
            Self::End => "",
        }
    }

    fn expected<T>(self, expected: &'static str) -> Result<T, LabelSelectorError> {
        Err(LabelSelectorError::Unexpected { found: self.text().to_owned(), expected })
    }

    /// The same, inside a requirement.
    fn wrong<T>(self, expected: &str) -> Result<T, LabelSelectorError> {
        Err(LabelSelectorError::Requirement(format!("found '{}'{expected}", self.text())))
    }
}

struct Parser<'a> {
    tokens: Vec<Token<'a>>,
    position: usize,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Token<'a> {
        self.tokens.get(self.position).copied().unwrap_or(Token::End)
    }

    fn next(&mut self) -> Token<'a> {
        let token = self.peek();
        self.position += 1;
        token
    }

    fn parse(mut self) -> Result<Vec<LabelRequirement>, LabelSelectorError> {
        let mut requirements = Vec::new();
        loop {
            match self.peek() {
                Token::Word(_) | Token::Symbol("!") => requirements.push(self.requirement()?),
                Token::End => return Ok(requirements),
                other @ Token::Symbol(_) => return other.expected("!, identifier, or 'end of string'"),
            }
            match self.next() {
                Token::End => return Ok(requirements),
                Token::Symbol(",") => match self.peek() {
                    Token::Word(_) | Token::Symbol("!") => {}
                    other => return other.expected("identifier after ','"),
                },
                other => return other.expected("',' or 'end of string'"),
            }
        }
    }

    fn requirement(&mut self) -> Result<LabelRequirement, LabelSelectorError> {
        let absent = self.peek() == Token::Symbol("!");
        if absent {
            self.next();
        }
        let key = match self.next() {
            Token::Word(key) => key.to_owned(),
            other => return other.wrong(", expected: identifier"),
        };
        let problems = label_key_problems(&key);
        if !problems.is_empty() {
            let cause = Cause::invalid("<nil>", &Value::from(key), &problems.join("; "));
            return Err(LabelSelectorError::Requirement(joined(&[cause])));
        }
        if absent {
            return LabelRequirement { key, operator: Operator::Absent, values: BTreeSet::new() }.check();
        }
        if matches!(self.peek(), Token::End | Token::Symbol(",")) {
            return LabelRequirement { key, operator: Operator::Exists, values: BTreeSet::new() }.check();
        }
        let operator = match self.next() {
            Token::Word("in") => Operator::In,
            Token::Word("notin") => Operator::NotIn,
            Token::Symbol("=") => Operator::Equals,
            Token::Symbol("==") => Operator::DoubleEquals,
            Token::Symbol("!=") => Operator::NotEquals,
            Token::Symbol(">") => Operator::Greater,
            Token::Symbol("<") => Operator::Less,
            other => return other.wrong(", expected: in, notin, =, ==, !=, gt, lt"),
        };
        let values = match operator {
            Operator::In | Operator::NotIn => self.values()?,
            _ => self.value()?,
        };
        LabelRequirement { key, operator, values }.check()
    }

    fn value(&mut self) -> Result<BTreeSet<String>, LabelSelectorError> {
        let value = match self.peek() {
            Token::End | Token::Symbol(",") => "",
            Token::Word(value) => {
                self.next();
                value
            }
            other @ Token::Symbol(_) => return other.wrong(", expected: identifier"),
        };
        Ok(BTreeSet::from([value.to_owned()]))
    }

    /// `(a,b)`; missing values are empty ones.
    fn values(&mut self) -> Result<BTreeSet<String>, LabelSelectorError> {
        match self.next() {
            Token::Symbol("(") => {}
            other => return other.wrong(" expected: '('"),
        }
        match self.peek() {
            Token::Word(_) | Token::Symbol("," | ")") => {}
            other => return other.wrong(", expected: ',', ')' or identifier"),
        }
        let mut values = BTreeSet::new();
        loop {
            match self.next() {
                Token::Word(value) => {
                    values.insert(value.to_owned());
                    match self.peek() {
                        Token::Symbol("," | ")") => {}
                        other => return other.wrong(", expected: ',' or ')'"),
                    }
                }
                Token::Symbol(",") => {
                    if values.is_empty() || matches!(self.peek(), Token::Symbol("," | ")")) {
                        values.insert(String::new());
                    }
                }
                Token::Symbol(")") => {
                    if values.is_empty() {
                        values.insert(String::new());
                    }
                    return Ok(values);
                }
                other => return other.wrong(", expected: ',', or identifier"),
            }
        }
    }
}
