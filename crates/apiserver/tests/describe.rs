//! What this crate says of built-in and custom resources is what kube-apiserver says of them.
//!
//! Compared are structure and names, for the resources both serve, and the sentences on what every object has; other
//! descriptions are our own.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use capt_apiserver::resource::crd::{Names, accept};
use std::{collections::BTreeSet, sync::Arc};

use capt_apiserver::{builtin, discovery, openapi, resource::Resource};
use capt_e2e::{KubeApiserver, Peers};
use kube::Client;
use serde_json::{Map, Value, json};

/// Fields and types that only the real server has, because only it acts on them.
const LEFT_OUT: [&str; 3] =
    ["shardInfo", "shardSelector", "ignoreStoreReadErrorWithClusterBreakingPotential"];

/// Types whose members only the real server knows: there are no services here, so nobody reads one.
const OPEN: [&str; 2] = ["io.k8s.api.core.v1.ServiceSpec", "io.k8s.api.core.v1.ServiceStatus"];

async fn get(client: &Client, path: &str, accept: Option<&str>) -> Value {
    look(client, path, accept).await.unwrap()
}

async fn look(client: &Client, path: &str, accept: Option<&str>) -> Result<Value, kube::Error> {
    let mut request = http::Request::get(path);
    if let Some(accept) = accept {
        request = request.header("accept", accept);
    }
    client.request(request.body(Vec::new()).unwrap()).await
}

fn widget() -> Value {
    serde_json::from_str(include_str!("data/widget.json")).unwrap()
}

/// A kind that takes anything at its root, and one with what version 2 cannot say.
fn bag() -> Value {
    let version = |name: &str, storage: bool, schema: Value| json!({"name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema": schema}});
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true, "description": "Anything.",
        "required": ["spec"], "properties": {"spec": {"type": "string"}}});
    let closed = json!({"type": "object", "required": ["maybe", "must"], "properties": {
        "maybe": {"type": "string", "nullable": true, "enum": ["a"]},
        "must": {"type": "string"},
        "map": {"type": "object", "nullable": true, "additionalProperties": {"type": "array", "items": {"type": "string"}}},
        "list": {"type": "array", "nullable": true, "items": {"type": "string"}},
        "port": {"x-kubernetes-int-or-string": true},
        "anything": {"x-kubernetes-preserve-unknown-fields": true},
        "part": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"a": {"type": "string"}}},
        "template": {"type": "object", "x-kubernetes-embedded-resource": true, "properties": {"spec": {"type": "string"}}},
        "open": {"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true},
    }});
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "bags.open.example.com"},
        "spec": {"group": "open.example.com", "scope": "Namespaced",
            "names": {"plural": "bags", "singular": "bag", "kind": "Bag", "listKind": "BagList"},
            "versions": [version("v1", true, open), version("v2", false, closed)]}})
}

fn resources() -> Vec<Arc<Resource>> {
    let mut resources = builtin::resources();
    resources.extend(builtin::virtual_resources());
    for mut crd in [widget(), bag()] {
        builtin::prepare_create("apiextensions.k8s.io", "CustomResourceDefinition", &mut crd);
        resources.push(Arc::new(capt_apiserver::resource::crd::resource(&crd).unwrap()));
    }
    resources
}

/// Leaves of a resource that can only be read here what such a resource has.
fn only_read(entry: &mut Value) {
    entry["verbs"] = json!(["get", "list", "watch"]);
    entry.as_object_mut().unwrap().shift_remove("storageVersionHash");
}

/// A schema without words, without defaults of zero values, and with plain references.
fn bare(schema: &Value) -> Value {
    match schema {
        Value::Object(keywords) => {
            if let Some([only]) = keywords.get("allOf").and_then(Value::as_array).map(Vec::as_slice)
                && only.get("$ref").is_some()
            {
                return only.clone();
            }
            let is_zero = |value: &Value| {
                matches!(value, Value::Object(map) if map.is_empty())
                    || *value == ""
                    || *value == 0
                    || *value == false
            };
            let kept = keywords.iter().filter(|(keyword, value)| match keyword.as_str() {
                "description" => !value.is_string(),
                "default" | "properties" => !is_zero(value),
                name => !LEFT_OUT.contains(&name),
            });
            Value::Object(kept.map(|(keyword, value)| (keyword.clone(), bare(value))).collect())
        }
        Value::Array(elements) => elements.iter().map(bare).collect(),
        other => other.clone(),
    }
}

