use proptest::prelude::*;

use crate::{
    request::accept::{
        self, Accepted, BodyFormat, Endpoint, Format, MetaVersion, PatchType, Transform, body_format, gzip,
        negotiate, negotiate_discovery, negotiate_openapi, negotiate_watch, patch_type,
    },
    status::ApiError,
};

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

fn form(accepted: Result<Accepted, ApiError>) -> String {
    match accepted {
        Ok(Accepted { format, transform, pretty }) => {
            let transform = match transform {
                None => "",
                Some((Transform::Table, MetaVersion::V1)) => " Table",
                Some((Transform::Table, MetaVersion::V1Beta1)) => " Table v1beta1",
                Some((Transform::Partial, _)) => " Partial",
                Some((Transform::PartialList, _)) => " PartialList",
            };
            format!("{}{transform}{}", format.media_type(), if pretty { " pretty" } else { "" })
        }
        Err(error) => error.to_string(),
    }
}

#[test]
fn forms_are_negotiated() {
    let only = "only the following media types are accepted: application/json, application/yaml";
    let routed = "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml, \
                  application/json;stream=watch";
    let rows = [
        ("", "application/json", "application/json"),
        ("*/*", "application/json", "application/json"),
        ("application/json", "application/json", "application/json"),
        ("application/yaml", "application/yaml", "application/yaml"),
        ("application/json;q=0.1,application/yaml", "application/yaml", "application/yaml"),
        ("*/*;q=1,application/yaml;q=1", "application/yaml", "application/yaml"),
        ("application/vnd.kubernetes.protobuf,application/json", "application/json", "application/json"),
        ("application/json;pretty=1", "application/json pretty", "application/json pretty"),
        (TABLE, "application/json Table", "application/json Table"),
        (
            "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json",
            "application/json Table",
            "application/json Table",
        ),
        (
            "application/json;as=Table;v=v1beta1;g=meta.k8s.io",
            "application/json Table v1beta1",
            "application/json Table v1beta1",
        ),
        (
            "application/json;as=Table;v=v2;g=meta.k8s.io,application/json",
            "application/json",
            "application/json",
        ),
        ("application/json;as=Table;v=v2;g=meta.k8s.io", only, only),
        ("application/json;as=Foo;v=v1;g=meta.k8s.io", only, only),
        (
            "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
            "application/json PartialList",
            "application/json PartialList",
        ),
        ("application/json;stream=foo", only, only),
        ("application/json;foo=bar", "application/json", "application/json"),
        ("application/cbor", routed, only),
        ("application/vnd.kubernetes.protobuf", routed, only),
        ("text/html", routed, only),
        ("application/*", routed, "application/json"),
        ("*", routed, "application/json"),
        ("text/html,*/*;q=0.1", "application/json", "application/json"),
    ];
    for (header, built_in, custom) in rows {
        assert_eq!(form(negotiate(Some(header), Endpoint::BuiltIn)), built_in, "{header}");
        assert_eq!(form(negotiate(Some(header), Endpoint::Custom)), custom, "{header}");
    }
    assert_eq!(form(negotiate(None, Endpoint::BuiltIn)), "application/json");
}

#[test]
fn watches_are_json() {
    let yaml = negotiate_watch(Some("application/yaml"), Endpoint::Custom);
    assert_eq!(form(yaml), "only the following media types are accepted: application/json;stream=watch");
    let table = format!("{TABLE};stream=watch");
    assert_eq!(form(negotiate_watch(Some(&table), Endpoint::Custom)), "application/json Table");
}

