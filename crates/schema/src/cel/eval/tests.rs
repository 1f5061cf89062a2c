use serde_json::{Value, json};

use crate::Schema;

/// A pattern that comes with an object is compiled once, and costs what that takes.
#[test]
fn patterns_of_objects_cost() {
    let schema = Schema::compile(&json!({"type": "object", "properties": {"l": {
        "type": "array", "maxItems": 100, "items": {"type": "string", "maxLength": 20},
        "x-kubernetes-validations": [{"rule": "self.all(x, !'abc'.matches(x))"}],
    }}}))
    .unwrap();
    let said = |pattern: fn(usize) -> String| {
        let patterns: Vec<String> = (0..100).map(pattern).collect();
        let object: Value = json!({"l": patterns});
        let errors = schema.validate(&object, None);
        errors.first().map_or_else(String::new, ToString::to_string)
    };
    assert_eq!(said(|n| format!("^x{n}$")), "", "small ones, each another");
    assert_eq!(said(|_| r"^x\pL{9}$".to_owned()), "", "a large one a hundred times");
    let many = said(|n| format!(r"^x{n}\pL{{9}}$"));
    assert!(many.contains("cost"), "{many}");
    let large = said(|_| r"\pL{150}".to_owned());
    assert!(large.contains("cost"), "one that does not fit, tried again each time: {large}");
}

/// Evaluates a rule on an object, and the one before it.
fn said(rule: &str, new: &Value, old: Option<&Value>) -> String {
    let integers = |kind: &str| json!({"type": "array", "maxItems": 200_000, "x-kubernetes-list-type": kind, "items": {"type": "integer"}});
    let keyed = json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
        "items": {"type": "object", "required": ["k"], "properties": {"k": {"type": "integer"}}}});
    let schema = Schema::compile(&json!({"type": "object", "properties": {"spec": {
        "type": "object",
        "properties": {
            "few": {"type": "array", "maxItems": 100, "items": {"type": "integer"}},
            "list": integers("atomic"), "set": integers("set"), "keyed": keyed,
            "text": {"type": "string", "maxLength": 100_000},
        },
        "x-kubernetes-validations": [{"rule": rule}],
    }}}));
    let schema = schema.unwrap_or_else(|errors| panic!("{rule:.80}: {}", errors[0].detail));
    let errors = schema.validate(&json!({"spec": new}), old.map(|old| json!({"spec": old})).as_ref());
    errors.first().map_or_else(String::new, ToString::to_string)
}

/// One by one, these would be compared ten billion times.
#[test]
fn elements_are_looked_up() {
    const COUNT: usize = 100_000;
    let up: Vec<usize> = (0..COUNT).collect();
    let down: Vec<usize> = (0..COUNT).rev().collect();
    let keyed = |numbers: &[usize]| numbers.iter().map(|k| json!({"k": k})).collect::<Vec<_>>();
    let new = json!({"set": up, "keyed": keyed(&up)});
    let old = json!({"set": down, "keyed": keyed(&down)});
    for rule in [
        "self.set == oldSelf.set",
        "self.keyed == oldSelf.keyed",
        "(self.set + oldSelf.set).size() == 100000",
    ] {
        assert_eq!(said(rule, &new, Some(&old)), "", "{rule}");
    }
    let mut other = old.clone();
    other["set"][0] = json!(COUNT);
    other["keyed"][0] = json!({"k": COUNT});
    for rule in ["self.set != oldSelf.set", "self.keyed != oldSelf.keyed"] {
        assert_eq!(said(rule, &new, Some(&other)), "", "{rule}");
    }
    let list = json!({"list": up});
    assert_eq!(said("self.list.transformMap(i, v, v)[99999] == 99999", &list, None), "");
    assert_eq!(said("dyn({1: 'a', 2: 'b', 1: 'c'}) == dyn({1.0: 'c', 2.0: 'b'})", &list, None), "");
}

