//! Field sets that were written when the schema was another.
//!
//! When a map or list has become atomic since, who owned fields inside it now owns the whole. The other way round
//! nothing changes: the owner of the whole keeps only that.

use super::{
    element::PathElement,
    set::{FieldSet, Node},
    types::{Atom, AtomKind, Handle, TypeId, TypeInfo},
};

/// The set as the present schema has it.
pub(crate) fn reconcile(set: &mut FieldSet, types: &TypeInfo) {
    below(set, types, types.root());
}

fn below(set: &mut FieldSet, types: &TypeInfo, of: TypeId) {
    match types.atom(of).handle(AtomKind::Open) {
        Handle::Map(map) if !map.is_deduced(types) => {
            for node in &mut set.nodes {
                let member = match &node.element {
                    PathElement::Field(name) => map.member(name),
                    _ => map.rest,
                };
                if let Some(of) = member {
                    at(node, types, of);
                }
            }
        }
        Handle::List(list) => set.nodes.iter_mut().for_each(|node| at(node, types, list.items)),
        Handle::Map(_) | Handle::Scalar(_) => {}
    }
}

fn at(node: &mut Node, types: &TypeInfo, of: TypeId) {
    if node.below.is_empty() {
        return;
    }
    if is_atomic(types.atom(of), types) {
        node.member = true;
        node.below = FieldSet::EMPTY;
    } else {
        below(&mut node.below, types, of);
    }
}

fn is_atomic(atom: &Atom, types: &TypeInfo) -> bool {
    match atom.handle(AtomKind::Open) {
        Handle::Map(map) => map.atomic && !map.is_deduced(types),
        Handle::List(list) => list.is_atomic(),
        Handle::Scalar(_) => false,
    }
}
