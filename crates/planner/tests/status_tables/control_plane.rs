//! The machine of `CAPTControlPlane`.

use capt_api::cluster::{CAPTCluster, CAPTControlPlane, CAPTControlPlaneSpec, CAPTControlPlaneStatus};
use capt_api::names::finalizers;
use capt_planner::Why;
use capt_planner::cluster::control_plane::{
    Access, ControlPlaneObservation, Network, NetworkFacts, decide, network_of, reachable, region, variables,
};
use capt_planner::cluster::{ClusterPartStep, Owner};
use capt_planner::conditions::{find, is_true};
use capt_planner::owned_workspace::{Kinship, OwnedWorkspace, OwnerStep};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use serde_json::{Value, json};

use crate::{
    Event, Run, World, check_table, cluster, deleting, json_of, minutes, rows, settle, start, unmoved,
    wander, workspace,
};

#[allow(clippy::struct_excessive_bools, reason = "four facts, each of its own")]
#[derive(Clone, Debug)]
struct Plane {
    object: CAPTControlPlane,
    status: Option<CAPTControlPlaneStatus>,
    external: bool,
    paused: bool,
    owner: Owner,
    network: Network,
    workspace: Option<OwnedWorkspace>,
    workers: Vec<String>,
    undismissed: bool,
    /// What becomes of the Secrets when somebody looks after them.
    access: Access,
    now: Timestamp,
    initialized: bool,
}

const NAME: &str = "demo-eks-controlplane-apply";

fn awaited() -> Network {
    Network::Awaited("CAPTCluster demo is not ready".into())
}

fn network() -> Network {
    Network::Ready(NetworkFacts {
        region: Some("eu-west-1".into()),
        outputs: serde_json::from_value(
            json!({"vpc_id": "vpc-1", "private_subnets": ["s1"], "tags": "theirs"}),
        )
        .unwrap(),
        workspace: Some("demo-vpc".into()),
    })
}

impl Plane {
    fn new() -> Self {
        Self::of(json!({"version": "v1.31.4", "workspaceTemplateRef": {"name": "cp"}}))
    }

    fn of(spec: Value) -> Self {
        let spec: CAPTControlPlaneSpec = serde_json::from_value(spec).unwrap();
        let mut object = CAPTControlPlane::new("demo", spec);
        object.metadata.generation = Some(1);
        Self {
            object,
            status: None,
            external: false,
            paused: false,
            owner: Owner::Awaited,
            network: awaited(),
            workspace: None,
            workers: Vec::new(),
            undismissed: false,
            access: Access { ready: true, problem: None },
            now: start(),
            initialized: false,
        }
    }

    fn observed(&self) -> ControlPlaneObservation<'_> {
        ControlPlaneObservation {
            object: &self.object,
            status: self.status.as_ref(),
            external: self.external,
            paused: self.paused.then(|| "Cluster demo is paused".to_owned()),
            owner: self.owner.clone(),
            network: self.network.clone(),
            workspace: self.workspace.clone(),
            workers: self.workers.clone(),
            undismissed: self.undismissed,
            access: None,
            probe: None,
        }
    }

    fn run(&mut self, run: &Run<'_>) {
        let told = self.status.as_ref().and_then(|status| status.failure_reason.as_deref());
        let changed = workspace(NAME, run, self.workspace.as_ref(), told);
        self.workspace = Some(changed);
    }

    fn after(mut self, events: &[fn(&mut Self)]) -> Self {
        self = settle(self).world;
        for event in events {
            event(&mut self);
            self = settle(self).world;
        }
        self
    }

    fn going(&self) -> bool {
        self.object.metadata.deletion_timestamp.is_some()
    }

    fn held(&self) -> bool {
        self.object.metadata.finalizers.iter().flatten().any(|known| known == finalizers::CONTROL_PLANE)
    }

    fn works(&self) -> bool {
        self.workspace
            .as_ref()
            .is_some_and(|workspace| workspace.ours() && !workspace.standing.deleting && !workspace.held)
    }
}

