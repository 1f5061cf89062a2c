//! The Secrets through which others reach a cluster: `<cluster>-kubeconfig`, and the CA as `<control plane>-ca` and
//! `<cluster>-ca`, in Cluster API's form.
//!
//! ```text
//! outputs: those everybody may see, those in the connection Secret
//!   -> what the kubeconfig is made of, or what is wrong with them     (recipe; pure)
//!   -> what a key of another namespace signs: what its module said    (granted)
//!   -> the kubeconfig, with a token that is made where one is needed  (kubeconfig, eks, sigv4; pure)
//!   -> what each Secret should be, and whose it is                    (secrets; pure up to the write)
//! ```
//!
//! Nothing is written before all of it is known to be right, nothing that is right already, and nothing to a Secret
//! that is somebody else's. No Terraform run is ever started for it.

mod credentials;
pub mod eks;
mod granted;
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
use capt_api::workspace::{WorkspaceTemplate, WorkspaceTemplateApply};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{Resource, ResourceExt};
use serde_json::Value;

use crate::runtime::{Error, Looker, Name, Referrer, Writer};
use crate::workspace::apply::connection;
use crate::workspace::apply::prepare::Blocked;
use crate::workspace::context::WorkspaceContext;
use recipe::{EksCluster, KnownCluster, Login, Material, Recipe};
use secrets::{SecretStep, WantedSecret};

/// Field manager of the Secrets.
pub const MANAGER: &str = "capt-access";

/// Clients and outputs that are needed to keep Secrets.
#[derive(Clone)]
pub struct AccessContext {
    /// Templates, provider configs, and how to read what they refer to.
    pub workspaces: Arc<WorkspaceContext>,
    /// Writes the Secrets.
    pub writer: Writer,
    said: Arc<granted::Said>,
}

impl AccessContext {
    /// Beside the workspaces' controllers.
    pub fn new(workspaces: Arc<WorkspaceContext>) -> Self {
        Self { writer: Writer::new(workspaces.client.clone(), MANAGER), workspaces, said: Arc::default() }
    }

    /// Drops what is known of a control plane that is gone.
    pub fn forget(&self, control_plane: &Name) {
        self.said.forget(control_plane);
    }
}

/// Whose Secrets to keep, and of what.
#[derive(Clone, Copy, Debug)]
pub struct AccessRequest<'a> {
    /// The control plane; it owns the Secrets.
    pub control_plane: &'a CAPTControlPlane,
    /// The Cluster that it belongs to, in its namespace.
    pub cluster: &'a Name,
    /// Its workspace.
    pub workspace: Option<&'a WorkspaceTemplateApply>,
    /// Outputs of its workspace that are not secret.
    pub outputs: &'a BTreeMap<String, Value>,
    /// The Secret with all of them.
    pub connection: Option<&'a Name>,
    /// Address of its API.
    pub endpoint: Option<&'a Endpoint>,
    /// Its region.
    pub region: Option<&'a str>,
}

/// State of the Secrets.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct AccessStanding {
    /// They are there and can be used. Also true where newer ones cannot be made and the old ones are still good.
    pub secrets_ready: bool,
    /// Problem that keeps them from being right.
    pub problem: Option<Problem>,
    /// Time until the next look, though nothing changes.
    pub next: Option<Duration>,
}

/// Something that is wrong or missing.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Problem {
    /// Machine-readable reason, for a condition.
    pub reason: &'static str,
    /// The same in a sentence that names the field.
    pub message: String,
    /// True if it may pass by itself; else a person must change something.
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
        match secrets::compare(wanted, found.as_ref(), request.control_plane, &request.cluster.name) {
            Ok(step) => steps.push(step),
            Err(problem) => return Ok(standing_with(problem, request, current.as_ref(), now)),
        }
    }
    for step in &steps {
        secrets::act(writer, step).await?;
    }
    if steps.iter().any(|step| *step != SecretStep::Rest) {
        tracing::debug!(cluster = %request.cluster, "kubeconfig and CA are written");
    }
    let next = made.due.map(|due| until(due, now));
    Ok(AccessStanding { secrets_ready: true, problem: None, next })
}

/// Secrets as they should be.
struct Made {
    /// The kubeconfig comes last: whoever finds it finds the rest.
    secrets: Vec<WantedSecret>,
    /// Time at which the kubeconfig must be made again.
    due: Option<Timestamp>,
}

