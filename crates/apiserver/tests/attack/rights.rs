//! Roles, bindings and questions about them that are more than they look.

use serde_json::{Value, json};

use crate::answers::{ANSWER, ELSE, begun};
use crate::sized;
use crate::target::{Client, Target};
use crate::work::{MOST_OF_FOUR, NOTHING};

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";
const GROUP: &str = "rbac.authorization.k8s.io";

async fn bind(client: &mut Client, name: &str, role: (&str, &str), subjects: Value) {
    let binding = json!({
        "metadata": {"name": name}, "subjects": subjects,
        "roleRef": {"apiGroup": GROUP, "kind": role.0, "name": role.1},
    });
    let (code, answer) = client.create(&format!("{RBAC}/rolebindings"), &binding).await;
    assert_eq!(code, 201, "{}", answer["message"]);
}

fn ann() -> Value {
    json!([{"apiGroup": GROUP, "kind": "User", "name": "ann"}])
}

/// As many different words.
fn words(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|n| format!("{prefix}{n}")).collect()
}

/// One of three kilobytes took 583 MB.
#[tokio::test]
async fn a_small_role_gives_no_rights_without_end() {
    let target = Target::start();
    let mut admin = target.client().await;
    bind(&mut admin, "admin", ("ClusterRole", "admin"), ann()).await;
    let mut client = target.client().await.acting_as("ann");
    let before = target.most_memory();
    for (count, names) in [(120, 0), (sized(1_000, 4_000), 1_000)] {
        let rule = json!({
            "verbs": words("v", count), "apiGroups": words("g", count), "resources": words("r", count),
            "resourceNames": words("n", names),
        });
        let role = json!({"metadata": {"name": "bomb"}, "rules": [rule]});
        let (code, answer) = client.create(&format!("{RBAC}/roles"), &role).await;
        let grown = target.most_memory().saturating_sub(before);
        assert!(grown < ELSE, "{grown} bytes for a role of {} bytes", role.to_string().len());
        assert_eq!(code, 403, "{answer}");
        let message = answer["message"].as_str().unwrap();
        assert!(
            message.contains("not currently held:\n{APIGroups:[\"g0\"]") && message.ends_with("\nand more")
        );
    }

    // What is held may be given, however it is put.
    let rule = json!({
        "verbs": ["get", "list", "create"], "apiGroups": [""], "resources": ["configmaps", "secrets"],
        "resourceNames": words("n", 10_000),
    });
    let role = json!({"metadata": {"name": "held"}, "rules": [rule]});
    let (code, answer) = client.create(&format!("{RBAC}/roles"), &role).await;
    assert_eq!(code, 201, "{answer}");
}

/// Who is in many groups is searched for in bindings of many, once each.
#[tokio::test]
async fn no_review_looks_at_every_group_for_every_subject() {
    let target = Target::start();
    let mut client = target.client().await;
    let path = "/apis/authorization.k8s.io/v1/namespaces/default/localsubjectaccessreviews";
    let many = sized(12_000, 30_000);
    let mut ticks = Vec::new();
    for count in [many / 4, many] {
        let subjects: Vec<Value> = words("subject", count)
            .iter()
            .map(|name| json!({"apiGroup": GROUP, "kind": "Group", "name": name}))
            .collect();
        let _ =
            client.ask("DELETE", &format!("{RBAC}/rolebindings/many"), "application/json", Vec::new()).await;
        bind(&mut client, "many", ("ClusterRole", "view"), json!(subjects)).await;
        let review = json!({"spec": {
            "groups": words("group", 2 * count),
            "resourceAttributes": {"namespace": "default", "verb": "get", "resource": "pods"},
        }});
        // The first one reads the binding.
        let begun = [target.ticks(), {
            assert_eq!(client.create(path, &review).await.0, 201);
            target.ticks()
        }];
        for _ in 0..4 {
            let (code, answer) = client.create(path, &review).await;
            assert_eq!((code, &answer["status"]["allowed"]), (201, &json!(false)), "{}", answer["message"]);
        }
        ticks.push(target.ticks() - begun[1]);
    }
    let (one, four) = (ticks[0], ticks[1]);
    assert!(four <= MOST_OF_FOUR * one.max(NOTHING / 4), "{one} ticks, and {four} for four times as much");
}

/// A question of seventy bytes had an answer of eight megabytes.
#[tokio::test]
async fn rights_that_nobody_reads_take_no_memory() {
    let target = Target::start();
    let mut admin = target.client().await;
    let (roles, names) = (4, sized(20_000, 40_000));
    for n in 0..roles {
        let name = format!("large-{n}");
        let rule = json!({
            "verbs": ["get"], "apiGroups": [""], "resources": ["configmaps"],
            "resourceNames": words(&format!("{n}-{}", "x".repeat(40)), names),
        });
        let role = json!({"metadata": {"name": name}, "rules": [rule]});
        assert_eq!(admin.create(&format!("{RBAC}/roles"), &role).await.0, 201);
        bind(&mut admin, &name, ("Role", &name), ann()).await;
    }
    let role = json!({
        "metadata": {"name": "a"},
        "rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"]}],
    });
    assert_eq!(admin.create(&format!("{RBAC}/roles"), &role).await.0, 201);
    bind(&mut admin, "a", ("Role", "a"), ann()).await;
    let path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
    let review = json!({"spec": {"namespace": "default"}});
    let before = target.most_memory();
    let (count, mut answers) = (sized(60, 200), Vec::new());
    for _ in 0..count {
        let header = "content-type: application/json\r\nimpersonate-user: ann";
        answers
            .push(begun(&target, &format!("POST {path}"), header, &review.to_string(), "HTTP/1.1 201").await);
    }
    let grown = target.most_memory().saturating_sub(before);
    assert!(grown < ELSE + ANSWER * count as u64, "{grown} bytes for {count} unread answers");

    let mut client = target.client().await.acting_as("ann");
    let (code, answer) = client.create(path, &review).await;
    let status = &answer["status"];
    assert_eq!((code, &status["incomplete"]), (201, &json!(true)));
    let told = "the rules take more than 262144 bytes: the rest is left out";
    assert_eq!(status["evaluationError"], told);
    assert!(status["resourceRules"].as_array().unwrap().iter().any(|rule| rule["resources"][0] == "secrets"));
}