impl World for Plane {
    fn turn(&mut self) -> (&'static str, ClusterPartStep) {
        use ClusterPartStep::Workspace;
        let mut observed = self.observed();
        if reachable(&observed).is_some() {
            observed.access = Some(self.access.clone());
        }
        let plan = decide(&observed, self.now);
        assert!(plan.wake.is_none_or(|wake| wake > self.now), "what is late is told as late");
        if let Some(status) = plan.status {
            self.initialized |= status.initialized;
            self.status = Some(status);
        }
        match &plan.step {
            Workspace(OwnerStep::Rest | OwnerStep::Retain) => {}
            Workspace(OwnerStep::Hold) => {
                self.object.metadata.finalizers = Some(vec![finalizers::CONTROL_PLANE.into()]);
            }
            Workspace(OwnerStep::Create) => {
                assert!(
                    matches!(&self.owner, Owner::Found(cluster) if !cluster.deleting),
                    "it has a Cluster"
                );
                assert!(!matches!(self.network, Network::Awaited(_)), "its network is ready");
                assert!(!self.going(), "nothing is built for what goes");
                self.object.metadata.finalizers = Some(vec![finalizers::CONTROL_PLANE.into()]);
                self.workspace = Some(workspace(NAME, &Run::New, None, None));
            }
            Workspace(OwnerStep::Correct) => {
                let workspace = self.workspace.as_mut().unwrap();
                workspace.differs = false;
                workspace.kinship = Kinship::Ours;
            }
            Workspace(OwnerStep::Pause) => self.workspace.as_mut().unwrap().held = true,
            Workspace(OwnerStep::Resume) => self.workspace.as_mut().unwrap().held = false,
            ClusterPartStep::HandEndpoint(endpoint) => {
                self.object.spec.control_plane_endpoint = Some(endpoint.clone());
                self.object.metadata.generation = Some(2);
            }
            ClusterPartStep::DismissWorkers => {
                assert!(self.going() && !self.workers.is_empty());
                self.undismissed = false;
            }
            Workspace(OwnerStep::Delete) => {
                assert!(self.workers.is_empty(), "workers go first");
                let workspace = self.workspace.as_mut().unwrap();
                workspace.standing.deleting = true;
                workspace.standing.built = false;
            }
            Workspace(OwnerStep::Release) => self.object.metadata.finalizers = None,
        }
        (plan.state.name(), plan.step)
    }

    fn said(&self) -> Value {
        json_of(&self.status)
    }

    fn conditions(&self) -> Vec<Condition> {
        self.status.as_ref().map(|status| status.conditions.clone()).unwrap_or_default()
    }

    fn shown(&self) -> String {
        let status = self.status.clone().unwrap_or_default();
        let mut shown: Vec<String> = status.phase.map(|phase| format!("{phase:?}")).into_iter().collect();
        shown.push(format!("ready {}", status.ready));
        shown.extend(status.version);
        shown.extend(status.endpoint.map(|endpoint| format!("endpoint {endpoint}")));
        shown.extend(status.failure_reason.map(|reason| format!("failure {reason}")));
        shown.join(", ")
    }

    fn check(&self, state: &str) {
        let Some(status) = &self.status else { return };
        assert!(status.initialized || !self.initialized, "initialized never turns back");
        assert!(!status.ready || status.initialized);
        let ready = find(&status.conditions, "Ready").map(|ready| ready.status.as_str());
        assert_eq!(ready == Some("True"), status.ready, "the field and the condition agree");
        assert_eq!(is_true(&status.conditions, "Initialized"), status.initialized);
        if !matches!(state, "Paused" | "Deleting" | "Gone") {
            let phase = format!("{:?}", status.phase.unwrap());
            assert_eq!(status.failure_reason.is_some(), phase == "Failed", "{state}");
            assert_eq!(is_true(&status.conditions, "Failed"), phase == "Failed", "{state}");
        }
        let named = find(&status.conditions, "Deleting")
            .is_none_or(|one| self.workers.iter().all(|user| one.message.contains(user)));
        assert!(named, "who is waited for is named");
        assert_eq!(status.external_managed_control_plane, Some(true));
        assert!(!self.works() || self.held() || self.external, "what was built is forgotten by nobody");
    }
}

fn owned(plane: &mut Plane) {
    plane.owner = Owner::Found(Box::new(cluster()));
}

fn vpc(plane: &mut Plane) {
    plane.network = network();
}

fn outputs(endpoint: &str) -> Value {
    json!({"cluster_endpoint": endpoint, "cluster_version": "1.31"})
}

fn done(plane: &mut Plane) {
    plane.run(&Run::Done(outputs("https://api.example")));
}

fn begins(plane: &mut Plane) {
    plane.run(&Run::UnderWay);
}

fn fails(plane: &mut Plane) {
    plane.run(&Run::Fails);
}

fn pause(plane: &mut Plane) {
    plane.paused = true;
}

