//! Objects as the store keeps them: JSON of the storage version, with a gap for the resource version.

use bytes::{BufMut, Bytes, BytesMut};
use serde_json::Value;

use super::Target;
use crate::bounds;
use crate::builtin::events;
use crate::object::{Meta, update};
use crate::status::ApiError;
use crate::store::{self, Object};

/// More bytes than `apiVersion` and `kind` take, of which a kind and a version have 63 and a group 253.
const LONGEST_TYPE: usize = 1 << 10;

/// The stored form of an object. The resource version goes to the end of `metadata`, where the store writes it
/// when it takes the revision; one that `object` has is left out.
pub fn to_store(target: &Target, object: &Value) -> store::Value {
    if is_new_event(target) {
        return encode(&events::to_core(object.clone()), "v1");
    }
    let resource = &target.served.resource;
    encode(object, &crate::resource::api_version(&resource.group, &resource.storage_version))
}

/// The stored form of an object, unless it is larger than an object may be.
pub fn to_store_within_bounds(target: &Target, object: &Value) -> Result<store::Value, ApiError> {
    let value = to_store(target, object);
    bounds::check(object, value.len())?;
    Ok(value)
}

/// Drops what the store does not keep: fields that the storage version or the version of the path does not have, and the
/// difference between an empty list and a missing one.
pub fn drop_unstored(target: &Target, object: &mut Value) {
    let served = &target.served;
    if served.resource.custom {
        if let Some(stored) = &served.stored_schema {
            stored.prune(object);
        }
    } else if served.resource.group != "apiextensions.k8s.io" {
        let members = object.as_object_mut().into_iter().flatten();
        members.filter(|(name, _)| *name != "metadata").for_each(|(_, value)| nullify(value));
    }
}

fn nullify(value: &mut Value) {
    match value {
        Value::Array(items) if items.is_empty() => *value = Value::Null,
        Value::Array(items) => items.iter_mut().for_each(nullify),
        Value::Object(members) => members.iter_mut().for_each(|(_, member)| nullify(member)),
        _ => {}
    }
}

fn encode(object: &Value, api_version: &str) -> store::Value {
    // Most objects fit; what is kept is copied to its own length.
    let mut bytes = BytesMut::with_capacity(2048);
    let mut after = None;
    let members = || object.as_object().into_iter().flatten();
    let is_type = |key: &str| matches!(key, "apiVersion" | "kind");
    // Lists take from the beginning what they do not show.
    let first = members().filter(|(key, _)| is_type(key));
    let members = first.chain(members().filter(|(key, _)| !is_type(key)));
    for (index, (key, value)) in members.enumerate() {
        bytes.put_u8(if index == 0 { b'{' } else { b',' });
        put_json(&mut bytes, &Value::from(key.as_str()));
        bytes.put_u8(b':');
        match key.as_str() {
            "metadata" => {
                put_metadata(&mut bytes, value);
                after = Some(bytes.len());
                bytes.put_slice(b"\"}");
            }
            "apiVersion" => put_json(&mut bytes, &Value::from(api_version)),
            _ => put_json(&mut bytes, value),
        }
    }
    bytes.put_u8(b'}');
    match after {
        Some(gap) => {
            let mut before = bytes.freeze();
            let after = before.split_off(gap);
            store::Value::with_gap(before, after)
        }
        None => store::Value::plain(bytes.freeze()),
    }
}

fn put_metadata(bytes: &mut BytesMut, metadata: &Value) {
    bytes.put_u8(b'{');
    for (key, value) in
        metadata.as_object().into_iter().flatten().filter(|(key, _)| *key != "resourceVersion")
    {
        put_json(bytes, &Value::from(key.as_str()));
        bytes.put_u8(b':');
        put_json(bytes, value);
        bytes.put_u8(b',');
    }
    bytes.put_slice(b"\"resourceVersion\":\"");
}

fn put_json(bytes: &mut BytesMut, value: &Value) {
    serde_json::to_writer(bytes.writer(), value).expect("a JSON value is written to memory");
}

/// Events of both groups are the same objects; they are stored as the core group has them.
fn is_new_event(target: &Target) -> bool {
    target.served.resource.group == "events.k8s.io"
}

/// The stored form of an object of which deletion or garbage collection changed the metadata. One that was given more defaults since it
/// was stored than there is room for is stored without them: it can go all the same, and nothing is stored that is larger than an
/// object may be.
pub fn to_store_marked(target: &Target, stored: &Object, marked: &Value) -> store::Value {
    let value = to_store(target, marked);
    if !may_grow(target, stored) || bounds::check(marked, value.len()).is_ok() {
        return value;
    }
    let mut bare = read(target, stored, false);
    bare["metadata"] = marked["metadata"].clone();
    to_store(target, &bare)
}

/// A stored object as JSON, in the version of the path.
pub fn to_value(target: &Target, object: &Object) -> Value {
    read(target, object, true)
}

