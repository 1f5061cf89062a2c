use std::time::Duration;

use proptest::prelude::*;
use serde_json::json;

use crate::{
    object::delete::Propagation,
    request::{
        accept::PatchType,
        cursor::{self, Cursor},
        delete::DeleteOptions,
        query::{GetOptions, ListFrom, ListOptions, Query, VersionMatch},
        write::{FieldValidation, WriteKind, WriteOptions},
    },
    status::ApiError,
};

fn list(query: &str) -> Result<ListOptions, String> {
    ListOptions::parse(&Query::parse(query)).map_err(|error| error.to_string())
}

fn list_from(query: &str) -> Result<ListFrom, String> {
    list(query)?.list_from().map_err(|error| error.to_string())
}

#[test]
fn parameters_are_decoded_as_upstream_does() {
    let query = Query::parse("a=1&a=2&b=x+y%3D&c&%zz=1&d;e=1&f=%zz&=g&&h=%ff");
    assert_eq!(query.get("a"), Some("1"));
    assert_eq!(query.all("a").collect::<Vec<_>>(), ["1", "2"]);
    assert_eq!(query.get("b"), Some("x y="));
    assert_eq!((query.get("c"), query.text("c")), (Some(""), None));
    assert_eq!((query.get("%zz"), query.get("d"), query.get("f")), (None, None, None));
    assert_eq!(query.get("h"), Some("\u{fffd}"));
}

#[test]
fn flags_are_set_by_nearly_anything() {
    let rows = [
        ("", None),
        ("f", Some(true)),
        ("f=", Some(true)),
        ("f=0", Some(false)),
        ("f=False", Some(false)),
        ("f=no", Some(true)),
    ];
    for (query, expected) in rows {
        assert_eq!(Query::parse(query).flag("f"), expected, "{query}");
    }
}

#[test]
fn people_get_indented_answers() {
    let rows = [
        ("", "curl/8.0", true),
        ("", "kubectl/v1.36", false),
        ("pretty=false", "curl/8.0", false),
        ("pretty=true", "", true),
        ("pretty=x", "Wget/1", false),
        ("pretty=", "Mozilla/5.0 (X11)", true),
    ];
    for (query, agent, expected) in rows {
        assert_eq!(Query::parse(query).pretty(agent), expected, "{query} {agent}");
    }
}

#[test]
fn list_options_are_read() {
    let query = "labelSelector=a%3Db&fieldSelector=metadata.name%3Dx&limit=5&timeoutSeconds=7&allowWatchBookmarks=true";
    let options = list(query).unwrap();
    assert_eq!(
        (options.labels.to_string(), options.fields.to_string()),
        ("a=b".into(), "metadata.name=x".into())
    );
    assert_eq!((options.limit, options.timeout), (Some(5), Some(Duration::from_secs(7))));
    assert!(options.bookmarks && !options.watch && !options.initial_events);
    // Zero and less are no limit.
    assert_eq!(list("limit=-1").unwrap().limit, None);
    // A watch from nowhere begins with the present state, one from somewhere does not.
    let started = ["watch=1", "watch=1&resourceVersion=0", "watch=1&resourceVersion=5"];
    assert_eq!(started.map(|query| list(query).unwrap().initial_events), [true, true, false]);
    let asked = "watch=1&resourceVersion=5&sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
    let asked = list(asked).unwrap();
    assert!(asked.initial_events && asked.version_match == Some(VersionMatch::NotOlderThan));
    assert_eq!(asked.watch_from(), Ok(Some(5)));
}

