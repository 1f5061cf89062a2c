#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use capt_api::cluster::core::{Cluster, ClusterEndpoint, ClusterPartRef, ClusterSpec};
use serde_json::json;

use super::super::workers::Workers;
use super::*;
use crate::runtime::Name;

pub fn reference(kind: &str) -> ClusterPartRef {
    ClusterPartRef {
        api_group: Some("g.io".into()),
        kind: kind.into(),
        name: "x".into(),
        ..ClusterPartRef::default()
    }
}

pub fn there(kind: &str) -> There {
    There {
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

pub fn part(there: There) -> Part {
    Part::There(Box::new(there))
}

pub fn observed() -> Observed {
    let spec = ClusterSpec {
        infrastructure_ref: Some(reference("Infra")),
        control_plane_ref: Some(reference("Plane")),
        ..ClusterSpec::default()
    };
    Observed {
        object: Arc::new(Cluster::new("c", spec)),
        name: Name::new("n", "c"),
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

pub fn at(host: &str) -> Endpoint {
    Endpoint { host: host.into(), port: 6443 }
}

fn free(kind: &str) -> There {
    There { belongs: Belongs::Free(json!({"uid": kind})), ..there(kind) }
}

/// Steps as words.
fn words(observed: &Observed) -> Vec<String> {
    let word = |step: &Step| match step {
        Step::Hold => "hold".to_owned(),
        Step::Adopt(part, _) => format!("adopt {}", part.reference.kind),
        Step::Endpoint(endpoint) => format!("endpoint {}", endpoint.host),
        Step::DeleteWorkers(workers) => {
            let names: Vec<_> = workers.iter().map(|worker| worker.name.as_str()).collect();
            format!("delete {}", names.join(" "))
        }
        Step::Delete(part) => format!("delete {}", part.reference.kind),
        Step::Release => "release".to_owned(),
    };
    decide(observed).steps.iter().map(word).collect()
}

#[test]
fn parts_are_adopted_and_the_endpoint_handed_on() {
    let infra =
        |endpoint: Option<&str>, begun| part(There { begun, endpoint: endpoint.map(at), ..there("Infra") });
    let plane =
        |endpoint: Option<&str>, begun| part(There { begun, endpoint: endpoint.map(at), ..there("Plane") });
    let rows: Vec<(&str, Observed, Vec<&str>)> = vec![
        ("new", Observed { finalizer: false, ..observed() }, vec!["hold"]),
        (
            "nobody's parts",
            Observed {
                infrastructure: part(free("Infra")),
                control_plane: part(free("Plane")),
                ..observed()
            },
            vec!["adopt Infra", "adopt Plane"],
        ),
        ("at rest", observed(), vec![]),
        ("not complete", Observed { infrastructure: infra(Some("i"), false), ..observed() }, vec![]),
        (
            "from the infrastructure",
            Observed { infrastructure: infra(Some("i"), true), ..observed() },
            vec!["endpoint i"],
        ),
        (
            "the infrastructure first",
            Observed {
                infrastructure: infra(Some("i"), true),
                control_plane: plane(Some("p"), true),
                ..observed()
            },
            vec!["endpoint i"],
        ),
        (
            "from the control plane",
            Observed {
                infrastructure: infra(None, true),
                control_plane: plane(Some("p"), true),
                ..observed()
            },
            vec!["endpoint p"],
        ),
        (
            "another's",
            Observed {
                infrastructure: part(There {
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
            Observed { infrastructure: part(There { deleting: true, ..free("Infra") }), ..observed() },
            vec![],
        ),
        (
            "paused",
            Observed {
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
    let infrastructure = part(There { begun: true, endpoint: Some(at("new")), ..there("Infra") });
    let mut observed = Observed { infrastructure, ..observed() };
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
    let going = |all: Vec<Worker>| Observed {
        deleting: true,
        workers: Workers { all, ..Workers::default() },
        ..observed()
    };
    let gone = |kind: &str| Part::Absent(reference(kind));
    let leaving = |kind: &str| part(There { deleting: true, ..there(kind) });
    let rows: Vec<(&str, Observed, Vec<&str>, &str)> = vec![
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
            Observed { control_plane: leaving("Plane"), ..going(vec![]) },
            vec![],
            "waits for Plane x to go",
        ),
        (
            "then the infrastructure",
            Observed { control_plane: gone("Plane"), ..going(vec![]) },
            vec!["delete Infra"],
            "waits for Infra x to go",
        ),
    ];
    for (name, observed, expected, message) in rows {
        assert_eq!(words(&observed), expected, "{name}");
        let Standing::Deleting(_, said) = decide(&observed).standing else { panic!("{name}: it goes") };
        assert_eq!(said, message, "{name}");
    }
    let last = Observed { control_plane: gone("Plane"), infrastructure: gone("Infra"), ..going(vec![]) };
    assert_eq!(words(&last), ["release"]);
    let orphans = Observed { orphans: true, ..going(vec![worker(Machine, "m", true, false)]) };
    assert_eq!(words(&orphans), ["release"], "what it had stays");
    let released = Observed { finalizer: false, ..going(vec![]) };
    assert_eq!(decide(&released), Decision { steps: vec![], standing: Standing::Gone });
    let paused = Observed { paused: Some("why".into()), ..going(vec![]) };
    assert_eq!(words(&paused), Vec::<String>::new(), "a pause holds the end up, too");
}

#[test]
fn what_is_anothers_is_not_deleted() {
    let elsewhere = |kind: &str| part(There { belongs: Belongs::Elsewhere("d".into()), ..there(kind) });
    let observed = Observed { deleting: true, control_plane: elsewhere("Plane"), ..observed() };
    assert_eq!(words(&observed), ["delete Infra"]);
    let observed = Observed { infrastructure: elsewhere("Infra"), ..observed };
    assert_eq!(words(&observed), ["release"]);
}

#[test]
fn the_part_that_is_waited_for_says_why() {
    let said = super::super::contract_ref::Said {
        truth: crate::runtime::conditions::Truth::True,
        reason: "Deleting".into(),
        message: "waits for WorkspaceTemplateApply w to go".into(),
    };
    let plane =
        There { deleting: true, conditions: [("Deleting".to_owned(), said)].into(), ..there("Plane") };
    let observed = Observed { deleting: true, control_plane: part(plane), ..observed() };
    let expected = "waits for Plane x to go: waits for WorkspaceTemplateApply w to go";
    let standing = Standing::Deleting(reasons::WAITING_FOR_CONTROL_PLANE_DELETION, expected.into());
    assert_eq!(decide(&observed).standing, standing);
}
