//! `CAPTControlPlane`: the state of a control plane, and the next thing to do for it.

mod inputs;
mod status;
mod timing;

use capt_api::cluster::{CAPTControlPlane, CAPTControlPlaneStatus};
use capt_api::conditions::reasons;
use capt_api::names::finalizers;
use capt_api::refs::Endpoint;
use jiff::Timestamp;
use kube::ResourceExt;

use super::{ClusterPartStep, News, Owner, awaits_cluster, dismiss, endpoint, left, network, takes};
use crate::Why;
use crate::owned_workspace::{self, Intent, Lifecycle, OwnedWorkspace, WorkspaceOwner};
pub use inputs::{FIELDS, Network, NetworkFacts, defaults, network_of, region, variables};

/// Suffix of the name of a control plane's workspace.
pub const SUFFIX: &str = "-eks-controlplane-apply";
/// Suffix of the name of the Secret with the outputs of its workspace.
pub const CONNECTION_SUFFIX: &str = "-eks-connection";

/// Observation of one control plane.
#[derive(Clone, Debug)]
pub struct ControlPlaneObservation<'a> {
    /// The object.
    pub object: &'a CAPTControlPlane,
    /// Its status: what was written last, though a cache may not show it yet.
    pub status: Option<&'a CAPTControlPlaneStatus>,
    /// Another system takes care of it.
    pub external: bool,
    /// The reason that it is paused.
    pub paused: Option<String>,
    /// The Cluster that it belongs to.
    pub owner: Owner,
    /// The network of that Cluster.
    pub network: Network,
    /// The object of its workspace's name.
    pub workspace: Option<OwnedWorkspace>,
    /// Those of its cluster that go before it: groups and machines.
    pub workers: Vec<String>,
    /// Some of them go only when they are told to, and nobody has.
    pub undismissed: bool,
    /// Its Secrets; none where nobody has looked after them, because there is nothing to put into them yet.
    pub access: Option<Access>,
    /// The answer of its API when it was asked last; none where nobody has asked yet.
    pub probe: Option<Probe>,
}

/// Result of asking the API for its readiness.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Probe {
    /// It said that it is.
    Ready,
    /// It did not, or nobody answered.
    Failed(String),
    /// Nobody knows: it could not be asked from here.
    Unknown(Why),
}

/// State of the Secrets by which a cluster is reached.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Access {
    /// They are there, and valid.
    pub ready: bool,
    /// The reason why not.
    pub problem: Option<Why>,
}

/// State of a control plane.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ControlPlaneState {
    /// Another system takes care of it: nothing is said.
    External,
    /// Nothing is done, for this reason.
    Paused(String),
    /// No Cluster that lives has claimed it.
    WaitingForCluster(Why),
    /// Its inputs make no sense.
    Invalid(String),
    /// Its network is not ready.
    WaitingForVpc(String),
    /// Its network was not ready in time; it is still waited for.
    VpcTimeout(String),
    /// It is being built.
    Creating(Why),
    /// It was not built in time; it is still being built.
    CreateTimeout(String),
    /// It could not be built.
    Failed {
        /// Reason and message.
        why: Why,
        /// Nothing happens until a person changes something.
        stalled: bool,
    },
    /// It is built, and its Secrets are not there yet.
    WaitingForSecrets(Why),
    /// It is built, and its Secrets were not there in time; they are still waited for.
    SecretTimeout(Why),
    /// It is built as the spec says, with its Secrets, which may be in trouble for a moment.
    Ready(Option<Why>),
    /// It was built, and a change is on its way to it.
    Updating(Why),
    /// It was built, and a change was not made in time; it is still on its way.
    UpdateTimeout(String),
    /// It was built, and a change could not be made.
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

