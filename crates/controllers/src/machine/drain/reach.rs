//! A client for the cluster that a machine has joined, from the Secret that Cluster API keeps for it.

use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

use super::Outcome;
use crate::runtime::queue::chain;
use crate::runtime::{Name, Writer};

/// A cluster that takes longer to greet will not be drained.
const GREETING: Duration = Duration::from_secs(5);
/// How long one answer may take.
const ANSWER: Duration = Duration::from_secs(10);

/// A client for a Cluster.
pub async fn reach(writer: &Writer, cluster: &Name) -> Result<Client, Outcome> {
    let name = Name::new(cluster.namespace.clone(), format!("{}-kubeconfig", cluster.name));
    let shown = format!("Secret {}", name.name);
    let no_way = |text: &str| Outcome::NoWay(format!("{shown} {text}"));
    let secret = match writer.read::<Secret>(&name).await {
        Ok(Some(secret)) => secret,
        Ok(None) => return Err(no_way("does not exist")),
        Err(error) => return Err(Outcome::Unreachable(chain(&error))),
    };
    let value = secret.data.unwrap_or_default().remove("value").ok_or_else(|| no_way("has no key value"))?;
    // What is wrong with it is not told: the text would quote it.
    let text = String::from_utf8(value.0).map_err(|_| no_way("is no kubeconfig"))?;
    let kubeconfig = Kubeconfig::from_yaml(&text).map_err(|_| no_way("is no kubeconfig"))?;
    self_contained(&kubeconfig).map_err(no_way)?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    let mut config = config.map_err(|_| no_way("is no kubeconfig that can be used"))?;
    config.connect_timeout = Some(GREETING);
    config.read_timeout = Some(ANSWER);
    config.write_timeout = Some(ANSWER);
    // A budget's refusal (429) is an answer; asking again is the next pass.
    config.default_retry = false;
    Client::try_from(config).map_err(|_| no_way("is no kubeconfig that can be used"))
}

/// Whoever may write a Secret may not run commands here, nor have files of this machine sent to a server of theirs.
fn self_contained(kubeconfig: &Kubeconfig) -> Result<(), &'static str> {
    for user in kubeconfig.auth_infos.iter().filter_map(|named| named.auth_info.as_ref()) {
        if user.exec.is_some() || user.auth_provider.is_some() {
            return Err("runs a command to log in: CAPT needs a token or a certificate");
        }
        if user.token_file.is_some() || user.client_certificate.is_some() || user.client_key.is_some() {
            return Err("names files: CAPT needs their content");
        }
    }
    let mut clusters = kubeconfig.clusters.iter().filter_map(|named| named.cluster.as_ref());
    if clusters.any(|cluster| cluster.certificate_authority.is_some()) {
        return Err("names files: CAPT needs their content");
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn kubeconfig(cluster: &Value, user: &Value) -> Kubeconfig {
        let body = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": cluster}], "users": [{"name": "u", "user": user}],
        });
        Kubeconfig::from_yaml(&body.to_string()).unwrap()
    }

    #[test]
    fn a_kubeconfig_reaches_out_of_itself_for_nothing() {
        let server = json!({"server": "https://127.0.0.1:1"});
        let exec = json!({"apiVersion": "client.authentication.k8s.io/v1", "command": "id"});
        let rows = [
            (server.clone(), json!({"token": "t"}), true),
            (server.clone(), json!({"client-certificate-data": "Yw==", "client-key-data": "aw=="}), true),
            (server.clone(), json!({"exec": exec}), false),
            (server.clone(), json!({"auth-provider": {"name": "gcp"}}), false),
            (server.clone(), json!({"tokenFile": "/etc/passwd"}), false),
            (server.clone(), json!({"client-certificate": "/a", "client-key-data": "aw=="}), false),
            (server, json!({"client-key": "/a"}), false),
            (json!({"server": "https://a", "certificate-authority": "/a"}), json!({"token": "t"}), false),
        ];
        for (cluster, user, fine) in rows {
            assert_eq!(self_contained(&kubeconfig(&cluster, &user)).is_ok(), fine, "{cluster} {user}");
        }
    }
}
