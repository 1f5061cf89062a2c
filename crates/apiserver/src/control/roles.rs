//! Cluster roles that collect the rules of others: `rules` follows what their selectors select.

use std::collections::HashSet;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::bounds::MAX_BYTES;
use crate::rbac::GROUP;
use crate::request::query::{ListOptions, Query};
use crate::request::write::WriteOptions;
use crate::storage::{Change, PatchBody, Storage, Target};
use crate::store::{Filter, Object, WatchError};

const MANAGER: &str = "clusterrole-aggregation-controller";

/// Runs until the store is closed.
pub async fn run(storage: Arc<Storage>) {
    let resource: Arc<str> = format!("{GROUP}/clusterroles").into();
    loop {
        let filter = Filter { resource: Some(Arc::clone(&resource)), namespace: None };
        let Ok(mut watcher) = storage.store.watch(filter, storage.store.revision()) else { return };
        loop {
            collect(&storage).await;
            match watcher.next().await {
                Ok(_) => while matches!(watcher.try_next(), Ok(Some(_))) {},
                Err(WatchError::Closed) => return,
                Err(_) => break,
            }
        }
    }
}

/// The number of passes over aggregated roles; the rest follows from the events of the last one.
const PASSES: usize = 8;

/// Brings every role that collects others up to date, also those that collect such roles.
pub async fn collect(storage: &Storage) {
    for _ in 0..PASSES {
        if !pass(storage).await {
            return;
        }
    }
}

/// The part of a role that is always read: not its rules, which may be many.
#[derive(Deserialize)]
struct Head {
    metadata: Value,
    #[serde(default, rename = "aggregationRule")]
    aggregation: Value,
}

/// The rules of a role.
#[derive(Deserialize)]
struct Rules {
    #[serde(default)]
    rules: Value,
}

fn read<T: DeserializeOwned>(object: &Object) -> T {
    serde_json::from_slice(object.bytes()).expect("the store holds the JSON it was given")
}

/// Looks at every role once; tells whether one changed.
async fn pass(storage: &Storage) -> bool {
    let Some(served) = storage.registry.current().find(GROUP, "v1", "clusterroles").cloned() else {
        return false;
    };
    let target = Target { served, namespace: None, status: false };
    let options = ListOptions::parse(&Query::parse("")).expect("no options are valid options");
    let Ok(listed) = storage.list(&target, &options) else { return false };
    let heads: Vec<Head> = listed.items.iter().map(|object| read(object)).collect();
    let mut changed = false;
    for (head, object) in heads.iter().zip(&listed.items) {
        let rules = || {
            let rules = collected(head, &heads, &listed.items)?;
            (!is_same(&rules, &read::<Rules>(object).rules)).then_some(rules)
        };
        let Some(rules) = rules() else { continue };
        let name = &*object.key().name;
        let applied = json!({
            "apiVersion": format!("{GROUP}/v1"), "kind": "ClusterRole",
            "metadata": {"name": name}, "rules": rules,
        });
        let change = Change::Patch(PatchBody::Apply(applied));
        let options = WriteOptions { force: true, ..WriteOptions::default() };
        // What is refused now is next attempt at the next change.
        changed |= storage.change(&target, name, &change, &options, MANAGER).await.is_ok();
    }
    changed
}

/// No rules at all are an empty list of rules.
fn is_same(rules: &Value, live: &Value) -> bool {
    live == rules || (live.is_null() && rules.as_array().is_some_and(Vec::is_empty))
}

/// The rules of all other roles that a role selects, each once; `None` for a role that selects none, or more than an object may
/// hold.
fn collected(role: &Head, heads: &[Head], objects: &[Arc<Object>]) -> Option<Value> {
    let selectors = role.aggregation["clusterRoleSelectors"].as_array()?;
    let (mut rules, mut seen, mut bytes): (Vec<Value>, HashSet<Value>, usize) = Default::default();
    for selector in selectors {
        // Names order the list already.
        let others =
            heads.iter().zip(objects).filter(|(other, _)| other.metadata["name"] != role.metadata["name"]);
        for (_, object) in others.filter(|(other, _)| selects(selector, &other.metadata["labels"])) {
            let Value::Array(theirs) = read::<Rules>(object).rules else { continue };
            for rule in theirs {
                if seen.insert(rule.clone()) {
                    bytes += rule.to_string().len();
                    rules.push(rule);
                }
            }
            if bytes > MAX_BYTES {
                return None;
            }
        }
    }
    Some(json!(rules))
}

fn selects(selector: &Value, labels: &Value) -> bool {
    let mut equal = selector["matchLabels"].as_object().into_iter().flatten();
    let mut others = selector["matchExpressions"].as_array().into_iter().flatten();
    equal.all(|(key, value)| labels.get(key) == Some(value))
        && others.all(|requirement| {
            let label = requirement["key"].as_str().and_then(|key| labels.get(key));
            let is_in = || {
                requirement["values"]
                    .as_array()
                    .is_some_and(|values| label.is_some_and(|it| values.contains(it)))
            };
            match requirement["operator"].as_str().unwrap_or_default() {
                "In" => is_in(),
                "NotIn" => !is_in(),
                "Exists" => label.is_some(),
                "DoesNotExist" => label.is_none(),
                _ => false,
            }
        })
}
