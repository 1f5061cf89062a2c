//! The Secrets through which a cluster is reached.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use capt_api::cluster::CAPTControlPlane;
use capt_api::refs::Endpoint;
use capt_controllers::cluster::access::{AccessContext, AccessRequest, AccessStanding, eks, keep};
use capt_controllers::runtime::backoff::Backoff;
use capt_controllers::runtime::cache::no_index;
use capt_controllers::runtime::events::Events;
use capt_controllers::runtime::status::StatusWriter;
use capt_controllers::runtime::{Cache, Clock, CrossNamespace, DependencyIndex, Grants, Name, Watched};
use capt_controllers::workspace::context::{MANAGER, WorkspaceContext};
use capt_e2e::until;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::fixture::{Fixture, SOON};

/// A well-formed certificate whose key was thrown away.
const CA: &str = "-----BEGIN CERTIFICATE-----
MIIBUTCCAQOgAwIBAgIUZaxrZv5CFF3+guZekMo/NoaS3yIwBQYDK2VwMBUxEzAR
BgNVBAMMCm9mZmxpbmUtY2EwIBcNMjYxMTE1MDcxMjIxWhgPMjEyNjEwMjIwNzEy
MjFaMBUxEzARBgNVBAMMCm9mZmxpbmUtY2EwKjAFBgMrZXADIQDuwXTRe4DfIrBt
TURECgSs7yd5e07XhmmZGDpn3U9mH6NjMGEwHQYDVR0OBBYEFKQsJmNu2n9tri6S
rAto7EbjlxZgMB8GA1UdIwQYMBaAFKQsJmNu2n9tri6SrAto7EbjlxZgMA8GA1Ud
EwEB/wQFMAMBAf8wDgYDVR0PAQH/BAQDAgIEMAUGAytlcANBAIDbskJPTQ+oFhXH
cGAF5Cx2EiTs4zSeYfbG+fDNkqwoJlCUzKsFHDekMsnYrMY6v7DTa/S7K8lRfSbs
72gSvA8=
-----END CERTIFICATE-----
";

struct Hands(Mutex<Timestamp>);

impl Hands {
    fn turn(&self, minutes: i64) {
        let mut now = self.0.lock().unwrap();
        *now += SignedDuration::from_mins(minutes);
    }
}

impl Clock for Hands {
    fn now(&self) -> Timestamp {
        *self.0.lock().unwrap()
    }
}

/// What calls `keep`, in the place of the control plane's controller.
struct Caller<'a> {
    fixture: &'a Fixture,
    context: AccessContext,
    clock: Arc<Hands>,
    dependents: Arc<DependencyIndex>,
    owner: CAPTControlPlane,
    cluster: Name,
    outputs: BTreeMap<String, Value>,
    _tasks: JoinSet<()>,
}