impl ControlPlaneState {
    /// Its name.
    pub fn name(&self) -> &'static str {
        match self {
            Self::External => "External",
            Self::Paused(_) => "Paused",
            Self::WaitingForCluster(_) => "WaitingForCluster",
            Self::Invalid(_) => "Invalid",
            Self::WaitingForVpc(_) => "WaitingForVPC",
            Self::VpcTimeout(_) => "VPCTimeout",
            Self::Creating(_) => "Creating",
            Self::CreateTimeout(_) => "CreateTimeout",
            Self::Failed { .. } => "Failed",
            Self::WaitingForSecrets(_) => "WaitingForSecrets",
            Self::SecretTimeout(_) => "SecretTimeout",
            Self::Ready(_) => "Ready",
            Self::Updating(_) => "Updating",
            Self::UpdateTimeout(_) => "UpdateTimeout",
            Self::UpdateFailed { .. } => "UpdateFailed",
            Self::Deleting(_) => "Deleting",
            Self::Gone => "Gone",
        }
    }

    fn alarming(&self) -> bool {
        let of_person = [reasons::SECRET_ERROR, reasons::KUBECONFIG_GENERATION_FAILED];
        match self {
            // Its Secrets do not come by themselves.
            Self::WaitingForSecrets(why) | Self::Ready(Some(why)) => of_person.contains(&why.reason.as_str()),
            Self::Invalid(_)
            | Self::VpcTimeout(_)
            | Self::CreateTimeout(_)
            | Self::Failed { .. }
            | Self::SecretTimeout(_)
            | Self::UpdateTimeout(_)
            | Self::UpdateFailed { .. } => true,
            _ => false,
        }
    }
}

/// Decision for one control plane.
#[derive(Clone, Debug, PartialEq)]
pub struct ControlPlanePlan {
    /// Its state.
    pub state: ControlPlaneState,
    /// The next step.
    pub step: ClusterPartStep,
    /// The whole status; none where nothing is said.
    pub status: Option<CAPTControlPlaneStatus>,
    /// An event to publish.
    pub news: Option<News>,
    /// Time at which something will have taken too long.
    pub wake: Option<Timestamp>,
}

/// Decides for one control plane.
pub fn decide(observed: &ControlPlaneObservation<'_>, now: Timestamp) -> ControlPlanePlan {
    let (state, step) = next(observed, now);
    let silent = match state {
        ControlPlaneState::WaitingForCluster(_) => {
            super::silent_until(&observed.owner, &observed.object.metadata, observed.status, now)
        }
        _ => None,
    };
    let mut status = match state {
        ControlPlaneState::External | ControlPlaneState::Gone => None,
        _ if silent.is_some() => None,
        _ => Some(status::status(observed, &state, now)),
    };
    // What is about to be written is what will be there.
    if let (ClusterPartStep::HandEndpoint(endpoint), Some(status)) = (&step, &mut status) {
        status.endpoint = Some(endpoint::show(endpoint));
    }
    let old = observed.status.map(|status| status.conditions.as_slice()).unwrap_or_default();
    let news = status.as_ref().and_then(|new| super::news(old, &new.conditions, state.alarming()));
    let wake = status.as_ref().and_then(|new| timing::wake(observed.object, &state, &new.conditions));
    ControlPlanePlan { state, step, status, news, wake: wake.or(silent) }
}

/// The endpoint of a control plane that is built: its Secrets can be made.
pub fn reachable(observed: &ControlPlaneObservation<'_>) -> Option<Endpoint> {
    let deleting = observed.object.metadata.deletion_timestamp.is_some();
    let workspace = observed.workspace.as_ref().filter(|workspace| workspace.ours())?;
    if deleting || observed.paused.is_some() || observed.external || !workspace.standing.stands {
        return None;
    }
    let pinned = observed.object.spec.control_plane_endpoint.clone();
    pinned.or_else(|| returned(workspace).ok())
}

/// The endpoint that the module returned.
fn returned(workspace: &OwnedWorkspace) -> Result<Endpoint, Why> {
    let Some(text) = workspace.standing.text("cluster_endpoint") else {
        return Err(network::missing(&workspace.name, "cluster_endpoint"));
    };
    endpoint::read(&text).map_err(|problem| {
        let message = format!("workspace {}: output cluster_endpoint: {problem}", workspace.name);
        Why::new(reasons::ENDPOINT_UPDATE_FAILED, message)
    })
}

