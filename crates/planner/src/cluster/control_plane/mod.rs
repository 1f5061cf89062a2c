//! `CAPTControlPlane`: where a control plane stands, and the next thing to do for it.

mod inputs;
mod status;
mod timing;

use capt_api::cluster::{CAPTControlPlane, CAPTControlPlaneStatus};
use capt_api::conditions::reasons;
use capt_api::names::finalizers;
use capt_api::refs::Endpoint;
use jiff::Timestamp;
use kube::ResourceExt;

use super::{News, Owner, Step, Why, Workspace, awaits_cluster, dismiss, end_of, endpoint, left, network};
pub use inputs::{FIELDS, Network, NetworkFacts, defaults, network_of, region, variables};

/// What a control plane's workspace has after the control plane's name.
pub const SUFFIX: &str = "-eks-controlplane-apply";
/// What the Secret with the outputs of its workspace has.
pub const CONNECTION_SUFFIX: &str = "-eks-connection";

/// What is known of one control plane.
#[derive(Clone, Debug)]
pub struct Observed<'a> {
    /// The object.
    pub object: &'a CAPTControlPlane,
    /// Its status: what was written last, though a cache may not show it yet.
    pub status: Option<&'a CAPTControlPlaneStatus>,
    /// Somebody else takes care of it.
    pub external: bool,
    /// What pauses it.
    pub paused: Option<String>,
    /// The Cluster that it belongs to.
    pub owner: Owner,
    /// The network of that Cluster.
    pub network: Network,
    /// The object of its workspace's name.
    pub workspace: Option<Workspace>,
    /// Those of its cluster that go before it: groups and machines.
    pub workers: Vec<String>,
    /// Some of them go only when they are told to, and nobody has.
    pub undismissed: bool,
    /// Its Secrets; none where nobody has looked after them, because there is nothing to put into them yet.
    pub access: Option<Access>,
    /// What its API said when it was asked last; none where nobody has asked yet.
    pub probe: Option<Probe>,
}

/// What was seen when the API was asked whether it is ready.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Probe {
    /// It said that it is.
    Ready,
    /// It did not, or nobody answered.
    Failed(String),
    /// Nobody knows: it could not be asked from here.
    Unknown(Why),
}

/// How the Secrets by which a cluster is reached stand.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Access {
    /// They are there, and valid.
    pub ready: bool,
    /// Why not.
    pub problem: Option<Why>,
}

/// Where a control plane stands.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum State {
    /// Somebody else takes care of it: nothing is said.
    External,
    /// Nothing is done, and why.
    Paused(String),
    /// No Cluster that lives has claimed it.
    WaitingForCluster(Why),
    /// What it is told makes no sense.
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
        /// How.
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

/// What to do, and how things stand.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Where it stands.
    pub state: State,
    /// What to do.
    pub step: Step,
    /// The whole status; none where nothing is said.
    pub status: Option<CAPTControlPlaneStatus>,
    /// What people should hear of.
    pub news: Option<News>,
    /// When something will have taken too long.
    pub wake: Option<Timestamp>,
}

/// Decides.
pub fn decide(observed: &Observed<'_>, now: Timestamp) -> Plan {
    let (state, step) = next(observed, now);
    let silent = match state {
        State::WaitingForCluster(_) => {
            super::silent_until(&observed.owner, &observed.object.metadata, observed.status, now)
        }
        _ => None,
    };
    let mut status = match state {
        State::External | State::Gone => None,
        _ if silent.is_some() => None,
        _ => Some(status::status(observed, &state, now)),
    };
    // What is about to be written is what will be there.
    if let (Step::Hand(endpoint), Some(status)) = (&step, &mut status) {
        status.endpoint = Some(endpoint::show(endpoint));
    }
    let old = observed.status.map(|status| status.conditions.as_slice()).unwrap_or_default();
    let news = status.as_ref().and_then(|new| super::news(old, &new.conditions, state.alarming()));
    let wake = status.as_ref().and_then(|new| timing::wake(observed.object, &state, &new.conditions));
    Plan { state, step, status, news, wake: wake.or(silent) }
}

