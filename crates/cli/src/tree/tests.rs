//! Trees from objects: how they look, and that the cause is the true one.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::fold::{Folded, fit};
use super::object_summary::{Kind, ObjectSummary};
use super::render::{Look, height, lines};
use super::{Node, State, build};

const NOW: &str = "2026-01-01T00:01:00Z";

fn now() -> Timestamp {
    NOW.parse().unwrap()
}

/// An object whose uid is its name, with a `Ready` (on a Cluster: `Available`) condition.
fn thing(
    kind: Kind,
    name: &str,
    owner: &str,
    ready: Result<(), (&str, &str)>,
    more: Value,
) -> (Kind, ObjectSummary) {
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
fn cluster(workspace: Result<(), (&str, &str)>, failures: i32) -> Vec<(Kind, ObjectSummary)> {
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

fn tree(things: &[(Kind, ObjectSummary)]) -> Vec<Node> {
    let things: Vec<(Kind, &ObjectSummary)> = things.iter().map(|(kind, thing)| (*kind, thing)).collect();
    build::build(&things)
}

const WIDE: Look = Look { unicode: true, width: None, namespaces: false };

fn fit_lines(roots: Vec<Node>, lines: usize) -> Folded {
    fit(roots, lines, |roots| height(roots, WIDE))
}

fn shown(tree: &Folded) -> String {
    shown_in(tree, WIDE)
}

fn shown_in(tree: &Folded, look: Look) -> String {
    let text = lines(tree, look, now()).join("\n");
    anstream::adapter::strip_str(&text).to_string()
}

#[test]
fn a_failure_is_told_where_it_happened() {
    let failure = ("ApplyFailed", "no such type (aws_instance.it, main.tf:12); next attempt at 00:02");
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
              failed 2 times: no such type (aws_instance.it, main.tf:12); next attempt at 00:02";
    // The columns follow the longest line.
    let squeeze = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let got = shown(&fit_lines(roots.clone(), 100));
    assert_eq!(squeeze(&got).replace("● cluster", "✗ cluster"), squeeze(wanted), "{got}");

    // With less room the workspace is told on its machine's line, then the machine with the cause alone.
    let got = shown(&fit_lines(roots.clone(), 8));
    assert!(
        !got.contains("workspace web-9")
            && got.contains("machine web-10")
            && got.contains("t3, 1/3 aws_instance.it"),
        "{got}"
    );
    assert!(got.contains("workspace web-10-machine: ApplyFailed: failed 2 times: no such type"), "{got}");
    let got = shown(&fit_lines(roots, 3));
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
        (ready("WaitingForApproval"), json!({}), State::Approval, "WaitingForApproval"),
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
fn drift_and_what_is_not_written_are_seen() {
    let drifted = |fleet: usize| {
        let drift = json!({"type": "Drifted", "status": "True", "reason": "DriftFound", "message": "update aws_vpc.v"});
        let ready = json!({"type": "Ready", "status": "True", "reason": "Ready", "message": "3 resources are as the template says"});
        let mut things = vec![thing(Kind::Cluster, "demo", "", Ok(()), json!({}))];
        for number in 0..fleet {
            let (machine, workspace) = (format!("m{number:03}"), format!("w{number:03}"));
            let conditions = if number == 1 { json!([ready, drift]) } else { json!([ready]) };
            let status = json!({"status": {"conditions": conditions, "resources": 3}});
            things.push(thing(Kind::CaptMachine, &machine, "Cluster-demo", Ok(()), json!({})));
            things.push(thing(
                Kind::WorkspaceTemplateApply,
                &workspace,
                &format!("CaptMachine-{machine}"),
                Ok(()),
                status,
            ));
        }
        things
    };
    let roots = tree(&drifted(2));
    let text = shown(&fit_lines(roots.clone(), 40));
    assert!(text.contains("~ workspace w001") && text.contains("Drifted"), "{text}");
    assert!(text.contains("update aws_vpc.v"), "{text}");
    // Also where its line has no room.
    let text = shown(&fit_lines(tree(&drifted(200)), 12));
    assert!(text.contains("update aws_vpc.v"), "{text}");

    let unwritten = json!({"status": {"conditions": [
        {"type": "Ready", "status": "True", "reason": "Ready", "message": ""},
        {"type": "Drifted", "status": "True", "reason": "DriftFound", "message": "update aws_vpc.v"},
        {"type": "ConnectionSecretReady", "status": "False", "reason": "SecretError", "message": "Secret x is theirs"},
    ]}});
    let roots = tree(&[thing(Kind::WorkspaceTemplateApply, "w", "", Ok(()), unwritten)]);
    assert_eq!((roots[0].state, roots[0].phase.as_str()), (State::Blocked, "SecretError"));
    assert_eq!(roots[0].cause.as_ref().unwrap().message, "Secret x is theirs");
    let silent = json!({"status": {"conditions": [
        {"type": "Ready", "status": "True", "reason": "Ready", "message": ""},
        {"type": "RemoteConnectionProbe", "status": "False", "reason": "ProbeFailed", "message": "api:443 did not answer"},
    ]}});
    let roots = tree(&[thing(Kind::CAPTControlPlane, "eks", "", Ok(()), silent)]);
    assert_eq!((roots[0].state, roots[0].phase.as_str()), (State::Blocked, "ProbeFailed"));
    assert_eq!(roots[0].cause.as_ref().unwrap().message, "api:443 did not answer");
    let typo = json!({"status": {"resources": 1, "conditions": [
        {"type": "Ready", "status": "True", "reason": "Ready", "message": ""},
        {"type": "Synced", "status": "True", "reason": "UndeclaredVariables", "message": "spec.variables.sise: …"},
    ]}});
    let roots = tree(&[thing(Kind::WorkspaceTemplateApply, "w", "", Ok(()), typo)]);
    assert_eq!(
        (roots[0].state, roots[0].detail.as_str()),
        (State::Ready, "1 resource, with undeclared variables")
    );
}

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
    let got = shown(&fit_lines(tree(&things), 40));
    assert!(got.lines().count() <= 6, "{got}");
    assert!(got.contains("✓ 9,990 machines web-0 … web-9999"), "{got}");
    assert!(got.contains("10 machines web-7 … web-9007"), "{got}");
    assert!(got.contains("quota (one of 10)"), "{got}");
}

/// However many there are: never more lines than there is room for, and the worst is among them.
#[test]
fn it_always_fits() {
    let long = "broken thing: creating EC2 Instance: operation error EC2: RunInstances, https response error \
        StatusCode: 400, api error InvalidParameterValue. (aws_instance.it, main.tf:12); next attempt at 00:02";
    for (clusters, failing, rows) in
        [(1, 1, 1), (3, 1, 2), (50, 1, 10), (200, 1, 24), (22, 5, 12), (22, 5, 21), (22, 5, 30), (40, 40, 24)]
    {
        let mut things = Vec::new();
        for number in 0..clusters {
            let bad = number >= clusters - failing;
            // Nobody else's words: such clusters are not alike.
            let reason = format!("Broken{number}Failed");
            let name = format!("c{number}");
            let state = if bad { Err((reason.as_str(), long)) } else { Ok(()) };
            things.push(thing(Kind::Cluster, &name, "", state, json!({})));
            let owner = format!("Cluster-{name}");
            for kind in [Kind::CAPTCluster, Kind::CAPTControlPlane, Kind::NodeGroup] {
                things.push(thing(kind, &name, &owner, state, json!({})));
            }
        }
        let all = tree(&things);
        for width in [60, 80, 120] {
            let look = Look { unicode: true, width: Some(width), namespaces: false };
            let tree = fit(all.clone(), rows, |roots| height(roots, look));
            let got = shown_in(&tree, look);
            let taken = got.lines().count();
            // The worst is told whole, however small the screen is.
            let least = height(&[Node { children: Vec::new(), ..tree.roots[0].clone() }], look) + 1;
            assert!(taken <= rows.max(least), "{rows} rows, {width} columns, {taken} lines:\n{got}");
            assert!(got.contains(&format!("Broken{}Failed", clusters - failing)), "{got}");
        }
    }
}

/// Well parts go first: room that is left is filled with what fails.
#[test]
fn what_fails_is_shown_where_not_all_has_room() {
    let message = "Resource precondition failed: There is no instance type none. (main.tf:52)";
    let mut things = cluster(Err(("ApplyFailed", message)), 1);
    for number in 0..9 {
        let (name, reason) = (format!("other-{number}"), format!("Reason{number}"));
        let waits = Err((reason.as_str(), ""));
        things.push(thing(Kind::CaptMachineSet, &name, "CaptMachineDeployment-web", waits, json!({})));
    }
    for (rows, named) in [(4, "cluster demo"), (5, "deployment web"), (8, "machine web-10")] {
        let look = Look { unicode: true, width: Some(80), namespaces: false };
        let got = shown_in(&fit(tree(&things), rows, |roots| height(roots, look)), look);
        let taken = got.lines().count();
        assert!(taken <= rows && taken + 2 >= rows, "{rows}:\n{got}");
        assert!(got.contains(named) && got.contains("(main.tf:52)"), "{rows}:\n{got}");
        assert!(got.lines().last().unwrap().starts_with("… and "), "{rows}:\n{got}");
    }
}

/// At any width phase, age and the whole cause can be read, and no line is wider than the terminal.
#[test]
fn narrow_terminals_keep_phase_age_and_cause() {
    let message = "creating EC2 Instance: operation error EC2: RunInstances, https response error StatusCode: 400, \
        api error InvalidParameterValue: Invalid value 'none' for InstanceType. (aws_instance.it, main.tf:12)";
    let long = "machine-of-a-deployment-with-a-long-name-6p89kckqv8-0";
    let mut things = cluster(Err(("ApplyFailed", message)), 1);
    things.push(thing(
        Kind::CaptMachine,
        long,
        "CaptMachineSet-web-a",
        Ok(()),
        json!({"spec": {"instanceType": "m7i.48xlarge"}}),
    ));
    for width in [60, 80, 120] {
        let look = Look { unicode: true, width: Some(width), namespaces: false };
        let tree = fit(tree(&things), 100, |roots| height(roots, look));
        let got = shown_in(&tree, look);
        assert_eq!(got.lines().count(), height(&tree.roots, look), "{got}");
        assert!(got.lines().all(|line| line.chars().count() <= width), "{got}");
        let row =
            |end: &str| got.lines().find(|line| line.contains(end)).unwrap_or_else(|| panic!("{end}: {got}"));
        for (name, phase) in
            [("web-10-machine", "ApplyFailed"), ("kqv8-0", "Ready"), ("cluster demo", "NotAvailable")]
        {
            assert!(
                row(name).contains(&format!("  {phase} ")) && row(name).contains("60s"),
                "{width}: {got}"
            );
        }
        // Without branches and line ends the cause is what it was.
        let words: Vec<&str> = got
            .split(|c: char| c.is_whitespace() || "│├└─".contains(c))
            .filter(|word| !word.is_empty())
            .collect();
        assert!(words.join(" ").contains(message), "{got}");
        // The branches go on beside a cause in the middle of the tree.
        assert!(got.lines().skip(1).all(|line| "├└│ ".contains(line.chars().next().unwrap())), "{got}");
    }
}

#[test]
fn a_long_cause_leaves_fewer_lines_for_the_rest() {
    let look = Look { unicode: true, width: Some(80), namespaces: false };
    let roots = tree(&cluster(Err(("ApplyFailed", &"broken ".repeat(80))), 1));
    for rows in [12, 16, 20] {
        let got = shown_in(&fit(roots.clone(), rows, |roots| height(roots, look)), look);
        assert!(got.lines().count() <= rows, "{rows}: {got}");
        assert_eq!(got.matches("broken").count(), 80, "{got}");
    }
}

#[test]
fn plain_terminals_get_ascii() {
    let mut things = cluster(Err(("ApplyFailed", "naïve → “quoted”…")), 1);
    let sets = (0..3).map(|n| {
        thing(Kind::CaptMachineSet, &format!("old-{n}"), "CaptMachineDeployment-web", Ok(()), json!({}))
    });
    things.extend(sets);
    for width in [30, 80] {
        let look = Look { unicode: false, width: Some(width), namespaces: true };
        for line in lines(&fit(tree(&things), 100, |roots| height(roots, look)), look, now()) {
            let line = anstream::adapter::strip_str(&line).to_string();
            assert!(line.chars().count() <= width && line.is_ascii(), "{line:?}");
        }
    }
}

#[test]
fn empty_sets_are_one_line_and_an_approval_has_a_sign() {
    let mut things = cluster(Err(("WaitingForApproval", "plan 1: add 1")), 0);
    for number in 0..9 {
        let set = format!("web-old-{number}");
        things.push(thing(Kind::CaptMachineSet, &set, "CaptMachineDeployment-web", Ok(()), json!({})));
    }
    let got = shown(&fit_lines(tree(&things), 100));
    assert!(got.contains("✓ 9 sets web-old-0 … web-old-8") && got.contains("no machines"), "{got}");
    assert_eq!(got.matches("web-old").count(), 2, "{got}");
    assert!(got.contains("? workspace web-10-machine"), "{got}");
}

/// Objects are written by others than who looks at them.
#[test]
fn no_object_steers_the_terminal() {
    let message = "module \u{1b}]0;PWNED\u{7}\u{1b}[2JRED\u{202e}dlrow\0 is gone";
    let things = cluster(Err(("Failed\u{1b}[2J", message)), 3);
    for unicode in [true, false] {
        let look = Look { unicode, ..WIDE };
        let text = lines(&fit_lines(tree(&things), 100), look, now()).join("\n");
        assert!(text.contains("RED"), "{text:?}");
        for steering in ["\u{1b}]", "PWNED", "\u{7}", "\u{1b}[2J", "\u{202e}", "\0"] {
            assert!(!text.contains(steering), "{steering:?}: {text:?}");
        }
    }
}