fn delete(plane: &mut Plane) {
    plane.object.metadata.deletion_timestamp = Some(Time(start()));
}

fn no_secrets(plane: &mut Plane) {
    let problem =
        Why::new("KubeconfigGenerationFailed", "output cluster_certificate_authority_data is missing");
    plane.access = Access { ready: false, problem: Some(problem) };
}

fn later(count: i64) -> impl Fn(&mut Plane) {
    move |plane| plane.now += minutes(count)
}

fn joined(plane: &mut Plane) {
    plane.workers = vec!["NodeGroup demo".into()];
}

#[allow(clippy::too_many_lines, reason = "a list of what can happen")]
fn events() -> Vec<Event<Plane>> {
    vec![
        Event {
            name: "a Cluster becomes its owner",
            possible: |plane| plane.owner == Owner::Awaited,
            happen: owned,
        },
        Event {
            name: "its Cluster is being deleted",
            possible: |plane| matches!(&plane.owner, Owner::Found(cluster) if !cluster.deleting),
            happen: |plane| deleting(&mut plane.owner),
        },
        Event {
            name: "its Cluster is gone",
            possible: |plane| matches!(plane.owner, Owner::Found(_)),
            happen: |plane| plane.owner = Owner::Missing("demo".into()),
        },
        Event {
            name: "the network is ready",
            possible: |plane| matches!(plane.network, Network::Awaited(_)),
            happen: vpc,
        },
        Event {
            name: "a Cluster without infrastructure becomes its owner",
            possible: |plane| plane.owner == Owner::Awaited,
            happen: |plane| {
                owned(plane);
                plane.network = Network::None;
            },
        },
        Event {
            name: "the Cluster's region is none",
            possible: |plane| plane.workspace.is_none() && matches!(plane.owner, Owner::Found(_)),
            happen: |plane| {
                if let Owner::Found(cluster) = &mut plane.owner {
                    cluster.region = Some("EU".into());
                }
                plane.network = Network::None;
            },
        },
        Event {
            name: "5 minutes pass",
            possible: |plane| plane.status.is_some(),
            happen: |plane| later(5)(plane),
        },
        Event {
            name: "15 minutes pass",
            possible: |plane| plane.status.is_some(),
            happen: |plane| later(15)(plane),
        },
        Event {
            name: "30 minutes pass",
            possible: |plane| plane.status.is_some(),
            happen: |plane| later(30)(plane),
        },
        Event {
            name: "the template does not exist",
            possible: |plane| plane.works() && !plane.workspace.as_ref().unwrap().standing.stands,
            happen: |plane| plane.run(&Run::Waits("WorkspaceTemplateNotFound")),
        },
        Event { name: "a run begins", possible: Plane::works, happen: begins },
        Event { name: "the run fails", possible: Plane::works, happen: fails },
        Event {
            name: "the module is invalid",
            possible: Plane::works,
            happen: |plane| plane.run(&Run::Stalls),
        },
        Event { name: "the run succeeds", possible: Plane::works, happen: done },
        Event {
            name: "the run succeeds, without `cluster_endpoint`",
            possible: Plane::works,
            happen: |plane| plane.run(&Run::Done(json!({}))),
        },
        Event {
            name: "the run succeeds, `cluster_endpoint` is none",
            possible: Plane::works,
            happen: |plane| plane.run(&Run::Done(outputs("ftp://api.example"))),
        },
        Event {
            name: "the run succeeds, no kubeconfig can be made",
            possible: |plane| plane.works() && plane.access.ready,
            happen: |plane| {
                no_secrets(plane);
                done(plane);
            },
        },
        Event {
            name: "the Secrets are there",
            possible: |plane| !plane.access.ready,
            happen: |plane| plane.access = Access { ready: true, problem: None },
        },
        Event {
            name: "the version changes",
            possible: |plane| plane.works() && plane.workspace.as_ref().unwrap().standing.built,
            happen: |plane| {
                plane.object.spec.version = "v1.32.0".into();
                let workspace = plane.workspace.as_mut().unwrap();
                workspace.differs = true;
                workspace.standing.built = false;
                workspace.standing.reason = "Queued".into();
            },
        },
        Event {
            name: "somebody deletes its workspace",
            possible: |plane| plane.works() && !plane.going(),
            happen: |plane| {
                let standing = &mut plane.workspace.as_mut().unwrap().standing;
                (standing.deleting, standing.built) = (true, false);
            },
        },
        Event {
            name: "the workspace is gone",
            possible: |plane| plane.workspace.as_ref().is_some_and(|one| one.standing.deleting && !one.held),
            happen: |plane| plane.workspace = None,
        },
        Event { name: "it is paused", possible: |plane| !plane.paused, happen: pause },
        Event {
            name: "it is not paused any more",
            possible: |plane| plane.paused,
            happen: |plane| plane.paused = false,
        },
        Event { name: "it is deleted", possible: |plane| !plane.going(), happen: delete },
        Event {
            name: "it is deleted before its workers",
            possible: |plane| !plane.going() && plane.workers.is_empty() && plane.held(),
            happen: |plane| {
                joined(plane);
                delete(plane);
            },
        },
        Event {
            name: "it is deleted with its Cluster, before its workers",
            possible: |plane| {
                !plane.going()
                    && plane.workers.is_empty()
                    && plane.held()
                    && matches!(plane.owner, Owner::Found(_))
            },
            happen: |plane| {
                joined(plane);
                plane.undismissed = true;
                deleting(&mut plane.owner);
                delete(plane);
            },
        },
        Event {
            name: "the workers are gone",
            possible: |plane| !plane.workers.is_empty(),
            happen: |plane| {
                plane.workers.clear();
                plane.undismissed = false;
            },
        },
    ]
}

