//! One rule of a role: what it allows.

use serde::Deserialize;

use crate::status::go;

pub(super) const ALL: &str = "*";

/// A rule: verbs allowed on resources, or on paths that are no resources.
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

/// The attributes of a request that authorization decides on, besides user and verb.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attributes<'a> {
    /// A resource.
    Resource(ResourceAttributes<'a>),
    /// A path that is no resource.
    Path(&'a str),
}

/// A resource, or one object of it; empty texts are what is not said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResourceAttributes<'a> {
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
    /// Returns whether it allows a verb on an object.
    pub fn allows(&self, verb: &str, object: &Attributes<'_>) -> bool {
        has_or_all(&self.verbs, verb)
            && match object {
                Attributes::Resource(resource) => self.allows_resource(resource),
                Attributes::Path(path) => self.non_resource_urls.iter().any(|url| path_covers(url, path)),
            }
    }

    fn allows_resource(&self, resource: &ResourceAttributes<'_>) -> bool {
        let ResourceAttributes { group, plural, subresource, name, .. } = *resource;
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
}

/// A list of texts as Go prints it.
pub fn quoted<T: AsRef<str>>(list: &[T]) -> String {
    format!("[{}]", list.iter().map(|one| go::quote(one.as_ref())).collect::<Vec<_>>().join(" "))
}

pub(super) fn path_covers(pattern: &str, path: &str) -> bool {
    pattern == path || (pattern.ends_with('*') && path.starts_with(pattern.trim_end_matches('*')))
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
            Attributes::Resource(ResourceAttributes { group, plural, subresource, name, namespace: "" })
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
                Attributes::Path("/x"),
                false,
            ),
            (
                serde_json::json!({"verbs": ["get"], "nonResourceURLs": ["/x/*"]}),
                "get",
                Attributes::Path("/x/y/z"),
                true,
            ),
            (
                serde_json::json!({"verbs": ["get"], "nonResourceURLs": ["/x/*"]}),
                "get",
                Attributes::Path("/x"),
                false,
            ),
            (
                serde_json::json!({"verbs": ["get"], "nonResourceURLs": ["*"]}),
                "get",
                Attributes::Path("/x"),
                true,
            ),
            (serde_json::json!({"verbs": ["get"], "nonResourceURLs": ["/x"]}), "get", map, false),
        ];
        for (json, verb, object, expected) in rows {
            assert_eq!(rule(json.clone()).allows(verb, &object), expected, "{json} {verb} {object:?}");
        }
    }
}
