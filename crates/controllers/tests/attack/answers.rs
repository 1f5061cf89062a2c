//! A workload cluster that a tenant plays: its kubeconfig names an address, and whoever answers there says what it likes.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use capt_controllers::machines::drain::{DrainSubject, Drains};
use capt_controllers::runtime::{Name, Writer};
use capt_e2e::until;
use capt_planner::machine::{DrainOutcome, DrainSettings, NodeWork};
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::PostParams;
use serde_json::json;
use tokio_rustls::rustls;

use crate::fixture::SOON;

/// What is offered; it is taken by whoever has no limit.
const OFFERED: usize = 96 << 20;
/// What may leave the sender all the same: what a client reads, and what sockets hold.
const CEILING: usize = 32 << 20;
const PIECE: usize = 64 << 10;

/// What a cluster answers to every request.
#[derive(Clone, Copy)]
struct Play {
    head: &'static str,
    /// The start of the body.
    start: &'static str,
    /// What follows, again and again.
    more: &'static str,
}

#[derive(Default)]
struct Heard {
    requests: AtomicUsize,
    /// Most bytes of one answer that were taken.
    most: AtomicUsize,
}

/// What a kubeconfig says of a cluster: where it is, and the CA that its certificate is of.
struct Cluster {
    server: String,
    ca: String,
}

/// Plays a cluster until the test's process ends.
fn play(play: Play, heard: Arc<Heard>) -> Cluster {
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let key = rustls::pki_types::PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let config =
        config.unwrap().with_no_client_auth().with_single_cert(vec![made.cert.der().clone()], key).unwrap();
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (heard, config) = (Arc::clone(&heard), Arc::clone(&config));
            std::thread::spawn(move || {
                let session = rustls::ServerConnection::new(config).unwrap();
                answer(rustls::StreamOwned::new(session, stream), play, &heard);
            });
        }
    });
    Cluster { server: format!("https://{address}"), ca: made.cert.pem() }
}

fn answer(mut stream: impl Read + Write, play: Play, heard: &Heard) {
    let mut request = [0; 8192];
    while let Ok(1..) = stream.read(&mut request) {
        heard.requests.fetch_add(1, Ordering::SeqCst);
        let length = if play.more.is_empty() {
            format!("Content-Length: {}\r\n", play.start.len())
        } else {
            String::new()
        };
        let head =
            format!("HTTP/1.1 {}\r\nContent-Type: application/json\r\n{length}\r\n{}", play.head, play.start);
        if stream.write_all(head.as_bytes()).is_err() {
            return;
        }
        if play.more.is_empty() {
            continue;
        }
        let piece = play.more.repeat(PIECE / play.more.len());
        let mut sent = 0;
        while sent < OFFERED && stream.write_all(piece.as_bytes()).is_ok() {
            sent += piece.len();
            heard.most.fetch_max(sent, Ordering::SeqCst);
        }
        return;
    }
}

