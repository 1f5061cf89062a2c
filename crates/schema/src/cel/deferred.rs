//! Checks of what is written out in a rule, made after its types are known to be right:
//! literals of one type throughout, patterns, durations and times that can be read, and
//! templates that fit their arguments.

use crate::cel::ast::{Expr, ExprKind, Issue, Issues, Literal};
use crate::cel::types::{Substitution, Type};
use crate::go::time;
use crate::patterns;

/// An expression's place and type.
pub(super) type Typed<'n> = (usize, Type<'n>);

/// A check that needs the types.
#[derive(Default)]
pub(super) struct DeferredChecks<'n> {
    /// Elements, keys or values of literals, which must be of one type each.
    uniform: Vec<Vec<Typed<'n>>>,
    templates: Vec<(usize, String, Vec<Typed<'n>>)>,
    issues: Issues,
}

impl<'n> DeferredChecks<'n> {
    pub fn uniform(&mut self, elements: Vec<Typed<'n>>) {
        if elements.len() > 1 {
            self.uniform.push(elements);
        }
    }

    pub fn template(&mut self, position: usize, template: &str, args: Vec<Typed<'n>>) {
        self.templates.push((position, template.to_owned(), args));
    }

    /// Patterns, durations and times.
    pub fn arguments(&mut self, function: &str, is_member: bool, args: &[Expr]) {
        let argument = match (function, is_member, args) {
            ("matches", true, [pattern]) | ("matches", false, [_, pattern]) => pattern,
            ("duration" | "timestamp", false, [text]) => text,
            _ => return,
        };
        let ExprKind::Literal(Literal::String(text)) = &argument.kind else { return };
        let valid = match function {
            "matches" => patterns::of_schema(text).is_ok(),
            "duration" => time::parse_duration(text).is_some(),
            _ => time::parse_time(text, false).is_some(),
        };
        if !valid {
            let message = format!("invalid {function} argument");
            self.issues.push(Issue { position: argument.position, message });
        }
    }

    pub fn finish(mut self, subst: &Substitution<'n>) -> Issues {
        for elements in &self.uniform {
            let mut types = elements.iter().map(|(position, t)| (*position, subst.resolve(t)));
            let Some((_, first)) = types.next() else { continue };
            if let Some((position, other)) = types.find(|(_, t)| !is_equivalent(&first, t)) {
                let message = format!("expected type '{first}' but found '{other}'");
                self.issues.push(Issue { position, message });
            }
        }
        for (position, template, args) in &self.templates {
            let args: Vec<Typed<'n>> = args.iter().map(|(at, t)| (*at, subst.resolve(t))).collect();
            if let Some(issue) = check_template(*position, template, &args) {
                self.issues.push(issue);
            }
        }
        self.issues
    }
}

fn is_equivalent(a: &Type<'_>, b: &Type<'_>) -> bool {
    match (a, b) {
        (Type::Dyn | Type::Var(_), Type::Dyn | Type::Var(_)) => true,
        (Type::List(a), Type::List(b)) | (Type::Optional(a), Type::Optional(b)) => is_equivalent(a, b),
        (Type::Map(ak, av), Type::Map(bk, bv)) => is_equivalent(ak, bk) && is_equivalent(av, bv),
        (Type::Object(a), Type::Object(b)) => a == b,
        (Type::Opaque(a), Type::Opaque(b)) => a == b,
        (a, b) => std::mem::discriminant(a) == std::mem::discriminant(b),
    }
}

/// The first mistake in `'..'.format([..])`.
fn check_template(position: usize, template: &str, args: &[Typed<'_>]) -> Option<Issue> {
    let issue = |position: usize, message: String| Some(Issue { position, message });
    let mut used = 0;
    let mut rest = template;
    while let Some(at) = rest.find('%') {
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('%') {
            rest = after;
            continue;
        }
        if rest.is_empty() {
            return issue(position, "unexpected end of string".to_owned());
        }
        let Some((arg_position, arg)) = args.get(used) else {
            return issue(position, format!("index {used} out of range"));
        };
        used += 1;
        let verb_at = match rest.strip_prefix('.') {
            Some(digits) => 1 + digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len()),
            None => 0,
        };
        let verb = rest[verb_at..].chars().next();
        if let Some((is_clause, message)) = wrong_argument(verb, arg) {
            return issue(if is_clause { position } else { *arg_position }, message);
        }
        rest = &rest[verb_at + verb.map_or(0, char::len_utf8)..];
    }
    if args.len() > used {
        let message =
            format!("too many arguments supplied to string.format (expected {used}, got {})", args.len());
        return issue(position, message);
    }
    None
}

/// The error of a clause for an argument of a type, and whether the clause itself is wrong.
fn wrong_argument(verb: Option<char>, arg: &Type<'_>) -> Option<(bool, String)> {
    use Type::{Bool, Bytes, Double, Duration, Dyn, Int, List, Map, Null, String, Timestamp, Uint, Var};
    if matches!(arg, Dyn | Var(_)) && matches!(verb, Some('s' | 'd' | 'f' | 'e' | 'b' | 'x' | 'X' | 'o')) {
        return None;
    }
    let (fits, message) = match verb {
        Some('s') => (
            matches!(
                arg,
                List(_)
                    | Map(..)
                    | Int
                    | Uint
                    | Double
                    | Bool
                    | String
                    | Timestamp
                    | Bytes
                    | Duration
                    | Null
                    | Type::Type(_)
            ),
            "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps",
        ),
        Some('d') => (matches!(arg, Int | Uint), "decimal clause can only be used on integers"),
        Some('f') => (matches!(arg, Double | String), "fixed-point clause can only be used on doubles"),
        Some('e') => (matches!(arg, Double | String), "scientific clause can only be used on doubles"),
        Some('b') => (matches!(arg, Int | Uint | Bool), "only integers and bools can be formatted as binary"),
        Some('x' | 'X') => (
            matches!(arg, Int | Uint | String | Bytes),
            "only integers, byte buffers, and strings can be formatted as hex",
        ),
        Some('o') => (matches!(arg, Int | Uint), "octal clause can only be used on integers"),
        Some(other) => {
            let message =
                format!("could not parse formatting clause: unrecognized formatting clause \"{other}\"");
            return Some((true, message));
        }
        None => return Some((true, "could not parse formatting clause".to_owned())),
    };
    let name = match arg {
        Duration => "google.protobuf.Duration".to_owned(),
        Timestamp => "google.protobuf.Timestamp".to_owned(),
        List(_) => "list".to_owned(),
        Map(..) => "map".to_owned(),
        Type::Optional(_) => "optional_type".to_owned(),
        other => other.to_string(),
    };
    (!fits).then(|| (false, format!("error during formatting: {message}, was given {name}")))
}
