//! Requests nobody wrote: selectors, options and bodies from a generator that always starts from the same seed.

use std::collections::BTreeSet;

use capt_apiserver::{
    output::table::JsonPath,
    request::{
        accept::{Endpoint, Format, negotiate},
        cursor::{self, Cursor},
        query::{ListOptions, Query},
    },
    status::go,
};
use proptest::{prelude::*, strategy::ValueTree as _, test_runner::TestRunner};
use serde_json::{Value, json};

use crate::{
    Got, Sent, edge, get, query, real,
    requests::{all_agree, compare},
    send,
};

const MAPS: &str = "/api/v1/namespaces/edge/configmaps";
const THINGS: &str = "/apis/edge.example.com/v1/namespaces/edge/things";

fn many<T>(count: usize, strategy: impl Strategy<Value = T>) -> Vec<T> {
    let mut runner = TestRunner::deterministic();
    (0..count).map(|_| strategy.new_tree(&mut runner).unwrap().current()).collect()
}

fn names<'a>(objects: impl Iterator<Item = &'a Value>) -> BTreeSet<String> {
    objects.map(|object| object["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

fn selected(got: &Got) -> BTreeSet<String> {
    names(got.json()["items"].as_array().unwrap().iter())
}

#[tokio::test]
async fn label_selectors() {
    let Some(real) = real().await else { return };
    let resources = edge::resources();
    let maps = resources.iter().find(|resource| resource.plural == "configmaps").unwrap();
    let all = real.ask(&get(MAPS)).await.json();
    let all = all["items"].as_array().unwrap();
    let likely = "!?[abc]{1,2}(=|==|!=|>|<| in \\(| notin \\()?[ab1,]{0,3}\\)?(, ?!?[abc](=[ab12]?)?){0,2}";
    let wild = "[ab1!=<>(), -]{0,9}( in | notin )?[ab(),.-]{0,5}";
    let long = "[a./-]{0,4}[a-c]{60,66}(=[a-c]{62,65})?";
    let selectors = [many(250, likely), many(150, wild), many(20, long)].concat();
    let mut wrong = Vec::new();
    for selector in &selectors {
        let pairs = query(&[("labelSelector", selector)]);
        let sent = get(format!("{MAPS}{pairs}"));
        let theirs = real.ask(&sent).await;
        match edge::answer(&sent) {
            Ok(()) if theirs.code == 200 => {
                let options = ListOptions::parse(&Query::parse(&pairs[1.min(pairs.len())..])).unwrap();
                let ours = names(all.iter().filter(|object| {
                    options.labels.matches_object(object) && options.fields.matches_object(maps, object)
                }));
                if ours != selected(&theirs) {
                    wrong.push(format!("{selector:?} selects {ours:?}, really {:?}", selected(&theirs)));
                }
            }
            ours => wrong.extend(compare(&sent, &ours, &theirs).err()),
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), selectors.len(), wrong.join("\n"));
}

#[tokio::test]
async fn field_selectors() {
    let Some(real) = real().await else { return };
    let resources = edge::resources();
    let things = resources.iter().find(|resource| resource.plural == "things").unwrap();
    let all = real.ask(&get(THINGS)).await.json();
    let all = all["items"].as_array().unwrap();
    let likely = "((metadata\\.name|spec\\.(color|n|b))(=|==|!=)(t1|t2|red|red\\\\,green|3|true|),?){0,3}";
    let wild = "(metadata\\.name|spec\\.color|x)?[=!\\\\,a]{0,5}";
    let selectors = [many(150, likely), many(100, wild)].concat();
    let mut wrong = Vec::new();
    for selector in &selectors {
        let pairs = query(&[("fieldSelector", selector)]);
        let sent = get(format!("{THINGS}{pairs}"));
        let theirs = real.ask(&sent).await;
        match edge::answer(&sent) {
            Ok(()) if theirs.code == 200 => {
                let options = ListOptions::parse(&Query::parse(&pairs[1.min(pairs.len())..])).unwrap();
                let ours = names(all.iter().filter(|object| options.fields.matches_object(things, object)));
                if ours != selected(&theirs) {
                    wrong.push(format!("{selector:?} selects {ours:?}, really {:?}", selected(&theirs)));
                }
            }
            ours => wrong.extend(compare(&sent, &ours, &theirs).err()),
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), selectors.len(), wrong.join("\n"));
}

#[tokio::test]
async fn list_options() {
    let Some(real) = real().await else { return };
    let token = cursor::encode(&Cursor { revision: None, start: "m1\0".to_owned() });
    let pick = |key: &'static str, values: Vec<String>| {
        proptest::option::weighted(0.4, proptest::sample::select(values)).prop_map(move |value| (key, value))
    };
    let texts = |values: &[&str]| values.iter().map(|value| (*value).to_owned()).collect::<Vec<_>>();
    let options = (
        pick("watch", texts(&["1", "true", "0", ""])),
        pick("resourceVersion", texts(&["", "0", "1", "x", "-5"])),
        pick("resourceVersionMatch", texts(&["", "Exact", "NotOlderThan", "exact"])),
        pick("continue", [texts(&["", "abc!", "e30"]), vec![token]].concat()),
        pick("limit", texts(&["", "0", "1", "-3", "x"])),
        pick("sendInitialEvents", texts(&["", "true", "false", "0"])),
        pick("allowWatchBookmarks", texts(&["1", "x"])),
        pick("fieldSelector", texts(&["", "metadata.name=m1", "metadata.name=m1=", "x=y"])),
    );
    let requests = many(400, options).into_iter().map(|(a, b, c, d, e, f, g, h)| {
        let pairs: Vec<_> =
            [a, b, c, d, e, f, g, h].into_iter().filter_map(|(key, value)| Some((key, value?))).collect();
        let mut pairs: Vec<(&str, &str)> = pairs.iter().map(|(key, value)| (*key, value.as_str())).collect();
        pairs.push(("timeoutSeconds", "1"));
        get(format!("{MAPS}{}", query(&pairs)))
    });
    // A watch that is accepted takes a second: a few will do.
    let mut patience = 10;
    let requests = requests.filter(|sent| {
        let accepted = edge::answer(sent).is_ok();
        let watches = Query::parse(sent.path.split_once('?').unwrap().1).flag("watch") == Some(true);
        let slow = accepted && watches;
        patience -= i32::from(slow && patience > 0);
        !slow || patience > 0
    });
    all_agree(&real, requests.collect::<Vec<Sent>>()).await;
}

/// Mistakes in JSON: a character dropped, added or replaced.
#[tokio::test]
async fn broken_json() {
    let Some(real) = real().await else { return };
    let object = r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"j","labels":{"a":"b\n"}},"data":{"x":"é\u00e9"},"immutable":false}"#;
    let edits = (
        0..object.len(),
        0..2_usize,
        proptest::sample::select(vec![
            "", "}", "]", "{", "[", ",", ":", "\"", "\\", "1", "-", ".", "e", "t", "null", "\u{1}", " ",
        ]),
    );
    let mut wrong = Vec::new();
    let mut refused = 0;
    for (at, dropped, added) in many(400, edits) {
        let mut chars: Vec<char> = object.chars().collect();
        let at = at.min(chars.len());
        let end = (at + dropped).min(chars.len());
        chars.splice(at..end, added.chars());
        let body: String = chars.into_iter().collect();
        let sent = send("POST", format!("{MAPS}?dryRun=All"), "application/json", body);
        // What is JSON may still be wrong for the type, which is not the edge's to know.
        if let ours @ Err(_) = edge::answer(&sent)
            && ours.as_ref().is_err_and(|error| error.to_string().contains("json parse error"))
        {
            refused += 1;
            wrong.extend(compare(&sent, &ours, &real.ask(&sent).await).err());
        } else {
            let theirs = real.ask(&sent).await;
            if theirs.text.contains("json parse error") {
                wrong.push(format!("{sent:?} is accepted, really {}", theirs.text));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {refused}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(refused > 100, "{refused}");
}

#[tokio::test]
async fn accept_headers() {
    let Some(real) = real().await else { return };
    let clause = "(application/(json|yaml|cbor|\\*)|\\*/\\*|text/html)(; ?(q=(0\\.[159]|1)|pretty=[01]|stream=(watch|x)|as=(Table|Foo);v=v1;g=meta\\.k8s\\.io))?";
    let headers = many(200, proptest::collection::vec(clause, 1..4));
    let mut wrong = Vec::new();
    for header in headers {
        for path in [MAPS, THINGS, "/api", "/apis"] {
            let sent = get(path).accept(&header.join(","));
            let theirs = real.ask(&sent).await;
            wrong.extend(compare(&sent, &edge::answer(&sent), &theirs).err());
            if theirs.code == 200 && path != "/api" && path != "/apis" {
                let endpoint = if path == MAPS { Endpoint::BuiltIn } else { Endpoint::Custom };
                let accepted = negotiate(sent.header("accept"), endpoint).unwrap();
                let form = match (theirs.text.starts_with('{'), theirs.text.contains("columnDefinitions")) {
                    (false, table) => (Format::Yaml, table),
                    (true, table) => (Format::Json, table),
                };
                if (accepted.format, accepted.transform.is_some()) != form {
                    wrong.push(format!("{sent:?} is {accepted:?}, really {form:?}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
}

/// Paths that both servers can read.
fn good_paths() -> Vec<String> {
    let filter = "\\[\\?\\(@?\\.(a|n) ?(==|!=|<|<=|>|>=) ?(1|2\\.5|-3|\"x\"|'y'|true|@\\.n)\\)\\]";
    let index = "\\[(0|1|7|-1|-2|\\*|0:2|:1|1:|::2|-1:|2:1|0:9|0,1|)\\]";
    let name = "\\.(a|n|l|o|x\\\\\\.y|none)|\\['(a|x\\\\\\.y)'\\]";
    let likely = format!("\\.spec(\\.(l|o|a)|({name})|({index})|({filter})|\\[\\?\\(@\\.a\\)\\]){{1,4}}");
    let wild = "\\.[a.\\[\\]?()@='\"0:, *$-]{0,10}";
    let paths: BTreeSet<String> =
        [many(250, likely.as_str()), many(150, wild)].concat().into_iter().collect();
    let mut good: Vec<String> = paths.into_iter().filter(|path| path.parse::<JsonPath>().is_ok()).collect();
    // Members of an object come in no order there.
    good.retain(|path| !path.contains("..") && !path.contains(".*"));
    good
}

/// Paths as columns of a CRD: the server shows what they find.
#[tokio::test]
async fn json_paths() {
    let Some(real) = real().await else { return };
    let good = good_paths();
    assert!(good.len() > 100, "{}", good.len());

    let objects = [
        json!({"l": ["x", "y", "z"], "a": [{"a": 1, "n": 1}, {"a": "x", "n": 2.5}, {"n": -3}], "o": {"a": true, "x.y": 5}}),
        json!({"l": [[1, 2], [3]], "a": [{"a": "x", "n": "y"}, {"a": "y", "n": "y"}], "o": {"l": [{"a": 1}], "n": null}}),
        json!({"l": [], "a": {"a": {"a": [0, 1]}}, "n": 7, "o": "text"}),
    ];
    let at = "/apis/edge.example.com/v1/namespaces/edge/gadgets";
    capt_e2e::until("the CRD is served", crate::PATIENCE, async || {
        (real.ask(&get(at)).await.code == 200).then_some(())
    })
    .await
    .unwrap();
    for (index, spec) in objects.iter().enumerate() {
        let object = json!({"apiVersion": "edge.example.com/v1", "kind": "Gadget", "metadata": {"name": format!("g{index}")}, "spec": spec});
        real.create(at, object).await;
    }
    let table = real.ask(&get(at).accept("application/json;as=Table;v=v1;g=meta.k8s.io")).await.json();
    // The server shows columns up to the first that is no path.
    let columns = table["columnDefinitions"].as_array().unwrap().len() - 1;
    assert_eq!(columns, good.len(), "{:?} is a path", good.get(columns));
    let mut wrong = Vec::new();
    for (spec, row) in objects.iter().zip(table["rows"].as_array().unwrap()) {
        let object = json!({"spec": spec});
        for (path, theirs) in good.iter().zip(&row["cells"].as_array().unwrap()[1..]) {
            let parsed: JsonPath = path.parse().unwrap();
            let ours = parsed.first(&object).map_or(Value::Null, |found| match found {
                Value::Null => "<no value>".into(),
                found => go::plain(found).into(),
            });
            if ours != *theirs {
                wrong.push(format!("{path} in {spec} is {ours}, really {theirs}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
}

/// The definition that has them as its columns.
pub fn gadgets() -> Value {
    let columns: Vec<_> = good_paths()
        .iter()
        .enumerate()
        .map(|(index, path)| json!({"name": format!("C{index}"), "type": "string", "jsonPath": path}))
        .collect();
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "gadgets.edge.example.com"},
        "spec": {
            "group": "edge.example.com", "scope": "Namespaced",
            "names": {"plural": "gadgets", "singular": "gadget", "kind": "Gadget", "listKind": "GadgetList"},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "additionalPrinterColumns": columns,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": open}}},
            }],
        },
    })
}
