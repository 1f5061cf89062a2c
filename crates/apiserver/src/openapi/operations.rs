//! One request: what it may say, what is answered, which kind it is about.

use serde_json::{Map, Value, json};

use super::{components, parameters};
use crate::resource::{Resource, Version};

const DELETE_OPTIONS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";
const PATCH: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Patch";
const SCALE: &str = "io.k8s.api.autoscaling.v1.Scale";
const STATUS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Status";

const BODIES: &[&str] = &["application/json", "application/yaml"];
const PATCHES: &[&str] =
    &["application/apply-patch+yaml", "application/json-patch+json", "application/merge-patch+json"];
const STRATEGIC: &str = "application/strategic-merge-patch+json";

/// The subject of the operations of one path.
pub(super) struct Subject<'a> {
    pub resource: &'a Resource,
    pub version: &'a Version,
    /// Name of the subresource, if it is one.
    pub subresource: Option<&'static str>,
    /// True if the path has a namespace.
    pub in_namespace: bool,
}

impl Subject<'_> {
    /// The operation of an action: `get`, `list`, `post`, `put`, `patch`, `delete`, `deletecollection`.
    pub fn operation(&self, action: &str) -> Value {
        let mut operation = json!({
            "tags": [self.tag()],
            "description": self.about(action),
            "operationId": self.operation_id(action),
        });
        let query = parameters::query(action);
        if !query.is_empty() {
            operation["parameters"] = query.into();
        }
        if let Some(body) = self.body(action) {
            operation["requestBody"] = body;
        }
        operation["responses"] = self.responses(action);
        operation["x-kubernetes-action"] = action.into();
        operation["x-kubernetes-group-version-kind"] = json!({
            "group": self.resource.group, "version": self.version.name, "kind": self.resource.kind,
        });
        operation
    }

    fn body(&self, action: &str) -> Option<Value> {
        let content = |types: &[&str], schema: &str| -> Map<String, Value> {
            let schema = json!({"schema": components::reference(schema)});
            types.iter().map(|name| ((*name).to_owned(), schema.clone())).collect()
        };
        match action {
            "post" | "put" => Some(json!({"content": content(BODIES, &self.object()), "required": true})),
            "patch" => {
                let mut types = PATCHES.to_vec();
                // Custom resources have no merge keys of their own.
                if !self.resource.custom {
                    types.push(STRATEGIC);
                }
                Some(json!({"content": content(&types, PATCH), "required": true}))
            }
            "delete" | "deletecollection" => Some(json!({"content": content(BODIES, DELETE_OPTIONS)})),
            _ => None,
        }
    }

    fn responses(&self, action: &str) -> Value {
        let schema = match action {
            "list" => components::list_name_of(self.resource, self.version),
            "delete" | "deletecollection" => STATUS.to_owned(),
            _ => self.object(),
        };
        let answer = |words: &str| {
            let schema = json!({"schema": components::reference(&schema)});
            let content: Map<String, Value> =
                BODIES.iter().map(|name| ((*name).to_owned(), schema.clone())).collect();
            json!({"description": words, "content": content})
        };
        let mut responses = json!({"200": answer("OK")});
        if matches!(action, "post" | "put" | "patch") {
            responses["201"] = answer("Created");
        }
        if matches!(action, "post" | "delete") {
            responses["202"] = answer("Accepted");
        }
        responses["401"] = json!({"description": "Unauthorized"});
        responses
    }

    /// The schema of what is read and written.
    fn object(&self) -> String {
        match self.subresource {
            Some("scale") => SCALE.to_owned(),
            _ => components::name_of(self.resource, self.version),
        }
    }

    fn about(&self, action: &str) -> String {
        let kind = &self.resource.kind;
        let of = self.subresource.map(|name| format!("the {name} of ")).unwrap_or_default();
        match action {
            "list" => format!("List or watch {kind} objects."),
            "post" => format!("Create a {kind}."),
            "deletecollection" => format!("Delete all selected {kind} objects."),
            "get" => format!("Read {of}a {kind}."),
            "put" => format!("Replace {of}a {kind}."),
            "patch" => format!("Change {of}a {kind}."),
            _ => format!("Delete a {kind}."),
        }
    }

    fn operation_id(&self, action: &str) -> String {
        let verb = match action {
            "get" => "read",
            "post" => "create",
            "put" => "replace",
            "deletecollection" => "delete",
            other => other,
        };
        let collection = if action == "deletecollection" { "Collection" } else { "" };
        let scope = if self.in_namespace { "Namespaced" } else { "" };
        let everywhere = if action == "list" && self.resource.namespaced && !self.in_namespace {
            "ForAllNamespaces"
        } else {
            ""
        };
        let subresource = self.subresource.map(capitalized).unwrap_or_default();
        let version = capitalized(&self.version.name);
        let kind = &self.resource.kind;
        format!(
            "{verb}{}{version}{collection}{scope}{kind}{everywhere}{subresource}",
            capitalized(&self.group_words())
        )
    }

    fn tag(&self) -> String {
        format!("{}_{}", self.group_words(), self.version.name)
    }

    /// The group in camel case; the domain of Kubernetes goes without saying.
    fn group_words(&self) -> String {
        let group = if self.resource.group.is_empty() { "core" } else { &self.resource.group };
        let group = group.strip_suffix(".k8s.io").unwrap_or(group);
        let mut words = group.split(['.', '-']);
        let first = words.next().unwrap_or_default().to_owned();
        words.fold(first, |name, word| name + &capitalized(word))
    }
}

fn capitalized(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map(|first| first.to_ascii_uppercase().to_string() + letters.as_str()).unwrap_or_default()
}
