use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::json;

use super::{config_maps, resource, things, version};
use crate::request::selector::{FieldSelector, LabelSelector, field_value};

#[test]
fn labels_are_selected() {
    let labels = BTreeMap::from([("app", "web"), ("n", "5"), ("empty", ""), ("in", "notin")]);
    let rows = [
        ("", true),
        ("app", true),
        ("!app", false),
        ("!none", true),
        ("app=web", true),
        ("app==web", true),
        ("app = web , n", true),
        ("app!=web", false),
        ("none!=web", true),
        ("app in (web,db)", true),
        ("app in (db)", false),
        ("app notin (db)", true),
        ("none notin (db)", true),
        ("none in ()", false),
        ("empty in ()", true),
        ("empty in (,)", true),
        ("empty=", true),
        ("empty=,app", true),
        ("n>4", true),
        ("n>5", false),
        ("n<6,n>4", true),
        ("app>4", false),
        ("none<4", false),
        ("in=notin", true),
        ("in in (in,notin)", true),
    ];
    for (selector, expected) in rows {
        let parsed = LabelSelector::parse(selector).unwrap();
        assert_eq!(parsed.matches(|key| labels.get(key).copied()), expected, "{selector}");
        assert_eq!(parsed.matches_object(&json!({"metadata": {"labels": labels}})), expected, "{selector}");
    }
    assert!(!LabelSelector::parse("a").unwrap().matches_object(&json!({"metadata": {}})));
}

#[test]
fn label_selectors_are_printed_in_order() {
    let rows = [
        ("b=2, a = 1", "a=1,b=2"),
        ("x in (c,a,b,a)", "x in (a,b,c)"),
        ("x notin ()", "x notin ()"),
        ("!x,y", "!x,y"),
        ("x==1,y!=2,z>3", "x==1,y!=2,z>3"),
        ("x in (a,)", "x in (,a)"),
    ];
    for (selector, expected) in rows {
        assert_eq!(LabelSelector::parse(selector).unwrap().to_string(), expected);
    }
}

#[test]
fn wrong_label_selectors_are_refused_in_upstreams_words() {
    let rows = [
        ("a in", "unable to parse requirement: found '' expected: '('"),
        ("a in (", "unable to parse requirement: found '', expected: ',', ')' or identifier"),
        ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'"),
        ("a in (b,=", "unable to parse requirement: found '=', expected: ',', or identifier"),
        ("a=b=c", "found '=', expected: ',' or 'end of string'"),
        ("a=(", "unable to parse requirement: found '(', expected: identifier"),
        ("!a=b", "found '=', expected: ',' or 'end of string'"),
        ("!!a", "unable to parse requirement: found '!', expected: identifier"),
        (",", "found ',', expected: !, identifier, or 'end of string'"),
        ("a,", "found '', expected: identifier after ','"),
        ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        (
            "a>1.5",
            "unable to parse requirement: values[0]: Invalid value: \"1.5\": for 'Gt', 'Lt' operators, the value must \
             be an integer",
        ),
        (
            "-a",
            "unable to parse requirement: <nil>: Invalid value: \"-a\": name part must consist of alphanumeric \
             characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or \
             'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
        ),
        (
            "a=-b",
            "unable to parse requirement: values[0][a]: Invalid value: \"-b\": a valid label must be an empty string \
             or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric \
             character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is \
             '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')",
        ),
    ];
    for (selector, expected) in rows {
        assert_eq!(LabelSelector::parse(selector).unwrap_err().to_string(), expected, "{selector}");
    }
}

#[test]
fn fields_are_selected() {
    let thing =
        json!({"metadata": {"name": "t", "namespace": "x"}, "spec": {"color": "a,b=c\\", "n": 3, "b": true}});
    let rows = [
        ("", true),
        ("metadata.name=t", true),
        ("metadata.name==t,metadata.namespace!=y", true),
        ("metadata.name!=t", false),
        (r"spec.color=a\,b\=c\\", true),
        ("spec.n=3,spec.b=true", true),
        ("spec.n=0", false),
        ("spec.none=", true),
        (",,metadata.name=t,", true),
        ("=", true),
    ];
    for (selector, expected) in rows {
        let parsed = FieldSelector::parse(selector).unwrap();
        assert_eq!(parsed.matches_object(&things(), &thing), expected, "{selector}");
    }
    let selector = FieldSelector::parse("metadata.name=t,spec.n!=4").unwrap();
    assert_eq!((selector.exact("metadata.name"), selector.exact("spec.n")), (Some("t"), None));
}

