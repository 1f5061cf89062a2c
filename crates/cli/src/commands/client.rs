//! A client of the API that a kubeconfig names, and the object there that a command is about.

use std::fmt::Debug;
use std::io;
use std::path::{Path, PathBuf};

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::NamespaceResourceScope;
use kube::{Api, Client, Config, Resource};
use serde::de::DeserializeOwned;

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

/// Which object of a cluster.
#[derive(Debug, clap::Args)]
pub struct Which {
    /// Name of the object.
    pub name: String,
    /// Its namespace [default: that of the kubeconfig].
    #[arg(short, long)]
    pub namespace: Option<String>,
    /// The cluster it is in [default: KUBECONFIG, ~/.kube/config].
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
}

/// An object, and where it was found.
pub struct Found<K> {
    pub api: Api<K>,
    pub client: Client,
    pub namespace: String,
    pub object: K,
}

impl Which {
    /// Finds it.
    pub async fn find<K>(&self) -> io::Result<Found<K>>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
    {
        let client = connect(self.kubeconfig.as_deref()).await?;
        let namespace = self.namespace.clone().unwrap_or_else(|| client.default_namespace().to_owned());
        let api: Api<K> = Api::namespaced(client.clone(), &namespace);
        let missing =
            || io::Error::other(format!("no {} {} in namespace {namespace}", K::kind(&()), self.name));
        let object = api.get_opt(&self.name).await.map_err(in_words)?.ok_or_else(missing)?;
        Ok(Found { api, client, namespace, object })
    }
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
