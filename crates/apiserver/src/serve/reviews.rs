//! Who am I, and may I: resources that are answered and never stored.
//!
//! The server has one kind of right: members of `system:masters` may do everything, others nothing.

use http::{Response, StatusCode, header};
use serde_json::{Value, json};

use super::documents::json_answer;
use super::{Body, Call, may_do_everything};
use crate::door::User;
use crate::request::accept::{self, Endpoint};
use crate::request::body;
use crate::request::path::ResourcePath;
use crate::status::ApiError;

/// The answer to a review; `None` where the path is something else.
pub(super) fn answer(
    path: &ResourcePath,
    call: &Call<'_>,
    user: &User,
) -> Option<Result<Response<Body>, ApiError>> {
    let (kind, review): (_, fn(Value, &User) -> Value) = match (&*path.version.group, &*path.resource) {
        ("authentication.k8s.io", "selfsubjectreviews") => ("SelfSubjectReview", who_am_i),
        ("authorization.k8s.io", "selfsubjectaccessreviews") => ("SelfSubjectAccessReview", may_i),
        ("authorization.k8s.io", "selfsubjectrulesreviews") => ("SelfSubjectRulesReview", my_rules),
        _ => return None,
    };
    if path.version.version != "v1" || call.method != http::Method::POST || path.name.is_some() {
        return Some(Err(ApiError::MethodNotAllowed));
    }
    let body = accept::body_format(call.header(header::CONTENT_TYPE), Endpoint::BuiltIn).and_then(|format| {
        let decoded = body::decode_kind(call.body, format, (&path.version.group, kind), super::read_yaml);
        decoded.map(|decoded| decoded.value).map_err(|error| error.of_kind(kind, call.body))
    });
    Some(body.map(|body| {
        let mut response = json_answer(&review(body, user));
        *response.status_mut() = StatusCode::CREATED;
        response
    }))
}

fn who_am_i(mut review: Value, user: &User) -> Value {
    review["status"] = json!({"userInfo": {"username": user.name, "groups": user.groups}});
    review
}

fn may_i(mut review: Value, user: &User) -> Value {
    review["status"] = if may_do_everything(user) {
        json!({"allowed": true, "reason": "members of system:masters may do everything"})
    } else {
        json!({"allowed": false, "reason": "only members of system:masters have rights here"})
    };
    review
}

fn my_rules(mut review: Value, user: &User) -> Value {
    let (resources, others) = if may_do_everything(user) {
        (
            json!([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]),
            json!([{"verbs": ["*"], "nonResourceURLs": ["*"]}]),
        )
    } else {
        (json!([]), json!([]))
    };
    review["status"] = json!({"resourceRules": resources, "nonResourceRules": others, "incomplete": false});
    review
}
