use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::*;
use crate::store::Options;

async fn store(objects: &[Value]) -> Store {
    let store = Store::in_memory(&Options::default()).unwrap();
    for object in objects {
        let plural = format!("{}s", object["kind"].as_str().unwrap().to_lowercase());
        let text = |name: &str| object["metadata"][name].as_str().unwrap_or_default().to_owned();
        let key = Key::new(format!("{GROUP}/{plural}"), text("namespace"), text("name"));
        store.create(key, store::Value::plain(object.to_string())).await.unwrap();
    }
    store
}

fn user(name: &str, groups: &[&str]) -> User {
    let groups = groups.iter().map(|group| (*group).to_owned()).collect();
    User { name: name.to_owned(), groups, uid: None, extra: BTreeMap::new() }
}

#[expect(clippy::needless_pass_by_value, reason = "rows of a table")]
fn role(kind: &str, namespace: &str, name: &str, rules: Value) -> Value {
    json!({"kind": kind, "metadata": {"name": name, "namespace": namespace}, "rules": rules})
}

#[expect(clippy::needless_pass_by_value, reason = "rows of a table")]
fn binding(kind: &str, namespace: &str, name: &str, role: (&str, &str), subjects: Value) -> Value {
    json!({
        "kind": kind, "metadata": {"name": name, "namespace": namespace},
        "roleRef": {"kind": role.0, "name": role.1}, "subjects": subjects,
    })
}

fn maps(namespace: &str) -> Attributes<'_> {
    Attributes::Resource(ResourceAttributes {
        plural: "configmaps",
        namespace,
        ..ResourceAttributes::default()
    })
}