#[test]
fn the_table_is_what_the_planner_does() {
    let plane = Plane::new;
    let taken = {
        let mut plane = plane().after(&[owned]);
        plane.workspace =
            Some(OwnedWorkspace { kinship: Kinship::Foreign, ..workspace(NAME, &Run::UnderWay, None, None) });
        plane
    };
    let external = Plane { external: true, ..plane() };
    let states: Vec<(&str, Plane)> = vec![
        ("WaitingForCluster", plane()),
        ("WaitingForVPC", plane().after(&[owned])),
        ("VPCTimeout", plane().after(&[owned, |plane| later(15)(plane)])),
        ("Creating", plane().after(&[owned, vpc])),
        ("CreateTimeout", plane().after(&[owned, vpc, |plane| later(30)(plane)])),
        ("Failed", plane().after(&[owned, vpc, fails])),
        ("WaitingForSecrets", plane().after(&[owned, vpc, no_secrets, done])),
        ("SecretTimeout", plane().after(&[owned, vpc, no_secrets, done, |plane| later(5)(plane)])),
        ("Ready", plane().after(&[owned, vpc, done])),
        ("Ready, its Secrets cannot be renewed", plane().after(&[owned, vpc, done, no_secrets])),
        ("Updating", plane().after(&[owned, vpc, done, begins])),
        ("UpdateTimeout", plane().after(&[owned, vpc, done, begins, |plane| later(30)(plane)])),
        ("UpdateFailed", plane().after(&[owned, vpc, done, fails])),
        ("Paused", plane().after(&[owned, vpc, begins, pause])),
        ("Deleting (waits for workers)", plane().after(&[owned, vpc, done, joined, delete])),
        ("Deleting (waits for its workspace)", plane().after(&[owned, vpc, done, delete])),
        ("WaitingForVPC, its workspace's name is another's", taken),
        ("External", external),
    ];
    let events = events();
    let mut table = Vec::new();
    for (name, plane) in &states {
        let state = settle(plane.clone()).state;
        assert!(name.starts_with(state), "{name} is {state}");
        table.extend(rows(name, plane, &events));
        unmoved(plane, |plane| plane.now += jiff::SignedDuration::from_secs(1));
    }
    check_table("control plane", &table);
}

#[test]
fn whatever_happens_it_comes_to_rest() {
    wander(&Plane::new(), &events(), 4000);
}

#[test]
fn a_pause_stops_the_clock() {
    let mut plane = Plane::new().after(&[owned, vpc, begins, pause]);
    plane.now += minutes(300);
    plane.paused = false;
    plane.workspace.as_mut().unwrap().held = false;
    let resumed = settle(plane);
    assert_eq!(resumed.state, "Creating", "half a day of pause is no timeout");
    let late = Plane { now: resumed.world.now + minutes(30), ..resumed.world };
    assert_eq!(settle(late).state, "CreateTimeout");
}

