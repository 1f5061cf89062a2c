//! Types of maps and lists, as merging needs them.
//!
//! ```text
//! map    granular (each member has its own owners) or atomic (one owner of the whole)
//! list   atomic, a set (items are their own keys) or a map (items have key fields)
//! scalar always one field
//! ```
//!
//! A place in the schema may allow several of the three; the value at hand then decides. Types are kept in one
//! table and refer to each other by index, because some are recursive.

mod build;
mod meta;

use serde_json::Value;

pub use build::SchemaError;
pub use meta::object_meta_schema;

/// The type of one version of a kind.
#[derive(Clone, Debug)]
pub struct TypeInfo {
    atoms: Vec<Atom>,
    root: TypeId,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TypeId(u32);

/// Anything, all of it atomic.
const UNTYPED: TypeId = TypeId(0);
/// Anything: maps are granular, lists atomic.
const DEDUCED: TypeId = TypeId(1);

/// The alternatives for a value; at least one is allowed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Atom {
    pub(crate) map: Option<MapType>,
    pub(crate) scalar: Option<Scalar>,
    pub(crate) list: Option<ListType>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scalar {
    Numeric,
    String,
    Boolean,
    Untyped,
}

#[derive(Clone, Debug)]
pub(crate) struct MapType {
    /// Sorted by name.
    fields: Vec<StructField>,
    /// The type of members that are not declared; none are allowed without.
    pub(crate) rest: Option<TypeId>,
    pub(crate) atomic: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct StructField {
    name: Box<str>,
    pub(crate) of: TypeId,
    /// The default of this field for items that lack it, if it is a key of a list.
    default: Option<Value>,
    /// The strategic merge patch strategy of the field; most have none.
    pub(crate) patch: Option<Box<PatchMeta>>,
}

/// The patch extensions of one field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PatchMeta {
    /// The parts of `x-kubernetes-patch-strategy`: `merge`, `replace`, `retainKeys`.
    pub strategies: Vec<String>,
    /// `x-kubernetes-patch-merge-key`.
    pub merge_key: Option<String>,
}

#[derive(Clone, Debug)]
pub(crate) struct ListType {
    pub(crate) items: TypeId,
    pub(crate) relation: ListRelation,
}

#[derive(Clone, Debug)]
pub(crate) enum ListRelation {
    Atomic,
    Set,
    /// The names of the key fields.
    Map(Vec<Box<str>>),
}

/// The alternative of an atom that a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AtomKind {
    Map,
    Scalar,
    List,
    /// The value is null or not of a type that is allowed, and more than one is.
    Open,
}

impl TypeInfo {
    /// A type that is known from values only: maps are granular, lists atomic.
    pub fn deduced() -> Self {
        Self { atoms: build::common_atoms(), root: DEDUCED }
    }

    pub(crate) fn root(&self) -> TypeId {
        self.root
    }

    pub(crate) fn atom(&self, id: TypeId) -> &Atom {
        // Indices come only from the builder, which checks that each is in the table.
        &self.atoms[id.0 as usize]
    }

    /// The patch extensions of a field, and the type of its value.
    pub(crate) fn patch_field(&self, of: TypeId, name: &str) -> Option<(&PatchMeta, TypeId)> {
        static NONE: PatchMeta = PatchMeta { strategies: Vec::new(), merge_key: None };
        let map = self.atom(of).map.as_ref()?;
        match map.field(name) {
            Some(field) => Some((field.patch.as_deref().unwrap_or(&NONE), field.of)),
            None => map.rest.map(|rest| (&NONE, rest)),
        }
    }
}

impl Atom {
    pub(crate) fn kind_of(&self, value: &Value) -> AtomKind {
        match value {
            Value::Number(_) | Value::String(_) | Value::Bool(_) if self.scalar.is_some() => AtomKind::Scalar,
            Value::Array(_) if self.list.is_some() => AtomKind::List,
            Value::Object(_) if self.map.is_some() => AtomKind::Map,
            _ => match (self.map.is_some(), self.scalar.is_some(), self.list.is_some()) {
                (true, false, false) => AtomKind::Map,
                (false, true, false) => AtomKind::Scalar,
                (false, false, true) => AtomKind::List,
                _ => AtomKind::Open,
            },
        }
    }

    /// The type that a value of this kind is handled as.
    pub(crate) fn handle(&self, shape: AtomKind) -> Handle<'_> {
        let map =
            self.map.as_ref().filter(|_| matches!(shape, AtomKind::Map | AtomKind::Open)).map(Handle::Map);
        let scalar =
            || self.scalar.filter(|_| matches!(shape, AtomKind::Scalar | AtomKind::Open)).map(Handle::Scalar);
        let list = || self.list.as_ref().map(Handle::List);
        // The builder makes no atom that allows nothing.
        map.or_else(scalar).or_else(list).unwrap_or(Handle::Scalar(Scalar::Untyped))
    }

    /// The shape and the handling of one value.
    pub(crate) fn of(&self, value: &Value) -> Handle<'_> {
        self.handle(self.kind_of(value))
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Handle<'a> {
    Map(&'a MapType),
    Scalar(Scalar),
    List(&'a ListType),
}

impl MapType {
    pub(crate) fn field(&self, name: &str) -> Option<&StructField> {
        let place = self.fields.binary_search_by(|field| (*field.name).cmp(name)).ok()?;
        Some(&self.fields[place])
    }

    /// The type of the member `name`, if it may exist.
    pub(crate) fn member(&self, name: &str) -> Option<TypeId> {
        self.field(name).map(|field| field.of).or(self.rest)
    }

    /// Returns whether this is a map of which the schema says nothing.
    pub(crate) fn is_deduced(&self, types: &TypeInfo) -> bool {
        let untyped = |rest: TypeId| {
            rest == DEDUCED || (rest != UNTYPED && types.atom(rest).scalar == Some(Scalar::Untyped))
        };
        self.fields.is_empty() && self.rest.is_some_and(untyped)
    }
}

impl ListType {
    pub(crate) fn is_atomic(&self) -> bool {
        matches!(self.relation, ListRelation::Atomic)
    }

    /// The default of the key field `name`, for items that lack it.
    pub(crate) fn key_default<'a>(&self, types: &'a TypeInfo, name: &str) -> Option<&'a Value> {
        types.atom(self.items).map.as_ref()?.field(name)?.default.as_ref()
    }
}

#[cfg(test)]
mod tests;