/// Each would make hundreds of megabytes, or compare as much, for next to nothing.
#[test]
fn what_is_made_and_compared_costs() {
    let object = json!({"few": vec![0; 100], "list": vec![0; 100_000], "text": "x".repeat(50_000)});
    let lists = vec!["self.list"; 50].join(",");
    let texts = vec!["self.text"; 500].join(",");
    let clauses = "%s".repeat(500);
    for rule in [
        "self.text.replace('', self.text) != ''",
        "self.text.replace('x', self.text, 30000) != ''",
        "self.few.map(x, self.list + self.list).size() > 0",
        "self.few.all(x, [self.list] == [self.list])",
        "self.few.all(x, {1: [self.list]} == {1: [self.list]})",
        &format!("[{lists}].flatten().size() > 0"),
        &format!("'{clauses}'.format([{texts}]) != ''"),
        "self.few.map(x, self.text.split('')).size() > 0",
    ] {
        let said = said(rule, &object, None);
        assert!(said.contains("cost limit exceeded"), "{rule:.80}: {said:.300}");
    }
    for rule in [
        "self.text.replace('x', 'y').replace('y', '') == ''",
        "(self.list + self.few).size() == 100100",
        "self.list == oldSelf.list",
        "'%s-%s'.format([self.text, self.text]).size() == 100001",
        "self.text.lastIndexOf('xx') == 49998 && self.text.lastIndexOf('x', 7) == 7",
    ] {
        assert_eq!(said(rule, &object, Some(&object)), "", "{rule}");
    }
}

/// Evaluates a rule on an object with texts of a megabyte, where bounds of the schema hardly count.
fn of_large(rule: &str) -> String {
    let text = || json!({"type": "string", "maxLength": 3_000_000});
    let schema = Schema::compile(&json!({"type": "object", "properties": {"spec": {
        "type": "object",
        "properties": {
            "list": {"type": "array", "maxItems": 1000, "items": {"type": "integer"}},
            "text": text(),
            "b": {"type": "string", "maxLength": 3_000_000, "format": "byte"},
            "p": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            "q": {"x-kubernetes-preserve-unknown-fields": true},
            "map": {"type": "object", "maxProperties": 2, "additionalProperties": {"type": "integer"}},
            "set": {"type": "array", "maxItems": 2, "x-kubernetes-list-type": "set", "items": text()},
        },
        "x-kubernetes-validations": [{"rule": rule}],
    }}}));
    let schema = match schema {
        Ok(schema) => schema,
        Err(errors) => return errors[0].detail.clone(),
    };
    let text = "x".repeat(1_000_000);
    let large = json!({"a": vec![0; 100_000], "b": text});
    let object = json!({"spec": {
        "list": vec![0; 400], "text": text, "b": "A".repeat(1_000_000), "p": large, "q": large,
        "map": {(text.as_str()): 1}, "set": [text],
    }});
    schema.validate(&object, None).first().map_or_else(String::new, ToString::to_string)
}

fn assert_costs_too_much(rules: &[&str]) {
    let said = rules.iter().map(|rule| (rule, of_large(rule)));
    let free: Vec<String> = said
        .filter(|(_, said)| !said.contains("cost limit exceeded"))
        .map(|(rule, said)| format!("{rule:.100}: {said:.300}"))
        .collect();
    assert!(free.is_empty(), "{free:#?}");
}

/// A list of a few hundred bytes, each element of which comes twice in the next.
fn doubled(rounds: usize) -> String {
    let rounds: Vec<String> = (0..rounds).map(|n| format!(".map(x{n}, [x{n}, x{n}])")).collect();
    format!("[1]{}", rounds.concat())
}

/// They are checked whenever the definition is loaded.
#[test]
fn rules_on_defaults_share_a_budget() {
    let said = |defaults: usize| {
        let ruled = json!({
            "type": "object", "default": {"a": 1}, "properties": {"a": {"type": "integer"}},
            "x-kubernetes-validations": [{"rule": format!("{0} == {0}", doubled(17))}],
        });
        let properties: Value = (0..defaults).map(|n| (format!("f{n}"), ruled.clone())).collect();
        let compiled = Schema::compile(&json!({"type": "object", "properties": properties}));
        compiled.err().map_or_else(String::new, |errors| errors[0].detail.clone())
    };
    assert_eq!(said(2), "");
    let many = said(40);
    assert!(many.contains("running out of cost budget"), "{many}");
}

