use jiff::Timestamp;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{
    age::{human_seconds, since_text},
    list::{ListMeta, ListWriter},
    partial::partial_list,
    table::{IncludeObject, JsonPath, JsonPathError, Printer, TableOptions},
    watch::{self, EventType},
};
use crate::{
    request::{
        accept::MetaVersion,
        query::Query,
        tests::{config_maps, resource, things, version},
    },
    resource::Column,
    status::ApiError,
};

fn now() -> Timestamp {
    "2026-01-01T00:05:00Z".parse().unwrap()
}

fn read(bytes: &[u8]) -> Value {
    assert_eq!(bytes.last(), Some(&b'\n'));
    serde_json::from_slice(bytes).unwrap()
}

#[test]
fn ages_fit_their_column() {
    let (minute, hour, day, year) = (60, 3600, 86_400, 31_536_000);
    let rows = [
        (-2, "<invalid>"),
        (-1, "0s"),
        (0, "0s"),
        (119, "119s"),
        (2 * minute, "2m"),
        (2 * minute + 1, "2m1s"),
        (10 * minute - 1, "9m59s"),
        (10 * minute, "10m"),
        (3 * hour - 1, "179m"),
        (3 * hour, "3h"),
        (7 * hour + 59 * minute, "7h59m"),
        (8 * hour, "8h"),
        (48 * hour - 1, "47h"),
        (2 * day, "2d"),
        (7 * day + 23 * hour, "7d23h"),
        (8 * day, "8d"),
        (2 * year - 1, "729d"),
        (2 * year, "2y"),
        (3 * year + 5 * day, "3y5d"),
        (8 * year, "8y"),
        (99 * year, "99y"),
    ];
    for (seconds, expected) in rows {
        assert_eq!(human_seconds(seconds), expected);
    }
    let rows = [
        ("2026-01-01T00:00:00Z", "5m"),
        ("2026-01-01T00:00:00.999Z", "4m59s"),
        ("", "<unknown>"),
        ("soon", "<invalid>"),
    ];
    for (then, expected) in rows {
        assert_eq!(since_text(then, now()), expected);
    }
}

#[test]
fn paths_find_values() {
    let value = json!({
        "a": {"b": 1, "x.y": 2, "z/w": 3},
        "l": ["x", "y", "z"],
        "c": [{"type": "A", "status": "False", "n": 1}, {"type": "Ready", "status": "True", "n": 2.5}, {"status": "?"}],
        "null": null,
    });
    let rows = [
        (".a.b", json!([1])),
        ("$.a.b", json!([1])),
        (".a", json!([{"b": 1, "x.y": 2, "z/w": 3}])),
        (".a['b']", json!([1])),
        (r".a['x\.y']", json!([2])),
        (r".a.x\.y", json!([2])),
        (".a.z/w", json!([3])),
        (".a.none", json!([])),
        (".none.b", json!([])),
        (".null", json!([null])),
        (".a.*", json!([1, 2, 3])),
        (".l[0]", json!(["x"])),
        (".l[]", json!(["x"])),
        (".l[-1]", json!(["z"])),
        (".l[-1:]", json!(["z"])),
        (".l[*]", json!(["x", "y", "z"])),
        (".l[0:2]", json!(["x", "y"])),
        (".l[::2]", json!(["x", "z"])),
        (".l[0,2]", json!(["x", "z"])),
        (".l[1:1]", json!([])),
        (".c[*].status", json!(["False", "True", "?"])),
        (".c[?(@.type==\"Ready\")].status", json!(["True"])),
        (".c[?(@.type=='Ready')].status", json!(["True"])),
        (".c[?(@.type != 'Ready')].status", json!(["False"])),
        (".c[?(@.type)].status", json!(["False", "True"])),
        (".c[?(@.type==\"(x)\")].status", json!([])),
        ("..status", json!(["False", "True", "?"])),
        ("['a','l'][0]", json!(null)),
    ];
    for (path, expected) in rows {
        let parsed: JsonPath = path.parse().unwrap();
        let found = parsed.all(&value);
        let found = found.map_or(Value::Null, |found| found.into_iter().cloned().collect());
        assert_eq!(found, expected, "{path}");
    }
    // Out of bounds, of another type, not comparable: nothing.
    for path in [".l[9]", ".a[0]", ".c[?(@.n==2)].n", ".a[?(@.x)]", ".l[2:1]", ".l[0:2:0]", "a.b"] {
        let parsed: JsonPath = path.parse().unwrap();
        assert_eq!(parsed.first(&value), None, "{path}");
    }
}

