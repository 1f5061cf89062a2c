//! Observed objects, and the steps to migrate them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use std::{fmt, io};

use capt_api::names::annotations;
use capt_controllers::workspace::state_secrets;
use capt_planner::Count;
use capt_terraform::state::State;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{
    ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams, PostParams,
};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

use super::super::client::in_words;
use super::claims::{self, Claims};
use super::convert::{self, Converted, States};

const INFRASTRUCTURE: &str = "infrastructure.cluster.x-k8s.io";
const CROSSPLANE: &str = "tf.upbound.io";
/// Written by this command.
const MANAGER: &str = "capt-migrate";
/// Name of the annotation by which Crossplane calls something outside by another name.
const EXTERNAL_NAME: &str = "crossplane.io/external-name";

/// Existing objects of the old version.
pub struct World {
    /// CRDs of a name of ours whose kind is spelled otherwise: it cannot be changed in place.
    misspelt: Vec<CustomResourceDefinition>,
    templates: Vec<DynamicObject>,
    applies: Vec<DynamicObject>,
    configs: BTreeMap<String, Value>,
    /// WorkspaceProviderConfigs that are there already, by namespace and name: people may have edited them.
    converted: BTreeSet<(String, String)>,
    workspaces: BTreeMap<String, DynamicObject>,
}

/// Steps to take.
#[derive(Default)]
pub struct MigrationPlan {
    pub steps: Vec<Step>,
    /// Notes for the user.
    pub notes: Vec<String>,
    /// Decisions that are left to a user.
    pub conflicts: Vec<String>,
}

/// One step. Each can be repeated.
pub enum Step {
    /// Installs the CRDs over the old ones.
    Crds,
    /// Replaces a CRD whose kind is spelled otherwise, and its objects.
    Replace(Box<CustomResourceDefinition>),
    /// Applies an object of ours.
    Apply { namespace: String, object: Value },
    /// Keeps Crossplane from working on a workspace, and from destroying it when it is deleted.
    Pause(String),
    /// Leaves a state for an instance.
    Import { namespace: String, name: String, from: String, state: Vec<u8>, resources: usize },
    /// Lets a person decide about plans of an instance.
    Manual { namespace: String, name: String },
    /// Says which Terraform workspace of a backend is that of an instance.
    Called { namespace: String, name: String, workspace: String },
    /// Notes on a workspace of Crossplane whose it is now. Last, so that what was cut off before is done again, and what is done never is:
    /// the workspace may have been destroyed since, and its old state would bring it back.
    HandedOver { workspace: String, to: String },
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Crds => write!(f, "install {} CRDs over the old ones", capt_api::crds().len()),
            Self::Replace(crd) => {
                let kind = &crd.spec.names.kind;
                write!(
                    f,
                    "replace the CRD of {kind}, whose kind cannot be changed, and its objects (saved to {})",
                    saved(crd)
                )
            }
            Self::Apply { namespace, object } => {
                write!(
                    f,
                    "create {} {namespace}/{}",
                    text(&object["kind"]),
                    text(&object["metadata"]["name"])
                )
            }
            Self::Pause(name) => {
                write!(f, "pause Crossplane's Workspace {name}, with deletionPolicy: Orphan")
            }
            Self::Import { namespace, name, from, resources, .. } => {
                write!(
                    f,
                    "give WorkspaceTemplateApply {namespace}/{name} the state of Secret {from}: {}",
                    Count(resources, "resource")
                )
            }
            Self::Manual { namespace, name } => {
                write!(f, "set approval: Manual on WorkspaceTemplateApply {namespace}/{name}")
            }
            Self::Called { namespace, name, workspace } => {
                write!(
                    f,
                    "note that WorkspaceTemplateApply {namespace}/{name} is Terraform workspace {workspace}"
                )
            }
            Self::HandedOver { workspace, to } => {
                write!(
                    f,
                    "note on Crossplane's Workspace {workspace} that it is WorkspaceTemplateApply {to} now"
                )
            }
        }
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn saved(crd: &CustomResourceDefinition) -> String {
    format!("{}.json", crd.spec.names.plural)
}

/// Objects of a kind.
fn api(
    client: &Client,
    group: &str,
    version: &str,
    (kind, plural): (&str, &str),
    namespace: Option<&str>,
) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural);
    match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    }
}

/// All objects of a kind; none where nobody serves it.
async fn list(api: Api<DynamicObject>) -> io::Result<Vec<DynamicObject>> {
    match api.list(&ListParams::default()).await {
        Ok(found) => Ok(found.items),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(Vec::new()),
        Err(error) => Err(in_words(error)),
    }
}

