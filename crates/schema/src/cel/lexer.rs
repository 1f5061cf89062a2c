//! Tokens of CEL.

use crate::cel::ast::{Issue, Literal};
use crate::cel::literal;

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Token {
    Ident(String),
    Literal(Literal),
    /// An operator or a bracket.
    Symbol(&'static str),
    In,
    End,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Spanned {
    pub position: usize,
    pub token: Token,
}

/// Longest first, so that `<=` is not read as `<`.
const SYMBOLS: [&str; 26] = [
    "&&", "||", "==", "!=", "<=", ">=", "+", "-", "*", "/", "%", "!", "<", ">", "?", ":", ".", ",", "[", "]",
    "{", "}", "(", ")", "=", "`",
];

/// Words that cannot be identifiers.
pub(crate) const RESERVED: [&str; 17] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

pub(crate) fn tokenize(source: &str) -> Result<Vec<Spanned>, Issue> {
    let chars: Vec<char> = source.chars().collect();
    let mut lexer = Lexer { chars: &chars, at: 0 };
    let mut tokens = Vec::new();
    loop {
        lexer.skip_blank();
        let position = lexer.at;
        let token = lexer.next()?;
        let end = token == Token::End;
        tokens.push(Spanned { position, token });
        if end {
            return Ok(tokens);
        }
    }
}

struct Lexer<'a> {
    chars: &'a [char],
    at: usize,
}

impl Lexer<'_> {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.chars.get(self.at + ahead).copied()
    }

    fn skip_blank(&mut self) {
        while let Some(c) = self.peek(0) {
            if matches!(c, ' ' | '\t' | '\n' | '\r' | '\u{c}') {
                self.at += 1;
            } else if c == '/' && self.peek(1) == Some('/') {
                while self.peek(0).is_some_and(|c| c != '\n') {
                    self.at += 1;
                }
            } else {
                return;
            }
        }
    }

    fn take_while(&mut self, accept: impl Fn(char) -> bool) -> String {
        let start = self.at;
        while self.peek(0).is_some_and(&accept) {
            self.at += 1;
        }
        self.chars[start..self.at].iter().collect()
    }

    fn next(&mut self) -> Result<Token, Issue> {
        let Some(c) = self.peek(0) else { return Ok(Token::End) };
        if let Some(prefix) = self.string_prefix() {
            return self.string(&prefix);
        }
        if c.is_ascii_digit() || (c == '.' && self.peek(1).is_some_and(|c| c.is_ascii_digit())) {
            return self.number();
        }
        if c.is_ascii_alphabetic() || c == '_' {
            let word = self.take_while(|c| c.is_ascii_alphanumeric() || c == '_');
            return Ok(match word.as_str() {
                "true" => Token::Literal(Literal::Bool(true)),
                "false" => Token::Literal(Literal::Bool(false)),
                "null" => Token::Literal(Literal::Null),
                "in" => Token::In,
                _ => Token::Ident(word),
            });
        }
        let rest: String = self.chars[self.at..].iter().take(2).collect();
        match SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol)) {
            Some(symbol) => {
                self.at += symbol.len();
                Ok(Token::Symbol(symbol))
            }
            None => Err(Issue {
                position: self.at,
                message: format!("Syntax error: token recognition error at: '{c}'"),
            }),
        }
    }

    /// `r`, `b`, both or nothing, if a quote follows.
    fn string_prefix(&self) -> Option<String> {
        for length in 0..3 {
            let prefix: String = self.chars[self.at..].iter().take(length).collect();
            let lower = prefix.to_ascii_lowercase();
            if matches!(lower.as_str(), "" | "r" | "b" | "rb" | "br")
                && lower.len() == length
                && matches!(self.peek(length), Some('"' | '\''))
            {
                return Some(lower);
            }
        }
        None
    }

    fn string(&mut self, prefix: &str) -> Result<Token, Issue> {
        let start = self.at;
        self.at += prefix.len();
        let quote = self.peek(0).unwrap_or('"');
        let triple = self.peek(1) == Some(quote) && self.peek(2) == Some(quote);
        let fence = if triple { 3 } else { 1 };
        self.at += fence;
        let raw = prefix.contains('r');
        let body_start = self.at;
        loop {
            let Some(c) = self.peek(0) else { return Err(self.unterminated(start)) };
            if !triple && (c == '\n' || c == '\r') {
                return Err(self.unterminated(start));
            }
            if c == '\\' && !raw {
                self.at += 2;
                continue;
            }
            if (0..fence).all(|i| self.peek(i) == Some(quote)) {
                break;
            }
            self.at += 1;
        }
        let body: String = self.chars[body_start..self.at].iter().collect();
        self.at += fence;
        let literal = literal::unescape(&body, raw, prefix.contains('b'));
        literal.map(Token::Literal).map_err(|message| Issue { position: start, message })
    }

    fn unterminated(&self, start: usize) -> Issue {
        let text: String = self.chars[start..].iter().collect();
        Issue { position: start, message: format!("Syntax error: token recognition error at: '{text}'") }
    }

    fn number(&mut self) -> Result<Token, Issue> {
        let start = self.at;
        if self.peek(0) == Some('0') && matches!(self.peek(1), Some('x' | 'X')) {
            self.at += 2;
            self.take_while(|c| c.is_ascii_hexdigit());
            return self.integer(start, 16);
        }
        self.take_while(|c| c.is_ascii_digit());
        let mut double = false;
        if self.peek(0) == Some('.') && self.peek(1).is_some_and(|c| c.is_ascii_digit()) {
            double = true;
            self.at += 1;
            self.take_while(|c| c.is_ascii_digit());
        }
        if matches!(self.peek(0), Some('e' | 'E')) {
            let sign = usize::from(matches!(self.peek(1), Some('+' | '-')));
            if self.peek(1 + sign).is_some_and(|c| c.is_ascii_digit()) {
                double = true;
                self.at += 1 + sign;
                self.take_while(|c| c.is_ascii_digit());
            }
        }
        if !double {
            return self.integer(start, 10);
        }
        let text: String = self.chars[start..self.at].iter().collect();
        match text.parse::<f64>() {
            Ok(value) if value.is_finite() => Ok(Token::Literal(Literal::Double(value))),
            _ => Err(Issue { position: start, message: "invalid double literal".to_owned() }),
        }
    }

    /// A minus sign is a token of its own, so the smallest integer is read one too large and
    /// left to the parser.
    fn integer(&mut self, start: usize, radix: u32) -> Result<Token, Issue> {
        let skip = if radix == 16 { 2 } else { 0 };
        let digits: String = self.chars[start + skip..self.at].iter().collect();
        let unsigned = matches!(self.peek(0), Some('u' | 'U'));
        let value = u64::from_str_radix(&digits, radix);
        if unsigned {
            self.at += 1;
            return value
                .map(|value| Token::Literal(Literal::Uint(value)))
                .map_err(|_| Issue { position: start, message: "invalid uint literal".to_owned() });
        }
        match value {
            Ok(value) if value == 1 << 63 => Ok(Token::Literal(Literal::Int(i64::MIN))),
            Ok(value) if i64::try_from(value).is_ok() => {
                Ok(Token::Literal(Literal::Int(i64::try_from(value).unwrap_or_default())))
            }
            _ => Err(Issue { position: start, message: "invalid int literal".to_owned() }),
        }
    }
}
