//! Where the peers' binaries are.
//!
//! The rule (cache folder, pins, `KUBEBUILDER_ASSETS`) lives in `e2e/peers/build` and only there: this module asks it.

use std::{
    env, fmt, io,
    path::{Path, PathBuf},
    process::Command,
};

use crate::choice::picks;

const BUILD_SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/peers/build");

/// A program the tests run for real.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// The Kubernetes API server.
    KubeApiserver,
    /// Its store.
    Etcd,
    /// The command-line client.
    Kubectl,
    /// OpenTofu.
    Tofu,
    /// The core manager of Cluster API.
    ClusterApiCore,
    /// The command-line client of Cluster API.
    Clusterctl,
    /// No program but a folder: the CRDs of Cluster API, one file each, and its webhooks in `webhook/`.
    ClusterApiCrds,
}

impl Peer {
    /// The name of its binary, or folder.
    pub const fn binary(self) -> &'static str {
        match self {
            Self::KubeApiserver => "kube-apiserver",
            Self::Etcd => "etcd",
            Self::Kubectl => "kubectl",
            Self::Tofu => "tofu",
            Self::ClusterApiCore => "core",
            Self::Clusterctl => "clusterctl",
            Self::ClusterApiCrds => "crds",
        }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.binary())
    }
}

/// Why the peers cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum MissingPeers {
    /// The build script, which knows the folder, could not be asked.
    #[error("ask {BUILD_SCRIPT} for the folder of the peers")]
    Script(#[source] io::Error),
    /// The build script refused.
    #[error("{BUILD_SCRIPT} --print-dir failed: {0}")]
    Refused(String),
    /// Some were never built.
    #[error("not built: {}; run `make peers` (or set KUBEBUILDER_ASSETS)", names(.0))]
    NotBuilt(Vec<Peer>),
}

fn names(peers: &[Peer]) -> String {
    peers.iter().map(|peer| peer.binary()).collect::<Vec<_>>().join(", ")
}

/// True when a missing peer is a failure and not a reason to skip: `make e2e` sets `CAPT_E2E=1`.
pub fn required() -> bool {
    env::var_os("CAPT_E2E").is_some_and(|value| value == "1")
}

/// The folder of the binaries, known to hold those that were asked for.
#[derive(Clone, Debug)]
pub struct Peers {
    folder: PathBuf,
}

impl Peers {
    /// Finds the peers in `needed`; names all that are missing.
    pub fn find(needed: &[Peer]) -> Result<Self, MissingPeers> {
        let output = Command::new(BUILD_SCRIPT).arg("--print-dir").output().map_err(MissingPeers::Script)?;
        if !output.status.success() {
            return Err(MissingPeers::Refused(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
        }
        Self::in_folder(Path::new(String::from_utf8_lossy(&output.stdout).trim_end()), needed)
    }

    /// [`Peers::find`] for the first line of a test: `None`, and a line on standard error, means skip. What needs a
    /// kube-apiserver is left to `make e2e`, or to who picks it: it would take up half of `make test`.
    ///
    /// # Panics
    /// If peers are missing and [`required`].
    pub fn find_or_skip(needed: &[Peer]) -> Option<Self> {
        if needed.contains(&Peer::KubeApiserver) && !required() && !picks("kube-apiserver") {
            crate::skip("needs a kube-apiserver (make e2e, or CAPT_TEST_API=kube-apiserver)");
            return None;
        }
        match Self::find(needed) {
            Ok(peers) => Some(peers),
            Err(missing) if required() => panic!("{missing}"),
            Err(missing) => {
                crate::skip(&missing.to_string());
                None
            }
        }
    }

    pub(crate) fn in_folder(folder: &Path, needed: &[Peer]) -> Result<Self, MissingPeers> {
        let peers = Self { folder: folder.to_owned() };
        // `exists` follows links: a link to what is not built yet does not count.
        let missing: Vec<_> = needed.iter().copied().filter(|peer| !peers.path(*peer).exists()).collect();
        if missing.is_empty() { Ok(peers) } else { Err(MissingPeers::NotBuilt(missing)) }
    }

    /// The binary of a peer, or its folder.
    pub fn path(&self, peer: Peer) -> PathBuf {
        self.folder.join(peer.binary())
    }

    /// The folder of all binaries, fit for `KUBEBUILDER_ASSETS` and `PATH`.
    pub fn folder(&self) -> &Path {
        &self.folder
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Folder;

    #[test]
    fn what_is_missing_is_named() {
        let folder = Folder::new("peers-test").unwrap();
        folder.write("etcd", "").unwrap();
        std::os::unix::fs::symlink("not-built", folder.path().join("tofu")).unwrap();
        let needed = [Peer::Etcd, Peer::Kubectl, Peer::Tofu];
        let missing = Peers::in_folder(folder.path(), &needed).unwrap_err().to_string();
        assert_eq!(missing, "not built: kubectl, tofu; run `make peers` (or set KUBEBUILDER_ASSETS)");
        assert_eq!(Peers::in_folder(folder.path(), &[Peer::Etcd]).unwrap().folder(), folder.path());
    }

    #[test]
    fn the_script_names_one_folder() {
        let peers = Peers::find(&[]).unwrap();
        assert!(peers.folder().is_absolute());
        assert_eq!(peers.folder(), Peers::find(&[]).unwrap().folder());
    }

    /// A machine without Go, on which somebody else's archive lies where OpenTofu's release should be.
    #[test]
    fn a_release_with_another_checksum_is_not_used() {
        let folder = Folder::new("release-test").unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir(at("bin")).unwrap();
        let needed =
            "bash env cat cut awk sed uname mktemp rm mv mkdir chmod sha256sum tar gzip curl dirname";
        for name in needed.split(' ') {
            let found = env::split_paths(&env::var_os("PATH").unwrap())
                .map(|folder| folder.join(name))
                .find(|path| path.is_file());
            let Some(found) = found else {
                crate::skip(&format!("{name} is not installed"));
                return;
            };
            std::os::unix::fs::symlink(found, at("bin").join(name)).unwrap();
        }
        std::fs::create_dir_all(at("releases/v1.12.6")).unwrap();
        let platform = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };
        folder
            .write(&format!("releases/v1.12.6/tofu_1.12.6_linux_{platform}.tar.gz"), "not OpenTofu")
            .unwrap();
        let output = Command::new(BUILD_SCRIPT)
            .arg("tofu")
            .env("PATH", at("bin"))
            .env("CAPT_CACHE_DIR", at("cache"))
            .env("CAPT_TOFU_RELEASES", format!("file://{}", at("releases").display()))
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        if cfg!(target_os = "linux") {
            assert!(said.contains("not 50a6106f") || said.contains("not 9bd0228a"), "{said}");
        }
        assert!(!output.status.success(), "{said}");
        assert_eq!(std::fs::read_dir(at("cache/peers/store")).unwrap().count(), 0, "nothing is left: {said}");
    }
}