impl World {
    /// Reads what is there.
    pub async fn read(client: &Client) -> io::Result<Self> {
        let ours = |kind, plural| list(api(client, INFRASTRUCTURE, "v1beta1", (kind, plural), None));
        let theirs = |kind, plural| list(api(client, CROSSPLANE, "v1beta1", (kind, plural), None));
        let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
        let mut misspelt = Vec::new();
        for wanted in capt_api::crds() {
            let found = crds.get_opt(&wanted.name_any()).await.map_err(in_words)?;
            misspelt.extend(found.filter(|found| found.spec.names.kind != wanted.spec.names.kind));
        }
        let converted = ours("WorkspaceProviderConfig", "workspaceproviderconfigs").await?;
        let converted =
            converted.iter().map(|object| (object.namespace().unwrap_or_default(), object.name_any()));
        let named =
            |objects: Vec<DynamicObject>| objects.into_iter().map(|object| (object.name_any(), object));
        Ok(Self {
            misspelt,
            converted: converted.collect(),
            templates: ours("WorkspaceTemplate", "workspacetemplates").await?,
            applies: ours("WorkspaceTemplateApply", "workspacetemplateapplies").await?,
            configs: named(theirs("ProviderConfig", "providerconfigs").await?)
                .map(|(name, object)| (name, object.data))
                .collect(),
            workspaces: named(theirs("Workspace", "workspaces").await?).collect(),
        })
    }

    /// The steps.
    pub async fn plan(&self, client: &Client) -> io::Result<MigrationPlan> {
        let mut plan = MigrationPlan::default();
        plan.steps.extend(self.misspelt.iter().map(|crd| Step::Replace(Box::new(crd.clone()))));
        plan.steps.push(Step::Crds);
        let mut converted = BTreeMap::new();
        for (name, config) in &self.configs {
            let config = convert::provider_config(name, config);
            plan.notes.extend(config.notes.iter().cloned());
            converted.insert(name.as_str(), config);
        }
        let claims = Claims::of(&self.applies, &self.workspaces);
        plan.conflicts.extend(claims.conflicts());
        self.provider_configs(&converted, &claims, &mut plan);
        for apply in &self.applies {
            self.instance(client, apply, &converted, &claims, &mut plan).await?;
        }
        Ok(plan)
    }

    /// The Workspace that is an instance's alone.
    fn workspace_of(&self, apply: &DynamicObject, claims: &Claims) -> Option<&DynamicObject> {
        let workspace = self.workspaces.get(&claims::named(apply).0)?;
        let to = workspace.annotations().get(annotations::HANDED_OVER);
        let own = match to {
            Some(to) => *to == claims::shown(apply),
            None => claims.is_alone(&workspace.name_any()),
        };
        own.then_some(workspace)
    }

    /// The namespaces of templates, with the ProviderConfigs that Workspaces of their instances had: what Crossplane lent to them.
    fn lent(&self, claims: &Claims) -> BTreeSet<(String, String)> {
        let lent = self.applies.iter().filter_map(|apply| {
            let workspace = self.workspace_of(apply, claims)?;
            let namespace = apply.data["spec"]["templateRef"]["namespace"].as_str().map(str::to_owned);
            Some((namespace.or_else(|| apply.namespace())?, config_of_workspace(workspace).to_owned()))
        });
        lent.collect()
    }

    /// A provider config beside each template that names it, and leave to read its Secrets: for those alone whose instances had it.
    /// Any template may name any of them.
    fn provider_configs(
        &self,
        converted: &BTreeMap<&str, Converted>,
        claims: &Claims,
        plan: &mut MigrationPlan,
    ) {
        let lent = self.lent(claims);
        let used: BTreeSet<(String, String)> = self
            .templates
            .iter()
            .filter_map(|template| Some((template.namespace()?, config_of(template)?.to_owned())))
            .collect();
        for (namespace, name) in used.difference(&self.converted) {
            let Some(config) = converted.get(name.as_str()) else {
                plan.notes.push(format!(
                    "templates of {namespace} name ProviderConfig {name}, which does not exist"
                ));
                continue;
            };
            if !lent.contains(&(namespace.clone(), name.clone())) {
                plan.notes.push(format!(
                    "templates of {namespace} name ProviderConfig {name}, and no Workspace of theirs is handed over that has it: write their \
                     WorkspaceProviderConfig, and a ReferenceGrant for its Secrets, if they may have these"
                ));
                continue;
            }
            let object = json!({
                "apiVersion": format!("{INFRASTRUCTURE}/v1beta1"), "kind": "WorkspaceProviderConfig",
                "metadata": {"name": name}, "spec": config.spec,
            });
            // The grants first: whoever finds the config finds what it needs.
            for (elsewhere, secret) in config.secrets.iter().filter(|(elsewhere, _)| elsewhere != namespace) {
                let object = convert::grant(namespace, secret);
                plan.steps.push(Step::Apply { namespace: elsewhere.clone(), object });
            }
            plan.steps.push(Step::Apply { namespace: namespace.clone(), object });
        }
    }

