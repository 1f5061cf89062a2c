//! `CAPTCluster`: the state of a network, and the next thing to do for it.

mod status;

use capt_api::cluster::{CAPTCluster, CAPTClusterStatus};
use capt_api::conditions::{reasons, types};
use capt_api::names::finalizers;
use capt_api::refs::Endpoint;
use jiff::Timestamp;
use kube::ResourceExt;
use serde_json::{Value, json};

use super::{ClusterPartStep, News, Owner, awaits_cluster, dismiss, left, region, takes};
use crate::Why;
use crate::conditions::find;
use crate::owned_workspace::{self, Intent, Lifecycle, OwnedWorkspace, OwnerStep, Variables, WorkspaceOwner};

/// Suffix of the name of a network's workspace.
pub const SUFFIX: &str = "-vpc";
/// Value of `environment` where nobody says otherwise.
const ENVIRONMENT: &str = "production";

/// Observation of one network.
#[derive(Clone, Debug)]
pub struct NetworkObservation<'a> {
    /// The object.
    pub object: &'a CAPTCluster,
    /// Its status: what was written last, though a cache may not show it yet.
    pub status: Option<&'a CAPTClusterStatus>,
    /// Another system takes care of it.
    pub external: bool,
    /// The reason that it is paused.
    pub paused: Option<String>,
    /// The Cluster that it belongs to.
    pub owner: Owner,
    /// The object of its workspace's name.
    pub workspace: Option<OwnedWorkspace>,
    /// Those of its cluster that go before it: control plane, groups, machines.
    pub users: Vec<String>,
    /// Some of them are workers that go only when they are told to, and nobody has.
    pub undismissed: bool,
    /// Endpoint of the control plane of its cluster.
    pub endpoint: Option<Endpoint>,
}

/// State of a network.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum NetworkState {
    /// Another system takes care of it: nothing is said.
    External,
    /// Nothing is done, for this reason.
    Paused(String),
    /// No Cluster that lives has claimed it.
    WaitingForCluster(Why),
    /// Its spec makes no sense.
    Invalid(String),
    /// It is being built.
    Creating(Why),
    /// It could not be built.
    Failed {
        /// Reason and message.
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
        /// Reason and message.
        why: Why,
        /// Nothing happens until a person changes something.
        stalled: bool,
    },
    /// It is on its way out, and waits for something.
    Deleting(Why),
    /// It is gone as far as we are concerned.
    Gone,
}

impl NetworkState {
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

/// Decision for one network.
#[derive(Clone, Debug, PartialEq)]
pub struct NetworkPlan {
    /// Its state.
    pub state: NetworkState,
    /// The next step.
    pub step: ClusterPartStep,
    /// The whole status; none where nothing is said.
    pub status: Option<CAPTClusterStatus>,
    /// An event to publish.
    pub news: Option<News>,
    /// Time of the next reconcile, though nothing may change.
    pub wake: Option<Timestamp>,
}

/// Decides for one network.
pub fn decide(observed: &NetworkObservation<'_>, now: Timestamp) -> NetworkPlan {
    let (state, step) = next(observed);
    let silent = match state {
        NetworkState::WaitingForCluster(_) => {
            super::silent_until(&observed.owner, &observed.object.metadata, observed.status, now)
        }
        _ => None,
    };
    let status = match state {
        NetworkState::External | NetworkState::Gone => None,
        _ if silent.is_some() => None,
        _ => Some(status::status(observed, &state, now)),
    };
    let old = observed.status.map(|status| status.conditions.as_slice()).unwrap_or_default();
    let warning = matches!(
        state,
        NetworkState::Invalid(_) | NetworkState::Failed { .. } | NetworkState::UpdateFailed { .. }
    );
    let news = status.as_ref().and_then(|new| super::news(old, &new.conditions, warning));
    NetworkPlan { state, step, status, news, wake: silent }
}

impl NetworkObservation<'_> {
    /// The network as the owner of its workspace.
    fn as_owner(&self) -> WorkspaceOwner<'_> {
        let meta = &self.object.metadata;
        WorkspaceOwner::read(meta, finalizers::CLUSTER, self.external, self.paused.as_deref())
    }

    fn step(&self, intent: Intent) -> ClusterPartStep {
        self.as_owner().next(intent, self.workspace.as_ref()).into()
    }
}

fn next(observed: &NetworkObservation<'_>) -> (NetworkState, ClusterPartStep) {
    match observed.as_owner().lifecycle() {
        Lifecycle::External => (NetworkState::External, ClusterPartStep::REST),
        Lifecycle::Paused(by) => (NetworkState::Paused(by.to_owned()), observed.step(Intent::Pause)),
        Lifecycle::Gone => (NetworkState::Gone, ClusterPartStep::REST),
        Lifecycle::Leaving => end(observed),
        Lifecycle::Alive => match &observed.workspace {
            Some(workspace)
                if takes(&observed.owner, workspace) && observed.object.spec.vpc_template_ref.is_some() =>
            {
                built(observed, workspace)
            }
            other => start(observed, other.as_ref()),
        },
    }
}

