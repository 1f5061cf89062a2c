use capt_api::machine::{CaptMachine, CaptMachineSet, CaptMachineSetSpec, CaptMachineSpec};
use capt_api::workspace::WorkspaceTemplateApply;
use futures::channel::mpsc;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::ResourceExt;
use serde_json::json;

use super::shelf::{FEW, Kept};
use super::*;
use crate::runtime::Kind;

fn machine(name: &str, namespace: &str, owner: Option<&str>) -> CaptMachine {
    let mut machine = CaptMachine::new(name, CaptMachineSpec::default());
    machine.metadata.namespace = Some(namespace.into());
    machine.metadata.owner_references = owner.map(|uid| {
        vec![OwnerReference { uid: uid.into(), controller: Some(true), ..OwnerReference::default() }]
    });
    machine
}

fn set(uid: &str) -> CaptMachineSet {
    let mut set = CaptMachineSet::new("s", CaptMachineSetSpec::default());
    set.metadata.namespace = Some("n".into());
    set.metadata.uid = Some(uid.into());
    set
}

/// A machine and a workspace with all that JSON can hold.
fn full() -> (CaptMachine, WorkspaceTemplateApply) {
    let conditions = json!([{
        "type": "Ready", "status": "True", "reason": "Ready", "message": "as \"it\" should \u{1F680}\n",
        "observedGeneration": 3, "lastTransitionTime": "2026-01-02T03:04:05Z",
    }]);
    let metadata = json!({
        "name": "m", "namespace": "n", "uid": "u", "resourceVersion": "7", "generation": 3,
        "creationTimestamp": "2026-01-02T03:04:05Z", "deletionTimestamp": "2026-01-02T03:04:06Z",
        "labels": {"app": "web", "empty": ""}, "annotations": {"note": "a\tb"}, "finalizers": ["x/y"],
        "ownerReferences": [
            {"apiVersion": "v1", "kind": "Set", "name": "s", "uid": "a", "controller": true},
            {"apiVersion": "v1", "kind": "Other", "name": "o", "uid": "b"},
        ],
    });
    let values = json!({
        "null": null, "yes": true, "whole": -7, "large": u64::MAX, "part": 0.1, "text": "t",
        "list": [1, "two", null, {"z": 1, "a": [2]}], "map": {"z": {"y": null}, "a": {}},
    });
    let machine = json!({
        "apiVersion": CaptMachine::api_version(&()), "kind": "CaptMachine", "metadata": metadata,
        "spec": {
            "workspaceTemplateRef": {"name": "t"}, "nodeGroupRef": {"name": "g", "namespace": "far"},
            "instanceType": "small", "labels": {"role": "worker"}, "tags": {"team": "blue"},
            "variables": values,
        },
        "status": {"conditions": conditions},
    });
    let workspace = json!({
        "apiVersion": WorkspaceTemplateApply::api_version(&()), "kind": "WorkspaceTemplateApply",
        "metadata": metadata,
        "spec": {"templateRef": {"name": "t"}, "variables": values, "waitForWorkspaces": [{"name": "w"}]},
        "status": {"conditions": conditions, "outputs": values, "backendHash": "h"},
    });
    (serde_json::from_value(machine).unwrap(), serde_json::from_value(workspace).unwrap())
}

async fn returned<K: Kind + PartialEq>(object: &K, keep: Keep) -> (Option<Arc<K>>, Vec<Arc<K>>) {
    let (events, stream) = mpsc::unbounded();
    let (cache, work) = Cache::follow(stream, by_owner, keep);
    events.unbounded_send(Ok(Event::Apply(object.clone()))).unwrap();
    drop(events);
    work.await;
    assert_eq!(cache.names_by(&[Key::Owner("a".into())]), [Name::new("n", "m")]);
    assert!(cache.has(&Name::new("n", "m")) && !cache.has(&Name::new("n", "other")));
    (cache.get(&Name::new("n", "m")), cache.by(&[Key::Owner("a".into())]))
}

