//! `capt version`: versions of this program, of Terraform or OpenTofu, and of the API.

use std::io::{self, Write};
use std::time::Duration;

use capt_apiserver::version::{KUBERNETES, platform};
use capt_terraform::inputs::{BinaryName, Choice};
use serde::Serialize;

use super::client::Target;
use super::{Outcome, block_on};

/// Time limit of an API to report its version.
const ANSWERS: Duration = Duration::from_secs(2);

/// Print the versions of capt, Terraform or OpenTofu, and the API.
///
/// The exit code is 0 even if no API answers: the output says so.
///
/// Examples:
///   capt version
///   capt version --client
///   capt version -o json | jq -r .clientVersion.version
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Ask no API.
    #[arg(long)]
    client: bool,
    /// Another format.
    #[arg(short, long, value_enum)]
    output: Option<Format>,
    #[command(flatten)]
    target: Target,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Format {
    /// One JSON document.
    Json,
    /// The same as YAML.
    Yaml,
}

/// Everything that is told, by the names that `kubectl version` has for it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Versions {
    client_version: Client,
    terraform: Terraform,
    #[serde(skip_serializing_if = "Option::is_none")]
    server_version: Option<Server>,
    /// Why there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    server_error: Option<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Client {
    version: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    git_commit: Option<&'static str>,
    platform: String,
    /// Kubernetes version that `capt up` and `capt server` serve.
    kubernetes_version: &'static str,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Terraform {
    Found { name: &'static str, version: String, path: String },
    Missing { error: String },
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Server {
    version: String,
    address: String,
    chosen_by: String,
}

pub fn run(args: &Args) -> io::Result<Outcome> {
    let server = (!args.client).then(|| block_on(async { Ok(server(&args.target).await) })).transpose()?;
    let (server_version, server_error) = match server {
        Some(Ok(server)) => (Some(server), None),
        Some(Err(error)) => (None, Some(error)),
        None => (None, None),
    };
    let versions =
        Versions { client_version: client(), terraform: terraform(), server_version, server_error };
    let mut out = anstream::stdout().lock();
    match args.output {
        None => print(&mut out, &versions)?,
        Some(Format::Json) => {
            serde_json::to_writer_pretty(&mut out, &versions)?;
            writeln!(out)?;
        }
        Some(Format::Yaml) => {
            out.write_all(serde_saphyr::to_string(&versions).map_err(io::Error::other)?.as_bytes())?;
        }
    }
    Ok(Outcome::Good)
}

fn client() -> Client {
    Client {
        version: concat!("v", env!("CARGO_PKG_VERSION")),
        git_commit: option_env!("CAPT_BUILD_COMMIT"),
        platform: platform(),
        kubernetes_version: KUBERNETES,
    }
}

fn terraform() -> Terraform {
    match capt_terraform::binary::find(&Choice { name: BinaryName::Auto, constraint: None }) {
        Ok(binary) => Terraform::Found {
            name: if binary.name == "tofu" { "OpenTofu" } else { "Terraform" },
            version: format!("v{}", binary.version.trim_start_matches('v')),
            path: binary.path.display().to_string(),
        },
        Err(failure) => Terraform::Missing { error: failure.message },
    }
}

/// The API that commands would talk to, or one line that says why there is none.
async fn server(target: &Target) -> Result<Server, String> {
    let Ok(connected) = tokio::time::timeout(ANSWERS, target.connect()).await else {
        return Err(format!("the API does not answer within {} s", ANSWERS.as_secs()));
    };
    match connected {
        Ok(connection) => Ok(Server {
            version: connection.version,
            address: connection.address,
            chosen_by: connection.origin.to_string(),
        }),
        Err(error) => Err(error.to_string().lines().next().unwrap_or_default().to_owned()),
    }
}

fn print(out: &mut impl Write, versions: &Versions) -> io::Result<()> {
    let Client { version, git_commit, platform, kubernetes_version } = &versions.client_version;
    let commit = git_commit.map(|commit| format!(" ({commit})")).unwrap_or_default();
    writeln!(out, "Client Version: {version}{commit}")?;
    writeln!(out, "Platform: {platform}")?;
    writeln!(out, "Embedded Kubernetes API: {kubernetes_version}")?;
    match &versions.terraform {
        Terraform::Found { name, version, path } => writeln!(out, "{name}: {version} ({path})")?,
        Terraform::Missing { error } => writeln!(out, "Terraform: none ({error})")?,
    }
    match (&versions.server_version, &versions.server_error) {
        (Some(Server { version, address, chosen_by }), _) => {
            writeln!(out, "Server Version: {version} ({address}, {chosen_by})")
        }
        (None, Some(error)) => writeln!(out, "Server Version: none ({error})"),
        (None, None) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_said_in_place_of_a_version() {
        let mut versions = Versions {
            client_version: Client {
                version: "v1.2.3",
                git_commit: None,
                platform: "linux/arm64".into(),
                kubernetes_version: "v1.36.0",
            },
            terraform: Terraform::Missing { error: "not installed".into() },
            server_version: None,
            server_error: Some("none runs".into()),
        };
        let text = |versions: &Versions| {
            let mut out = Vec::new();
            print(&mut out, versions).unwrap();
            String::from_utf8(out).unwrap()
        };
        let head = "Client Version: v1.2.3\nPlatform: linux/arm64\nEmbedded Kubernetes API: v1.36.0\n";
        let expected = format!("{head}Terraform: none (not installed)\nServer Version: none (none runs)\n");
        assert_eq!(text(&versions), expected);
        versions.client_version.git_commit = Some("0123456789ab");
        versions.terraform =
            Terraform::Found { name: "OpenTofu", version: "v1.9.0".into(), path: "/bin/tofu".into() };
        versions.server_error = None;
        assert_eq!(
            text(&versions),
            "Client Version: v1.2.3 (0123456789ab)\nPlatform: linux/arm64\nEmbedded Kubernetes API: v1.36.0\n\
             OpenTofu: v1.9.0 (/bin/tofu)\n"
        );
    }
}
