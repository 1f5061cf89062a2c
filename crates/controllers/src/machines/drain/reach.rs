//! A client for the cluster that a machine has joined, from the Secret that Cluster API keeps for it.
//!
//! Whoever may write that Secret decides who answers, so an answer is bounded in bytes and in time before anything reads it.

use std::time::Duration;

use http_body_util::{BodyExt, Limited};
use k8s_openapi::api::core::v1::Secret;
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::Status;
use kube::{Client, Config};
use serde::de::DeserializeOwned;

use super::endpoint::{RefusedEndpoint, pin};
use crate::runtime::queue::chain;
use crate::runtime::{Name, Writer};
use capt_planner::machine::DrainOutcome;

/// A cluster that takes longer to greet will not be drained.
const GREETING: Duration = Duration::from_secs(5);
/// Timeout for one answer.
const ANSWER: Duration = Duration::from_secs(10);
/// Most bytes of an answer: a page of large Nodes, or one object of the largest size that etcd takes.
const LARGEST: usize = 4 << 20;
/// Most bytes of a refusal.
const LARGEST_REFUSAL: usize = 64 << 10;
/// Most characters that are told of what a cluster says.
const TOLD: usize = 300;

const UNUSABLE: &str = "is no kubeconfig that can be used";

/// A cluster that machines have joined.
#[derive(Clone)]
pub struct Workload(Client);

/// A request as `kube` builds it.
type Asked = Result<http::Request<Vec<u8>>, kube::core::request::Error>;

impl Workload {
    /// Sends a request and reads the answer: no more of it than fits, and no longer than it may take. `T` should keep little, see
    /// [`super::answer`].
    pub async fn ask<T: DeserializeOwned>(&self, request: Asked) -> Result<T, kube::Error> {
        let request = request.map_err(kube::Error::BuildRequest)?;
        let answer = async {
            let answer = self.0.send(request.map(Body::from)).await?;
            let status = answer.status();
            let most = if status.is_success() { LARGEST } else { LARGEST_REFUSAL };
            let body =
                Limited::new(answer.into_body(), most).collect().await.map_err(kube::Error::Service)?;
            Ok::<_, kube::Error>((status, body.to_bytes()))
        };
        let slow = |_| kube::Error::Service(format!("no answer within {} s", ANSWER.as_secs()).into());
        let (status, body) = tokio::time::timeout(ANSWER, answer).await.map_err(slow)??;
        if status.is_success() {
            return serde_json::from_slice(&body).map_err(kube::Error::SerdeError);
        }
        let said = serde_json::from_slice::<Status>(&body);
        let said = said.unwrap_or_else(|_| Status::failure(&String::from_utf8_lossy(&body), "Unreadable"));
        Err(kube::Error::Api(said.with_code(status.as_u16()).boxed()))
    }
}

/// Shortens the message of a cluster to the length that is reported.
pub fn shortened(mut text: String) -> String {
    if let Some((end, _)) = text.char_indices().nth(TOLD) {
        text.truncate(end);
        text.push('…');
    }
    text
}

/// A client for a Cluster.
pub async fn reach(writer: &Writer, cluster: &Name) -> Result<Workload, DrainOutcome> {
    let mut config = config(writer, cluster).await?;
    pin(&mut config, GREETING).await.map_err(|refused| match refused {
        RefusedEndpoint::OffLimits(why) => DrainOutcome::NoWay(why),
        RefusedEndpoint::Unresolved(_) => DrainOutcome::Unreachable(refused.to_string()),
    })?;
    let unusable = |_| DrainOutcome::NoWay(format!("Secret {}-kubeconfig {UNUSABLE}", cluster.name));
    Client::try_from(config).map(Workload).map_err(unusable)
}

/// Builds the client configuration of a Cluster from its kubeconfig, with limits on how long its answers take.
pub async fn config(writer: &Writer, cluster: &Name) -> Result<Config, DrainOutcome> {
    let name = Name::new(cluster.namespace.clone(), format!("{}-kubeconfig", cluster.name));
    let shown = format!("Secret {}", name.name);
    let no_way = |text: &str| DrainOutcome::NoWay(format!("{shown} {text}"));
    let secret = match writer.read::<Secret>(&name).await {
        Ok(Some(secret)) => secret,
        Ok(None) => return Err(no_way("does not exist")),
        Err(error) => return Err(DrainOutcome::Unreachable(chain(&error))),
    };
    let value = secret.data.unwrap_or_default().remove("value").ok_or_else(|| no_way("has no key value"))?;
    // What is wrong with it is not told: the text would quote it.
    let text = String::from_utf8(value.0).map_err(|_| no_way("is no kubeconfig"))?;
    let kubeconfig = Kubeconfig::from_yaml(&text).map_err(|_| no_way("is no kubeconfig"))?;
    self_contained(&kubeconfig).map_err(no_way)?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    let mut config = config.map_err(|_| no_way(UNUSABLE))?;
    // That of the environment, which is for the way out of this machine; the kubeconfig has none.
    config.proxy_url = None;
    config.connect_timeout = Some(GREETING);
    config.read_timeout = Some(ANSWER);
    config.write_timeout = Some(ANSWER);
    // A budget's refusal (429) is an answer; asking again is the next pass.
    config.default_retry = false;
    Ok(config)
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
    for cluster in kubeconfig.clusters.iter().filter_map(|named| named.cluster.as_ref()) {
        if cluster.certificate_authority.is_some() {
            return Err("names files: CAPT needs their content");
        }
        if cluster.proxy_url.is_some() {
            return Err("goes through a proxy: CAPT sends its credentials to the server alone");
        }
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
            (json!({"server": "https://a", "proxy-url": "http://b"}), json!({"token": "t"}), false),
        ];
        for (cluster, user, fine) in rows {
            assert_eq!(self_contained(&kubeconfig(&cluster, &user)).is_ok(), fine, "{cluster} {user}");
        }
    }
}