#[test]
fn a_change_that_hangs_is_told_and_its_late_end_is_taken() {
    let message = |plane: &Plane| plane.status.clone().unwrap().failure_message.unwrap_or_default();
    let updating = Plane::new().after(&[owned, vpc, done, begins]);
    let almost = settle(Plane { now: updating.now + minutes(29), ..updating.clone() });
    assert_eq!((almost.state, message(&almost.world)), ("Updating", String::new()));
    let late = settle(Plane { now: updating.now + minutes(30), ..updating.clone() });
    assert_eq!(late.state, "UpdateTimeout");
    let expected =
        "not changed after 30 minutes: workspace demo-eks-controlplane-apply: a change is on its way";
    assert_eq!(message(&late.world), expected);
    assert!(late.world.status.as_ref().unwrap().ready, "it answers as before");
    let ended = late.world.after(&[done]);
    assert_eq!((settle(ended.clone()).state, message(&ended)), ("Ready", String::new()));
    let mut paused = updating.after(&[pause]);
    paused.now += minutes(300);
    paused.paused = false;
    assert_eq!(settle(paused).state, "Updating", "a pause stops the clock");
}

#[test]
fn a_version_shows_when_it_runs() {
    let versions = |plane: &Plane| {
        let status = plane.status.clone().unwrap();
        let listed: Vec<String> = status.versions.into_iter().map(|one| one.version).collect();
        assert_eq!(status.version, listed.first().cloned());
        listed
    };
    let ready = Plane::new().after(&[owned, vpc, done]);
    assert_eq!(versions(&ready), ["v1.31.4"]);
    let change = events().into_iter().find(|event| event.name == "the version changes").unwrap();
    let mut updating = ready;
    (change.happen)(&mut updating);
    let updating = settle(updating);
    assert_eq!((updating.state, versions(&updating.world)), ("Updating", vec!["v1.31.4".to_owned()]));
    let mut updated = updating.world;
    updated.run(&Run::Done(json!({"cluster_endpoint": "https://api.example", "cluster_version": "1.32"})));
    let updated = settle(updated);
    assert_eq!((updated.state, versions(&updated.world)), ("Ready", vec!["v1.32.0".to_owned()]));
}

#[test]
fn the_endpoint_follows_the_module_unless_a_person_wrote_it() {
    let host = |plane: &Plane| plane.object.spec.control_plane_endpoint.clone().unwrap().host;
    let mut ready = Plane::new().after(&[owned, vpc, done]);
    assert_eq!(host(&ready), "api.example");
    ready.run(&Run::Done(outputs("https://other.example:6443/")));
    let moved = settle(ready).world;
    assert_eq!(host(&moved), "other.example");
    assert_eq!(moved.status.as_ref().unwrap().endpoint.as_deref(), Some("other.example:6443"));
    let mut pinned = Plane::new();
    pinned.object.spec.control_plane_endpoint =
        serde_json::from_value(json!({"host": "mine", "port": 1})).unwrap();
    assert_eq!(host(&pinned.after(&[owned, vpc, done])), "mine");
}

#[test]
fn what_the_module_is_told() {
    let spec = json!({
        "version": "v1.33.2", "workspaceTemplateRef": {"name": "cp"},
        "controlPlaneConfig": {
            "endpointAccess": {"public": true, "private": true, "publicCIDRs": ["203.0.113.0/24"]},
            "addons": [{"name": "coredns", "version": "v1"}],
        },
        "additionalTags": {"team": "blue", "example.com/cost": "7"},
    });
    let plane = Plane::of(spec).after(&[owned, vpc]);
    let expected = json!({
        "cluster_name": "demo", "kubernetes_version": "1.33", "kubernetes_full_version": "1.33.2", "region": "eu-west-1",
        "endpoint_public_access": true, "endpoint_private_access": true, "public_cidrs": ["203.0.113.0/24"],
        "addons": [{"name": "coredns", "version": "v1"}], "tags": {"team": "blue", "example.com/cost": "7"},
        "tags_team": "blue", "vpc_id": "vpc-1", "private_subnets": ["s1"],
    });
    assert_eq!(json!(variables(&plane.observed())), expected);
}

#[test]
fn the_region_is_looked_for_in_three_places() {
    let found = |own: Option<&str>, network: Network, noted: Option<&str>| {
        let mut plane = Plane::new();
        plane.object.spec.control_plane_config.region = own.map(str::to_owned);
        plane.network = network;
        let mut of = cluster();
        of.region = noted.map(str::to_owned);
        plane.owner = Owner::Found(Box::new(of));
        region(&plane.observed())
    };
    assert_eq!(found(Some("us-east-1"), network(), Some("x-1")), Ok(Some("us-east-1".into())));
    assert_eq!(found(None, network(), Some("x-1")), Ok(Some("eu-west-1".into())));
    assert_eq!(found(None, Network::None, Some("x-1")), Ok(Some("x-1".into())));
    assert_eq!(found(None, Network::None, None), Ok(None));
    let problem = found(None, Network::None, Some("EU")).unwrap_err();
    assert!(problem.starts_with("annotation cluster.x-k8s.io/region of the Cluster: "), "{problem}");
}

