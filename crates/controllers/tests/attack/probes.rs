//! What a control plane's API is asked, and who else is not.

use std::io::Read as _;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use capt_apiserver::Server;
use capt_apiserver::authn::{Identity, write_kubeconfig};
use capt_apiserver::secure_serving::{self, SecureServer};
use capt_controllers::cluster::probe::{ProbeSettings, ProbeSubject, Probes};
use capt_controllers::runtime::{Name, Writer};
use capt_e2e::until;
use capt_planner::cluster::control_plane::Probe;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};

use crate::fixture::SOON;

/// An API that can be asked, with its kubeconfig.
async fn api() -> (Server, SecureServer, Value) {
    let server = Server::in_memory().await.unwrap();
    let identity = Identity::in_memory(&[], std::time::SystemTime::now()).unwrap();
    let serving =
        SecureServer::open(Arc::clone(server.api()), &identity, secure_serving::Settings::default())
            .await
            .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kubeconfig");
    write_kubeconfig(&path, &serving.url(), &identity).unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    (server, serving, serde_saphyr::from_str(&text).unwrap())
}

/// The management API, and what it asks.
struct Asker {
    _server: Server,
    writer: Writer,
    secrets: Api<Secret>,
}

impl Asker {
    async fn new() -> Self {
        let server = Server::in_memory().await.unwrap();
        let client = server.client("default");
        Self {
            writer: Writer::new(client.clone(), "test"),
            secrets: Api::default_namespaced(client),
            _server: server,
        }
    }

    /// What is seen of the API that this kubeconfig names.
    async fn sees(&self, name: &str, kubeconfig: &Value, private: bool) -> Probe {
        let secret = json!({
            "metadata": {"name": format!("{name}-kubeconfig")}, "stringData": {"value": kubeconfig.to_string()},
        });
        self.secrets.create(&PostParams::default(), &serde_json::from_value(secret).unwrap()).await.unwrap();
        // On a slow machine, too, what takes long is told for what it is.
        let (greeting, limit) = (Duration::from_secs(20), Duration::from_secs(120));
        let probes = Probes::new(ProbeSettings { greeting, limit, ..ProbeSettings::default() });
        let (plane, cluster) = (Name::new("default", "plane"), Name::new("default", name));
        let subject = ProbeSubject { cluster, endpoint: "api.example:443".into(), private };
        let (first, again) = probes.look(&self.writer, &plane, &subject);
        assert_eq!((first, again), (None, None), "nobody waits for it");
        let seen = async || {
            let (seen, again) = probes.look(&self.writer, &plane, &subject);
            assert!(seen.is_none() || again.is_some(), "it is asked again later, and not at once");
            seen
        };
        until("an answer", SOON, seen).await.unwrap()
    }
}

fn changed(kubeconfig: &Value, at: &str, value: &Value) -> Value {
    let mut kubeconfig = kubeconfig.clone();
    let (parent, key) = at.rsplit_once('/').unwrap();
    kubeconfig.pointer_mut(parent).unwrap()[key] = value.clone();
    kubeconfig
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_what_was_seen_is_told() {
    let (_server, serving, kubeconfig) = api().await;
    let (_other, _other_door, other) = api().await;
    let asker = Asker::new().await;
    assert_eq!(asker.sees("fine", &kubeconfig, false).await, Probe::Ready);

    let ca = "/clusters/0/cluster/certificate-authority-data";
    let strange = changed(&kubeconfig, ca, other.pointer(ca).unwrap());
    let seen = asker.sees("strange", &strange, true).await;
    assert!(matches!(&seen, Probe::Failed(why) if why.contains("GET /readyz at ")), "{seen:?}");

    let server = "/clusters/0/cluster/server";
    let word = |probe: &Probe| match probe {
        Probe::Unknown(why) => why.reason.clone(),
        other => format!("{other:?}"),
    };
    let rows = [
        ("unresolved", server, json!("https://nowhere.invalid:6443"), "AddressNotResolved"),
        ("metadata", server, json!("https://169.254.169.254"), "NotProbed"),
        ("plain", server, json!(serving.url().replace("https://", "http://")), "NotProbed"),
        ("proxy", "/clusters/0/cluster/proxy-url", json!("http://127.0.0.1:9"), "NotProbed"),
        ("unchecked", "/clusters/0/cluster/insecure-skip-tls-verify", json!(true), "NotProbed"),
        (
            "exec",
            "/users/0/user/exec",
            json!({"apiVersion": "client.authentication.k8s.io/v1", "command": "id"}),
            "NotProbed",
        ),
    ];
    for (name, at, value, reason) in rows {
        let seen = asker.sees(name, &changed(&kubeconfig, at, &value), false).await;
        assert_eq!(word(&seen), reason, "{name}: {seen:?}");
    }
    // Nobody listens there any more: on this machine that tells nothing about another's.
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let gone = changed(&kubeconfig, server, &json!(format!("https://{closed}")));
    let seen = asker.sees("gone", &gone, false).await;
    assert_eq!(word(&seen), "EndpointPrivate", "{seen:?}");
}

/// What reaches somebody who is no API: no request, and so no token, before the certificate is checked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn credentials_go_to_nobody_without_the_certificate() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let leaked = Arc::new(AtomicUsize::new(0));
    let heard = Arc::clone(&leaked);
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut bytes = [0; 4096];
            let many = stream.read(&mut bytes).unwrap_or(0);
            if bytes[..many].windows(6).any(|part| part == b"s3cr3t") {
                heard.fetch_add(1, Ordering::SeqCst);
            }
        }
    });
    let (_server, _serving, kubeconfig) = api().await;
    let asker = Asker::new().await;
    for (name, scheme) in [("tls", "https"), ("plain", "http")] {
        let there =
            changed(&kubeconfig, "/clusters/0/cluster/server", &json!(format!("{scheme}://{address}")));
        let there = changed(&there, "/users/0/user", &json!({"token": "s3cr3t"}));
        let seen = asker.sees(name, &there, false).await;
        assert_ne!(seen, Probe::Ready);
    }
    assert_eq!(leaked.load(Ordering::SeqCst), 0);
}