fn sorted(mut value: Value) -> Value {
    fn lists(value: &mut Value) {
        match value {
            Value::Array(elements) => {
                elements.iter_mut().for_each(lists);
                elements.sort_by_key(ToString::to_string);
            }
            Value::Object(members) => members.values_mut().for_each(lists),
            _ => {}
        }
    }
    value.sort_all_objects();
    lists(&mut value);
    value
}

#[tokio::test]
async fn the_server_describes_itself_as_the_real_one_does() {
    let Some(peers) = Peers::find_or_skip(KubeApiserver::NEEDS) else { return };
    let server = KubeApiserver::start(&peers).await.unwrap();
    let client = server.client();
    for crd in [widget(), bag()] {
        let request = http::Request::post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions")
            .header("content-type", "application/json")
            .body(crd.to_string().into_bytes())
            .unwrap();
        client.request::<Value>(request).await.unwrap();
    }
    for (group, plural, versions) in
        [("demo.example.com", "widgets", ["v1", "v1beta1"]), ("open.example.com", "bags", ["v1", "v2"])]
    {
        capt_e2e::until("the custom resource is described", std::time::Duration::from_mins(3), async || {
            is_described(&client, group, plural, versions).await.then_some(())
        })
        .await
        .unwrap();
    }

    let resources = resources();
    legacy_discovery(&client, &resources).await;
    aggregated_discovery(&client, &resources).await;
    definition_status(&client).await;
    for (path, group, version) in openapi::documents(&resources) {
        let theirs = get(&client, &format!("/openapi/v3/{path}"), None).await;
        let ours = openapi::document(&group, &version, &resources).unwrap();
        schemas(&path, &ours, &theirs);
        paths(&path, &ours, &theirs);
    }
    version_two(&get(&client, "/openapi/v2", None).await, &openapi::document_v2(&resources));
}

/// Whether everything that follows a definition has followed this one. Each does so by itself, some of it seconds later.
async fn is_described(client: &Client, group: &str, plural: &str, versions: [&str; 2]) -> bool {
    let definition = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{plural}.{group}");
    let see = async |path: &str| look(client, path, None).await.unwrap_or_default();
    let aggregated =
        look(client, "/apis", Some(discovery::AGGREGATED_CONTENT_TYPE)).await.unwrap_or_default();
    let groups = see("/apis").await;
    let named = |list: &Value, name: fn(&Value) -> &Value| -> Value {
        let found = list.as_array().into_iter().flatten().find(|entry| *name(entry) == *group);
        found.cloned().unwrap_or_default()
    };
    let (short, long) = (
        named(&groups["groups"], |entry| &entry["name"]),
        named(&aggregated["items"], |entry| &entry["metadata"]["name"]),
    );
    let index = see("/openapi/v3").await;
    let mut whole = capt_apiserver::resource::crd::is_established(&see(&definition).await);
    for version in versions {
        let is_in = |group: &Value| -> bool {
            group["versions"].as_array().into_iter().flatten().any(|entry| {
                // Only the aggregated list says how fresh it is, and what there is.
                let current = entry["freshness"].is_null()
                    || (entry["freshness"] == "Current" && entry["resources"][0].is_object());
                entry["version"] == version && current
            })
        };
        let path = format!("apis/{group}/{version}");
        whole &= is_in(&short) && is_in(&long) && is_in(&see(&format!("/apis/{group}")).await);
        whole &= see(&format!("/{path}")).await["resources"][0].is_object();
        whole &= index["paths"][&path].is_object();
        whole &= see(&format!("/openapi/v3/{path}")).await["components"].is_object();
    }
    // By far the largest, so it is asked for last.
    let older = if whole { see("/openapi/v2").await } else { return false };
    let paths = &older["paths"];
    versions.iter().all(|version| paths[format!("/apis/{group}/{version}/{plural}")].is_object())
}

async fn definition_status(client: &Client) {
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.demo.example.com";
    let mut theirs = get(client, path, None).await;
    let mut ours =
        builtin::decode("apiextensions.k8s.io", "CustomResourceDefinition", widget()).unwrap().object;
    builtin::prepare_create("apiextensions.k8s.io", "CustomResourceDefinition", &mut ours);
    ours["status"] = accept(&ours, &Names::default(), None, "now").unwrap();
    for condition in theirs["status"]["conditions"].as_array_mut().unwrap() {
        condition["lastTransitionTime"] = "now".into();
    }
    assert_eq!(sorted(ours["spec"].clone()), sorted(theirs["spec"].clone()));
    assert_eq!(sorted(ours["status"].clone()), sorted(theirs["status"].clone()));
}

