//! Small things that could be looked at once for each of the others: items of one key, managers, owners, pages.

use http_body_util::BodyExt as _;
use serde_json::{Map, Value, json};

use crate::sized;
use crate::target::{Client, DEADLINE, Target};
use crate::work::{MOST_OF_FOUR, NOTHING};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const MERGE: &str = "application/merge-patch+json";

/// Fails where four times as much took more than a few times the work.
fn assert_linear(what: &str, one: u64, four: u64) {
    let most = MOST_OF_FOUR * one.max(NOTHING / 4);
    assert!(four <= most, "{what}: {one} ticks, and {four} for four times as much");
}

/// Processor time of a request that is answered with one of these codes.
async fn ticks(target: &Target, client: &mut Client, request: [&str; 3], body: &Value, codes: &[u16]) -> u64 {
    let [method, path, kind] = request;
    let body = body.to_string().into_bytes();
    let begun = target.ticks();
    let (code, answer) = client.ask(method, path, kind, body).await;
    assert!(codes.contains(&code), "{code}: {}", answer["message"]);
    target.ticks() - begun
}

/// An object that is there, for others to be owned by; its uid.
async fn owner(client: &mut Client) -> String {
    let (code, owner) = client.create(MAPS, &json!({"metadata": {"name": "owner"}})).await;
    assert_eq!(code, 201);
    owner["metadata"]["uid"].as_str().unwrap().to_owned()
}

fn owned_by(uid: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid})
}

#[tokio::test]
async fn items_of_one_key_are_not_walked_for_each_other() {
    let target = Target::start();
    let mut client = target.client().await;
    let uid = owner(&mut client).await;
    let victim = json!({"metadata": {"name": "victim", "ownerReferences": [owned_by(&uid)]}});
    assert_eq!(client.create(MAPS, &victim).await.0, 201);
    let many = sized(6_000, 32_000);
    for comes in [false, true] {
        let item = |n: usize| {
            let mut item = json!({"uid": uid, format!("a{n}"): null});
            if comes {
                item[format!("b{n}")] = 1.into();
            }
            item
        };
        let body = |count: usize| {
            let mut first = json!({"uid": uid});
            let members = (0..count).map(|n| (format!("a{n}"), Value::from(1)));
            first.as_object_mut().unwrap().extend(members);
            let items: Vec<Value> = std::iter::once(first).chain((0..count).map(item)).collect();
            json!({"metadata": {"ownerReferences": items}})
        };
        let one = format!("{MAPS}/victim");
        let request = ["PATCH", one.as_str(), STRATEGIC];
        let one = ticks(&target, &mut client, request, &body(many / 4), &[200, 413]).await;
        let four = ticks(&target, &mut client, request, &body(many), &[200, 413]).await;
        assert_linear(&format!("items, of which members come: {comes}"), one, four);
    }
}

#[tokio::test]
async fn a_page_is_looked_for_once() {
    let target = Target::start();
    let mut client = target.client().await;
    let many = sized(3_000, 8_000);
    let mut first = Value::Null;
    let mut found = Vec::new();
    for count in [many / 4, many] {
        let namespace = format!("n{count}");
        let created = json!({"metadata": {"name": namespace}});
        assert_eq!(client.create("/api/v1/namespaces", &created).await.0, 201);
        let maps = format!("/api/v1/namespaces/{namespace}/configmaps");
        for n in 0..count {
            let (code, answer) =
                client.create(&maps, &json!({"metadata": {"name": format!("m{n:05}")}})).await;
            assert_eq!(code, 201);
            if n == 0 {
                first = answer["metadata"]["resourceVersion"].clone();
            }
        }
        // Everything since is history by then.
        let revision = first.as_str().unwrap();
        let exact = format!("&resourceVersion={revision}&resourceVersionMatch=Exact");
        let mut spent = Vec::new();
        for query in ["", &exact, "&labelSelector=x", &format!("&labelSelector=x{exact}")] {
            let path = format!("{maps}?limit=1{query}");
            let begun = target.ticks();
            let (code, answer) = client.get(&path).await;
            assert_eq!(code, 200, "{}", answer["message"]);
            let expected = usize::from(!query.contains("labelSelector"));
            assert_eq!(answer["items"].as_array().unwrap().len(), expected, "{query}");
            spent.push(target.ticks() - begun);
        }
        found.push(spent);
    }
    for (one, four) in found[0].iter().zip(&found[1]) {
        assert_linear("a page", *one, *four);
    }
}

/// As many managers, each with a field of its own.
fn managers(count: usize, operation: &str) -> Value {
    let entry = |n: usize| {
        json!({"manager": format!("m{n}"), "operation": operation, "apiVersion": "v1", "fieldsType": "FieldsV1",
            "time": "2020-01-01T00:00:00Z", "fieldsV1": {"f:data": {format!("f:z{n}"): {}}}})
    };
    (0..count).map(entry).collect()
}

