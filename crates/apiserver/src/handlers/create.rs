//! `create`: a new object.

use http::Response;

use super::{Api, Body, Call, request_object, response};
use crate::request::write::WriteKind;
use crate::status::ApiError;
use crate::storage::Target;

impl Api {
    /// Creates an object and answers with it.
    pub(super) async fn create(&self, target: &Target, call: &Call<'_>) -> Result<Response<Body>, ApiError> {
        let mut options = call.write_options(WriteKind::Create)?;
        let object = request_object::decode(target, call, &mut options)?;
        let manager = options.manager(call.user_agent());
        let written = self.storage.create(target, object, &options, &manager).await?;
        response::written(target, call, &written)
    }
}
