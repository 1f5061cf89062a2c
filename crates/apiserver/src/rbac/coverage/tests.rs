use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn rules(json: Value) -> Vec<Rule> {
    serde_json::from_value(json).unwrap()
}

fn missing(owned: &[Rule], wanted: &[Rule]) -> Vec<String> {
    match check(owned, wanted) {
        Ok(()) => Vec::new(),
        Err(Shortfall::Missing(lines)) => lines,
        Err(Shortfall::TooMany) => panic!("there are not many"),
    }
}

#[test]
fn nobody_covers_more_than_they_have() {
    let owned = rules(json!([
        {"verbs": ["get", "list"], "apiGroups": [""], "resources": ["configmaps", "*/status"]},
        {"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"], "resourceNames": ["a"]},
        {"verbs": ["get"], "nonResourceURLs": ["/x/*"]},
    ]));
    for (json, lines) in [
        (json!({"verbs": ["get"], "apiGroups": [""], "resources": ["configmaps", "things/status"]}), vec![]),
        (json!({"verbs": ["get"], "nonResourceURLs": ["/x/y"]}), vec![]),
        (
            json!({"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"], "resourceNames": ["a"]}),
            vec![],
        ),
        (
            json!({"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"]}),
            vec![r#"{APIGroups:[""], Resources:["secrets"], Verbs:["get"]}"#],
        ),
        (
            json!({"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"], "resourceNames": ["a", "b"]}),
            vec![r#"{APIGroups:[""], Resources:["secrets"], ResourceNames:["b"], Verbs:["get"]}"#],
        ),
        (
            json!({"verbs": ["get", "create", "*"], "apiGroups": [""], "resources": ["configmaps"]}),
            vec![r#"{APIGroups:[""], Resources:["configmaps"], Verbs:["create" "*"]}"#],
        ),
        (
            json!({"verbs": ["get"], "nonResourceURLs": ["/y"]}),
            vec![r#"{NonResourceURLs:["/y"], Verbs:["get"]}"#],
        ),
    ] {
        assert_eq!(missing(&owned, &rules(json!([json]))), lines, "{json}");
    }
}

fn words(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|n| format!("{prefix}{n}")).collect()
}

/// The product of these has more rights than any machine could list.
#[test]
fn a_small_rule_with_rights_without_end_is_judged() {
    let n = 2_000;
    let bomb = [Rule {
        verbs: words("v", n),
        api_groups: words("g", n),
        resources: words("r", n),
        resource_names: words("n", n),
        ..Rule::default()
    }];
    let lines = missing(&[], &bomb);
    assert!(lines.len() > 100 && lines.len() <= TOLD + 1);
    assert!(lines.iter().map(String::len).sum::<usize>() < TOLD_BYTES + 1024);
    assert_eq!(lines.last().unwrap(), "and more");

    let everything = rules(json!([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]));
    assert_eq!(check(&everything, &bomb), Ok(()));
    assert_eq!(check(&bomb, &bomb), Ok(()));

    // Held in two halves: no one rule has all, and none of the rights is missing.
    let half = |from: usize| Rule { verbs: bomb[0].verbs[from..from + n / 2].to_vec(), ..bomb[0].clone() };
    assert_eq!(check(&[half(0), half(n / 2)], &bomb), Err(Shortfall::TooMany));
    let named = [Rule { api_groups: words("g", 1), resources: words("r", 1), ..bomb[0].clone() }];
    let nameless = |from| Rule { resource_names: Vec::new(), ..half(from) };
    assert_eq!(check(&[nameless(0), nameless(n / 2)], &named), Ok(()));
}

