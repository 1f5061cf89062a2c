//! The object in the body of a create or an update.

use http::header;
use serde_json::Value;

use super::Call;
use super::response::endpoint;
use crate::request::accept::{self, BodyFormat, Format};
use crate::request::body;
use crate::request::write::{FieldValidation, WriteOptions};
use crate::status::ApiError;
use crate::storage::Target;

/// Decodes the object and checks that it is of the kind of the path; duplicate fields are noted in the options.
pub(super) fn decode(
    target: &Target,
    call: &Call<'_>,
    options: &mut WriteOptions,
) -> Result<Value, ApiError> {
    let (resource, version) = (&target.served.resource, &target.served.version.name);
    let format = accept::body_format(call.header(header::CONTENT_TYPE), endpoint(&target.served))?;
    let decoded = body::decode_kind(call.body, format, (&resource.group, &resource.kind));
    let mut decoded = decoded.map_err(|error| error.of_kind(&resource.kind, call.body))?;
    let value = decoded.value.clone();
    body::check_kind(&mut decoded.value, resource, version, call.body).map_err(|error| {
        if options.field_validation == FieldValidation::Ignore && is_missing_kind(&error) {
            missing_kind(&resource.kind, version, format, call, &value)
        } else {
            error
        }
    })?;
    options.repeated = decoded.repeated;
    Ok(decoded.value)
}

fn is_missing_kind(error: &ApiError) -> bool {
    matches!(error, ApiError::BadRequest(text) if text.contains("Object 'Kind' is missing in '"))
}

/// The error for a body without a kind from the decoder that kube-apiserver uses where field validation is off.
fn missing_kind(kind: &str, version: &str, format: BodyFormat, call: &Call<'_>, value: &Value) -> ApiError {
    let body = match format {
        BodyFormat::Text(Format::Json) | BodyFormat::Protobuf => {
            String::from_utf8_lossy(call.body).into_owned()
        }
        BodyFormat::Text(Format::Yaml) => value.to_string(),
    };
    let missing = format!("Object 'Kind' is missing in '{body}'");
    ApiError::BadRequest(format!("{kind} in version \"{version}\" cannot be handled as a {kind}: {missing}"))
}
