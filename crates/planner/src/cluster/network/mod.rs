//! `CAPTCluster`: where a network stands, and the next thing to do for it.

mod status;

use capt_api::cluster::{CAPTCluster, CAPTClusterStatus};
use capt_api::conditions::{reasons, types};
use capt_api::names::finalizers;
use capt_api::refs::Endpoint;
use jiff::Timestamp;
use kube::ResourceExt;
use serde_json::{Value, json};

use super::{News, Owner, Step, Why, Workspace, awaits_cluster, dismiss, end_of, left, region};
use crate::conditions::find;
use crate::workspace::Variables;

/// What a network's workspace has after the network's name.
pub const SUFFIX: &str = "-vpc";
/// What modules are told where nobody says otherwise.
const ENVIRONMENT: &str = "production";

/// What is known of one network.
#[derive(Clone, Debug)]
pub struct Observed<'a> {
    /// The object.
    pub object: &'a CAPTCluster,
    /// Its status: what was written last, though a cache may not show it yet.
    pub status: Option<&'a CAPTClusterStatus>,
    /// Somebody else takes care of it.
    pub external: bool,
    /// What pauses it.
    pub paused: Option<String>,
    /// The Cluster that it belongs to.
    pub owner: Owner,
    /// The object of its workspace's name.
    pub workspace: Option<Workspace>,
    /// Those of its cluster that go before it: control plane, groups, machines.
    pub users: Vec<String>,
    /// Some of them are workers that go only when they are told to, and nobody has.
    pub undismissed: bool,
    /// Where the control plane of its cluster is reached.
    pub endpoint: Option<Endpoint>,
}

/// Where a network stands.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum State {
    /// Somebody else takes care of it: nothing is said.
    External,
    /// Nothing is done, and why.
    Paused(String),
    /// No Cluster that lives has claimed it.
    WaitingForCluster(Why),
    /// Its spec makes no sense.
    Invalid(String),
    /// It is being built.
    Creating(Why),
    /// It could not be built.
    Failed {
        /// How.
        why: Why,
        /// Nothing happens until a person changes something.
        stalled: bool,
    },
    /// It can be used.
    Ready {
        /// Its id.
        vpc: String,
    },
    /// It can be used, and a change is on its way to it.
    Updating(Why),
    /// It can be used, and a change could not be made.
    UpdateFailed {
        /// How.
        why: Why,
        /// Nothing happens until a person changes something.
        stalled: bool,
    },
    /// It is on its way out, and waits for something.
    Deleting(Why),
    /// It is gone as far as we are concerned.
    Gone,
}

impl State {
    /// Its name.
    pub fn name(&self) -> &'static str {
        match self {
            Self::External => "External",
            Self::Paused(_) => "Paused",
            Self::WaitingForCluster(_) => "WaitingForCluster",
            Self::Invalid(_) => "Invalid",
            Self::Creating(_) => "Creating",
            Self::Failed { .. } => "Failed",
            Self::Ready { .. } => "Ready",
            Self::Updating(_) => "Updating",
            Self::UpdateFailed { .. } => "UpdateFailed",
            Self::Deleting(_) => "Deleting",
            Self::Gone => "Gone",
        }
    }
}

/// What to do, and how things stand.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Where it stands.
    pub state: State,
    /// What to do.
    pub step: Step,
    /// The whole status; none where nothing is said.
    pub status: Option<CAPTClusterStatus>,
    /// What people should hear of.
    pub news: Option<News>,
    /// When to look again, though nothing may change.
    pub wake: Option<Timestamp>,
}

/// Decides.
pub fn decide(observed: &Observed<'_>, now: Timestamp) -> Plan {
    let (state, step) = next(observed);
    let silent = match state {
        State::WaitingForCluster(_) => {
            super::silent_until(&observed.owner, &observed.object.metadata, observed.status, now)
        }
        _ => None,
    };
    let status = match state {
        State::External | State::Gone => None,
        _ if silent.is_some() => None,
        _ => Some(status::status(observed, &state, now)),
    };
    let old = observed.status.map(|status| status.conditions.as_slice()).unwrap_or_default();
    let warning = matches!(state, State::Invalid(_) | State::Failed { .. } | State::UpdateFailed { .. });
    let news = status.as_ref().and_then(|new| super::news(old, &new.conditions, warning));
    Plan { state, step, status, news, wake: silent }
}

