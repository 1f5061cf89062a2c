//! The endpoint as scrapers and probes see it, each of its checks failing once.

use std::path::Path;
use std::time::Duration;

use capt_apiserver::Server;
use capt_controllers::Options;
use capt_controllers::runtime::lease::Candidate;
use kube::api::{Api, PostParams};
use kube::{Client, Config};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::*;

const SOON: Duration = Duration::from_secs(30);

/// The status and the body of an answer, and its head.
async fn ask(address: SocketAddr, method: &str, path: &str) -> (u16, String, String) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("{method} {path} HTTP/1.1\r\nHost: {address}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned(), head.to_owned())
}

async fn get(address: SocketAddr, path: &str) -> (u16, String) {
    let (code, body, _) = ask(address, "GET", path).await;
    (code, body)
}

async fn served(process: &Arc<Process>) -> SocketAddr {
    let address = Address { address: Some(([127, 0, 0, 1], 0).into()) };
    address.bind().await.unwrap().unwrap().serve(process)
}

async fn engine(folder: &Path) -> Engine {
    Engine::start(capt_terraform::Options::new(folder.join("engine"))).await.unwrap()
}

/// An API that answers everything with 503.
async fn refusing() -> Client {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
    tokio::spawn(listener::serve(listener, |_| async { text(StatusCode::SERVICE_UNAVAILABLE, "") }));
    Client::try_from(Config::new(url)).unwrap()
}