    /// Plans the migration of one instance.
    async fn instance(
        &self,
        client: &Client,
        apply: &DynamicObject,
        converted: &BTreeMap<&str, Converted>,
        claims: &Claims,
        plan: &mut MigrationPlan,
    ) -> io::Result<()> {
        let (namespace, name) = (apply.namespace().unwrap_or_default(), apply.name_any());
        let (called, told) = claims::named(apply);
        let called = called.as_str();
        let Some(workspace) = self.workspaces.get(called) else {
            if let Some(told) = told.filter(|told| self.workspaces.contains_key(told)) {
                plan.notes.push(format!(
                    "WorkspaceTemplateApply {namespace}/{name} has Crossplane's Workspace {told} in its status, and another name: \
                     that is no proof; if it is right, give its state with capt import-state"
                ));
                return Ok(());
            }
            // CAPT's own are known by the revision that they have.
            let status = &apply.data["status"];
            if status["applied"] == json!(true) && status["lastAppliedRevision"].is_null() {
                plan.notes.push(format!(
                    "WorkspaceTemplateApply {namespace}/{name} was applied, and Crossplane has no Workspace {called}: give its state with capt import-state"
                ));
            }
            return Ok(());
        };
        if let Some(to) = workspace.annotations().get(annotations::HANDED_OVER) {
            plan.notes.push(format!(
                "Crossplane's Workspace {called} was handed over to {to} before, and is left alone; to do it again, remove its annotation {}",
                annotations::HANDED_OVER
            ));
            return Ok(());
        }
        if !claims.is_alone(called) {
            // Without its state it would build everything again.
            plan.steps.push(Step::Manual { namespace, name });
            return Ok(());
        }
        let external = workspace.annotations().get(EXTERNAL_NAME).map_or(called, String::as_str);
        plan.steps.push(Step::Pause(called.to_owned()));
        let config = config_of_workspace(workspace);
        let states = converted.get(config).map(|config| config.states.clone());
        let mut handed_over = true;
        match states.unwrap_or(States::Nowhere) {
            States::Nowhere => {
                handed_over = false;
                plan.notes.push(format!(
                    "Crossplane's Workspace {called} has no backend: its state is in the folder of its pod; save it with terraform state pull, and give it with capt import-state {name}"
                ));
            }
            // There it is found, under the name that Crossplane selects.
            States::Backend(_) if external != called => plan.steps.push(Step::Called {
                namespace: namespace.clone(),
                name: name.clone(),
                workspace: external.to_owned(),
            }),
            States::Backend(_) => {}
            states @ States::Secrets { .. } => {
                let (beside, secret) = states.secret(external).expect("they are in Secrets");
                let from = format!("{beside}/{secret}");
                match state_secrets::read_import(client, beside, &secret).await {
                    Ok(state) => {
                        let resources = State::read(&state)
                            .map_err(|error| io::Error::other(format!("Secret {from}: {error}")))?;
                        let resources = resources.resources.len();
                        let (namespace, name) = (namespace.clone(), name.clone());
                        plan.steps.push(Step::Import { namespace, name, from, state, resources });
                    }
                    Err(problem) => {
                        handed_over = false;
                        plan.notes.push(format!(
                            "WorkspaceTemplateApply {namespace}/{name} is held until its state is given with capt import-state: {problem}"
                        ));
                    }
                }
            }
        }
        let noted = Step::HandedOver { workspace: called.to_owned(), to: format!("{namespace}/{name}") };
        plan.steps.push(Step::Manual { namespace, name });
        plan.steps.extend(handed_over.then_some(noted));
        Ok(())
    }
}

/// The ProviderConfig of a Workspace.
fn config_of_workspace(workspace: &DynamicObject) -> &str {
    text(&workspace.data["spec"]["providerConfigRef"]["name"])
}

/// The provider config that a template names.
fn config_of(template: &DynamicObject) -> Option<&str> {
    template.data["spec"]["template"]["spec"]["providerConfigRef"]["name"].as_str()
}

