//! From the outputs of a module to what a kubeconfig is made of, or to what is wrong with them. Pure.

use std::collections::BTreeMap;

use capt_api::conditions::reasons;
use capt_api::names::annotations;
use capt_api::refs::Endpoint;
use capt_planner::cluster::endpoint;
use capt_terraform::state::Outputs;
use k8s_openapi::ByteString;
use serde_json::Value;

use super::{Problem, eks, kubeconfig, pem};

/// Outputs that hold a whole kubeconfig.
const KUBECONFIG: [&str; 3] = ["kubeconfig", "kubeconfig_raw", "kube_config_raw"];
/// Outputs that hold the CA.
const CA: [&str; 3] = ["cluster_certificate_authority_data", "cluster_ca_certificate", "ca_certificate"];
/// Outputs that hold a client's certificate.
const CERTIFICATE: [&str; 2] = ["client_certificate", "cluster_client_certificate"];
/// Outputs that hold the key of that.
const KEY: [&str; 2] = ["client_key", "cluster_client_key"];
/// Outputs that hold a token.
const TOKEN: [&str; 2] = ["cluster_token", "token"];
/// Output that says how to log in.
const AUTH: &str = "cluster_auth";

/// All outputs of a module as text, the sensitive ones included: not to be shown.
#[derive(Clone, Default)]
pub struct Material(BTreeMap<String, String>);

impl Material {
    /// Of what everybody may see, and what is in the connection Secret.
    pub fn new(open: &BTreeMap<String, Value>, secret: Option<&BTreeMap<String, ByteString>>) -> Self {
        let mut all: BTreeMap<String, String> =
            open.iter().map(|(name, value)| (name.clone(), text(value))).collect();
        for (name, ByteString(bytes)) in secret.into_iter().flatten() {
            // Status is written after the Secret: what both have, the Secret has newer or the same.
            if let Ok(text) = std::str::from_utf8(bytes) {
                all.insert(name.clone(), text.to_owned());
            }
        }
        Self::of(all)
    }

    /// Of what the engine has.
    pub fn said(outputs: &Outputs) -> Self {
        Self::of(outputs.iter().map(|(name, output)| (name.to_owned(), text(&output.value))).collect())
    }

    fn of(mut all: BTreeMap<String, String>) -> Self {
        all.retain(|_, text| !text.trim().is_empty() && text != "null");
        Self(all)
    }

    /// The first of some outputs that is there, and its name.
    fn first(&self, names: &[&'static str]) -> Option<(&'static str, &str)> {
        names.iter().find_map(|name| Some((*name, self.0.get(*name)?.as_str())))
    }

    /// One output.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Method of logging in that was asked for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Auth {
    /// With tokens of EKS, which CAPT makes.
    Eks,
    /// With tokens of EKS, which the AWS CLI of whoever uses the kubeconfig makes.
    EksExec,
}

/// Returns the method that was asked for: by the control plane, else by the template, else by an output.
pub fn asked(
    control_plane: Option<&str>,
    template: Option<&str>,
    material: &Material,
) -> Result<Option<Auth>, Problem> {
    let by_annotation =
        |text, what| (text, format!("annotation {} of the {what}", annotations::CLUSTER_AUTH));
    let (text, field) = match (control_plane, template, material.text(AUTH)) {
        (Some(text), ..) => by_annotation(text, "CAPTControlPlane"),
        (_, Some(text), _) => by_annotation(text, "WorkspaceTemplate"),
        (.., Some(text)) => (text, format!("output {AUTH}")),
        (None, None, None) => return Ok(None),
    };
    match text.trim() {
        "eks" => Ok(Some(Auth::Eks)),
        "eks-exec" => Ok(Some(Auth::EksExec)),
        other => Err(wrong(format!("{field} is {other:?}: write eks or eks-exec"))),
    }
}

/// Parts that a kubeconfig is made of.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Recipe {
    /// It is given.
    Given {
        /// The text.
        text: String,
        /// The CA, as PEM, where it is known.
        ca: Option<String>,
    },
    /// It is made of these.
    Made {
        /// Address of the API.
        server: String,
        /// Its CA, as PEM.
        ca: String,
        /// Credentials of the user.
        login: Login,
    },
}

/// Credentials of the user, or the cluster that they must be made for.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Login {
    /// As this one.
    User(kubeconfig::User),
    /// With a token of EKS that must be made.
    Eks(EksCluster),
}

/// A cluster that tokens of EKS are for.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct EksCluster {
    /// Its name.
    pub name: String,
    /// Its region, where that is known.
    pub region: Option<String>,
}

/// Facts about the cluster besides its outputs.
#[derive(Clone, Copy, Debug, Default)]
pub struct KnownCluster<'a> {
    /// Name of the cluster.
    pub cluster: &'a str,
    /// Address of its API.
    pub endpoint: Option<&'a Endpoint>,
    /// Its region.
    pub region: Option<&'a str>,
}

