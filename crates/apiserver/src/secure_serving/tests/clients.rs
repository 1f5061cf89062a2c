//! The clients people use: kube-rs and kubectl, through the kubeconfig that is written for them.

use std::{path::Path, process::Output};

use capt_e2e::{Peer, Peers};
use kube::config::{KubeConfigOptions, Kubeconfig};

use super::*;
use crate::authn::write_kubeconfig;

struct Guests {
    harness: Harness,
    folder: tempfile::TempDir,
}

impl Guests {
    async fn new() -> Self {
        let harness = Harness::new().await;
        let folder = tempfile::tempdir().unwrap();
        write_kubeconfig(&folder.path().join("config"), &harness.serving.url(), &harness.identity).unwrap();
        Self { harness, folder }
    }

    async fn kubectl(&self, kubectl: &Path, arguments: &[&str]) -> Output {
        soon(
            tokio::process::Command::new(kubectl)
                .args(arguments)
                .env("HOME", self.folder.path())
                .env_remove("KUBECONFIG")
                .kill_on_drop(true)
                .output(),
        )
        .await
        .unwrap()
    }
}

fn out(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// Of every kind of answer: what the API says, what it streams, what secure serving refuses and what panicked. Over HTTP/2 one byte
/// of a body is a broken stream to clients.
#[tokio::test]
async fn the_answer_to_head_has_no_body() {
    let harness = Harness::new().await;
    for protocol in ["http/1.1", "h2"] {
        for (path, code, length) in [
            ("/version", 200, Some(include_str!("version.json").len())),
            ("/nothing", 404, Some("not found".len())),
            ("/api/v1/things?watch=1", 200, None),
            ("/made", 200, None),
            ("/flood", 200, None),
            ("/panic", 500, None),
            ("/anonymous", 401, None),
        ] {
            let mut request = if path == "/anonymous" { get(path) } else { harness.get(path) };
            *request.method_mut() = http::Method::HEAD;
            let stream = harness.connect(protocol).await;
            let answer = match protocol {
                "h2" => soon(Http2::on(stream).await.0.send_request(request)).await.unwrap(),
                _ => soon(Http1::on(stream).await.0.send_request(request)).await.unwrap(),
            };
            if let Some(length) = length {
                assert_eq!(answer.headers()["content-length"], length.to_string(), "{protocol} {path}");
            }
            let (got, body) = soon(read(answer)).await.unwrap();
            assert_eq!((got, &*body), (code, ""), "{protocol} {path}");
        }
    }
}

#[tokio::test]
async fn kube_rs_comes_in_by_the_kubeconfig() {
    let guests = Guests::new().await;
    let kubeconfig = Kubeconfig::read_from(guests.folder.path().join("config")).unwrap();
    assert_eq!(kubeconfig.current_context.as_deref(), Some("capt"));
    let config =
        kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    let client = kube::Client::try_from(config).unwrap();
    assert_eq!(client.apiserver_version().await.unwrap().git_version, "v1.36.0");
    let whoami = client.request_text(Request::get("/whoami").body(vec![]).unwrap()).await.unwrap();
    assert_eq!(parsed(&whoami)["name"], "kubernetes-admin");

    let too_much = Request::post("/length").body(vec![b'x'; 4 << 20]).unwrap();
    match client.request_text(too_much).await.unwrap_err() {
        kube::Error::Api(status) => {
            assert_eq!((status.code, &*status.reason), (413, "RequestEntityTooLarge"));
        }
        error => panic!("{error:?}"),
    }
}

#[tokio::test]
async fn kubectl_comes_in_by_the_kubeconfig() {
    let Some(peers) = Peers::find_or_skip(&[Peer::Kubectl]) else { return };
    let kubectl = peers.path(Peer::Kubectl);
    let guests = Guests::new().await;
    let config = guests.folder.path().join("config");
    let config = ["--kubeconfig", config.to_str().unwrap()];
    let run =
        async |arguments: &[&str]| out(&guests.kubectl(&kubectl, &[&config[..], arguments].concat()).await);
    assert!(run(&["version"]).await.contains("Server Version: v1.36.0"));
    assert_eq!(run(&["get", "--raw", "/livez"]).await, "ok");
    assert_eq!(run(&["config", "current-context"]).await, "capt\n");
    let whoami = run(&["--as", "ann", "--as-group", "devs", "get", "--raw", "/whoami"]).await;
    assert_eq!(parsed(&whoami)["groups"], json!(["devs", "system:authenticated"]));

    // What kubectl makes of the file is still ours to replace.
    run(&["config", "set-context", "--current", "--namespace", "somewhere"]).await;
    write_kubeconfig(
        &guests.folder.path().join("config"),
        &guests.harness.serving.url(),
        &guests.harness.identity,
    )
    .unwrap();
}

#[tokio::test]
async fn kubectl_comes_in_by_the_token_and_not_by_another() {
    let Some(peers) = Peers::find_or_skip(&[Peer::Kubectl]) else { return };
    let kubectl = peers.path(Peer::Kubectl);
    let guests = Guests::new().await;
    let ca = guests.folder.path().join("ca.crt");
    std::fs::write(&ca, guests.harness.identity.ca_certificate()).unwrap();
    let url = guests.harness.serving.url();
    let run = async |token: &str| {
        let server = ["--server", &url, "--certificate-authority", ca.to_str().unwrap(), "--token", token];
        guests.kubectl(&kubectl, &[&server[..], &["get", "--raw", "/whoami"]].concat()).await
    };
    let whoami = out(&run(guests.harness.identity.token()).await);
    assert_eq!(parsed(&whoami)["name"], "kubernetes-admin");
    let refused = run("guessed").await;
    assert!(!refused.status.success());
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(said.contains("You must be logged in to the server"), "{said}");
}
