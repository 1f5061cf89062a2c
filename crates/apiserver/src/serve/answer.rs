//! Answers: one object, a list, a table, metadata alone; JSON or YAML, plain or compressed.

use bytes::Bytes;
use http::{Response, StatusCode, header};
use jiff::Timestamp;
use serde_json::Value;

use super::{Body, Call, whole};
use crate::engine::Listed;
use crate::output::list::{ListMeta, ListWriter};
use crate::output::partial;
use crate::output::table::{Printer, TableOptions};
use crate::registry::Served;
use crate::request::accept::{Accepted, Endpoint, Format, Transform, negotiate};
use crate::status::ApiError;

/// The answer to a request that failed.
pub(super) fn error(error: &ApiError, call: &Call<'_>) -> Response<Body> {
    let (mut media_type, mut body) = error.body();
    if media_type == Format::Json.media_type()
        && let Ok(accepted) = negotiate(call.header(header::ACCEPT), Endpoint::Custom)
    {
        media_type = accepted.format.media_type();
        body = encode(call, accepted, body);
    }
    let mut response = Response::builder().status(error.code()).header(header::CONTENT_TYPE, media_type);
    if let Some(seconds) = error.retry_after() {
        response = response.header(header::RETRY_AFTER, seconds);
    }
    response.body(whole(body)).expect("headers of our own are valid")
}

/// A short plain text.
pub fn text(text: &'static str) -> Response<Body> {
    Response::builder()
        .header(header::CONTENT_TYPE, "text/plain; charset=utf-8")
        .body(whole(text))
        .expect("headers of our own are valid")
}

/// What kind of resource this is to content negotiation.
pub fn endpoint(served: &Served) -> Endpoint {
    if served.resource.custom { Endpoint::Custom } else { Endpoint::BuiltIn }
}

/// What the client accepts of this resource.
pub(super) fn negotiated(served: &Served, call: &Call<'_>) -> Result<Accepted, ApiError> {
    negotiate(call.header(header::ACCEPT), endpoint(served))
}

/// One object, in the form the client wants.
pub(super) fn object(
    served: &Served,
    call: &Call<'_>,
    code: StatusCode,
    object: &Value,
) -> Result<Response<Body>, ApiError> {
    let accepted = negotiated(served, call)?;
    let bytes = match accepted.transform {
        None => format!("{object}\n").into_bytes(),
        // What is no object of the resource, such as a Status, has one form.
        Some(_) if object["kind"] == "Status" => format!("{object}\n").into_bytes(),
        Some((Transform::Table, version)) => {
            let options = TableOptions::parse(&call.query, version)?;
            Printer::new(&served.resource, &served.version).one(object, options, Timestamp::now())
        }
        Some((Transform::Partial, version)) => {
            format!("{}\n", partial::partial(object, version)).into_bytes()
        }
        Some((Transform::PartialList, _)) => return Err(partial::not_many(&served.resource)),
    };
    Ok(send_bytes(call, accepted, code, bytes.into()))
}

/// One object of the store, in the form the client wants. Plain JSON is sent as it lies there.
pub(super) fn stored(
    served: &Served,
    call: &Call<'_>,
    code: StatusCode,
    json: &Bytes,
) -> Result<Response<Body>, ApiError> {
    let accepted = negotiated(served, call)?;
    if accepted.transform.is_some() {
        let value = serde_json::from_slice(json).expect("the store holds the JSON it was given");
        return object(served, call, code, &value);
    }
    let line = [&json[..], b"\n"].concat();
    Ok(send_bytes(call, accepted, code, line.into()))
}

/// A list, in the form the client wants. Plain JSON is put together from the bytes of the store.
pub(super) fn list(served: &Served, call: &Call<'_>, listed: &Listed) -> Result<Response<Body>, ApiError> {
    let accepted = negotiated(served, call)?;
    let meta = ListMeta {
        resource_version: listed.revision.to_string(),
        continue_token: listed.next.clone().unwrap_or_default(),
        remaining: listed.remaining.map(|remaining| remaining as u64),
    };
    let parse = |bytes: &Bytes| -> Value {
        serde_json::from_slice(bytes).expect("the store holds the JSON it was given")
    };
    let items = listed.items.iter().map(parse);
    let bytes = match accepted.transform {
        None => {
            let size = listed.items.iter().map(|item| item.len() + 1).sum();
            let mut writer = ListWriter::new(&served.resource, &served.version.name, &meta, size);
            listed.items.iter().for_each(|item| writer.push(item));
            writer.finish()
        }
        Some((Transform::Table, version)) => {
            let options = TableOptions::parse(&call.query, version)?;
            Printer::new(&served.resource, &served.version).list(
                &items.collect::<Vec<_>>(),
                &meta,
                options,
                Timestamp::now(),
            )
        }
        Some((Transform::PartialList, version)) => partial::partial_list(items, &meta, version),
        Some((Transform::Partial, _)) => return Err(partial::not_one(&served.resource)),
    };
    Ok(send_bytes(call, accepted, StatusCode::OK, bytes.into()))
}

fn send_bytes(call: &Call<'_>, accepted: Accepted, code: StatusCode, json: Bytes) -> Response<Body> {
    Response::builder()
        .status(code)
        .header(header::CONTENT_TYPE, accepted.format.media_type())
        .body(whole(encode(call, accepted, json)))
        .expect("headers of our own are valid")
}

/// JSON in the form the client wants.
fn encode(call: &Call<'_>, accepted: Accepted, json: Bytes) -> Bytes {
    let indented = accepted.pretty || call.query.pretty(call.user_agent());
    let parsed = || serde_json::from_slice::<Value>(&json).expect("an answer is JSON");
    match accepted.format {
        Format::Yaml => serde_saphyr::to_string(&parsed()).expect("a JSON value is YAML").into(),
        Format::Json if indented => serde_json::to_vec_pretty(&parsed()).expect("a value is JSON").into(),
        Format::Json => json,
    }
}
