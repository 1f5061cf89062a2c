//! Who may do what, asked with kubectl of this server and of kube-apiserver: same verdicts, same words.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use capt_apiserver::Server;
use capt_apiserver::authn::Identity;
use capt_apiserver::secure_serving::{SecureServer, Settings};
use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use serde_json::{Value, json};
use support::both::Both;

/// What is there before anybody is asked: `ann` reads config maps of `default`, `bob` is an editor of a kind,
/// `robot` a service account, `gina` may give away what she has not, `carl` changes and `mia` also makes what is named `new`.
fn objects() -> Vec<Value> {
    let rbac = "rbac.authorization.k8s.io/v1";
    let role = |kind: &str, name: &str, rules: Value| json!({"apiVersion": rbac, "kind": kind, "metadata": {"name": name}, "rules": rules});
    let binding = |kind: &str, name: &str, role: (&str, &str), subject: (&str, &str)| {
        let mut subject = json!({"kind": subject.0, "name": subject.1});
        if subject["kind"] == "ServiceAccount" {
            subject["namespace"] = "default".into();
        }
        json!({
            "apiVersion": rbac, "kind": kind, "metadata": {"name": name}, "subjects": [subject],
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": role.0, "name": role.1},
        })
    };
    vec![
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}}),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}),
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}}),
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}}),
        role(
            "Role",
            "reader",
            json!([
                {"verbs": ["get", "list"], "apiGroups": [""], "resources": ["configmaps"]},
                {"verbs": ["get", "watch", "list"], "apiGroups": [""], "resources": ["secrets"], "resourceNames": ["a"]},
            ]),
        ),
        role(
            "Role",
            "roles",
            json!([
                {"verbs": ["get", "create", "update", "patch", "delete"], "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles", "rolebindings"]},
                {"verbs": ["create", "update", "patch", "delete"], "apiGroups": [""], "resources": ["configmaps", "*/status"]},
            ]),
        ),
        role(
            "ClusterRole",
            "paths",
            json!([{"verbs": ["get"], "nonResourceURLs": ["/metrics", "/openapi/*"]}]),
        ),
        role(
            "ClusterRole",
            "grants",
            json!([
                {"verbs": ["bind"], "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles"], "resourceNames": ["paths"]},
                {"verbs": ["create", "get"], "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterrolebindings", "clusterroles"]},
            ]),
        ),
        role(
            "Role",
            "changes",
            json!([
                {"verbs": ["patch"], "apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["new"]},
                {"verbs": ["update"], "apiGroups": ["coordination.k8s.io"], "resources": ["leases"]},
            ]),
        ),
        role(
            "Role",
            "makes",
            json!([
                {"verbs": ["patch", "create"], "apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["new"]},
                {"verbs": ["update", "create"], "apiGroups": ["coordination.k8s.io"], "resources": ["leases"]},
            ]),
        ),
        role(
            "ClusterRole",
            "spaces",
            json!([{"verbs": ["patch"], "apiGroups": [""], "resources": ["namespaces"]}]),
        ),
        binding("RoleBinding", "changes", ("Role", "changes"), ("User", "carl")),
        binding("RoleBinding", "makes", ("Role", "makes"), ("User", "mia")),
        binding("ClusterRoleBinding", "spaces", ("ClusterRole", "spaces"), ("User", "carl")),
        binding("RoleBinding", "ann", ("Role", "reader"), ("User", "ann")),
        binding("RoleBinding", "robot", ("Role", "reader"), ("ServiceAccount", "robot")),
        binding("RoleBinding", "bob", ("Role", "roles"), ("Group", "builders")),
        binding("RoleBinding", "lost", ("Role", "gone"), ("User", "lost")),
        binding("ClusterRoleBinding", "paths", ("ClusterRole", "paths"), ("User", "ann")),
        binding("ClusterRoleBinding", "gina", ("ClusterRole", "grants"), ("User", "gina")),
    ]
}

