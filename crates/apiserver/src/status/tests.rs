use serde_json::json;

use super::*;
use crate::request::tests::{config_maps, things};

#[test]
fn errors_are_worded_as_kubernetes_does() {
    let maps = config_maps();
    let things = things();
    let rows: Vec<(ApiError, u16, &str, &str)> = vec![
        (ApiError::not_found(&maps, "a"), 404, "NotFound", "configmaps \"a\" not found"),
        (ApiError::not_found(&things, "t"), 404, "NotFound", "things.edge.example.com \"t\" not found"),
        (ApiError::UnknownResource, 404, "NotFound", "the server could not find the requested resource"),
        (ApiError::already_exists(&maps, "a"), 409, "AlreadyExists", "configmaps \"a\" already exists"),
        (
            ApiError::modified(&maps, "a"),
            409,
            "Conflict",
            "Operation cannot be fulfilled on configmaps \"a\": the object has been modified; please apply your \
             changes to the latest version and try again",
        ),
        (
            ApiError::uid_precondition(&maps, "a", "x", "y"),
            409,
            "Conflict",
            "Operation cannot be fulfilled on ConfigMap \"a\": the UID in the precondition (x) does not match the UID \
             in record (y). The object might have been deleted and then recreated",
        ),
        (
            ApiError::version_precondition(&maps, "a", "1", "2"),
            409,
            "Conflict",
            "Operation cannot be fulfilled on ConfigMap \"a\": the ResourceVersion in the precondition (1) does not \
             match the ResourceVersion in record (2). The object might have been modified",
        ),
        (ApiError::Unauthorized, 401, "Unauthorized", "Unauthorized"),
        (
            ApiError::Forbidden {
                resource: Some(GroupResource::of(&maps)),
                name: String::new(),
                why: "no".to_owned(),
            },
            403,
            "Forbidden",
            "configmaps is forbidden: no",
        ),
        (
            ApiError::Forbidden { resource: None, name: String::new(), why: "no".to_owned() },
            403,
            "Forbidden",
            "forbidden: no",
        ),
        (
            ApiError::VerbNotSupported { resource: GroupResource::of(&things), verb: "delete".to_owned() },
            405,
            "MethodNotAllowed",
            "delete is not supported on resources of kind \"things.edge.example.com\"",
        ),
        (ApiError::too_old_watch(3, 7), 410, "Expired", "too old resource version: 3 (7)"),
        (ApiError::too_old_list(), 410, "Expired", "The resourceVersion for the provided list is too old."),
        (ApiError::too_large_body(3), 413, "RequestEntityTooLarge", "Request entity too large: limit is 3"),
        (
            ApiError::too_large_revision(9, 7, true),
            504,
            "Timeout",
            "Timeout: Too large resource version: 9, current: 7",
        ),
        (ApiError::Internal("disk".to_owned()), 500, "InternalError", "Internal error occurred: disk"),
        (ApiError::Unclassified("odd".to_owned()), 500, "", "odd"),
        (ApiError::NotImplemented("not here".to_owned()), 501, "NotImplemented", "not here"),
        (ApiError::ServiceUnavailable("soon".to_owned()), 503, "ServiceUnavailable", "soon"),
    ];
    for (error, code, reason, message) in rows {
        assert_eq!(
            (error.code().as_u16(), error.reason(), error.to_string().as_str()),
            (code, reason, message)
        );
        let status = error.to_status();
        assert_eq!((&status["code"], &status["message"]), (&json!(code), &json!(message)));
        assert_eq!(status["reason"].as_str().unwrap_or_default(), reason);
    }
}

#[test]
fn details_say_only_what_is_known() {
    let rows = [
        (ApiError::not_found(&config_maps(), "a"), json!({"name": "a", "kind": "configmaps"})),
        (
            ApiError::not_found(&things(), "t"),
            json!({"name": "t", "group": "edge.example.com", "kind": "things"}),
        ),
        (ApiError::UnknownResource, json!({})),
        (ApiError::MethodNotAllowed, json!({})),
        (ApiError::BadRequest("x".to_owned()), Value::Null),
        (ApiError::Unauthorized, Value::Null),
        (
            ApiError::TooManyRequests { message: "x".to_owned(), retry_after_seconds: 1 },
            json!({"retryAfterSeconds": 1}),
        ),
        (
            ApiError::too_large_revision(9, 7, true),
            json!({
                "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
                "retryAfterSeconds": 1,
            }),
        ),
        (ApiError::Internal("disk".to_owned()), json!({"causes": [{"message": "disk"}]})),
    ];
    for (error, details) in rows {
        assert_eq!(error.to_status().get("details").unwrap_or(&Value::Null), &details, "{error}");
    }
}

