//! A kube-rs program on the embedded API: a controller with a finalizer and owned objects, a reflector, events, leases.
//! It runs in process, and over TLS with a kubeconfig as any other program would.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::time::Duration;

use capt_apiserver::Server;
use capt_apiserver::authn::{Identity, write_kubeconfig};
use capt_apiserver::secure_serving::{SecureServer, Settings};
use futures::StreamExt;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Event, Namespace, Secret};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams, PropagationPolicy};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::controller::{Action, Controller};
use kube::runtime::events::{EventType, Recorder, Reporter};
use kube::runtime::finalizer::{Event as Finalizer, finalizer};
use kube::runtime::reflector::{self, Store, reflector};
use kube::runtime::wait::{await_condition, conditions};
use kube::runtime::watcher::{self, watcher};
use kube::{Api, Client, Config, CustomResource, CustomResourceExt, Resource, ResourceExt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

#[derive(Clone, CustomResource, Debug, Deserialize, JsonSchema, Serialize)]
#[kube(group = "example.com", version = "v1", kind = "Widget", namespaced, status = "WidgetStatus")]
struct WidgetSpec {
    size: i32,
}

#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
struct WidgetStatus {
    ready: bool,
}

/// For what is a matter of milliseconds on an idle machine.
const SOON: Duration = Duration::from_secs(120);

async fn serve_widgets(client: &Client) {
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    let apply = PatchParams::apply("test").force();
    crds.patch("widgets.example.com", &apply, &Patch::Apply(Widget::crd())).await.unwrap();
    let established = await_condition(crds, "widgets.example.com", conditions::is_crd_established());
    tokio::time::timeout(SOON, established).await.unwrap().unwrap();
}

/// Waits until `probe` gives something.
async fn eventually<T>(what: &str, mut probe: impl AsyncFnMut() -> Option<T>) -> T {
    let found = tokio::time::timeout(SOON, async {
        loop {
            if let Some(found) = probe().await {
                return found;
            }
            tokio::task::yield_now().await;
        }
    });
    found.await.unwrap_or_else(|_| panic!("{what} never happened"))
}

#[derive(Debug, thiserror::Error)]
enum Failed {
    #[error(transparent)]
    Kube(#[from] kube::Error),
}

async fn apply(client: Client, widget: Arc<Widget>) -> Result<Action, Failed> {
    let namespace = widget.namespace().unwrap_or_default();
    let child = ConfigMap {
        metadata: ObjectMeta {
            name: Some(widget.name_any()),
            owner_references: widget.controller_owner_ref(&()).map(|owner| vec![owner]),
            ..ObjectMeta::default()
        },
        data: Some([("size".to_owned(), widget.spec.size.to_string())].into()),
        ..ConfigMap::default()
    };
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), &namespace);
    maps.patch(&widget.name_any(), &PatchParams::apply("widgets").force(), &Patch::Apply(child)).await?;
    let widgets: Api<Widget> = Api::namespaced(client, &namespace);
    let status = json!({"status": {"ready": true}});
    widgets.patch_status(&widget.name_any(), &PatchParams::default(), &Patch::Merge(status)).await?;
    Ok(Action::await_change())
}

fn run_controller(client: &Client) -> tokio::task::JoinHandle<()> {
    let widgets: Api<Widget> = Api::namespaced(client.clone(), "default");
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    let reconcile = |widget: Arc<Widget>, client: Arc<Client>| async move {
        let api: Api<Widget> = Api::namespaced(client.as_ref().clone(), "default");
        let outcome = finalizer(&api, "example.com/widget", widget, |event| async {
            match event {
                Finalizer::Apply(widget) => apply(client.as_ref().clone(), widget).await,
                Finalizer::Cleanup(_) => Ok(Action::await_change()),
            }
        });
        outcome.await
    };
    let controller = Controller::new(widgets, watcher::Config::default())
        .owns(maps, watcher::Config::default())
        .run(reconcile, |_, _, _| Action::requeue(Duration::from_millis(50)), Arc::new(client.clone()));
    tokio::spawn(controller.for_each(|_| std::future::ready(())))
}

