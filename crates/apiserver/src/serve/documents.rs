//! What the server says of itself: discovery, OpenAPI, version, health.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use http::{Response, StatusCode, header};
use serde_json::{Value, json};

use super::{Api, Body, Call, answer, whole};
use crate::builtin;
use crate::discovery;
use crate::openapi;
use crate::registry::Catalogue;
use crate::request::accept::{Endpoint, Format, negotiate_discovery, negotiate_openapi};
use crate::request::path::{GroupVersion, Target};
use crate::resource::Resource;
use crate::status::ApiError;

/// The index, and each document with its path and hash.
type OpenApiV3 = (Value, Vec<(String, String, Value)>);

/// OpenAPI documents of one catalogue, made when they are first asked for.
#[derive(Debug, Default)]
pub struct Descriptions {
    all: OnceLock<Vec<Arc<Resource>>>,
    v3: OnceLock<OpenApiV3>,
    v2: OnceLock<String>,
    v2_protobuf: OnceLock<Bytes>,
}

impl Descriptions {
    /// Stored and virtual resources.
    fn resources(&self, catalogue: &Catalogue) -> &[Arc<Resource>] {
        self.all.get_or_init(|| {
            catalogue.resources().iter().cloned().chain(builtin::virtual_resources()).collect()
        })
    }

    fn v3(&self, catalogue: &Catalogue) -> &OpenApiV3 {
        self.v3.get_or_init(|| openapi::all(self.resources(catalogue)))
    }

    fn v2(&self, catalogue: &Catalogue) -> &str {
        self.v2.get_or_init(|| openapi::document_v2(self.resources(catalogue)).to_string())
    }

    fn v2_protobuf(&self, catalogue: &Catalogue) -> Bytes {
        let made = || openapi::gnostic::document(&openapi::document_v2(self.resources(catalogue))).into();
        self.v2_protobuf.get_or_init(made).clone()
    }
}

impl Api {
    /// Everything that is not a resource.
    pub(super) fn document(&self, target: &Target, call: &Call<'_>) -> Result<Response<Body>, ApiError> {
        let catalogue = self.engine.registry.current();
        let descriptions = &catalogue.descriptions;
        match target {
            Target::CoreVersions | Target::Groups | Target::Group(_) | Target::Resources(_) => {
                discover(target, call, descriptions.resources(&catalogue))
            }
            Target::OpenApiV3Index => openapi_answer(call, descriptions.v3(&catalogue).0.to_string()),
            Target::OpenApiV3(version) => {
                let path = document_path(version);
                let document = descriptions.v3(&catalogue).1.iter().find(|(known, ..)| *known == path);
                let (_, _, document) = document.ok_or(ApiError::PageNotFound)?;
                openapi_answer(call, document.to_string())
            }
            Target::OpenApiV2 if wants_protobuf(call) => Ok(Response::builder()
                .header(header::CONTENT_TYPE, openapi::gnostic::CONTENT_TYPE)
                .body(whole(descriptions.v2_protobuf(&catalogue)))
                .expect("headers of our own are valid")),
            Target::OpenApiV2 => openapi_answer(call, descriptions.v2(&catalogue).to_owned()),
            Target::Version => Ok(json_answer(&version())),
            Target::Health(..) => Ok(answer::text("ok")),
            Target::Metrics if *call.method == http::Method::GET => Ok(self.metrics_answer()),
            Target::UnknownResource => Err(ApiError::UnknownResource),
            Target::Metrics => Err(ApiError::MethodNotAllowed),
            Target::Root | Target::Unknown | Target::Malformed | Target::Resource(_) => {
                Err(ApiError::PageNotFound)
            }
        }
    }
}

/// Whether a client of `/openapi/v2` asks for protobuf, and does not take JSON.
fn wants_protobuf(call: &Call<'_>) -> bool {
    let accept = call.header(header::ACCEPT).unwrap_or_default();
    negotiate_openapi(Some(accept)).is_none()
        && accept.split(',').any(|one| openapi::gnostic::ACCEPT.contains(&one.trim()))
}

fn document_path(version: &GroupVersion) -> String {
    if version.group.is_empty() {
        format!("api/{}", version.version)
    } else {
        format!("apis/{}/{}", version.group, version.version)
    }
}

fn discover(
    target: &Target,
    call: &Call<'_>,
    resources: &[Arc<Resource>],
) -> Result<Response<Body>, ApiError> {
    let endpoint = if *target == Target::Groups { Endpoint::Custom } else { Endpoint::BuiltIn };
    let accepted = negotiate_discovery(call.header(header::ACCEPT), endpoint)?;
    let host = call.header(header::HOST).unwrap_or_default();
    let (document, aggregates) = match target {
        Target::CoreVersions if accepted.aggregated => (Some(discovery::aggregated_core(resources)), true),
        Target::Groups if accepted.aggregated => (Some(discovery::aggregated_groups(resources)), true),
        Target::CoreVersions => (Some(discovery::api_versions(host)), false),
        Target::Groups => (Some(discovery::api_groups(resources)), false),
        Target::Group(group) => (discovery::api_group(group, resources), false),
        Target::Resources(version) => {
            (discovery::api_resources(&version.group, &version.version, resources), false)
        }
        _ => (None, false),
    };
    let document = document.ok_or(ApiError::PageNotFound)?;
    let media_type = if aggregates { accepted.content_type() } else { accepted.format.media_type() };
    let etag = format!("\"{}\"", discovery::content_hash(&document));
    if call.header(header::IF_NONE_MATCH) == Some(etag.as_str()) {
        let unchanged = Response::builder().status(StatusCode::NOT_MODIFIED).header(header::ETAG, etag);
        return Ok(unchanged.body(whole("")).expect("headers of our own are valid"));
    }
    let bytes = match accepted.format {
        Format::Json => document.to_string(),
        Format::Yaml => serde_saphyr::to_string(&document).expect("a JSON value is YAML"),
    };
    Ok(Response::builder()
        .header(header::CONTENT_TYPE, media_type)
        .header(header::VARY, "Accept")
        .header(header::ETAG, etag)
        .body(whole(bytes))
        .expect("headers of our own are valid"))
}

fn openapi_answer(call: &Call<'_>, document: String) -> Result<Response<Body>, ApiError> {
    if negotiate_openapi(call.header(header::ACCEPT)).is_none() {
        let message = "only the following media types are accepted: application/json".to_owned();
        return Err(ApiError::NotAcceptable { message, routed: false });
    }
    Ok(Response::builder()
        .header(header::CONTENT_TYPE, "application/json")
        .body(whole(document))
        .expect("headers of our own are valid"))
}

pub(super) fn json_answer(value: &Value) -> Response<Body> {
    Response::builder()
        .header(header::CONTENT_TYPE, "application/json")
        .body(whole(format!("{value}\n")))
        .expect("headers of our own are valid")
}

/// The version of Kubernetes whose API this is; clients decide by it what they may use.
fn version() -> Value {
    json!({
        "major": "1",
        "minor": "36",
        "gitVersion": concat!("v1.36.0+capt-", env!("CARGO_PKG_VERSION")),
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "none",
        "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, if cfg!(target_arch = "x86_64") { "amd64" } else { std::env::consts::ARCH }),
    })
}
