use std::{
    env,
    io::{BufRead as _, BufReader},
    process::{Command, Stdio},
};

use k8s_openapi::api::{
    authentication::v1::SelfSubjectReview,
    core::v1::{ConfigMap, ServiceAccount},
};
use kube::api::{ObjectMeta, PostParams};

use super::*;
use crate::process::tests::exists;

/// For what is a matter of milliseconds on an idle machine.
const SOON: Duration = Duration::from_secs(120);

fn config_map(name: &str) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta { name: Some(name.to_owned()), ..Default::default() },
        ..Default::default()
    }
}

#[test]
fn reserved_ports_differ_and_can_be_listened_on() {
    let reserved: Vec<_> = (0..100).map(|_| reserve_port().unwrap()).collect();
    let mut ports: Vec<_> = reserved.iter().map(|(_, address)| address.port()).collect();
    ports.sort_unstable();
    ports.dedup();
    assert_eq!(ports.len(), reserved.len());
    // The standard library sets SO_REUSEADDR on listeners, as Go does.
    let listeners = reserved.iter().map(|(_, address)| std::net::TcpListener::bind(address));
    listeners.collect::<Result<Vec<_>, _>>().unwrap();
}

#[tokio::test]
async fn serves_what_a_cluster_serves_and_leaves_nothing() {
    let Some(peers) = Peers::find_or_skip(&[KubeApiserver::NEEDS, &[Peer::Kubectl]].concat()) else { return };
    let asked = std::time::Instant::now();
    let server = KubeApiserver::start(&peers).await.unwrap();
    eprintln!("ready after {:?}", asked.elapsed());

    let client = server.client();
    let me = Api::<SelfSubjectReview>::all(client.clone());
    let me = me.create(&PostParams::default(), &SelfSubjectReview::default()).await.unwrap();
    let user = me.status.unwrap().user_info.unwrap();
    assert_eq!(user.username.as_deref(), Some("capt-e2e-admin"));

    let maps = Api::<ConfigMap>::default_namespaced(client.clone());
    maps.create(&PostParams::default(), &config_map("made-here")).await.unwrap();
    assert_eq!(kubectl(&peers, &server, &["get", "configmap", "-o", "name"]), "configmap/made-here\n");

    let accounts = Api::<ServiceAccount>::default_namespaced(client);
    let account = ServiceAccount { metadata: config_map("robot").metadata, ..Default::default() };
    accounts.create(&PostParams::default(), &account).await.unwrap();
    let token = kubectl(&peers, &server, &["create", "token", "robot"]);
    assert_eq!(token.split('.').count(), 3, "a signed token: {token}");

    let pids = [server.apiserver().pid(), server.etcd().pid()];
    let folders = [server.apiserver(), server.etcd()].map(|process| process.folder().path().to_owned());
    assert!(pids.into_iter().all(exists) && folders.iter().all(|folder| folder.is_dir()));
    let asked = std::time::Instant::now();
    drop(server);
    eprintln!("stopped after {:?}", asked.elapsed());
    assert!(!pids.into_iter().any(exists) && !folders.iter().any(|folder| folder.exists()));
}

fn kubectl(peers: &Peers, server: &KubeApiserver, arguments: &[&str]) -> String {
    let output = Command::new(peers.path(Peer::Kubectl))
        .arg("--kubeconfig")
        .arg(server.kubeconfig_path())
        .args(arguments)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test]
async fn rights_are_checked_and_another_ca_is_not_trusted() {
    let Some(peers) = Peers::find_or_skip(KubeApiserver::NEEDS) else { return };
    let server = KubeApiserver::start(&peers).await.unwrap();

    let mut nobody = server.config().clone();
    nobody.auth_info.impersonate = Some("nobody".to_owned());
    let maps = Api::<ConfigMap>::default_namespaced(Client::try_from(nobody).unwrap());
    let refused = maps.get("any").await.unwrap_err();
    assert!(matches!(&refused, kube::Error::Api(status) if status.code == 403), "{refused}");

    let stranger = Pki::generate().unwrap();
    let theirs = kubeconfig(server.url(), &stranger.ca, &stranger.admin);
    let theirs = Kubeconfig::from_yaml(&theirs).unwrap();
    let theirs = Config::from_custom_kubeconfig(theirs, &KubeConfigOptions::default()).await.unwrap();
    let refused = Client::try_from(theirs).unwrap().apiserver_version().await.unwrap_err();
    assert!(format!("{refused:?}").contains("InvalidCertificate"), "{refused:?}");
}

#[tokio::test]
async fn a_server_that_ends_early_shows_its_log() {
    let folder = Folder::new("not-peers").unwrap();
    for peer in KubeApiserver::NEEDS {
        folder.write(peer.binary(), "not a program").unwrap();
    }
    let peers = Peers::in_folder(folder.path(), KubeApiserver::NEEDS).unwrap();
    let error = format!("{:?}", KubeApiserver::start(&peers).await.unwrap_err());
    assert!(
        error.contains(" ended with status 126 before it was ready; last lines of the log of "),
        "{error}"
    );
    assert!(error.ends_with("denied\n"), "{error}");
}

/// Set for the process that [`nothing_outlives_a_killed_test`] is going to kill.
const HOLD: &str = "CAPT_E2E_HOLD";

#[tokio::test]
async fn nothing_outlives_a_killed_test() {
    let Some(_) = Peers::find_or_skip(KubeApiserver::NEEDS) else { return };
    let mut holder = Command::new(env::current_exe().unwrap())
        .args(["--exact", "--nocapture", "apiserver::tests::hold_until_killed"])
        .env(HOLD, "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(holder.stdout.take().unwrap()).lines();
    let held = lines.map(Result::unwrap).find_map(|line| {
        let words: Vec<String> = line.split_once("holding ")?.1.split(' ').map(str::to_owned).collect();
        <[String; 4]>::try_from(words).ok()
    });
    let Some([apiserver, etcd, apiserver_folder, etcd_folder]) = held else {
        panic!("the holder started nothing")
    };
    let pids = [apiserver, etcd].map(|pid| pid.parse().unwrap());
    let folders = [apiserver_folder, etcd_folder].map(PathBuf::from);
    assert!(pids.into_iter().all(exists) && folders.iter().all(|folder| folder.is_dir()));

    let killed = std::time::Instant::now();
    holder.kill().unwrap();
    holder.wait().unwrap();
    until("processes and folders are gone", SOON, async || {
        let gone = !pids.into_iter().any(exists) && !folders.iter().any(|folder| folder.exists());
        gone.then_some(())
    })
    .await
    .unwrap();
    eprintln!("gone {:?} after the kill", killed.elapsed());
}

#[tokio::test]
async fn hold_until_killed() {
    if env::var_os(HOLD).is_none() {
        return;
    }
    let peers = Peers::find(KubeApiserver::NEEDS).unwrap();
    let server = KubeApiserver::start(&peers).await.unwrap();
    let [apiserver, etcd] = [server.apiserver(), server.etcd()];
    let folders = [apiserver, etcd].map(|process| process.folder().path().display().to_string());
    println!("holding {} {} {}", apiserver.pid(), etcd.pid(), folders.join(" "));
    std::future::pending::<()>().await;
}
