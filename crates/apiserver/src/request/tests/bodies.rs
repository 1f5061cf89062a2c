use bytes::Bytes;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{config_maps, things};
use crate::bounds::MAX_DEPTH;
use crate::json::{ParseError, parse, syntax_error};
use crate::request::{
    accept::Format,
    body::{
        BODY_LIMIT, BodyError, DecodedBody, Repeated, check_kind, decode, duplicate_field, strict_error,
        unknown_field,
    },
};

fn json_body(text: &str) -> Result<DecodedBody, BodyError> {
    decode(&Bytes::copy_from_slice(text.as_bytes()), Format::Json)
}

#[test]
fn members_given_twice_are_noted() {
    let text = r#"{"metadata":{"name":"a","name":"b"},"spec":{"a":1,"a":2,"a":3,"l":[0,{"x":1,"x":2}]},"a.b":1,"a.b":2}"#;
    let DecodedBody { value, repeated } = json_body(text).unwrap();
    let paths = ["metadata.name", "spec.a", "spec.l[1].x", "a.b"];
    assert_eq!(repeated, Repeated::Members(paths.map(str::to_owned).into()));
    assert_eq!(value["metadata"]["name"], "b");
    assert_eq!(value["spec"]["l"][1], json!({"x": 2}));
}

#[test]
fn keys_given_twice_are_noted_by_line() {
    let body = Bytes::from_static(b"a: 1\nb:\n  c: x\n  c: z\na: 2\n");
    let DecodedBody { value, repeated } = decode(&body, Format::Yaml).unwrap();
    assert_eq!(value, json!({"a": 2, "b": {"c": "z"}}));
    let lines = ["line 4: key \"c\" already set in map", "line 5: key \"a\" already set in map"];
    assert_eq!(repeated.warnings(), lines);
    assert_eq!(repeated.problems(), [format!("yaml: unmarshal errors:\n  {}\n  {}", lines[0], lines[1])]);
    // What is JSON is read as YAML then, too.
    let body = Bytes::from_static(b"{\"a\": 1, \"a\": 2}");
    let DecodedBody { value, repeated } = decode(&body, Format::Yaml).unwrap();
    assert_eq!(
        (value, repeated.warnings()),
        (json!({"a": 2}), vec!["line 1: key \"a\" already set in map".to_owned()])
    );
}

#[test]
fn numbers_are_what_they_are_once_stored() {
    let value = parse(b"[1, 1.0, -0.0, 1.5, 18446744073709551615, 1e30, 1e2]").unwrap().value;
    assert_eq!(value.to_string(), "[1,1,0,1.5,1.8446744073709552e+19,1e+30,100]");
}

#[test]
fn syntax_errors_have_gos_words() {
    let rows = [
        ("", "unexpected end of JSON input"),
        ("{", "unexpected end of JSON input"),
        ("{\"a\"", "unexpected end of JSON input"),
        ("[1", "unexpected end of JSON input"),
        ("x", "invalid character 'x' looking for beginning of value"),
        ("{,}", "invalid character ',' looking for beginning of object key string"),
        ("{\"a\":1,}", "invalid character '}' looking for beginning of object key string"),
        ("{\"a\" 1}", "invalid character '1' after object key"),
        ("{\"a\":1 2}", "invalid character '2' after object key:value pair"),
        ("[1 2]", "invalid character '2' after array element"),
        ("[1,]", "invalid character ']' looking for beginning of value"),
        ("{} x", "invalid character 'x' after top-level value"),
        ("01", "invalid character '1' after top-level value"),
        ("-x", "invalid character 'x' in numeric literal"),
        ("1.x", "invalid character 'x' after decimal point in numeric literal"),
        ("1ex", "invalid character 'x' in exponent of numeric literal"),
        ("[tru]", "invalid character ']' in literal true (expecting 'e')"),
        ("nul", "unexpected end of JSON input"),
        ("\"\\x\"", "invalid character 'x' in string escape code"),
        ("\"\\u12g4\"", "invalid character 'g' in \\u hexadecimal character escape"),
        ("\"\n\"", "invalid character '\\n' in string literal"),
        ("'a'", "invalid character '\\'' looking for beginning of value"),
        ("é", "invalid character 'Ã' looking for beginning of value"),
    ];
    for (text, expected) in rows {
        assert_eq!(syntax_error(text.as_bytes()).as_deref(), Some(expected), "{text}");
        assert_eq!(parse(text.as_bytes()), Err(ParseError::Syntax(expected.to_owned())), "{text}");
    }
}

#[test]
fn unreadable_bodies_are_refused_in_upstreams_words() {
    let of_kind = |text: &str| json_body(text).unwrap_err().of_kind("ConfigMap", text.as_bytes()).to_string();
    let start = "the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; json \
                 parse error: ";
    assert_eq!(of_kind(""), format!("{start}unexpected end of JSON input (<empty>)"));
    assert_eq!(of_kind("{"), format!("{start}unexpected end of JSON input ({{)"));
    let long = r#"{"metadata":{"name":"a"},"data":{"x":tru}}"#;
    let expected =
        r#"invalid character '}' in literal true (expecting 'e') ({"metadata":{"name":"a"},"data ...)"#;
    assert_eq!(of_kind(long), format!("{start}{expected}"));
    assert_eq!(of_kind("x"), format!("{start}invalid character 'x' looking for beginning of value (78)"));
    let options = json_body("{").unwrap_err().of_options().to_string();
    assert_eq!(options, "couldn't get version/kind; json parse error: unexpected end of JSON input");
}

