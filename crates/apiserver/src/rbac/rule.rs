//! One rule of a role: what it allows, and whether it allows all that another one does.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::status::go;

const ALL: &str = "*";

/// What may be done to what.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Rule {
    /// `*` is everything.
    pub verbs: Vec<String>,
    /// Empty text is the core group, `*` all of them.
    pub api_groups: Vec<String>,
    /// With a subresource after a slash; `*` is all of them, `*/scale` every scale.
    pub resources: Vec<String>,
    /// None at all is no limit.
    pub resource_names: Vec<String>,
    /// `*` at the end is any rest.
    #[serde(rename = "nonResourceURLs")]
    pub non_resource_urls: Vec<String>,
}

/// What somebody wants to do it to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Object<'a> {
    /// A resource.
    Resource(Resource<'a>),
    /// A path that is no resource.
    Path(&'a str),
}

/// A resource, or one object of it; empty texts are what is not said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Resource<'a> {
    /// API group.
    pub group: &'a str,
    /// The plural.
    pub plural: &'a str,
    /// Such as `status`.
    pub subresource: &'a str,
    /// The object.
    pub name: &'a str,
    /// Its namespace.
    pub namespace: &'a str,
}

fn has(list: &[String], wanted: &str) -> bool {
    list.iter().any(|one| one == wanted)
}

fn has_or_all(list: &[String], wanted: &str) -> bool {
    has(list, ALL) || has(list, wanted)
}

impl Rule {
    /// Whether it allows a verb on an object.
    pub fn allows(&self, verb: &str, object: &Object<'_>) -> bool {
        has_or_all(&self.verbs, verb)
            && match object {
                Object::Resource(resource) => self.allows_resource(resource),
                Object::Path(path) => self.non_resource_urls.iter().any(|url| path_covers(url, path)),
            }
    }

    fn allows_resource(&self, resource: &Resource<'_>) -> bool {
        let Resource { group, plural, subresource, name, .. } = *resource;
        let is_it = |one: &String| match (one.as_str(), subresource) {
            (ALL, _) => true,
            (one, "") => one == plural,
            (one, _) => {
                one.split_once('/').is_some_and(|(of, sub)| (of == plural || of == ALL) && sub == subresource)
            }
        };
        has_or_all(&self.api_groups, group)
            && self.resources.iter().any(is_it)
            && (self.resource_names.is_empty() || has(&self.resource_names, name))
    }

    /// The same rule as many rules that each say one thing.
    fn parts(&self) -> Vec<Self> {
        let mut parts = Vec::new();
        for verb in &self.verbs {
            for url in &self.non_resource_urls {
                parts.push(Self {
                    verbs: vec![verb.clone()],
                    non_resource_urls: vec![url.clone()],
                    ..Self::default()
                });
            }
        }
        for group in &self.api_groups {
            for resource in &self.resources {
                for verb in &self.verbs {
                    let part = Self {
                        verbs: vec![verb.clone()],
                        api_groups: vec![group.clone()],
                        resources: vec![resource.clone()],
                        ..Self::default()
                    };
                    if self.resource_names.is_empty() {
                        parts.push(part.clone());
                    }
                    let named = self.resource_names.iter();
                    parts.extend(
                        named.map(|name| Self { resource_names: vec![name.clone()], ..part.clone() }),
                    );
                }
            }
        }
        parts
    }

    /// Whether it allows all that a rule of one part does.
    fn covers(&self, part: &Self) -> bool {
        let resource = |wanted: &String| {
            has_or_all(&self.resources, wanted)
                || wanted.split_once('/').is_some_and(|(_, sub)| has(&self.resources, &format!("*/{sub}")))
        };
        let url = |wanted: &String| self.non_resource_urls.iter().any(|owned| path_covers(owned, wanted));
        part.verbs.iter().all(|verb| has_or_all(&self.verbs, verb))
            && part.api_groups.iter().all(|group| has_or_all(&self.api_groups, group))
            && part.resources.iter().all(resource)
            && part.non_resource_urls.iter().all(url)
            && (self.resource_names.is_empty()
                || (!part.resource_names.is_empty()
                    && part.resource_names.iter().all(|name| has(&self.resource_names, name))))
    }

    /// In the words of refusals.
    fn describe(&self) -> String {
        let parts = [
            ("APIGroups", &self.api_groups),
            ("Resources", &self.resources),
            ("NonResourceURLs", &self.non_resource_urls),
            ("ResourceNames", &self.resource_names),
            ("Verbs", &self.verbs),
        ];
        let said = parts.into_iter().filter(|(_, list)| !list.is_empty());
        let said: Vec<String> = said.map(|(title, list)| format!("{title}:{}", quoted(list))).collect();
        format!("{{{}}}", said.join(", "))
    }
}

/// A list of texts as Go prints it.
pub fn quoted(list: &[String]) -> String {
    format!("[{}]", list.iter().map(|one| go::quote(one)).collect::<Vec<_>>().join(" "))
}

fn path_covers(pattern: &str, path: &str) -> bool {
    pattern == path || (pattern.ends_with('*') && path.starts_with(pattern.trim_end_matches('*')))
}

