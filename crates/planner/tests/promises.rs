//! A broken promise is told only where a decision broke one: not for what was given, for what people and faults do, nor for what
//! is replaced. And a large fleet is told as fast as a small one.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use capt_planner::simulate::{Report, Scenario, ScenarioError, run, run_judged};
use serde_json::{Value, json};

fn deployment(replicas: i32, strategy: &Value) -> Value {
    json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "CaptMachineDeployment",
        "metadata": {"name": "web", "uid": "d"},
        "spec": {
            "replicas": replicas, "strategy": strategy, "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {
                "workspaceTemplateRef": {"name": "machine"}, "nodeGroupRef": {"name": "group"}, "instanceType": "a",
            }},
        },
    })
}

fn strategies() -> Vec<Value> {
    let rolling = |surge: i32, unavailable: i32| json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}});
    let mut all: Vec<Value> =
        [0, 1, 3].into_iter().flat_map(|surge| [0, 1, 3].map(|missing| rolling(surge, missing))).collect();
    all.extend([json!({"type": "Recreate"}), json!({"type": "OnDelete"})]);
    all
}

fn simulate(documents: Vec<Value>) -> Report {
    run(Scenario::from_documents(documents).unwrap()).unwrap()
}

fn edit() -> Value {
    json!({"spec": {"template": {"spec": {"instanceType": "b"}}}})
}

#[test]
fn what_people_and_faults_do_breaks_no_promise() {
    let timelines = [
        ("edit, finish, undo", json!([{"at": 0, "patch": edit()}, {"at": 1000, "undo": 0}])),
        ("edit, undo in the middle", json!([{"at": 0, "patch": edit()}, {"at": 65, "undo": 0}])),
        ("unlabel", json!([{"at": 0, "unlabel": {"count": 1}}])),
        ("unlabel in a rollout", json!([{"at": 0, "patch": edit()}, {"at": 70, "unlabel": {"count": 1}}])),
        (
            "a machine fails while others are destroyed",
            json!([{"at": 0, "scale": 5}, {"at": 100, "scale": 3}, {"at": 103, "fail": {"count": 1}}]),
        ),
        (
            "machines fail as a decision is due",
            json!([{"at": 0, "patch": edit()}, {"at": 60, "fail": {"revision": 1, "count": 2}}]),
        ),
        (
            "scaled down with one marked and one not ready",
            json!([{"at": 0, "mark": {"numbers": [0]}}, {"at": 0, "unready": {"numbers": [1]}}, {"at": 9, "scale": 2}]),
        ),
        ("scaled down with one failed", json!([{"at": 0, "fail": {"count": 1}}, {"at": 59, "scale": 2}])),
    ];
    let mut none_left = 0;
    for strategy in strategies() {
        for (name, events) in &timelines {
            for gone_after in [30, 400] {
                let timeline = json!({
                    "kind": "RolloutSimulation", "start": "Steady", "until": 7200,
                    "machines": {"goneAfter": gone_after}, "events": events,
                });
                let scenario = Scenario::from_documents(vec![deployment(3, &strategy), timeline]).unwrap();
                match run(scenario) {
                    Ok(report) => {
                        assert!(report.violations.is_empty(), "{name}, {strategy}, {gone_after}: {report}");
                    }
                    // All machines are being destroyed then.
                    Err(ScenarioError::NoMatch { .. }) => none_left += 1,
                    Err(error) => panic!("{name}, {strategy}, {gone_after}: {error}"),
                }
            }
        }
    }
    assert!(none_left < 20, "{none_left} of them could not be tried");
}

/// A set with machines of an earlier revision, all of them ready.
fn given(size: i32, machines: i32) -> Vec<Value> {
    let owner = |kind: &str, name: &str, uid: &str| {
        json!([{"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": kind, "name": name, "uid": uid,
            "controller": true}])
    };
    let labels = json!({"app": "web", "infrastructure.cluster.x-k8s.io/template-hash": "old",
        "infrastructure.cluster.x-k8s.io/set-name": "web-old"});
    let spec = json!({"workspaceTemplateRef": {"name": "machine"}, "nodeGroupRef": {"name": "group"}, "instanceType": "old"});
    let mut all = vec![json!({
        "kind": "CaptMachineSet",
        "metadata": {"name": "web-old", "uid": "s", "generation": 1, "labels": labels.clone(),
            "creationTimestamp": "2025-12-01T00:00:00Z", "ownerReferences": owner("CaptMachineDeployment", "web", "d"),
            "annotations": {"infrastructure.cluster.x-k8s.io/revision": "1"}},
        "spec": {"replicas": size, "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": labels.clone()}, "spec": spec.clone()}},
        "status": {"observedGeneration": 1, "replicas": machines, "readyReplicas": machines, "availableReplicas": machines,
            "allocation": {"next": machines}},
    })];
    all.extend((0..machines).map(|number| {
        json!({
            "kind": "CaptMachine",
            "metadata": {"name": format!("web-old-{number}"), "uid": format!("m{number}"), "labels": labels.clone(),
                "creationTimestamp": "2025-12-01T00:00:00Z", "ownerReferences": owner("CaptMachineSet", "web-old", "s")},
            "spec": spec.clone(),
            "status": {"ready": true, "phase": "Running"},
        })
    }));
    all
}