/// Nothing is built yet.
fn start(
    observed: &NetworkObservation<'_>,
    taken: Option<&OwnedWorkspace>,
) -> (NetworkState, ClusterPartStep) {
    // A network that exists, and was in use before, still exists without its Cluster.
    let held = observed.as_owner().held;
    let in_use = held && observed.object.spec.existing_vpc_id.is_some();
    if let Some(why) = awaits_cluster(&observed.owner).filter(|_| !in_use) {
        return (NetworkState::WaitingForCluster(why), ClusterPartStep::REST);
    }
    if let Some(problem) = problem(observed.object) {
        return (NetworkState::Invalid(problem), ClusterPartStep::REST);
    }
    if let Some(vpc) = &observed.object.spec.existing_vpc_id {
        let step = if held { hand(observed) } else { Some(OwnerStep::Hold.into()) };
        let step = step.unwrap_or(ClusterPartStep::REST);
        return (NetworkState::Ready { vpc: vpc.clone() }, step);
    }
    if let Some(workspace) = taken {
        let why = Why::new(reasons::NAME_TAKEN, workspace.name_taken());
        return (NetworkState::Failed { why, stalled: false }, ClusterPartStep::REST);
    }
    let message = owned_workspace::builds(&workspace_of(&observed.object.name_any()));
    let step = observed.step(Intent::Keep { complete: true });
    (NetworkState::Creating(Why::new(reasons::VPC_CREATING, message)), step)
}

/// There is a workspace for it.
fn built(observed: &NetworkObservation<'_>, workspace: &OwnedWorkspace) -> (NetworkState, ClusterPartStep) {
    let standing = &workspace.standing;
    let name = &workspace.name;
    let step = observed.step(Intent::Keep { complete: observed.owner.cluster().is_some() });
    if standing.deleting {
        let message = format!("workspace {name} is being deleted; it is made again when it is gone");
        return (NetworkState::Creating(Why::new(reasons::VPC_CREATING, message)), step);
    }
    let step = step.or(|| hand(observed));
    let stood = observed.status.is_some_and(|status| status.ready) && standing.stands;
    let state = if workspace.built() {
        match standing.text("vpc_id") {
            Some(vpc) => NetworkState::Ready { vpc },
            None => NetworkState::Failed { why: missing(name, "vpc_id"), stalled: true },
        }
    } else if let Some(failure) = &standing.failure {
        let why = Why::new(reasons::VPC_CREATION_FAILED, format!("workspace {name}: {}", failure.message));
        let stalled = failure.stalled;
        if stood {
            NetworkState::UpdateFailed { why, stalled }
        } else {
            NetworkState::Failed { why, stalled }
        }
    } else if stood {
        let what = if standing.under_way() || workspace.differs {
            "a change is on its way"
        } else {
            &standing.message
        };
        NetworkState::Updating(Why::new(reasons::UPDATING, format!("workspace {name}: {what}")))
    } else {
        NetworkState::Creating(under_way(workspace))
    };
    (state, step)
}

/// Reason and message of a workspace that is being built.
fn under_way(workspace: &OwnedWorkspace) -> Why {
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
fn hand(observed: &NetworkObservation<'_>) -> Option<ClusterPartStep> {
    match (&observed.object.spec.control_plane_endpoint, &observed.endpoint) {
        (None, Some(endpoint)) => Some(ClusterPartStep::HandEndpoint(endpoint.clone())),
        _ => None,
    }
}

/// Those who need it leave first, then the workspace goes, or stays.
fn end(observed: &NetworkObservation<'_>) -> (NetworkState, ClusterPartStep) {
    let owner = observed.as_owner();
    if !observed.users.is_empty() && !owner.leaves_all() {
        let message = format!("waits until {} has gone", left(&observed.users));
        let step = dismiss(&observed.owner, observed.undismissed);
        return (NetworkState::Deleting(Why::new(reasons::IN_USE, message)), step);
    }
    let intent = owner.parting(observed.object.spec.retain_vpc_on_delete);
    let message = owned_workspace::parting_message(intent, observed.workspace.as_ref());
    (NetworkState::Deleting(Why::new(reasons::DELETING, message)), observed.step(intent))
}

/// The problem of a spec. The CRD refuses all of it; an object may be older than the rules.
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

/// Variables whose values are defaults.
pub fn defaults(object: &CAPTCluster) -> Vec<&'static str> {
    let named = object.spec.vpc_config.as_ref().is_some_and(|config| config.name.is_some());
    if named { vec!["environment"] } else { vec!["environment", "vpc_name"] }
}

/// Variables of a network's module.
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
