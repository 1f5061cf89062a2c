//! Kubeconfigs: made of parts, or given whole and looked at. Pure.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::{eks, pem};

/// Credentials of a user.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum User {
    /// By a certificate: that and its key, as PEM.
    Certificate {
        /// The certificate.
        certificate: String,
        /// Its key.
        key: String,
    },
    /// By a token.
    Token(String),
    /// By what the AWS CLI says, each time anew.
    AwsCli {
        /// Name of the EKS cluster.
        cluster: String,
        /// Its region.
        region: Option<String>,
    },
}

/// A kubeconfig as text. `ca` is PEM.
pub fn text(name: &str, server: &str, ca: &str, user: &User) -> String {
    let data = |pem: &str| STANDARD.encode(pem);
    let credentials = match user {
        User::Certificate { certificate, key } => {
            json!({"client-certificate-data": data(certificate), "client-key-data": data(key)})
        }
        User::Token(token) => json!({"token": token}),
        User::AwsCli { cluster, region } => {
            let mut args = vec!["eks", "get-token", "--cluster-name", cluster, "--output", "json"];
            args.extend(region.iter().flat_map(|region| ["--region", region.as_str()]));
            json!({"exec": {
                "apiVersion": "client.authentication.k8s.io/v1beta1",
                "command": "aws",
                "args": args,
                "interactiveMode": "IfAvailable",
            }})
        }
    };
    let admin = format!("{name}-admin");
    let context = format!("{admin}@{name}");
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": name, "cluster": {"server": server, "certificate-authority-data": data(ca)}},
        ],
        "users": [{"name": admin, "user": credentials}],
        "contexts": [{"name": context, "context": {"cluster": name, "user": admin}}],
        "current-context": context,
    });
    // Certificates on one line, as everybody writes them.
    let options = serde_saphyr::ser_options! { prefer_block_scalars: false };
    serde_saphyr::to_string_with_options(&config, options).expect("maps with text as keys can be written")
}

/// Facts that a kubeconfig holds about its current context.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct KubeconfigFacts {
    /// Address of the API.
    pub server: String,
    /// Its CA, as PEM, where it is in there.
    pub ca: Option<String>,
    /// The token, where one is in there.
    pub token: Option<String>,
}

impl KubeconfigFacts {
    /// Returns true if the token is one of EKS, which ends in a quarter of an hour.
    pub fn is_eks(&self) -> bool {
        self.token.as_ref().is_some_and(|token| token.starts_with(eks::PREFIX))
    }
}

/// Why a text is no kubeconfig that another machine could use.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum ReadError {
    /// It cannot be read at all. What it says instead may be a secret.
    #[error("it is not YAML")]
    NotYaml,
    /// It is something else.
    #[error("it is not a Config of v1")]
    NotConfig,
    /// Something is missing or not what it should be.
    #[error("{0}")]
    Field(String),
}