/// What `wanted` allows and `owned` does not, one line each; empty if that is nothing.
pub fn missing(owned: &[Rule], wanted: &[Rule]) -> Vec<String> {
    let parts = wanted.iter().flat_map(Rule::parts);
    let uncovered = parts.filter(|part| !owned.iter().any(|rule| rule.covers(part)));
    // Parts that differ by their verb alone are told together.
    let mut together: BTreeMap<[Vec<String>; 3], Rule> = BTreeMap::new();
    let mut lines = Vec::new();
    for part in uncovered {
        if part.non_resource_urls.is_empty() {
            let key = [part.api_groups.clone(), part.resources.clone(), part.resource_names.clone()];
            let verbs = part.verbs.clone();
            together.entry(key).and_modify(|rule| rule.verbs.extend(verbs)).or_insert(part);
        } else {
            lines.push(part.describe());
        }
    }
    lines.extend(together.values().map(Rule::describe));
    lines.sort();
    lines.dedup();
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(json: serde_json::Value) -> Rule {
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn a_rule_allows_what_it_says() {
        let of = |group, plural, subresource, name| {
            Object::Resource(Resource { group, plural, subresource, name, namespace: "" })
        };
        let (map, status) = (of("", "configmaps", "", "a"), of("g", "things", "status", "a"));
        let rows = [
            (
                serde_json::json!({"verbs": ["get"], "apiGroups": [""], "resources": ["configmaps"]}),
                "get",
                map,
                true,
            ),
            (
                serde_json::json!({"verbs": ["get"], "apiGroups": [""], "resources": ["configmaps"]}),
                "list",
                map,
                false,
            ),
            (
                serde_json::json!({"verbs": ["*"], "apiGroups": ["g"], "resources": ["configmaps"]}),
                "get",
                map,
                false,
            ),
            (serde_json::json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}), "x", status, true),
            (
                serde_json::json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["things"]}),
                "x",
                status,
                false,
            ),
            (
                serde_json::json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["things/status"]}),
                "x",
                status,
                true,
            ),
            (
                serde_json::json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*/status"]}),
                "x",
                status,
                true,
            ),
            (
                serde_json::json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*/scale"]}),
                "x",
                status,
                false,
            ),
            (
                serde_json::json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["things/*"]}),
                "x",
                status,
                false,
            ),
            (
                serde_json::json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "resourceNames": ["a"]}),
                "get",
                map,
                true,
            ),
            (
                serde_json::json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "resourceNames": ["b"]}),
                "get",
                map,
                false,
            ),
            (
                serde_json::json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}),
                "get",
                Object::Path("/x"),
                false,
            ),
            (
                serde_json::json!({"verbs": ["get"], "nonResourceURLs": ["/x/*"]}),
                "get",
                Object::Path("/x/y/z"),
                true,
            ),
            (
                serde_json::json!({"verbs": ["get"], "nonResourceURLs": ["/x/*"]}),
                "get",
                Object::Path("/x"),
                false,
            ),
            (
                serde_json::json!({"verbs": ["get"], "nonResourceURLs": ["*"]}),
                "get",
                Object::Path("/x"),
                true,
            ),
            (serde_json::json!({"verbs": ["get"], "nonResourceURLs": ["/x"]}), "get", map, false),
        ];
        for (json, verb, object, expected) in rows {
            assert_eq!(rule(json.clone()).allows(verb, &object), expected, "{json} {verb} {object:?}");
        }
    }

    #[test]
    fn nobody_covers_more_than_they_have() {
        let owned = [
            rule(
                serde_json::json!({"verbs": ["get", "list"], "apiGroups": [""], "resources": ["configmaps", "*/status"]}),
            ),
            rule(
                serde_json::json!({"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"], "resourceNames": ["a"]}),
            ),
            rule(serde_json::json!({"verbs": ["get"], "nonResourceURLs": ["/x/*"]})),
        ];
        for (json, lines) in [
            (
                serde_json::json!({"verbs": ["get"], "apiGroups": [""], "resources": ["configmaps", "things/status"]}),
                vec![],
            ),
            (serde_json::json!({"verbs": ["get"], "nonResourceURLs": ["/x/y"]}), vec![]),
            (
                serde_json::json!({"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"], "resourceNames": ["a"]}),
                vec![],
            ),
            (
                serde_json::json!({"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"]}),
                vec![r#"{APIGroups:[""], Resources:["secrets"], Verbs:["get"]}"#],
            ),
            (
                serde_json::json!({"verbs": ["get", "create", "*"], "apiGroups": [""], "resources": ["configmaps"]}),
                vec![r#"{APIGroups:[""], Resources:["configmaps"], Verbs:["create" "*"]}"#],
            ),
            (
                serde_json::json!({"verbs": ["get"], "nonResourceURLs": ["/y"]}),
                vec![r#"{NonResourceURLs:["/y"], Verbs:["get"]}"#],
            ),
        ] {
            assert_eq!(missing(&owned, &[rule(json.clone())]), lines, "{json}");
        }
    }
}
