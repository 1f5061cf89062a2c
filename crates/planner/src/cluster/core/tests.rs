use std::sync::Arc;

use capt_api::cluster::core::{Cluster, ClusterEndpoint, ClusterPartRef, ClusterSpec};
use serde_json::json;

use super::*;

fn reference(kind: &str) -> ClusterPartRef {
    ClusterPartRef {
        api_group: Some("g.io".into()),
        kind: kind.into(),
        name: "x".into(),
        ..ClusterPartRef::default()
    }
}

fn there(kind: &str) -> PresentPart {
    PresentPart {
        reference: reference(kind),
        uid: kind.to_lowercase(),
        belongs: Belongs::Here,
        deleting: false,
        begun: false,
        ready: false,
        conditions: std::collections::BTreeMap::new(),
        endpoint: None,
        failure_domains: Vec::new(),
        failure: None,
    }
}

fn part(there: PresentPart) -> ClusterPart {
    ClusterPart::There(Box::new(there))
}

fn observed() -> ClusterObservation {
    let spec = ClusterSpec {
        infrastructure_ref: Some(reference("Infra")),
        control_plane_ref: Some(reference("Plane")),
        ..ClusterSpec::default()
    };
    ClusterObservation {
        object: Arc::new(Cluster::new("c", spec)),
        status: None,
        paused: None,
        deleting: false,
        finalizer: true,
        orphans: false,
        infrastructure: part(there("Infra")),
        control_plane: part(there("Plane")),
        workers: Workers::default(),
    }
}

fn at(host: &str) -> Endpoint {
    Endpoint { host: host.into(), port: 6443 }
}

fn free(kind: &str) -> PresentPart {
    PresentPart { belongs: Belongs::Free(json!({"uid": kind})), ..there(kind) }
}

/// Steps as words.
fn words(observed: &ClusterObservation) -> Vec<String> {
    let word = |step: &ClusterStep| match step {
        ClusterStep::Hold => "hold".to_owned(),
        ClusterStep::Adopt(part, _) => format!("adopt {}", part.reference.kind),
        ClusterStep::SetEndpoint(endpoint) => format!("endpoint {}", endpoint.host),
        ClusterStep::DeleteWorkers(workers) => {
            let names: Vec<_> = workers.iter().map(|worker| worker.name.as_str()).collect();
            format!("delete {}", names.join(" "))
        }
        ClusterStep::Delete(part) => format!("delete {}", part.reference.kind),
        ClusterStep::Release => "release".to_owned(),
    };
    decide(observed).steps.iter().map(word).collect()
}

#[test]
fn parts_are_adopted_and_the_endpoint_handed_on() {
    let infra = |endpoint: Option<&str>, begun| {
        part(PresentPart { begun, endpoint: endpoint.map(at), ..there("Infra") })
    };
    let plane = |endpoint: Option<&str>, begun| {
        part(PresentPart { begun, endpoint: endpoint.map(at), ..there("Plane") })
    };
    let rows: Vec<(&str, ClusterObservation, Vec<&str>)> = vec![
        ("new", ClusterObservation { finalizer: false, ..observed() }, vec!["hold"]),
        (
            "nobody's parts",
            ClusterObservation {
                infrastructure: part(free("Infra")),
                control_plane: part(free("Plane")),
                ..observed()
            },
            vec!["adopt Infra", "adopt Plane"],
        ),
        ("at rest", observed(), vec![]),
        (
            "not complete",
            ClusterObservation { infrastructure: infra(Some("i"), false), ..observed() },
            vec![],
        ),
        (
            "from the infrastructure",
            ClusterObservation { infrastructure: infra(Some("i"), true), ..observed() },
            vec!["endpoint i"],
        ),
        (
            "the infrastructure first",
            ClusterObservation {
                infrastructure: infra(Some("i"), true),
                control_plane: plane(Some("p"), true),
                ..observed()
            },
            vec!["endpoint i"],
        ),
        (
            "from the control plane",
            ClusterObservation {
                infrastructure: infra(None, true),
                control_plane: plane(Some("p"), true),
                ..observed()
            },
            vec!["endpoint p"],
        ),
        (
            "another's",
            ClusterObservation {
                infrastructure: part(PresentPart {
                    belongs: Belongs::Elsewhere("d".into()),
                    begun: true,
                    endpoint: Some(at("i")),
                    ..there("Infra")
                }),
                ..observed()
            },
            vec![],
        ),
        (
            "on its way out",
            ClusterObservation {
                infrastructure: part(PresentPart { deleting: true, ..free("Infra") }),
                ..observed()
            },
            vec![],
        ),
        (
            "paused",
            ClusterObservation {
                paused: Some("why".into()),
                finalizer: false,
                control_plane: part(free("Plane")),
                ..observed()
            },
            vec![],
        ),
    ];
    for (name, observed, expected) in rows {
        assert_eq!(words(&observed), expected, "{name}");
    }
}

