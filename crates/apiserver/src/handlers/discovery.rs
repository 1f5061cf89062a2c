//! Discovery: `/api`, `/apis`, and the resources of each group and version.

use std::sync::Arc;

use http::{Response, StatusCode, header};

use super::body::whole;
use super::{Body, Call};
use crate::discovery;
use crate::request::accept::{Endpoint, Format, negotiate_discovery};
use crate::request::path::RequestPath;
use crate::resource::Resource;
use crate::status::ApiError;

/// Answers with the document of a discovery path, in the negotiated form.
pub(super) fn discover(
    target: &RequestPath,
    call: &Call<'_>,
    resources: &[Arc<Resource>],
) -> Result<Response<Body>, ApiError> {
    let endpoint = if *target == RequestPath::Groups { Endpoint::Custom } else { Endpoint::BuiltIn };
    let accepted = negotiate_discovery(call.header(header::ACCEPT), endpoint)?;
    let host = call.header(header::HOST).unwrap_or_default();
    let (document, aggregates) = match target {
        RequestPath::CoreVersions if accepted.aggregated => {
            (Some(discovery::aggregated_core(resources)), true)
        }
        RequestPath::Groups if accepted.aggregated => (Some(discovery::aggregated_groups(resources)), true),
        RequestPath::CoreVersions => (Some(discovery::api_versions(host)), false),
        RequestPath::Groups => (Some(discovery::api_groups(resources)), false),
        RequestPath::Group(group) => (discovery::api_group(group, resources), false),
        RequestPath::Resources(version) => {
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
