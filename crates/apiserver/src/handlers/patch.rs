//! `patch`: a change of a part of an object, in one of the four patch formats; an apply may create it.

use http::{Response, header};

use super::response::endpoint;
use super::{Api, Body, Call, response};
use crate::request::accept::{self, PatchType};
use crate::request::body::{self, DecodedBody, Repeated};
use crate::request::write::WriteKind;
use crate::status::ApiError;
use crate::storage::{Change, PatchBody, Target};

impl Api {
    /// Patches an object and answers with the result.
    pub(super) async fn patch(
        &self,
        target: &Target,
        name: &str,
        call: &Call<'_>,
    ) -> Result<Response<Body>, ApiError> {
        let kind = accept::patch_type(call.header(header::CONTENT_TYPE), endpoint(&target.served))?;
        let mut options = call.write_options(WriteKind::Patch(kind))?;
        let (body, repeated) = decode(kind, call).or_else(|error| {
            // A missing object is reported before a malformed patch, except by an apply, which would create it.
            if kind != PatchType::Apply {
                self.storage.get(target, name)?;
            }
            Err(error)
        })?;
        options.repeated = repeated;
        let manager = options.manager(call.user_agent());
        let written = self.storage.change(target, name, &Change::Patch(body), &options, &manager).await?;
        response::written(target, call, &written)
    }
}

/// Decodes the body of a patch.
pub(super) fn decode(kind: PatchType, call: &Call<'_>) -> Result<(PatchBody, Repeated), ApiError> {
    let decoded = body::decode(call.body, kind.format());
    let DecodedBody { value, repeated } = decoded.map_err(|error| error.of_patch())?;
    let body = match kind {
        PatchType::Json => PatchBody::Json(value),
        PatchType::Merge => PatchBody::Merge(value),
        PatchType::Strategic => PatchBody::Strategic(value),
        PatchType::Apply => PatchBody::Apply(value),
    };
    Ok((body, repeated))
}