/// A value of a few hundred bytes that shares its parts is visited two to the power of its depth times.
#[test]
fn shared_parts_cost_whenever_they_are_visited() {
    let nested = |each: fn(usize) -> String| -> String {
        let rounds: Vec<String> = (0..20).map(|n| format!(".map(x{n}, {})", each(n))).collect();
        format!("[1]{}", rounds.concat())
    };
    let lists = doubled(20);
    let maps = nested(|n| format!("{{'a': x{n}, 'b': x{n}}}"));
    let optionals = nested(|n| format!("optional.of([x{n}, x{n}])"));
    assert_costs_too_much(&[
        &format!("{lists} == {lists}"),
        &format!("{lists} in [{lists}]"),
        &format!("sets.contains([{lists}], [{lists}])"),
        &format!("{maps} != {maps}"),
        &format!("[{maps}].indexOf({maps}) == 0"),
        &format!("[{optionals}, {optionals}].distinct().size() == 1"),
        &format!("'%s'.format([{lists}]) != ''"),
        &format!("'%s'.format([{maps}]) != ''"),
    ]);
}

/// Linear work is a product in a loop.
#[test]
fn work_on_large_parts_costs_each_time() {
    assert_costs_too_much(&[
        "'%s'.format([self.list.map(x, self.text)]) != ''",
        "'%s'.format([self.list.map(x, {'a': self.text})]) != ''",
        "'%s'.format([self.list.map(x, {self.text: 1})]) != ''",
        "self.list.all(x, '%x'.format([self.text]) != '')",
        "self.list.all(x, self.p == self.p)",
        "self.list.all(x, dyn(self).q == dyn(self).q)",
        "self.list.all(x, [dyn(self).q] == [dyn(self).q])",
        "self.list.all(x, has(self.b))",
        "self.list.all(x, self.set == self.set)",
        "self.list.all(x, self.map == self.map)",
        "self.list.all(x, (self.set + self.set).size() == 1)",
        "dyn(self.list.map(x, self.text)).max() != ''",
        "dyn(self.list.map(x, self.text)).min() != ''",
        "dyn(self.list.map(x, self.text)).isSorted()",
        "self.list.map(x, self.text).sort() != []",
        "self.list.sortBy(x, self.text) != []",
        "self.list.all(x, {'a': 1}.exists(k, self.text in {'a': 1}) || true)",
        "self.list.all(x, !({'a': 1}[?self.text].hasValue()))",
        "self.list.all(x, {self.text: 1} != {})",
        "self.list.all(x, 'a'.indexOf(self.text) < 0)",
        "[url('http://a/?' + self.text)].all(u, self.list.all(x, u.getQuery() != {}))",
        "[url('http://a/?' + self.text)].all(u, self.list.all(x, u == u))",
        "[semver('1.0.0-' + self.text)].all(v, self.list.all(x, v == v))",
    ]);
}

/// A name of any length is one to an API server.
#[test]
fn long_names_cost_by_their_length() {
    let (long, other) = ("x".repeat(30_000), format!("{}y", "x".repeat(29_999)));
    assert_costs_too_much(&[&format!("self.list.all({long}, self.list.all({other}, {long} == 0))")]);
    // Neither are fields, and chains of them that could be the name of a type.
    let chain = format!("dyn(x).{long}{}", ".IP".repeat(200));
    assert_costs_too_much(&[
        &format!("self.list.all(x, self.list.all(y, dyn(x).{long} == 0 || true))"),
        &format!("self.list.all(x, self.list.all(y, {chain} == 0 || true))"),
    ]);
    assert_eq!(
        of_large("self.list.all(an_ordinary_name_of_30_letters, an_ordinary_name_of_30_letters == 0)"),
        ""
    );
}

/// Neither literals nor `&&` cost anything to an API server.
#[test]
fn what_is_free_is_counted_in_steps() {
    let literals = vec!["1"; 10_000].join(",");
    let bytes = "x".repeat(50_000);
    let deep = (0..12).fold("true".to_owned(), |deep, _| format!("({deep} && {deep})"));
    assert_costs_too_much(&[
        &format!("self.list.all(x, [{literals}].size() > 0)"),
        &format!("self.list.all(x, self.list.all(y, b'{bytes}' != b''))"),
        &format!("self.list.all(x, self.list.all(y, {deep}))"),
    ]);
}