#[test]
fn several_causes_are_listed_once_each() {
    let one = Cause::required("metadata.name", "name or generateName is required");
    let two = Cause::invalid("kind", &json!("Foo"), "must be Thing");
    let rows = [
        (vec![], "ConfigMap \"a\" is invalid"),
        (
            vec![one.clone()],
            "ConfigMap \"a\" is invalid: metadata.name: Required value: name or generateName is required",
        ),
        (
            vec![one.clone(), two.clone(), one.clone()],
            "ConfigMap \"a\" is invalid: [metadata.name: Required value: name or generateName is required, kind: \
             Invalid value: \"Foo\": must be Thing]",
        ),
        (
            vec![one.clone(), one.clone()],
            "ConfigMap \"a\" is invalid: metadata.name: Required value: name or generateName is required",
        ),
    ];
    for (causes, message) in rows {
        let count = causes.len();
        let error = ApiError::invalid(&config_maps(), "a", causes);
        assert_eq!(error.to_string(), message);
        let status = error.to_status();
        assert_eq!(status["details"]["causes"].as_array().map_or(0, Vec::len), count);
    }
}

#[test]
fn a_hundred_causes_are_told_and_how_many_more_there_are() {
    let cause = |n: usize| Cause::required(&format!("data[{n}]"), "");
    let all: Vec<_> = (0..100).map(cause).collect();
    assert_eq!(Cause::bounded(all.clone()), all, "to the letter");
    let error = ApiError::invalid(&config_maps(), "a", (0..180_000).map(cause));
    let status = error.to_status();
    let told = status["details"]["causes"].as_array().unwrap();
    assert_eq!(told[..100], all.iter().map(Cause::to_json).collect::<Vec<_>>());
    assert_eq!(told[100..], [json!({"message": "and 179900 more, which are not told"})]);
    let message = status["message"].as_str().unwrap();
    assert!(
        message.ends_with(", data[99]: Required value, and 179900 more, which are not told]"),
        "{message}"
    );
}

#[test]
fn no_answer_shows_megabytes_of_what_was_sent() {
    const MOST: usize = 400 << 10;
    let large = "\u{20ac}".repeat(1 << 20);
    let causes = || (0..50).map(|_| Cause::invalid(&large, &json!(large), &large));
    let many = Cause::bounded(causes());
    assert!(many.len() < 5 && many.last().unwrap().message.starts_with("and "), "{}", many.len());
    for error in [
        ApiError::invalid(&config_maps(), "a", causes()),
        ApiError::invalid_options("CreateOptions", causes().collect()),
        ApiError::invalid(&config_maps(), &large, causes().take(1)),
        ApiError::not_found(&config_maps(), &large),
        ApiError::BadRequest(large.clone()),
        ApiError::Internal(large.clone()),
        ApiError::Unclassified(large.clone()),
    ] {
        let length = error.body().1.len();
        assert!(length < MOST, "{length} bytes: {}", error.reason());
    }
}

#[test]
fn a_continued_list_that_expired_can_be_restarted() {
    let status = ApiError::continue_expired(Some("token".to_owned())).to_status();
    assert_eq!(status["metadata"], json!({"continue": "token"}));
    assert!(status["message"].as_str().unwrap().ends_with("may show up in the list."));
    let status = ApiError::continue_expired(None).to_status();
    assert_eq!(status["metadata"], json!({}));
    assert!(status["message"].as_str().unwrap().ends_with("without the continue parameter."));
}

#[test]
fn bodies_have_a_type() {
    let (kind, body) = ApiError::PageNotFound.body();
    assert_eq!((kind, &body[..]), ("text/plain; charset=utf-8", &b"404 page not found\n"[..]));
    let (kind, body) = ApiError::Unauthorized.body();
    assert_eq!(kind, "application/json");
    assert_eq!(
        &body[..],
        br#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Unauthorized","reason":"Unauthorized","code":401}
"#
    );
}

#[test]
fn a_delete_is_confirmed() {
    assert_eq!(
        deleted(&things(), "t", "u"),
        json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
            "details": {"name": "t", "group": "edge.example.com", "kind": "things", "uid": "u"},
        })
    );
}
