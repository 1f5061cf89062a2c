//! `capt server` is killed again and again under load: every answered write is there afterwards, and nothing else.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use kube::{Resource, ResourceExt};
use serde_json::json;
use tokio::task::JoinSet;

use crate::damaged_store::{Server, config_maps};
use crate::plane::SOON;

/// How often to kill; `make soak` sets more.
const ROUNDS: &str = "CAPT_SERVER_KILLS";
const WRITERS: usize = 4;
const NAMES: usize = 5;

/// What one writer knows of its objects: the content of each, `None` for one that is not there; and what it tried last
/// without an answer.
#[derive(Clone, Default)]
struct Known {
    answered: BTreeMap<String, Option<String>>,
    tried: Option<(String, Option<String>)>,
}

/// Writes until the server is gone.
async fn write(
    maps: Api<ConfigMap>,
    mut known: Known,
    round: usize,
    writer: usize,
    count: Arc<AtomicUsize>,
) -> Known {
    for step in 0.. {
        let name = format!("writer-{writer}-{}", (round + step * 7) % NAMES);
        let delete = step % 4 == 3 && known.answered.get(&name).is_some_and(Option::is_some);
        let content = (!delete).then(|| format!("{round}.{step}.{}", "x".repeat(step * 997 % 5000)));
        known.tried = Some((name.clone(), content.clone()));
        let done = match &content {
            Some(content) => {
                let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": content}});
                maps.patch(&name, &PatchParams::apply("kills").force(), &Patch::Apply(map)).await.map(drop)
            }
            None => maps.delete(&name, &DeleteParams::default()).await.map(drop),
        };
        if done.is_err() {
            return known;
        }
        known.tried = None;
        known.answered.insert(name, content);
        count.fetch_add(1, Ordering::Relaxed);
    }
    known
}

fn content(map: &ConfigMap) -> String {
    map.data.as_ref().and_then(|data| data.get("a")).cloned().unwrap_or_default()
}

/// Compares what is served with what was answered, and takes over what became of the unanswered.
fn compare(known: &mut [Known], served: &BTreeMap<String, String>) {
    for known in known {
        let tried = known.tried.take();
        for (name, answered) in &mut known.answered {
            let found = served.get(name);
            if found != answered.as_ref() {
                let unanswered =
                    tried.as_ref().filter(|(tried, _)| tried == name).map(|(_, content)| content);
                assert_eq!(Some(&found.cloned()), unanswered, "{name} is not what was answered");
                *answered = found.cloned();
            }
        }
        if let Some((name, _)) = tried.filter(|(name, _)| !known.answered.contains_key(name)) {
            let found = served.get(&name).cloned();
            known.answered.insert(name, found);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_answered_write_of_a_server_is_lost() {
    let rounds: usize = std::env::var(ROUNDS).map_or(3, |rounds| rounds.parse().unwrap());
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("data");
    let (mut known, mut answers) = (vec![Known::default(); WRITERS], 0);
    for round in 0..=rounds {
        let server = Server::spawn(&folder).answers(&folder).unwrap();
        let maps = config_maps(&folder.join("kubeconfig")).await;
        let served = maps.list(&ListParams::default()).await.unwrap();
        let served = served.items.iter().filter(|map| map.meta().managed_fields.is_some());
        compare(&mut known, &served.map(|map| (map.name_any(), content(map))).collect());
        if round == rounds {
            break;
        }
        let count = Arc::new(AtomicUsize::new(0));
        let mut writers = JoinSet::new();
        for (writer, known) in known.drain(..).enumerate() {
            let (maps, count) = (maps.clone(), Arc::clone(&count));
            writers.spawn(async move { (writer, write(maps, known, round, writer, count).await) });
        }
        // At another place of its work in every round.
        let deadline = Instant::now() + SOON;
        while count.load(Ordering::Relaxed) < 1 + round * 37 % 101 {
            assert!(Instant::now() < deadline, "nothing is written");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        drop(server);
        let mut ended = writers.join_all().await;
        ended.sort_by_key(|(writer, _)| *writer);
        known.extend(ended.into_iter().map(|(_, known)| known));
        answers += count.load(Ordering::Relaxed);
    }
    println!("{rounds} kills of capt server, {answers} answered writes, all found");
}
