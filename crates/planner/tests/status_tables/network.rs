//! The machine of `CAPTCluster`.

use capt_api::cluster::{CAPTCluster, CAPTClusterSpec, CAPTClusterStatus};
use capt_api::names::finalizers;
use capt_api::refs::Endpoint;
use capt_planner::cluster::network::{NetworkObservation, decide, told};
use capt_planner::cluster::{ClusterPartStep, Owner};
use capt_planner::conditions::{find, is_true};
use capt_planner::owned_workspace::{Kinship, OwnedWorkspace, OwnerStep};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use serde_json::{Value, json};

use crate::{
    Event, Run, World, check_table, cluster, deleting, json_of, rows, settle, start, unmoved, wander,
    workspace,
};

#[allow(clippy::struct_excessive_bools, reason = "five facts, each of its own")]
#[derive(Clone, Debug)]
struct Net {
    object: CAPTCluster,
    status: Option<CAPTClusterStatus>,
    external: bool,
    paused: bool,
    owner: Owner,
    workspace: Option<OwnedWorkspace>,
    users: Vec<String>,
    undismissed: bool,
    now: jiff::Timestamp,
    endpoint: Option<Endpoint>,
    retained: bool,
    provisioned: bool,
}

const NAME: &str = "demo-vpc";

impl Net {
    fn new(spec: Value) -> Self {
        let spec: CAPTClusterSpec = serde_json::from_value(spec).unwrap();
        let mut object = CAPTCluster::new("demo", spec);
        object.metadata.generation = Some(1);
        Self {
            object,
            status: None,
            external: false,
            paused: false,
            owner: Owner::Awaited,
            workspace: None,
            users: Vec::new(),
            undismissed: false,
            now: start(),
            endpoint: None,
            retained: false,
            provisioned: false,
        }
    }

    fn template() -> Self {
        Self::new(json!({"region": "eu-west-1", "vpcTemplateRef": {"name": "net"}}))
    }