/// The endpoint of a control plane that is built: its Secrets can be made.
pub fn reachable(observed: &Observed<'_>) -> Option<Endpoint> {
    let deleting = observed.object.metadata.deletion_timestamp.is_some();
    let workspace = observed.workspace.as_ref().filter(|workspace| workspace.ours())?;
    if deleting || observed.paused.is_some() || observed.external || !workspace.standing.stands {
        return None;
    }
    let pinned = observed.object.spec.control_plane_endpoint.clone();
    pinned.or_else(|| returned(workspace).ok())
}

/// The endpoint that the module returned.
fn returned(workspace: &Workspace) -> Result<Endpoint, Why> {
    let Some(text) = workspace.standing.text("cluster_endpoint") else {
        return Err(network::missing(&workspace.name, "cluster_endpoint"));
    };
    endpoint::read(&text).map_err(|problem| {
        let message = format!("workspace {}: output cluster_endpoint: {problem}", workspace.name);
        Why::new(reasons::ENDPOINT_UPDATE_FAILED, message)
    })
}

fn next(observed: &Observed<'_>, now: Timestamp) -> (State, Step) {
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
        Some(workspace) if takes(observed, workspace) => with_workspace(observed, workspace, now),
        other => start(observed, other.as_ref(), now),
    }
}

/// Whether a workspace is the one: it is ours, or was left behind and a Cluster waits for it.
fn takes(observed: &Observed<'_>, workspace: &Workspace) -> bool {
    workspace.ours() || (workspace.usable() && awaits_cluster(&observed.owner).is_none())
}

/// Nothing is built yet.
fn start(observed: &Observed<'_>, taken: Option<&Workspace>, now: Timestamp) -> (State, Step) {
    if let Some(why) = awaits_cluster(&observed.owner) {
        return (State::WaitingForCluster(why), Step::Rest);
    }
    if let Network::Awaited(what) = &observed.network {
        return if timing::vpc_late(observed, now) {
            (State::VpcTimeout(what.clone()), Step::Rest)
        } else {
            (State::WaitingForVpc(what.clone()), Step::Rest)
        };
    }
    if let Err(problem) = region(observed) {
        return (State::Invalid(problem), Step::Rest);
    }
    if let Some(workspace) = taken {
        let message = format!("WorkspaceTemplateApply {} is controlled by another object", workspace.name);
        return (State::Failed { why: Why::new(reasons::NAME_TAKEN, message), stalled: false }, Step::Rest);
    }
    let message = format!("workspace {} builds it", workspace_of(&observed.object.name_any()));
    (creating(observed, Why::new(reasons::CREATING, message), now), Step::Create)
}

/// There is a workspace for it.
fn with_workspace(observed: &Observed<'_>, workspace: &Workspace, now: Timestamp) -> (State, Step) {
    let (state, step) = in_step(observed, workspace, now);
    // One that is taken over: what it built is forgotten by nobody.
    (state, if holds(observed) { step } else { Step::Hold })
}