/// Drains a Node of a cluster that plays; gives how that ended.
async fn drained(writer: &Writer, secrets: &Api<Secret>, name: &str, cluster: &Cluster) -> DrainOutcome {
    let ca = k8s_openapi::ByteString(cluster.ca.clone().into_bytes());
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": cluster.server, "certificate-authority-data": ca}}], "users": [{"name": "u", "user": {"token": "t"}}],
    });
    let secret = json!({"metadata": {"name": format!("{name}-kubeconfig")}, "stringData": {"value": config.to_string()}});
    secrets.create(&PostParams::default(), &serde_json::from_value(secret).unwrap()).await.unwrap();
    let drains = Drains::new(DrainSettings { pass: Duration::from_secs(40), ..DrainSettings::default() });
    let (machine, cluster) = (Name::new("default", "m"), Name::new("default", name));
    let subject = DrainSubject { cluster, provider_id: Some("test:///m".into()), names: vec!["m".into()] };
    drains.start(writer, &machine, &subject, &NodeWork::Drain);
    until("an end", SOON, async || drains.progress(&machine, &NodeWork::Drain).last).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endless_answer_is_not_read_to_its_end() {
    let server = capt_apiserver::Server::in_memory().await.unwrap();
    let client = server.client("default");
    let (writer, secrets) = (Writer::new(client.clone(), "test"), Api::default_namespaced(client));
    let rows = [
        ("text", Play { head: "200 OK", start: r#"{"metadata":{"name":""#, more: "x" }),
        ("space", Play { head: "200 OK", start: "{", more: "\n" }),
        ("items", Play { head: "200 OK", start: r#"{"items":[{}"#, more: ",{}" }),
        ("refusal", Play { head: "500 Oh", start: r#"{"message":""#, more: "x" }),
        ("missing", Play { head: "404 No", start: r#"{"details":{"causes":[{}"#, more: ",{}" }),
    ];
    for (name, row) in rows {
        let heard = Arc::new(Heard::default());
        let cluster = play(row, Arc::clone(&heard));
        let outcome = drained(&writer, &secrets, name, &cluster).await;
        let DrainOutcome::Unreachable(why) = outcome else { panic!("{name}: {outcome:?}") };
        assert!(why.len() < 2000, "{name}: {why}");
        let most = heard.most.load(Ordering::SeqCst);
        assert!(most < CEILING, "{name}: {most} bytes were taken, and then: {why}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_without_an_end_is_left() {
    let server = capt_apiserver::Server::in_memory().await.unwrap();
    let client = server.client("default");
    let (writer, secrets) = (Writer::new(client.clone(), "test"), Api::default_namespaced(client));
    // No Node of the machine's name has its providerID, and each page says that there is another one.
    let page = r#"{"metadata":{"name":"m","continue":"more"},"spec":{"providerID":"other"},"items":[]}"#;
    let heard = Arc::new(Heard::default());
    let cluster = play(Play { head: "200 OK", start: page, more: "" }, Arc::clone(&heard));
    let outcome = drained(&writer, &secrets, "pages", &cluster).await;
    assert_eq!(outcome, DrainOutcome::NoNode);
    let requests = heard.requests.load(Ordering::SeqCst);
    assert!(requests < 1000, "{requests} requests");
}

/// CAPT runs where tenants do not: services beside it that ask nobody who they are hear nothing, and nothing that they say is told.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_service_without_the_certificate_is_asked() {
    let server = capt_apiserver::Server::in_memory().await.unwrap();
    let client = server.client("default");
    let (writer, secrets) = (Writer::new(client.clone(), "test"), Api::default_namespaced(client));
    let heard = Arc::new(Heard::default());
    let said = Play { head: "403 No", start: r#"{"message":"their-secret-answer"}"#, more: "" };
    let (one, other) = (play(said, Arc::clone(&heard)), play(said, Arc::clone(&heard)));
    let rows = [
        ("plain", Cluster { server: one.server.replace("https:", "http:"), ca: one.ca.clone() }),
        ("another", Cluster { server: one.server.clone(), ca: other.ca }),
        ("metadata", Cluster { server: "https://169.254.169.254".into(), ca: one.ca.clone() }),
        ("mapped", Cluster { server: "https://[::ffff:169.254.169.254]".into(), ca: one.ca.clone() }),
    ];
    for (name, cluster) in rows {
        let outcome = drained(&writer, &secrets, name, &cluster).await;
        assert!(
            matches!(outcome, DrainOutcome::NoWay(_) | DrainOutcome::Unreachable(_)),
            "{name}: {outcome:?}"
        );
        assert!(!format!("{outcome:?}").contains("their-secret"), "{name}: {outcome:?}");
        assert_eq!(heard.requests.load(Ordering::SeqCst), 0, "{name}: {outcome:?}");
    }
    let outcome = drained(&writer, &secrets, "own", &one).await;
    assert_eq!(heard.requests.load(Ordering::SeqCst), 1, "{outcome:?}");
}
