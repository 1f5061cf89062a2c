#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use capt_api::cluster::core::{Cluster, ClusterPartRef, ClusterSpec};
use capt_api::refs::Endpoint;
use capt_planner::cluster::core::decide;

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

fn now() -> Timestamp {
    Timestamp::from_second(1_800_000_000).unwrap()
}

fn told(observed: &ClusterObservation) -> ClusterStatus {
    status(observed, &decide(observed), now())
}

/// Status and reason of some conditions.
fn said(status: &ClusterStatus, kinds: &[&str]) -> Vec<String> {
    let find = |kind: &&str| status.conditions.iter().find(|condition| condition.type_ == *kind);
    kinds.iter().map(|kind| find(kind).map_or("-".into(), |c| format!("{} {}", c.status, c.reason))).collect()
}

const THREE: [&str; 3] = ["InfrastructureReady", "ControlPlaneInitialized", "ControlPlaneAvailable"];

fn built(kind: &str) -> PresentPart {
    PresentPart { begun: true, ready: true, ..there(kind) }
}

#[test]
fn the_life_of_a_cluster() {
    use ClusterPhase::{Deleting, Failed, Provisioned, Provisioning};
    let absent = |kind: &str| ClusterPart::Absent(reference(kind));
    let failed =
        PresentPart { failure: Some(("Broken".into(), "Infra x: it broke".into())), ..there("Infra") };
    let rows: Vec<(&str, ClusterObservation, ClusterPhase, [&str; 3], bool)> = vec![
        (
            "nothing is there",
            ClusterObservation {
                infrastructure: absent("Infra"),
                control_plane: absent("Plane"),
                ..observed()
            },
            Provisioning,
            ["False ObjectDoesNotExist", "Unknown ObjectDoesNotExist", "False ObjectDoesNotExist"],
            false,
        ),
        (
            "both are begun",
            observed(),
            Provisioning,
            ["False NotReady", "False NotInitialized", "False NotAvailable"],
            false,
        ),
        (
            "the infrastructure is complete",
            ClusterObservation { infrastructure: part(built("Infra")), ..observed() },
            Provisioning,
            ["True Ready", "False NotInitialized", "False NotAvailable"],
            false,
        ),
        (
            "all is there",
            ClusterObservation {
                infrastructure: part(built("Infra")),
                control_plane: part(PresentPart { endpoint: Some(at("h")), ..built("Plane") }),
                ..observed()
            },
            Provisioned,
            ["True Ready", "True Initialized", "True Available"],
            true,
        ),
        (
            "only a person can help",
            ClusterObservation { infrastructure: part(failed), ..observed() },
            Failed,
            ["False NotReady", "False NotInitialized", "False NotAvailable"],
            false,
        ),
        (
            "it goes",
            ClusterObservation { deleting: true, control_plane: absent("Plane"), ..observed() },
            Deleting,
            ["False NotReady", "Unknown ObjectDoesNotExist", "False ObjectDoesNotExist"],
            false,
        ),
    ];
    for (name, observed, phase, conditions, available) in rows {
        let status = told(&observed);
        assert_eq!(status.phase, Some(phase), "{name}");
        assert_eq!(said(&status, &THREE), conditions, "{name}");
        let expected = if available { "True Available" } else { "False NotAvailable" };
        assert_eq!(said(&status, &["Available"]), [expected], "{name}");
    }
}

#[test]
fn what_was_once_there_is_remembered() {
    let mut observed = ClusterObservation {
        infrastructure: part(built("Infra")),
        control_plane: part(built("Plane")),
        ..observed()
    };
    let first = told(&observed);
    assert_eq!(first.initialization.unwrap().infrastructure_provisioned, Some(true));
    assert!(first.infrastructure_ready && first.control_plane_ready);
    observed.status = Some(first);
    observed.infrastructure = ClusterPart::Absent(reference("Infra"));
    observed.control_plane = part(there("Plane"));
    let later = told(&observed);
    let remembered = later.initialization.unwrap();
    assert_eq!(remembered.infrastructure_provisioned, Some(true));
    assert_eq!(remembered.control_plane_initialized, Some(true));
    assert!(!later.control_plane_ready, "the v1beta1 field is about now");
    assert_eq!(said(&later, &THREE), ["False ObjectDeleted", "True Initialized", "False NotAvailable"]);
    assert_eq!(later.phase, Some(ClusterPhase::Provisioning));
}

#[test]
fn a_failure_is_told_where_each_version_looks_and_goes_when_it_is_over() {
    let failure = Some(("Broken".to_owned(), "Plane x: it broke".to_owned()));
    let mut observed =
        ClusterObservation { control_plane: part(PresentPart { failure, ..there("Plane") }), ..observed() };
    let status = told(&observed);
    assert_eq!(status.failure_reason.as_deref(), Some("Broken"));
    assert_eq!(status.failure_message.as_deref(), Some("Plane x: it broke"));
    let old = status.deprecated.clone().unwrap().v1beta1.unwrap();
    assert_eq!(
        (old.failure_reason, old.failure_message),
        (status.failure_reason.clone(), status.failure_message.clone())
    );
    observed.status = Some(status);
    observed.control_plane = part(there("Plane"));
    let over = told(&observed);
    assert_eq!((over.failure_reason, over.failure_message, over.deprecated), (None, None, None));
    assert_eq!(over.phase, Some(ClusterPhase::Provisioning));
}