/// Processor time of what clients do to an object with `count` managers, each beside what it is.
async fn spent_on_managers(target: &Target, count: usize) -> Vec<(&'static str, u64)> {
    let mut client = target.client().await;
    let name = format!("managed{count}");
    let one = format!("{MAPS}/{name}");
    let data = |prefix: &str, count: usize, value: &str| -> Map<String, Value> {
        (0..count).map(|n| (format!("{prefix}{n}"), value.into())).collect()
    };
    let object = |data: Map<String, Value>| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data});
    assert_eq!(client.create(MAPS, &object(data("z", count, "v"))).await.0, 201);
    let with = |operation: &str| {
        let mut object = object(data("z", count, "v"));
        object["metadata"]["managedFields"] = managers(count, operation);
        object
    };
    let json = "application/json";
    let (yaml, own) = ("application/apply-patch+yaml", format!("{one}?fieldManager=own&dryRun=All"));
    let forced = format!("{own}&force=true");
    let little = json!({"metadata": {"labels": {"a": "b"}}});
    let tried = format!("{one}?dryRun=All");
    let mut out = Vec::new();
    let requests: [(&str, [&str; 3], Value); 7] = [
        ("many that updated", ["PUT", tried.as_str(), json], with("Update")),
        ("many that applied", ["PUT", &one, json], with("Apply")),
        ("a label", ["PATCH", &tried, MERGE], little),
        ("new members", ["PATCH", &tried, MERGE], json!({"data": data("a", count * 2, "v")})),
        ("all conflicts", ["PATCH", &own, yaml], object(data("z", count, "w"))),
        ("no conflict", ["PATCH", &own, yaml], object(data("a", count * 2, "w"))),
        ("all won", ["PATCH", &forced, yaml], object(data("z", count, "w"))),
    ];
    for (what, request, body) in requests {
        out.push((what, ticks(target, &mut client, request, &body, &[200, 409]).await));
    }
    // What is given up is looked for among what all the others have.
    let applied = format!("{one}?fieldManager=own");
    let two = [object(data("a", 2, "v")), object(data("a", 1, "v"))];
    assert_eq!(client.ask("PATCH", &applied, yaml, two[0].to_string().into()).await.0, 200);
    out.push(("given up", ticks(target, &mut client, ["PATCH", &applied, yaml], &two[1], &[200]).await));
    out
}

#[tokio::test]
async fn no_manager_is_looked_for_among_all_others() {
    let target = Target::start();
    let many = sized(10_000, 16_000);
    // The first of all warms up.
    spent_on_managers(&target, 10).await;
    let one = spent_on_managers(&target, many / 4).await;
    let four = spent_on_managers(&target, many).await;
    for ((what, one), (_, four)) in one.into_iter().zip(four) {
        assert_linear(what, one, four);
    }
}

#[tokio::test]
async fn the_name_of_a_manager_is_not_there_for_each_of_its_fields() {
    let target = Target::start();
    let mut client = target.client().await;
    let object = |value: &str| {
        let data: Map<String, Value> = (0..500).map(|n| (format!("k{n}"), value.into())).collect();
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "victim"}, "data": data})
    };
    assert_eq!(client.create(MAPS, &object("v")).await.0, 201);
    let mut managed = object("v");
    let fields: Map<String, Value> = (0..500).map(|n| (format!("f:k{n}"), json!({}))).collect();
    managed["metadata"]["managedFields"] = json!([{"manager": "m".repeat(1 << 20), "operation": "Apply",
        "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {"f:data": fields}}]);
    let one = format!("{MAPS}/victim");
    let code = client.ask("PUT", &one, "application/json", managed.to_string().into()).await.0;
    assert_eq!(code, 200);
    let before = target.most_memory();
    let (path, kind) = (format!("{one}?fieldManager=other"), "application/apply-patch+yaml");
    let (code, status) = client.ask("PATCH", &path, kind, object("w").to_string().into()).await;
    assert_eq!((code, &status["reason"]), (409, &json!("Conflict")));
    let grown = target.most_memory().saturating_sub(before);
    assert!(grown < 128 << 20, "{grown} bytes for 500 conflicts");
}

/// Applies to an object that is not there; how much more memory the server had, and what it said.
async fn told_of_apply(target: &Target, body: &Value) -> (u64, Value) {
    let mut client = target.client().await;
    let before = target.most_memory();
    let path = format!("{MAPS}/victim?fieldManager=m&dryRun=All");
    let (code, status) =
        client.ask("PATCH", &path, "application/apply-patch+yaml", body.to_string().into()).await;
    assert_eq!(code, 500, "{status}");
    (target.most_memory().saturating_sub(before), status)
}

#[tokio::test]
async fn the_way_to_a_mistake_is_not_there_for_each_mistake() {
    let target = Target::start();
    let many = sized(4_000, 12_000);
    let unknown = |uid: String| -> Value {
        let mut owner = owned_by(&uid);
        let members = (0..many).map(|n| (format!("z{n}"), Value::from(0)));
        owner.as_object_mut().unwrap().extend(members);
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "victim", "ownerReferences": [owner]}})
    };
    // Each was told with the whole way to it: 193 KB took 2.7 GB.
    let (grown, status) = told_of_apply(&target, &unknown("u".repeat(70 << 10))).await;
    assert!(grown < 64 << 20, "{grown} bytes for {many} mistakes");
    assert!(status["message"].as_str().unwrap().contains("not declared in schema"));
    let (_, status) = told_of_apply(&target, &unknown("u".into())).await;
    let more = format!("and {} more, which are not told", many - 100);
    assert!(status["message"].as_str().unwrap().ends_with(&more), "{status}");
}

