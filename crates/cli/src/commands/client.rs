//! A client of the API that a kubeconfig names.

use std::io;
use std::path::Path;

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

/// Connects to the cluster of a kubeconfig, or to the one everybody here means.
pub async fn connect(kubeconfig: Option<&Path>) -> io::Result<Client> {
    let config = match kubeconfig {
        Some(path) => {
            let read = Kubeconfig::read_from(path).map_err(in_words)?;
            Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await.map_err(in_words)?
        }
        None => Config::infer().await.map_err(in_words)?,
    };
    Client::try_from(config).map_err(in_words)
}

/// An error with everything that led to it, in one line.
pub fn in_words(error: impl std::error::Error) -> io::Error {
    let mut words = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let said = cause.to_string();
        if !words.contains(&said) {
            words = format!("{words}: {said}");
        }
        source = cause.source();
    }
    io::Error::other(words)
}
