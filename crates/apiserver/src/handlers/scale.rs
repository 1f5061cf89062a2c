//! `/scale`: the scale subresource.

use http::{Response, header};

use super::response::endpoint;
use super::{Api, Body, Call, patch, resource, response};
use crate::request::accept;
use crate::request::body;
use crate::request::path::Verb;
use crate::request::write::WriteKind;
use crate::status::ApiError;
use crate::storage::{Change, Target};

impl Api {
    /// Reads or changes the scale of an object.
    pub(super) async fn scale(
        &self,
        verb: Verb,
        target: &Target,
        name: &str,
        call: &Call<'_>,
    ) -> Result<Response<Body>, ApiError> {
        let (change, write) = match verb {
            Verb::Get => return response::scale(&target.served, call, &self.storage.scale(target, name)?),
            Verb::Update => (replacement(target, name, call)?, WriteKind::Update),
            Verb::Patch => {
                let kind = accept::patch_type(call.header(header::CONTENT_TYPE), endpoint(&target.served))?;
                (Change::Patch(patch::decode(kind, call)?.0), WriteKind::Patch(kind))
            }
            Verb::List | Verb::Watch | Verb::Create | Verb::Delete | Verb::DeleteCollection => {
                return Err(resource::not_allowed(&target.served, verb.as_str()));
            }
        };
        let options = call.write_options(write)?;
        let manager = options.manager(call.user_agent());
        let scale = self.storage.change_scale(target, name, &change, &options, &manager).await?;
        response::scale(&target.served, call, &scale)
    }
}

/// Decodes the `Scale` of an update.
fn replacement(target: &Target, name: &str, call: &Call<'_>) -> Result<Change, ApiError> {
    let format = accept::body_format(call.header(header::CONTENT_TYPE), endpoint(&target.served))?;
    let decoded = body::decode_kind(call.body, format, ("autoscaling", "Scale"));
    let scale = decoded.map_err(|error| error.of_kind("Scale", call.body))?.value;
    if let Some(other) = scale["metadata"]["name"].as_str().filter(|other| *other != name) {
        return Err(ApiError::BadRequest(format!(
            "the name of the object ({other}) does not match the name on the URL ({name})"
        )));
    }
    Ok(Change::Replace(scale))
}
