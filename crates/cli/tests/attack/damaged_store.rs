//! Damage to the files of a store under the whole program: it serves all that it answered, or does not start.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, ListParams, ObjectMeta, PostParams};
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use kube::{Client, ResourceExt};

use crate::plane::{PAUSE, SOON, capt, said};

const FILES: [&str; 3] = ["store.db-wal", "store.db", "store.head"];

/// `CAPT_ATTACK=long`, as `make attack` sets it, tries many more.
fn is_long() -> bool {
    std::env::var("CAPT_ATTACK").is_ok_and(|form| form == "long")
}

/// A `capt server` that is killed when this is dropped.
pub struct Server(std::process::Child);

impl Server {
    pub fn spawn(folder: &Path) -> Self {
        // What an earlier one wrote would be taken for ready.
        let _ = std::fs::remove_file(folder.join("kubeconfig"));
        let mut command = capt(&["server", "--data-dir"]);
        Self(command.arg(folder).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap())
    }

    /// Waits until it answers; what it said where it ended instead.
    pub fn answers(mut self, folder: &Path) -> Result<Self, String> {
        let deadline = std::time::Instant::now() + SOON;
        while !folder.join("kubeconfig").exists() {
            if let Some(status) = self.0.try_wait().unwrap() {
                let mut text = String::new();
                std::io::Read::read_to_string(self.0.stderr.as_mut().unwrap(), &mut text).unwrap();
                assert_eq!(status.code(), Some(1), "{text}");
                return Err(text);
            }
            assert!(std::time::Instant::now() < deadline, "it neither answers nor ends");
            std::thread::sleep(PAUSE);
        }
        Ok(self)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub async fn client(kubeconfig: &Path) -> Client {
    let kubeconfig = Kubeconfig::read_from(kubeconfig).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    Client::try_from(config).unwrap()
}

pub async fn config_maps(kubeconfig: &Path) -> Api<ConfigMap> {
    Api::default_namespaced(client(kubeconfig).await)
}

/// Names and versions of what is served.
async fn served(folder: &Path) -> BTreeMap<String, Option<String>> {
    let maps = config_maps(&folder.join("kubeconfig")).await.list(&ListParams::default()).await.unwrap();
    maps.items.iter().map(|map| (map.name_any(), map.resource_version())).collect()
}

pub async fn create(maps: &Api<ConfigMap>, name: &str) -> kube::Result<ConfigMap> {
    let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
    let data = Some(BTreeMap::from([("a".to_owned(), "b".repeat(3000))]));
    maps.create(&PostParams::default(), &ConfigMap { metadata, data, ..ConfigMap::default() }).await
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    std::fs::set_permissions(to, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    for name in FILES {
        let _ = std::fs::remove_file(to.join(name));
        std::fs::copy(from.join(name), to.join(name)).unwrap();
    }
}

fn recover(folder: &Path, arguments: &[&str]) -> Output {
    let mut command: Command = capt(&["server", "recover", "--data-dir"]);
    command.arg(folder).args(arguments).stdin(Stdio::null()).output().unwrap()
}

/// Kills a server that has answered writes, and returns what it had answered.
async fn killed(folder: &Path) -> BTreeMap<String, Option<String>> {
    drop(Server::spawn(folder).answers(folder).unwrap());
    let server = Server::spawn(folder).answers(folder).unwrap();
    let maps = config_maps(&folder.join("kubeconfig")).await;
    for n in 0..40 {
        create(&maps, &format!("map-{n:02}")).await.unwrap();
    }
    let all = served(folder).await;
    drop(server);
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_store_does_not_start_and_is_recovered() {
    let place = tempfile::tempdir().unwrap();
    let (good, bad) = (place.path().join("good"), place.path().join("bad"));
    let all = killed(&good).await;
    let flips = if is_long() { 24 } else { 4 };
    let mut refused = 0;
    for name in FILES {
        let size = std::fs::metadata(good.join(name)).unwrap().len();
        for part in 0..flips {
            copy(&good, &bad);
            let at = size * (2 * part + 1) / (2 * flips);
            let mut content = std::fs::read(bad.join(name)).unwrap();
            content[usize::try_from(at).unwrap()] ^= 4;
            std::fs::write(bad.join(name), content).unwrap();
            let what = format!("a bit of {name} at {at} of {size}");
            match Server::spawn(&bad).answers(&bad) {
                Ok(_server) => assert_eq!(served(&bad).await, all, "{what}: it starts with less"),
                Err(text) => {
                    refused += 1;
                    assert!(text.contains("is damaged: "), "{what}: {text}");
                    assert!(
                        text.contains(&format!("capt server recover --data-dir {}", bad.display())),
                        "{text}"
                    );
                    let asked = recover(&bad, &[]);
                    assert_eq!(asked.status.code(), Some(1), "{}", said(&asked));
                    assert!(said(&asked).contains("use --yes"), "{}", said(&asked));
                    let done = recover(&bad, &["--yes"]);
                    assert!(done.status.success(), "{what}: {}", said(&done));
                    let _server = Server::spawn(&bad).answers(&bad).unwrap();
                    let left = served(&bad).await;
                    assert!(left.iter().all(|(name, version)| all.get(name) == Some(version)), "{what}");
                    if said(&done).contains("lost: nothing") {
                        assert_eq!(left, all, "{what}: {}", said(&done));
                    }
                }
            }
        }
    }
    assert!(refused >= flips, "{refused} were refused");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_is_gone_is_not_a_new_one() {
    let place = tempfile::tempdir().unwrap();
    let (good, bad) = (place.path().join("good"), place.path().join("bad"));
    let _all = killed(&good).await;
    for missing in [&FILES[..1], &FILES[1..2], &FILES[..2], &FILES[2..]] {
        copy(&good, &bad);
        for name in missing {
            std::fs::remove_file(bad.join(name)).unwrap();
        }
        let text = Server::spawn(&bad).answers(&bad).err().unwrap_or_else(|| panic!("without {missing:?}"));
        assert!(text.contains("capt server recover"), "without {missing:?}: {text}");
    }
    // Nothing is left but a certificate, or the token, of a server that had a store.
    let empty = place.path().join("empty");
    copy(&good, &empty);
    std::fs::create_dir(empty.join("pki")).unwrap();
    for name in FILES {
        std::fs::remove_file(empty.join(name)).unwrap();
    }
    for (command, left) in [("server", "ca.pem"), ("up", "token")] {
        std::fs::remove_dir_all(empty.join("pki")).unwrap();
        std::fs::create_dir(empty.join("pki")).unwrap();
        std::fs::copy(good.join("pki").join(left), empty.join("pki").join(left)).unwrap();
        let output = capt(&[command, "--data-dir"]).arg(&empty).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{}", said(&output));
        assert!(said(&output).contains("the store is gone from "), "{}", said(&output));
        assert!(said(&output).contains("capt server recover --data-dir"), "{}", said(&output));
    }
    let begun = recover(&empty, &["--yes"]);
    assert!(begun.status.success(), "{}", said(&begun));
    drop(Server::spawn(&empty).answers(&empty).unwrap());
    // Nothing is left but what somebody built.
    let workspace = bad.join("terraform/workspaces/default-net-0");
    std::fs::create_dir_all(&workspace).unwrap();
    std::fs::write(workspace.join("record.json"), "{").unwrap();
    for name in FILES {
        let _ = std::fs::remove_file(bad.join(name));
    }
    for command in ["server", "up"] {
        let output = capt(&[command, "--data-dir"]).arg(&bad).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{}", said(&output));
        assert!(said(&output).contains("the store is gone from "), "{}", said(&output));
        assert!(said(&output).contains("default-net-0"), "{}", said(&output));
    }
    let done = recover(&bad, &["--yes"]);
    assert!(done.status.success(), "{}", said(&done));
    let _server = Server::spawn(&bad).answers(&bad).unwrap();
    assert!(served(&bad).await.is_empty());
    let sound = recover(&place.path().join("nowhere"), &["--yes"]);
    assert_eq!(sound.status.code(), Some(1), "{}", said(&sound));
}