#[test]
fn an_endpoint_that_is_there_stays() {
    let infrastructure = part(PresentPart { begun: true, endpoint: Some(at("new")), ..there("Infra") });
    let mut observed = ClusterObservation { infrastructure, ..observed() };
    let mut cluster = observed.object.as_ref().clone();
    cluster.spec.control_plane_endpoint = Some(ClusterEndpoint { host: "old".into(), port: 443 });
    observed.object = Arc::new(cluster.clone());
    assert_eq!(words(&observed), Vec::<String>::new());
    assert_eq!(endpoint_after(&observed, &[]).unwrap().host, "old");
    // v1beta1 writes an empty one for none.
    cluster.spec.control_plane_endpoint = Some(ClusterEndpoint::default());
    observed.object = Arc::new(cluster);
    assert_eq!(words(&observed), ["endpoint new"]);
}

fn worker(kind: WorkerKind, name: &str, top: bool, deleting: bool) -> Worker {
    Worker { kind, name: name.into(), uid: name.into(), deleting, top }
}

#[test]
fn all_go_in_their_order() {
    use WorkerKind::{Deployment, Group, Machine, Set};
    let going = |all: Vec<Worker>| ClusterObservation {
        deleting: true,
        workers: Workers { all, ..Workers::default() },
        ..observed()
    };
    let gone = |kind: &str| ClusterPart::Absent(reference(kind));
    let leaving = |kind: &str| part(PresentPart { deleting: true, ..there(kind) });
    let rows: Vec<(&str, ClusterObservation, Vec<&str>, &str)> = vec![
        (
            "machines first",
            going(vec![
                worker(Deployment, "md", true, false),
                worker(Set, "own", true, false),
                worker(Set, "ms", false, false),
                worker(Machine, "m", false, false),
                worker(Group, "g", true, false),
            ]),
            vec!["delete md own"],
            "waits for CaptMachineDeployment md; CaptMachineSet own; CaptMachineSet ms; CaptMachine m to go",
        ),
        (
            "once is enough",
            going(vec![worker(Machine, "m", true, true)]),
            vec![],
            "waits for CaptMachine m to go",
        ),
        (
            "then groups",
            going(vec![worker(Group, "g", true, false)]),
            vec!["delete g"],
            "waits for NodeGroup g to go",
        ),
        ("then the control plane", going(vec![]), vec!["delete Plane"], "waits for Plane x to go"),
        (
            "which takes its time",
            ClusterObservation { control_plane: leaving("Plane"), ..going(vec![]) },
            vec![],
            "waits for Plane x to go",
        ),
        (
            "then the infrastructure",
            ClusterObservation { control_plane: gone("Plane"), ..going(vec![]) },
            vec!["delete Infra"],
            "waits for Infra x to go",
        ),
    ];
    for (name, observed, expected, message) in rows {
        assert_eq!(words(&observed), expected, "{name}");
        let ClusterState::Deleting(why) = decide(&observed).state else { panic!("{name}: it goes") };
        assert_eq!(why.message, message, "{name}");
    }
    let last =
        ClusterObservation { control_plane: gone("Plane"), infrastructure: gone("Infra"), ..going(vec![]) };
    assert_eq!(words(&last), ["release"]);
    let orphans = ClusterObservation { orphans: true, ..going(vec![worker(Machine, "m", true, false)]) };
    assert_eq!(words(&orphans), ["release"], "what it had stays");
    let released = ClusterObservation { finalizer: false, ..going(vec![]) };
    assert_eq!(decide(&released), ClusterDecision { steps: vec![], state: ClusterState::Gone });
    let paused = ClusterObservation { paused: Some("why".into()), ..going(vec![]) };
    assert_eq!(words(&paused), Vec::<String>::new(), "a pause holds the end up, too");
}

#[test]
fn what_is_anothers_is_not_deleted() {
    let elsewhere = |kind: &str| part(PresentPart { belongs: Belongs::Elsewhere("d".into()), ..there(kind) });
    let observed = ClusterObservation { deleting: true, control_plane: elsewhere("Plane"), ..observed() };
    assert_eq!(words(&observed), ["delete Infra"]);
    let observed = ClusterObservation { infrastructure: elsewhere("Infra"), ..observed };
    assert_eq!(words(&observed), ["release"]);
}

#[test]
fn the_part_that_is_waited_for_says_why() {
    let said = ReportedCondition {
        truth: crate::conditions::Truth::True,
        reason: "Deleting".into(),
        message: "waits for WorkspaceTemplateApply w to go".into(),
    };
    let plane =
        PresentPart { deleting: true, conditions: [("Deleting".to_owned(), said)].into(), ..there("Plane") };
    let observed = ClusterObservation { deleting: true, control_plane: part(plane), ..observed() };
    let expected = "waits for Plane x to go: waits for WorkspaceTemplateApply w to go";
    let why = Why::new(reasons::WAITING_FOR_CONTROL_PLANE_DELETION, expected);
    assert_eq!(decide(&observed).state, ClusterState::Deleting(why));
}
