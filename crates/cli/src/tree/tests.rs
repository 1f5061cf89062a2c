//! Trees from objects: how they look, and that the cause is the true one.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::fold::{Folded, fit};
use super::render::{Look, lines};
use super::thing::{Kind, Thing};
use super::{Node, State, build};

const NOW: &str = "2026-01-01T00:01:00Z";

fn now() -> Timestamp {
    NOW.parse().unwrap()
}

/// An object whose uid is its name, with a `Ready` (on a Cluster: `Available`) condition.
fn thing(kind: Kind, name: &str, owner: &str, ready: Result<(), (&str, &str)>, more: Value) -> (Kind, Thing) {
    let word = if kind == Kind::Cluster { "Available" } else { "Ready" };
    let condition = match ready {
        Ok(()) => json!({"type": word, "status": "True", "reason": "Ready", "message": ""}),
        Err((reason, message)) => {
            json!({"type": word, "status": "False", "reason": reason, "message": message})
        }
    };
    let mut object = json!({
        "metadata": {"name": name, "namespace": "default", "uid": format!("{}-{name}", kind.as_str()), "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {}, "status": {"conditions": [condition]},
    });
    if !owner.is_empty() {
        object["metadata"]["ownerReferences"] =
            json!([{"apiVersion": "v1", "kind": "X", "name": "x", "uid": owner, "controller": true}]);
    }
    merge(&mut object, more);
    (kind, serde_json::from_value(object).unwrap())
}

fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from,
    }
}

/// A cluster of which everything is ready but what `machine` says of its second machine's workspace.
fn cluster(workspace: Result<(), (&str, &str)>, failures: i32) -> Vec<(Kind, Thing)> {
    use Kind::*;
    let machine = workspace.map_err(|_| ("Creating", "workspace web-1-machine builds it"));
    let all = machine.map_err(|_| ("Creating", "1 of 2 machines are available"));
    let status = |value: Value| json!({ "status": value });
    vec![
        thing(
            Cluster,
            "demo",
            "",
            all.map_err(|_| ("NotAvailable", "WorkersAvailable: 1 of 2")),
            status(json!({"phase": "Provisioned"})),
        ),
        thing(
            CAPTCluster,
            "demo",
            "Cluster-demo",
            Ok(()),
            json!({"spec": {"region": "eu"}, "status": {"vpcId": "vpc-1"}}),
        ),
        thing(
            WorkspaceTemplateApply,
            "demo-vpc",
            "CAPTCluster-demo",
            Ok(()),
            status(json!({"resources": 7})),
        ),
        thing(
            CaptMachineDeployment,
            "web",
            "",
            all,
            json!({"metadata": {"labels": {"cluster.x-k8s.io/cluster-name": "demo"}}, "spec": {"replicas": 2}}),
        ),
        thing(CaptMachineSet, "web-a", "CaptMachineDeployment-web", all, json!({"spec": {"replicas": 2}})),
        thing(
            CaptMachine,
            "web-10",
            "CaptMachineSet-web-a",
            machine,
            json!({"spec": {"instanceType": "t3"}}),
        ),
        thing(CaptMachine, "web-9", "CaptMachineSet-web-a", Ok(()), status(json!({"phase": "Running"}))),
        thing(
            WorkspaceTemplateApply,
            "web-10-machine",
            "CaptMachine-web-10",
            workspace,
            status(
                json!({"consecutiveFailures": failures, "progress": {"done": 1, "total": 3, "current": "aws_instance.it"}}),
            ),
        ),
        thing(
            WorkspaceTemplateApply,
            "web-9-machine",
            "CaptMachine-web-9",
            Ok(()),
            status(json!({"resources": 3})),
        ),
    ]
}

fn tree(things: &[(Kind, Thing)]) -> Vec<Node> {
    let things: Vec<(Kind, &Thing)> = things.iter().map(|(kind, thing)| (*kind, thing)).collect();
    build::build(&things)
}

fn shown(tree: &Folded) -> String {
    let look = Look { unicode: true, width: None, namespaces: false };
    let text = lines(tree, look, now()).join("\n");
    anstream::adapter::strip_str(&text).to_string()
}