#[test]
fn wrong_list_options_are_refused_in_upstreams_words() {
    let rows = [
        ("limit=x", "strconv.ParseInt: parsing \"x\": invalid syntax"),
        ("limit=x&timeoutSeconds=y&labelSelector=,", "strconv.ParseInt: parsing \"y\": invalid syntax"),
        ("limit=", "strconv.ParseInt: parsing \"\": invalid syntax"),
        ("labelSelector=,&fieldSelector=x", "found ',', expected: !, identifier, or 'end of string'"),
        ("fieldSelector=x", "invalid selector: 'x'; can't understand 'x'"),
        (
            "resourceVersionMatch=Exact",
            "ListOptions.meta.k8s.io \"\" is invalid: resourceVersionMatch: Forbidden: resourceVersionMatch is \
             forbidden unless resourceVersion is provided",
        ),
        (
            "resourceVersionMatch=Foo&resourceVersion=1",
            "ListOptions.meta.k8s.io \"\" is invalid: resourceVersionMatch: Unsupported value: \"Foo\": supported \
             values: \"Exact\", \"NotOlderThan\", \"\"",
        ),
        (
            "resourceVersionMatch=Exact&resourceVersion=0",
            "ListOptions.meta.k8s.io \"\" is invalid: resourceVersionMatch: Forbidden: resourceVersionMatch \
             \"exact\" is forbidden for resourceVersion \"0\"",
        ),
        (
            "sendInitialEvents=true",
            "ListOptions.meta.k8s.io \"\" is invalid: sendInitialEvents: Forbidden: sendInitialEvents is forbidden \
             for list",
        ),
        (
            "watch=1&sendInitialEvents=true",
            "ListOptions.meta.k8s.io \"\" is invalid: resourceVersionMatch: Forbidden: sendInitialEvents requires \
             setting resourceVersionMatch to NotOlderThan",
        ),
        (
            "watch=1&resourceVersionMatch=Exact&continue=q",
            "ListOptions.meta.k8s.io \"\" is invalid: [resourceVersionMatch: Forbidden: resourceVersionMatch is \
             forbidden for watch unless sendInitialEvents is provided, resourceVersionMatch: Unsupported value: \
             \"Exact\": supported values: \"NotOlderThan\", resourceVersionMatch: Forbidden: resourceVersionMatch is \
             forbidden when continue is provided]",
        ),
    ];
    for (query, expected) in rows {
        assert_eq!(list(query), Err(expected.to_owned()), "{query}");
    }
}

#[test]
fn a_list_is_read_at_a_revision() {
    let token = cursor::encode(&Cursor { revision: Some(7), start: "default/a\0".to_owned() });
    let continued = ListFrom::Continue(Cursor { revision: Some(7), start: "default/a\0".to_owned() });
    let rows = [
        (String::new(), Ok(ListFrom::Latest)),
        ("resourceVersion=0".to_owned(), Ok(ListFrom::Any)),
        ("resourceVersion=0&limit=5".to_owned(), Ok(ListFrom::Any)),
        ("resourceVersion=5".to_owned(), Ok(ListFrom::NotOlderThan(5))),
        ("resourceVersion=5&limit=1".to_owned(), Ok(ListFrom::Exact(5))),
        ("resourceVersion=5&resourceVersionMatch=Exact".to_owned(), Ok(ListFrom::Exact(5))),
        ("resourceVersion=5&limit=1&resourceVersionMatch=NotOlderThan".to_owned(), Ok(ListFrom::NotOlderThan(5))),
        (format!("continue={token}"), Ok(continued.clone())),
        (format!("continue={token}&resourceVersion=0"), Ok(continued)),
        (
            format!("continue={token}&resourceVersion=5"),
            Err("specifying resource version is not allowed when using continue".to_owned()),
        ),
        (
            "resourceVersion=x".to_owned(),
            Err("invalid resource version: resourceVersion: Invalid value: \"x\": strconv.ParseUint: parsing \"x\": \
                 invalid syntax"
                .to_owned()),
        ),
        (
            "continue=abc!".to_owned(),
            Err("invalid continue token: continue key is not valid: illegal base64 data at input byte 3".to_owned()),
        ),
        (
            "continue=abcd".to_owned(),
            Err("invalid continue token: continue key is not valid: invalid character 'i' looking for beginning of \
                 value"
                .to_owned()),
        ),
        (
            "continue=e30".to_owned(),
            Err("invalid continue token: continue key is not valid: server does not recognize this encoded version "
                .to_owned()),
        ),
    ];
    for (query, expected) in rows {
        assert_eq!(list_from(&query), expected, "{query}");
    }
}