const ANN: &[&str] = &["--as=ann"];
const BOB: &[&str] = &["--as=bob", "--as-group=builders"];
const GINA: &[&str] = &["--as=gina"];
const ROBOT: &[&str] = &["--as=system:serviceaccount:default:robot"];
const LOST: &[&str] = &["--as=lost"];

/// Read from top to bottom: some create what later ones read.
const COMMANDS: &[(&[&str], &[&str])] = &[
    (ANN, &["get", "configmap", "a", "-o", "name"]),
    (ANN, &["get", "configmaps", "-A"]),
    (ANN, &["get", "configmaps", "-n", "other"]),
    (ANN, &["get", "secret", "a", "-o", "name"]),
    (ANN, &["get", "secret", "b"]),
    (ANN, &["get", "secrets"]),
    (ANN, &["get", "secrets", "--field-selector=metadata.name=a", "-o", "name"]),
    (ANN, &["get", "secrets", "--field-selector=metadata.name=b"]),
    (ANN, &["delete", "configmap", "a"]),
    (ANN, &["delete", "configmaps", "--all"]),
    (ANN, &["create", "configmap", "b"]),
    (ANN, &["label", "configmap", "a", "x=y"]),
    (ANN, &["get", "nodes"]),
    (ANN, &["get", "namespace", "default"]),
    (ANN, &["get", "events.events.k8s.io"]),
    (ANN, &["get", "--raw", "/metrics/slis"]),
    (ANN, &["get", "--raw", "/logs"]),
    (ANN, &["get", "--raw", "/api/v1/nothing"]),
    (ANN, &["get", "--raw", "/readyz"]),
    (ANN, &["auth", "whoami"]),
    (ANN, &["auth", "can-i", "get", "configmaps"]),
    (ANN, &["auth", "can-i", "get", "configmaps", "-n", "other"]),
    (ANN, &["auth", "can-i", "get", "secrets/a"]),
    (ANN, &["auth", "can-i", "get", "secrets/b"]),
    (ANN, &["auth", "can-i", "get", "/metrics"]),
    (ANN, &["auth", "can-i", "get", "/openapi/v3/x"]),
    (ANN, &["auth", "can-i", "post", "/openapi/v3/x"]),
    (ANN, &["auth", "can-i", "*", "*"]),
    (ANN, &["auth", "can-i", "impersonate", "users"]),
    (ANN, &["auth", "can-i", "--list"]),
    (ROBOT, &["get", "configmap", "a", "-o", "name"]),
    (ROBOT, &["get", "configmap", "a", "-n", "other"]),
    (ROBOT, &["auth", "whoami"]),
    (LOST, &["get", "configmap", "a"]),
    (LOST, &["auth", "can-i", "get", "configmaps"]),
    (BOB, &["auth", "can-i", "--list"]),
    (BOB, &["auth", "can-i", "update", "nodes", "--subresource=status"]),
    (BOB, &["auth", "can-i", "update", "configmaps", "--subresource=status"]),
    (BOB, &["create", "role", "fine", "--verb=create", "--resource=configmaps"]),
    (BOB, &["create", "role", "more", "--verb=get,create,list", "--resource=configmaps,secrets"]),
    (BOB, &["create", "rolebinding", "fine", "--role=fine", "--user=dave"]),
    (BOB, &["create", "rolebinding", "more", "--role=reader", "--user=dave"]),
    (BOB, &["create", "rolebinding", "most", "--clusterrole=cluster-admin", "--user=bob"]),
    (BOB, &["create", "rolebinding", "none", "--role=nothing", "--user=bob"]),
    (BOB, &["label", "role", "fine", "x=y"]),
    (BOB, &["label", "role", "reader", "x=y"]),
    (
        BOB,
        &[
            "patch",
            "role",
            "fine",
            "--type=json",
            "-p",
            r#"[{"op":"add","path":"/rules/0/verbs/-","value":"watch"}]"#,
        ],
    ),
    (BOB, &["create", "clusterrole", "x", "--verb=get", "--resource=configmaps"]),
    (GINA, &["create", "clusterrolebinding", "bound", "--clusterrole=paths", "--user=dave"]),
    (GINA, &["create", "clusterrolebinding", "admin", "--clusterrole=cluster-admin", "--user=gina"]),
    (GINA, &["create", "clusterrole", "all", "--verb=*", "--resource=*"]),
    (GINA, &["create", "clusterrole", "urls", "--verb=get", "--non-resource-url=/x"]),
    (GINA, &["create", "clusterrole", "sum", "--aggregation-rule=a=b"]),
    (&["--as=dave"], &["get", "--raw", "/apis/nothing"]),
    (&["--as=dave"], &["get", "configmaps", "-o", "name"]),
    (&["--as=dave"], &["create", "configmap", "dave"]),
    (&["--as=system:anonymous"], &["get", "configmaps"]),
    (&["--as=system:anonymous"], &["get", "--raw", "/healthz"]),
    (&["--as=system:anonymous"], &["get", "--raw", "/apis"]),
    (&["--as=eve", "--as-group=system:masters"], &["get", "configmap", "a", "-o", "name"]),
    (&["--as=eve", "--as-group=system:masters"], &["auth", "can-i", "*", "*"]),
    (&["--as=eve", "--as-uid=7", "--as-group=g"], &["auth", "whoami"]),
    (&[], &["auth", "can-i", "--list"]),
];