impl<'a> Caller<'a> {
    async fn new(fixture: &'a Fixture) -> Self {
        let clock = Arc::new(Hands(Mutex::new("2026-01-02T03:04:05Z".parse().unwrap())));
        let mut tasks = JoinSet::new();
        let client = fixture.client.clone();
        let (templates, work) = Cache::new(Api::all(client.clone()), no_index);
        tasks.spawn(work);
        let (applies, work) = Cache::new(Api::all(client.clone()), no_index);
        tasks.spawn(work);
        let (configs, work) = Cache::new(Api::all(client.clone()), no_index);
        tasks.spawn(work);
        let (events, work) = Events::new(client.clone(), "test", None);
        tasks.spawn(work);
        let context = WorkspaceContext {
            client: client.clone(),
            executor: Arc::new(fixture.harness.engine.clone()),
            state_backend: None,
            clock: Arc::clone(&clock) as Arc<dyn Clock>,
            backoff: Backoff::RUN,
            events,
            metrics: Arc::default(),
            templates,
            applies,
            configs,
            grants: Grants::new(&client, CrossNamespace::Granted, &mut tasks),
            dependents: Arc::default(),
            config_interests: Arc::default(),
            backends: capt_controllers::workspace::apply::backends::Backends::default(),
            history: capt_controllers::workspace::apply::history::RunHistory::default(),
            apply_status: StatusWriter::new(MANAGER),
            template_status: StatusWriter::new(MANAGER),
            config_status: StatusWriter::new(MANAGER),
        };
        context.templates.listed().await;
        context.configs.listed().await;
        let body = json!({
            "apiVersion": "controlplane.cluster.x-k8s.io/v1beta1", "kind": "CAPTControlPlane",
            "metadata": {"name": "cp"}, "spec": {"version": "1.33", "workspaceTemplateRef": {"name": "t"}},
        });
        let planes: Api<CAPTControlPlane> = Api::namespaced(client, &fixture.namespace);
        let owner = planes.patch("cp", &PatchParams::apply("user"), &Patch::Apply(&body)).await.unwrap();
        Self {
            fixture,
            context: AccessContext::new(Arc::new(context)),
            clock,
            dependents: Arc::default(),
            owner,
            cluster: Name::new(fixture.namespace.clone(), "c"),
            outputs: [("cluster_certificate_authority_data".to_owned(), json!(STANDARD.encode(CA)))].into(),
            _tasks: tasks,
        }
    }

    async fn keep(&self) -> AccessStanding {
        let connection = Name::new(self.fixture.namespace.clone(), "connection");
        let endpoint = Endpoint { host: "api.example".into(), port: 443 };
        let request = AccessRequest {
            control_plane: &self.owner,
            cluster: &self.cluster,
            workspace: None,
            outputs: &self.outputs,
            connection: Some(&connection),
            endpoint: Some(&endpoint),
            region: Some("eu-west-1"),
        };
        let mut looker = self.dependents.looker(Name::of(&self.owner));
        Box::pin(keep(&self.context, &mut looker, &request)).await.unwrap()
    }

    /// Calls until the caches show what was written.
    async fn kept(&self, what: &str, done: impl Fn(&AccessStanding) -> bool) -> AccessStanding {
        let mut last = AccessStanding::default();
        let found = until(what, SOON, async || {
            last = self.keep().await;
            done(&last).then_some(())
        });
        found.await.unwrap_or_else(|error| panic!("{error}: {last:?}"));
        last
    }

    async fn secret(&self, name: &str) -> Option<Secret> {
        self.fixture.secrets().get_opt(name).await.unwrap()
    }

    async fn put(&self, name: &str, data: Value) {
        let body =
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": data});
        let force = PatchParams::apply("user").force();
        self.fixture.secrets().patch(name, &force, &Patch::Apply(&body)).await.unwrap();
    }

    async fn config(&self) -> Value {
        let secret = self.secret("c-kubeconfig").await.expect("a kubeconfig");
        serde_saphyr::from_str(std::str::from_utf8(&secret.data.unwrap()["value"].0).unwrap()).unwrap()
    }

    async fn token(&self) -> String {
        self.config().await["users"][0]["user"]["token"].as_str().unwrap().to_owned()
    }
}