async fn make(
    context: &AccessContext,
    looker: &mut Looker,
    request: &AccessRequest<'_>,
    current: Option<&Secret>,
    now: Timestamp,
) -> Result<Result<Made, Problem>, Error> {
    let namespace = request.control_plane.namespace().unwrap_or_default();
    let connection = match request.connection {
        Some(name) => secrets::read(&context.writer, looker, name).await?,
        None => None,
    };
    // On behalf of its workspace, which is the one that uses the template.
    let from = Referrer::of::<WorkspaceTemplateApply>(&namespace);
    let template = Name::mentioned(&request.control_plane.spec.workspace_template_ref, &namespace);
    let template = match context.workspaces.grants.read::<WorkspaceTemplate>(looker, from, template) {
        Ok(template) => template,
        Err(refused) => return Ok(Err(Blocked::from(refused).into())),
    };
    looker.at("WorkspaceTemplate", &template);
    let template = context.workspaces.templates.get(&template).ok_or_else(|| Name::clone(&template));
    let foreign = connection.as_ref().and_then(|secret| foreign(secret, request.workspace));
    // What another object keeps there is nothing that this module returned.
    let read = connection.as_ref().filter(|_| foreign.is_none_or(|foreign| !foreign.owned));
    let material = Material::new(request.outputs, read.and_then(|secret| secret.data.as_ref()));
    let waits = request.connection.filter(|_| connection.is_none());
    let recipe = match (choose(request, template.as_deref().ok(), &material), waits) {
        (Ok(recipe), _) => recipe,
        // What is missing may be in there.
        (Err(_), Some(name)) => {
            let shown = name.seen_from(&namespace);
            let message = format!("Secret {shown} with the outputs does not exist yet");
            return Ok(Err(Problem { reason: reasons::WAITING_FOR_SECRETS, message, waiting: true }));
        }
        (Err(problem), None) => {
            let blocked = request.connection.filter(|_| foreign.is_some());
            return Ok(Err(blocked.map_or(problem, |name| not_written(&name.seen_from(&namespace)))));
        }
    };
    let (text, ca, due) = match recipe {
        Recipe::Given { text, ca } => (text, ca, None),
        Recipe::Made { server, ca, login } => {
            let (user, due) = match login {
                Login::User(user) => (user, None),
                Login::Eks(of) => {
                    let of = match granted::confirmed(context, looker, request, &template, of).await? {
                        Ok(of) => of,
                        Err(problem) => return Ok(Err(problem)),
                    };
                    let wanted = Token { of, template, seed: request.cluster.to_string() };
                    match wanted.current_or_new(context, looker, &namespace, current, now).await? {
                        Ok((token, due)) => (kubeconfig::User::Token(token), Some(due)),
                        Err(problem) => return Ok(Err(problem)),
                    }
                }
            };
            (kubeconfig::text(&request.cluster.name, &server, &ca, &user), Some(ca), due)
        }
    };
    let mut secrets = Vec::with_capacity(3);
    if let Some(ca) = &ca {
        let own = Name::of(request.control_plane);
        secrets.push(WantedSecret::ca(&own, ca));
        if own != *request.cluster {
            secrets.push(WantedSecret::ca(request.cluster, ca));
        }
    }
    secrets.push(WantedSecret::kubeconfig(request.cluster, &text));
    Ok(Ok(Made { secrets, due }))
}

/// A connection Secret that the workspace has not written.
#[derive(Clone, Copy)]
struct Foreign {
    /// Another object keeps something there. What nobody owns may be left from before.
    owned: bool,
}

fn foreign(secret: &Secret, workspace: Option<&WorkspaceTemplateApply>) -> Option<Foreign> {
    let workspace = workspace?;
    if connection::is_of(secret, &Name::of(workspace)) {
        return None;
    }
    let theirs = |owner: &OwnerReference| Some(&owner.uid) != workspace.metadata.uid.as_ref();
    Some(Foreign { owned: connection::is_marked(secret) || secret.owner_references().iter().any(theirs) })
}

/// Reports that the outputs could not be written to their Secret.
fn not_written(secret: &str) -> Problem {
    let message = format!(
        "Secret {secret}, where the workspace writes the outputs of its module, is controlled by another object or was not made \
         for it, so they are not there: delete it, and it is written again"
    );
    Problem { reason: reasons::SECRET_ERROR, message, waiting: false }
}

fn choose(
    request: &AccessRequest<'_>,
    template: Option<&WorkspaceTemplate>,
    material: &Material,
) -> Result<Recipe, Problem> {
    let own = request.control_plane.annotations().get(annotations::CLUSTER_AUTH);
    let shared = template.and_then(|template| template.annotations().get(annotations::CLUSTER_AUTH));
    let asked = recipe::asked(own.map(String::as_str), shared.map(String::as_str), material)?;
    let known =
        KnownCluster { cluster: &request.cluster.name, endpoint: request.endpoint, region: request.region };
    recipe::choose(material, asked, &known)
}

