//! Metadata alone: `PartialObjectMetadata` and its list.

use std::borrow::Borrow;

use serde_json::{Value, json};

use super::list::{self, ListMeta};
use crate::{
    request::accept::MetaVersion,
    resource::Resource,
    status::{ApiError, go},
};

/// The metadata of an object, as an object.
pub fn partial(object: &Value, version: MetaVersion) -> Value {
    let metadata = object.get("metadata").cloned().unwrap_or_else(|| json!({}));
    json!({"kind": "PartialObjectMetadata", "apiVersion": version.api_version(), "metadata": metadata})
}

/// The metadata of many objects, each of which is looked at once and not kept: ten thousand as values are ten times their text.
pub fn partial_list(
    objects: impl IntoIterator<Item = impl Borrow<Value>>,
    meta: &ListMeta,
    version: MetaVersion,
) -> Vec<u8> {
    let mut out = head(meta, version);
    for (index, object) in objects.into_iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        out.extend_from_slice(partial(object.borrow(), version).to_string().as_bytes());
    }
    list::close(out)
}

/// The beginning of the list, up to its items.
pub fn head(meta: &ListMeta, version: MetaVersion) -> Vec<u8> {
    list::begin("PartialObjectMetadataList", version.api_version(), &meta.to_json(), 1024)
}

/// The answer where one object's form is asked of a list.
pub fn not_one(resource: &Resource) -> ApiError {
    let found = go_type(resource, "List");
    let message =
        format!("you requested PartialObjectMetadata, but the requested object is a list ({found})");
    ApiError::NotAcceptable { message, routed: false }
}

/// The answer where a list's form is asked of one object.
pub fn not_many(resource: &Resource) -> ApiError {
    if resource.custom {
        return ApiError::Unclassified("content is not a list".to_owned());
    }
    let found = go_type(resource, "");
    let message =
        format!("you requested PartialObjectMetadataList, but the requested object is not a list ({found})");
    ApiError::NotAcceptable { message, routed: false }
}

/// Go's name of the type of an object, which messages show.
fn go_type(resource: &Resource, suffix: &str) -> String {
    if resource.custom {
        return format!("*unstructured.Unstructured{suffix}");
    }
    let package = match resource.group.as_str() {
        "" | "events.k8s.io" => "core",
        group => group.split('.').next().unwrap_or_default(),
    };
    format!("*{package}.{}{suffix}", resource.kind)
}

/// Returns whether an object is the bookmark that ends the initial events of a watch.
pub(super) fn ends_initial_events(object: &Value) -> bool {
    object["metadata"]["annotations"][super::watch::INITIAL_EVENTS_END] == "true"
}

/// A text member of an object, or nothing.
pub(super) fn text<'a>(object: &'a Value, path: &[&str]) -> &'a str {
    path.iter()
        .try_fold(object, |value, member| value.get(*member))
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// A member as text, whatever it is.
pub(super) fn shown(value: &Value) -> String {
    if value.is_null() { "<no value>".to_owned() } else { go::plain(value) }
}