/// Many that were never seen before each came before all that were.
#[tokio::test]
async fn no_item_of_a_set_makes_room_among_all_others() {
    let target = Target::start();
    let mut client = target.client().await;
    let finalizers = |count: usize| {
        let names: Vec<String> = (0..count).rev().map(|n| format!("{n:06}")).collect();
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "victim", "finalizers": names}})
    };
    let many = sized(120_000, 200_000);
    let path = format!("{MAPS}/victim?fieldManager=m&dryRun=All");
    let request = ["PATCH", path.as_str(), "application/apply-patch+yaml"];
    let one = ticks(&target, &mut client, request, &finalizers(many / 4), &[422]).await;
    let four = ticks(&target, &mut client, request, &finalizers(many), &[422]).await;
    assert_linear("items of a set", one, four);
}

/// Reads the events of an object until it has one owner.
async fn one_owner_left(client: &mut Client, name: &str) {
    let path = format!("{MAPS}?watch=1&fieldSelector=metadata.name={name}");
    let mut events = client.send("GET", &path, "application/json", Vec::new()).await.into_body();
    let mut text = Vec::new();
    while let Some(frame) = tokio::time::timeout(DEADLINE, events.frame()).await.unwrap() {
        text.extend_from_slice(&frame.unwrap().into_data().unwrap_or_default());
        while let Some(end) = text.iter().position(|byte| *byte == b'\n') {
            let event: Value = serde_json::from_slice(&text[..end]).unwrap();
            text.drain(..=end);
            if event["object"]["metadata"]["ownerReferences"].as_array().is_some_and(|all| all.len() == 1) {
                return;
            }
        }
    }
    panic!("the watch ended");
}

#[tokio::test]
async fn owners_that_are_gone_are_taken_out_together() {
    let target = Target::start();
    let mut client = target.client().await;
    let uid = owner(&mut client).await;
    let many = sized(6_000, 12_000);
    let mut spent = Vec::new();
    for count in [many / 4, many] {
        let mut owners = vec![owned_by(&uid)];
        owners.extend((0..count).map(|n| owned_by(&format!("gone{n}"))));
        let name = format!("victim{count}");
        let begun = target.ticks();
        let victim = json!({"metadata": {"name": name, "ownerReferences": owners}});
        assert_eq!(client.create(MAPS, &victim).await.0, 201);
        one_owner_left(&mut target.client().await, &name).await;
        spent.push(target.ticks() - begun);
    }
    assert_linear("owners", spent[0], spent[1]);
}

/// Four times as many properties, and items of a list, of which none has any.
#[tokio::test]
async fn no_item_of_a_list_is_asked_for_every_property() {
    let target = Target::start();
    let mut client = target.client().await;
    let many = sized(8_000, 20_000);
    let mut spent = Vec::new();
    for count in [many / 4, many] {
        let properties: Map<String, Value> =
            (0..count).map(|n| (format!("p{n}"), json!({"type": "integer"}))).collect();
        let list =
            json!({"type": "array", "items": {"type": "object", "properties": properties, "default": {}}});
        let kind = format!("k{count}");
        let crd = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{kind}s.example.com")},
            "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": format!("{kind}s"), "kind": kind},
                "versions": [{"name": "v1", "served": true, "storage": true,
                    "schema": {"openAPIV3Schema": {"type": "object", "properties": {"l": list}}}}]},
        });
        let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        assert_eq!(client.create(crds, &crd).await.0, 201);
        let items = vec![json!({}); count];
        let object =
            json!({"apiVersion": "example.com/v1", "kind": kind, "metadata": {"name": "x"}, "l": items});
        let path = format!("/apis/example.com/v1/namespaces/default/{kind}s");
        spent.push(ticks(&target, &mut client, ["POST", &path, "application/json"], &object, &[201]).await);
    }
    assert_linear("items and properties", spent[0], spent[1]);
}