fn no_region() -> Problem {
    Problem {
        reason: reasons::KUBECONFIG_GENERATION_FAILED,
        message: "a token of EKS needs a region: set spec.controlPlaneConfig.region; where the template is in another \
                  namespace, its module returns it as region"
            .into(),
        waiting: false,
    }
}

/// A token that is wanted.
struct Token {
    /// For this EKS cluster.
    of: EksCluster,
    /// By the credentials of this template; or its name, where there is none.
    template: Result<Arc<WorkspaceTemplate>, Name>,
    /// Spreads the renewals of many.
    seed: String,
}

impl Token {
    /// The one that is in use, while it is young and of the same key and region; else a new one. And when to replace it.
    async fn current_or_new(
        self,
        context: &AccessContext,
        looker: &mut Looker,
        namespace: &str,
        current: Option<&Secret>,
        now: Timestamp,
    ) -> Result<Result<(String, Timestamp), Problem>, Error> {
        let template = match &self.template {
            Ok(template) => template,
            Err(name) => {
                let message = format!("WorkspaceTemplate {} does not exist", name.seen_from(namespace));
                let reason = reasons::WORKSPACE_TEMPLATE_NOT_FOUND;
                return Ok(Err(Problem { reason, message, waiting: true }));
            }
        };
        let credentials = match credentials::read(&context.workspaces, looker, template, namespace).await? {
            Ok(credentials) => credentials,
            Err(problem) => return Ok(Err(problem)),
        };
        let Some(region) = self.of.region.or_else(|| credentials.region.clone()) else {
            return Ok(Err(no_region()));
        };
        let signer = credentials.signer();
        let of_the_same = |facts: &eks::TokenFacts| facts.key_id == signer.key_id && facts.region == region;
        if let Some(token) = current.and_then(token_in)
            && let Some(facts) = eks::TokenFacts::of(&token).filter(of_the_same)
            && facts.is_fresh(&self.seed, now)
        {
            return Ok(Ok((token, facts.due(&self.seed))));
        }
        let token = eks::mint(&signer, &region, &self.of.name, now);
        let due = eks::TokenFacts::of(&token).map_or(now, |facts| facts.due(&self.seed));
        Ok(Ok((token, due)))
    }
}

/// The token in a kubeconfig's Secret.
fn token_in(secret: &Secret) -> Option<String> {
    let text = std::str::from_utf8(&secret.data.as_ref()?.get("value")?.0).ok()?;
    kubeconfig::read(text).ok()?.token
}

/// Returns the state of the Secrets when nothing new can be made: those that are there may still be good, for a while.
fn standing_with(
    problem: Problem,
    request: &AccessRequest<'_>,
    current: Option<&Secret>,
    now: Timestamp,
) -> AccessStanding {
    let owner = request.control_plane.controller_owner_ref(&()).unwrap_or_default();
    let ours = current.filter(|secret| secrets::is_ours(secret, &owner));
    let ends =
        ours.and_then(token_in).and_then(|token| eks::TokenFacts::of(&token)).map(|facts| facts.ends());
    let good = ours.is_some() && ends.is_none_or(|ends| now < ends);
    let next = ends.filter(|_| good).map(|ends| until(ends, now));
    AccessStanding { secrets_ready: good, problem: Some(problem), next }
}

/// Returns the time until then; a moment at least.
fn until(then: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(then.duration_since(now)).unwrap_or_default().max(Duration::from_secs(1))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_connection_secret_is_read_where_no_other_object_keeps_it() {
        let workspace: WorkspaceTemplateApply = serde_json::from_value(json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "WorkspaceTemplateApply",
            "metadata": {"name": "w", "namespace": "n", "uid": "u"}, "spec": {"templateRef": {"name": "t"}},
        }))
        .expect("a workspace");
        let mark = |of: &str| json!({"annotations": {"infrastructure.cluster.x-k8s.io/workspace": of}});
        let owner = |uid: &str| {
            let owner = json!({"apiVersion": "v1", "kind": "X", "name": "x", "uid": uid});
            json!({"ownerReferences": [owner]})
        };
        // What it is: the workspace's own, another's, or nobody's.
        let rows = [
            (mark("n/w"), None),
            (mark("n/other"), Some(true)),
            (owner("other"), Some(true)),
            (owner("u"), Some(false)),
            (json!({}), Some(false)),
        ];
        for (metadata, expected) in rows {
            let secret: Secret = serde_json::from_value(json!({"metadata": metadata})).expect("a Secret");
            let found = foreign(&secret, Some(&workspace)).map(|foreign| foreign.owned);
            assert_eq!(found, expected, "{metadata}");
            assert!(foreign(&secret, None).is_none(), "whose it should be is not known");
        }
        assert!(not_written("s").message.starts_with("Secret s, where the workspace writes the outputs"));
    }
}