#[test]
fn some_fields_are_computed() {
    let nodes = resource("", "nodes", "Node", false, version(Vec::new(), &["spec.unschedulable"]));
    let events = resource("", "events", "Event", true, version(Vec::new(), &["source"]));
    assert_eq!(field_value(&nodes, &json!({}), "spec.unschedulable"), "false");
    assert_eq!(field_value(&nodes, &json!({"spec": {"unschedulable": true}}), "spec.unschedulable"), "true");
    let old = json!({"source": {"component": "kubelet"}, "reportingComponent": "other"});
    assert_eq!(field_value(&events, &old, "source"), "kubelet");
    assert_eq!(field_value(&events, &json!({"reportingComponent": "new"}), "source"), "new");
}

#[test]
fn wrong_field_selectors_are_refused_in_upstreams_words() {
    let rows = [
        ("x", "invalid selector: 'x'; can't understand 'x'"),
        ("b=1,x", "invalid selector: 'b=1,x'; can't understand 'x'"),
        ("metadata.name=a=b", "invalid field selector: unescaped character in value: 61"),
        (r"metadata.name=a\b", r"invalid field selector: invalid escape sequence: \b"),
        (r"metadata.name=a\", r"invalid field selector: invalid escape sequence: \"),
    ];
    for (selector, expected) in rows {
        assert_eq!(FieldSelector::parse(selector).unwrap_err().to_string(), expected, "{selector}");
    }
}

#[test]
fn fields_must_be_selectable() {
    let namespaces = resource("", "namespaces", "Namespace", false, version(Vec::new(), &["status.phase"]));
    let only = "\"x\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"";
    let rows = [
        (config_maps(), "x=y", Some(only)),
        (config_maps(), "metadata.namespace=y", None),
        (namespaces, "metadata.namespace=y", Some("field label not supported: metadata.namespace")),
        (things(), "spec.x=y", Some("field label not supported: spec.x")),
        (things(), "spec.color=y,metadata.namespace=z", None),
    ];
    for (resource, selector, expected) in rows {
        let checked = FieldSelector::parse(selector).unwrap().check(&resource, &resource.versions[0]);
        assert_eq!(checked.err().map(|error| error.to_string()).as_deref(), expected, "{selector}");
    }
}

proptest! {
    #[test]
    fn selectors_never_panic(text in ".*", signs in "[a-z!=<>(), ]{0,30}") {
        let _ = (LabelSelector::parse(&text), FieldSelector::parse(&text));
        let _ = (LabelSelector::parse(&signs), FieldSelector::parse(&signs));
    }

    #[test]
    fn label_selectors_print_as_they_parse(text in "[a-c]( ?(=|==|!=) ?[a-c]{0,2}| (in|notin) \\([a-c,]{0,5}\\)|>1|<2|)(,!?[d-f](=[a-c])?){0,3}") {
        if let Ok(parsed) = LabelSelector::parse(&text) {
            prop_assert_eq!(LabelSelector::parse(&parsed.to_string()), Ok(parsed), "{}", text);
        }
    }

    #[test]
    fn field_selectors_print_as_they_parse(fields in proptest::collection::vec(("[a-z.]{1,5}", "(=|!=)", ".{0,5}"), 0..4)) {
        let escape = |value: &str| value.replace('\\', "\\\\").replace(',', "\\,").replace('=', "\\=");
        let terms: Vec<_> = fields.iter().map(|(field, operator, value)| format!("{field}{operator}{}", escape(value))).collect();
        let parsed = FieldSelector::parse(&terms.join(",")).unwrap();
        prop_assert_eq!(parsed.requirements().len(), fields.len());
        let printed = FieldSelector::parse(&parsed.to_string()).unwrap();
        prop_assert_eq!(printed, parsed);
    }
}