/// A server behind its listener, and a client that knows it by a kubeconfig alone.
struct Remote {
    client: Client,
    _serving: SecureServer,
    _server: Server,
}

async fn over_tls() -> Remote {
    let server = Server::in_memory().await.unwrap();
    let identity = Identity::in_memory(&[], std::time::SystemTime::now()).unwrap();
    let serving = SecureServer::open(Arc::clone(server.api()), &identity, Settings::default()).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kubeconfig");
    write_kubeconfig(&path, &serving.url(), &identity).unwrap();
    let kubeconfig = Kubeconfig::read_from(&path).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    Remote { client: Client::try_from(config).unwrap(), _serving: serving, _server: server }
}

#[tokio::test]
async fn a_controller_runs_on_it() {
    let server = Server::in_memory().await.unwrap();
    controller_and_reflector(&server.client("default")).await;
}

#[tokio::test]
async fn a_controller_runs_on_it_over_tls() {
    let remote = over_tls().await;
    controller_and_reflector(&remote.client).await;
    record_and_lead(&remote.client).await;
}

/// Keeps what it sees of the widgets.
fn run_reflector(client: &Client) -> (Store<Widget>, tokio::task::JoinHandle<()>) {
    let widgets: Api<Widget> = Api::namespaced(client.clone(), "default");
    let (reader, writer) = reflector::store();
    let seen = reflector(writer, watcher(widgets, watcher::Config::default().streaming_lists()));
    (reader, tokio::spawn(seen.for_each(|_| std::future::ready(()))))
}

async fn controller_and_reflector(client: &Client) {
    serve_widgets(client).await;
    let controller = run_controller(client);
    let (seen, reflector) = run_reflector(client);
    let widgets: Api<Widget> = Api::namespaced(client.clone(), "default");
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");

    widgets.create(&PostParams::default(), &Widget::new("a", WidgetSpec { size: 3 })).await.unwrap();
    let ready = eventually("ready", async || {
        let widget = widgets.get("a").await.unwrap();
        widget.status.as_ref().is_some_and(|status| status.ready).then_some(widget)
    });
    assert_eq!(ready.await.finalizers(), ["example.com/widget"]);
    assert_eq!(maps.get("a").await.unwrap().data.unwrap()["size"], "3");

    let mut made = widgets.get("a").await.unwrap();
    made.spec.size = 4;
    widgets.replace("a", &PostParams::default(), &made).await.unwrap();
    eventually("the change reaches the child", async || {
        (maps.get("a").await.unwrap().data.unwrap()["size"] == "4").then_some(())
    })
    .await;

    eventually("the reflector sees it", async || {
        seen.state().iter().any(|widget| widget.name_any() == "a" && widget.spec.size == 4).then_some(())
    })
    .await;

    widgets.delete("a", &DeleteParams::default()).await.unwrap();
    eventually("the widget goes", async || widgets.get_opt("a").await.unwrap().is_none().then_some(())).await;
    eventually("its child goes with it", async || maps.get_opt("a").await.unwrap().is_none().then_some(()))
        .await;
    eventually("the reflector forgets it", async || seen.state().is_empty().then_some(())).await;
    controller.abort();
    reflector.abort();
}

#[tokio::test]
async fn foreground_deletion_takes_the_children_first() {
    let server = Server::in_memory().await.unwrap();
    let client = server.client("default");
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    let owner = maps.create(&PostParams::default(), &map("owner", None)).await.unwrap();
    maps.create(&PostParams::default(), &map("child", Some(&owner))).await.unwrap();
    let foreground =
        DeleteParams { propagation_policy: Some(PropagationPolicy::Foreground), ..DeleteParams::default() };
    maps.delete("owner", &foreground).await.unwrap();
    eventually("both go", async || {
        maps.list(&ListParams::default()).await.unwrap().items.is_empty().then_some(())
    })
    .await;

    let owner = maps.create(&PostParams::default(), &map("owner", None)).await.unwrap();
    maps.create(&PostParams::default(), &map("child", Some(&owner))).await.unwrap();
    let orphan =
        DeleteParams { propagation_policy: Some(PropagationPolicy::Orphan), ..DeleteParams::default() };
    maps.delete("owner", &orphan).await.unwrap();
    eventually("the owner goes", async || maps.get_opt("owner").await.unwrap().is_none().then_some(())).await;
    assert!(maps.get("child").await.unwrap().owner_references().is_empty());
}

