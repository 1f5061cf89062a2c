//! Controllers on some API, with an executor that imagines its runs: fleets that no machine could build. Every write that the
//! controllers send is counted.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use capt_api::machine::{CaptMachine, CaptMachineDeployment, CaptMachineDeploymentStatus, CaptMachineSet};
use capt_api::workspace::WorkspaceTemplateApply;
use capt_controllers::{Controllers, Options};
use capt_terraform::order::Order;
use capt_terraform::state::Output;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

use crate::fake_executor::FakeExecutor;

/// What a machine's module would be. Nobody runs it, but the controllers read what it declares.
const MODULE: &str = r#"
variable "machine_name" { type = string }
variable "instance_type" { type = string }
resource "terraform_data" "machine" { input = var.machine_name }
output "instance_id" { value = terraform_data.machine.id }
"#;

/// How long a deployment may take; no figure, only the end of a test that hangs.
const LONG: Duration = Duration::from_secs(1200);

/// What the controllers wrote: `POST captmachines`, `PATCH captmachines/status`, and how often.
#[derive(Clone, Debug, Default)]
pub struct Writes(Arc<Mutex<BTreeMap<String, u64>>>);

impl Writes {
    fn note(&self, request: &http::Request<kube::client::Body>) {
        if request.method() == http::Method::GET {
            return;
        }
        let mut parts = request.uri().path().split('/').skip_while(|part| *part != "namespaces").skip(2);
        let kind = parts.next().unwrap_or("other");
        let below = parts.nth(1).map_or_else(String::new, |below| format!("/{below}"));
        let what = format!("{} {kind}{below}", request.method());
        *self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(what).or_default() += 1;
    }

    /// What was written since the last time somebody asked.
    pub fn take(&self) -> BTreeMap<String, u64> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A client whose writes are counted.
    fn count(&self, client: &Client) -> Client {
        let (writes, inner) = (self.clone(), client.clone());
        let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
            writes.note(&request);
            let inner = inner.clone();
            async move { inner.send(request).await }
        });
        Client::new(service, "default")
    }
}

/// Everything that runs.
pub struct Fixture {
    /// Not counted.
    pub client: Client,
    pub writes: Writes,
    #[allow(dead_code, reason = "dropping them stops them; only some ask for what they count")]
    pub controllers: Controllers,
    pub executor: Arc<FakeExecutor>,
}

impl Fixture {
    pub async fn on(client: Client, options: &Options) -> Self {
        install(&client).await;
        let executor = Arc::new(FakeExecutor::new(outputs));
        let writes = Writes::default();
        let controllers = Controllers::start(&writes.count(&client), executor.clone(), options);
        let fixture = Self { client, writes, controllers, executor };
        let template = json!({"template": {"spec": {"module": MODULE}}});
        fixture.put("WorkspaceTemplate", "machine", &template).await;
        fixture
    }