#[test]
fn neither_long_words_nor_many_rules_are_compared_without_end() {
    let long = |count| vec!["x".repeat(1 << 20); count];
    let held = [Rule { api_groups: vec!["*".into()], resources: words("r", 1), ..Rule::default() }];
    let wanted = [Rule {
        verbs: words("v", 1),
        api_groups: words("g", 100_000),
        resources: long(1),
        ..Rule::default()
    }];
    let Err(Shortfall::Missing(lines)) = check(&held, &wanted) else { panic!("it is not held") };
    assert!(lines.iter().map(String::len).sum::<usize>() < 2 << 20, "one long line at most");

    let urls = [Rule { verbs: words("v", 100), non_resource_urls: long(1), ..Rule::default() }];
    let Err(Shortfall::Missing(lines)) = check(&held, &urls) else { panic!("it is not held") };
    assert_eq!(lines.len(), 2, "one long line, and more");

    let stars =
        [Rule { verbs: words("v", 1), non_resource_urls: vec!["*".repeat(1 << 20); 100], ..Rule::default() }];
    let urls = [Rule { verbs: words("v", 1), non_resource_urls: words("/", 100_000), ..Rule::default() }];
    assert_eq!(check(&stars, &urls), Err(Shortfall::TooMany));

    let each = |count| -> Vec<Rule> {
        let one = |n| Rule {
            verbs: words("v", 1),
            api_groups: words("g", 1),
            resources: vec![format!("r{n}")],
            ..Rule::default()
        };
        (0..count).map(one).collect()
    };
    assert_eq!(check(&each(300), &each(300)), Ok(()));
    assert_eq!(check(&each(50_000), &each(50_000)), Err(Shortfall::TooMany));
    assert_eq!(check(&each(STEPS), &[]), Err(Shortfall::TooMany));
}

/// What is missing, by looking at every right: verb, group, resource or path, name.
fn listed(owned: &[Rule], wanted: &[Rule]) -> bool {
    let has = |list: &[String], word: &str| list.iter().any(|one| one == word);
    let has_or_all = |list: &[String], word: &str| has(list, "*") || has(list, word);
    let covers = |held: &Rule, verb: &str, group: &str, resource: &str, name: Option<&String>| {
        has_or_all(&held.verbs, verb)
            && has_or_all(&held.api_groups, group)
            && (has_or_all(&held.resources, resource)
                || resource.split_once('/').is_some_and(|(_, sub)| has(&held.resources, &format!("*/{sub}"))))
            && (held.resource_names.is_empty() || name.is_some_and(|name| has(&held.resource_names, name)))
    };
    wanted.iter().all(|rule| {
        let names: Vec<Option<&String>> = match &rule.resource_names[..] {
            [] => vec![None],
            names => names.iter().map(Some).collect(),
        };
        rule.verbs.iter().all(|verb| {
            rule.api_groups.iter().all(|group| {
                rule.resources.iter().all(|resource| {
                    names
                        .iter()
                        .all(|name| owned.iter().any(|held| covers(held, verb, group, resource, *name)))
                })
            }) && rule.non_resource_urls.iter().all(|url| {
                owned.iter().any(|held| {
                    let of_path = held.non_resource_urls.iter().any(|owned| path_covers(owned, url));
                    of_path && has_or_all(&held.verbs, verb) && held.resource_names.is_empty()
                })
            })
        })
    })
}

fn some_rules() -> impl Strategy<Value = Vec<Rule>> {
    let list = |words: &'static [&'static str], least: usize| {
        let word = prop::sample::select(words).prop_map(str::to_owned);
        prop::collection::vec(word, least..3)
    };
    let rule = (
        list(&["get", "list", "*"], 1),
        list(&["", "g", "*"], 1),
        list(&["a", "b", "a/status", "*/status", "*"], 1),
        list(&["x", "y"], 0),
        list(&["/a", "/a/*", "/a/b", "*"], 0),
    )
        .prop_map(|(verbs, api_groups, resources, resource_names, non_resource_urls)| Rule {
            verbs,
            api_groups,
            resources,
            resource_names,
            non_resource_urls,
        });
    prop::collection::vec(rule, 0..5)
}

proptest! {
    #[test]
    fn the_walk_finds_what_a_list_of_all_rights_finds(owned in some_rules(), wanted in some_rules()) {
        prop_assert_eq!(check(&owned, &wanted).is_ok(), listed(&owned, &wanted));
    }
}
