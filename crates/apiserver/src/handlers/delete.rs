//! `delete`: one object.

use http::{Response, StatusCode, header};

use super::{Api, Body, Call, response};
use crate::request::accept::{self, Endpoint};
use crate::request::body;
use crate::request::delete::DeleteOptions;
use crate::status::ApiError;
use crate::storage::Target;

impl Api {
    /// Deletes an object. Answers with the object where finalizers keep it, else with a `Status`.
    pub(super) async fn delete(
        &self,
        target: &Target,
        name: &str,
        call: &Call<'_>,
    ) -> Result<Response<Body>, ApiError> {
        let options = delete_options(call)?;
        let deleted = self.storage.delete(target, name, &options).await?;
        let waits = deleted["metadata"].get("deletionTimestamp").is_some();
        // As kube-apiserver: only a deletion with the deprecated `orphanDependents: false` is answered with 202.
        let accepted = waits && options.orphan_dependents == Some(false);
        let code = if accepted { StatusCode::ACCEPTED } else { StatusCode::OK };
        response::object(&target.served, call, code, &deleted)
    }
}

/// Decodes the options of a deletion: of the body, or without one of the query.
pub(super) fn delete_options(call: &Call<'_>) -> Result<DeleteOptions, ApiError> {
    if call.body.is_empty() {
        return DeleteOptions::from_query(&call.query);
    }
    // DeleteOptions are a built-in kind, whatever is deleted.
    let format = accept::body_format(call.header(header::CONTENT_TYPE), Endpoint::BuiltIn)?;
    let decoded = body::decode_kind(call.body, format, ("", "DeleteOptions"));
    let options = DeleteOptions::from_body(&decoded.map_err(|error| error.of_options())?.value);
    // The deletion of a collection may take long from here on.
    call.release_decode_permit();
    options
}
