//! Comparison of two versions of an object, as sets of fields.

use serde_json::{Map, Value};

use super::{
    element::PathElement,
    item::element_of,
    order::equal,
    set::FieldSet,
    types::{Handle, ListType, MapType, Scalar, TypeId, TypeInfo},
};

/// The difference of two objects. No field is in more than one of the sets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    /// Fields only the new object has.
    pub added: FieldSet,
    /// Leaves both have, with other values.
    pub modified: FieldSet,
    /// Fields only the old object has.
    pub removed: FieldSet,
}

impl Comparison {
    /// Returns whether nothing changed.
    pub fn is_same(&self) -> bool {
        self.added.is_empty() && self.modified.is_empty() && self.removed.is_empty()
    }

    /// Forgets changes of `fields` and of everything below them.
    pub(crate) fn ignore(&mut self, fields: &FieldSet) {
        for set in [&mut self.added, &mut self.modified, &mut self.removed] {
            set.subtract_below(fields);
        }
    }

    fn arrange(&mut self) {
        for set in [&mut self.added, &mut self.modified, &mut self.removed] {
            set.arrange();
        }
    }

    /// The fields that the new object sets.
    pub(crate) fn changed(&self) -> FieldSet {
        self.modified.clone().union(self.added.clone())
    }
}

/// Compares two valid objects of one type.
pub fn compare(old: &Value, new: &Value, types: &TypeInfo) -> Comparison {
    Walk { types }.pair(Some(old), Some(new), types.root()).below
}

struct Walk<'a> {
    types: &'a TypeInfo,
}

/// The differences below a path, and of the path itself.
#[derive(Default)]
struct Found {
    below: Comparison,
    here: Here,
}

/// The difference of a path itself.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Here {
    added: bool,
    modified: bool,
    removed: bool,
}

impl Here {
    fn of(old: Option<&Value>, new: Option<&Value>) -> Self {
        Self { added: old.is_none(), removed: new.is_none(), modified: false }
    }
}

impl Found {
    fn attach(self, element: &PathElement, to: &mut Comparison) {
        let Self { below: Comparison { added, modified, removed }, here } = self;
        // Mostly nothing changed, or one of three: the others need no copy of the element.
        for (set, member, below) in [
            (&mut to.added, here.added, added),
            (&mut to.modified, here.modified, modified),
            (&mut to.removed, here.removed, removed),
        ] {
            if member || !below.is_empty() {
                set.attach(element.clone(), member, below);
            }
        }
    }
}

impl<'a> Walk<'a> {
    fn pair(&self, old: Option<&'a Value>, new: Option<&'a Value>, of: TypeId) -> Found {
        let atom = self.types.atom(of);
        let mut found = Found::default();
        let leaf = match (old, new) {
            (None, None) => return found,
            (Some(old), Some(new)) => {
                let (old_shape, new_shape) = (atom.kind_of(old), atom.kind_of(new));
                if old_shape != new_shape {
                    // The value became one of another kind: what each kind says counts.
                    self.handle(atom.handle(old_shape), Some(old), Some(new), &mut found);
                }
                self.handle(atom.handle(new_shape), Some(old), Some(new), &mut found)
            }
            (old, new) => {
                let Some(only) = old.or(new) else { return found };
                self.handle(atom.of(only), old, new, &mut found)
            }
        };
        if !leaf {
            let Here { added, removed, .. } = Here::of(old, new);
            found.here.added |= added;
            found.here.removed |= removed && !added;
        }
        found
    }

    /// Returns whether the place was compared as a leaf.
    fn handle(
        &self,
        handle: Handle<'_>,
        old: Option<&'a Value>,
        new: Option<&'a Value>,
        found: &mut Found,
    ) -> bool {
        match handle {
            Handle::Scalar(scalar) => {
                let fits = |value: Option<&Value>| value.is_none_or(|value| is_scalar(value, scalar));
                if !fits(old) && !fits(new) {
                    return false;
                }
            }
            Handle::Map(map) if !map.atomic => {
                let (old, new) = (old.and_then(Value::as_object), new.and_then(Value::as_object));
                if old.is_some_and(|old| !old.is_empty()) || new.is_some_and(|new| !new.is_empty()) {
                    self.members(old, new, map, &mut found.below);
                    return false;
                }
            }
            Handle::List(list) if !list.is_atomic() => {
                let items =
                    |value: Option<&'a Value>| value.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
                let (old, new) = (items(old), items(new));
                if !old.is_empty() || !new.is_empty() {
                    self.items(old, new, list, &mut found.below);
                    return false;
                }
            }
            Handle::Map(_) | Handle::List(_) => {}
        }
        match (old, new) {
            (None, _) => found.here.added = true,
            (_, None) => found.here.removed = true,
            (Some(old), Some(new)) => found.here.modified |= !equal(old, new),
        }
        true
    }

