use std::fmt::Write as _;

use serde_json::json;

use super::*;

fn recorded(name: &str) -> Vec<u8> {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/states").join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn addresses(state: &State) -> Vec<&str> {
    state.resources.iter().map(|resource| resource.address.as_str()).collect()
}

#[test]
fn states_of_both_binaries_are_read() {
    for binary in ["terraform", "tofu"] {
        let state = State::read(&recorded(&format!("{binary}.tfstate"))).expect("a state");
        assert_eq!(
            addresses(&state),
            [
                "terraform_data.bad",
                "terraform_data.c[0]",
                "terraform_data.c[1]",
                r#"module.m["k"].terraform_data.in["a\"b"]"#,
                r#"module.m["k"].terraform_data.in["c"]"#,
                r#"module.m["k"].terraform_data.plain"#,
                r#"module.n[0].terraform_data.in["a\"b"]"#,
                r#"module.n[0].terraform_data.in["c"]"#,
                "module.n[0].terraform_data.plain",
            ],
            "{binary}"
        );
        let tainted: Vec<_> = state.resources.iter().map(|resource| resource.tainted).collect();
        assert_eq!(tainted, [true, false, false, false, false, false, false, false, false]);
        assert_eq!(
            state.outputs["map"],
            Output { value: json!({"a": 1, "b": [true, null, 1.5]}), sensitive: false }
        );
        assert!(state.outputs["secret"].sensitive);
        assert!(!state.outputs.contains_key("null"));
        // The user's name beside the password is no secret, nor is the number beside the one in the list. A literal given to
        // a sensitive variable is one.
        assert_eq!(state.secrets, ["hunter2-longer", "other-secret"], "{binary}");
        assert!(state.builtin_only());
        assert!(state.serial > 0 && !state.lineage.is_empty() && !state.is_empty());
    }
}

#[test]
fn a_deposed_object_is_still_there() {
    for binary in ["terraform", "tofu"] {
        let state = State::read(&recorded(&format!("{binary}-deposed.tfstate"))).expect("a state");
        assert_eq!(addresses(&state), ["terraform_data.d", "terraform_data.d"], "{binary}");
        let marks: Vec<_> =
            state.resources.iter().map(|resource| (resource.tainted, resource.deposed)).collect();
        assert_eq!(marks, [(true, false), (false, true)], "{binary}");
    }
}

