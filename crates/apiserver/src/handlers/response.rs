//! Responses in the negotiated form: one object, a list, a table or metadata alone, as JSON or YAML.

use std::sync::Arc;

use bytes::Bytes;
use http::{Response, StatusCode, header};
use http_body_util::BodyExt as _;
use jiff::Timestamp;
use serde_json::Value;

use super::body::{Chunk, ChunkedBody, FRAME_BYTES, IndentedBody, MAX_BUFFERED, StreamedList, whole};
use super::{Body, Call, SharedBytes};
use crate::output::list::{ListMeta, ListWriter};
use crate::output::partial;
use crate::output::table::{Printer, TableOptions};
use crate::registry::Served;
use crate::request::accept::{Accepted, Endpoint, Format, Transform, negotiate, negotiate_untabled};
use crate::resource::Resource;
use crate::secure_serving::{Finite, UnsharedBytes};
use crate::status::ApiError;
use crate::storage::{Listed, Target, Written, is_as_stored, may_grow, to_bytes, to_value};
use crate::store::Object;

/// The response to a request that failed.
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

/// The kind of endpoint that content negotiation takes a resource for.
pub fn endpoint(served: &Served) -> Endpoint {
    if served.resource.custom { Endpoint::Custom } else { Endpoint::BuiltIn }
}

/// Negotiates the form of objects of a resource.
pub(super) fn negotiated(served: &Served, call: &Call<'_>) -> Result<Accepted, ApiError> {
    negotiate(call.header(header::ACCEPT), endpoint(served))
}

/// One object.
pub(super) fn object(
    served: &Served,
    call: &Call<'_>,
    code: StatusCode,
    object: &Value,
) -> Result<Response<Body>, ApiError> {
    let accepted = negotiated(served, call)?;
    transformed(&served.resource, call, accepted, code, object, || {
        Printer::new(&served.resource, &served.version)
    })
}

/// A `Scale`.
pub(super) fn scale(served: &Served, call: &Call<'_>, scale: &Value) -> Result<Response<Body>, ApiError> {
    let accepted = negotiated(served, call)?;
    transformed(&served.resource, call, accepted, StatusCode::OK, scale, Printer::scale)
}

/// One object of a built-in resource that is never printed as a table.
pub(super) fn untabled(
    resource: &Resource,
    call: &Call<'_>,
    code: StatusCode,
    object: &Value,
) -> Result<Response<Body>, ApiError> {
    let accepted = negotiate_untabled(call.header(header::ACCEPT), Endpoint::BuiltIn)?;
    let [version] = &resource.versions[..] else { return Err(ApiError::UnknownResource) };
    transformed(resource, call, accepted, code, object, || Printer::new(resource, version))
}

fn transformed(
    resource: &Resource,
    call: &Call<'_>,
    accepted: Accepted,
    code: StatusCode,
    object: &Value,
    printer: impl FnOnce() -> Printer,
) -> Result<Response<Body>, ApiError> {
    let bytes = match accepted.transform {
        None => format!("{object}\n").into_bytes(),
        // A Status is no object of the resource, and is never transformed.
        Some(_) if object["kind"] == "Status" => format!("{object}\n").into_bytes(),
        Some((Transform::Table, version)) => {
            let options = TableOptions::parse(&call.query, version)?;
            printer().one(object, options, Timestamp::now())
        }
        Some((Transform::Partial, version)) => {
            format!("{}\n", partial::partial(object, version)).into_bytes()
        }
        Some((Transform::PartialList, _)) => return Err(partial::not_many(resource)),
    };
    Ok(send_bytes(call, accepted, code, bytes.into()))
}

/// One object of the store. Plain JSON is sent from the stored bytes.
pub(super) fn stored(
    target: &Target,
    call: &Call<'_>,
    object: Arc<Object>,
) -> Result<Response<Body>, ApiError> {
    let accepted = negotiated(&target.served, call)?;
    let is_plain = accepted.transform.is_none() && accepted.format == Format::Json;
    let length = object.bytes().len();
    if length > MAX_BUFFERED && is_plain && is_as_stored(target, &object) {
        let object = call.hold_objects(vec![object]).map(|object| Chunk::Stored(object, 0));
        let newline = Chunk::Bytes(Bytes::from_static(b"\n"));
        let body = ChunkedBody::with_length(object.chain([newline]), length + 1);
        let is_indented = is_indented(call, accepted);
        let body = if is_indented { IndentedBody::new(body).boxed_unsync() } else { body.boxed_unsync() };
        let mut response = send(accepted, StatusCode::OK, body);
        response.extensions_mut().insert(SharedBytes);
        if is_indented {
            response.extensions_mut().insert(Finite);
        }
        return Ok(response);
    }
    serialized(&target.served, call, StatusCode::OK, &to_bytes(target, &object))
}

/// The object that a write has stored.
pub(super) fn written(
    target: &Target,
    call: &Call<'_>,
    written: &Written,
) -> Result<Response<Body>, ApiError> {
    let code = if written.created { StatusCode::CREATED } else { StatusCode::OK };
    serialized(&target.served, call, code, &written.object)
}