pub async fn secrets_are_kept(fixture: &Fixture) {
    let mut caller = Caller::new(fixture).await;
    let waits = caller.keep().await;
    assert!(!waits.secrets_ready && waits.problem.as_ref().unwrap().waiting, "{waits:?}");
    assert!(caller.secret("cp-ca").await.is_none(), "all or nothing");
    let connection = Watched::new("Secret", Name::new(fixture.namespace.clone(), "connection"));
    assert_eq!(caller.dependents.of(&connection), [Name::of(&caller.owner)], "its coming leads here again");

    caller.put("connection", json!({"cluster_token": "hunter2"})).await;
    let done = caller.keep().await;
    assert_eq!(done, AccessStanding { secrets_ready: true, problem: None, next: None });
    let config = caller.config().await;
    assert_eq!(config["clusters"][0]["cluster"]["server"], "https://api.example:443");
    assert_eq!(config["users"][0]["user"]["token"], "hunter2");
    let names = ["c-kubeconfig", "c-ca", "cp-ca"];
    let mut versions = Vec::new();
    for name in names {
        let secret = caller.secret(name).await.unwrap();
        assert_eq!(secret.type_.as_deref(), Some("cluster.x-k8s.io/secret"), "{name}");
        assert_eq!(secret.labels()["cluster.x-k8s.io/cluster-name"], "c", "{name}");
        assert_eq!(secret.owner_references()[0].uid, caller.owner.uid().unwrap(), "{name}");
        versions.push(secret.resource_version());
    }
    assert_eq!(caller.secret("cp-ca").await.unwrap().data.unwrap()["tls.crt"].0, CA.as_bytes());

    // At rest nothing is written.
    assert!(caller.keep().await.secrets_ready);
    for (name, version) in names.into_iter().zip(&versions) {
        assert_eq!(&caller.secret(name).await.unwrap().resource_version(), version, "{name}");
    }
    // A new CA reaches all of them; what somebody deleted comes back.
    let bundle = format!("{CA}{CA}");
    caller.outputs.insert("cluster_certificate_authority_data".into(), json!(bundle));
    fixture.secrets().delete("c-ca", &DeleteParams::default()).await.unwrap();
    assert!(caller.keep().await.secrets_ready);
    for name in ["c-ca", "cp-ca"] {
        assert_eq!(caller.secret(name).await.unwrap().data.unwrap()["ca.crt"].0, bundle.as_bytes(), "{name}");
    }
    let data = caller.config().await["clusters"][0]["cluster"]["certificate-authority-data"].clone();
    assert_eq!(data, STANDARD.encode(&bundle));
}

pub async fn what_is_wrong_writes_nothing(fixture: &Fixture) {
    let mut caller = Caller::new(fixture).await;
    let rows = [
        (json!({"kubeconfig": "hunter2"}), "output kubeconfig is not a kubeconfig"),
        (
            json!({"cluster_ca_certificate": "x", "cluster_certificate_authority_data": "%%"}),
            "output cluster_certificate_authority_data",
        ),
        (json!({"client_key": "x"}), "no output client_certificate"),
        (json!({"cluster_auth": "gke"}), "output cluster_auth"),
    ];
    for (outputs, expected) in rows {
        caller.put("connection", outputs).await;
        let standing = caller.keep().await;
        let problem = standing.problem.unwrap();
        assert!(problem.message.contains(expected), "{}", problem.message);
        assert!(!standing.secrets_ready && !problem.waiting && !problem.message.contains("hunter2"));
        fixture.secrets().delete("connection", &DeleteParams::default()).await.unwrap();
    }
    // Somebody else's Secret under one of the names: nothing is written, under any.
    caller.put("connection", json!({"cluster_token": "t"})).await;
    let theirs = json!({"metadata": {"name": "c-ca"}, "stringData": {"tls.crt": "theirs"}});
    let theirs: Secret = serde_json::from_value(theirs).unwrap();
    fixture.secrets().create(&PostParams::default(), &theirs).await.unwrap();
    let standing = caller.keep().await;
    let problem = standing.problem.unwrap();
    assert!(problem.message.starts_with("Secret c-ca is somebody else's"), "{}", problem.message);
    assert_eq!(problem.reason, "SecretError");
    for name in ["c-kubeconfig", "cp-ca"] {
        assert!(caller.secret(name).await.is_none(), "{name}");
    }
    assert_eq!(caller.secret("c-ca").await.unwrap().data.unwrap()["tls.crt"].0, b"theirs");
    fixture.secrets().delete("c-ca", &DeleteParams::default()).await.unwrap();
    assert!(caller.keep().await.secrets_ready);
    // What was good stays, when what would replace it is not.
    caller.outputs.insert("kubeconfig".into(), json!("hunter2"));
    let standing = caller.keep().await;
    assert!(standing.secrets_ready && standing.problem.is_some());
    assert_eq!(caller.token().await, "t");
}

