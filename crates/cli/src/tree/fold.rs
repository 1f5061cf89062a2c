//! Makes a tree fit a screen: the larger it is, the more of what is alike becomes one line.
//!
//! | Level | What is done |
//! |---|---|
//! | 0 | empty sets of earlier revisions are one line |
//! | 1 | a workspace is told on the line of what it is for |
//! | 2 | alike siblings are one line: same kind, state and reason |
//! | 3 | what is ready is told without its parts |
//! | 4 | what is well is left out, then the rest, the deepest first: a line says how many |

use std::cmp::Reverse;
use std::collections::HashMap;

use capt_planner::Count;

use super::object_summary::Kind;
use super::{Node, State};

/// Fewer than this are shown one by one.
const MANY: usize = 4;
const LAST_LEVEL: u8 = 3;

/// A tree that fits, and how many objects had to be left out.
pub struct Folded {
    pub roots: Vec<Node>,
    pub left_out: usize,
}

/// Folds as little as makes it fit into so many lines; `height` measures what trees take.
pub fn fit(roots: Vec<Node>, lines: usize, height: impl Fn(&[Node]) -> usize) -> Folded {
    let mut folded = roots;
    for level in 0..=LAST_LEVEL {
        folded = at_level(folded, level);
        if height(&folded) <= lines {
            return Folded { roots: folded, left_out: 0 };
        }
    }
    cut(folded, lines, height)
}

/// Returns true if the cause is printed below this very line, and not below one of its parts.
pub fn shows_cause(node: &Node) -> bool {
    let Some(cause) = node.cause.as_ref().filter(|cause| !cause.message.is_empty()) else { return false };
    let mut below = node.children.iter().filter_map(|child| child.cause.as_ref());
    !below.any(|theirs| theirs.is_same(cause))
}

impl super::Cause {
    /// Returns true if both are the same object's.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        (self.kind, &self.name) == (other.kind, &other.name)
    }
}

fn at_level(roots: Vec<Node>, level: u8) -> Vec<Node> {
    match level {
        0 => roots.into_iter().map(with_empty_sets_as_one).collect(),
        1 => roots.into_iter().map(without_workspaces).collect(),
        2 => grouped(roots.into_iter().map(group_parts).collect()),
        _ => grouped(roots.into_iter().map(without_parts_of_ready).collect()),
    }
}

fn without_workspaces(mut node: Node) -> Node {
    node.children = node.children.into_iter().map(without_workspaces).collect();
    if let [only] = node.children.as_slice()
        && only.kind == Kind::WorkspaceTemplateApply
        && only.children.is_empty()
    {
        if only.state != State::Ready && !only.detail.is_empty() {
            node.detail = if node.detail.is_empty() {
                only.detail.clone()
            } else {
                format!("{}, {}", node.detail, only.detail)
            };
        }
        node.children.clear();
    }
    node
}

fn with_empty_sets_as_one(mut node: Node) -> Node {
    let parts = node.children.into_iter().map(with_empty_sets_as_one);
    let (empty, rest): (Vec<Node>, Vec<Node>) = parts.partition(is_empty_set);
    node.children = rest;
    node.children
        .extend(into_one(empty, 2).into_iter().map(|set| Node { detail: "no machines".into(), ..set }));
    node
}

fn is_empty_set(node: &Node) -> bool {
    node.kind == Kind::CaptMachineSet && node.state == State::Ready && node.children.is_empty()
}

fn group_parts(mut node: Node) -> Node {
    node.children = grouped(node.children.into_iter().map(group_parts).collect());
    node
}

/// Siblings without parts of their own, by how they are alike, in the order of the first of each.
fn grouped(siblings: Vec<Node>) -> Vec<Node> {
    let mut order: Vec<Vec<Node>> = Vec::new();
    let mut places: HashMap<_, usize> = HashMap::new();
    for node in siblings {
        if !node.children.is_empty() {
            order.push(vec![node]);
            continue;
        }
        let reason = node.cause.as_ref().map(|cause| cause.reason.clone());
        let key = (node.namespace.clone(), node.kind, node.state, node.phase.clone(), reason);
        let place = *places.entry(key).or_insert_with(|| {
            order.push(Vec::new());
            order.len() - 1
        });
        order[place].push(node);
    }
    order.into_iter().flat_map(|alike| into_one(alike, MANY)).collect()
}

