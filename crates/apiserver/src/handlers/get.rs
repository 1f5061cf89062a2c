//! `get`: one object.

use http::Response;

use super::{Api, Body, Call, response};
use crate::request::query::GetOptions;
use crate::status::ApiError;
use crate::storage::Target;

impl Api {
    /// Answers with one object.
    pub(super) async fn get(
        &self,
        target: &Target,
        name: &str,
        call: &Call<'_>,
    ) -> Result<Response<Body>, ApiError> {
        if let Some(revision) = GetOptions::parse(&call.query)?.not_older_than {
            self.storage.reach(target, revision).await?;
        }
        response::stored(target, call, self.storage.find(target, name)?)
    }
}