impl ControlPlaneObservation<'_> {
    /// The control plane as the owner of its workspace.
    fn as_owner(&self) -> WorkspaceOwner<'_> {
        let meta = &self.object.metadata;
        WorkspaceOwner::read(meta, finalizers::CONTROL_PLANE, self.external, self.paused.as_deref())
    }

    fn step(&self, intent: Intent) -> ClusterPartStep {
        self.as_owner().next(intent, self.workspace.as_ref()).into()
    }
}

fn next(observed: &ControlPlaneObservation<'_>, now: Timestamp) -> (ControlPlaneState, ClusterPartStep) {
    match observed.as_owner().lifecycle() {
        Lifecycle::External => (ControlPlaneState::External, ClusterPartStep::REST),
        Lifecycle::Paused(by) => (ControlPlaneState::Paused(by.to_owned()), observed.step(Intent::Pause)),
        Lifecycle::Gone => (ControlPlaneState::Gone, ClusterPartStep::REST),
        Lifecycle::Leaving => end(observed),
        Lifecycle::Alive => match &observed.workspace {
            Some(workspace) if takes(&observed.owner, workspace) => in_step(observed, workspace, now),
            other => start(observed, other.as_ref(), now),
        },
    }
}

/// Nothing is built yet.
fn start(
    observed: &ControlPlaneObservation<'_>,
    taken: Option<&OwnedWorkspace>,
    now: Timestamp,
) -> (ControlPlaneState, ClusterPartStep) {
    if let Some(why) = awaits_cluster(&observed.owner) {
        return (ControlPlaneState::WaitingForCluster(why), ClusterPartStep::REST);
    }
    if let Network::Awaited(what) = &observed.network {
        return if timing::vpc_late(observed, now) {
            (ControlPlaneState::VpcTimeout(what.clone()), ClusterPartStep::REST)
        } else {
            (ControlPlaneState::WaitingForVpc(what.clone()), ClusterPartStep::REST)
        };
    }
    if let Err(problem) = region(observed) {
        return (ControlPlaneState::Invalid(problem), ClusterPartStep::REST);
    }
    if let Some(workspace) = taken {
        let why = Why::new(reasons::NAME_TAKEN, workspace.name_taken());
        return (ControlPlaneState::Failed { why, stalled: false }, ClusterPartStep::REST);
    }
    let message = owned_workspace::builds(&workspace_of(&observed.object.name_any()));
    let step = observed.step(Intent::Keep { complete: true });
    (creating(observed, Why::new(reasons::CREATING, message), now), step)
}

/// There is a workspace for it.
fn in_step(
    observed: &ControlPlaneObservation<'_>,
    workspace: &OwnedWorkspace,
    now: Timestamp,
) -> (ControlPlaneState, ClusterPartStep) {
    let (standing, name) = (&workspace.standing, &workspace.name);
    // While the network is not ready its outputs may be missing, and so may the Cluster: then nothing changes.
    let told = observed.owner.cluster().is_some() && !matches!(observed.network, Network::Awaited(_));
    let region = if told && !standing.deleting { region(observed).err() } else { None };
    let step = observed.step(Intent::Keep { complete: told && region.is_none() });
    if standing.deleting {
        let message = format!("workspace {name} is being deleted; it is made again when it is gone");
        return (creating(observed, Why::new(reasons::CREATING, message), now), step);
    }
    if let Some(problem) = region {
        return (ControlPlaneState::Invalid(problem), step);
    }
    if workspace.built() {
        return built(observed, workspace, step, now);
    }
    let stood = observed.status.is_some_and(|status| status.ready) && standing.stands;
    let state = if let Some(failure) = &standing.failure {
        let why = Why::new(reasons::WORKSPACE_ERROR, format!("workspace {name}: {}", failure.message));
        let stalled = failure.stalled;
        if stood {
            ControlPlaneState::UpdateFailed { why, stalled }
        } else {
            ControlPlaneState::Failed { why, stalled }
        }
    } else if stood {
        let what = match &observed.network {
            Network::Awaited(what) if workspace.differs => what,
            _ if standing.under_way() || workspace.differs => "a change is on its way",
            _ => &standing.message,
        };
        let what = format!("workspace {name}: {what}");
        if timing::update_late(observed, now) {
            ControlPlaneState::UpdateTimeout(what)
        } else {
            ControlPlaneState::Updating(Why::new(reasons::UPDATING, what))
        }
    } else {
        creating(observed, under_way(workspace), now)
    };
    (state, step)
}