#[tokio::test]
async fn a_binding_counts_where_it_is() {
    let read = json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["configmaps"]}]);
    let store = store(&[
        role("Role", "a", "reader", read.clone()),
        role("ClusterRole", "", "reads", read),
        binding("RoleBinding", "a", "one", ("Role", "reader"), json!([{"kind": "User", "name": "ann"}])),
        binding("RoleBinding", "a", "two", ("ClusterRole", "reads"), json!([{"kind": "Group", "name": "g"}])),
        binding(
            "RoleBinding",
            "a",
            "sa",
            ("Role", "reader"),
            json!([{"kind": "ServiceAccount", "name": "robot"}]),
        ),
        binding(
            "ClusterRoleBinding",
            "",
            "all",
            ("ClusterRole", "reads"),
            json!([{"kind": "User", "name": "bob"}]),
        ),
        binding(
            "ClusterRoleBinding",
            "",
            "sa",
            ("ClusterRole", "reads"),
            json!([{"kind": "ServiceAccount", "name": "robot", "namespace": "b"}]),
        ),
        binding("RoleBinding", "a", "lost", ("Role", "gone"), json!([{"kind": "User", "name": "lost"}])),
    ])
    .await;
    let rbac = Rbac::default();
    let denied = || Verdict::default();
    let allowed = |by: &str| Verdict { allowed: true, reason: format!("RBAC: allowed by {by}") };
    for (user, namespace, verdict) in [
        (user("ann", &[]), "a", allowed(r#"RoleBinding "one/a" of Role "reader" to User "ann""#)),
        (user("ann", &[]), "b", denied()),
        (user("ann", &[]), "", denied()),
        (user("carl", &["g"]), "a", allowed(r#"RoleBinding "two/a" of ClusterRole "reads" to Group "g""#)),
        (user("g", &[]), "a", denied()),
        (user("bob", &[]), "b", allowed(r#"ClusterRoleBinding "all" of ClusterRole "reads" to User "bob""#)),
        (user("bob", &[]), "", allowed(r#"ClusterRoleBinding "all" of ClusterRole "reads" to User "bob""#)),
        (
            user("system:serviceaccount:a:robot", &[]),
            "a",
            allowed(r#"RoleBinding "sa/a" of Role "reader" to ServiceAccount "robot/a""#),
        ),
        (
            user("system:serviceaccount:b:robot", &[]),
            "c",
            allowed(r#"ClusterRoleBinding "sa" of ClusterRole "reads" to ServiceAccount "robot/b""#),
        ),
        (user("system:serviceaccount:c:robot", &[]), "a", denied()),
        (user("anybody", &["system:masters"]), "", Verdict { allowed: true, reason: String::new() }),
        (
            user("lost", &[]),
            "a",
            Verdict {
                allowed: false,
                reason: r#"RBAC: role.rbac.authorization.k8s.io "gone" not found"#.to_owned(),
            },
        ),
    ] {
        assert_eq!(
            rbac.authorize(&store, &user, "get", &maps(namespace)),
            verdict,
            "{user:?} in {namespace:?}"
        );
    }
    let ann = user("ann", &[]);
    assert!(!rbac.authorize(&store, &ann, "list", &maps("a")).allowed);

    // What is written counts at once, parsed before or not.
    let key = Key::new(format!("{GROUP}/roles"), "a", "reader");
    let changed = role(
        "Role",
        "a",
        "reader",
        json!([{"verbs": ["list"], "apiGroups": [""], "resources": ["configmaps"]}]),
    );
    store.update(key, store::Value::plain(changed.to_string()), None).await.unwrap();
    assert!(!rbac.authorize(&store, &ann, "get", &maps("a")).allowed);
    assert!(rbac.authorize(&store, &ann, "list", &maps("a")).allowed);
}

#[tokio::test]
async fn errors_are_told_in_bounds() {
    let long = "x".repeat(20 << 10);
    for (count, name, told) in [(5, "gone", 5), (1_000, "gone", ERRORS + 1), (5, long.as_str(), 2)] {
        let lost = |n| {
            let role = format!("{name}{n}");
            let subjects = json!([{"kind": "User", "name": "lost"}]);
            binding("RoleBinding", "a", &format!("b{n}"), ("Role", &role), subjects)
        };
        let store = store(&(0..count).map(lost).collect::<Vec<_>>()).await;
        let (rbac, lost) = (Rbac::default(), user("lost", &[]));
        let rules = rbac.rules(&store, &lost, "a");
        assert_eq!((rules.errors.len(), rules.iter().count()), (told, 0));
        assert_eq!(rules.errors.last().is_some_and(|last| last == MORE), told != count);
        let reason = rbac.authorize(&store, &lost, "get", &maps("a")).reason;
        assert!(reason.len() < ERRORS_BYTES + 1024 && reason.contains("not found"));
    }
}

#[tokio::test]
async fn a_role_that_is_bound_often_counts_once() {
    let read = json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["configmaps"]}]);
    let bound = |n| {
        let subjects = json!([{"kind": "User", "name": "ann"}]);
        binding("RoleBinding", "a", &format!("b{n}"), ("Role", "reader"), subjects)
    };
    let mut objects: Vec<Value> = (0..10).map(bound).collect();
    objects.push(role("Role", "a", "reader", read));
    let store = store(&objects).await;
    let rules = Rbac::default().rules(&store, &user("ann", &[]), "a");
    assert_eq!((rules.iter().count(), rules.distinct().count()), (10, 1));
}

/// Bindings that are read once, and deleted or replaced by the next.
#[tokio::test]
async fn what_is_remembered_is_bounded_in_bytes() {
    let (rbac, ann) = (Rbac::default(), user("ann", &[]));
    let subjects = json!(vec![json!({"kind": "User", "name": "x".repeat(1000)}); 2_000]);
    let mut most = 0;
    for n in 0..20 {
        let large = binding("RoleBinding", "a", &format!("b{n}"), ("Role", "reader"), subjects.clone());
        let store = store(&[large]).await;
        assert!(!rbac.authorize(&store, &ann, "get", &maps("a")).allowed);
        let remembered = rbac.remembered.lock().unwrap();
        let parsed = remembered.parsed.values().map(|(_, parsed)| parsed.subjects.iter().flatten());
        let kept: usize = parsed.flatten().map(|subject| subject.name.len()).sum();
        assert!(kept > 0 && kept <= REMEMBERED, "{kept}");
        most = most.max(kept);
    }
    assert!(most > REMEMBERED / 2, "{most}");
}

#[test]
fn defaults_are_repaired_and_not_reset() {
    let basic =
        defaults::roles().into_iter().find(|role| role["metadata"]["name"] == "system:basic-user").unwrap();
    assert_eq!(defaults::repair(&basic, &basic), None);
    let mut live = basic.clone();
    let own = json!({"verbs": ["get"], "apiGroups": ["x"], "resources": ["y"]});
    live["rules"] = json!([own, basic["rules"][1]]);
    assert_eq!(
        defaults::repair(&live, &basic).unwrap()["rules"],
        json!([own, basic["rules"][1], basic["rules"][0], basic["rules"][1]])
    );
    live["metadata"]["annotations"]["rbac.authorization.kubernetes.io/autoupdate"] = json!("false");
    assert_eq!(defaults::repair(&live, &basic), None);
    let binding = defaults::bindings().pop().unwrap();
    let mut live = binding.clone();
    live["subjects"] = json!([binding["subjects"][1], {"kind": "User", "name": "ann"}]);
    let repaired = defaults::repair(&live, &binding).unwrap();
    assert_eq!(repaired["subjects"].as_array().unwrap().len(), 3);
}
