use http::Method;
use proptest::prelude::*;

use crate::request::path::{GroupVersion, Probe, RequestPath, ResourcePath, Verb};

fn version(group: &str, version: &str) -> GroupVersion {
    GroupVersion { group: group.to_owned(), version: version.to_owned() }
}

/// `group/version namespace resource name subresource`, with `-` for what is not there.
fn shown(path: &ResourcePath) -> String {
    let ResourcePath { version, namespace, resource, name, subresource, watch } = path;
    let or = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
    let watch = if *watch { " watch" } else { "" };
    format!("{version} {} {resource} {} {}{watch}", or(namespace), or(name), or(subresource))
}

#[test]
fn resources_are_found() {
    let rows = [
        ("/api/v1/namespaces", "v1 - namespaces - -"),
        ("/api/v1/namespaces/x", "v1 - namespaces x -"),
        ("/api/v1/namespaces/x/", "v1 - namespaces x -"),
        ("/api/v1/namespaces/x/status", "v1 - namespaces x status"),
        ("/api/v1/namespaces/x/finalize", "v1 - namespaces x finalize"),
        ("/api/v1/namespaces/status/configmaps", "v1 status configmaps - -"),
        ("/api/v1/namespaces/x/configmaps", "v1 x configmaps - -"),
        ("/api/v1/namespaces/x/configmaps/", "v1 x configmaps - -"),
        ("/api/v1/namespaces/x/configmaps/a", "v1 x configmaps a -"),
        ("/api/v1/namespaces/x/pods/a/log", "v1 x pods a log"),
        ("/api/v1/configmaps", "v1 - configmaps - -"),
        ("/api/v1/nodes/n/status", "v1 - nodes n status"),
        ("/apis/example.com/v1beta1/namespaces/x/things/t/scale", "example.com/v1beta1 x things t scale"),
        ("/apis/example.com/v1/things", "example.com/v1 - things - -"),
        ("/api/v1/watch/namespaces/x/configmaps", "v1 x configmaps - - watch"),
        ("/api/v1/watch/namespaces/x/configmaps/a", "v1 x configmaps a - watch"),
        ("/api/v1/watch/namespaces/x", "v1 - namespaces x - watch"),
        ("/api/v1/watch/configmaps", "v1 - configmaps - - watch"),
        ("/api/v1/namespaces/%64efault/configmaps/a%20b", "v1 default configmaps a b -"),
        // An encoded slash separates, as upstream.
        ("/api/v1/namespaces/x/configmaps/a%2Fb", "v1 x configmaps a b"),
        ("/api/v1/namespaces/x/configmaps/..", "v1 x configmaps .. -"),
    ];
    for (path, expected) in rows {
        match RequestPath::parse(path) {
            RequestPath::Resource(found) => assert_eq!(shown(&found), expected, "{path}"),
            other => panic!("{path}: {other:?}"),
        }
    }
}

