//! What a stream of manifests becomes, and what each mistake is called.

use std::fmt::Write;

use serde_json::{Value, json};

use super::*;

fn read(text: &str) -> Vec<Result<Value, String>> {
    documents(text)
        .map(|document| match document {
            Ok(document) => Ok(document.root.to_json()),
            Err(error) => Err(format!("{}: {error}", error.at)),
        })
        .collect()
}

#[test]
fn documents_become_the_json_that_kubectl_sends() {
    let rows = [
        ("a: 1\nb: [x, yes, 1.30]\n", vec![json!({"a": 1, "b": ["x", true, 1.3]})]),
        (
            "a: \"1\"\nb: 'yes'\nc: !!str 2\nd: |\n  text\n",
            vec![json!({"a": "1", "b": "yes", "c": "2", "d": "text\n"})],
        ),
        ("---\n---\n# nothing\n---\na: b\n---\n", vec![json!({"a": "b"})]),
        ("{\"a\": {\"b\": null}}", vec![json!({"a": {"b": null}})]),
        ("1: x\nyes: z\n", vec![json!({"1": "x", "true": "z"})]),
        (
            "base: &b {p: 1, q: 2}\nmore: {<<: *b, q: 3}\nlast: {q: 4, <<: *b}\n",
            vec![json!({"base": {"p": 1, "q": 2}, "more": {"p": 1, "q": 3}, "last": {"p": 1, "q": 4}})],
        ),
        ("a: &s text\nb: *s\n", vec![json!({"a": "text", "b": "text"})]),
        (
            "a: |\n  x\n  --- not a marker\nb: 1\n--- # a comment\nc: 2\n",
            vec![json!({"a": "x\n--- not a marker\n", "b": 1}), json!({"c": 2})],
        ),
        ("", vec![]),
    ];
    for (text, expected) in rows {
        assert_eq!(read(text), expected.into_iter().map(Ok).collect::<Vec<_>>(), "{text}");
    }
}

#[test]
fn a_bad_document_does_not_hide_the_next() {
    let read = read("a: [1\n---\nb: 2\n");
    assert!(read[0].as_ref().is_err_and(|error| error.contains("not YAML")), "{read:?}");
    assert_eq!(read[1], Ok(json!({"b": 2})));
}

#[test]
fn mistakes_have_a_place_and_a_name() {
    let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for n in 1..9 {
        let aliases = vec![format!("*a{}", n - 1); 10].join(", ");
        writeln!(bomb, "a{n}: &a{n} [{aliases}]").unwrap();
    }
    let mut chain = "a0: &a0 [x]\n".to_owned();
    for n in 1..200 {
        writeln!(chain, "a{n}: &a{n} [*a{}]", n - 1).unwrap();
    }
    let rows = [
        ("a: 1\n\nb: 2\na: 3\n".to_owned(), "4:1: key \"a\" is there twice in this map"),
        ("x: 1\n---\na: 1\na: 3\n".to_owned(), "4:1: key \"a\" is there twice in this map"),
        ("a:\n  ? [1]\n  : 2\n".to_owned(), "2:5: a key must be text, not a list or a map"),
        (
            "a: .nan\n".to_owned(),
            "1:4: .nan is not a number that JSON has; put it in quotes if it is meant as text",
        ),
        ("a: {<<: 1}\n".to_owned(), "1:9: << takes a map, or a list of maps"),
        ("[".repeat(100_000), "1:256: not YAML: recursion limit exceeded"),
        ("- ".repeat(200), "1:241: nested deeper than 120 levels"),
        (chain, "nested deeper than 120 levels"),
        (bomb, "aliases make this document too large"),
        ("a: 'b\n".to_owned(), "not YAML: "),
        ("a: b: c\n".to_owned(), "not YAML: "),
    ];
    for (text, expected) in rows {
        let all = read(&text);
        let error = all
            .iter()
            .find_map(|document| document.as_ref().err())
            .unwrap_or_else(|| panic!("{text} is accepted: {all:?}"));
        assert!(error.contains(expected), "{error}\n{expected}");
    }
}

