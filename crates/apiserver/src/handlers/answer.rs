//! Answers: one object, a list, a table, metadata alone; JSON or YAML, plain or compressed.

use std::sync::Arc;

use bytes::Bytes;
use http::{Response, StatusCode, header};
use http_body_util::BodyExt as _;
use jiff::Timestamp;
use serde_json::Value;

use super::pieces::{self, Indented, LargeList, Piece, Pieces};
use super::{Body, Call, Shared, whole};
use crate::output::list::{ListMeta, ListWriter};
use crate::output::partial;
use crate::output::table::{Printer, TableOptions};
use crate::registry::Served;
use crate::request::accept::{Accepted, Endpoint, Format, Transform, negotiate, negotiate_untabled};
use crate::resource::Resource;
use crate::secure_serving::{Finite, Made};
use crate::status::ApiError;
use crate::storage::{Listed, Target, is_as_stored, may_grow, to_bytes, to_value};
use crate::store::Object;

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
    transformed(&served.resource, call, accepted, code, object, || {
        Printer::new(&served.resource, &served.version)
    })
}

/// A `Scale`, in the form the client wants.
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
        // What is no object of the resource, such as a Status, has one form.
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

/// One object of the store, in the form the client wants. Plain JSON is sent as it lies there, if it still does then.
pub(super) fn stored(
    target: &Target,
    call: &Call<'_>,
    object: Arc<Object>,
) -> Result<Response<Body>, ApiError> {
    let accepted = negotiated(&target.served, call)?;
    let is_plain = accepted.transform.is_none() && accepted.format == Format::Json;
    let length = object.bytes().len();
    if length > pieces::SMALL && is_plain && is_as_stored(target, &object) {
        let object = call.keep(vec![object]).map(|object| Piece::Stored(object, 0));
        let body = Pieces::known(object.chain([Piece::Made(Bytes::from_static(b"\n"))]), length + 1);
        let is_indented = is_indented(call, accepted);
        let body = if is_indented { Indented::new(body).boxed_unsync() } else { body.boxed_unsync() };
        let mut response = send(accepted, StatusCode::OK, body);
        response.extensions_mut().insert(Shared);
        if is_indented {
            response.extensions_mut().insert(Finite);
        }
        return Ok(response);
    }
    written(&target.served, call, StatusCode::OK, &to_bytes(target, &object))
}

/// One object that is JSON already, in the form the client wants.
pub(super) fn written(
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

/// A list, in the form the client wants. A small one is sent whole, a large one is made while the client reads it.
pub(super) fn list(target: &Target, call: &Call<'_>, listed: Listed) -> Result<Response<Body>, ApiError> {
    let accepted = negotiated(&target.served, call)?;
    let meta = ListMeta {
        resource_version: listed.revision.to_string(),
        continue_token: listed.next.clone().unwrap_or_default(),
        remaining: listed.remaining.map(|remaining| remaining as u64),
    };
    let size = shown_bytes(target, &listed.items);
    if size > pieces::SMALL {
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

/// Bytes of the items of a list as they are shown, if that is a small one. Defaults that came after them count: a few bytes may
/// have become megabytes.
fn shown_bytes(target: &Target, items: &[Arc<Object>]) -> usize {
    let mut size: usize = items.iter().map(|item| item.bytes().len()).sum();
    for item in items.iter().filter(|item| may_grow(target, item)) {
        if size > pieces::SMALL {
            break;
        }
        size += to_bytes(target, item).len().saturating_sub(item.bytes().len());
    }
    size
}

/// A list that is made piece by piece: of one that nobody reads, a piece is there and not more.
fn large_list(
    target: &Target,
    call: &Call<'_>,
    listed: Listed,
    meta: &ListMeta,
    accepted: Accepted,
) -> Result<Response<Body>, ApiError> {
    let (served, count) = (&target.served, listed.items.len());
    // What is made of an object waits with the answer, and so do the bytes of other versions.
    let is_made = accepted.transform.is_some() || !listed.items.iter().all(|item| is_as_stored(target, item));
    let largest = listed
        .items
        .iter()
        .map(|item| item.bytes().len())
        .max()
        .filter(|bytes| is_made && *bytes > pieces::FRAME);
    let list = match accepted.transform {
        None => LargeList::plain(target, listed.items, |items| call.wait(target, items), meta),
        Some((Transform::Table, version)) => {
            let options = TableOptions::parse(&call.query, version)?;
            let printer = Printer::new(&served.resource, &served.version);
            let (head, now) = (printer.head(meta, options), Timestamp::now());
            let row = move |object: &Value| printer.row(object, options, now);
            LargeList::made(call.wait(target, listed.items), count, head, row)
        }
        Some((Transform::PartialList, version)) => {
            let item = move |object: &Value| partial::partial(object, version);
            LargeList::made(call.wait(target, listed.items), count, partial::head(meta, version), item)
        }
        Some((Transform::Partial, _)) => return Err(partial::not_one(&served.resource)),
    };
    let body = match accepted.format {
        Format::Yaml => list.yaml(call.payer)?.boxed_unsync(),
        Format::Json if is_indented(call, accepted) => list.indented().boxed_unsync(),
        Format::Json => list.compact().boxed_unsync(),
    };
    let mut response = send(accepted, StatusCode::OK, body);
    response.extensions_mut().insert(Finite);
    if let Some(bytes) = largest {
        response.extensions_mut().insert(Made(bytes));
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

/// JSON in the form the client wants.
fn encode(call: &Call<'_>, accepted: Accepted, json: Bytes) -> Bytes {
    let parsed = || serde_json::from_slice::<Value>(&json).expect("an answer is JSON");
    match accepted.format {
        Format::Yaml => serde_saphyr::to_string(&parsed()).expect("a JSON value is YAML").into(),
        Format::Json if is_indented(call, accepted) => {
            serde_json::to_vec_pretty(&parsed()).expect("a value is JSON").into()
        }
        Format::Json => json,
    }
}