fn map(name: &str, owner: Option<&ConfigMap>) -> ConfigMap {
    let owners = owner.map(|owner| {
        let mut reference = owner.owner_ref(&()).unwrap();
        reference.block_owner_deletion = Some(true);
        vec![reference]
    });
    ConfigMap {
        metadata: ObjectMeta { name: Some(name.into()), owner_references: owners, ..ObjectMeta::default() },
        ..ConfigMap::default()
    }
}

#[tokio::test]
async fn a_deleted_namespace_is_emptied() {
    let server = Server::in_memory().await.unwrap();
    let client = server.client("default");
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let secrets: Api<Secret> = Api::namespaced(client, "team");
    let named = |name: &str| ObjectMeta { name: Some(name.into()), ..ObjectMeta::default() };
    let secret = Secret {
        metadata: named("s"),
        string_data: Some([("k".into(), "v".into())].into()),
        ..Secret::default()
    };

    let early = secrets.create(&PostParams::default(), &secret).await.unwrap_err();
    assert!(early.to_string().contains("namespaces \"team\" not found"), "{early}");
    namespaces
        .create(&PostParams::default(), &Namespace { metadata: named("team"), ..Namespace::default() })
        .await
        .unwrap();
    let made = secrets.create(&PostParams::default(), &secret).await.unwrap();
    assert_eq!(made.data.unwrap()["k"].0, b"v");
    namespaces.delete("team", &DeleteParams::default()).await.unwrap();
    eventually("the namespace goes", async || {
        namespaces.get_opt("team").await.unwrap().is_none().then_some(())
    })
    .await;
    assert!(secrets.get_opt("s").await.unwrap().is_none());
}