#[test]
fn what_is_no_state_says_why() {
    let rows: [(&[u8], &str); 8] = [
        (b"", "cut short"),
        (b" \n", "cut short"),
        (b"garbage", "cannot be read"),
        (b"{}", "missing field `version`"),
        (b"[]", "cannot be read"),
        (br#"{"version":4,"serial":1"#, "EOF"),
        (
            br#"{"version":5,"terraform_version":"9.9.9","serial":1,"lineage":"x"}"#,
            "format version 5, written by 9.9.9",
        ),
        (br#"{"version":3,"terraform_version":"0.11.1","modules":[]}"#, "format version 3"),
    ];
    for (bytes, expected) in rows {
        let error = State::read(bytes).expect_err("no state").to_string();
        assert!(error.contains(expected), "{error:?} lacks {expected:?}");
    }
    let error = State::read(&recorded("tofu-encrypted.tfstate")).expect_err("encrypted");
    assert!(matches!(error, StateError::Encrypted), "{error}");
}

#[test]
fn keys_are_quoted_as_in_hcl() {
    let rows = [
        (json!("a b"), r#"t.n["a b"]"#),
        (json!("${x}%{y}$z"), r#"t.n["$${x}%%{y}$z"]"#),
        (json!("a\nb\\"), r#"t.n["a\nb\\"]"#),
        (json!("日本"), r#"t.n["日本"]"#),
        (json!(7), "t.n[7]"),
        (json!(null), "t.n"),
    ];
    for (key, expected) in rows {
        let state = json!({"version": 4, "serial": 1, "lineage": "l", "terraform_version": "1.0.0", "outputs": {}, "resources": [
            {"mode": "managed", "type": "t", "name": "n", "provider": "p", "instances": [{"index_key": key}]}]});
        let state = State::read(state.to_string().as_bytes()).expect("a state");
        assert_eq!(addresses(&state), [expected]);
    }
}

#[test]
fn secrets_are_found_where_the_paths_lead() {
    let attribute = |name: &str| json!({"type": "get_attr", "value": name});
    let index = |value: Value| json!({"type": "index", "value": {"value": value, "type": "x"}});
    let attributes = json!({"a": "one", "list": [{"b": "two", "c": "clear"}], "map": {"k": "three"}, "n": 123_456, "gone": null,
        "value": "four", "header": {"value": "eight", "type": "nine"}, "tuple": {"value": [1, "seven"], "type": ["tuple", ["number", "string"]]},
        "dynamic": {"value": {"value": "five", "type": "six"}, "type": ["object", {"value": "string", "type": "string"}]}});
    let rows: [(Value, &[&str]); 13] = [
        (json!([attribute("a")]), &["one"]),
        (json!([attribute("list"), index(json!(0)), attribute("b")]), &["two"]),
        (json!([attribute("map"), index(json!("k"))]), &["three"]),
        (json!([attribute("n")]), &["123456"]),
        (json!([attribute("gone"), attribute("x")]), &[]),
        (json!([attribute("value")]), &["four"]),
        (json!([attribute("header")]), &["eight", "nine"]),
        (json!([attribute("tuple"), index(json!(1))]), &["seven"]),
        (json!([attribute("dynamic"), attribute("value")]), &["five"]),
        (json!([attribute("dynamic"), attribute("type")]), &["six"]),
        (json!([attribute("dynamic")]), &["five", "six"]),
        (json!([attribute("list"), {"type": "splat"}]), &["clear", "two"]),
        (
            json!("not a path"),
            &[
                "1", "123456", "clear", "eight", "five", "four", "nine", "number", "object", "one", "seven",
                "six", "string", "three", "tuple", "two",
            ],
        ),
    ];
    for (path, expected) in rows {
        let state = json!({"version": 4, "serial": 1, "lineage": "l", "resources": [
            {"mode": "data", "type": "t", "name": "n", "instances": [{"attributes": attributes, "sensitive_attributes": [path]}]}]});
        let state = State::read(state.to_string().as_bytes()).expect("a state");
        assert_eq!(state.secrets, expected, "{path}");
    }
}

#[test]
fn a_state_of_fifty_megabytes_is_read() {
    let filler = "x".repeat(5_000);
    let mut text = String::from(
        r#"{"version":4,"serial":1,"lineage":"l","resources":[{"mode":"managed","type":"t","name":"n","instances":["#,
    );
    for index in 0..10_000 {
        let comma = if index == 0 { "" } else { "," };
        write!(
            text,
            r#"{comma}{{"index_key":{index},"attributes":{{"a":"{filler}"}},"sensitive_attributes":[]}}"#
        )
        .expect("writing to a String never fails");
    }
    text.push_str("]}]}");
    assert!(text.len() > 50_000_000);
    assert_eq!(State::read(text.as_bytes()).expect("a state").resources.len(), 10_000);
}

#[test]
fn providers_are_named_by_their_source() {
    for provider in [
        r#"provider["registry.terraform.io/hashicorp/aws"]"#,
        r#"provider["registry.terraform.io/hashicorp/aws"].west"#,
        r#"module.m.provider["registry.terraform.io/hashicorp/aws"]"#,
    ] {
        let state = json!({"version": 4, "serial": 1, "lineage": "l", "resources": [
            {"mode": "managed", "type": "t", "name": "n", "provider": provider, "instances": [{}]}]});
        let state = State::read(state.to_string().as_bytes()).expect("a state");
        assert_eq!(state.providers.into_iter().collect::<Vec<_>>(), ["registry.terraform.io/hashicorp/aws"]);
    }
}

#[test]
fn an_object_is_the_same_under_another_address() {
    let state = |objects: &[(&str, bool, Option<&str>)]| State {
        resources: objects
            .iter()
            .map(|(address, deposed, id)| Resource {
                address: (*address).to_owned(),
                tainted: false,
                deposed: *deposed,
                id: id.map(str::to_owned),
            })
            .collect(),
        ..State::default()
    };
    let own = state(&[
        ("module.m[\"k.1\"].aws_instance.a[0]", false, Some("i-0123456789")),
        ("random_password.p", false, Some("none")),
        ("local_file.f", false, Some("da39a3ee5e6b4b0d3255bfef95601890afd80709")),
    ]);
    let rows = [
        (("aws_instance.b", false, Some("i-0123456789")), true),
        (("aws_instance.a", true, Some("i-0123456789")), true),
        (("aws_instance.a", false, Some("i-other-one")), false),
        (("aws_eip.a", false, Some("i-0123456789")), false),
        (("random_password.q", false, Some("none")), false),
        (("random_password.p", false, None), true),
        (("local_file.g", false, Some("da39a3ee5e6b4b0d3255bfef95601890afd80709")), false),
    ];
    for (object, expected) in rows {
        let other = state(&[object]);
        assert_eq!((own.overlaps(&other), other.overlaps(&own)), (expected, expected), "{object:?}");
    }
}