/// Looks at a kubeconfig: whether all that its current context needs is in it.
pub fn read(text: &str) -> Result<KubeconfigFacts, ReadError> {
    let config: Value = serde_saphyr::from_str(text).map_err(|_| ReadError::NotYaml)?;
    let is = |key: &str, wanted: &str| config[key].as_str().is_none_or(|value| value == wanted);
    if !config.is_object() || !is("kind", "Config") || !is("apiVersion", "v1") {
        return Err(ReadError::NotConfig);
    }
    let missing = |what: &str| ReadError::Field(format!("{what} is missing"));
    let current = config["current-context"].as_str().filter(|name| !name.is_empty());
    let current = current.ok_or_else(|| missing("current-context"))?;
    let named = |list: &str, inner: &str, name: &str| {
        let items = config[list].as_array().map(Vec::as_slice).unwrap_or_default();
        let found = items.iter().find(|item| item["name"] == name).map(|item| &item[inner]);
        found.filter(|found| found.is_object()).cloned().ok_or_else(|| missing(&format!("{list}[{name}]")))
    };
    let context = named("contexts", "context", current)?;
    let part =
        |key: &str| context[key].as_str().ok_or_else(|| missing(&format!("contexts[{current}].{key}")));
    let (cluster_name, user_name) = (part("cluster")?, part("user")?);
    let cluster = named("clusters", "cluster", cluster_name)?;
    let user = named("users", "user", user_name)?;
    let server = cluster["server"].as_str().unwrap_or_default();
    if !["https://", "http://"].iter().any(|scheme| server.len() > scheme.len() && server.starts_with(scheme))
    {
        return Err(ReadError::Field(format!("clusters[{cluster_name}].server is not a URL")));
    }
    let ca = match cluster["certificate-authority-data"].as_str() {
        Some(data) => Some(pem::certificates(data).map_err(|error| {
            ReadError::Field(format!("clusters[{cluster_name}].certificate-authority-data: {error}"))
        })?),
        None => None,
    };
    // A file is on another machine; one path is named, with the field to use in its stead.
    let files = [
        (&cluster, "certificate-authority", "certificate-authority-data"),
        (&user, "client-certificate", "client-certificate-data"),
        (&user, "client-key", "client-key-data"),
        (&user, "tokenFile", "token"),
    ];
    for (part, file, instead) in files {
        if part[file].is_string() && !part[instead].is_string() {
            return Err(ReadError::Field(format!("{file} names a file of another machine; give {instead}")));
        }
    }
    let token = user["token"].as_str().map(str::to_owned);
    Ok(KubeconfigFacts { server: server.to_owned(), ca, token })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::super::pem::tests::{CA, KEY};
    use super::*;

    #[test]
    fn what_is_made_can_be_read() {
        let users = [
            User::Token("t".into()),
            User::Certificate { certificate: CA.into(), key: KEY.into() },
            User::AwsCli { cluster: "c".into(), region: Some("eu-west-1".into()) },
        ];
        for user in users {
            let text = text("demo", "https://example:6443", CA, &user);
            let facts = read(&text).unwrap();
            assert_eq!(facts.server, "https://example:6443");
            assert_eq!(facts.ca.as_deref(), Some(CA));
            assert_eq!(facts.token.as_deref(), matches!(user, User::Token(_)).then_some("t"));
            // What kubectl's Rust cousin says of it.
            let other = kube::config::Kubeconfig::from_yaml(&text).unwrap();
            assert_eq!(other.current_context.as_deref(), Some("demo-admin@demo"));
        }
    }

    #[test]
    fn the_aws_cli_is_called_for_the_cluster() {
        let user = User::AwsCli { cluster: "c".into(), region: Some("eu-west-1".into()) };
        let text = text("demo", "https://example", CA, &user);
        let config: Value = serde_saphyr::from_str(&text).unwrap();
        let exec = &config["users"][0]["user"]["exec"];
        assert_eq!(exec["command"], "aws");
        let args = ["eks", "get-token", "--cluster-name", "c", "--output", "json", "--region", "eu-west-1"];
        assert_eq!(exec["args"], json!(args));
    }

    #[test]
    fn what_is_no_kubeconfig_is_told_by_its_field() {
        let good = text("demo", "https://example", CA, &User::Token("t".into()));
        let change = |from: &str, to: &str| {
            assert!(good.contains(from), "{from} in {good}");
            good.replace(from, to)
        };
        let rows = [
            ("hunter2".to_owned(), "it is not a Config of v1"),
            (String::new(), "it is not a Config of v1"),
            ("{".to_owned(), "it is not YAML"),
            ("[]".to_owned(), "it is not a Config of v1"),
            ("{}".to_owned(), "current-context is missing"),
            (change("kind: Config", "kind: Secret"), "it is not a Config of v1"),
            (change("current-context: ", "current-contest: "), "current-context is missing"),
            (
                change("current-context: demo", "current-context: other"),
                "contexts[other-admin@demo] is missing",
            ),
            (change("server: https", "server: ftp"), "clusters[demo].server is not a URL"),
            (change("token: t", "tokenFile: /x"), "tokenFile names a file of another machine; give token"),
            (
                change("certificate-authority-data: ", "certificate-authority-data: eA== #"),
                "clusters[demo].certificate-authority-data: there is no PEM block of type CERTIFICATE in it",
            ),
        ];
        for (text, expected) in rows {
            assert_eq!(read(&text).unwrap_err().to_string(), expected, "{text}");
        }
    }

    #[test]
    fn a_token_of_eks_is_known() {
        let of = |token: &str| read(&text("demo", "https://x", CA, &User::Token(token.into()))).unwrap();
        assert!(of("k8s-aws-v1.abc").is_eks());
        assert!(!of("other").is_eks());
    }
}