#[test]
fn every_value_knows_its_place() {
    let text = "---\nkind: X\nspec:\n  list:\n    - a: 1\n      b: 2\n";
    let documents: Vec<_> = documents(text).collect();
    let root = &documents[0].as_ref().unwrap().root;
    let spec = root.member("spec").unwrap();
    assert_eq!(spec.key_at.to_string(), "3:1");
    let NodeValue::List(items) = &spec.value.get("list").unwrap().value else { panic!("a list") };
    assert_eq!(items[0].member("b").unwrap().key_at.to_string(), "6:7");
    assert_eq!(items[0].get("b").unwrap().at.to_string(), "6:10");
}

#[test]
fn a_reader_that_does_not_look_takes_the_last() {
    let text = "a: 1\nb:\n  c: 1\n  c:\n    - x\n1: q\nb: {d: 2, d: 3}\n1: r\na: 4\n---\nz: 1\n";
    let (value, repeated) = lenient(text).unwrap();
    assert_eq!(value, json!({"a": 4, "b": {"d": 3}, "1": "r"}));
    let repeated: Vec<String> =
        repeated.iter().map(|again| format!("{} {}", again.line, again.key)).collect();
    assert_eq!(repeated, ["5 \"c\"", "7 \"d\"", "7 \"b\"", "8 1", "9 \"a\""]);
    assert_eq!(lenient("x: &m {a: 1}\ny:\n  <<: *m\n  a: 2\n").unwrap().1, [], "a merge repeats nothing");
    assert_eq!(lenient("").unwrap(), (Value::Null, Vec::new()));
    assert!(lenient("a: [").is_err());
}

/// Each key once more, each merged, each over what was merged: all of it in one pass, and with the last word.
#[test]
fn many_keys_that_come_again_are_one_each() {
    const MANY: usize = 100_000;
    let keys = |value: usize| {
        (0..MANY).fold(String::new(), |mut text, n| {
            writeln!(text, "  k{n}: {value}").unwrap();
            text
        })
    };
    let text = format!("all:\n{}{}", keys(1), keys(2));
    let (value, repeated) = lenient(&text).unwrap();
    assert_eq!(repeated.len(), MANY);
    assert_eq!(value["all"].as_object().unwrap().len(), MANY);
    assert_eq!(value["all"]["k7"], 2);
    let text = format!("m: &m\n{}all:\n  <<: *m\n{}", keys(1), keys(2));
    let error = lenient(&text).unwrap_err();
    assert!(matches!(error.problem, YamlProblem::TooLarge), "{error}");
    let few = "m: &m {a: 1, b: 1}\nall:\n  <<: *m\n  b: 2\n  c: 3\n";
    assert_eq!(lenient(few).unwrap().0["all"], json!({"a": 1, "b": 2, "c": 3}));
}

/// A few aliases of a long text, or a few anchors around it, are as bad as many aliases of a short one.
#[test]
fn what_aliases_and_anchors_copy_is_bounded_in_bytes() {
    let long = "x".repeat(1 << 20);
    let aliases = |count: usize| vec!["*a"; count].join(", ");
    let nested = |count: usize| (0..count).map(|n| format!("&n{n} [")).collect::<Vec<_>>().concat();
    let rows = [
        (format!("a: &a {long}\nb: [{}]\n", aliases(4)), true),
        (format!("a: &a {long}\nb: [{}]\n", aliases(6)), false),
        (format!("a: &a 1.{}\nb: [{}]\n", "0".repeat(300_000), aliases(30)), false),
        (format!("a: &a {{? {long} : 1}}\nb: [{}]\n", aliases(6)), false),
        (format!("a: &a {{? {long} : 1}}\nb: {{<<: [{}]}}\n", aliases(6)), false),
        (format!("{}{long}{}", nested(5), "]".repeat(5)), true),
        (format!("{}{long}{}", nested(7), "]".repeat(7)), false),
    ];
    for (text, fits) in rows {
        let read = lenient(&text);
        let shown = &text[..20];
        match read {
            Ok((value, _)) => {
                assert!(fits, "{shown}");
                assert!(value.to_string().len() < text.len() + MOST_ALIASED_BYTES_SENT + 100, "{shown}");
            }
            Err(error) => {
                assert!(!fits && matches!(error.problem, YamlProblem::TooLarge), "{shown}: {error}");
            }
        }
    }
    let file = format!("a: &a {long}\nb: [{}]\n", aliases(20));
    assert!(single(&file).is_ok(), "a file may say more");
    assert!(single(&file.replace("*a]", &format!("{}]", aliases(60)))).is_err());
}
