//! The real kubectl beside this server, with secure serving, and beside kube-apiserver.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::SystemTime;

use capt_apiserver::Server;
use capt_apiserver::authn::{Identity, write_kubeconfig};
use capt_apiserver::secure_serving::{SecureServer, Settings};
use capt_e2e::{KubeApiserver, Peer, Peers};
use serde_json::Value;

/// kubectl with a kubeconfig.
pub struct Kubectl {
    program: PathBuf,
    kubeconfig: PathBuf,
    cache: PathBuf,
}

impl Kubectl {
    /// Whether it succeeded, and what it said.
    pub async fn run(&self, arguments: &[&str]) -> (bool, String) {
        let mut command = Command::new(&self.program);
        command.arg("--kubeconfig").arg(&self.kubeconfig).arg("--cache-dir").arg(&self.cache).args(arguments);
        // The server is in this process, and must go on meanwhile.
        let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&said).into_owned())
    }

    pub async fn good(&self, arguments: &[&str]) -> String {
        let (good, said) = self.run(arguments).await;
        assert!(good, "kubectl {}: {said}", arguments.join(" "));
        said
    }

    pub async fn object(&self, arguments: &[&str]) -> Value {
        let text = self.good(&[arguments, &["-o", "json", "--show-managed-fields"]].concat()).await;
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }
}

/// Both servers, with the administrator's kubectl of each.
pub struct Both {
    pub ours: Kubectl,
    pub theirs: Kubectl,
    pub server: Server,
    pub serving: SecureServer,
    pub identity: Identity,
    pub real: KubeApiserver,
    pub folder: tempfile::TempDir,
}

impl Both {
    /// `None` where the peers are not built.
    pub async fn start() -> Option<Self> {
        let peers = Peers::find_or_skip(&[KubeApiserver::NEEDS, &[Peer::Kubectl]].concat())?;
        let real = KubeApiserver::start(&peers).await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        let server = Server::in_memory().await.unwrap();
        let identity = Identity::in_memory(&[], SystemTime::now()).unwrap();
        let settings = Settings { metrics: Arc::clone(server.metrics()), ..Settings::default() };
        let serving = SecureServer::open(Arc::clone(server.api()), &identity, settings).await.unwrap();
        let kubeconfig = folder.path().join("kubeconfig");
        write_kubeconfig(&kubeconfig, &serving.url(), &identity).unwrap();
        let kubectl = |kubeconfig: &Path, cache: &str| Kubectl {
            program: peers.path(Peer::Kubectl),
            kubeconfig: kubeconfig.to_owned(),
            cache: folder.path().join(cache),
        };
        let (ours, theirs) = (kubectl(&kubeconfig, "ours"), kubectl(real.kubeconfig_path(), "theirs"));
        Some(Self { ours, theirs, server, serving, identity, real, folder })
    }

    /// Runs the same on both; both must do the same and say the same.
    pub async fn same(&self, arguments: &[&str]) -> String {
        let ours = self.ours.run(arguments).await;
        let theirs = self.theirs.run(arguments).await;
        assert_eq!(ours, theirs, "kubectl {}", arguments.join(" "));
        ours.1
    }
}