async fn legacy_discovery(client: &Client, resources: &[Arc<Resource>]) {
    let theirs = get(client, "/apis", None).await;
    let ours = discovery::api_groups(resources);
    let names = |list: &Value| -> Vec<String> {
        list["groups"]
            .as_array()
            .unwrap()
            .iter()
            .map(|group| group["name"].as_str().unwrap().to_owned())
            .collect()
    };
    let known = names(&ours);
    let common: Vec<String> = names(&theirs).into_iter().filter(|name| known.contains(name)).collect();
    assert_eq!(known, common, "groups are in the same order");
    for group in &known {
        let theirs = get(client, &format!("/apis/{group}"), None).await;
        assert_eq!(sorted(discovery::api_group(group, resources).unwrap()), sorted(theirs), "{group}");
    }
    for (path, group, version) in openapi::documents(resources) {
        let mut theirs = get(client, &format!("/{path}"), None).await;
        let ours = discovery::api_resources(&group, &version, resources).unwrap();
        let names: Vec<Value> =
            ours["resources"].as_array().unwrap().iter().map(|it| it["name"].clone()).collect();
        let list = theirs["resources"].as_array_mut().unwrap();
        list.retain(|it| names.contains(&it["name"]));
        list.iter_mut().filter(|it| it["name"] == "services").for_each(only_read);
        // The order of verbs and of entries counts too, but for members of objects.
        let mut theirs = bare(&theirs);
        let mut ours = ours;
        theirs.sort_all_objects();
        ours.sort_all_objects();
        assert_eq!(ours, theirs, "{path}");
    }
}

