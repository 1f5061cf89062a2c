//! The types of CEL, and the type a schema gives to what it describes.

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
    /// Whether it also has what every resource has.
    pub resource: bool,
}

static TEXT: LazyLock<Node> = LazyLock::new(|| Node { kind: Some(Kind::String), ..Node::default() });
static METADATA: LazyLock<Node> = LazyLock::new(|| {
    let text = || Node { kind: Some(Kind::String), ..Node::default() };
    let names = [("generateName".to_owned(), text()), ("name".to_owned(), text())];
    Node { kind: Some(Kind::Object), properties: names.into(), ..Node::default() }
});

impl<'n> ObjectType<'n> {
    /// The schema of a property. Of a resource's metadata, only the names can be seen.
    pub fn property(&self, name: &str) -> Option<&'n Node> {
        match name {
            "apiVersion" | "kind" if self.resource => Some(&TEXT),
            "metadata" if self.resource => Some(&METADATA),
            name => self.node.properties.get(name),
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

/// What variables of types stand for, so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Substitution<'n> {
    bound: Vec<Option<Type<'n>>>,
}

impl<'n> Substitution<'n> {
    pub fn fresh(&mut self) -> Type<'n> {
        self.bound.push(None);
        Type::Var(self.bound.len() - 1)
    }

    /// The type with all variables replaced that are bound.
    pub fn resolve(&self, t: &Type<'n>) -> Type<'n> {
        match t {
            Type::Var(i) => match self.bound.get(*i) {
                Some(Some(bound)) => self.resolve(bound),
                _ => t.clone(),
            },
            Type::List(element) => Type::list(self.resolve(element)),
            Type::Map(key, value) => Type::map(self.resolve(key), self.resolve(value)),
            Type::Optional(value) => Type::optional(self.resolve(value)),
            Type::Type(of) => Type::Type(Rc::new(self.resolve(of))),
            other => other.clone(),
        }
    }

    /// Whether a value of type `actual` can be where `expected` is asked for; binds variables
    /// on the way, and leaves them as they were if the answer is no.
    pub fn assign(&mut self, expected: &Type<'n>, actual: &Type<'n>) -> bool {
        let before = self.bound.clone();
        let fits = self.unify(expected, actual);
        if !fits {
            self.bound = before;
        }
        fits
    }

    pub fn assign_all(&mut self, expected: &[Type<'n>], actual: &[Type<'n>]) -> bool {
        let before = self.bound.clone();
        let fits = expected.len() == actual.len()
            && expected.iter().zip(actual).all(|(expected, actual)| self.unify(expected, actual));
        if !fits {
            self.bound = before;
        }
        fits
    }

    fn unify(&mut self, a: &Type<'n>, b: &Type<'n>) -> bool {
        match (a, b) {
            (Type::Var(i), Type::Var(j)) if i == j => true,
            (Type::Var(i), other) | (other, Type::Var(i)) => self.bind(*i, other),
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
            (Type::List(a), Type::List(b)) | (Type::Optional(a), Type::Optional(b)) => self.unify(a, b),
            (Type::Map(ak, av), Type::Map(bk, bv)) => self.unify(ak, bk) && self.unify(av, bv),
            (Type::Object(a), Type::Object(b)) => a == b,
            (Type::Opaque(a), Type::Opaque(b)) => a == b,
            (a, b) => std::mem::discriminant(a) == std::mem::discriminant(b),
        }
    }

    fn bind(&mut self, i: usize, other: &Type<'n>) -> bool {
        let Some(current) = self.bound.get(i).cloned() else { return false };
        match current {
            Some(bound) => {
                if !self.unify(&bound, other) {
                    return false;
                }
                if is_more_general(other, &bound) && !self.occurs(i, other) {
                    self.bound[i] = Some(other.clone());
                }
                true
            }
            None if self.occurs(i, other) => false,
            None => {
                self.bound[i] = Some(other.clone());
                true
            }
        }
    }

    fn occurs(&self, i: usize, t: &Type<'n>) -> bool {
        match self.resolve(t) {
            Type::Var(j) => i == j,
            Type::List(a) | Type::Optional(a) | Type::Type(a) => self.occurs(i, &a),
            Type::Map(k, v) => self.occurs(i, &k) || self.occurs(i, &v),
            _ => false,
        }
    }
}

/// Whether `a` is `b` with parts left open.
pub(crate) fn is_more_general(a: &Type<'_>, b: &Type<'_>) -> bool {
    match (a, b) {
        (Type::Dyn | Type::Error | Type::Var(_), _) => true,
        (_, Type::Dyn | Type::Error | Type::Var(_)) => false,
        (Type::List(a), Type::List(b)) | (Type::Optional(a), Type::Optional(b)) => is_more_general(a, b),
        (Type::Map(ak, av), Type::Map(bk, bv)) => is_more_general(ak, bk) && is_more_general(av, bv),
        (a, b) => std::mem::discriminant(a) == std::mem::discriminant(b),
    }
}
