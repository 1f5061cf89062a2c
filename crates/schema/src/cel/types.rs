//! The types of CEL, and the type a schema gives to what it describes.

use std::cell::Cell;
use std::fmt;
use std::rc::Rc;
use std::sync::LazyLock;

use crate::cel::escape;
use crate::node::{Kind, Node};

#[derive(Clone, Debug)]
#[expect(clippy::enum_variant_names, reason = "the type of a type is called so")]
pub(crate) enum Type<'n> {
    /// Known only at run time.
    Dyn,
    /// Already complained about.
    Error,
    Null,
    Bool,
    Int,
    Uint,
    Double,
    String,
    Bytes,
    Duration,
    Timestamp,
    List(Rc<Type<'n>>),
    Map(Rc<Type<'n>>, Rc<Type<'n>>),
    Object(ObjectType<'n>),
    Optional(Rc<Type<'n>>),
    /// The type of a type.
    Type(Rc<Type<'n>>),
    /// A type of a library, by its name.
    Opaque(&'static str),
    /// To be inferred.
    Var(usize),
}

/// An object with stated properties. Two are the same only if they are the same schema.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ObjectType<'n> {
    pub node: &'n Node,
    /// True if it also has what every resource has.
    pub resource: bool,
}

static TEXT: LazyLock<Node> = LazyLock::new(|| Node { kind: Some(Kind::String), ..Node::default() });
static METADATA: LazyLock<Node> = LazyLock::new(|| {
    let text = || Box::new(Node { kind: Some(Kind::String), ..Node::default() });
    let names = [("generateName".to_owned(), text()), ("name".to_owned(), text())];
    Node { kind: Some(Kind::Object), properties: names.into(), ..Node::default() }
});

impl<'n> ObjectType<'n> {
    /// The schema of a property. Of a resource's metadata, only the names can be seen.
    pub fn property(&self, name: &str) -> Option<&'n Node> {
        match name {
            "apiVersion" | "kind" if self.resource => Some(&TEXT),
            "metadata" if self.resource => Some(&METADATA),
            name => self.node.properties.get(name).map(Box::as_ref),
        }
    }

    /// The type of the field written `identifier`.
    pub fn field(&self, identifier: &str) -> Option<Type<'n>> {
        let name = escape::unescape(identifier)?;
        // A reserved word may also be written as it is, after a dot.
        if escape::escape(&name)? != identifier && name != identifier {
            return None;
        }
        let node = self.property(&name)?;
        Type::of(node, node.embedded_resource)
    }
}

impl PartialEq for ObjectType<'_> {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.node, other.node)
    }
}

impl<'n> Type<'n> {
    /// The type of values of a schema; none if rules cannot see them, because they, or the
    /// elements of the list or map they are, have no type.
    pub fn of(node: &'n Node, resource: bool) -> Option<Self> {
        if node.int_or_string {
            return Some(Self::Dyn);
        }
        Some(match node.kind? {
            Kind::Array => {
                let items = node.items.as_deref()?;
                Self::List(Rc::new(Self::of(items, items.embedded_resource)?))
            }
            Kind::Object => match node.additional_schema() {
                Some(values) => {
                    let values = Self::of(values, values.embedded_resource)?;
                    Self::Map(Rc::new(Self::String), Rc::new(values))
                }
                None => Self::Object(ObjectType { node, resource }),
            },
            Kind::String => match node.checks.format_name.as_str() {
                "byte" => Self::Bytes,
                "duration" => Self::Duration,
                "date" | "date-time" => Self::Timestamp,
                _ => Self::String,
            },
            Kind::Boolean => Self::Bool,
            Kind::Number => Self::Double,
            Kind::Integer => Self::Int,
        })
    }

    pub fn list(element: Self) -> Self {
        Self::List(Rc::new(element))
    }

    pub fn map(key: Self, value: Self) -> Self {
        Self::Map(Rc::new(key), Rc::new(value))
    }

    pub fn optional(value: Self) -> Self {
        Self::Optional(Rc::new(value))
    }

    pub fn is_dyn(&self) -> bool {
        matches!(self, Self::Dyn | Self::Error)
    }
}

