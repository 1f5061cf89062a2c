//! Writers and watchers at once: no event is lost, repeated or out of order, also over reconnects.

use proptest::prelude::*;
use tokio::task::JoinHandle;

use super::*;

const RESOURCES: [&str; 2] = ["things", "others"];
const NAMESPACES: [&str; 2] = ["a", "b"];
/// The last object of every place, by which a watcher knows that there will be no more.
const END: &str = "zzz-end";

/// What a writer tries: whether to delete, and where. Many collide, so that many are refused.
type Attempt = (bool, usize, usize, usize);

#[derive(Clone, Debug)]
struct Plan {
    resource: Option<usize>,
    namespace: Option<usize>,
    /// Attempts of the first writer before this watcher starts; then how many events it takes before each reconnect.
    delay: usize,
    takes: Vec<usize>,
}

impl Plan {
    fn filter(&self) -> Filter {
        Filter {
            resource: self.resource.map(|index| RESOURCES[index].into()),
            namespace: self.namespace.map(|index| NAMESPACES[index].into()),
        }
    }

    fn matches(&self, key: &Key) -> bool {
        self.resource.is_none_or(|index| *key.resource == *RESOURCES[index])
            && self.namespace.is_none_or(|index| *key.namespace == *NAMESPACES[index])
    }

    fn ends(&self) -> usize {
        let count = |chosen: Option<usize>, all: usize| chosen.map_or(all, |_| 1);
        count(self.resource, RESOURCES.len()) * count(self.namespace, NAMESPACES.len())
    }
}

fn plan() -> impl Strategy<Value = Plan> {
    let some = |count| prop::option::of(0..count);
    (some(RESOURCES.len()), some(NAMESPACES.len()), 0..30usize, prop::collection::vec(1..20usize, 0..6))
        .prop_map(|(resource, namespace, delay, takes)| Plan { resource, namespace, delay, takes })
}

/// Makes the attempts and returns the events that its successes must have led to, without what was before.
fn writer(store: &Store, attempts: Vec<Attempt>) -> JoinHandle<Vec<(Revision, Arc<Object>)>> {
    let store = store.clone();
    tokio::spawn(async move {
        let mut done = Vec::new();
        for (delete, resource, namespace, name) in attempts {
            let key = key(RESOURCES[resource], NAMESPACES[namespace], &name.to_string());
            let result = match store.get(&key) {
                _ if delete => store.delete(key, None).await,
                Some(object) => store.update(key, value("new"), Some(object.revision())).await,
                None => store.create(key, value("first")).await,
            };
            match result {
                Ok(object) => done.push((object.revision(), object)),
                Err(
                    WriteError::Conflict { .. }
                    | WriteError::AlreadyExists { .. }
                    | WriteError::NotFound { .. },
                ) => {}
                Err(other) => panic!("{other}"),
            }
        }
        done
    })
}

/// Watches from the present until the end, reconnecting as planned, from the last event or from a bookmark.
fn watcher(store: &Store, plan: Plan) -> JoinHandle<(Revision, Vec<Event>)> {
    let store = store.clone();
    // Before the task begins: it may begin after the end.
    let start = store.revision();
    tokio::spawn(async move {
        let (mut from, mut events, mut ends) = (start, Vec::new(), 0);
        let mut takes = plan.takes.clone().into_iter();
        loop {
            let mut watcher = store.watch(plan.filter(), from).unwrap();
            let take = takes.next().unwrap_or(usize::MAX);
            for _ in 0..take {
                let event = watcher.next().await.unwrap();
                from = event.revision();
                ends += usize::from(*event.key().name == *END);
                events.push(event);
                if ends == plan.ends() {
                    return (start, events);
                }
            }
            if take.is_multiple_of(2) {
                from = watcher.progress().unwrap();
            }
        }
    })
}

async fn run(store: Store, attempts: Vec<Vec<Attempt>>, plans: Vec<Plan>) {
    let mut attempts = attempts.into_iter();
    let first = attempts.next().unwrap();
    let mut writers: Vec<_> = attempts.map(|attempts| writer(&store, attempts)).collect();
    let mut truth = BTreeMap::new();
    let mut watchers = Vec::new();
    // The first writer runs here, in pieces, so that watchers start in the midst of writes.
    let mut plans = plans;
    plans.sort_by_key(|plan| plan.delay);
    let (mut rest, mut done) = (first, 0);
    for plan in plans {
        let count = (plan.delay - done).min(rest.len());
        done = plan.delay;
        truth.extend(writer(&store, rest.drain(..count).collect()).await.unwrap());
        watchers.push((plan.clone(), watcher(&store, plan)));
    }
    writers.push(writer(&store, rest));
    for writer in writers {
        truth.extend(writer.await.unwrap());
    }
    for resource in RESOURCES {
        for namespace in NAMESPACES {
            let object = store.create(key(resource, namespace, END), value("end")).await.unwrap();
            truth.insert(object.revision(), object);
        }
    }
    let numbers: Vec<_> = truth.keys().map(|revision| revision.get()).collect();
    assert_eq!(
        numbers,
        (2..2 + truth.len() as u64).collect::<Vec<_>>(),
        "one sequence, no revision taken twice"
    );
    for (plan, watcher) in watchers {
        let (start, events) = watcher.await.unwrap();
        let expected =
            truth.values().filter(|object| object.revision() > start && plan.matches(object.key()));
        let seen: Vec<_> = events.iter().map(Event::object).collect();
        assert_eq!(seen, expected.collect::<Vec<_>>(), "{plan:?} from {start}");
    }
    let mut objects = Objects::new();
    for event in drain(&mut store.watch(Filter::default(), Revision::START).unwrap()).unwrap() {
        follow(&mut objects, &event);
    }
    for resource in RESOURCES {
        let page = store.list(&ListQuery { resource, ..ListQuery::default() }).unwrap();
        let expected: Vec<_> =
            objects.values().filter(|object| *object.key().resource == *resource).cloned().collect();
        assert_eq!(page.objects, expected);
    }
}

fn attempts(each: usize) -> impl Strategy<Value = Vec<Vec<Attempt>>> {
    let attempt = (prop::bool::weighted(0.3), 0..RESOURCES.len(), 0..NAMESPACES.len(), 0..4usize);
    prop::collection::vec(prop::collection::vec(attempt, 1..each), 2..6)
}

fn blocking(future: impl Future<Output = ()>) {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_time().build().unwrap();
    runtime
        .block_on(async { tokio::time::timeout(DEADLINE, future).await })
        .expect("every watcher comes to the end");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn in_memory(attempts in attempts(100), plans in prop::collection::vec(plan(), 1..6)) {
        blocking(run(memory(), attempts, plans));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    #[test]
    fn on_disk(attempts in attempts(40), plans in prop::collection::vec(plan(), 1..6)) {
        let folder = private();
        blocking(run(open(folder.path()), attempts, plans));
    }
}