#[test]
fn bodies_are_limited() {
    let long = Bytes::from(vec![b' '; BODY_LIMIT + 1]);
    let error = decode(&long, Format::Json).unwrap_err();
    assert_eq!(error.of_kind("ConfigMap", &long).code().as_u16(), 413);
    let bomb = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    assert!(matches!(json_body(&bomb), Err(BodyError::Json(_))));
}

#[test]
fn malformed_yaml_is_refused() {
    let body = Bytes::from_static(b"a: [1");
    let error = decode(&body, Format::Yaml).unwrap_err().of_kind("Thing", &body).to_string();
    let expected = "the object provided is unrecognized (must be of type Thing): yaml: line ";
    assert!(error.starts_with(expected) && error.ends_with(" (613a205b31)"), "{error}");
    assert!(decode(&Bytes::from_static(b"\xff"), Format::Yaml).is_err());
}

#[test]
fn kinds_are_checked() {
    let wrong = "couldn't get version/kind; json parse error: json: cannot unmarshal array into Go value of type struct \
                 { APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \
                 \"json:\\\"kind,omitempty\\\"\" } (5b5d)";
    let rows = [
        (config_maps(), "{}", None),
        (config_maps(), "null", None),
        (config_maps(), r#"{"kind":"ConfigMap","apiVersion":"v1"}"#, None),
        (
            config_maps(),
            "[]",
            Some(format!("the object provided is unrecognized (must be of type ConfigMap): {wrong}")),
        ),
        (
            config_maps(),
            r#"{"kind":"Foo","apiVersion":"v1"}"#,
            Some(
                "Foo in version \"v1\" cannot be handled as a ConfigMap: no kind \"Foo\" is registered for version \
                 \"v1\" in scheme \"pkg/runtime/scheme.go:111\""
                    .to_owned(),
            ),
        ),
        (things(), r#"{"kind":"Thing","apiVersion":"edge.example.com/v1"}"#, None),
        (
            things(),
            "{}",
            Some(
                "the object provided is unrecognized (must be of type Thing): Object 'Kind' is missing in '{}' ({})"
                    .to_owned(),
            ),
        ),
        (
            things(),
            r#"{"kind":"Thing","apiVersion":"edge.example.com/v2"}"#,
            Some(
                "the API version in the data (edge.example.com/v2) does not match the expected API version \
                 (edge.example.com/v1)"
                    .to_owned(),
            ),
        ),
        (
            things(),
            r#"{"kind":"Foo","apiVersion":"edge.example.com/v1"}"#,
            Some(
                "Foo.edge.example.com \"\" is invalid: kind: Invalid value: \"Foo\": must be Thing".to_owned(),
            ),
        ),
    ];
    for (resource, text, expected) in rows {
        let mut value = json_body(text).unwrap().value;
        let checked = check_kind(&mut value, &resource, "v1", text.as_bytes());
        assert_eq!(checked.map_err(|error| error.to_string()).err(), expected, "{text}");
        if expected.is_none() {
            assert_eq!(value["kind"], resource.kind.as_str());
        }
    }
}

#[test]
fn strictness_has_words() {
    let problems = [duplicate_field("metadata.name"), unknown_field("foo")];
    let expected = "Thing in version \"v1\" cannot be handled as a Thing: strict decoding error: duplicate field \
                    \"metadata.name\", unknown field \"foo\"";
    assert_eq!(strict_error("Thing", "v1", &problems).to_string(), expected);
}

proptest! {
    #[test]
    fn bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64), signs in "[\\[\\]{}:,\"a1.e\\\\-]{0,24}") {
        // What serde reads, Go reads too, and the other way round.
        prop_assert_eq!(syntax_error(signs.as_bytes()).is_none(), serde_json::from_str::<Value>(&signs).is_ok(), "{}", signs);
        let _ = (parse(&bytes), syntax_error(&bytes));
    }

    #[test]
    fn depth_is_no_danger(depth in 0_usize..5000) {
        let text = format!("{}1{}", "[{\"a\":".repeat(depth), "}]".repeat(depth));
        let told = (2 * depth > MAX_DEPTH).then(|| "invalid character '[' exceeded max depth".to_owned());
        prop_assert_eq!(syntax_error(text.as_bytes()), told.clone());
        prop_assert_eq!(parse(text.as_bytes()).err(), told.map(ParseError::Syntax));
    }
}

/// A hundred duplicates below a key of a megabyte were told with a hundred megabytes.
#[test]
fn paths_of_duplicates_are_bounded_in_bytes() {
    let twice = (0..100).map(|n| format!(r#""k{n}":1,"k{n}":2"#)).collect::<Vec<_>>().join(",");
    for (length, count) in [(10, 100), (4 << 10, 16), (1 << 20, 1)] {
        let body = format!(r#"{{"{}":{{{twice}}}}}"#, "x".repeat(length));
        let told = parse(body.as_bytes()).unwrap().duplicates;
        let bytes: usize = told.iter().map(String::len).sum();
        assert!(bytes <= length + (64 << 10) + 100, "{bytes}");
        assert_eq!(told.len(), count, "{length}");
    }
}