#[tokio::test]
async fn a_namespace_that_goes_waits_for_finalizers_and_takes_nothing_new() {
    let server = Server::in_memory().await.unwrap();
    let client = server.client("default");
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let secrets: Api<Secret> = Api::namespaced(client, "team");
    let named = |name: &str| ObjectMeta { name: Some(name.into()), ..ObjectMeta::default() };
    let team = Namespace { metadata: named("team"), ..Namespace::default() };
    namespaces.create(&PostParams::default(), &team).await.unwrap();
    let mut held = Secret { metadata: named("held"), ..Secret::default() };
    held.metadata.finalizers = Some(vec!["example.com/hold".into()]);
    secrets.create(&PostParams::default(), &held).await.unwrap();

    namespaces.delete("team", &DeleteParams::default()).await.unwrap();
    let late = Secret { metadata: named("late"), ..Secret::default() };
    let refused = secrets.create(&PostParams::default(), &late).await.unwrap_err();
    assert!(refused.to_string().contains("because it is being terminated"), "{refused}");
    eventually("the secret is marked", async || {
        secrets.get("held").await.unwrap().metadata.deletion_timestamp.map(drop)
    })
    .await;
    let release = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    secrets.patch("held", &PatchParams::default(), &release).await.unwrap();
    eventually("the namespace goes", async || {
        namespaces.get_opt("team").await.unwrap().is_none().then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_definition_takes_its_objects_with_it() {
    let server = Server::in_memory().await.unwrap();
    let client = server.client("default");
    serve_widgets(&client).await;
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    let widgets: Api<Widget> = Api::namespaced(client.clone(), "default");
    widgets.create(&PostParams::default(), &Widget::new("free", WidgetSpec { size: 1 })).await.unwrap();
    let mut held = Widget::new("held", WidgetSpec { size: 1 });
    held.metadata.finalizers = Some(vec!["example.com/hold".into()]);
    widgets.create(&PostParams::default(), &held).await.unwrap();

    crds.delete("widgets.example.com", &DeleteParams::default()).await.unwrap();
    eventually("the free one goes", async || widgets.get_opt("free").await.unwrap().is_none().then_some(()))
        .await;
    assert!(crds.get("widgets.example.com").await.unwrap().metadata.deletion_timestamp.is_some());
    // One is deleted after the other.
    eventually("the held one is marked", async || {
        widgets.get("held").await.unwrap().metadata.deletion_timestamp.map(drop)
    })
    .await;
    let release = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    widgets.patch("held", &PatchParams::default(), &release).await.unwrap();
    eventually("the definition goes", async || {
        crds.get_opt("widgets.example.com").await.unwrap().is_none().then_some(())
    })
    .await;

    // A definition of the same name starts with nothing.
    serve_widgets(&client).await;
    assert!(widgets.list(&ListParams::default()).await.unwrap().items.is_empty());
}

#[tokio::test]
async fn a_new_default_shows_on_what_is_stored() {
    let server = Server::in_memory().await.unwrap();
    let client = server.client("default");
    serve_widgets(&client).await;
    let widgets: Api<Widget> = Api::namespaced(client.clone(), "default");
    let old =
        widgets.create(&PostParams::default(), &Widget::new("old", WidgetSpec { size: 1 })).await.unwrap();
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    let at = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/color";
    let color = json!([{"op": "add", "path": at, "value": {"type": "string", "default": "red"}}]);
    let patch = Patch::Json::<()>(serde_json::from_value(color).unwrap());
    crds.patch("widgets.example.com", &PatchParams::default(), &patch).await.unwrap();
    let resource = kube::core::ApiResource::erase::<Widget>(&());
    let any: Api<kube::core::DynamicObject> = Api::namespaced_with(client.clone(), "default", &resource);
    let read = eventually("the default shows", async || {
        any.get("old").await.ok().filter(|widget| widget.data["spec"]["color"] == "red")
    })
    .await;
    assert_eq!(read.metadata.resource_version, old.metadata.resource_version, "nothing was written");
    assert_eq!(any.list(&ListParams::default()).await.unwrap().items[0].data["spec"]["color"], "red");
}

#[tokio::test]
async fn the_version_that_is_stored_may_be_another_one() {
    let server = Server::in_memory().await.unwrap();
    let client = server.client("default");
    serve_widgets(&client).await;
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    let mut definition = crds.get("widgets.example.com").await.unwrap();
    let mut second = definition.spec.versions[0].clone();
    second.name = "v2".into();
    definition.spec.versions[0].storage = false;
    definition.spec.versions.push(second);
    let replaced = crds.replace("widgets.example.com", &PostParams::default(), &definition).await.unwrap();
    assert_eq!(replaced.status.unwrap().stored_versions.unwrap(), ["v1", "v2"]);
}

#[tokio::test]
async fn events_and_leases() {
    let server = Server::in_memory().await.unwrap();
    record_and_lead(&server.client("default")).await;
}

async fn record_and_lead(client: &Client) {
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let about = maps.create(&PostParams::default(), &map("about", None)).await.unwrap();
    let recorder = Recorder::new(client.clone(), Reporter { controller: "tester".into(), instance: None });
    let event = kube::runtime::events::Event {
        type_: EventType::Normal,
        reason: "Tested".into(),
        note: Some("it works".into()),
        action: "Test".into(),
        secondary: None,
    };
    recorder.publish(&event, &about.object_ref(&())).await.unwrap();
    let events: Api<Event> = Api::default_namespaced(client.clone());
    let seen = events.list(&ListParams::default()).await.unwrap().items;
    assert_eq!(seen.len(), 1);
    assert_eq!((seen[0].reason.as_deref(), seen[0].message.as_deref()), (Some("Tested"), Some("it works")));

    let leases: Api<Lease> = Api::default_namespaced(client.clone());
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"}, "spec": {"holderIdentity": "me", "leaseDurationSeconds": 15}});
    let params = PatchParams::apply("me");
    leases.patch("l", &params, &Patch::Apply(&lease)).await.unwrap();
    let mut other = lease.clone();
    other["spec"]["holderIdentity"] = json!("you");
    let refused = leases.patch("l", &PatchParams::apply("you"), &Patch::Apply(&other)).await.unwrap_err();
    assert!(refused.to_string().contains("conflict"), "{refused}");
}
