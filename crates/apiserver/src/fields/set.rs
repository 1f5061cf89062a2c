//! Sets of fields, as trees of path elements.
//!
//! A set holds paths. Holding a path says nothing of the paths below or above it: `.spec` and `.spec.replicas` are
//! two members. The empty path (the whole object) is never a member.
//!
//! Nodes are sorted and none is empty (neither a member nor the root of members), so two sets with the same members
//! are equal trees and the binary operations are merges of sorted lists.

use std::cmp::Ordering;

use super::{
    element::PathElement,
    types::{TypeId, TypeInfo},
};

/// A set of fields of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSet {
    pub(crate) nodes: Vec<Node>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) element: PathElement,
    /// Whether the path that ends here is in the set.
    pub(crate) member: bool,
    pub(crate) below: FieldSet,
}

impl Node {
    fn is_empty(&self) -> bool {
        !self.member && self.below.nodes.is_empty()
    }
}

impl FieldSet {
    /// The empty set.
    pub const EMPTY: Self = Self { nodes: Vec::new() };

    /// A set of paths that consist of field names only.
    pub fn of_fields(paths: &[&[&str]]) -> Self {
        let mut set = Self::default();
        for path in paths {
            set.insert(&path.iter().map(|name| PathElement::field(name)).collect::<Vec<_>>());
        }
        set
    }

    /// Whether nothing is in the set.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// How many paths are in the set.
    pub fn len(&self) -> usize {
        self.nodes.iter().map(|node| usize::from(node.member) + node.below.len()).sum()
    }

    /// Adds one path; the empty one is ignored.
    pub fn insert(&mut self, path: &[PathElement]) {
        match path {
            [] => {}
            [last] => self.node(last).member = true,
            [first, rest @ ..] => self.node(first).below.insert(rest),
        }
    }

    /// The node of `element`, made if need be. The caller fills it: an empty one must not stay.
    fn node(&mut self, element: &PathElement) -> &mut Node {
        let place = self.find(element).unwrap_or_else(|place| {
            let node = Node { element: element.clone(), member: false, below: Self::default() };
            self.nodes.insert(place, node);
            place
        });
        &mut self.nodes[place]
    }

    /// Adds a node that was built elsewhere; `None` of its parts may be empty.
    pub(crate) fn attach(&mut self, element: PathElement, member: bool, below: Self) {
        if !member && below.is_empty() {
            return;
        }
        // Most callers attach in order.
        if self.nodes.last().is_none_or(|last| last.element < element) {
            self.nodes.push(Node { element, member, below });
            return;
        }
        match self.find(&element) {
            Ok(place) => {
                let node = &mut self.nodes[place];
                node.member |= member;
                node.below = std::mem::take(&mut node.below).union(below);
            }
            Err(place) => self.nodes.insert(place, Node { element, member, below }),
        }
    }

    fn find(&self, element: &PathElement) -> Result<usize, usize> {
        self.nodes.binary_search_by(|node| node.element.cmp(element))
    }

    pub(crate) fn get(&self, element: &PathElement) -> Option<&Node> {
        self.find(element).ok().map(|place| &self.nodes[place])
    }

    pub(crate) fn get_field(&self, name: &str) -> Option<&Node> {
        let place = self.nodes.binary_search_by(|node| match &node.element {
            PathElement::Field(field) => (**field).cmp(name),
            _ => Ordering::Greater,
        });
        place.ok().map(|place| &self.nodes[place])
    }

    /// Whether the path is in the set.
    pub fn contains(&self, path: &[PathElement]) -> bool {
        match path {
            [] => false,
            [last] => self.get(last).is_some_and(|node| node.member),
            [first, rest @ ..] => self.get(first).is_some_and(|node| node.below.contains(rest)),
        }
    }