fn creating(observed: &ControlPlaneObservation<'_>, why: Why, now: Timestamp) -> ControlPlaneState {
    if timing::create_late(observed, now) {
        ControlPlaneState::CreateTimeout(why.message)
    } else {
        ControlPlaneState::Creating(why)
    }
}

/// Reason and message of a workspace that is being built.
fn under_way(workspace: &OwnedWorkspace) -> Why {
    let (standing, name) = (&workspace.standing, &workspace.name);
    if standing.reason == reasons::WORKSPACE_TEMPLATE_NOT_FOUND {
        return Why::new(&standing.reason, format!("spec.workspaceTemplateRef: {}", standing.message));
    }
    if standing.under_way() || standing.built {
        return Why::new(reasons::CREATING, format!("workspace {name} builds it"));
    }
    Why::new(&standing.reason, format!("workspace {name}: {}", standing.message))
}

/// Its workspace is what it should be.
fn built(
    observed: &ControlPlaneObservation<'_>,
    workspace: &OwnedWorkspace,
    step: ClusterPartStep,
    now: Timestamp,
) -> (ControlPlaneState, ClusterPartStep) {
    let endpoint = match returned(workspace) {
        Ok(endpoint) => endpoint,
        Err(why) => return (ControlPlaneState::Failed { why, stalled: true }, step),
    };
    let hand = || follows(observed, &endpoint).then(|| ClusterPartStep::HandEndpoint(endpoint.clone()));
    let step = step.or(hand);
    let waits = || Why::new(reasons::WAITING_FOR_SECRETS, "its Secrets are being made");
    let state = match &observed.access {
        Some(Access { ready: true, .. }) => ControlPlaneState::Ready(None),
        other => {
            let why = other.as_ref().and_then(|access| access.problem.clone()).unwrap_or_else(waits);
            if timing::secrets_late(observed, now) {
                ControlPlaneState::SecretTimeout(why)
            } else if observed.status.is_some_and(|status| status.ready) {
                ControlPlaneState::Ready(Some(why))
            } else {
                ControlPlaneState::WaitingForSecrets(why)
            }
        }
    };
    (state, step)
}

/// Returns true if the object's endpoint is ours to write: there is none, or it is the one that the module returned before.
fn follows(observed: &ControlPlaneObservation<'_>, endpoint: &Endpoint) -> bool {
    let Some(now) = &observed.object.spec.control_plane_endpoint else { return true };
    let before = observed
        .status
        .and_then(|status| status.workspace_template_status.as_ref())
        .and_then(|summary| summary.outputs.get("cluster_endpoint")?.as_str())
        .and_then(|text| endpoint::read(text).ok());
    now != endpoint && before.as_ref() == Some(now)
}

/// Workers leave first, then the workspace goes.
fn end(observed: &ControlPlaneObservation<'_>) -> (ControlPlaneState, ClusterPartStep) {
    let owner = observed.as_owner();
    if !observed.workers.is_empty() && !owner.leaves_all() {
        let message = format!("waits until {} has gone", left(&observed.workers));
        let step = dismiss(&observed.owner, observed.undismissed);
        return (ControlPlaneState::Deleting(Why::new(reasons::IN_USE, message)), step);
    }
    let intent = owner.parting(false);
    let message = owned_workspace::parting_message(intent, observed.workspace.as_ref());
    (ControlPlaneState::Deleting(Why::new(reasons::DELETING, message)), observed.step(intent))
}

/// Name of a control plane's workspace.
pub fn workspace_of(name: &str) -> String {
    format!("{name}{SUFFIX}")
}