const CARL: &[&str] = &["--as=carl"];
const MIA: &[&str] = &["--as=mia"];
const APPLY: &[&str] = &["apply", "--server-side", "--validate=false", "-o", "name", "-f", "FILE"];
const DRY: &[&str] =
    &["apply", "--server-side", "--dry-run=server", "--validate=false", "-o", "name", "-f", "FILE"];
const LEASE: &[&str] =
    &["replace", "--raw", "/apis/coordination.k8s.io/v1/namespaces/default/leases/new", "-f", "FILE"];

/// Changes of what is not there, with the kind of the object in the file: who may change, but not create, makes nothing.
const MADE_BY_CHANGES: &[(&[&str], &[&str], &str)] = &[
    (CARL, DRY, "ConfigMap"),
    (CARL, APPLY, "ConfigMap"),
    (CARL, LEASE, "Lease"),
    (CARL, APPLY, "Namespace"),
    // A rule of `create` that names the object allows it, since its name is known.
    (MIA, DRY, "ConfigMap"),
    (MIA, APPLY, "ConfigMap"),
    (CARL, APPLY, "ConfigMap"),
];

/// The command with the file of an object that nobody made yet.
fn with_file(both: &Both, command: &[&str], kind: &str) -> Vec<String> {
    let api_version = if kind == "Lease" { "coordination.k8s.io/v1" } else { "v1" };
    let object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "new"}});
    let file = both.folder.path().join(format!("{kind}.json"));
    std::fs::write(&file, object.to_string()).unwrap();
    let file = file.to_str().unwrap();
    command.iter().map(|argument| if *argument == "FILE" { file } else { argument }.to_owned()).collect()
}