    fn members(
        &self,
        old: Option<&'a Map<String, Value>>,
        new: Option<&'a Map<String, Value>>,
        map: &MapType,
        out: &mut Comparison,
    ) {
        let mut member = |name: &str, old: Option<&'a Value>, new: Option<&'a Value>| {
            if let Some(of) = map.member(name) {
                let found = self.pair(old, new, of);
                if found.here != Here::default() || !found.below.is_same() {
                    found.attach(&PathElement::field(name), out);
                }
            }
        };
        for (name, value) in old.into_iter().flatten() {
            member(name, Some(value), new.and_then(|new| new.get(name)));
        }
        for (name, value) in new.into_iter().flatten() {
            if old.is_none_or(|old| !old.contains_key(name)) {
                member(name, None, Some(value));
            }
        }
        out.arrange();
    }

    fn items(&self, old: &'a [Value], new: &'a [Value], list: &ListType, out: &mut Comparison) {
        let (old, new) = (self.index(old, list), self.index(new, list));
        let mut right = new.iter().peekable();
        for (element, old) in &old {
            while let Some((element, new)) = right.next_if(|(next, _)| next < element) {
                self.item(element, &[], new, list, out);
            }
            let same = right.next_if(|(next, _)| next == element);
            self.item(element, old, same.map_or(&[], |(_, new)| new), list, out);
        }
        for (element, new) in right {
            self.item(element, &[], new, list, out);
        }
        out.arrange();
    }

    /// The items of a list by element, in order; several where there are duplicates.
    fn index(&self, items: &'a [Value], list: &ListType) -> Vec<(PathElement, Vec<&'a Value>)> {
        let mut all: Vec<_> = items
            .iter()
            .filter_map(|item| element_of(self.types, list, item).ok().map(|element| (element, item)))
            .collect();
        all.sort_by(|(left, _), (right, _)| left.cmp(right));
        let mut out: Vec<(PathElement, Vec<&Value>)> = Vec::with_capacity(all.len());
        for (element, item) in all {
            match out.last_mut() {
                Some((known, same)) if *known == element => same.push(item),
                _ => out.push((element, vec![item])),
            }
        }
        out
    }

    fn item(
        &self,
        element: &PathElement,
        old: &[&'a Value],
        new: &[&'a Value],
        list: &ListType,
        out: &mut Comparison,
    ) {
        let mut found = match (old, new) {
            // Duplicates before and after are compared as if they were one atomic value.
            ([_, _, ..], [_, _, ..]) => {
                let same = old.len() == new.len() && old.iter().zip(new).all(|(old, new)| equal(old, new));
                Found { here: Here { modified: !same, ..Here::default() }, ..Found::default() }
            }
            ([_, _, ..], _) if new.is_empty() => Found::default(),
            ([_, _, ..], _) => self.pair(None, new.first().copied(), list.items),
            (_, [_, _, ..]) if old.is_empty() => Found::default(),
            (_, [_, _, ..]) => self.pair(old.first().copied(), None, list.items),
            _ => self.pair(old.first().copied(), new.first().copied(), list.items),
        };
        // The duplicates as such go or come.
        found.here.removed |= old.len() > 1 && new.len() < 2;
        found.here.added |= new.len() > 1 && old.len() < 2;
        if found.here != Here::default() || !found.below.is_same() {
            found.attach(element, out);
        }
    }
}

fn is_scalar(value: &Value, scalar: Scalar) -> bool {
    match value {
        Value::Null => true,
        Value::Number(_) => matches!(scalar, Scalar::Numeric | Scalar::Untyped),
        Value::String(_) => matches!(scalar, Scalar::String | Scalar::Untyped),
        Value::Bool(_) => matches!(scalar, Scalar::Boolean | Scalar::Untyped),
        Value::Array(_) | Value::Object(_) => false,
    }
}
