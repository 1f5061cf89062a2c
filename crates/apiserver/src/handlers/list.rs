//! `list`: a collection, or a page of it.

use http::Response;

use super::{Api, Body, Call, response};
use crate::request::query::ListOptions;
use crate::status::ApiError;
use crate::storage::Target;

impl Api {
    /// Answers with the selected objects of a collection.
    pub(super) async fn list(&self, target: &Target, call: &Call<'_>) -> Result<Response<Body>, ApiError> {
        let options = list_options(target, call)?;
        self.storage.reach_list(target, &options).await?;
        response::list(target, call, self.storage.list(target, &options)?)
    }
}

/// Parses the options of a list, a watch or the deletion of a collection.
pub(super) fn list_options(target: &Target, call: &Call<'_>) -> Result<ListOptions, ApiError> {
    let options = ListOptions::parse(&call.query)?;
    let known = options.fields.check(&target.served.resource, &target.served.version);
    known.map_err(|error| ApiError::BadRequest(error.to_string()))?;
    Ok(options)
}
