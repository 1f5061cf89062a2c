//! The Secrets through which others reach a cluster: `<cluster>-kubeconfig`, and the CA as `<control plane>-ca` and
//! `<cluster>-ca`, in Cluster API's form.
//!
//! ```text
//! outputs: those everybody may see, those in the connection Secret
//!   -> what the kubeconfig is made of, or what is wrong with them     (recipe; pure)
//!   -> the kubeconfig, with a token that is made where one is needed  (kubeconfig, eks, sigv4; pure)
//!   -> what each Secret should be, and whose it is                    (secrets; pure up to the write)
//! ```
//!
//! Nothing is written before all of it is known to be right, nothing that is right already, and nothing to a Secret
//! that is somebody else's. No Terraform run is ever started for it.

mod credentials;
pub mod eks;
mod kubeconfig;
mod pem;
mod recipe;
pub mod secrets;
pub mod sigv4;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use capt_api::cluster::CAPTControlPlane;
use capt_api::conditions::reasons;
use capt_api::names::annotations;
use capt_api::refs::Endpoint;
use capt_api::workspace::WorkspaceTemplate;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::{Resource, ResourceExt};
use serde_json::Value;

use crate::runtime::{Error, Looker, Name, Writer};
use crate::workspace::context::Context;
use recipe::{Known, Login, Material, Recipe};
use secrets::{Step, Wanted};

/// Field manager of the Secrets.
pub const MANAGER: &str = "capt-access";

/// What is needed to keep Secrets.
#[derive(Clone)]
pub struct AccessContext {
    /// Templates, provider configs, and how to read what they refer to.
    pub workspaces: Arc<Context>,
    /// Writes the Secrets.
    pub writer: Writer,
}

impl AccessContext {
    /// Beside the workspaces' controllers.
    pub fn new(workspaces: Arc<Context>) -> Self {
        Self { writer: Writer::new(workspaces.client.clone(), MANAGER), workspaces }
    }
}

/// Whose Secrets to keep, and of what.
#[derive(Clone, Copy, Debug)]
pub struct AccessRequest<'a> {
    /// The control plane; it owns the Secrets.
    pub control_plane: &'a CAPTControlPlane,
    /// The Cluster that it belongs to, in its namespace.
    pub cluster: &'a Name,
    /// What everybody may see of its workspace's outputs.
    pub outputs: &'a BTreeMap<String, Value>,
    /// The Secret with all of them.
    pub connection: Option<&'a Name>,
    /// Where its API is.
    pub endpoint: Option<&'a Endpoint>,
    /// Its region.
    pub region: Option<&'a str>,
}

/// How the Secrets stand.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct AccessStanding {
    /// They are there and can be used. Also true where newer ones cannot be made and the old ones are still good.
    pub secrets_ready: bool,
    /// What keeps them from being right.
    pub problem: Option<Problem>,
    /// When to come back, though nothing changes.
    pub next: Option<Duration>,
}

/// What is wrong or missing.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Problem {
    /// One word for it, for a condition.
    pub reason: &'static str,
    /// The same in a sentence that names the field.
    pub message: String,
    /// Whether it may pass by itself; else a person must change something.
    pub waiting: bool,
}

/// Keeps the Secrets in step. What it reads is noted in `looker`: word of a change of that must lead here again.
pub async fn keep(
    context: &AccessContext,
    looker: &mut Looker,
    request: &AccessRequest<'_>,
) -> Result<AccessStanding, Error> {
    let now = context.workspaces.clock.now();
    let writer = &context.writer;
    let current = secrets::read(writer, looker, &secrets::kubeconfig_name(request.cluster)).await?;
    let made = match make(context, looker, request, current.as_ref(), now).await? {
        Ok(made) => made,
        Err(problem) => return Ok(standing_with(problem, request, current.as_ref(), now)),
    };
    let mut steps = Vec::with_capacity(3);
    for wanted in &made.secrets {
        let found = match &current {
            Some(current) if Name::of(current) == wanted.name => Some(current.clone()),
            _ => secrets::read(writer, looker, &wanted.name).await?,
        };
        match secrets::decide(wanted, found.as_ref(), request.control_plane, &request.cluster.name) {
            Ok(step) => steps.push(step),
            Err(problem) => return Ok(standing_with(problem, request, current.as_ref(), now)),
        }
    }
    for step in &steps {
        secrets::act(writer, step).await?;
    }
    if steps.iter().any(|step| *step != Step::Rest) {
        tracing::debug!(cluster = %request.cluster, "kubeconfig and CA are written");
    }
    let next = made.due.map(|due| until(due, now));
    Ok(AccessStanding { secrets_ready: true, problem: None, next })
}

/// Secrets as they should be.
struct Made {
    /// The kubeconfig comes last: whoever finds it finds the rest.
    secrets: Vec<Wanted>,
    /// When the kubeconfig must be made again.
    due: Option<Timestamp>,
}

