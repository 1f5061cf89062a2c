//! The kubeconfig of the administrator: one cluster, one user, one context, all called `capt`.
//!
//! Everything is inline, so the file can be moved. It is replaced whole and is its owner's alone. A file that holds
//! anything but a kubeconfig of this form is somebody else's and is left alone.

use std::{
    io,
    path::{Path, PathBuf},
};

use base64::{Engine, engine::general_purpose::STANDARD};

use super::{files, identity::Identity};

const NAME: &str = "capt";

/// Why no kubeconfig was written.
#[derive(Debug, thiserror::Error)]
pub enum KubeconfigError {
    /// The existing file cannot be read.
    #[error("read {}", .0.display())]
    Read(PathBuf, #[source] io::Error),
    /// The existing file was not written by CAPT.
    #[error("{} holds other clusters, users or contexts than `{NAME}`; name another file", .0.display())]
    NotOurs(PathBuf),
    /// It cannot be written.
    #[error("write the kubeconfig {}", .0.display())]
    Write(PathBuf, #[source] io::Error),
}

impl KubeconfigError {
    /// Returns whether it is only that the disk is full. Who starts a server then may want to delete objects.
    pub fn is_full_disk(&self) -> bool {
        matches!(self, Self::Write(_, error)
            if matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded))
    }
}

/// Writes the kubeconfig of the server at `url` (as the URL of `SecureServer` tells it) to `path`.
pub fn write(path: &Path, url: &str, identity: &Identity) -> Result<(), KubeconfigError> {
    let content = render(url, identity);
    match files::read(path) {
        // Nothing to write, so that a full disk does not matter.
        Ok(Some(present)) if present == content => {
            return files::private_file(path).map_err(|error| KubeconfigError::Write(path.to_owned(), error));
        }
        Ok(Some(present)) if is_ours(&present) => {}
        Ok(Some(_)) => return Err(KubeconfigError::NotOurs(path.to_owned())),
        Ok(None) => {}
        Err(error) => return Err(KubeconfigError::Read(path.to_owned(), error)),
    }
    files::replace(path, content.as_bytes()).map_err(|error| KubeconfigError::Write(path.to_owned(), error))
}

fn render(url: &str, identity: &Identity) -> String {
    let ca = STANDARD.encode(identity.ca_certificate());
    let certificate = STANDARD.encode(identity.admin_certificate());
    let key = STANDARD.encode(identity.admin_key());
    format!(
        "apiVersion: v1
kind: Config
clusters:
- name: {NAME}
  cluster:
    server: {url}
    certificate-authority-data: {ca}
users:
- name: {NAME}
  user:
    client-certificate-data: {certificate}
    client-key-data: {key}
contexts:
- name: {NAME}
  context:
    cluster: {NAME}
    user: {NAME}
current-context: {NAME}
"
    )
}

/// True of what [`write()`] wrote, also after `kubectl config` has rewritten it, and of an empty file.
fn is_ours(text: &str) -> bool {
    let mut names = text
        .lines()
        .filter_map(|line| line.trim_start().trim_start_matches("- ").strip_prefix("name:"))
        .map(|name| name.trim().trim_matches(['"', '\'']));
    text.trim().is_empty() || (text.contains("kind: Config") && names.all(|name| name == NAME))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
    use std::time::SystemTime;

    use std::fs;

    use super::*;

    #[test]
    fn replaces_its_own_file_and_no_other() {
        let identity = Identity::in_memory(&[], SystemTime::now()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config");
        write(&path, "https://127.0.0.1:1", &identity).unwrap();
        write(&path, "https://127.0.0.1:2", &identity).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains("server: https://127.0.0.1:2\n"));

        // What is there already is not written again, and is still its owner's alone.
        let inode = || fs::metadata(&path).unwrap().ino();
        let before = inode();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        write(&path, "https://127.0.0.1:2", &identity).unwrap();
        assert_eq!(inode(), before);
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        write(&path, "https://127.0.0.1:3", &identity).unwrap();
        assert_ne!(inode(), before);

        for others in [text.replacen("- name: capt", "- name: prod", 1), "some notes".to_owned()] {
            fs::write(&path, &others).unwrap();
            assert!(matches!(write(&path, "https://x", &identity), Err(KubeconfigError::NotOurs(_))));
            assert_eq!(fs::read_to_string(&path).unwrap(), others);
        }
    }

    #[test]
    fn a_full_disk_is_told_from_other_failures() {
        for (kind, is_full) in [
            (io::ErrorKind::StorageFull, true),
            (io::ErrorKind::QuotaExceeded, true),
            (io::ErrorKind::PermissionDenied, false),
        ] {
            let error = KubeconfigError::Write("config".into(), kind.into());
            assert_eq!(error.is_full_disk(), is_full, "{kind}");
        }
        assert!(!KubeconfigError::NotOurs("config".into()).is_full_disk());
    }
}