    pub fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), "default")
    }

    async fn put(&self, kind: &str, name: &str, spec: &Value) {
        let version = "infrastructure.cluster.x-k8s.io/v1beta1";
        let body = json!({"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec});
        let gvk = kube::api::GroupVersionKind::gvk("infrastructure.cluster.x-k8s.io", "v1beta1", kind);
        let resource = kube::api::ApiResource::from_gvk(&gvk);
        let api: Api<kube::api::DynamicObject> =
            Api::namespaced_with(self.client.clone(), "default", &resource);
        api.patch(name, &PatchParams::apply("user").force(), &Patch::Apply(&body))
            .await
            .expect("it is applied");
    }

    /// A deployment named `fleet`, as large and of such machines.
    pub async fn deploy(&self, replicas: i32, kind: &str) {
        let spec = json!({
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "fleet"}},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 0}},
            "template": {
                "metadata": {"labels": {"app": "fleet"}},
                "spec": {
                    "workspaceTemplateRef": {"name": "machine"}, "nodeGroupRef": {"name": "workers"},
                    "instanceType": kind,
                    "labels": {"role": "worker"}, "tags": {"team": "blue"},
                },
            },
        });
        self.put("CaptMachineDeployment", "fleet", &spec).await;
    }

    #[allow(dead_code, reason = "a bench never scales")]
    pub async fn scale(&self, replicas: i32) {
        let body = json!({"spec": {"replicas": replicas}});
        let api = self.api::<CaptMachineDeployment>();
        api.patch("fleet", &PatchParams::default(), &Patch::Merge(&body)).await.expect("it is scaled");
    }

    /// Waits until the deployment is all it should be, and nothing too many is left.
    pub async fn rolled_out(&self) -> CaptMachineDeploymentStatus {
        self.when("rolled out", |status| {
            let ready = capt_controllers::runtime::conditions::is_true(&status.conditions, "Ready");
            ready && status.terminating_replicas == 0
        })
        .await
    }

    /// Waits until the status of the current generation satisfies `done`.
    pub async fn when(
        &self,
        what: &str,
        done: impl Fn(&CaptMachineDeploymentStatus) -> bool,
    ) -> CaptMachineDeploymentStatus {
        let api = self.api::<CaptMachineDeployment>();
        let mut last = None;
        let found = capt_e2e::until(what, LONG, async || {
            let object = api.get("fleet").await.ok()?;
            let status = object.status.clone()?;
            last = Some(status.clone());
            let current = status.observed_generation == object.metadata.generation;
            (current && done(&status)).then_some(status)
        })
        .await;
        found.unwrap_or_else(|error| panic!("{error}: {last:#?}"))
    }

    /// Versions of all that the controllers write, by kind and name.
    pub async fn versions(&self) -> BTreeMap<String, Option<String>> {
        let mut all = BTreeMap::new();
        self.add_versions::<CaptMachineDeployment>(&mut all).await;
        self.add_versions::<CaptMachineSet>(&mut all).await;
        self.add_versions::<CaptMachine>(&mut all).await;
        self.add_versions::<WorkspaceTemplateApply>(&mut all).await;
        self.add_versions::<capt_api::workspace::WorkspaceTemplate>(&mut all).await;
        self.add_versions::<k8s_openapi::api::core::v1::Event>(&mut all).await;
        all
    }

    async fn add_versions<K>(&self, all: &mut BTreeMap<String, Option<String>>)
    where
        K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
            + Clone
            + std::fmt::Debug
            + serde::de::DeserializeOwned,
    {
        // In pages: the memory that one large answer takes would be what is measured.
        let mut page = ListParams::default().limit(100);
        loop {
            let list = self.api::<K>().list_metadata(&page).await.expect("a list");
            for one in &list.items {
                all.insert(format!("{} {}", K::kind(&()), one.name_any()), one.resource_version());
            }
            let Some(next) = list.metadata.continue_.filter(|next| !next.is_empty()) else { return };
            page = page.continue_token(&next);
        }
    }
}

/// What every machine's module returns.
fn outputs(order: &Order) -> BTreeMap<String, Output> {
    let name = order.workspace.as_str().rsplit('/').next().unwrap_or_default();
    let output = |value: String| Output { value: json!(value), sensitive: false };
    [
        ("instance_id".to_owned(), output(format!("i-{name}"))),
        ("private_ip".to_owned(), output("10.0.0.7".to_owned())),
        ("provider_id".to_owned(), output(format!("test:///{name}"))),
    ]
    .into()
}

async fn install(client: &Client) {
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    for crd in capt_api::crds() {
        let apply = PatchParams::apply("user").force();
        crds.patch(&crd.name_any(), &apply, &Patch::Apply(&crd)).await.expect("a CRD");
    }
    for crd in capt_api::crds() {
        let served = capt_e2e::until("a served CRD", LONG, async || {
            let found = crds.get(&crd.name_any()).await.ok()?;
            let conditions = found.status?.conditions?;
            conditions.iter().any(|one| one.type_ == "Established" && one.status == "True").then_some(())
        });
        served.await.expect("it is served");
    }
}
