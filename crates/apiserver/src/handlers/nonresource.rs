//! Routes a request on a path that is no resource; answers `/` and `/version` itself.

use std::sync::Arc;

use http::{Method, Response, header};
use serde_json::{Value, json};

use super::body::whole;
use super::{Api, Body, Call, discovery, health};
use crate::builtin;
use crate::registry::Catalogue;
use crate::request::path::RequestPath;
use crate::resource::Resource;
use crate::status::ApiError;

/// Stored and virtual resources.
pub(super) fn resources(catalogue: &Catalogue) -> Vec<Arc<Resource>> {
    catalogue.resources().iter().cloned().chain(builtin::virtual_resources()).collect()
}

impl Api {
    /// Answers a request on a path that is no resource.
    pub(super) async fn nonresource(
        &self,
        target: &RequestPath,
        call: &Call<'_>,
    ) -> Result<Response<Body>, ApiError> {
        let catalogue = self.storage.registry.current();
        let resources = resources(&catalogue);
        if *call.method != Method::GET && is_routed(target, &resources) {
            return Err(ApiError::MethodNotAllowed);
        }
        match target {
            RequestPath::CoreVersions
            | RequestPath::Groups
            | RequestPath::Group(_)
            | RequestPath::Resources(_) => discovery::discover(target, call, &resources),
            RequestPath::OpenApiV3Index | RequestPath::OpenApiV3(_) | RequestPath::OpenApiV2 => {
                drop((catalogue, resources));
                self.openapi(target, call).await
            }
            RequestPath::Version => Ok(json_answer(&crate::version::document())),
            RequestPath::Root => Ok(root(&resources)),
            RequestPath::Health(probe, check) => self.health(*probe, check.as_deref(), call),
            RequestPath::Metrics if [Method::GET, Method::HEAD].contains(call.method) => {
                Ok(self.metrics_answer())
            }
            RequestPath::UnknownResource => Err(ApiError::UnknownResource),
            RequestPath::Metrics => Err(ApiError::MethodNotAllowed),
            RequestPath::Unknown | RequestPath::Malformed | RequestPath::Resource(_) => {
                Err(ApiError::PageNotFound)
            }
        }
    }
}

/// Returns whether kube-apiserver has a router for the path, which refuses other methods than GET.
fn is_routed(target: &RequestPath, resources: &[Arc<Resource>]) -> bool {
    match target {
        RequestPath::CoreVersions | RequestPath::Version => true,
        RequestPath::Resources(of) => {
            resources.iter().any(|resource| !resource.custom && resource.group == of.group)
        }
        _ => false,
    }
}

/// `/`: the paths that are served, without those of objects.
fn root(resources: &[Arc<Resource>]) -> Response<Body> {
    let mut paths: Vec<String> = [
        "/api",
        "/api/v1",
        "/apis",
        "/apis/",
        "/metrics",
        "/openapi/v2",
        "/openapi/v3",
        "/openapi/v3/",
        "/version",
    ]
    .map(str::to_owned)
    .into();
    for group in crate::discovery::groups(resources) {
        paths.push(format!("/apis/{}", group.name));
        paths.extend(group.versions.iter().map(|version| format!("/apis/{}/{version}", group.name)));
    }
    paths.extend(health::paths());
    paths.sort_unstable();
    Response::builder()
        .header(header::CONTENT_TYPE, "application/json")
        .body(whole(format!("{:#}", json!({"paths": paths}))))
        .expect("headers of our own are valid")
}

fn json_answer(value: &Value) -> Response<Body> {
    Response::builder()
        .header(header::CONTENT_TYPE, "application/json")
        .body(whole(format!("{value}\n")))
        .expect("headers of our own are valid")
}
