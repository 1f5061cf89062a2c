//! Parents of objects in the tree.
//!
//! ```text
//! parent = the owner that is its controller, else any owner, else the Cluster that names it, else the Cluster of its label
//! ```

use std::collections::HashMap;

use capt_api::names::labels;

use super::judge::judge;
use super::object_summary::{Kind, ObjectSummary};
use super::{Cause, Node, State};

/// The objects without a parent, with everything below them, by namespace, kind and name.
pub fn build(things: &[(Kind, &ObjectSummary)]) -> Vec<Node> {
    let index = Index::new(things);
    let mut children: HashMap<usize, Vec<usize>> = HashMap::new();
    let mut roots = Vec::new();
    for child in 0..things.len() {
        match index.parent(things, child) {
            Some(parent) => children.entry(parent).or_default().push(child),
            None => roots.push(child),
        }
    }
    sorted(things, &mut roots);
    roots.into_iter().map(|root| node(things, &mut children, root)).collect()
}

fn sorted(things: &[(Kind, &ObjectSummary)], siblings: &mut [usize]) {
    siblings.sort_by_cached_key(|index| {
        let (kind, thing) = things[*index];
        (thing.namespace().to_owned(), kind, natural(thing.name()))
    });
}

/// So that `web-10` comes after `web-9`.
fn natural(name: &str) -> (String, u64, String) {
    let digits = name.len() - name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    let (text, number) = name.split_at(name.len() - digits);
    (text.to_owned(), number.parse().unwrap_or_default(), name.to_owned())
}

fn node(things: &[(Kind, &ObjectSummary)], below: &mut HashMap<usize, Vec<usize>>, index: usize) -> Node {
    let (kind, thing) = things[index];
    let mut parts = below.remove(&index).unwrap_or_default();
    sorted(things, &mut parts);
    let children: Vec<Node> = parts.into_iter().map(|part| node(things, below, part)).collect();
    let verdict = judge(kind, thing);
    let all_well = children.iter().all(|child| child.worst() <= State::Paused);
    let explains = match verdict.state {
        State::Ready => false,
        // Of what is under way the parts say more; where they are all well, only the object itself knows.
        State::Working => all_well && !children.is_empty() && !verdict.message.is_empty(),
        State::Drifted
        | State::Paused
        | State::Deleting
        | State::Waiting
        | State::Approval
        | State::Blocked
        | State::Failed => true,
    };
    let own = explains.then(|| Cause {
        kind,
        name: thing.name().to_owned(),
        state: verdict.state,
        reason: verdict.reason.clone(),
        message: verdict.message.clone(),
        depth: 0,
    });
    let cause = Cause::of(own, children.iter().filter_map(|child| child.cause.clone()));
    Node {
        kind,
        namespace: thing.namespace().to_owned(),
        name: thing.name().to_owned(),
        state: verdict.state,
        phase: verdict.phase,
        detail: verdict.detail,
        created: thing.created(),
        cause,
        count: 1,
        children,
    }
}

/// Objects by what others call them.
struct Index<'a> {
    by_uid: HashMap<&'a str, usize>,
    clusters: HashMap<(&'a str, &'a str), usize>,
    /// Networks and control planes that a Cluster names.
    named: HashMap<(&'a str, &'a str, &'a str), usize>,
}

impl<'a> Index<'a> {
    fn new(things: &[(Kind, &'a ObjectSummary)]) -> Self {
        let mut index = Self { by_uid: HashMap::new(), clusters: HashMap::new(), named: HashMap::new() };
        for (at, (kind, thing)) in things.iter().enumerate() {
            if let Some(uid) = &thing.metadata.uid {
                index.by_uid.insert(uid, at);
            }
            if *kind == Kind::Cluster {
                index.clusters.insert((thing.namespace(), thing.name()), at);
                for part in thing.spec.infrastructure_ref.iter().chain(&thing.spec.control_plane_ref) {
                    index.named.insert((thing.namespace(), &part.kind, &part.name), at);
                }
            }
        }
        index
    }

    /// Never an object of a kind that stands lower: whatever owners say, this stays a tree.
    fn parent(&self, things: &[(Kind, &ObjectSummary)], child: usize) -> Option<usize> {
        let (kind, thing) = things[child];
        let above = |index: &usize| things[*index].0 < kind;
        let owners = thing.metadata.owner_references.as_deref().unwrap_or_default();
        let owner = |controls: bool| {
            owners
                .iter()
                .filter(|owner| !controls || owner.controller == Some(true))
                .filter_map(|owner| self.by_uid.get(owner.uid.as_str()).copied())
                .find(above)
        };
        let named =
            || self.named.get(&(thing.namespace(), kind.as_str(), thing.name())).copied().filter(above);
        let labelled = || {
            let cluster = thing.label(labels::CLUSTER_NAME)?;
            self.clusters.get(&(thing.namespace(), cluster)).copied().filter(above)
        };
        owner(true).or_else(|| owner(false)).or_else(named).or_else(labelled)
    }
}
