//! A workload cluster that a tenant plays: its kubeconfig names an address, and whoever answers there says what it likes.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use capt_controllers::machine::drain::{Drains, Outcome, Settings, Subject, Work};
use capt_controllers::runtime::{Name, Writer};
use capt_e2e::until;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::PostParams;
use serde_json::json;

use crate::stage::SOON;

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

/// Plays a cluster until the test's process ends; gives its address.
fn play(play: Play, heard: Arc<Heard>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let heard = Arc::clone(&heard);
            std::thread::spawn(move || answer(stream, play, &heard));
        }
    });
    format!("http://{address}")
}

fn answer(mut stream: TcpStream, play: Play, heard: &Heard) {
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
async fn drained(writer: &Writer, secrets: &Api<Secret>, name: &str, server: &str) -> Outcome {
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": server}}], "users": [{"name": "u", "user": {"token": "t"}}],
    });
    let secret = json!({"metadata": {"name": format!("{name}-kubeconfig")}, "stringData": {"value": config.to_string()}});
    secrets.create(&PostParams::default(), &serde_json::from_value(secret).unwrap()).await.unwrap();
    let drains = Drains::new(Settings { pass: Duration::from_secs(40), ..Settings::default() });
    let (machine, cluster) = (Name::new("default", "m"), Name::new("default", name));
    let subject = Subject { cluster, provider_id: Some("test:///m".into()), names: vec!["m".into()] };
    drains.start(writer, &machine, &subject, &Work::Drain);
    until("an end", SOON, async || drains.progress(&machine, &Work::Drain).last).await.unwrap()
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
        let url = play(row, Arc::clone(&heard));
        let outcome = drained(&writer, &secrets, name, &url).await;
        let Outcome::Unreachable(why) = outcome else { panic!("{name}: {outcome:?}") };
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
    let url = play(Play { head: "200 OK", start: page, more: "" }, Arc::clone(&heard));
    let outcome = drained(&writer, &secrets, "pages", &url).await;
    assert_eq!(outcome, Outcome::NoNode);
    let requests = heard.requests.load(Ordering::SeqCst);
    assert!(requests < 1000, "{requests} requests");
}