fn in_step(observed: &Observed<'_>, workspace: &Workspace, now: Timestamp) -> (State, Step) {
    let (standing, name) = (&workspace.standing, &workspace.name);
    if standing.deleting {
        let message = format!("workspace {name} is being deleted; it is made again when it is gone");
        return (creating(observed, Why::new(reasons::CREATING, message), now), Step::Rest);
    }
    // While the network is not ready its outputs may be missing, and so may the Cluster: then nothing changes.
    let told = observed.owner.cluster().is_some() && !matches!(observed.network, Network::Awaited(_));
    if told && let Err(problem) = region(observed) {
        return (State::Invalid(problem), Step::Rest);
    }
    let correct = workspace.differs && told;
    let stood = observed.status.is_some_and(|status| status.ready) && standing.stands;
    if workspace.built() {
        return built(observed, workspace, now);
    }
    let step = match workspace {
        Workspace { held: true, .. } => Step::Resume,
        _ if correct => Step::Correct,
        _ => Step::Rest,
    };
    let state = if let Some(failure) = &standing.failure {
        let why = Why::new(reasons::WORKSPACE_ERROR, format!("workspace {name}: {}", failure.message));
        let stalled = failure.stalled;
        if stood { State::UpdateFailed { why, stalled } } else { State::Failed { why, stalled } }
    } else if stood {
        let what = match &observed.network {
            Network::Awaited(what) if workspace.differs => what,
            _ if standing.under_way() || workspace.differs => "a change is on its way",
            _ => &standing.message,
        };
        let what = format!("workspace {name}: {what}");
        if timing::update_late(observed, now) {
            State::UpdateTimeout(what)
        } else {
            State::Updating(Why::new(reasons::UPDATING, what))
        }
    } else {
        creating(observed, under_way(workspace), now)
    };
    (state, step)
}

fn creating(observed: &Observed<'_>, why: Why, now: Timestamp) -> State {
    if timing::create_late(observed, now) { State::CreateTimeout(why.message) } else { State::Creating(why) }
}

/// How a workspace that is being built is told.
fn under_way(workspace: &Workspace) -> Why {
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
fn built(observed: &Observed<'_>, workspace: &Workspace, now: Timestamp) -> (State, Step) {
    let endpoint = match returned(workspace) {
        Ok(endpoint) => endpoint,
        Err(why) => return (State::Failed { why, stalled: true }, Step::Rest),
    };
    let step = match workspace {
        Workspace { held: true, .. } => Step::Resume,
        _ if follows(observed, &endpoint) => Step::Hand(endpoint),
        _ => Step::Rest,
    };
    let waits = || Why::new(reasons::WAITING_FOR_SECRETS, "its Secrets are being made");
    let state = match &observed.access {
        Some(Access { ready: true, .. }) => State::Ready(None),
        other => {
            let why = other.as_ref().and_then(|access| access.problem.clone()).unwrap_or_else(waits);
            if timing::secrets_late(observed, now) {
                State::SecretTimeout(why)
            } else if observed.status.is_some_and(|status| status.ready) {
                State::Ready(Some(why))
            } else {
                State::WaitingForSecrets(why)
            }
        }
    };
    (state, step)
}

/// Whether the object's endpoint is ours to write: there is none, or it is the one that the module returned before.
fn follows(observed: &Observed<'_>, endpoint: &Endpoint) -> bool {
    let Some(now) = &observed.object.spec.control_plane_endpoint else { return true };
    let before = observed
        .status
        .and_then(|status| status.workspace_template_status.as_ref())
        .and_then(|summary| summary.outputs.get("cluster_endpoint")?.as_str())
        .and_then(|text| endpoint::read(text).ok());
    now != endpoint && before.as_ref() == Some(now)
}

/// Workers leave first, then the workspace goes.
fn end(observed: &Observed<'_>, held: bool) -> (State, Step) {
    if !held {
        return (State::Gone, Step::Rest);
    }
    let orphans = observed.object.finalizers().iter().any(|known| known == "orphan");
    if !observed.workers.is_empty() && !orphans && !observed.external {
        let message = format!("waits until {} has gone", left(&observed.workers));
        let step = dismiss(&observed.owner, observed.undismissed);
        return (State::Deleting(Why::new(reasons::IN_USE, message)), step);
    }
    let ours = observed.workspace.as_ref().filter(|workspace| workspace.ours() && !observed.external);
    match ours {
        Some(workspace) if orphans => {
            let message = format!("WorkspaceTemplateApply {} stays", workspace.name);
            (State::Deleting(Why::new(reasons::DELETING, message)), Step::Release)
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
    observed.object.finalizers().iter().any(|known| known == finalizers::CONTROL_PLANE)
}

/// Name of a control plane's workspace.
pub fn workspace_of(name: &str) -> String {
    format!("{name}{SUFFIX}")
}