#[test]
fn other_paths_are_known() {
    let rows = [
        ("/", RequestPath::Root),
        ("/index.html", RequestPath::Root),
        ("//", RequestPath::Unknown),
        ("/api", RequestPath::CoreVersions),
        ("/api/", RequestPath::CoreVersions),
        ("/apis", RequestPath::Groups),
        ("/apis/apps", RequestPath::Group("apps".to_owned())),
        ("/api/v1", RequestPath::Resources(version("", "v1"))),
        ("/api/v1/", RequestPath::Resources(version("", "v1"))),
        ("/apis/apps/v1", RequestPath::Resources(version("apps", "v1"))),
        ("/openapi/v2", RequestPath::OpenApiV2),
        ("/openapi/v3", RequestPath::OpenApiV3Index),
        ("/openapi/v3/api/v1", RequestPath::OpenApiV3(version("", "v1"))),
        ("/openapi/v3/apis/apps/v1", RequestPath::OpenApiV3(version("apps", "v1"))),
        ("/version", RequestPath::Version),
        ("/version/", RequestPath::Version),
        ("/livez", RequestPath::Health(Probe::Live, None)),
        ("/livez/ping", RequestPath::Health(Probe::Live, Some("ping".to_owned()))),
        ("/readyz/poststarthook/x", RequestPath::Health(Probe::Ready, Some("poststarthook/x".to_owned()))),
        ("/healthz", RequestPath::Health(Probe::Health, None)),
        ("/readyz/", RequestPath::Unknown),
        ("/metrics", RequestPath::Metrics),
        ("/metricsx", RequestPath::Unknown),
        ("/openapi", RequestPath::Unknown),
        ("/openapi/v3/", RequestPath::Unknown),
        ("/nothing", RequestPath::Unknown),
        ("", RequestPath::Unknown),
        ("api/v1", RequestPath::Unknown),
        ("/api/v1/watch", RequestPath::UnknownResource),
        ("/api//v1/namespaces", RequestPath::UnknownResource),
        ("/api/v1/namespaces/x/configmaps//a", RequestPath::UnknownResource),
        ("/api/v1/namespaces/x/configmaps/a/b/c", RequestPath::UnknownResource),
        ("/api/v1/namespaces/x/status/y", RequestPath::UnknownResource),
        ("/api/v1/%zz", RequestPath::Malformed),
        ("/api/v1/%ff", RequestPath::Malformed),
        ("/api/v1/a%00", RequestPath::Malformed),
        ("/api/v1/%", RequestPath::Malformed),
    ];
    for (path, expected) in rows {
        assert_eq!(RequestPath::parse(path), expected, "{path}");
    }
}

fn path(text: &str) -> ResourcePath {
    match RequestPath::parse(text) {
        RequestPath::Resource(path) => path,
        other => panic!("{other:?}"),
    }
}

#[test]
fn methods_mean_verbs() {
    let (one, many) = ("/api/v1/namespaces/x/configmaps/a", "/api/v1/configmaps");
    let rows = [
        (Method::GET, one, false, Some(Verb::Get)),
        (Method::HEAD, one, false, Some(Verb::Get)),
        (Method::GET, many, false, Some(Verb::List)),
        (Method::GET, many, true, Some(Verb::Watch)),
        (Method::GET, "/api/v1/watch/configmaps", false, Some(Verb::Watch)),
        (Method::GET, "/api/v1/watch/namespaces/x/configmaps/a", false, Some(Verb::Watch)),
        (Method::POST, many, false, Some(Verb::Create)),
        (Method::PUT, one, false, Some(Verb::Update)),
        (Method::PATCH, one, false, Some(Verb::Patch)),
        (Method::DELETE, one, false, Some(Verb::Delete)),
        (Method::DELETE, many, false, Some(Verb::DeleteCollection)),
        (Method::OPTIONS, many, false, None),
    ];
    for (method, text, watch, expected) in rows {
        assert_eq!(path(text).verb(&method, watch), expected, "{method} {text}");
    }
    assert_eq!(Verb::DeleteCollection.as_str(), "deletecollection");
}

#[test]
fn names_are_segments() {
    let rows = [
        ("..", Some("Name parameter invalid: \"..\": may not be '..'")),
        ("%2e", Some("Name parameter invalid: \".\": may not be '.'")),
        ("a%25b", Some("Name parameter invalid: \"a%b\": may not contain '%'")),
        ("a", None),
    ];
    for (name, expected) in rows {
        let path = path(&format!("/api/v1/namespaces/x/configmaps/{name}"));
        let found = path.check_name().err().map(|error| error.to_string());
        assert_eq!(found.as_deref(), expected);
    }
    assert_eq!(path("/api/v1/namespaces/x").authorization_namespace(), Some("x"));
    assert_eq!(path("/api/v1/namespaces/x/configmaps/a").authorization_namespace(), Some("x"));
    assert_eq!(path("/api/v1/nodes/n").authorization_namespace(), None);
}

proptest! {
    #[test]
    fn every_text_is_a_target(text in ".*") {
        RequestPath::parse(&text);
    }

    #[test]
    fn what_looks_like_a_path_is_one(text in "(/(api|apis|v1|watch|namespaces|status|[a-z%2Ff.]{0,5}|)){0,9}") {
        RequestPath::parse(&text);
    }
}