#[test]
fn a_given_state_beyond_the_bounds_is_nobodys_doing() {
    for strategy in strategies() {
        for (size, machines) in [(7, 7), (2, 7), (1, 3)] {
            let mut documents = given(size, machines);
            documents.push(deployment(3, &strategy));
            let report = simulate(documents);
            assert!(report.violations.is_empty(), "{size} of {machines}, {strategy}: {report}");
            assert!(report.summary.peak >= machines);
        }
    }
}

#[test]
fn machines_of_others_and_machines_that_are_being_built() {
    let strategy = json!({});
    let mut documents = given(1, 2);
    // As `kubectl get` lists them: one of another set, and one that Terraform works on.
    documents[1]["metadata"]["ownerReferences"][0]["uid"] = json!("another");
    documents[2]["status"] = json!({"ready": false, "phase": "Provisioning"});
    documents.push(deployment(1, &strategy));
    documents.push(json!({"kind": "RolloutSimulation"}));
    let report = simulate(documents);
    assert!(report.summary.finished, "{report}");
    assert_eq!((report.summary.created, report.summary.deleted, report.summary.peak), (1, 1, 2), "{report}");
}

#[test]
fn the_summary_says_what_it_comes_to() {
    let strategy = json!({"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}});
    let timeline = |until: Value, events: Value| {
        json!({"kind": "RolloutSimulation", "start": "Steady", "until": until, "events": events,
            "machines": {"readyAfter": "1m30s", "goneAfter": 45}})
    };
    let rolled = json!([{"at": 0, "patch": edit()}]);
    let report = simulate(vec![deployment(3, &strategy), timeline(json!("1h"), rolled.clone())]);
    let summary = &report.summary;
    assert_eq!((summary.finished, summary.finishes_after), (true, Some(405)), "{report}");
    assert_eq!((summary.created, summary.deleted, summary.peak, summary.low), (3, 3, 4, 3));
    let text = report.by_moment().to_string();
    let first = text.lines().next().unwrap();
    assert_eq!(
        first,
        "finishes in 6m45s: 3 machines created, 3 deleted; peak 4 (at most 4), low 3 available (at least 3)"
    );
    // One row for each moment, each later than the one before.
    assert!(report.moments.windows(2).all(|pair| pair[0].at < pair[1].at), "{text}");
    assert_eq!(text.lines().count(), 4 + report.moments.len(), "{text}");
    let row = text.lines().find(|line| line.trim_start().starts_with("1m30s")).unwrap();
    assert!(
        row.contains("is ready, scaled web-") && row.contains("3->2 (4 available, at least 3 must be)"),
        "{row}"
    );
    let sizes: Vec<(i64, i32, i32)> =
        report.moments[1].sets.iter().map(|set| (set.revision, set.replicas, set.live)).collect();
    assert_eq!(sizes, [(1, 2, 2), (2, 1, 1)], "{:?}", report.moments[1]);

    let report = simulate(vec![deployment(3, &strategy), timeline(json!("2m"), rolled)]);
    assert!(!report.summary.finished && report.summary.stopped, "{report}");
    let text = report.by_moment().to_string();
    assert!(text.starts_with("not finished: stopped after 2m (until): "), "{text}");

    let report = simulate(vec![deployment(3, &strategy), timeline(json!(3600), json!([]))]);
    assert!(report.by_moment().to_string().starts_with("nothing to do: 0 machines created"), "{report}");
}

#[test]
fn a_change_that_the_api_refuses_ends_it() {
    let strategy = json!({});
    let timeline =
        json!({"kind": "RolloutSimulation", "start": "Steady", "events": [{"at": "1m", "scale": 7}]});
    let scenario = Scenario::from_documents(vec![deployment(3, &strategy), timeline]).unwrap();
    let judge = |old: &Value, new: &Value| {
        assert_eq!((&old["spec"]["replicas"], &new["spec"]["replicas"]), (&json!(3), &json!(7)));
        Err("too many".to_owned())
    };
    let error = run_judged(scenario, &judge).unwrap_err();
    assert_eq!(error.to_string(), "at 60 s: too many");
    for wrong in [
        json!({"at": 1, "scale": 1, "pause": true}),
        json!({"at": 1}),
        json!({"scale": 1}),
        json!({"at": 1, "scael": 1}),
        json!({"at": "soon", "scale": 1}),
    ] {
        let timeline = json!({"kind": "RolloutSimulation", "events": [wrong.clone()]});
        let read = Scenario::from_documents(vec![deployment(3, &strategy), timeline]);
        assert!(read.is_err(), "{wrong}");
    }
}

/// Ten thousand machines: what is done is linear in them. (A count of all of them at each step was a hundred million counts.)
#[test]
fn ten_thousand_machines_are_counted_right() {
    let strategy = json!({"rollingUpdate": {"maxSurge": "50%", "maxUnavailable": "50%"}});
    let timeline =
        json!({"kind": "RolloutSimulation", "start": "Steady", "events": [{"at": 0, "patch": edit()}]});
    let report = simulate(vec![deployment(10_000, &strategy), timeline]);
    assert_eq!(report.violations, Vec::<String>::new());
    let summary = &report.summary;
    assert!(summary.finished, "{summary:?}");
    assert_eq!((summary.created, summary.deleted), (10_000, 10_000));
    assert_eq!(report.end.counts.available, 10_000);
}
