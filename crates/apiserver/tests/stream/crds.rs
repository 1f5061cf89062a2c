//! Random definitions: mostly good ones, sometimes with a schema or names that no server takes.

use serde_json::{Map, Value, json};

use crate::chance::Chance;

const GOOD: &[&str] = &[
    r#"{"type":"string"}"#,
    r#"{"type":"string","enum":["a","b"],"default":"a"}"#,
    r#"{"type":"string","nullable":true,"default":null}"#,
    r#"{"type":"string","format":"date-time"}"#,
    r#"{"type":"string","maxLength":5,"x-kubernetes-validations":[{"rule":"self.size() < 5","message":"short"}]}"#,
    r#"{"type":"integer","minimum":0,"exclusiveMinimum":true,"default":1}"#,
    r#"{"type":"number","multipleOf":0.5}"#,
    r#"{"type":"boolean","description":"whether"}"#,
    r#"{"x-kubernetes-int-or-string":true}"#,
    r#"{"type":"object","x-kubernetes-preserve-unknown-fields":true}"#,
    r#"{"type":"object","x-kubernetes-embedded-resource":true,"x-kubernetes-preserve-unknown-fields":true}"#,
    r#"{"type":"object","additionalProperties":{"type":"string"},"x-kubernetes-map-type":"granular"}"#,
    r#"{"type":"object","default":{},"properties":{"a":{"type":"string","default":"d"}},"required":["a"]}"#,
    r#"{"type":"array","items":{"type":"string"},"x-kubernetes-list-type":"set"}"#,
    r#"{"type":"array","items":{"type":"object","properties":{"k":{"type":"string"}},"required":["k"]},"x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["k"]}"#,
    r#"{"type":"object","properties":{"x":{"type":"string"}},"oneOf":[{"required":["x"]}],"not":{"required":["y"]}}"#,
];

const BAD: &[&str] = &[
    "{}",
    r#"{"type":"strin"}"#,
    r#"{"type":"array"}"#,
    r#"{"type":"string","default":5}"#,
    r#"{"type":"string","enum":["a"],"default":"z"}"#,
    r#"{"type":"integer","minimum":"x"}"#,
    r#"{"type":"string","pattern":"("}"#,
    r#"{"type":"string","format":5}"#,
    r#"{"type":"object","properties":{"a":{"type":"string"}},"additionalProperties":{"type":"string"}}"#,
    r#"{"type":"array","items":{"type":"object"},"x-kubernetes-list-type":"map"}"#,
    r#"{"type":"array","items":{"type":"object","properties":{"k":{"type":"string"}}},"x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["k"]}"#,
    r#"{"type":"array","items":{"type":"object","properties":{"k":{"type":"string"}}},"x-kubernetes-list-type":"set"}"#,
    r#"{"type":"array","items":{"type":"string"},"uniqueItems":true}"#,
    r#"{"type":"string","x-kubernetes-list-type":"atomic"}"#,
    r#"{"type":"string","x-kubernetes-validations":[{"rule":"self.foo == 1"}]}"#,
    r#"{"type":"string","x-kubernetes-validations":[{"rule":"1 +"}]}"#,
    r#"{"type":"string","x-kubernetes-validations":[{"rule":""}]}"#,
    r#"{"type":"string","x-kubernetes-validations":[{"rule":"self == oldSelf","message":"a\nb","reason":"Nope"}]}"#,
    r##"{"$ref":"#/definitions/x"}"##,
    r#"{"type":"string","x-kubernetes-preserve-unknown-fields":false}"#,
    r#"{"type":"object","x-kubernetes-embedded-resource":true}"#,
    r#"{"type":"string","x-kubernetes-int-or-string":true}"#,
    r#"{"type":"object","allOf":[{"type":"object","properties":{"z":{"type":"string"}}}]}"#,
    r#"{"type":"object","properties":{"x":{"type":"string"}},"anyOf":[{"properties":{"q":{"minLength":1}}}]}"#,
    r#"{"type":"object","x-kubernetes-map-type":"strange"}"#,
    r#"{"type":"string","unknownKeyword":1}"#,
    r#"{"type":"object","properties":[]}"#,
];

fn property(chance: &mut Chance, bad: u32) -> Value {
    let text = if chance.percent(bad) { chance.word(BAD) } else { chance.word(GOOD) };
    serde_json::from_str(text).unwrap()
}