/// Chooses.
pub fn choose(material: &Material, asked: Option<Auth>, known: &KnownCluster<'_>) -> Result<Recipe, Problem> {
    let mut ca = match material.first(&CA) {
        Some((name, text)) => Some(pem::certificates(text).map_err(|error| wrong_output(name, &error))?),
        None => None,
    };
    let mut server = known.endpoint.map(server_of);
    let mut is_eks = asked.is_some() || known.endpoint.is_some_and(|at| eks::region_of(&at.host).is_some());
    if asked != Some(Auth::EksExec)
        && let Some((name, text)) = material.first(&KUBECONFIG)
    {
        let given = kubeconfig::read(text)
            .map_err(|error| wrong(format!("output {name} is not a kubeconfig: {error}")))?;
        ca = ca.or_else(|| given.ca.clone());
        if !given.is_eks() {
            return Ok(Recipe::Given { text: text.to_owned(), ca });
        }
        // What data sources give: gone before anybody uses it.
        is_eks = true;
        server = server.or(Some(given.server));
    }
    let server = server.ok_or_else(|| missing("cluster_endpoint, where the control plane's API is"))?;
    let login = login(material, asked, is_eks, known)?;
    let ca = ca.ok_or_else(|| missing("cluster_certificate_authority_data, the CA of the control plane"))?;
    Ok(Recipe::Made { server, ca, login })
}

fn login(
    material: &Material,
    asked: Option<Auth>,
    is_eks: bool,
    known: &KnownCluster<'_>,
) -> Result<Login, Problem> {
    let by_host = known.endpoint.and_then(|at| eks::region_of(&at.host));
    let region = known.region.or(material.text("region")).or(by_host).map(str::to_owned);
    if let Some(region) = region.as_deref().filter(|region| is_eks && !eks::is_region(region)) {
        return Err(wrong(format!("region {region:?} is none: write one like eu-west-1")));
    }
    let cluster = material.text("cluster_name").unwrap_or(known.cluster).to_owned();
    if asked == Some(Auth::EksExec) {
        return Ok(Login::User(kubeconfig::User::AwsCli { cluster, region }));
    }
    match (material.first(&CERTIFICATE), material.first(&KEY)) {
        (Some((name, certificate)), Some((key_name, key))) => {
            return Ok(Login::User(kubeconfig::User::Certificate {
                certificate: pem::certificates(certificate).map_err(|error| wrong_output(name, &error))?,
                key: pem::private_key(key).map_err(|error| wrong_output(key_name, &error))?,
            }));
        }
        (Some((name, _)), None) => return Err(missing(&format!("{}, the key of {name}", KEY[0]))),
        (None, Some((name, _))) => {
            return Err(missing(&format!("{}, the certificate of {name}", CERTIFICATE[0])));
        }
        (None, None) => {}
    }
    match material.first(&TOKEN) {
        // One of EKS is gone before anybody uses it.
        Some((_, token)) if token.starts_with(eks::PREFIX) => {
            Ok(Login::Eks(EksCluster { name: cluster, region }))
        }
        Some((_, token)) => Ok(Login::User(kubeconfig::User::Token(token.trim().to_owned()))),
        None if is_eks => Ok(Login::Eks(EksCluster { name: cluster, region })),
        None => Err(missing(
            "kubeconfig, nor client_certificate and client_key, nor cluster_token, nor cluster_auth = \"eks\": nobody could log in",
        )),
    }
}

/// The EKS cluster that a module itself returned, with all that decides what a token is good for. `shared`: what the template, whose
/// author is the module's, says of the way to log in. Refused with what the module would have to return.
pub fn returned(material: &Material, shared: Option<&str>) -> Result<EksCluster, Problem> {
    let host = material.text("cluster_endpoint").and_then(|text| endpoint::read(text).ok()).map(|at| at.host);
    let by_host = host.as_deref().and_then(eks::region_of);
    let is_eks = match asked(None, shared, material)? {
        Some(auth) => auth == Auth::Eks,
        None => {
            by_host.is_some()
                || material.first(&TOKEN).is_some_and(|(_, token)| token.starts_with(eks::PREFIX))
                || material
                    .first(&KUBECONFIG)
                    .is_some_and(|(_, text)| kubeconfig::read(text).is_ok_and(|given| given.is_eks()))
        }
    };
    if !is_eks {
        return Err(missing("cluster_auth = \"eks\", nor an endpoint of EKS as cluster_endpoint"));
    }
    let Some(name) = material.text("cluster_name") else {
        return Err(missing("cluster_name, which names the cluster that a token is for"));
    };
    // A variable may have given the output; where the cluster is, its endpoint says.
    let region = by_host.or(material.text("region"));
    if let Some(region) = region.filter(|region| !eks::is_region(region)) {
        return Err(wrong(format!("output region is {region:?}: write one like eu-west-1")));
    }
    Ok(EksCluster { name: name.to_owned(), region: region.map(str::to_owned) })
}

/// The URL of an endpoint.
fn server_of(endpoint: &Endpoint) -> String {
    let host = &endpoint.host;
    let host = if host.contains(':') && !host.starts_with('[') { format!("[{host}]") } else { host.clone() };
    format!("https://{host}:{}", endpoint.port)
}

fn wrong(message: String) -> Problem {
    Problem { reason: reasons::KUBECONFIG_GENERATION_FAILED, message, waiting: false }
}

fn wrong_output(name: &str, error: &pem::PemError) -> Problem {
    wrong(format!("output {name}: {error}"))
}

fn missing(what: &str) -> Problem {
    wrong(format!("the module has no output {what}"))
}

#[cfg(test)]
#[path = "recipe/tests.rs"]
mod tests;