/// Waits until kube-apiserver says what it says of somebody once it knows his roles: it learns of roles and of bindings, each
/// by itself, a moment after it stored them.
async fn knows(both: &Both, arguments: &[&str], says: &str) {
    let what = format!("kubectl {} says {says}", arguments.join(" "));
    capt_e2e::until(&what, Duration::from_secs(120), async || {
        let (_, said) = both.theirs.run(arguments).await;
        said.contains(says).then_some(())
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn kubectl_may_what_it_may_on_kube_apiserver() {
    let Some(both) = Both::start().await else { return };
    let file = both.folder.path().join("objects.yaml");
    let documents: Vec<String> = objects().iter().map(ToString::to_string).collect();
    std::fs::write(&file, documents.join("\n---\n")).unwrap();
    for kubectl in [&both.ours, &both.theirs] {
        kubectl.good(&["create", "-f", file.to_str().unwrap()]).await;
    }
    // The last that it learns of each of the four kinds.
    knows(&both, &["--as=gina", "get", "clusterrole", "paths", "-o", "name"], "/paths").await;
    knows(&both, &["--as=bob", "--as-group=builders", "auth", "can-i", "create", "roles"], "yes").await;
    knows(&both, &["--as=lost", "get", "configmap", "a"], "\"gone\" not found").await;
    let mut wrong = Vec::new();
    let mut was_dave = false;
    for (who, command) in COMMANDS {
        let arguments = [*who, *command].concat();
        if !was_dave && who.contains(&"--as=dave") {
            was_dave = true;
            // What bob and gina have given him meanwhile.
            knows(&both, &["--as=dave", "auth", "can-i", "create", "configmaps"], "yes").await;
            knows(&both, &["--as=dave", "auth", "can-i", "get", "/metrics"], "yes").await;
        }
        let (ours, theirs) = (both.ours.run(&arguments).await, both.theirs.run(&arguments).await);
        if ours != theirs {
            wrong.push(format!("kubectl {}\n  ours: {ours:?}\ntheirs: {theirs:?}", arguments.join(" ")));
        }
    }
    for (who, command, kind) in MADE_BY_CHANGES {
        let command = with_file(&both, command, kind);
        let arguments: Vec<&str> = who.iter().copied().chain(command.iter().map(String::as_str)).collect();
        let (ours, theirs) = (both.ours.run(&arguments).await, both.theirs.run(&arguments).await);
        if ours != theirs {
            wrong.push(format!("kubectl {}\n  ours: {ours:?}\ntheirs: {theirs:?}", arguments.join(" ")));
        }
    }
    assert!(wrong.is_empty(), "{} of {} differ:\n{}", wrong.len(), COMMANDS.len(), wrong.join("\n"));
}

/// Objects of a kind whose definition is deleted can be changed, so that its finalizers go, and nobody makes more of it.
#[tokio::test]
async fn nobody_makes_objects_of_a_definition_that_is_deleted() {
    let Some(both) = Both::start().await else { return };
    let write = |name: &str, object: Value| {
        let file = both.folder.path().join(name);
        std::fs::write(&file, object.to_string()).unwrap();
        file.to_str().unwrap().to_owned()
    };
    let metadata = json!({"name": "widgets.example.com"});
    let version = json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}});
    let definition = write(
        "definition.json",
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": metadata, "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"}, "versions": [version],
        }}),
    );
    let widget = |name: &str, finalizers: &[&str]| {
        let metadata = json!({"name": name, "namespace": "default", "finalizers": finalizers});
        write(name, json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": metadata}))
    };
    let (held, late) = (widget("held", &["example.com/hold"]), widget("late", &[]));
    for kubectl in [&both.ours, &both.theirs] {
        kubectl.good(&["create", "-f", &definition]).await;
        kubectl.good(&["wait", "--for=condition=Established", "crd/widgets.example.com"]).await;
        kubectl.good(&["create", "-f", &held]).await;
        kubectl.good(&["delete", "--wait=false", "crd/widgets.example.com"]).await;
        capt_e2e::until("nobody makes more", Duration::from_secs(120), async || {
            (!kubectl.run(&["create", "--dry-run=server", "-f", &late]).await.0).then_some(())
        })
        .await
        .unwrap();
    }
    let said = both.same(&["create", "-f", &late]).await;
    assert!(said.contains("create not allowed while custom resource definition is terminating"), "{said}");
    let said = both.same(&["apply", "--server-side", "-f", &late]).await;
    assert!(said.contains("create not allowed while custom resource definition is terminating"), "{said}");
    both.same(&["annotate", "widget", "held", "still=there"]).await;
    for kubectl in [&both.ours, &both.theirs] {
        kubectl
            .good(&["patch", "widget", "held", "--type=merge", "-p", r#"{"metadata":{"finalizers":null}}"#])
            .await;
        kubectl.good(&["wait", "--for=delete", "--timeout=120s", "crd/widgets.example.com"]).await;
    }
}

#[tokio::test]
async fn roles_collect_the_rules_of_others() {
    let server = Server::in_memory().await.unwrap();
    let roles: Api<ClusterRole> = Api::all(server.client("default"));
    let allows = |role: &ClusterRole, verb: &str, resource: &str| {
        role.rules.iter().flatten().any(|rule| {
            rule.verbs.iter().any(|it| it == verb) && rule.resources.iter().flatten().any(|it| it == resource)
        })
    };
    // From the start: admin collects edit, which collects view.
    let (view, admin) = (roles.get("view").await.unwrap(), roles.get("admin").await.unwrap());
    assert!(allows(&view, "get", "configmaps") && !allows(&view, "get", "secrets"));
    assert!(allows(&admin, "create", "rolebindings") && allows(&admin, "get", "configmaps"));

    let thing: ClusterRole = serde_json::from_value(json!({
        "metadata": {"name": "things", "labels": {"rbac.authorization.k8s.io/aggregate-to-view": "true"}},
        "rules": [{"verbs": ["get"], "apiGroups": ["example.com"], "resources": ["things"]}],
    }))
    .unwrap();
    roles.create(&PostParams::default(), &thing).await.unwrap();
    let collected = async |wanted: bool| {
        capt_e2e::until("admin follows", Duration::from_secs(120), async || {
            let admin = roles.get("admin").await.unwrap();
            (allows(&admin, "get", "things") == wanted).then_some(())
        })
        .await
        .unwrap();
    };
    collected(true).await;
    roles.delete("things", &DeleteParams::default()).await.unwrap();
    collected(false).await;
}

#[tokio::test]
async fn metrics_are_for_those_who_may() {
    let server = Server::in_memory().await.unwrap();
    let identity = Identity::in_memory(&[], SystemTime::now()).unwrap();
    let settings = Settings { metrics: Arc::clone(server.metrics()), ..Settings::default() };
    let serving = SecureServer::open(Arc::clone(server.api()), &identity, settings).await.unwrap();
    let mut config = kube::Config::new(serving.url().parse().unwrap());
    config.accept_invalid_certs = true;
    let anonymous = kube::Client::try_from(config.clone()).unwrap();
    config.auth_info.token = Some(identity.token().to_owned().into());
    let admin = kube::Client::try_from(config.clone()).unwrap();
    config.auth_info.impersonate = Some("ann".to_owned());
    let ann = kube::Client::try_from(config.clone()).unwrap();
    config.auth_info.impersonate_groups = Some(vec!["system:monitoring".to_owned()]);
    let monitor = kube::Client::try_from(config).unwrap();
    let get = async |client: &kube::Client| {
        let request = http::Request::get("/metrics").body(Vec::new()).unwrap();
        client.request_text(request).await.map_err(|error| match error {
            kube::Error::Api(status) => status.code,
            other => panic!("{other}"),
        })
    };
    let roles: Api<ClusterRole> = Api::all(admin.clone());
    roles.list(&ListParams::default()).await.unwrap();
    assert_eq!(get(&anonymous).await, Err(401));
    assert_eq!(get(&ann).await, Err(403));
    let text = get(&monitor).await.unwrap();
    for line in [
        r#"apiserver_request_total{verb="list",group="rbac.authorization.k8s.io",resource="clusterroles",code="200"} 1"#,
        r#"apiserver_request_total{verb="get",code="403"} 1"#,
        r#"apiserver_resource_objects{group="",resource="namespaces"} 4"#,
        "# TYPE capt_store_commit_writes histogram",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
    assert!(get(&admin).await.is_ok());
}