async fn eks_template(fixture: &Fixture) {
    let key = |key: &str, env: &str| json!({"secretRef": {"name": "aws", "key": key}, "env": env});
    let config = json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "WorkspaceProviderConfig",
        "metadata": {"name": "aws"},
        "spec": {"credentials": [key("id", "AWS_ACCESS_KEY_ID"), key("secret", "AWS_SECRET_ACCESS_KEY")]},
    });
    let configs: Api<capt_api::workspace::WorkspaceProviderConfig> =
        Api::namespaced(fixture.client.clone(), &fixture.namespace);
    configs.patch("aws", &PatchParams::apply("user"), &Patch::Apply(&config)).await.unwrap();
    let spec = json!({"module": "output \"x\" {\n  value = 1\n}\n", "providerConfigRef": {"name": "aws"}});
    fixture.put_template("t", spec).await;
    annotate(fixture, "eks").await;
}

async fn annotate(fixture: &Fixture, auth: &str) {
    let note = json!({"metadata": {"annotations": {"infrastructure.cluster.x-k8s.io/cluster-auth": auth}}});
    fixture.templates().patch("t", &PatchParams::default(), &Patch::Merge(&note)).await.unwrap();
}

pub async fn a_token_is_made_and_renewed(fixture: &Fixture) {
    eks_template(fixture).await;
    let caller = Caller::new(fixture).await;
    caller.put("connection", json!({"cluster_name": "eks-name"})).await;
    let missing = caller.kept("told", |standing| standing.problem.is_some()).await;
    let problem = missing.problem.unwrap();
    assert!(problem.waiting && problem.message.contains("Secret aws does not exist"), "{problem:?}");
    let noted = Watched::new("Secret", Name::new(fixture.namespace.clone(), "aws"));
    assert!(!caller.dependents.of(&noted).is_empty());

    caller.put("aws", json!({"id": "AKID1", "secret": "s"})).await;
    let made = caller.keep().await;
    assert!(made.secrets_ready, "{made:?}");
    let minute = |minutes: u64| Duration::from_secs(minutes * 60);
    assert!((minute(9)..minute(10)).contains(&made.next.unwrap()), "{made:?}");
    let first = caller.token().await;
    let facts = eks::TokenFacts::of(&first).unwrap();
    assert_eq!((facts.key_id.as_str(), facts.region.as_str()), ("AKID1", "eu-west-1"));

    caller.clock.turn(5);
    let rests = caller.keep().await;
    assert_eq!(caller.token().await, first, "young enough");
    assert!(rests.next.unwrap() <= minute(5));
    caller.clock.turn(5);
    caller.keep().await;
    let second = caller.token().await;
    assert_ne!(second, first, "made anew long before its end");
    // Another key makes another token at once.
    caller.put("aws", json!({"id": "AKID2", "secret": "s"})).await;
    caller.keep().await;
    assert_eq!(eks::TokenFacts::of(&caller.token().await).unwrap().key_id, "AKID2");
    // Without a key the token that is there is good until its end, and no longer.
    fixture.secrets().delete("aws", &DeleteParams::default()).await.unwrap();
    caller.clock.turn(11);
    let last = caller.keep().await;
    assert!(last.secrets_ready && last.problem.is_some() && last.next.unwrap() <= minute(3), "{last:?}");
    caller.clock.turn(4);
    assert!(!caller.keep().await.secrets_ready);

    annotate(fixture, "eks-exec").await;
    caller.kept("the AWS CLI", |standing| standing.problem.is_none() && standing.next.is_none()).await;
    let exec = caller.config().await["users"][0]["user"]["exec"].clone();
    assert_eq!(exec["command"], "aws");
    assert_eq!(exec["args"][3], "eks-name");
}