#[test]
fn the_network_is_the_one_that_the_cluster_names() {
    let mut net = CAPTCluster::new(
        "net-x7k2p",
        serde_json::from_value(json!({"region": "eu-west-1", "existingVpcId": "vpc-9"})).unwrap(),
    );
    let mut demo = cluster();
    demo.infrastructure.as_mut().unwrap().name = "net-x7k2p".into();
    let of = |demo: &capt_planner::cluster::Cluster, net: Option<&CAPTCluster>| {
        network_of(demo, |name| net.filter(|_| name == "net-x7k2p"))
    };
    let waits = |network: Network| match network {
        Network::Awaited(what) => what,
        other => panic!("{other:?}"),
    };
    assert_eq!(waits(of(&demo, None)), "CAPTCluster net-x7k2p does not exist");
    assert_eq!(waits(of(&demo, Some(&net))), "CAPTCluster net-x7k2p is not ready");
    net.status = serde_json::from_value(json!({"ready": true, "vpcId": "vpc-9"})).unwrap();
    let Network::Ready(facts) = of(&demo, Some(&net)) else { panic!("it is ready") };
    assert_eq!((json!(facts.outputs), facts.workspace), (json!({"vpc_id": "vpc-9"}), None));
    demo.infrastructure.as_mut().unwrap().kind = "OtherCluster".into();
    assert_eq!(waits(of(&demo, Some(&net))), "OtherCluster net-x7k2p is not provisioned");
    demo.provisioned = true;
    assert_eq!(of(&demo, None), Network::Ready(NetworkFacts::default()));
    demo.infrastructure = None;
    assert_eq!(of(&demo, Some(&net)), Network::None);
}

/// What is told of the API, after it was asked or not.
#[test]
fn of_the_api_only_what_was_seen_is_told() {
    use capt_planner::cluster::control_plane::Probe;
    let ready = Plane::new().after(&[owned, vpc, done]);
    let told = |plane: &Plane, probe: Option<Probe>| {
        let mut observed = plane.observed();
        (observed.access, observed.probe) = (Some(plane.access.clone()), probe);
        decide(&observed, plane.now).status.unwrap()
    };
    let said = |status: &CAPTControlPlaneStatus, kind: &str| {
        let one = status.conditions.iter().find(|condition| condition.type_ == kind);
        one.map_or_else(String::new, |one| format!("{} {}: {}", one.status, one.reason, one.message))
    };
    let rows = [
        (None, "Unknown NotProbed: it was not asked yet"),
        (Some(Probe::Ready), "True ProbeSucceeded: GET /readyz answered 200"),
        (
            Some(Probe::Failed("api:443 did not answer: refused".into())),
            "False ProbeFailed: api:443 did not answer: refused",
        ),
        (
            Some(Probe::Unknown(Why::new("EndpointPrivate", "api:443 is private"))),
            "Unknown EndpointPrivate: api:443 is private",
        ),
    ];
    for (probe, expected) in rows {
        let status = told(&ready, probe);
        assert_eq!(said(&status, "RemoteConnectionProbe"), expected);
        for kind in ["Ready", "Available", "Initialized"] {
            let words = said(&status, kind);
            assert!(words.starts_with("True Ready: ") && !words.contains("answer"), "{kind}: {words}");
        }
    }
    // After a restart, until it is asked again: what was seen last.
    let seen = Plane { status: Some(told(&ready, Some(Probe::Ready))), ..ready.clone() };
    assert!(said(&told(&seen, None), "RemoteConnectionProbe").starts_with("True "));
    let at_rest = told(&seen, Some(Probe::Ready));
    assert_eq!(Some(&at_rest), seen.status.as_ref(), "at rest nothing changes");
    // Before it is built there is nothing to ask, and nothing is told.
    let creating = Plane::new().after(&[owned, vpc, begins]);
    assert_eq!(said(&told(&creating, Some(Probe::Ready)), "RemoteConnectionProbe"), "");
}