/// One object that is serialized as JSON already.
fn serialized(
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

/// A list. A small one is sent whole, a large one is serialized while the client reads it.
pub(super) fn list(target: &Target, call: &Call<'_>, listed: Listed) -> Result<Response<Body>, ApiError> {
    let accepted = negotiated(&target.served, call)?;
    let meta = ListMeta {
        resource_version: listed.revision.to_string(),
        continue_token: listed.next.clone().unwrap_or_default(),
        remaining: listed.remaining.map(|remaining| remaining as u64),
    };
    let size = items_bytes(target, &listed.items);
    if size > MAX_BUFFERED {
        return large_list(target, call, listed, &meta, accepted);
    }
    let served = &target.served;
    let items = || listed.items.iter();
    let values = || items().map(|item| to_value(target, item));
    let bytes = match accepted.transform {
        None => {
            let mut writer =
                ListWriter::new(&served.resource, &served.version.name, &meta, size + items().len());
            items().for_each(|item| writer.push(&to_bytes(target, item)));
            writer.finish()
        }
        Some((Transform::Table, version)) => {
            let options = TableOptions::parse(&call.query, version)?;
            Printer::new(&served.resource, &served.version).list(
                &values().collect::<Vec<_>>(),
                &meta,
                options,
                Timestamp::now(),
            )
        }
        Some((Transform::PartialList, version)) => partial::partial_list(values(), &meta, version),
        Some((Transform::Partial, _)) => return Err(partial::not_one(&served.resource)),
    };
    Ok(send_bytes(call, accepted, StatusCode::OK, bytes.into()))
}

/// Bytes of the items of a list, exact up to [`MAX_BUFFERED`]. Defaults that were added to the schema later count: they may
/// turn a few stored bytes into megabytes.
fn items_bytes(target: &Target, items: &[Arc<Object>]) -> usize {
    let mut size: usize = items.iter().map(|item| item.bytes().len()).sum();
    for item in items.iter().filter(|item| may_grow(target, item)) {
        if size > MAX_BUFFERED {
            break;
        }
        size += to_bytes(target, item).len().saturating_sub(item.bytes().len());
    }
    size
}

/// A list that is serialized item by item: of one that is not read, no more than an item is in memory.
fn large_list(
    target: &Target,
    call: &Call<'_>,
    listed: Listed,
    meta: &ListMeta,
    accepted: Accepted,
) -> Result<Response<Body>, ApiError> {
    let (served, count) = (&target.served, listed.items.len());
    // A transformed object, or one of another version, is in memory with the response.
    let is_converted =
        accepted.transform.is_some() || !listed.items.iter().all(|item| is_as_stored(target, item));
    let largest = listed
        .items
        .iter()
        .map(|item| item.bytes().len())
        .max()
        .filter(|bytes| is_converted && *bytes > FRAME_BYTES);
    let list = match accepted.transform {
        None => StreamedList::plain(target, listed.items, |items| call.hold_items(target, items), meta),
        Some((Transform::Table, version)) => {
            let options = TableOptions::parse(&call.query, version)?;
            let printer = Printer::new(&served.resource, &served.version);
            let (head, now) = (printer.head(meta, options), Timestamp::now());
            let row = move |object: &Value| printer.row(object, options, now);
            StreamedList::built(call.hold_items(target, listed.items), count, head, row)
        }
        Some((Transform::PartialList, version)) => {
            let item = move |object: &Value| partial::partial(object, version);
            StreamedList::built(
                call.hold_items(target, listed.items),
                count,
                partial::head(meta, version),
                item,
            )
        }
        Some((Transform::Partial, _)) => return Err(partial::not_one(&served.resource)),
    };
    let body = match accepted.format {
        Format::Yaml => list.yaml(call.budget_user)?.boxed_unsync(),
        Format::Json if is_indented(call, accepted) => list.indented().boxed_unsync(),
        Format::Json => list.compact().boxed_unsync(),
    };
    let mut response = send(accepted, StatusCode::OK, body);
    response.extensions_mut().insert(Finite);
    if let Some(bytes) = largest {
        response.extensions_mut().insert(UnsharedBytes(bytes));
    }
    Ok(response)
}

fn send(accepted: Accepted, code: StatusCode, body: Body) -> Response<Body> {
    Response::builder()
        .status(code)
        .header(header::CONTENT_TYPE, accepted.format.media_type())
        .body(body)
        .expect("headers of our own are valid")
}

fn is_indented(call: &Call<'_>, accepted: Accepted) -> bool {
    accepted.pretty || call.query.pretty(call.user_agent())
}

fn send_bytes(call: &Call<'_>, accepted: Accepted, code: StatusCode, json: Bytes) -> Response<Body> {
    send(accepted, code, whole(encode(call, accepted, json)))
}

/// Encodes JSON in the negotiated format.
fn encode(call: &Call<'_>, accepted: Accepted, json: Bytes) -> Bytes {
    let parsed = || serde_json::from_slice::<Value>(&json).expect("a response is JSON");
    match accepted.format {
        Format::Yaml => serde_saphyr::to_string(&parsed()).expect("a JSON value is YAML").into(),
        Format::Json if is_indented(call, accepted) => {
            serde_json::to_vec_pretty(&parsed()).expect("a value is JSON").into()
        }
        Format::Json => json,
    }
}