impl fmt::Display for Type<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dyn | Self::Var(_) => f.write_str("dyn"),
            Self::Error => f.write_str("!error!"),
            Self::Null => f.write_str("null"),
            Self::Bool => f.write_str("bool"),
            Self::Int => f.write_str("int"),
            Self::Uint => f.write_str("uint"),
            Self::Double => f.write_str("double"),
            Self::String => f.write_str("string"),
            Self::Bytes => f.write_str("bytes"),
            Self::Duration => f.write_str("duration"),
            Self::Timestamp => f.write_str("timestamp"),
            Self::List(element) => write!(f, "list({element})"),
            Self::Map(key, value) => write!(f, "map({key}, {value})"),
            Self::Object(_) => f.write_str("object"),
            Self::Optional(value) => write!(f, "optional_type({value})"),
            Self::Type(of) => write!(f, "type({of})"),
            Self::Opaque(name) => f.write_str(name),
        }
    }
}

/// Parts of one type. A map has two, and a type in both of them doubles: 20 of `{a: a}` in each other have a million parts.
const MOST_PARTS: usize = 1_000;
/// Parts that are looked at for all types of one expression; the longest expression with usual types takes a fourth of it.
const MOST_WORK: usize = 4_000_000;

/// The bindings of type variables, so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Substitution<'n> {
    bound: Vec<Option<Type<'n>>>,
    /// The earlier bindings, in the order of binding.
    undo: Vec<(usize, Option<Type<'n>>)>,
    /// Parts looked at so far.
    work: Cell<usize>,
    too_large: Cell<bool>,
}