impl Step {
    /// Does it.
    pub async fn act(&self, client: &Client) -> io::Result<()> {
        let ours = |namespace: &str| {
            api(
                client,
                INFRASTRUCTURE,
                "v1beta1",
                ("WorkspaceTemplateApply", "workspacetemplateapplies"),
                Some(namespace),
            )
        };
        let workspaces = api(client, CROSSPLANE, "v1beta1", ("Workspace", "workspaces"), None);
        let merge = PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() };
        match self {
            Self::Crds => install(client).await,
            Self::Replace(crd) => replace(client, crd).await,
            Self::Apply { namespace, object } => {
                let plural = format!("{}s", text(&object["kind"]).to_lowercase());
                let api = api(
                    client,
                    INFRASTRUCTURE,
                    "v1beta1",
                    (text(&object["kind"]), plural.as_str()),
                    Some(namespace),
                );
                let force = PatchParams::apply(MANAGER).force();
                let name = text(&object["metadata"]["name"]);
                patient(async || api.patch(name, &force, &Patch::Apply(object)).await).await
            }
            Self::Pause(name) => {
                let body = json!({
                    "metadata": {"annotations": {"crossplane.io/paused": "true"}}, "spec": {"deletionPolicy": "Orphan"},
                });
                workspaces.patch(name, &merge, &Patch::Merge(&body)).await.map(drop).map_err(in_words)
            }
            Self::HandedOver { workspace, to } => {
                let body = json!({"metadata": {"annotations": {annotations::HANDED_OVER: to}}});
                workspaces.patch(workspace, &merge, &Patch::Merge(&body)).await.map(drop).map_err(in_words)
            }
            Self::Import { namespace, name, state, .. } => state_secrets::write_import(
                client,
                namespace,
                &state_secrets::import_name(name),
                state.clone(),
            )
            .await
            .map_err(io::Error::other),
            Self::Manual { namespace, name } => {
                let body = json!({"spec": {"approval": "Manual"}});
                let applies = ours(namespace);
                patient(async || applies.patch(name, &merge, &Patch::Merge(&body)).await).await
            }
            Self::Called { namespace, name, workspace } => {
                let body = json!({"status": {"workspaceName": workspace}});
                ours(namespace)
                    .patch_status(name, &merge, &Patch::Merge(&body))
                    .await
                    .map(drop)
                    .map_err(in_words)
            }
        }
    }
}

/// Tries for a while: an API serves a CRD a moment after it has taken it.
async fn patient(attempt: impl AsyncFn() -> kube::Result<DynamicObject>) -> io::Result<()> {
    let mut tries = 0;
    loop {
        match attempt().await {
            Ok(_) => return Ok(()),
            Err(kube::Error::Api(status)) if status.code == 404 && tries < 50 => {}
            Err(error) => return Err(in_words(error)),
        }
        tries += 1;
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// Installs the CRDs. They are replaced as a whole: an apply would leave in their schemas what others have written there.
async fn install(client: &Client) -> io::Result<()> {
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    for mut crd in capt_api::crds() {
        let name = crd.name_any();
        let written = match crds.get_opt(&name).await.map_err(in_words)? {
            Some(found) if capt_api::crd::is_installed(&found, &crd) => continue,
            Some(found) => {
                crd.metadata.resource_version = found.resource_version();
                crds.replace(&name, &PostParams::default(), &crd).await
            }
            None => crds.create(&PostParams::default(), &crd).await,
        };
        written.map_err(in_words)?;
    }
    Ok(())
}

/// Saves the objects, takes the CRD away, installs ours, and makes the objects again under its kind.
async fn replace(client: &Client, old: &CustomResourceDefinition) -> io::Result<()> {
    let names = &old.spec.names;
    let group = &old.spec.group;
    let version = old.spec.versions.first().map_or("v1beta1", |version| version.name.as_str());
    let objects =
        list(api(client, group, version, (names.kind.as_str(), names.plural.as_str()), None)).await?;
    let wanted = capt_api::crds().into_iter().find(|crd| crd.name_any() == old.name_any());
    let kind = wanted.map_or_else(|| names.kind.clone(), |wanted| wanted.spec.names.kind);
    let again: Vec<(String, Value)> = objects
        .iter()
        .map(|object| {
            let metadata = json!({
                "name": object.name_any(), "labels": object.labels(), "annotations": object.annotations(),
            });
            let body = json!({
                "apiVersion": format!("{group}/v1beta1"), "kind": kind, "metadata": metadata, "spec": object.data["spec"],
            });
            (object.namespace().unwrap_or_default(), body)
        })
        .collect();
    std::fs::write(saved(old), serde_json::to_vec_pretty(&again).map_err(io::Error::other)?)?;
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    crds.delete(&old.name_any(), &DeleteParams::default()).await.map_err(in_words)?;
    while crds.get_opt(&old.name_any()).await.map_err(in_words)?.is_some() {
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    install(client).await?;
    for (namespace, body) in &again {
        let api = api(client, group, "v1beta1", (kind.as_str(), names.plural.as_str()), Some(namespace));
        let object: DynamicObject = serde_json::from_value(body.clone()).map_err(io::Error::other)?;
        patient(async || api.create(&PostParams::default(), &object).await).await?;
    }
    Ok(())
}