fn next(observed: &Observed<'_>) -> (State, Step) {
    let object = observed.object;
    let held = holds(observed);
    let deleting = object.metadata.deletion_timestamp.is_some();
    if observed.external && !(deleting && held) {
        return (State::External, Step::Rest);
    }
    if let Some(by) = &observed.paused {
        let step = match &observed.workspace {
            Some(workspace) if workspace.ours() && !workspace.held => Step::Pause,
            _ => Step::Rest,
        };
        return (State::Paused(by.clone()), step);
    }
    if deleting {
        return end(observed, held);
    }
    match &observed.workspace {
        Some(workspace) if takes(observed, workspace) && object.spec.vpc_template_ref.is_some() => {
            built(observed, workspace)
        }
        other => start(observed, other.as_ref(), held),
    }
}

/// Whether a workspace is the one: it is ours, or was left behind and a Cluster waits for it.
fn takes(observed: &Observed<'_>, workspace: &Workspace) -> bool {
    workspace.ours() || (workspace.usable() && awaits_cluster(&observed.owner).is_none())
}

/// Nothing is built yet.
fn start(observed: &Observed<'_>, taken: Option<&Workspace>, held: bool) -> (State, Step) {
    // A network that exists, and was in use before, still exists without its Cluster.
    let in_use = held && observed.object.spec.existing_vpc_id.is_some();
    if let Some(why) = awaits_cluster(&observed.owner).filter(|_| !in_use) {
        return (State::WaitingForCluster(why), Step::Rest);
    }
    if let Some(problem) = problem(observed.object) {
        return (State::Invalid(problem), Step::Rest);
    }
    if let Some(vpc) = &observed.object.spec.existing_vpc_id {
        let step = if held { hand(observed) } else { Step::Hold };
        return (State::Ready { vpc: vpc.clone() }, step);
    }
    if let Some(workspace) = taken {
        let message = format!("WorkspaceTemplateApply {} is controlled by another object", workspace.name);
        return (State::Failed { why: Why::new(reasons::NAME_TAKEN, message), stalled: false }, Step::Rest);
    }
    let message = format!("workspace {} builds it", workspace_of(&observed.object.name_any()));
    (State::Creating(Why::new(reasons::VPC_CREATING, message)), Step::Create)
}

/// There is a workspace for it.
fn built(observed: &Observed<'_>, workspace: &Workspace) -> (State, Step) {
    let standing = &workspace.standing;
    let name = &workspace.name;
    if standing.deleting {
        let message = format!("workspace {name} is being deleted; it is made again when it is gone");
        return (State::Creating(Why::new(reasons::VPC_CREATING, message)), Step::Rest);
    }
    let lives = observed.owner.cluster().is_some();
    let step = match workspace {
        // One that is taken over: what it built is forgotten by nobody.
        _ if !holds(observed) => Step::Hold,
        Workspace { held: true, .. } => Step::Resume,
        Workspace { differs: true, .. } if lives => Step::Correct,
        _ => hand(observed),
    };
    let stood = observed.status.is_some_and(|status| status.ready) && standing.stands;
    let state = if workspace.built() {
        match standing.text("vpc_id") {
            Some(vpc) => State::Ready { vpc },
            None => State::Failed { why: missing(name, "vpc_id"), stalled: true },
        }
    } else if let Some(failure) = &standing.failure {
        let why = Why::new(reasons::VPC_CREATION_FAILED, format!("workspace {name}: {}", failure.message));
        let stalled = failure.stalled;
        if stood { State::UpdateFailed { why, stalled } } else { State::Failed { why, stalled } }
    } else if stood {
        let what = if standing.under_way() || workspace.differs {
            "a change is on its way"
        } else {
            &standing.message
        };
        State::Updating(Why::new(reasons::UPDATING, format!("workspace {name}: {what}")))
    } else {
        State::Creating(under_way(workspace))
    };
    (state, step)
}

/// How a workspace that is being built is told.
fn under_way(workspace: &Workspace) -> Why {
    let (standing, name) = (&workspace.standing, &workspace.name);
    if standing.reason == reasons::WORKSPACE_TEMPLATE_NOT_FOUND {
        return Why::new(&standing.reason, format!("spec.vpcTemplateRef: {}", standing.message));
    }
    if standing.under_way() || standing.built {
        return Why::new(reasons::VPC_CREATING, format!("workspace {name} builds it"));
    }
    Why::new(&standing.reason, format!("workspace {name}: {}", standing.message))
}