fn read(target: &Target, object: &Object, with_defaults: bool) -> Value {
    let mut value: Value =
        serde_json::from_slice(object.bytes()).expect("the store holds the JSON it was given");
    if is_new_event(target) {
        return events::from_core(value);
    }
    let served = &target.served;
    let storage_schema = served.stored_schema.as_ref().unwrap_or(&served.schema);
    let older = older_version(target, object);
    if with_defaults && may_lack_defaults(target, object) {
        // What is stored has the defaults of the version that it is stored in; another one only leaves fields out. A definition
        // that was given more of them since than an object may have takes nothing from what can be read.
        let of_older =
            |older| served.older_schemas.iter().find(|(known, _)| known == older).map(|(_, schema)| schema);
        if let Some(schema) = older.map_or(Some(storage_schema), of_older) {
            let _ = schema.default(&mut value);
        }
    }
    if value["apiVersion"] != served.api_version.as_str() {
        value["apiVersion"] = served.api_version.as_str().into();
        if served.stored_schema.is_some() || older.is_some() {
            served.schema.prune(&mut value);
        }
    }
    value
}

/// The version that a stored object has, where that is one that was the storage version before.
fn older_version<'o>(target: &Target, object: &'o Object) -> Option<&'o str> {
    let resource = &target.served.resource;
    if resource.stored_versions.iter().all(|version| *version == resource.storage_version) {
        return None;
    }
    let stored = stored_api_version(object.bytes())?;
    (stored != crate::resource::api_version(&resource.group, &resource.storage_version)).then_some(stored)
}

/// The `apiVersion` of a stored object, which is among its first members.
fn stored_api_version(bytes: &[u8]) -> Option<&str> {
    const KEY: &[u8] = b"\"apiVersion\":\"";
    let head = &bytes[..bytes.len().min(LONGEST_TYPE)];
    let begin = head.windows(KEY.len()).position(|window| window == KEY)? + KEY.len();
    let length = head[begin..].iter().position(|byte| *byte == b'"')?;
    std::str::from_utf8(&head[begin..begin + length]).ok()
}

/// Makes of an object that is not stored what it would be if it were, and read again.
pub fn as_read(target: &Target, object: &mut Value) {
    let served = &target.served;
    if served.versions_differ {
        let _ = served.stored_schema.as_ref().unwrap_or(&served.schema).default(object);
        if served.stored_schema.is_some() {
            served.schema.prune(object);
        }
    }
}

/// Returns whether storing `new` would change what is stored; `old` is that in the version of the path.
pub fn changes(target: &Target, stored: &Object, old: &Value, new: &Value) -> bool {
    // What is written again moves to the storage version.
    if older_version(target, stored).is_some() {
        return true;
    }
    if !may_lack_defaults(target, stored) {
        return !update::is_no_change(old, new);
    }
    let mut stored: Value =
        serde_json::from_slice(stored.bytes()).expect("the store holds the JSON it was given");
    stored["apiVersion"] = new["apiVersion"].clone();
    !update::is_no_change(&stored, new)
}

/// Returns whether an object was written before its definition was as it is, or through a version that is another.
fn may_lack_defaults(target: &Target, object: &Object) -> bool {
    let served = &target.served;
    served.versions_differ || served.defaults_since.is_some_and(|since| object.revision().get() < since)
}

/// Returns true if an object may be longer when it is read than it is stored, by any number of defaults.
pub fn may_grow(target: &Target, object: &Object) -> bool {
    target.served.grows && may_lack_defaults(target, object)
}

/// Returns whether a stored object is being deleted. Nearly none is, and it is not parsed to see that.
pub fn is_deleting(object: &Object) -> bool {
    const KEY: &[u8] = b"\"deletionTimestamp\":";
    if !object.bytes().windows(KEY.len()).any(|window| window == KEY) {
        return false;
    }
    let value: Value = serde_json::from_slice(object.bytes()).expect("the store holds the JSON it was given");
    Meta::of(&value).deletion_timestamp().is_some()
}

/// The bytes of a stored object in the version of the path, as they lie in the store where that is the storage version.
pub fn to_bytes(target: &Target, object: &Object) -> Bytes {
    if is_as_stored(target, object) {
        object.bytes().clone()
    } else {
        Bytes::from(to_value(target, object).to_string())
    }
}

/// Returns whether the bytes of a stored object are those of the version of the path.
pub fn is_as_stored(target: &Target, object: &Object) -> bool {
    let as_stored = target.served.version.name == target.served.resource.storage_version;
    as_stored
        && !is_new_event(target)
        && !may_lack_defaults(target, object)
        && older_version(target, object).is_none()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::store::{Key, Revision};

    #[test]
    fn what_an_object_is_comes_first() {
        let object = json!({"action": "a", "metadata": {"resourceVersion": "1", "name": "x"}, "kind": "K", "apiVersion": "v0"});
        let key = Key::new("things", "", "x");
        let stored = Object::new(key, encode(&object, "v1"), Revision::new(7), Revision::new(7));
        assert_eq!(
            std::str::from_utf8(stored.bytes()).unwrap(),
            r#"{"kind":"K","apiVersion":"v1","action":"a","metadata":{"name":"x","resourceVersion":"7"}}"#
        );
    }
}