async fn make(
    context: &AccessContext,
    looker: &mut Looker,
    request: &AccessRequest<'_>,
    current: Option<&Secret>,
    now: Timestamp,
) -> Result<Result<Made, Problem>, Error> {
    let workspaces = &context.workspaces;
    let owner = request.control_plane;
    let namespace = owner.namespace().unwrap_or_default();
    let connection = match request.connection {
        Some(name) => secrets::read(&context.writer, looker, name).await?,
        None => None,
    };
    let template_name = Name::referred(&owner.spec.workspace_template_ref, &namespace);
    looker.at("WorkspaceTemplate", &template_name);
    let template = workspaces.templates.get(&template_name);
    let material =
        Material::new(request.outputs, connection.as_ref().and_then(|secret| secret.data.as_ref()));
    let waits = request.connection.filter(|_| connection.is_none());
    let recipe = match choose(request, template.as_deref(), &material) {
        Ok(recipe) => recipe,
        // What is missing may be in there.
        Err(_) if let Some(name) = waits => {
            let message =
                format!("Secret {} with the outputs does not exist yet", name.seen_from(&namespace));
            return Ok(Err(Problem { reason: reasons::WAITING_FOR_SECRETS, message, waiting: true }));
        }
        Err(problem) => return Ok(Err(problem)),
    };
    let own = Name::new(namespace, owner.name_any());
    let cas = |pem: &str| {
        let mut cas = vec![Wanted::ca(&own, pem)];
        if own != *request.cluster {
            cas.push(Wanted::ca(request.cluster, pem));
        }
        cas
    };
    let made = match recipe {
        Recipe::Given { text, ca } => {
            let mut secrets = ca.as_deref().map(cas).unwrap_or_default();
            secrets.push(Wanted::kubeconfig(request.cluster, &text));
            Made { secrets, due: None }
        }
        Recipe::Made { server, ca, login } => {
            let name = &request.cluster.name;
            let (user, due) = match login {
                Login::User(user) => (user, None),
                Login::Eks { cluster, region } => {
                    let Some(template) = template else {
                        let message = format!("WorkspaceTemplate {} does not exist", template_name.name);
                        let reason = reasons::WORKSPACE_TEMPLATE_NOT_FOUND;
                        return Ok(Err(Problem { reason, message, waiting: true }));
                    };
                    let credentials = match credentials::read(workspaces, looker, &template).await? {
                        Ok(credentials) => credentials,
                        Err(problem) => return Ok(Err(problem)),
                    };
                    let Some(region) = region.or_else(|| credentials.region.clone()) else {
                        return Ok(Err(no_region()));
                    };
                    let wanted = Token { credentials: &credentials, region: &region, cluster: &cluster };
                    let seed = request.cluster.to_string();
                    let (token, due) = wanted.current_or_new(current, &seed, now);
                    (kubeconfig::User::Token(token), Some(due))
                }
            };
            let mut secrets = cas(&ca);
            let text = kubeconfig::text(name, &server, &ca, &user);
            secrets.push(Wanted::kubeconfig(request.cluster, &text));
            Made { secrets, due }
        }
    };
    Ok(Ok(made))
}

fn choose(
    request: &AccessRequest<'_>,
    template: Option<&WorkspaceTemplate>,
    material: &Material,
) -> Result<Recipe, Problem> {
    let note = |notes: &BTreeMap<String, String>| notes.get(annotations::CLUSTER_AUTH).cloned();
    let own = note(request.control_plane.annotations());
    let shared = template.and_then(|template| note(template.annotations()));
    let asked = recipe::asked(own.as_deref(), shared.as_deref(), material)?;
    let known = Known { cluster: &request.cluster.name, endpoint: request.endpoint, region: request.region };
    recipe::choose(material, asked, &known)
}

fn no_region() -> Problem {
    Problem {
        reason: reasons::KUBECONFIG_GENERATION_FAILED,
        message: "a token of EKS needs a region: set spec.controlPlaneConfig.region".into(),
        waiting: false,
    }
}

/// A token that is wanted.
struct Token<'a> {
    credentials: &'a credentials::Credentials,
    region: &'a str,
    cluster: &'a str,
}

impl Token<'_> {
    /// The one that is in use, while it is young and of the same key and region; else a new one. And when to replace it.
    fn current_or_new(&self, current: Option<&Secret>, seed: &str, now: Timestamp) -> (String, Timestamp) {
        let signer = self.credentials.signer();
        if let Some(token) = current.and_then(token_in)
            && let Some(facts) = eks::Facts::of(&token)
            && facts.key_id == signer.key_id
            && facts.region == self.region
            && facts.is_fresh(seed, now)
        {
            return (token, facts.due(seed));
        }
        let token = eks::mint(&signer, self.region, self.cluster, now);
        let due = eks::Facts::of(&token).map_or(now, |facts| facts.due(seed));
        (token, due)
    }
}

/// The token in a kubeconfig's Secret.
fn token_in(secret: &Secret) -> Option<String> {
    let text = std::str::from_utf8(&secret.data.as_ref()?.get("value")?.0).ok()?;
    kubeconfig::read(text).ok()?.token
}

/// How things stand when nothing new can be made: what is there may still be good, for a while.
fn standing_with(
    problem: Problem,
    request: &AccessRequest<'_>,
    current: Option<&Secret>,
    now: Timestamp,
) -> AccessStanding {
    let owner = request.control_plane.controller_owner_ref(&()).unwrap_or_default();
    let ours = current.filter(|secret| secrets::is_ours(secret, &owner));
    let ends = ours.and_then(token_in).and_then(|token| eks::Facts::of(&token)).map(|facts| facts.ends());
    let good = ours.is_some() && ends.is_none_or(|ends| now < ends);
    let next = ends.filter(|_| good).map(|ends| until(ends, now));
    AccessStanding { secrets_ready: good, problem: Some(problem), next }
}

/// How long until then; a moment at least.
fn until(then: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(then.duration_since(now)).unwrap_or_default().max(Duration::from_secs(1))
}
