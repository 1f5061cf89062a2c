//! What follows from each constellation of owners and dependents.

use serde_json::json;

use super::*;

/// An object `uid` in `namespace`, with owners `(uid, blocks)` and finalizers; finalizers mean it is being deleted.
fn put(graph: &mut Graph, uid: &str, namespace: &str, owners: &[(&str, bool)], finalizers: &[&str]) {
    let references: Vec<Value> = owners
        .iter()
        .map(|(uid, blocks)| json!({"apiVersion": "v1", "kind": "X", "name": uid, "uid": uid, "blockOwnerDeletion": blocks}))
        .collect();
    let mut object = json!({"metadata": {"name": uid, "namespace": namespace, "uid": uid, "ownerReferences": references, "finalizers": finalizers}});
    if !finalizers.is_empty() {
        object["metadata"]["deletionTimestamp"] = json!("now");
    }
    graph.observe(&Key::new("x", namespace, uid), &object);
}

#[test]
fn a_write_that_changes_nothing_here_touches_nobody_else() {
    let mut graph = Graph::default();
    put(&mut graph, "owner", "ns", &[], &[]);
    put(&mut graph, "child", "ns", &[("owner", true)], &[]);
    let status = |word: &str| json!({"metadata": {"uid": "owner"}, "status": word});
    let key = Key::new("x", "ns", "owner");
    assert_eq!(graph.observe(&key, &status("new")), BTreeSet::from([Uid::from("owner")]));
    let mut going = status("going");
    going["metadata"]["deletionTimestamp"] = json!("now");
    assert_eq!(graph.observe(&key, &going), BTreeSet::from([Uid::from("owner"), Uid::from("child")]));
}

#[test]
fn dependents_of_absent_owners_go() {
    let mut graph = Graph::default();
    put(&mut graph, "child", "ns", &[("nobody", true)], &[]);
    assert_eq!(graph.action("child"), Some(Action::Delete { foreground: false }));
}

#[test]
fn a_solid_owner_keeps_a_dependent_and_absent_ones_are_disowned() {
    let mut graph = Graph::default();
    put(&mut graph, "owner", "ns", &[], &[]);
    put(&mut graph, "child", "ns", &[("owner", true)], &[]);
    assert_eq!(graph.action("child"), None);
    put(&mut graph, "child", "ns", &[("owner", true), ("nobody", false)], &[]);
    assert_eq!(graph.action("child"), Some(Action::Disown(vec!["nobody".into()])));
}

#[test]
fn an_owner_in_another_namespace_is_absent_and_one_without_is_not() {
    let mut graph = Graph::default();
    put(&mut graph, "elsewhere", "other", &[], &[]);
    put(&mut graph, "cluster", "", &[], &[]);
    put(&mut graph, "a", "ns", &[("elsewhere", true)], &[]);
    put(&mut graph, "b", "ns", &[("cluster", true)], &[]);
    assert_eq!(graph.action("a"), Some(Action::Delete { foreground: false }));
    assert_eq!(graph.action("b"), None);
}

#[test]
fn foreground_waits_for_dependents_that_block() {
    let mut graph = Graph::default();
    put(&mut graph, "owner", "ns", &[], &[FOREGROUND]);
    put(&mut graph, "blocking", "ns", &[("owner", true)], &[]);
    put(&mut graph, "other", "ns", &[("owner", false)], &[]);
    assert_eq!(graph.action("owner"), None);
    assert_eq!(graph.action("blocking"), Some(Action::Delete { foreground: false }));
    assert_eq!(graph.action("other"), Some(Action::Delete { foreground: false }));
    assert_eq!(graph.forget("blocking"), BTreeSet::from([Uid::from("owner")]));
    assert_eq!(graph.action("owner"), Some(Action::Release(FOREGROUND)));
}

#[test]
fn foreground_goes_down_the_tree() {
    let mut graph = Graph::default();
    put(&mut graph, "root", "ns", &[], &[FOREGROUND]);
    put(&mut graph, "middle", "ns", &[("root", true)], &[]);
    put(&mut graph, "leaf", "ns", &[("middle", true)], &[]);
    assert_eq!(graph.action("middle"), Some(Action::Delete { foreground: true }));
    assert_eq!(graph.action("leaf"), None);
    put(&mut graph, "middle", "ns", &[("root", true)], &[FOREGROUND]);
    assert_eq!(graph.action("leaf"), Some(Action::Delete { foreground: false }));
    graph.forget("leaf");
    assert_eq!(graph.action("middle"), Some(Action::Release(FOREGROUND)));
}

#[test]
fn orphans_are_let_go_before_their_owner_goes() {
    let mut graph = Graph::default();
    put(&mut graph, "owner", "ns", &[], &[ORPHAN]);
    put(&mut graph, "child", "ns", &[("owner", true)], &[]);
    assert_eq!(graph.action("owner"), None);
    assert_eq!(graph.action("child"), Some(Action::Disown(vec!["owner".into()])));
    put(&mut graph, "child", "ns", &[], &[]);
    assert_eq!(graph.action("owner"), Some(Action::Release(ORPHAN)));
    assert_eq!(graph.action("child"), None);
}

#[test]
fn cycles_do_not_hang() {
    let mut graph = Graph::default();
    put(&mut graph, "a", "ns", &[("b", true)], &[FOREGROUND]);
    put(&mut graph, "b", "ns", &[("a", true)], &[FOREGROUND]);
    assert_eq!(graph.action("a"), Some(Action::Release(FOREGROUND)));
}

#[test]
fn what_is_deleting_for_another_reason_is_left_alone() {
    let mut graph = Graph::default();
    put(&mut graph, "child", "ns", &[("nobody", true)], &["example.com/mine"]);
    assert_eq!(graph.action("child"), None);
}

#[test]
fn a_change_touches_owners_and_dependents() {
    let mut graph = Graph::default();
    put(&mut graph, "owner", "ns", &[], &[]);
    put(&mut graph, "child", "ns", &[("owner", true)], &[]);
    let object =
        json!({"metadata": {"name": "owner", "namespace": "ns", "uid": "owner", "deletionTimestamp": "now"}});
    let touched = graph.observe(&Key::new("x", "ns", "owner"), &object);
    assert_eq!(touched, BTreeSet::from([Uid::from("child"), Uid::from("owner")]));
    assert_eq!(graph.forget("owner"), BTreeSet::from([Uid::from("child")]));
}