/// The failure that a status tells of, so that it counts until a run has succeeded.
pub fn told(status: Option<&CAPTClusterStatus>) -> Option<&str> {
    let status = status?;
    let failed = || find(&status.conditions, types::VPC_FAILED).filter(|failed| failed.status == "True");
    status.failure_reason.as_deref().or_else(|| failed().map(|failed| failed.reason.as_str()))
}

/// The module returned less than is needed.
pub(super) fn missing(workspace: &str, output: &str) -> Why {
    let message = format!(
        "workspace {workspace}: its module has no output {output}, or a sensitive, empty or non-text one: add it to the template"
    );
    Why::new(reasons::OUTPUT_NOT_FOUND, message)
}

/// The endpoint is the control plane's to say; here it is only filled in.
fn hand(observed: &Observed<'_>) -> Step {
    match (&observed.object.spec.control_plane_endpoint, &observed.endpoint) {
        (None, Some(endpoint)) => Step::Hand(endpoint.clone()),
        _ => Step::Rest,
    }
}

/// Those who need it leave first, then the workspace goes, or stays.
fn end(observed: &Observed<'_>, held: bool) -> (State, Step) {
    if !held {
        return (State::Gone, Step::Rest);
    }
    let object = observed.object;
    let orphans = object.finalizers().iter().any(|known| known == "orphan");
    if !observed.users.is_empty() && !orphans && !observed.external {
        let message = format!("waits until {} has gone", left(&observed.users));
        let step = dismiss(&observed.owner, observed.undismissed);
        return (State::Deleting(Why::new(reasons::IN_USE, message)), step);
    }
    let ours = observed.workspace.as_ref().filter(|workspace| workspace.ours() && !observed.external);
    match ours {
        Some(workspace) if orphans || object.spec.retain_vpc_on_delete => {
            let message = format!("WorkspaceTemplateApply {} stays", workspace.name);
            // The garbage collector cuts orphans loose itself; what somebody deleted retains what it built.
            let step = if orphans || workspace.standing.deleting { Step::Release } else { Step::Retain };
            (State::Deleting(Why::new(reasons::DELETING, message)), step)
        }
        Some(workspace) => {
            let step = match workspace {
                Workspace { held: true, .. } => Step::Resume,
                Workspace { standing, .. } if standing.deleting => Step::Rest,
                _ => Step::Delete,
            };
            (State::Deleting(Why::new(reasons::DELETING, end_of(workspace))), step)
        }
        None => (State::Deleting(Why::new(reasons::DELETING, "nothing is left")), Step::Release),
    }
}

/// Whether our finalizer is on it.
fn holds(observed: &Observed<'_>) -> bool {
    observed.object.finalizers().iter().any(|known| known == finalizers::CLUSTER)
}

/// What is wrong with a spec. The CRD refuses all of it; an object may be older than the rules.
fn problem(object: &CAPTCluster) -> Option<String> {
    let spec = &object.spec;
    if let Some(problem) = region::problem(&spec.region) {
        return Some(format!("spec.region: {problem}"));
    }
    match (&spec.vpc_template_ref, spec.existing_vpc_id.as_deref()) {
        (Some(_), None) => None,
        (None, Some(vpc)) => {
            let good = |c: char| c.is_ascii_alphanumeric() || "._/:-".contains(c);
            let bad = vpc.is_empty() || !vpc.chars().all(good);
            bad.then(|| format!("spec.existingVpcId: {vpc:?} is not the id of a VPC"))
        }
        _ => Some("spec: set exactly one of vpcTemplateRef or existingVpcId".to_owned()),
    }
}

/// Name of a network's workspace.
pub fn workspace_of(name: &str) -> String {
    format!("{name}{SUFFIX}")
}

/// What of it nobody has asked for.
pub fn defaults(object: &CAPTCluster) -> Vec<&'static str> {
    let named = object.spec.vpc_config.as_ref().is_some_and(|config| config.name.is_some());
    if named { vec!["environment"] } else { vec!["environment", "vpc_name"] }
}

/// What a network's module is told.
pub fn variables(object: &CAPTCluster, cluster: &str) -> Variables {
    let name = object.spec.vpc_config.as_ref().and_then(|config| config.name.clone());
    let vpc = name.unwrap_or_else(|| workspace_of(&object.name_any()));
    let mut all = Variables::new();
    let mut put = |name: &str, value: Value| drop(all.insert(name.to_owned(), value));
    put("cluster_name", json!(cluster));
    put("vpc_name", json!(vpc));
    put("region", json!(object.spec.region));
    put("environment", json!(ENVIRONMENT));
    all
}