    /// Everything that is in either set.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        if self.is_empty() {
            return other;
        }
        if other.is_empty() {
            return self;
        }
        let mut nodes = Vec::with_capacity(self.nodes.len().max(other.nodes.len()));
        let mut right = other.nodes.into_iter().peekable();
        for mut node in self.nodes {
            while let Some(before) = right.next_if(|next| next.element < node.element) {
                nodes.push(before);
            }
            if let Some(same) = right.next_if(|next| next.element == node.element) {
                node.member |= same.member;
                node.below = node.below.union(same.below);
            }
            nodes.push(node);
        }
        nodes.extend(right);
        Self { nodes }
    }

    /// What is in both sets.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let mut out = Self::default();
        for (left, right) in self.pairs(other) {
            if let Some(right) = right {
                let below = left.below.intersection(&right.below);
                let member = left.member && right.member;
                if member || !below.is_empty() {
                    out.nodes.push(Node { element: left.element.clone(), member, below });
                }
            }
        }
        out
    }

    /// Whether no path is in both sets.
    pub fn is_disjoint(&self, other: &Self) -> bool {
        self.pairs(other).all(|(left, right)| {
            right.is_none_or(|right| !(left.member && right.member) && left.below.is_disjoint(&right.below))
        })
    }

    /// Whether every path is also in `other`.
    pub fn is_subset(&self, other: &Self) -> bool {
        self.pairs(other).all(|(left, right)| {
            right.is_some_and(|right| (!left.member || right.member) && left.below.is_subset(&right.below))
        })
    }

    /// Each node with the one of the same element in `other`.
    fn pairs<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = (&'a Node, Option<&'a Node>)> {
        let mut rest = other.nodes.as_slice();
        self.nodes.iter().map(move |left| {
            loop {
                let Some((right, after)) = rest.split_first() else { return (left, None) };
                match right.element.cmp(&left.element) {
                    Ordering::Less => rest = after,
                    Ordering::Equal => {
                        rest = after;
                        return (left, Some(right));
                    }
                    Ordering::Greater => return (left, None),
                }
            }
        })
    }

    /// Takes out exactly the paths of `other`; paths below them stay.
    pub fn subtract(&mut self, other: &Self) {
        self.subtract_with(other, |node, taken| {
            node.member &= !taken.member;
            node.below.subtract(&taken.below);
        });
    }

    /// Takes out the paths of `other` and everything below them.
    pub fn subtract_below(&mut self, other: &Self) {
        self.subtract_with(other, |node, taken| {
            if taken.member {
                node.member = false;
                node.below = Self::default();
            } else {
                node.below.subtract_below(&taken.below);
            }
        });
    }

    fn subtract_with(&mut self, other: &Self, take: impl Fn(&mut Node, &Node)) {
        let mut rest = other.nodes.as_slice();
        self.nodes.retain_mut(|node| {
            while let Some((taken, after)) = rest.split_first() {
                match taken.element.cmp(&node.element) {
                    Ordering::Less => rest = after,
                    Ordering::Equal => {
                        rest = after;
                        take(node, taken);
                        break;
                    }
                    Ordering::Greater => break,
                }
            }
            !node.is_empty()
        });
    }

    /// [`FieldSet::subtract`] on a copy.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        let mut out = self.clone();
        out.subtract(other);
        out
    }

    /// The set with every declared field on the way to a member added. Such fields are implied when objects are
    /// compared with sets: an owner of `.spec.replicas` keeps `.spec`, but not the item or map entry around a field.
    pub(crate) fn with_declared_fields(&self, types: &TypeInfo, at: Option<TypeId>) -> Self {
        let atom = at.map(|id| types.atom(id));
        let map = atom.and_then(|atom| atom.map.as_ref());
        let list = atom.and_then(|atom| atom.list.as_ref());
        let nodes = self.nodes.iter().map(|node| {
            let declared = match &node.element {
                PathElement::Field(name) => map.and_then(|map| map.field(name)),
                _ => None,
            };
            let at = match &node.element {
                PathElement::Field(_) => declared.map(|field| field.of).or(map.and_then(|map| map.rest)),
                PathElement::Key(_) => list.map(|list| list.items),
                PathElement::Value(_) | PathElement::Index(_) => None,
            };
            Node {
                element: node.element.clone(),
                member: node.member || declared.is_some(),
                below: node.below.with_declared_fields(types, at),
            }
        });
        Self { nodes: nodes.collect() }
    }

    /// Calls `visit` with each path: those of one level, in order, before those below them.
    pub fn for_each(&self, mut visit: impl FnMut(&[PathElement])) {
        self.visit(&mut Vec::new(), &mut visit);
    }

    fn visit(&self, path: &mut Vec<PathElement>, visit: &mut impl FnMut(&[PathElement])) {
        for node in self.nodes.iter().filter(|node| node.member) {
            path.push(node.element.clone());
            visit(path);
            path.pop();
        }
        for node in self.nodes.iter().filter(|node| !node.below.is_empty()) {
            path.push(node.element.clone());
            node.below.visit(path, visit);
            path.pop();
        }
    }

    /// All paths, in the order of [`FieldSet::for_each`].
    pub fn paths(&self) -> Vec<Vec<PathElement>> {
        let mut out = Vec::new();
        self.for_each(|path| out.push(path.to_vec()));
        out
    }
}
