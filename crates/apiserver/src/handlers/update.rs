//! `update`: a replacement of an object (PUT).

use http::Response;

use super::{Api, Body, Call, request_object, response};
use crate::request::write::WriteKind;
use crate::status::ApiError;
use crate::storage::{Change, Target};

impl Api {
    /// Replaces an object and answers with the new one.
    pub(super) async fn update(
        &self,
        target: &Target,
        name: &str,
        call: &Call<'_>,
    ) -> Result<Response<Body>, ApiError> {
        let mut options = call.write_options(WriteKind::Update)?;
        let object = request_object::decode(target, call, &mut options)?;
        let manager = options.manager(call.user_agent());
        let written = self.storage.change(target, name, &Change::Replace(object), &options, &manager).await?;
        response::written(target, call, &written)
    }
}