fn schema(chance: &mut Chance, bad: u32) -> Value {
    let fields = |chance: &mut Chance| -> Value {
        let names = ["a", "b", "c", "replicas", "selector"];
        let count = chance.below(3);
        (0..=count)
            .map(|_| (chance.word(&names).to_owned(), property(chance, bad)))
            .collect::<Map<_, _>>()
            .into()
    };
    let mut root = json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": fields(chance)},
        "status": {"type": "object", "properties": fields(chance)},
    }});
    if chance.percent(bad) {
        match chance.below(7) {
            0 => root["type"] = json!("string"),
            1 => root["nullable"] = json!(true),
            2 => {
                root["properties"]["metadata"] =
                    json!({"type": "object", "properties": {"name": {"type": "string", "maxLength": 5}}});
            }
            3 => {
                root["properties"]["metadata"] =
                    json!({"type": "object", "properties": {"labels": {"type": "object"}}});
            }
            4 => root["properties"]["apiVersion"] = json!({"type": "integer"}),
            5 => root["required"] = json!(["nowhere"]),
            _ => root["default"] = json!({}),
        }
    }
    root
}

fn version(chance: &mut Chance, name: &str, storage: bool, bad: u32) -> Value {
    let mut out = json!({"name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema": schema(chance, bad)}});
    if chance.percent(15) {
        out["deprecated"] = json!(true);
        if chance.percent(40) {
            out["deprecationWarning"] = json!(chance.word(&["use another", "", "a\nb"]));
        }
    }
    if chance.percent(bad) {
        out["deprecationWarning"] = json!("not deprecated");
    }
    if chance.percent(40) {
        out["subresources"] = json!({"status": {}});
    }
    if chance.percent(15) {
        let path = chance.word(&[
            ".spec.replicas",
            ".spec.replicas",
            ".spec.replicas",
            "spec.x",
            ".status.x",
            ".spec[0]",
            "",
        ]);
        out["subresources"]["scale"] =
            json!({"specReplicasPath": path, "statusReplicasPath": ".status.replicas"});
        if chance.percent(50) {
            out["subresources"]["scale"]["labelSelectorPath"] =
                json!(chance.word(&[".status.selector", ".spec.selector", "selector"]));
        }
    }
    if chance.percent(25) {
        let mut column = json!({"name": "A", "type": "string", "jsonPath": ".spec.a"});
        if chance.percent(bad) {
            match chance.below(5) {
                0 => column["type"] = json!("strange"),
                1 => column["jsonPath"] = json!("spec.a["),
                2 => column["name"] = json!(""),
                3 => column["format"] = json!("what"),
                _ => column["priority"] = json!("x"),
            }
        }
        out["additionalPrinterColumns"] = json!([column]);
    }
    if chance.percent(10) {
        let path =
            chance.word(&[".spec.a", ".spec.b", ".spec.nothing", "spec.a", ".metadata.name", ".spec.a[0]"]);
        out["selectableFields"] = json!([{"jsonPath": path}]);
    }
    if chance.percent(bad) {
        match chance.below(4) {
            0 => out["served"] = json!(false),
            1 => out["storage"] = json!(!storage),
            2 => drop(out.as_object_mut().unwrap().shift_remove("schema")),
            _ => out["name"] = json!(chance.word(&["V1", "", "v1", "v1.2"])),
        }
    }
    out
}

/// `@plural@` and `@kind@` stand for what the name of the definition says.
pub fn definition(chance: &mut Chance, _: bool) -> Map<String, Value> {
    let bad = *chance.pick(&[0, 0, 5, 12]);
    let mut names = json!({"plural": "@plural@", "kind": "@kind@"});
    if chance.percent(50) {
        names["singular"] = json!(chance.word(&["one", "two"]));
        names["listKind"] = json!("@kind@List");
    }
    if chance.percent(20) {
        names["shortNames"] = json!([chance.word(&["sn", "sm"])]);
        names["categories"] = json!(["all"]);
    }
    if chance.percent(bad) {
        let name = chance.word(&["plural", "kind", "singular", "listKind", "shortNames"]);
        names[name] = match (name, chance.below(3)) {
            ("shortNames", _) => json!(["BAD"]),
            (_, 0) => json!("Bad_Name"),
            (_, 1) => json!(""),
            _ => json!("other"),
        };
    }
    let (two, moved) = (chance.percent(30), chance.percent(20));
    let mut versions = vec![version(chance, "v1", !(two && moved), bad)];
    if two {
        versions.push(version(chance, "v1beta1", moved, bad));
    }
    let mut spec = json!({"group": "@ns@.capt.dev", "scope": chance.word(&["Namespaced", "Cluster"]), "names": names, "versions": versions});
    if chance.percent(10) {
        spec["conversion"] = json!({"strategy": chance.word(&["None", "None", "Never"])});
    }
    if chance.percent(5) {
        spec["preserveUnknownFields"] = json!(chance.percent(50));
    }
    if chance.percent(bad) {
        match chance.below(5) {
            0 => spec["scope"] = json!("Everywhere"),
            1 => spec["group"] = json!("nodots"),
            2 => spec["versions"] = json!([]),
            3 => spec["group"] = json!("other.capt.dev"),
            _ => spec["unknown"] = json!(1),
        }
    }
    let mut out = Map::new();
    out.insert("spec".into(), spec);
    out
}