#[tokio::test]
async fn what_comes_out_is_what_went_in() {
    let (machine, workspace) = full();
    let text = serde_json::to_string(&workspace).unwrap();
    assert!(text.contains("18446744073709551615") && text.contains(r#"{"z":1,"a":[2]}"#), "{text}");
    for keep in [Keep::Whole, Keep::Packed] {
        let (one, all) = returned(&machine, keep).await;
        assert_eq!((one.as_deref(), all.len()), (Some(&machine), 1));
        let (one, all) = returned(&workspace, keep).await;
        assert_eq!(one.as_deref(), Some(&workspace));
        let texts: Vec<String> = all.iter().map(|one| serde_json::to_string(one.as_ref()).unwrap()).collect();
        assert_eq!(texts, std::slice::from_ref(&text), "in the same order, too");
        assert_eq!(*Stored::new(&machine, keep).open(), machine);
        let kept = Stored::new(&workspace, keep).open();
        assert_eq!(
            (kept.as_ref(), serde_json::to_string(kept.as_ref()).unwrap()),
            (&workspace, text.clone())
        );
    }
}

#[test]
fn only_what_is_many_is_packed() {
    let mut shelf = Shelf::new(by_owner, Keep::Packed);
    for number in 0..=FEW {
        let name = format!("m{number}");
        shelf.put(Name::new("n", name.clone()), &machine(&name, "n", None));
    }
    let packed = |kept: &&Kept<CaptMachine>| matches!(kept.stored, Stored::Packed(_));
    assert_eq!(shelf.objects.values().filter(packed).count(), 1);
}

#[tokio::test]
async fn a_family_is_what_one_has_and_may_take() {
    let (events, stream) = mpsc::unbounded();
    let (cache, work) = Cache::<CaptMachine>::follow(stream, by_owner, Keep::Packed);
    let send = |event| events.unbounded_send(Ok(event)).unwrap();
    send(Event::Init);
    send(Event::InitApply(machine("mine", "n", Some("a"))));
    send(Event::InitApply(machine("hers", "n", Some("b"))));
    send(Event::InitApply(machine("nobodys", "n", None)));
    send(Event::InitApply(machine("far", "elsewhere", None)));
    send(Event::InitDone);
    send(Event::Apply(machine("adopted", "n", None)));
    send(Event::Apply(machine("adopted", "n", Some("a"))));
    send(Event::Apply(machine("released", "n", Some("a"))));
    send(Event::Apply(machine("released", "n", None)));
    send(Event::Apply(machine("gone", "n", Some("a"))));
    send(Event::Delete(machine("gone", "n", Some("a"))));
    drop(events);
    work.await;
    let family = |uid| {
        let mut names: Vec<String> =
            cache.family(&set(uid)).iter().map(|machine| machine.name_any()).collect();
        names.sort();
        names.join(" ")
    };
    assert_eq!(family("a"), "adopted mine nobodys released");
    assert_eq!(family("b"), "hers nobodys released");
    assert_eq!(cache.all().len(), 6);
}

#[tokio::test]
async fn a_status_is_no_news() {
    let (events, stream) = mpsc::unbounded();
    let (cache, work) = Cache::<CaptMachine>::follow(stream, by_owner, Keep::Whole);
    let news = cache.news(same_but_status);
    let mut changed = machine("a", "n", None);
    changed.metadata.generation = Some(2);
    let mut marked = changed.clone();
    marked.metadata.annotations = Some([("note".to_owned(), String::new())].into());
    let mut counted = machine("a", "n", None);
    counted.metadata.resource_version = Some("7".into());
    let told = tokio::spawn(news.map(|name| name.name).collect::<Vec<_>>());
    tokio::task::yield_now().await;
    let follow = tokio::spawn(work);
    let one_by_one = [
        Event::Apply(machine("a", "n", None)),
        Event::Apply(counted),
        Event::Apply(changed),
        Event::Apply(marked.clone()),
        Event::Apply(machine("b", "n", None)),
        Event::Delete(marked),
    ];
    for event in one_by_one {
        events.unbounded_send(Ok(event)).unwrap();
        // Each is seen before the next comes.
        for _ in 0..4 {
            tokio::task::yield_now().await;
        }
    }
    drop((events, cache));
    follow.await.unwrap();
    assert_eq!(told.await.unwrap(), ["a", "a", "a", "b", "a"], "come, changed, marked; another; gone");
}

#[tokio::test]
async fn a_new_list_takes_the_place_of_the_old() {
    let (events, stream) = mpsc::unbounded();
    let (cache, work) = Cache::<CaptMachine>::follow(stream, by_owner, Keep::Whole);
    let mut changes = std::pin::pin!(cache.changes());
    for name in ["one", "two"] {
        events.unbounded_send(Ok(Event::Init)).unwrap();
        events.unbounded_send(Ok(Event::InitApply(machine(name, "n", Some("a"))))).unwrap();
        events.unbounded_send(Ok(Event::InitDone)).unwrap();
    }
    drop(events);
    work.await;
    assert_eq!(cache.family(&set("a")).len(), 1);
    assert_eq!(cache.get(&Name::new("n", "one")), None);
    let told: Vec<Name> =
        vec![changes.next().await.unwrap(), changes.next().await.unwrap(), changes.next().await.unwrap()];
    assert_eq!(told.iter().filter(|name| name.name == "one").count(), 2, "come and gone");
}
