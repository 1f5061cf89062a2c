//! `/finalize` of a namespace: the only way to change the finalizers in its spec.

use std::sync::Arc;

use http::{Response, StatusCode, header};

use super::{Api, Body, Call, request_object, response};
use crate::registry::Served;
use crate::request::accept::{self, Endpoint};
use crate::request::write::WriteKind;
use crate::status::ApiError;
use crate::storage::Target;

impl Api {
    /// Replaces the finalizers in the spec of a namespace.
    pub(super) async fn finalize(
        &self,
        served: &Arc<Served>,
        name: Option<&str>,
        call: &Call<'_>,
    ) -> Result<Response<Body>, ApiError> {
        let target = Target { served: Arc::clone(served), namespace: None, status: false };
        let name = name.filter(|_| call.method == http::Method::PUT).ok_or(ApiError::MethodNotAllowed)?;
        // Content negotiation fails before anything is changed.
        accept::negotiate_untabled(call.header(header::ACCEPT), Endpoint::BuiltIn)?;
        let mut options = call.write_options(WriteKind::Update)?;
        let object = request_object::decode(&target, call, &mut options)?;
        let namespace = self.storage.finalize_as(&target, name, object, &options).await?;
        response::untabled(&served.resource, call, StatusCode::OK, &namespace)
    }
}