#[test]
fn discovery_is_negotiated() {
    let aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    let both = format!("{aggregated},application/json");
    let beta = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList";
    let rows = [
        (both.as_str(), Ok((true, aggregated))),
        ("application/json", Ok((false, "application/json"))),
        ("application/yaml", Ok((false, "application/yaml"))),
        ("*/*", Ok((false, "application/json"))),
        (beta, Err("only the following media types are accepted: application/json, application/yaml")),
        (
            "text/html",
            Err("406: Not Acceptable\n\nAvailable representations: application/json, application/yaml"),
        ),
    ];
    for (header, expected) in rows {
        let found = negotiate_discovery(Some(header), Endpoint::BuiltIn);
        let found =
            found.map(|form| (form.aggregated, form.content_type())).map_err(|error| error.to_string());
        assert_eq!(found, expected.map_err(str::to_owned), "{header}");
    }
    assert_eq!(negotiate_openapi(Some("application/com.github.proto-openapi.spec.v2@v1.0+protobuf")), None);
    let kubectl = "application/com.github.proto-openapi.spec.v3.v1.0+protobuf,application/json";
    assert_eq!(negotiate_openapi(Some(kubectl)), Some(Format::Json));
    assert_eq!(negotiate_openapi(None), Some(Format::Json));
}

#[test]
fn bodies_have_a_format() {
    let unknown = "the body of the request was in an unknown format - accepted media types include: ";
    let protobuf = "application/vnd.kubernetes.protobuf";
    let rows = [
        (None, Endpoint::BuiltIn, Ok(BodyFormat::Text(Format::Json))),
        (Some(""), Endpoint::Custom, Ok(BodyFormat::Text(Format::Json))),
        (Some("application/json; charset=utf-8"), Endpoint::BuiltIn, Ok(BodyFormat::Text(Format::Json))),
        (Some("Application/YAML"), Endpoint::Custom, Ok(BodyFormat::Text(Format::Yaml))),
        (Some(protobuf), Endpoint::BuiltIn, Ok(BodyFormat::Protobuf)),
        (
            Some("text/x"),
            Endpoint::BuiltIn,
            Err(format!("{unknown}application/json, application/yaml, {protobuf}")),
        ),
        (Some(protobuf), Endpoint::Custom, Err(format!("{unknown}application/json, application/yaml"))),
    ];
    for (header, endpoint, expected) in rows {
        assert_eq!(body_format(header, endpoint).map_err(|error| error.to_string()), expected, "{header:?}");
    }
    let patches = "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";
    let rows = [
        (Some("application/json-patch+json"), Endpoint::Custom, Ok(PatchType::Json)),
        (Some("application/merge-patch+json; charset=utf-8"), Endpoint::Custom, Ok(PatchType::Merge)),
        (Some("application/apply-patch+yaml"), Endpoint::BuiltIn, Ok(PatchType::Apply)),
        (Some("application/strategic-merge-patch+json"), Endpoint::BuiltIn, Ok(PatchType::Strategic)),
        (
            Some("application/strategic-merge-patch+json"),
            Endpoint::Custom,
            Err(format!("{unknown}{patches}")),
        ),
        (Some("application/json"), Endpoint::BuiltIn, Err("415: Unsupported Media Type".to_owned())),
        (None, Endpoint::BuiltIn, Err("415: Unsupported Media Type".to_owned())),
    ];
    for (header, endpoint, expected) in rows {
        assert_eq!(patch_type(header, endpoint).map_err(|error| error.to_string()), expected, "{header:?}");
    }
}

#[test]
fn only_long_answers_are_compressed() {
    let rows = [
        (Some("gzip"), accept::GZIP_THRESHOLD + 1, true),
        (Some("gzip"), accept::GZIP_THRESHOLD, false),
        (Some("deflate, gzip"), 1 << 20, true),
        (Some("gzip;q=0.5"), 1 << 20, false),
        (None, 1 << 20, false),
    ];
    for (header, length, expected) in rows {
        assert_eq!(gzip(header, length), expected, "{header:?}");
    }
}

proptest! {
    #[test]
    fn headers_never_panic(header in ".*", likely in "[a-z*/;=,. q0-9]{0,40}") {
        for header in [&header, &likely] {
            let _ = negotiate_watch(Some(header), Endpoint::BuiltIn);
            let _ = negotiate(Some(header), Endpoint::Custom);
            let _ = negotiate_discovery(Some(header), Endpoint::Custom);
            let _ = (body_format(Some(header), Endpoint::BuiltIn), patch_type(Some(header), Endpoint::Custom), negotiate_openapi(Some(header)));
        }
    }
}