impl<'n> Substitution<'n> {
    pub fn fresh(&mut self) -> Type<'n> {
        self.bound.push(None);
        Type::Var(self.bound.len() - 1)
    }

    /// Returns whether a type was too large to be looked at; what was said of types since then means nothing.
    pub fn is_too_large(&self) -> bool {
        self.too_large.get()
    }

    /// Counts one part of a type with `parts` so far; false once there are too many.
    fn count(&self, parts: &mut usize) -> bool {
        *parts += 1;
        self.work.set(self.work.get() + 1);
        if *parts > MOST_PARTS || self.work.get() > MOST_WORK {
            self.too_large.set(true);
        }
        !self.too_large.get()
    }

    /// Counts the parts of a type, so that nothing is made of one that has too many.
    pub fn weigh(&self, t: &Type<'n>) {
        self.any_part(t, &mut 0, &|_| false);
    }

    /// Returns whether a part of the type, with variables replaced, is as asked for; true as well if it has too many.
    fn any_part(&self, t: &Type<'n>, parts: &mut usize, wanted: &impl Fn(&Type<'n>) -> bool) -> bool {
        if !self.count(parts) {
            return true;
        }
        match t {
            Type::Var(i) => match self.bound.get(*i) {
                Some(Some(bound)) => self.any_part(bound, parts, wanted),
                _ => wanted(t),
            },
            Type::List(a) | Type::Optional(a) | Type::Type(a) => self.any_part(a, parts, wanted),
            Type::Map(key, value) => self.any_part(key, parts, wanted) || self.any_part(value, parts, wanted),
            _ => wanted(t),
        }
    }

    /// The type with all variables replaced that are bound.
    pub fn resolve(&self, t: &Type<'n>) -> Type<'n> {
        self.resolve_within(t, &mut 0)
    }

    fn resolve_within(&self, t: &Type<'n>, parts: &mut usize) -> Type<'n> {
        if !self.count(parts) {
            return Type::Error;
        }
        match t {
            Type::Var(i) => match self.bound.get(*i) {
                Some(Some(bound)) => self.resolve_within(bound, parts),
                _ => t.clone(),
            },
            Type::List(element) => Type::list(self.resolve_within(element, parts)),
            Type::Map(key, value) => {
                let key = self.resolve_within(key, parts);
                Type::map(key, self.resolve_within(value, parts))
            }
            Type::Optional(value) => Type::optional(self.resolve_within(value, parts)),
            Type::Type(of) => Type::Type(Rc::new(self.resolve_within(of, parts))),
            other => other.clone(),
        }
    }

    /// Returns whether a value of type `actual` can be where `expected` is asked for; binds variables
    /// on the way, and leaves them as they were if the answer is no.
    pub fn assign(&mut self, expected: &Type<'n>, actual: &Type<'n>) -> bool {
        self.assign_all(std::slice::from_ref(expected), std::slice::from_ref(actual))
    }

    pub fn assign_all(&mut self, expected: &[Type<'n>], actual: &[Type<'n>]) -> bool {
        self.undo.clear();
        let fits = expected.len() == actual.len()
            && expected.iter().zip(actual).all(|(expected, actual)| self.unify(expected, actual, &mut 0));
        if !fits {
            while let Some((i, before)) = self.undo.pop() {
                self.bound[i] = before;
            }
        }
        fits
    }

    fn unify(&mut self, a: &Type<'n>, b: &Type<'n>, parts: &mut usize) -> bool {
        if !self.count(parts) {
            return false;
        }
        match (a, b) {
            (Type::Var(i), Type::Var(j)) => self.link(*i, *j, parts),
            (Type::Var(i), other) | (other, Type::Var(i)) => self.bind(*i, other, parts),
            (Type::Dyn | Type::Error, _) | (_, Type::Dyn | Type::Error) | (Type::Type(_), Type::Type(_)) => {
                true
            }
            (Type::Null, other) | (other, Type::Null) => matches!(
                other,
                Type::Null
                    | Type::Object(_)
                    | Type::Opaque(_)
                    | Type::Optional(_)
                    | Type::Duration
                    | Type::Timestamp
            ),
            (Type::List(a), Type::List(b)) | (Type::Optional(a), Type::Optional(b)) => {
                self.unify(a, b, parts)
            }
            (Type::Map(ak, av), Type::Map(bk, bv)) => self.unify(ak, bk, parts) && self.unify(av, bv, parts),
            (Type::Object(a), Type::Object(b)) => a == b,
            (Type::Opaque(a), Type::Opaque(b)) => a == b,
            (a, b) => std::mem::discriminant(a) == std::mem::discriminant(b),
        }
    }

    /// The variable that a variable stands for in the end.
    fn root(&self, mut i: usize, parts: &mut usize) -> usize {
        while let Some(Some(Type::Var(next))) = self.bound.get(i)
            && self.count(parts)
        {
            i = *next;
        }
        i
    }

    /// Makes one of two variables stand for the other. What stands for nothing yet is bound, the newer of two such: so
    /// a thousand elements of one literal stand for the first, and not each for the next.
    fn link(&mut self, i: usize, j: usize, parts: &mut usize) -> bool {
        let (i, j) = (self.root(i, parts), self.root(j, parts));
        if i == j {
            return true;
        }
        let (old, new) = match (&self.bound[i], &self.bound[j]) {
            (Some(_), Some(bound)) => return self.bind(i, &bound.clone(), parts),
            (None, Some(_)) => (j, i),
            (Some(_), None) => (i, j),
            (None, None) => (i.min(j), i.max(j)),
        };
        if self.occurs(new, &Type::Var(old)) {
            return false;
        }
        self.set(new, &Type::Var(old));
        true
    }

    fn bind(&mut self, i: usize, other: &Type<'n>, parts: &mut usize) -> bool {
        let Some(current) = self.bound.get(i).cloned() else { return false };
        match current {
            Some(bound) => {
                if !self.unify(&bound, other, parts) {
                    return false;
                }
                if is_more_general(other, &bound) && !self.occurs(i, other) {
                    self.set(i, other);
                }
                true
            }
            None if self.occurs(i, other) => false,
            None => {
                self.set(i, other);
                true
            }
        }
    }

    fn set(&mut self, i: usize, t: &Type<'n>) {
        let before = self.bound[i].replace(t.clone());
        self.undo.push((i, before));
    }

    fn occurs(&self, i: usize, t: &Type<'n>) -> bool {
        self.any_part(t, &mut 0, &|part| matches!(part, Type::Var(j) if i == *j))
    }
}

/// Returns whether `a` is `b` with parts left open.
pub(crate) fn is_more_general(a: &Type<'_>, b: &Type<'_>) -> bool {
    match (a, b) {
        (Type::Dyn | Type::Error | Type::Var(_), _) => true,
        (_, Type::Dyn | Type::Error | Type::Var(_)) => false,
        (Type::List(a), Type::List(b)) | (Type::Optional(a), Type::Optional(b)) => is_more_general(a, b),
        (Type::Map(ak, av), Type::Map(bk, bv)) => is_more_general(ak, bk) && is_more_general(av, bv),
        (a, b) => std::mem::discriminant(a) == std::mem::discriminant(b),
    }
}