#[test]
fn paths_that_are_none_are_refused() {
    let rows = [
        (".a[", JsonPathError::Array),
        (".a[?(@.b", JsonPathError::Filter),
        (".a[?(@.b)", JsonPathError::Filter),
        (".a[x]", JsonPathError::Index("x".to_owned())),
        (".a[1:2:3:4]", JsonPathError::Index("1:2:3:4".to_owned())),
        ("\"a", JsonPathError::Quote),
        (".a\\", JsonPathError::Unclosed),
        ("#", JsonPathError::Character('#')),
        ("....", JsonPathError::Recursive),
        ("1.2.3", JsonPathError::Number("1.2.3".to_owned())),
    ];
    for (path, expected) in rows {
        assert_eq!(path.parse::<JsonPath>(), Err(expected), "{path}");
    }
    let deep = format!("{}{}", "[?(@.a".repeat(50), ")]".repeat(50));
    assert!(deep.parse::<JsonPath>().is_err());
}

fn column(name: &str, kind: &str, path: &str) -> Column {
    Column {
        name: name.to_owned(),
        kind: kind.to_owned(),
        format: String::new(),
        description: String::new(),
        priority: 0,
        json_path: path.to_owned(),
    }
}

#[test]
fn cells_have_the_type_of_their_column() {
    let thing = json!({"metadata": {"name": "t"}, "spec": {
        "s": "text", "i": 42, "f": 1.75, "b": true, "o": {"z": 1, "a": [1, 2.5], "h": "<&>"}, "null": null,
        "d": "2026-01-01T00:00:00Z", "empty": "", "lf": 1_234_567.5,
    }});
    let rows = [
        ("string", ".spec.s", json!("text")),
        ("string", ".spec.i", json!("42")),
        ("string", ".spec.f", json!("1.75")),
        ("string", ".spec.lf", json!("1.2345675e+06")),
        ("string", ".spec.b", json!("true")),
        ("string", ".spec.o", json!(r#"{"a":[1,2.5],"h":"\u003c\u0026\u003e","z":1}"#)),
        ("string", ".spec.null", json!("<no value>")),
        ("string", ".spec.none", json!(null)),
        ("integer", ".spec.i", json!(42)),
        ("integer", ".spec.f", json!(1)),
        ("integer", ".spec.s", json!(null)),
        ("number", ".spec.f", json!(1.75)),
        ("number", ".spec.i", json!(42)),
        ("boolean", ".spec.b", json!(true)),
        ("boolean", ".spec.s", json!(null)),
        ("date", ".spec.d", json!("5m")),
        ("date", ".spec.s", json!("<invalid>")),
        ("date", ".spec.empty", json!("<unknown>")),
        ("date", ".spec.i", json!(null)),
    ];
    let mut columns: Vec<_> = rows.iter().map(|(kind, path, _)| column("C", kind, path)).collect();
    // What is no path ends the table.
    columns.extend([column("X", "string", ".spec.l["), column("Y", "string", ".spec.s")]);
    let version = version(columns, &[]);
    let cells = Printer::new(&things(), &version).cells(&thing, now());
    assert_eq!((&cells[0], cells.len()), (&json!("t"), rows.len() + 1));
    for ((kind, path, expected), cell) in rows.iter().zip(&cells[1..]) {
        assert_eq!(cell, expected, "{kind} {path}");
    }
}

/// However many columns show one long text, or look for something in one long list.
#[test]
fn the_cells_of_a_row_are_bounded_together() {
    let thing = json!({"metadata": {"name": "t"}, "spec": {"s": "é".repeat(100_000), "l": vec![0; 300_000], "last": 1}});
    let cells = |count: usize, path: &str| {
        let version = version(vec![column("C", "string", path); count], &[]);
        Printer::new(&things(), &version).cells(&thing, now())
    };
    let long = cells(80, ".spec.s");
    assert_eq!(long.len(), 81);
    let bytes: usize = long.iter().filter_map(Value::as_str).map(str::len).sum();
    assert_eq!(bytes, (256 << 10) + "t".len());
    assert_eq!((&long[1], &long[3]), (&thing["spec"]["s"], &Value::Null));
    assert_eq!(cells(500, ".spec.last").len(), 401);
    // Three of them look at the whole list, and no more.
    let found = cells(80, "..last").iter().filter(|cell| **cell == "1").count();
    assert_eq!(found, 3);
}

#[test]
fn tables_carry_what_is_asked_for() {
    let maps = config_maps();
    let printer = Printer::new(&maps, &maps.versions[0]);
    let created = "2026-01-01T00:00:00Z";
    let map = json!({
        "kind": "ConfigMap", "apiVersion": "v1", "data": {"a": "b"},
        "metadata": {"name": "m", "resourceVersion": "7", "creationTimestamp": created},
    });
    let rows = [
        (
            "",
            json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": map["metadata"]}),
        ),
        ("includeObject=None", json!(null)),
        ("includeObject=Object", map.clone()),
    ];
    for (query, object) in rows {
        let options = TableOptions::parse(&Query::parse(query), MetaVersion::V1).unwrap();
        let table = read(&printer.one(&map, options, now()));
        assert_eq!(table["metadata"], json!({"resourceVersion": "7"}));
        assert_eq!(table["rows"], json!([{"cells": ["m", 1, "5m"], "object": object}]), "{query}");
        let names: Vec<_> =
            table["columnDefinitions"].as_array().unwrap().iter().map(|c| &c["name"]).collect();
        assert_eq!(names, ["Name", "Data", "Age"]);
    }
    let options =
        TableOptions { no_headers: true, include: IncludeObject::None, version: MetaVersion::V1Beta1 };
    let meta =
        ListMeta { resource_version: "9".to_owned(), continue_token: "c".to_owned(), remaining: Some(4) };
    let table = read(&printer.list([&map, &map], &meta, options, now()));
    assert_eq!(
        (&table["columnDefinitions"], &table["apiVersion"]),
        (&json!(null), &json!("meta.k8s.io/v1beta1"))
    );
    let expected = json!({"resourceVersion": "9", "continue": "c", "remainingItemCount": 4});
    assert_eq!((&table["metadata"], table["rows"].as_array().unwrap().len()), (&expected, 2));
    // The bookmark that ends the initial events is told by its annotation, so it is never left out.
    let end = watch::bookmark_object("ConfigMap", "v1", 9, true);
    let table = read(&printer.one(&end, options, now()));
    assert_eq!(table["rows"][0]["object"]["metadata"], end["metadata"]);
    let error = TableOptions::parse(&Query::parse("includeObject=x"), MetaVersion::V1).unwrap_err();
    let expected = "Unable to convert to Table as requested: includeObject: Invalid value: \"x\": must be 'Metadata', \
                    'Object', 'None', or empty";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn lists_are_put_together_from_bytes() {
    let meta = ListMeta { resource_version: "7".to_owned(), ..ListMeta::default() };
    let list = ListWriter::new(&config_maps(), "v1", &meta, 0).finish();
    assert_eq!(
        String::from_utf8(list).unwrap(),
        "{\"kind\":\"ConfigMapList\",\"apiVersion\":\"v1\",\"metadata\":{\"resourceVersion\":\"7\"},\"items\":[]}\n"
    );
    let mut list = ListWriter::new(&config_maps(), "v1", &meta, 0);
    list.push(br#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}"#);
    list.push(br#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"b"}}"#);
    list.push(br#"{"metadata":{"name":"c"}}"#);
    let list = read(&list.finish());
    assert_eq!(
        list["items"],
        json!([{"metadata": {"name": "a"}}, {"metadata": {"name": "b"}}, {"metadata": {"name": "c"}}])
    );

    let object = json!({"kind": "Thing", "apiVersion": "edge.example.com/v1", "metadata": {"name": "t"}});
    let mut list = ListWriter::new(&things(), "v1", &meta, 100);
    list.push(object.to_string().as_bytes());
    let list = read(&list.finish());
    assert_eq!(list["items"], json!([object]));
    assert_eq!(list["metadata"], json!({"resourceVersion": "7", "continue": ""}));
    assert_eq!(list["apiVersion"], "edge.example.com/v1");

    let list = read(&partial_list([&object, &object], &meta, MetaVersion::V1));
    assert_eq!(list["kind"], "PartialObjectMetadataList");
    let item =
        json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": {"name": "t"}});
    assert_eq!(list["items"], json!([item, item]));
}

#[test]
fn events_are_lines() {
    assert_eq!(&watch::event(EventType::Added, b"{}\n")[..], b"{\"type\":\"ADDED\",\"object\":{}}\n");
    assert_eq!(
        &watch::bookmark("ConfigMap", "v1", 7, true)[..],
        br#"{"type":"BOOKMARK","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"resourceVersion":"7","annotations":{"k8s.io/initial-events-end":"true"}}}}
"#
    );
    let event = read(&watch::error(&ApiError::too_old_watch(1, 5)));
    assert_eq!((&event["type"], &event["object"]["code"]), (&json!("ERROR"), &json!(410)));
    assert_eq!(event["object"]["message"], "too old resource version: 1 (5)");
}

#[test]
fn built_in_kinds_have_a_cell_for_each_column() {
    const RBAC: &str = "rbac.authorization.k8s.io";
    let event = json!({
        "metadata": {"name": "e"}, "involvedObject": {"kind": "Pod", "name": "p"}, "type": "Normal", "reason": "R",
        "message": " m\n", "eventTime": "2026-01-01T00:00:00Z", "reportingComponent": "c", "reportingInstance": "i",
    });
    let binding = json!({
        "metadata": {"name": "b", "creationTimestamp": "2026-01-01T00:00:00Z"}, "roleRef": {"kind": "Role", "name": "r"},
        "subjects": [{"kind": "User", "name": "u"}, {"kind": "User", "name": "v"}, {"kind": "ServiceAccount", "name": "s", "namespace": "n"}],
    });
    let node = json!({
        "metadata": {"name": "n", "labels": {"node-role.kubernetes.io/control-plane": "", "kubernetes.io/role": "x"}},
        "spec": {"unschedulable": true},
        "status": {"conditions": [{"type": "Ready", "status": "False"}], "nodeInfo": {"kernelVersion": "6", "architecture": "arm64"}},
    });
    let secret = json!({"metadata": {"name": "s"}, "type": "Opaque", "data": {"a": ""}});
    let role = json!({"metadata": {"name": "r", "creationTimestamp": "2026-01-01T00:00:00Z"}});
    let status = "NotReady,SchedulingDisabled";
    let rows = [
        ("", "secrets", secret, json!(["s", "Opaque", 1, "<unknown>"])),
        ("", "events", event, json!(["5m", "Normal", "R", "pod/p", "", "c, i", "m", "5m", 1, "e"])),
        (RBAC, "rolebindings", binding, json!(["b", "Role/r", "5m", "u, v", "", "n/s"])),
        (RBAC, "roles", role, json!(["r", "2026-01-01T00:00:00Z"])),
        (
            "",
            "nodes",
            node,
            json!([
                "n",
                status,
                "control-plane,x",
                "<unknown>",
                "",
                "<none>",
                "<none>",
                "<unknown>",
                "6 (arm64)",
                "<unknown>"
            ]),
        ),
    ];
    for (group, plural, object, expected) in rows {
        let kind = resource(group, plural, "Any", true, version(Vec::new(), &[]));
        let printer = Printer::new(&kind, &kind.versions[0]);
        let table = read(&printer.one(
            &object,
            TableOptions::parse(&Query::default(), MetaVersion::V1).unwrap(),
            now(),
        ));
        assert_eq!(table["rows"][0]["cells"], expected, "{plural}");
        assert_eq!(
            table["columnDefinitions"].as_array().unwrap().len(),
            expected.as_array().unwrap().len(),
            "{plural}"
        );
    }
}

#[test]
fn unknown_built_in_kinds_have_a_name_and_an_age() {
    let accounts = resource("", "serviceaccounts", "ServiceAccount", true, version(Vec::new(), &[]));
    let printer = Printer::new(&accounts, &accounts.versions[0]);
    assert_eq!(printer.cells(&json!({"metadata": {"name": "a"}}), now()), ["a", "<unknown>"]);
}

proptest! {
    #[test]
    fn paths_never_panic(text in ".*", likely in "[.a\\[\\]?(@)'\"=*:0-9\\\\ ,-]{0,24}") {
        let value = json!({"a": [{"a": [1, 2]}, "x", null], "0": {"a": 1}});
        for text in [text, likely] {
            if let Ok(path) = text.parse::<JsonPath>() {
                let _ = path.all(&value);
            }
        }
    }

    #[test]
    fn ages_never_panic(seconds in any::<i64>(), text in ".*") {
        human_seconds(seconds);
        since_text(&text, now());
    }
}