async fn held(client: &Client, health: &LeaseHealth) -> capt_controllers::runtime::lease::Held {
    let candidate = Candidate::new("default", "capt-controller", "me", Duration::from_secs(15));
    Candidate { health: health.clone(), ..candidate }.take(client, |_| false).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn caches_that_were_never_listed_are_told() {
    let place = tempfile::tempdir().unwrap();
    let server = Server::in_memory().await.unwrap();
    let client = server.client("default");
    let health = LeaseHealth::default();
    let process = |health| Arc::new(Process::new(health, Storage::new(place.path())));
    let (sick, well) = (process(health.clone()), process(health.clone()));
    let (sick_address, address) = (served(&sick).await, served(&well).await);
    let lease = held(&client, &health).await;
    let (code, body) = get(address, "/readyz").await;
    assert_eq!(
        (code, body.contains("[-]caches failed: the controllers do not run yet\n")),
        (500, true),
        "{body}"
    );

    let engine = engine(place.path()).await;
    let controllers = Controllers::start(&refusing().await, Arc::new(engine.clone()), &Options::default());
    sick.started(&controllers, &engine);
    let (code, body) = get(sick_address, "/readyz").await;
    assert_eq!(code, 500, "{body}");
    for kind in ["WorkspaceTemplateApply", "CaptMachine", "Cluster", "ReferenceGrant", "CAPTCluster"] {
        let line = body.lines().find(|line| line.starts_with("[-]caches failed: not listed yet: ")).unwrap();
        assert!(line.split([' ', ',']).any(|word| word == kind), "{kind} in {body}");
    }
    assert_eq!(get(sick_address, "/readyz/caches").await.0, 500);
    assert_eq!(get(sick_address, "/readyz?exclude=caches").await, (200, "ok".into()));
    assert_eq!(get(sick_address, "/livez").await, (200, "ok".into()), "a restart would not help");
    controllers.stop().await;

    for crd in capt_api::crds() {
        Api::all(client.clone()).create(&PostParams::default(), &crd).await.unwrap();
    }
    let controllers = Controllers::start(&client, Arc::new(engine.clone()), &Options::default());
    well.started(&controllers, &engine);
    let ready = async {
        while get(address, "/readyz").await.0 != 200 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(SOON, ready).await.unwrap();
    let wanted =
        "[+]ping ok\n[+]caches ok\n[+]lease ok: holds the Lease\n[+]storage ok\nreadyz check passed\n";
    assert_eq!(get(address, "/readyz?verbose").await, (200, wanted.into()));
    assert_eq!(get(address, "/healthz/caches").await, (200, "ok".into()));
    let (code, metrics, head) = ask(address, "GET", "/metrics").await;
    assert_eq!(code, 200);
    let content_type = "content-type: application/openmetrics-text; version=1.0.0; charset=utf-8";
    assert!(head.contains(content_type), "{head}");
    for line in ["capt_workspaces_drifted 0", "capt_runs_active 0", "capt_inits_total 0"] {
        assert!(metrics.lines().any(|found| found == line), "{line} in {metrics}");
    }
    assert!(metrics.contains("leader_election_master_status{name=\"capt-controller\"} 1\n"), "{metrics}");
    assert!(metrics.ends_with("# EOF\n"), "{metrics}");
    controllers.stop().await;
    lease.release().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_standby_is_ready_and_a_holder_that_lost_its_lease_is_not() {
    let place = tempfile::tempdir().unwrap();
    let server = Server::in_memory().await.unwrap();
    let client = server.client("default");
    let health = [LeaseHealth::default(), LeaseHealth::default()];
    let mut addresses = Vec::new();
    for health in &health {
        let process = Arc::new(Process::new(health.clone(), Storage::new(place.path())));
        addresses.push(served(&process).await);
    }
    let (code, body) = get(addresses[1], "/readyz").await;
    assert!(code == 500 && body.contains("[-]lease failed: the API has not said yet"), "{body}");
    let mut first = held(&client, &health[0]).await;
    let candidate = Candidate::new("default", "capt-controller", "other", Duration::from_secs(15));
    let second = Candidate { health: health[1].clone(), ..candidate };
    // The first is only waited for until it is known to be gone.
    let gone = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let seen = Arc::clone(&gone);
    let waits = tokio::spawn({
        let client = client.clone();
        async move { second.take(&client, move |_| seen.load(std::sync::atomic::Ordering::Relaxed)).await }
    });
    let standby = async {
        while !get(addresses[1], "/readyz/lease").await.1.starts_with("ok") {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(SOON, standby).await.unwrap();
    let (code, body) = get(addresses[1], "/readyz?verbose").await;
    let wanted = "[+]ping ok\n[+]caches ok\n[+]lease ok: standby, me holds the Lease\n[+]storage ok\nreadyz check passed\n";
    assert_eq!((code, body.as_str()), (200, wanted));
    let metrics = get(addresses[1], "/metrics").await.1;
    assert!(metrics.contains("leader_election_master_status{name=\"capt-controller\"} 0\n"), "{metrics}");

    gone.store(true, std::sync::atomic::Ordering::Relaxed);
    waits.await.unwrap().unwrap();
    first.keep().await;
    for (path, line) in [
        ("/readyz", "[-]lease failed: Lease capt-controller is held by other now"),
        ("/livez", "[-]lease failed: "),
    ] {
        let (code, body) = get(addresses[0], path).await;
        assert!(code == 500 && body.contains(line), "{path}: {body}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_that_is_gone_makes_it_not_ready() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("data");
    std::fs::create_dir(&folder).unwrap();
    let address = served(&Arc::new(Process::new(LeaseHealth::default(), Storage::new(&folder)))).await;
    assert_eq!(get(address, "/readyz/storage").await, (200, "ok".into()));
    std::fs::remove_dir(&folder).unwrap();
    let (code, body) = get(address, "/readyz/storage").await;
    assert!(code == 500 && body.starts_with("internal server error: write into "), "{body}");
    assert!(get(address, "/readyz").await.1.contains("[-]storage failed: write into "));
    assert_eq!(get(address, "/livez").await.0, 200, "a restart would not help");
}

#[tokio::test]
async fn only_reading_and_only_what_there_is() {
    let place = tempfile::tempdir().unwrap();
    let address = served(&Arc::new(Process::new(LeaseHealth::default(), Storage::new(place.path())))).await;
    for (method, path, wanted) in [
        ("GET", "/metrics", 200),
        ("HEAD", "/livez", 200),
        ("POST", "/metrics", 405),
        ("DELETE", "/readyz/ping", 405),
        ("GET", "/", 404),
        ("POST", "/", 404),
        ("GET", "/livez/storage", 404),
        ("GET", "/metrics/", 404),
    ] {
        let (code, body, head) = ask(address, method, path).await;
        assert_eq!(code, wanted, "{method} {path}");
        assert_eq!(body.is_empty(), method == "HEAD", "{method} {path}: {body}");
        assert_eq!(head.contains("allow: GET, HEAD"), code == 405, "{head}");
    }
    let taken = Address { address: Some(address) }.bind().await.err().unwrap().to_string();
    assert!(taken.starts_with(&format!("serve metrics on {address}: ")), "{taken}");
}