    fn run(&mut self, run: &Run<'_>) {
        let told = told(self.status.as_ref());
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

    fn held(&self) -> bool {
        self.object.metadata.finalizers.iter().flatten().any(|known| known == finalizers::CLUSTER)
    }

    fn going(&self) -> bool {
        self.object.metadata.deletion_timestamp.is_some()
    }

    fn works(&self) -> bool {
        self.workspace
            .as_ref()
            .is_some_and(|workspace| workspace.ours() && !workspace.standing.deleting && !workspace.held)
    }
}

impl World for Net {
    fn turn(&mut self) -> (&'static str, ClusterPartStep) {
        use ClusterPartStep::Workspace;
        let observed = NetworkObservation {
            object: &self.object,
            status: self.status.as_ref(),
            external: self.external,
            paused: self.paused.then(|| "Cluster demo is paused".to_owned()),
            owner: self.owner.clone(),
            workspace: self.workspace.clone(),
            users: self.users.clone(),
            undismissed: self.undismissed,
            endpoint: self.endpoint.clone(),
        };
        let plan = decide(&observed, self.now);
        if let Some(status) = plan.status {
            self.provisioned |=
                status.initialization.as_ref().is_some_and(|one| one.provisioned == Some(true));
            self.status = Some(status);
        }
        match &plan.step {
            Workspace(OwnerStep::Rest) => {}
            Workspace(OwnerStep::Hold) => {
                self.object.metadata.finalizers = Some(vec![finalizers::CLUSTER.into()]);
            }
            Workspace(OwnerStep::Create) => {
                assert!(
                    matches!(&self.owner, Owner::Found(cluster) if !cluster.deleting),
                    "it has a Cluster"
                );
                assert!(!self.going(), "nothing is built for what goes");
                self.object.metadata.finalizers = Some(vec![finalizers::CLUSTER.into()]);
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
                assert!(self.going() && !self.users.is_empty());
                self.undismissed = false;
            }
            Workspace(OwnerStep::Delete) => {
                assert!(self.users.is_empty(), "those who need it go first");
                assert!(!self.object.spec.retain_vpc_on_delete, "it is to stay");
                let workspace = self.workspace.as_mut().unwrap();
                workspace.standing.deleting = true;
                workspace.standing.built = false;
            }
            Workspace(OwnerStep::Retain) => {
                assert!(self.users.is_empty(), "those who need it go first");
                self.retained = true;
                self.workspace.as_mut().unwrap().kinship = Kinship::Orphan;
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
        let mut shown = vec![format!("ready {}", status.ready)];
        shown.extend(status.vpc_id.map(|vpc| format!("VPC {vpc}")));
        shown.extend(status.endpoint.map(|endpoint| format!("endpoint {endpoint}")));
        shown.extend(status.failure_reason.map(|reason| format!("failure {reason}")));
        shown.join(", ")
    }

    fn check(&self, state: &str) {
        let Some(status) = &self.status else { return };
        let provisioned = status.initialization.as_ref().and_then(|one| one.provisioned) == Some(true);
        assert!(provisioned || !self.provisioned, "provisioned never turns back");
        assert!(!status.ready || (provisioned && status.vpc_id.is_some()), "{status:#?}");
        let ready = find(&status.conditions, "Ready").map(|ready| ready.status.as_str());
        assert_eq!(ready == Some("True"), status.ready, "the field and the condition agree");
        let failed = matches!(state, "Failed" | "Invalid");
        if state != "Paused" {
            assert_eq!(status.failure_reason.is_some(), failed, "{state}");
        }
        if !self.going()
            && matches!(state, "Ready" | "Updating" | "UpdateFailed" | "Creating" | "Failed" | "Invalid")
        {
            assert_eq!(is_true(&status.conditions, "VPCReady"), status.ready);
            assert_eq!(is_true(&status.conditions, "VPCCreating"), state == "Creating");
        }
        assert_eq!(is_true(&status.conditions, "Paused") && state != "Gone", state == "Paused");
        let named = find(&status.conditions, "Deleting")
            .is_none_or(|one| self.users.iter().all(|user| one.message.contains(user)));
        assert!(named, "who is waited for is named");
        assert!(!self.works() || self.held() || self.external, "what was built is forgotten by nobody");
    }
}

fn owned(net: &mut Net) {
    net.owner = Owner::Found(Box::new(cluster()));
}

fn done(net: &mut Net) {
    net.run(&Run::Done(json!({
        "vpc_id": "vpc-1", "availability_zones": ["a", "b"], "private_subnets": ["s1", "s2"],
    })));
}

fn used(net: &mut Net) {
    net.users = vec!["CAPTControlPlane demo".into()];
}

fn delete(net: &mut Net) {
    net.object.metadata.deletion_timestamp = Some(Time(start()));
}

fn begins(net: &mut Net) {
    net.run(&Run::UnderWay);
}

fn fails(net: &mut Net) {
    net.run(&Run::Fails);
}

fn pause(net: &mut Net) {
    net.paused = true;
}

fn events() -> Vec<Event<Net>> {
    vec![
        Event {
            name: "a Cluster becomes its owner",
            possible: |net| net.owner == Owner::Awaited,
            happen: owned,
        },
        Event {
            name: "its Cluster is being deleted",
            possible: |net| matches!(&net.owner, Owner::Found(cluster) if !cluster.deleting),
            happen: |net| deleting(&mut net.owner),
        },
        Event {
            name: "its Cluster is gone",
            possible: |net| matches!(net.owner, Owner::Found(_)),
            happen: |net| net.owner = Owner::Missing("demo".into()),
        },
        Event {
            name: "the template does not exist",
            possible: |net| net.works() && !net.workspace.as_ref().unwrap().standing.stands,
            happen: |net| net.run(&Run::Waits("WorkspaceTemplateNotFound")),
        },
        Event { name: "a run begins", possible: Net::works, happen: begins },
        Event { name: "the run fails", possible: Net::works, happen: fails },
        Event { name: "the module is invalid", possible: Net::works, happen: |net| net.run(&Run::Stalls) },
        Event { name: "the run succeeds", possible: Net::works, happen: done },
        Event {
            name: "the run succeeds, without `vpc_id`",
            possible: Net::works,
            happen: |net| net.run(&Run::Done(json!({"vpc_id": ""}))),
        },
        Event {
            name: "the spec changes",
            possible: |net| net.works() && net.workspace.as_ref().unwrap().standing.built,
            happen: |net| {
                let workspace = net.workspace.as_mut().unwrap();
                workspace.differs = true;
                workspace.standing.built = false;
                workspace.standing.reason = "Queued".into();
            },
        },
        Event {
            name: "somebody deletes its workspace",
            possible: |net| net.works() && !net.going(),
            happen: |net| {
                let standing = &mut net.workspace.as_mut().unwrap().standing;
                (standing.deleting, standing.built) = (true, false);
            },
        },
        Event {
            name: "the workspace is gone",
            possible: |net| net.workspace.as_ref().is_some_and(|one| one.standing.deleting && !one.held),
            happen: |net| net.workspace = None,
        },
        Event {
            name: "the control plane has an endpoint",
            possible: |net| net.endpoint.is_none(),
            happen: |net| net.endpoint = Some(Endpoint { host: "api.example".into(), port: 443 }),
        },
        Event { name: "it is paused", possible: |net| !net.paused, happen: pause },
        Event {
            name: "it is not paused any more",
            possible: |net| net.paused,
            happen: |net| net.paused = false,
        },
        Event { name: "it is deleted", possible: |net| !net.going(), happen: delete },
        Event {
            name: "it is deleted before its control plane",
            possible: |net| !net.going() && net.users.is_empty() && net.held(),
            happen: |net| {
                used(net);
                delete(net);
            },
        },
        Event {
            name: "it is deleted with its Cluster, before machines",
            possible: |net| {
                !net.going() && net.users.is_empty() && net.held() && matches!(net.owner, Owner::Found(_))
            },
            happen: |net| {
                net.users = vec!["CaptMachine demo".into()];
                net.undismissed = true;
                deleting(&mut net.owner);
                delete(net);
            },
        },
        Event {
            name: "the control plane is gone",
            possible: |net| !net.users.is_empty(),
            happen: |net| {
                net.users.clear();
                net.undismissed = false;
            },
        },
    ]
}

fn existing() -> Net {
    Net::new(json!({"region": "eu-west-1", "existingVpcId": "vpc-0"}))
}

fn retaining() -> Net {
    Net::new(json!({"region": "eu-west-1", "vpcTemplateRef": {"name": "net"}, "retainVpcOnDelete": true}))
}

#[test]
fn the_table_is_what_the_planner_does() {
    let net = Net::template;
    let taken = {
        let mut net = net();
        net.workspace =
            Some(OwnedWorkspace { kinship: Kinship::Foreign, ..workspace(NAME, &Run::UnderWay, None, None) });
        net
    };
    let left = {
        let mut net = net();
        done(&mut net);
        let left = net.workspace.take().unwrap();
        net.workspace = Some(OwnedWorkspace { kinship: Kinship::Orphan, differs: true, ..left });
        net
    };
    let invalid = Net::new(json!({"region": "eu-west-1a", "vpcTemplateRef": {"name": "net"}}));
    let external = Net { external: true, ..net() };
    let states: Vec<(&str, Net)> = vec![
        ("WaitingForCluster", net()),
        ("Creating", net().after(&[owned])),
        ("Failed", net().after(&[owned, fails])),
        ("Ready", net().after(&[owned, done])),
        ("Updating", net().after(&[owned, done, begins])),
        ("UpdateFailed", net().after(&[owned, done, fails])),
        ("Paused", net().after(&[owned, done, pause])),
        ("Deleting (waits for the control plane)", net().after(&[owned, done, used, delete])),
        ("Deleting (waits for its workspace)", net().after(&[owned, done, delete])),
        ("Ready, `retainVpcOnDelete`", retaining().after(&[owned, done])),
        ("WaitingForCluster, `existingVpcId`", existing()),
        ("Ready, `existingVpcId`", existing().after(&[owned])),
        ("WaitingForCluster, its workspace's name is another's", taken),
        ("WaitingForCluster, a retained workspace is there", left),
        ("WaitingForCluster, the region is none", invalid),
        ("External", external),
    ];
    let events = events();
    let mut table = Vec::new();
    for (name, net) in &states {
        let state = settle(net.clone()).state;
        assert!(name.starts_with(state), "{name} is {state}");
        unmoved(net, |net| net.now += jiff::SignedDuration::from_secs(1));
        let retains = name.contains("retainVpcOnDelete");
        let mut rows = rows(name, net, &events);
        rows.retain(|row| !retains || row.contains("it is deleted"));
        table.extend(rows);
    }
    check_table("network", &table);
}

#[test]
fn whatever_happens_it_comes_to_rest() {
    for start in [Net::template(), existing(), retaining()] {
        wander(&start, &events(), 1500);
    }
}

#[test]
fn zones_and_subnets_reach_the_status() {
    let net = Net::template().after(&[owned, done]);
    let status = net.status.unwrap();
    assert_eq!(status.vpc_workspace_name.as_deref(), Some(NAME));
    let domains: Vec<&str> = status.failure_domains.iter().map(|domain| domain.name.as_str()).collect();
    assert_eq!(domains, ["a", "b"]);
    assert_eq!(status.failure_domains[1].attributes["privateSubnet"], "s2");
}

#[test]
fn what_the_module_is_told() {
    let told = |spec: Value| capt_planner::cluster::network::variables(&Net::new(spec).object, "prod");
    let plain = told(json!({"region": "eu-west-1", "vpcTemplateRef": {"name": "net"}}));
    let expected = json!({
        "cluster_name": "prod", "vpc_name": "demo-vpc", "region": "eu-west-1", "environment": "production",
    });
    assert_eq!(json!(plain), expected);
    let named =
        told(json!({"region": "eu-west-1", "vpcTemplateRef": {"name": "net"}, "vpcConfig": {"name": "n"}}));
    assert_eq!(named["vpc_name"], "n");
}