#[test]
fn a_failure_is_told_where_it_happened() {
    let failure = ("ApplyFailed", "no such type (aws_instance.it, main.tf:12); tried again at 00:02");
    let roots = tree(&cluster(Err(failure), 2));
    let cause = roots[0].cause.as_ref().unwrap();
    assert_eq!(
        (cause.kind, cause.name.as_str(), cause.reason.as_str()),
        (Kind::WorkspaceTemplateApply, "web-10-machine", "ApplyFailed")
    );
    let wanted = "
✗ cluster demo                        NotAvailable  60s
├─ ✓ network demo                     Ready         60s  eu, vpc-1
│  └─ ✓ workspace demo-vpc            Ready         60s  7 resources
└─ ● deployment web                   Creating      60s  0/2 available, 0 up to date
   └─ ● set web-a                     Creating      60s  0/2 available
      ├─ ✓ machine web-9              Running       60s
      │  └─ ✓ workspace web-9-machine Ready         60s  3 resources
      └─ ● machine web-10             Creating      60s  t3
         └─ ✗ workspace web-10-machine ApplyFailed   60s  1/3 aws_instance.it
              failed 2 times: no such type (aws_instance.it, main.tf:12); tried again at 00:02";
    // The columns follow the longest line.
    let squeeze = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let got = shown(&fit(roots.clone(), 100));
    assert_eq!(squeeze(&got).replace("● cluster", "✗ cluster"), squeeze(wanted), "{got}");

    // With less room the workspace is told on its machine's line, then the machine with the cause alone.
    let got = shown(&fit(roots.clone(), 8));
    assert!(
        !got.contains("workspace web-9")
            && got.contains("machine web-10")
            && got.contains("t3, 1/3 aws_instance.it"),
        "{got}"
    );
    assert!(got.contains("workspace web-10-machine: ApplyFailed: failed 2 times: no such type"), "{got}");
    let got = shown(&fit(roots, 3));
    assert!(got.lines().count() <= 3 && got.contains("no such type"), "{got}");
}

#[test]
fn what_waits_is_not_the_cause_of_what_it_waits_for() {
    let things = [
        thing(Kind::Cluster, "demo", "", Err(("NotAvailable", "")), json!({})),
        thing(
            Kind::CAPTCluster,
            "demo",
            "Cluster-demo",
            Err(("WorkspaceTemplateNotFound", "WorkspaceTemplate net does not exist")),
            json!({}),
        ),
        thing(
            Kind::CAPTControlPlane,
            "demo",
            "Cluster-demo",
            Err(("WaitingForVPC", "CAPTCluster demo is not ready")),
            json!({}),
        ),
    ];
    let roots = tree(&things);
    let cause = roots[0].cause.as_ref().unwrap();
    assert_eq!(
        cause.to_string(),
        "network demo: WorkspaceTemplateNotFound: WorkspaceTemplate net does not exist"
    );
    assert_eq!(roots[0].children[1].state, State::Waiting);
}

