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
    /// True if the path that ends here is in the set.
    pub(crate) member: bool,
    pub(crate) below: FieldSet,
}

impl Node {
    fn is_empty(&self) -> bool {
        !self.member && self.below.nodes.is_empty()
    }

    fn join_below(&mut self, others: &mut Vec<FieldSet>) {
        if !others.is_empty() {
            others.push(std::mem::take(&mut self.below));
            self.below = FieldSet::union_all(others.drain(..));
        }
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

    /// Returns whether nothing is in the set.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The number of paths in the set.
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

    /// Adds a node that was built elsewhere; nothing, if it is empty. In whatever order nodes come, they are put in
    /// theirs once, by [`FieldSet::arrange`]: a place for each would be looked for among all that are there.
    pub(crate) fn attach(&mut self, element: PathElement, member: bool, below: Self) {
        if member || !below.is_empty() {
            self.nodes.push(Node { element, member, below });
        }
    }

    /// Puts attached nodes in order; those of one element become one.
    pub(crate) fn arrange(&mut self) {
        if self.nodes.is_sorted_by(|left, right| left.element < right.element) {
            return;
        }
        self.nodes.sort_by(|left, right| left.element.cmp(&right.element));
        let mut nodes: Vec<Node> = Vec::with_capacity(self.nodes.len());
        // What is below the last of them, besides its own: joined once, however many there are.
        let mut below = Vec::new();
        for node in std::mem::take(&mut self.nodes) {
            match nodes.last_mut() {
                Some(last) if last.element == node.element => {
                    last.member |= node.member;
                    below.push(node.below);
                }
                last => {
                    if let Some(last) = last {
                        last.join_below(&mut below);
                    }
                    nodes.push(node);
                }
            }
        }
        nodes.last_mut().into_iter().for_each(|last| last.join_below(&mut below));
        self.nodes = nodes;
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

    /// Returns whether the path is in the set.
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

    /// Everything that is in any of the sets. One by one, each would be walked for all that come after it.
    pub(crate) fn union_all(sets: impl IntoIterator<Item = Self>) -> Self {
        let mut all = Self { nodes: sets.into_iter().flat_map(|set| set.nodes).collect() };
        all.arrange();
        all
    }

    /// The intersection of both sets.
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

    /// Returns whether no path is in both sets.
    pub fn is_disjoint(&self, other: &Self) -> bool {
        self.pairs(other).all(|(left, right)| {
            right.is_none_or(|right| !(left.member && right.member) && left.below.is_disjoint(&right.below))
        })
    }

    /// Returns whether every path is also in `other`.
    pub fn is_subset(&self, other: &Self) -> bool {
        self.pairs(other).all(|(left, right)| {
            right.is_some_and(|right| (!left.member || right.member) && left.below.is_subset(&right.below))
        })
    }

    /// Each node with the one of the same element in `other`.
    fn pairs<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = (&'a Node, Option<&'a Node>)> {
        let mut rest = other.nodes.as_slice();
        self.nodes.iter().map(move |left| (left, next(&mut rest, &left.element)))
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
            if let Some(taken) = next(&mut rest, &node.element) {
                take(node, taken);
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

    /// All paths below `above`, each made when it is asked for, in the order of [`FieldSet::for_each`].
    pub(crate) fn iter_paths(
        &self,
        above: Vec<PathElement>,
    ) -> Box<dyn Iterator<Item = Vec<PathElement>> + '_> {
        let path = move |node: &Node| [above.as_slice(), std::slice::from_ref(&node.element)].concat();
        let here = path.clone();
        let members = self.nodes.iter().filter(|node| node.member).map(here);
        let below = self.nodes.iter().filter(|node| !node.below.is_empty());
        Box::new(members.chain(below.flat_map(move |node| node.below.iter_paths(path(node)))))
    }

    /// All paths, in the order of [`FieldSet::for_each`].
    pub fn paths(&self) -> Vec<Vec<PathElement>> {
        let mut out = Vec::new();
        self.for_each(|path| out.push(path.to_vec()));
        out
    }
}

/// The node of `element` among the rest of a set, which then begins behind it. The steps over nodes before it grow: thousands
/// of managers with a field each meet changes of thousands of fields.
fn next<'a>(rest: &mut &'a [Node], element: &PathElement) -> Option<&'a Node> {
    let nodes = *rest;
    let mut bound = 1;
    while nodes.get(bound - 1).is_some_and(|node| node.element < *element) {
        bound *= 2;
    }
    let passed = bound / 2;
    let place = passed
        + nodes[passed.min(nodes.len())..bound.min(nodes.len())]
            .partition_point(|node| node.element < *element);
    let found = nodes.get(place).filter(|node| node.element == *element);
    *rest = nodes.get(place + usize::from(found.is_some())..).unwrap_or_default();
    found
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    type Paths = BTreeSet<Vec<String>>;

    fn paths() -> impl Strategy<Value = Paths> {
        let path = prop::collection::vec("[a-h]{1,2}", 1..3);
        prop::collection::btree_set(path, 0..40)
    }

    fn set(paths: &Paths) -> FieldSet {
        let mut set = FieldSet::default();
        for path in paths {
            set.insert(&path.iter().map(|name| PathElement::field(name)).collect::<Vec<_>>());
        }
        set
    }

    proptest! {
        /// Sets of paths, by those of the standard library.
        #[test]
        fn like_sets(all in prop::collection::vec(paths(), 2..6)) {
            let (left, right) = (&all[0], &all[1]);
            let (one, other) = (set(left), set(right));
            let of = |paths: &mut dyn Iterator<Item = &Vec<String>>| set(&paths.cloned().collect());
            prop_assert_eq!(one.intersection(&other), of(&mut left.intersection(right)));
            prop_assert_eq!(one.difference(&other), of(&mut left.difference(right)));
            prop_assert_eq!(one.clone().union(other.clone()), of(&mut left.union(right)));
            prop_assert_eq!(one.is_disjoint(&other), left.is_disjoint(right));
            prop_assert_eq!(one.is_subset(&other), left.is_subset(right));
            prop_assert!(one.intersection(&other).is_subset(&one));
            prop_assert_eq!(one.iter_paths(Vec::new()).collect::<Vec<_>>(), one.paths());
            prop_assert_eq!(FieldSet::union_all(all.iter().map(set)), of(&mut all.iter().flatten()));
        }
    }
}