/// One node for all of them, where they are many.
fn into_one(alike: Vec<Node>, many: usize) -> Vec<Node> {
    let count = alike.iter().map(|node| node.count).sum();
    if alike.len() < many {
        return alike;
    }
    let oldest = alike.iter().filter_map(|node| node.created).min();
    let last = alike.last().map(|node| node.name.clone()).unwrap_or_default();
    let Some(first) = alike.into_iter().next() else { return Vec::new() };
    vec![Node {
        name: format!("{} … {last}", first.name),
        detail: String::new(),
        created: oldest,
        count,
        ..first
    }]
}

fn without_parts_of_ready(mut node: Node) -> Node {
    if node.worst() == State::Ready {
        let machines = machines(&node);
        if machines > 0 && node.kind < Kind::CaptMachineDeployment {
            node.detail = [node.detail.as_str(), &Count(machines, "machine").to_string()]
                .iter()
                .filter(|part| !part.is_empty())
                .copied()
                .collect::<Vec<_>>()
                .join(", ");
        }
        node.children.clear();
    } else {
        node.children = grouped(node.children.into_iter().map(without_parts_of_ready).collect());
    }
    node
}

fn machines(node: &Node) -> usize {
    let mut count = 0;
    node.walk(&mut |part| count += if part.kind == Kind::CaptMachine { part.count } else { 0 });
    count
}

/// Of each tree its first line and its cause, the worst first, as many as there is room for; then more of each.
fn cut(mut roots: Vec<Node>, lines: usize, height: impl Fn(&[Node]) -> usize) -> Folded {
    roots.sort_by_key(|root| Reverse(urgency(root)));
    // One line says how many are left out.
    let (mut used, mut kept, mut left_out) = (1, Vec::new(), 0);
    for root in roots {
        let needs = height(&[alone(&root)]);
        if used + needs <= lines || kept.is_empty() {
            used += needs;
            kept.push((root, needs));
        } else {
            left_out += objects(&root);
        }
    }
    let grow = |(root, needs): (Node, usize)| {
        let grown = worst_of(&root, needs + lines.saturating_sub(used), &height);
        used = used - needs + height(std::slice::from_ref(&grown));
        left_out += objects(&root) - objects(&grown);
        grown
    };
    let roots = kept.into_iter().map(grow).collect();
    Folded { roots, left_out }
}

/// The order in which parts go: what is well first, of what stands alike the deepest, of these the last. Never before its own parts.
type Rank = (State, Reverse<usize>, Reverse<usize>);

/// As much of a tree as so many lines take; at least its first line.
fn worst_of(root: &Node, lines: usize, height: &impl Fn(&[Node]) -> usize) -> Node {
    let mut ranks = Vec::new();
    rank(root, 0, &mut ranks);
    let mut order = ranks.clone();
    order.sort_unstable();
    let without =
        |gone: usize| at_least(root, &order[gone], &mut ranks.iter()).unwrap_or_else(|| alone(root));
    let (mut few, mut many) = (0, order.len() - 1);
    while few < many {
        let middle = usize::midpoint(few, many);
        if height(&[without(middle)]) <= lines {
            many = middle;
        } else {
            few = middle + 1;
        }
    }
    without(few)
}

/// The worst that a node or any part of it is, those that are folded away included: their causes are still there.
fn urgency(node: &Node) -> State {
    let told = node.cause.as_ref().map_or(State::Ready, |cause| cause.state);
    node.children.iter().map(urgency).fold(node.state.max(told), State::max)
}

/// Ranks of a tree's parts, parents first.
fn rank(node: &Node, depth: usize, ranks: &mut Vec<Rank>) {
    ranks.push((urgency(node), Reverse(depth), Reverse(ranks.len())));
    node.children.iter().for_each(|child| rank(child, depth + 1, ranks));
}

/// A tree without the parts that go before this rank.
fn at_least(node: &Node, least: &Rank, ranks: &mut std::slice::Iter<'_, Rank>) -> Option<Node> {
    let stays = ranks.next()? >= least;
    let children = node.children.iter().filter_map(|child| at_least(child, least, ranks)).collect();
    stays.then(|| Node { children, ..alone(node) })
}

fn alone(node: &Node) -> Node {
    let Node { kind, namespace, name, state, phase, detail, created, cause, count, children: _ } = node;
    Node {
        kind: *kind,
        namespace: namespace.clone(),
        name: name.clone(),
        state: *state,
        phase: phase.clone(),
        detail: detail.clone(),
        created: *created,
        cause: cause.clone(),
        count: *count,
        children: Vec::new(),
    }
}

fn objects(node: &Node) -> usize {
    let mut count = 0;
    node.walk(&mut |part| count += part.count);
    count
}