#[test]
fn conditions_of_the_parts_are_mirrored() {
    let own =
        ReportedCondition { truth: Truth::False, reason: "VPCCreating".into(), message: "builds".into() };
    let plain = ReportedCondition { truth: Truth::True, reason: String::new(), message: String::new() };
    let observed = ClusterObservation {
        infrastructure: part(PresentPart {
            conditions: [("Ready".to_owned(), own)].into(),
            ..built("Infra")
        }),
        control_plane: part(PresentPart {
            conditions: [("Available".to_owned(), plain)].into(),
            ..built("Plane")
        }),
        ..observed()
    };
    let status = told(&observed);
    assert_eq!(said(&status, &THREE), ["False VPCCreating", "True Initialized", "True Available"]);
    let available = status.conditions.iter().find(|condition| condition.type_ == "Available").unwrap();
    assert_eq!(available.message, "InfrastructureReady: builds");
}

#[test]
fn of_a_paused_cluster_only_that_is_said() {
    let mut observed = ClusterObservation { infrastructure: part(built("Infra")), ..observed() };
    observed.status = Some(told(&observed));
    let before = observed.status.clone().unwrap();
    let paused = ClusterObservation {
        paused: Some("why".into()),
        infrastructure: ClusterPart::None,
        control_plane: ClusterPart::None,
        ..observed
    };
    let status = told(&paused);
    assert_eq!(said(&status, &["Paused"]), ["True Paused"]);
    let others = |status: &ClusterStatus| {
        let mut status = status.clone();
        status.conditions.retain(|condition| condition.type_ != "Paused");
        status
    };
    assert_eq!(others(&status), others(&before));
}

#[test]
fn a_part_of_another_cluster_counts_for_nothing() {
    let elsewhere = PresentPart { belongs: Belongs::Elsewhere("d".into()), ..built("Infra") };
    let status = told(&ClusterObservation { infrastructure: part(elsewhere), ..observed() });
    assert_eq!(said(&status, &["InfrastructureReady"]), ["False InvalidReference"]);
    assert!(!status.infrastructure_ready);
    let wrong =
        told(&ClusterObservation { infrastructure: ClusterPart::Wrong("no such kind".into()), ..observed() });
    assert_eq!(said(&wrong, &["InfrastructureReady"]), ["False InvalidReference"]);
}

#[test]
fn at_rest_the_status_stays_the_same() {
    let mut observed = ClusterObservation { infrastructure: part(built("Infra")), ..observed() };
    let first = told(&observed);
    observed.status = Some(first.clone());
    let later = status(&observed, &decide(&observed), Timestamp::from_second(1_900_000_000).unwrap());
    assert_eq!(later, first);
}

#[test]
fn deployments_say_whether_there_are_enough_machines() {
    let one = |truth| {
        Some(ReportedCondition {
            truth,
            reason: "MinimumReplicasUnavailable".into(),
            message: "1 of 2".into(),
        })
    };
    let rows = [
        (vec![], "True NoWorkers"),
        (vec![("a".to_owned(), one(Truth::True))], "True Available"),
        (vec![("a".to_owned(), one(Truth::True)), ("b".to_owned(), one(Truth::False))], "False NotAvailable"),
        (vec![("a".to_owned(), None)], "False NotAvailable"),
    ];
    for (deployments, expected) in rows {
        let workers = Workers { deployments, ..Workers::default() };
        let status = told(&ClusterObservation { workers, ..observed() });
        assert_eq!(said(&status, &["WorkersAvailable"]), [expected]);
    }
}

#[test]
fn a_cluster_tells_the_cause_of_its_workers() {
    let lacks = |message: &str| {
        Some(ReportedCondition { truth: Truth::False, reason: "Failed".into(), message: message.to_owned() })
    };
    let cause = "0 of 2 machines are available, at least 2 must be; CaptMachine web-0: Error: no capacity";
    let workers = Workers {
        deployments: vec![("web".to_owned(), lacks(cause))],
        others: vec![("NodeGroup workers".to_owned(), lacks("Error: no subnet"))],
        ..Workers::default()
    };
    let status = told(&ClusterObservation { workers, infrastructure: part(built("Infra")), ..observed() });
    let message = |kind: &str| {
        status.conditions.iter().find(|condition| condition.type_ == kind).unwrap().message.clone()
    };
    let expected = format!("NodeGroup workers: Error: no subnet; CaptMachineDeployment web: {cause}");
    assert_eq!(message("WorkersAvailable"), expected);
    assert!(message("Available").ends_with(&expected), "{}", message("Available"));
    // A group alone is a worker, too.
    let others = vec![("NodeGroup workers".to_owned(), lacks("Error: no subnet"))];
    let status =
        told(&ClusterObservation { workers: Workers { others, ..Workers::default() }, ..observed() });
    assert_eq!(said(&status, &["WorkersAvailable"]), ["False NotAvailable"]);
}