async fn aggregated_discovery(client: &Client, resources: &[Arc<Resource>]) {
    let accept = Some(discovery::AGGREGATED_CONTENT_TYPE);
    for (path, mut ours) in
        [("/api", discovery::aggregated_core(resources)), ("/apis", discovery::aggregated_groups(resources))]
    {
        let mut theirs = get(client, path, accept).await;
        let entries = |document: &Value| -> BTreeSet<String> {
            let mut found = BTreeSet::new();
            for group in document["items"].as_array().unwrap() {
                for resource in group["versions"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .flat_map(|it| it["resources"].as_array().unwrap())
                {
                    found.insert(format!("{}/{}", group["metadata"]["name"], resource["resource"]));
                    for sub in resource["subresources"].as_array().into_iter().flatten() {
                        found.insert(format!(
                            "{}/{}/{}",
                            group["metadata"]["name"], resource["resource"], sub["subresource"]
                        ));
                    }
                }
            }
            found
        };
        let known = entries(&ours);
        theirs["items"].as_array_mut().unwrap().retain_mut(|group| {
            let name = group["metadata"]["name"].to_string();
            for version in group["versions"].as_array_mut().unwrap() {
                let list = version["resources"].as_array_mut().unwrap();
                list.retain(|it| known.contains(&format!("{name}/{}", it["resource"])));
                for resource in list {
                    if resource["resource"] == "services" {
                        only_read(resource);
                    }
                    let plural = resource["resource"].to_string();
                    let Some(subs) = resource.get_mut("subresources").and_then(Value::as_array_mut) else {
                        continue;
                    };
                    subs.retain(|sub| known.contains(&format!("{name}/{plural}/{}", sub["subresource"])));
                    if subs.is_empty() {
                        resource.as_object_mut().unwrap().shift_remove("subresources");
                    }
                }
            }
            group["versions"]
                .as_array()
                .unwrap()
                .iter()
                .any(|it| !it["resources"].as_array().unwrap().is_empty())
        });
        ours.sort_all_objects();
        theirs.sort_all_objects();
        assert_eq!(ours, theirs, "{path}");
    }
}

fn schemas(path: &str, ours: &Value, theirs: &Value) {
    let of = |document: &Value| document["components"]["schemas"].as_object().unwrap().clone();
    let (ours, theirs) = (of(ours), of(theirs));
    for (name, schema) in ours.iter().filter(|(name, _)| !OPEN.contains(&name.as_str())) {
        let real = theirs.get(name).unwrap_or_else(|| panic!("{path}: they have no {name}"));
        same_words(name, schema, real);
        let (mut ours, mut theirs) = (bare(schema), bare(real));
        for schema in [&mut ours, &mut theirs] {
            if name.ends_with(".DeleteOptions") {
                schema.as_object_mut().unwrap().shift_remove("x-kubernetes-group-version-kind");
            }
            if name.ends_with("List") {
                // We say of lists only what they have.
                schema.as_object_mut().unwrap().shift_remove("x-kubernetes-selectable-fields");
            }
        }
        assert_eq!(sorted(ours), sorted(theirs), "{path}: {name}");
    }
}

/// What every object has is described in the same sentences, of custom ones also what is inside of them.
fn same_words(name: &str, ours: &Value, theirs: &Value) {
    if ours.get("x-kubernetes-group-version-kind").is_none() {
        return;
    }
    let is_custom = !name.starts_with("io.k8s.");
    let members: &[&str] =
        if is_custom { &["apiVersion", "kind", "metadata", "items"] } else { &["apiVersion", "kind"] };
    for place in members.iter().map(|member| format!("/properties/{member}/description")).chain(
        ["apiVersion", "kind", "metadata"]
            .map(|member| format!("/properties/template/properties/{member}/description")),
    ) {
        assert_eq!(ours.pointer(&place), theirs.pointer(&place), "{name} {place}");
    }
}

fn paths(document: &str, ours: &Value, theirs: &Value) {
    let bodies = |operation: &Value| -> BTreeSet<String> {
        let content = operation["requestBody"]["content"].as_object().into_iter().flatten();
        content.map(|(name, _)| name.clone()).collect()
    };
    let names = |list: &Value| -> BTreeSet<String> {
        let list = list.as_array().into_iter().flatten().map(|it| it["name"].as_str().unwrap().to_owned());
        list.filter(|name| !LEFT_OUT.contains(&name.as_str())).collect()
    };
    for (path, entry) in ours["paths"].as_object().unwrap() {
        let real = theirs["paths"].get(path).unwrap_or_else(|| panic!("{document}: they have no {path}"));
        for (method, operation) in entry.as_object().unwrap() {
            if method == "parameters" {
                continue;
            }
            let real_operation = &real[method.as_str()];
            for keyword in ["tags", "operationId", "x-kubernetes-action", "x-kubernetes-group-version-kind"] {
                assert_eq!(operation[keyword], real_operation[keyword], "{path} {method} {keyword}");
            }
            if method == "patch" {
                assert_eq!(bodies(operation), bodies(real_operation), "{path} {method}");
                let mine: BTreeSet<_> = &names(&operation["parameters"]) | &names(&entry["parameters"]);
                let real: BTreeSet<_> = &names(&real_operation["parameters"]) | &names(&real["parameters"]);
                assert_eq!(mine, real, "{path} {method}");
            }
        }
    }
}

fn version_two(theirs: &Value, ours: &Value) {
    let definitions = ours["definitions"].as_object().unwrap();
    for (name, schema) in definitions.iter().filter(|(name, _)| !OPEN.contains(&name.as_str())) {
        let Some(real) = theirs["definitions"].get(name) else { panic!("they have no {name}") };
        let tags = |schema: &Value| {
            if name.ends_with(".DeleteOptions") || name.ends_with(".Status") {
                Value::Null
            } else {
                schema["x-kubernetes-group-version-kind"].clone()
            }
        };
        let members = |schema: &Value| -> Map<String, Value> {
            let properties = schema["properties"].as_object().into_iter().flatten();
            let kept = properties.filter(|(name, _)| !LEFT_OUT.contains(&name.as_str()));
            kept.map(|(name, schema)| (name.clone(), bare(schema))).collect()
        };
        assert_eq!(sorted(tags(schema)), sorted(tags(real)), "{name}");
        if !name.starts_with("io.k8s.") && !name.ends_with("List") {
            assert_eq!(sorted(bare(schema)), sorted(bare(real)), "{name}");
        }
        assert_eq!(sorted(json!(members(schema))), sorted(json!(members(real))), "{name}");
    }
    for path in ours["paths"].as_object().unwrap().keys() {
        assert!(theirs["paths"].get(path).is_some(), "they have no {path}");
    }
}