#[test]
fn one_object_is_watched_by_name() {
    let mut options = list("watch=1").unwrap();
    options.only("a").unwrap();
    assert_eq!(options.fields.to_string(), "metadata.name=a");
    options.only("a").unwrap();
    let error = options.only("b").unwrap_err().to_string();
    assert_eq!(error, "fieldSelector metadata.name doesn't match requested name");
}

#[test]
fn gets_have_a_revision() {
    let get = |query: &str| GetOptions::parse(&Query::parse(query));
    assert_eq!(get("").unwrap().not_older_than, None);
    assert_eq!(get("resourceVersion=5").unwrap().not_older_than, Some(5));
    assert_eq!(get("resourceVersion=x").unwrap_err().code().as_u16(), 500);
    assert_eq!(get("export=1").unwrap_err().code().as_u16(), 400);
}

fn write(query: &str, write: WriteKind) -> Result<WriteOptions, String> {
    WriteOptions::parse(&Query::parse(query), write).map_err(|error| error.to_string())
}

#[test]
fn write_options_are_read() {
    let apply = WriteKind::Patch(PatchType::Apply);
    let options = write("dryRun=All&fieldManager=me&fieldValidation=Strict&force=1", apply).unwrap();
    assert!(options.dry_run && options.force && options.field_validation == FieldValidation::Strict);
    assert_eq!(options.manager("kubectl/v1"), "me");
    let options = write("", WriteKind::Create).unwrap();
    assert_eq!(options.field_validation, FieldValidation::Warn);
    assert_eq!(options.manager("kube\u{1}ctl/v1.36 (linux)"), "kubectl");
    assert_eq!(options.manager(&"ä".repeat(100)).len(), 128);
}

#[test]
fn wrong_write_options_are_refused_in_upstreams_words() {
    let (apply, merge) = (WriteKind::Patch(PatchType::Apply), WriteKind::Patch(PatchType::Merge));
    let long = format!("fieldManager={}", "a".repeat(129));
    let rows = [
        (
            "dryRun=Foo",
            WriteKind::Create,
            "CreateOptions.meta.k8s.io \"\" is invalid: dryRun: Unsupported value: [\"Foo\"]: supported values: \"All\"",
        ),
        (
            "dryRun=All&dryRun=Foo&fieldValidation=x",
            WriteKind::Update,
            "UpdateOptions.meta.k8s.io \"\" is invalid: [dryRun: Unsupported value: [\"All\",\"Foo\"]: supported \
             values: \"All\", fieldValidation: Unsupported value: \"x\": supported values: \"\", \"Ignore\", \
             \"Strict\", \"Warn\"]",
        ),
        (
            &long,
            WriteKind::Create,
            "CreateOptions.meta.k8s.io \"\" is invalid: fieldManager: Too long: may not be more than 128 bytes",
        ),
        (
            "fieldManager=a%01b",
            WriteKind::Create,
            "CreateOptions.meta.k8s.io \"\" is invalid: fieldManager: Invalid value: \"a\\x01b\": invalid character \
             U+0001 (at position 1)",
        ),
        (
            "fieldManager=",
            apply,
            "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is required for apply patch",
        ),
        (
            "force=false",
            merge,
            "PatchOptions.meta.k8s.io \"\" is invalid: force: Forbidden: may not be specified for non-apply patch",
        ),
    ];
    for (query, kind, expected) in rows {
        assert_eq!(write(query, kind).map(drop), Err(expected.to_owned()), "{query}");
    }
}