#[test]
fn states() {
    let ready = |reason: &'static str| Err((reason, "m"));
    let rows = [
        (Ok(()), json!({}), State::Ready, "Ready"),
        (
            Ok(()),
            json!({"metadata": {"generation": 2}, "status": {"observedGeneration": 1}}),
            State::Working,
            "Ready",
        ),
        (ready("Applying"), json!({}), State::Working, "Applying"),
        (ready("Applying"), json!({"status": {"consecutiveFailures": 1}}), State::Failed, "Applying"),
        (ready("WaitingForWorkspace"), json!({}), State::Waiting, "WaitingForWorkspace"),
        (ready("WaitingForApproval"), json!({}), State::Blocked, "WaitingForApproval"),
        (ready("SecretNotFound"), json!({}), State::Blocked, "SecretNotFound"),
        (ready("Paused"), json!({}), State::Paused, "Paused"),
        (ready("Destroying"), json!({"metadata": {"deletionTimestamp": NOW}}), State::Deleting, "Deleting"),
        (
            ready("DestroyFailed"),
            json!({"metadata": {"deletionTimestamp": NOW}, "status": {"consecutiveFailures": 1}}),
            State::Failed,
            "DestroyFailed",
        ),
    ];
    for (condition, more, state, phase) in rows {
        let (kind, thing) = thing(Kind::WorkspaceTemplateApply, "w", "", condition, more.clone());
        let verdict = super::judge::judge(kind, &thing);
        assert_eq!((verdict.state, verdict.phase.as_str()), (state, phase), "{condition:?} {more}");
    }
    let held = |finalizers: &[&str]| {
        let more = json!({"metadata": {"deletionTimestamp": NOW, "finalizers": finalizers}});
        let (kind, thing) = thing(Kind::WorkspaceTemplateApply, "w", "", ready("Destroying"), more);
        super::judge::judge(kind, &thing).message
    };
    assert_eq!(
        held(&["example.com/a", "example.com/b"]),
        "held by the finalizers example.com/a, example.com/b"
    );
    assert_eq!(held(&["example.com/a", "workspacetemplateapply.infrastructure.cluster.x-k8s.io"]), "m");
    assert_eq!(held(&["foregroundDeletion"]), "m");
    let stalled = json!({"status": {"conditions": [{"type": "Stalled", "status": "True", "reason": "InvalidModule", "message": "bad"}]}});
    let (kind, thing) = thing(Kind::WorkspaceTemplateApply, "w", "", Ok(()), stalled);
    assert_eq!(super::judge::judge(kind, &thing).state, State::Failed);
}

/// Ten thousand machines of which some failed are a handful of lines.
#[test]
fn a_large_fleet_fits_a_screen() {
    let mut things = vec![
        thing(
            Kind::CaptMachineDeployment,
            "web",
            "",
            Err(("Creating", "")),
            json!({"spec": {"replicas": 10_000}}),
        ),
        thing(Kind::CaptMachineSet, "web-a", "CaptMachineDeployment-web", Err(("Creating", "")), json!({})),
    ];
    for number in 0..10_000 {
        let name = format!("web-{number}");
        let state = if number % 1000 == 7 { Err(("ApplyFailed", "quota")) } else { Ok(()) };
        things.push(thing(Kind::CaptMachine, &name, "CaptMachineSet-web-a", state, json!({})));
    }
    let got = shown(&fit(tree(&things), 40));
    assert!(got.lines().count() <= 6, "{got}");
    assert!(got.contains("✓ 9,990 machines web-0 … web-9999"), "{got}");
    assert!(got.contains("10 machines web-7 … web-9007"), "{got}");
    assert!(got.contains("quota (one of 10)"), "{got}");
}

/// However many there are: never more lines than there is room for, and the worst is among them.
#[test]
fn it_always_fits() {
    for (clusters, rows) in [(1, 1), (3, 2), (50, 10), (200, 24)] {
        let mut things = Vec::new();
        for number in 0..clusters {
            let bad = number == clusters - 1;
            let name = format!("c{number}");
            let state = if bad { Err(("NotAvailable", "broken thing")) } else { Ok(()) };
            things.push(thing(Kind::Cluster, &name, "", state, json!({})));
            let owner = format!("Cluster-{name}");
            things.push(thing(
                Kind::CAPTCluster,
                &name,
                &owner,
                if bad { Err(("NameTaken", "broken thing")) } else { Ok(()) },
                json!({}),
            ));
        }
        let got = shown(&fit(tree(&things), rows));
        assert!(got.lines().count() <= rows.max(3), "{rows}: {got}");
        assert!(got.contains(&format!("c{}", clusters - 1)), "{got}");
    }
}

#[test]
fn narrow_terminals_and_plain_ones() {
    let roots = tree(&cluster(Ok(()), 0));
    let look = Look { unicode: false, width: Some(30), namespaces: true };
    for line in lines(&fit(roots, 100), look, now()) {
        let line = anstream::adapter::strip_str(&line).to_string();
        assert!(line.chars().count() <= 30 && line.is_ascii(), "{line:?}");
    }
}
