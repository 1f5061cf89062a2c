//! Elements of sets, keys of maps: looked up instead of compared one by one.

use std::collections::HashMap;
use std::rc::Rc;

use jiff::Timestamp;

use crate::cel::budget::Cost;
use crate::cel::library::size_of;
use crate::cel::ops;
use crate::cel::value::{EvalError, Str, Val};

/// The identity of a scalar under `==`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Key<'a> {
    Null,
    Bool(bool),
    /// A whole number of any type.
    Whole(i128),
    /// The bits of any other.
    Double(u64),
    Text(Str<'a>),
    Bytes(Rc<[u8]>),
    Duration(i64),
    Timestamp(Timestamp),
    /// The keys of an element of a list, where they are given.
    Several(Vec<Option<Key<'a>>>),
}

impl<'a> Key<'a> {
    /// None for what is no scalar, and for what equals nothing.
    pub fn of(value: &Val<'a>) -> Option<Self> {
        Some(match value {
            Val::Null => Self::Null,
            Val::Bool(value) => Self::Bool(*value),
            Val::Int(value) => Self::Whole(i128::from(*value)),
            Val::Uint(value) => Self::Whole(i128::from(*value)),
            Val::Double(value) if value.is_nan() => return None,
            // Far beyond what integers of any type reach.
            Val::Double(value) if value.fract() != 0.0 || value.abs() > 1e30 => Self::Double(value.to_bits()),
            #[expect(clippy::cast_possible_truncation, reason = "whole, and within bounds")]
            Val::Double(value) => Self::Whole(*value as i128),
            Val::String(text) => Self::Text(text.clone()),
            Val::Bytes(bytes) => Self::Bytes(bytes.clone()),
            Val::Duration(nanos) => Self::Duration(*nanos),
            Val::Timestamp(time) => Self::Timestamp(*time),
            _ => return None,
        })
    }
}

/// Entries of a map made by a rule, in the order of their coming.
#[derive(Clone, Debug, Default)]
pub(crate) struct Entries<'a> {
    pairs: Vec<(Val<'a>, Val<'a>)>,
    positions: HashMap<Key<'a>, usize>,
}

impl<'a> Entries<'a> {
    pub fn len(&self) -> usize {
        self.pairs.len()
    }

    pub fn get(&self, key: &Val<'a>) -> Option<&Val<'a>> {
        let position = self.positions.get(&Key::of(key)?)?;
        self.pairs.get(*position).map(|(_, value)| value)
    }

    pub fn get_mut(&mut self, key: &Val<'a>) -> Option<&mut Val<'a>> {
        let position = self.positions.get(&Key::of(key)?)?;
        self.pairs.get_mut(*position).map(|(_, value)| value)
    }

    /// Adds a key that is not there yet.
    pub fn push(&mut self, key: Val<'a>, value: Val<'a>) {
        if let Some(found) = Key::of(&key) {
            self.positions.insert(found, self.pairs.len());
        }
        self.pairs.push((key, value));
    }

    pub fn key(&self, index: usize) -> Option<&Val<'a>> {
        self.pairs.get(index).map(|(key, _)| key)
    }
}

fn usable_key(key: &Val<'_>, cost: &Cost) -> Result<(), EvalError> {
    cost.spend_on_bytes(size_of(key))?;
    if matches!(key, Val::String(_) | Val::Int(_) | Val::Uint(_) | Val::Bool(_) | Val::Double(_)) {
        return Ok(());
    }
    Err(EvalError::other(format!("unsupported key type: {}", key.type_name())))
}

/// In a literal, the last value of a key counts.
pub(crate) fn replace<'a>(
    entries: &mut Entries<'a>,
    key: Val<'a>,
    value: Val<'a>,
    cost: &Cost,
) -> Result<(), EvalError> {
    usable_key(&key, cost)?;
    match entries.get_mut(&key) {
        Some(existing) => *existing = value,
        None => entries.push(key, value),
    }
    Ok(())
}

/// In a transformation, a key may come once.
pub(crate) fn insert<'a>(
    entries: &mut Entries<'a>,
    key: Val<'a>,
    value: Val<'a>,
    cost: &Cost,
) -> Result<(), EvalError> {
    usable_key(&key, cost)?;
    if entries.get(&key).is_some() {
        let key = ops::display(&key);
        return Err(EvalError::other(format!("insert failed: key {key} already exists")));
    }
    entries.push(key, value);
    Ok(())
}
