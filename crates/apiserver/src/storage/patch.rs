//! Application of a patch to an object.

use std::collections::HashMap;

use serde_json::Value;

use super::{PatchBody, Target};
use crate::patch::{self, JsonPatchError};
use crate::status::ApiError;

/// The patched object, and where it is not what an error shows in its place: what a strategic merge left of the patch.
pub(super) fn apply_patch(
    target: &Target,
    live: &Value,
    body: &PatchBody,
) -> Result<(Value, Option<Value>), ApiError> {
    let mut object = live.clone();
    let mut rest = None;
    let outcome = match body {
        PatchBody::Json(patch) => match patch::json_patch(&mut object, patch.clone()) {
            Err(JsonPatchError::Failed(_)) => return Err(ApiError::PatchFailed),
            Err(error @ (JsonPatchError::TooMany(_) | JsonPatchError::TooLarge(_))) => {
                return Err(ApiError::RequestEntityTooLarge(error.to_string()));
            }
            outcome => {
                sort_touched(&mut object, patch);
                outcome.map_err(|error| error.to_string())
            }
        },
        PatchBody::Merge(patch) if !patch.is_object() && !patch.is_null() => Err(not_an_object(patch)),
        PatchBody::Merge(patch) => {
            patch::merge_patch(&mut object, patch.clone()).map_err(|error| error.to_string())
        }
        PatchBody::Strategic(_) if target.served.resource.custom => {
            return Err(ApiError::UnsupportedMediaType {
                message: "the body of the request was in an unknown format - accepted media types include: \
                          application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"
                    .into(),
                routed: true,
            });
        }
        PatchBody::Strategic(patch) => {
            let types =
                target.served.kind.types(&target.served.api_version).expect("a served version has types");
            let rest = rest.insert(patch.clone());
            let outcome = patch::strategic_merge_patch(&mut object, rest, types);
            match &outcome {
                Err(error) if error.code() == 500 => return Err(ApiError::Unclassified(error.to_string())),
                Err(error) if error.code() == 413 => {
                    return Err(ApiError::RequestEntityTooLarge(error.to_string()));
                }
                _ => {}
            }
            outcome.map_err(|error| error.to_string())
        }
        PatchBody::Apply(_) => Ok(()),
    };
    outcome.map_err(ApiError::BadRequest)?;
    Ok((object, rest))
}

/// Upstream puts the members in order of what a JSON patch walks through, and leaves what it adds as it is; warnings
/// come in that order.
fn sort_touched(object: &mut Value, patch: &Value) {
    let operations = patch.as_array().into_iter().flatten();
    let paths = operations.flat_map(|operation| ["path", "from"].map(|name| operation[name].as_str()));
    let paths = paths.flatten().map(|path| path.split_once('/').map_or("", |(_, parts)| parts));
    let paths: Vec<&str> = paths.collect();
    if !paths.is_empty() {
        sort_parents(object, &paths);
    }
}

/// Puts in order what holds the values of these paths, each map once however many paths lead through it.
fn sort_parents(parent: &mut Value, paths: &[&str]) {
    let Value::Object(members) = parent else { return };
    members.sort_keys();
    // A stored object begins with what it is.
    for (index, name) in ["apiVersion", "kind"].into_iter().enumerate() {
        if let Some(value) = members.shift_remove(name) {
            // There may be a kind of something without a version.
            members.shift_insert(index.min(members.len()), name.to_owned(), value);
        }
    }
    let mut below: HashMap<&str, Vec<&str>> = HashMap::new();
    for (name, rest) in paths.iter().filter_map(|path| path.split_once('/')) {
        below.entry(name).or_default().push(rest);
    }
    for (name, paths) in below {
        if let Some(member) = members.get_mut(&name.replace("~1", "/").replace("~0", "~")) {
            sort_parents(member, &paths);
        }
    }
}

fn not_an_object(patch: &Value) -> String {
    let found = crate::json::kind_of(patch);
    format!(
        "error decoding patch: json: cannot unmarshal {found} into Go value of type map[string]interface {{}}"
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_walked_through_is_in_order() {
        let mut object = json!({"z": {"kind": "x"}, "kind": "K", "a": {"y": 1, "b": 2}, "apiVersion": "v1"});
        sort_touched(&mut object, &json!([{"path": "/z/q"}, {"path": "/none/q"}, {"path": ""}, {"op": 1}]));
        assert_eq!(
            object.to_string(),
            r#"{"apiVersion":"v1","kind":"K","a":{"y":1,"b":2},"z":{"kind":"x"}}"#
        );
    }
}