#[test]
fn delete_options_are_read_from_query_and_body() {
    let query = "gracePeriodSeconds=3&propagationPolicy=Foreground&uid=u&resourceVersion=7&dryRun=All";
    let body = json!({
        "kind": "DeleteOptions", "apiVersion": "foo/v1", "gracePeriodSeconds": 3, "propagationPolicy": "Foreground",
        "preconditions": {"uid": "u", "resourceVersion": "7"}, "dryRun": ["All"], "orphanDependents": null, "x": 1,
    });
    let options = DeleteOptions::from_query(&Query::parse(query)).unwrap();
    assert_eq!(options, DeleteOptions::from_body(&body).unwrap());
    assert_eq!((options.grace_period_seconds, options.propagation), (Some(3), Some(Propagation::Foreground)));
    assert!(options.dry_run && options.uid.as_deref() == Some("u"));
    assert_eq!(DeleteOptions::from_body(&json!(null)).unwrap(), DeleteOptions::default());
}

#[test]
fn wrong_delete_options_are_refused_in_upstreams_words() {
    let both = "DeleteOptions.meta.k8s.io \"\" is invalid: [propagationPolicy: Invalid value: \"Bar\": orphanDependents \
                and deletionPropagation cannot be both set, propagationPolicy: Unsupported value: \"Bar\": supported \
                values: \"Foreground\", \"Background\", \"Orphan\", \"nil\", dryRun: Unsupported value: [\"x\"]: \
                supported values: \"All\"]";
    let rows = [
        (json!({"dryRun": ["x"], "orphanDependents": true, "propagationPolicy": "Bar"}), both),
        (
            json!({"gracePeriodSeconds": "x"}),
            "json: cannot unmarshal string into Go struct field DeleteOptions.gracePeriodSeconds of type int64",
        ),
        (
            json!({"gracePeriodSeconds": 1.5}),
            "json: cannot unmarshal number 1.5 into Go struct field DeleteOptions.gracePeriodSeconds of type int64",
        ),
        (
            json!({"preconditions": {"uid": 1}}),
            "json: cannot unmarshal number into Go struct field Preconditions.preconditions.uid of type types.UID",
        ),
        (
            json!({"kind": "Foo", "apiVersion": "v1"}),
            "no kind \"Foo\" is registered for version \"v1\" in scheme \"pkg/runtime/scheme.go:111\"",
        ),
    ];
    for (body, expected) in rows {
        let error = DeleteOptions::from_body(&body).unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
    let query = Query::parse("propagationPolicy=Bar&orphanDependents=1&dryRun=x");
    let error: ApiError = DeleteOptions::from_query(&query).unwrap_err();
    assert_eq!((error.to_string().as_str(), error.code().as_u16()), (both, 422));
}

#[test]
fn cursors_stay_in_their_collection() {
    let token = |start: &str| cursor::encode(&Cursor { revision: None, start: start.to_owned() });
    assert_eq!(cursor::decode(&token("ns/a\0")).unwrap().revision, None);
    for start in ["../x", "a/../../b", "a//b", "./a", "a/"] {
        assert!(cursor::decode(&token(start)).is_err(), "{start}");
    }
}

proptest! {
    #[test]
    fn queries_never_panic(raw in ".*", key in "[a-z]{1,4}") {
        let query = Query::parse(&raw);
        query.get(&key);
        let _ = ListOptions::parse(&query).map(|options| options.list_from());
        let _ = DeleteOptions::from_query(&query);
    }

    #[test]
    fn tokens_never_panic(token in ".*") {
        let _ = cursor::decode(&token);
    }

    #[test]
    fn cursors_survive(revision in proptest::option::of(1_u64..1 << 62), start in "[a-z0-9.-]{1,9}a(/[a-z0-9-]{1,9})?\0?") {
        let cursor = Cursor { revision, start };
        prop_assert_eq!(cursor::decode(&cursor::encode(&cursor)), Ok(cursor));
    }
}
