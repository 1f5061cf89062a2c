//! History: its limits, and what becomes of readers and watchers that need what it dropped.

use proptest::prelude::*;

use super::*;

fn limited(limits: HistoryLimits) -> (Store, Arc<Hand>) {
    let clock = Arc::new(Hand::default());
    let options = Options { history: limits, clock: clock.clone(), ..Options::default() };
    (Store::in_memory(&options).unwrap(), clock)
}

const UNLIMITED: HistoryLimits = HistoryLimits { age: Duration::MAX, events: usize::MAX, bytes: usize::MAX };

#[tokio::test]
async fn limits_of_history() {
    let store_after = async |limits, writes: u32, millis| {
        let (store, clock) = limited(limits);
        for n in 0..writes {
            store.create(key("things", "", &n.to_string()), value("x")).await.unwrap();
            clock.advance(millis);
        }
        // Answered after whatever the last write led to.
        store.compact(Revision::START).await.unwrap();
        store
    };
    let second = Duration::from_secs(1);
    let table = [
        ("unlimited", UNLIMITED, 300, 300),
        ("by count", HistoryLimits { events: 100, ..UNLIMITED }, 355, 355),
        ("by count", HistoryLimits { events: 100, ..UNLIMITED }, 356, 100),
        ("by count", HistoryLimits { events: 100, ..UNLIMITED }, 361, 105),
        ("by age", HistoryLimits { age: 16 * second, ..UNLIMITED }, 272, 272),
        ("by age", HistoryLimits { age: 16 * second, ..UNLIMITED }, 273, 17),
        ("by bytes", HistoryLimits { bytes: 160 * 256, ..UNLIMITED }, 170, 170),
        ("by bytes", HistoryLimits { bytes: 160 * 256, ..UNLIMITED }, 171, 160),
        ("nothing kept", HistoryLimits { events: 0, ..UNLIMITED }, 256, 0),
    ];
    for (what, limits, writes, kept) in table {
        let store = store_after(limits, writes, 1000).await;
        let stats = store.stats();
        assert_eq!(stats.history_events, kept, "{what}, {writes} writes");
        assert_eq!(stats.compacted.get(), u64::from(writes) + 1 - kept as u64, "{what}");
        assert_eq!(stats.objects[0].1, writes as usize, "objects stay");
    }
}

#[tokio::test]
async fn what_was_dropped_is_gone() {
    let store = memory();
    for name in ["a", "b", "c", "d"] {
        store.create(key("things", "", name), value(name)).await.unwrap();
    }
    let mut slow = store.watch(Filter::default(), Revision::new(2)).unwrap();
    let mut level = store.watch(Filter::default(), Revision::new(3)).unwrap();
    let elsewhere = Filter { resource: Some("others".into()), namespace: None };
    let mut elsewhere = store.watch(elsewhere, Revision::START).unwrap();
    let page = store.list(&ListQuery { resource: "things", limit: 1, ..ListQuery::default() }).unwrap();
    store.delete(key("things", "", "c"), None).await.unwrap();
    assert_eq!(store.compact(Revision::new(3)).await.unwrap(), Revision::new(3));
    assert_eq!(store.compact(Revision::new(2)).await.unwrap(), Revision::new(3), "never backwards");

    let gone = |asked| ReadError::Gone { asked: Revision::new(asked), compacted: Revision::new(3) };
    assert_eq!(store.watch(Filter::default(), Revision::new(2)).unwrap_err(), WatchError::Start(gone(2)));
    let too_slow = WatchError::TooSlow { at: Revision::new(2), compacted: Revision::new(3) };
    assert_eq!(slow.next().await.unwrap_err(), too_slow);
    assert_eq!(slow.progress().unwrap_err(), too_slow);
    assert_eq!(drain(&mut level).unwrap().iter().map(short).collect::<Vec<_>>(), ["+4 c", "+5 d", "-6 c"]);
    assert_eq!(elsewhere.progress(), Ok(Revision::new(6)), "it missed nothing of its own");

    let query = ListQuery { resource: "things", from: page.next.as_ref(), ..ListQuery::default() };
    assert_eq!(store.list(&query).unwrap().objects.len(), 3, "still as at the first page");
    assert_eq!(
        store.compact(Revision::new(99)).await.unwrap(),
        Revision::new(6),
        "no further than the present"
    );
    assert!(matches!(store.list(&query), Err(ReadError::Gone { .. })));
}

/// One step of a random life of a store.
#[derive(Clone, Debug)]
enum Step {
    Put { resource: usize, namespace: usize, name: usize, content: usize },
    Delete { resource: usize, namespace: usize, name: usize },
    Compact { back: u64 },
    Reopen,
}

const RESOURCES: [&str; 2] = ["things", "others"];
const NAMESPACES: [&str; 3] = ["", "a", "b"];

fn steps(count: usize) -> impl Strategy<Value = Vec<Step>> {
    let place = || (0..RESOURCES.len(), 0..NAMESPACES.len(), 0..12usize);
    let step = prop_oneof![
        20 => (place(), 0..300usize).prop_map(|((resource, namespace, name), content)| {
            Step::Put { resource, namespace, name, content }
        }),
        8 => place().prop_map(|(resource, namespace, name)| Step::Delete { resource, namespace, name }),
        2 => (0..20u64).prop_map(|back| Step::Compact { back }),
        2 => Just(Step::Reopen),
    ];
    prop::collection::vec(step, 1..count)
}

/// A store beside a plain record of what it must be: all objects at every revision, and every event.
struct Pair {
    store: Option<Store>,
    folder: Option<tempfile::TempDir>,
    states: BTreeMap<Revision, Objects>,
    events: Vec<Event>,
    compacted: Revision,
}

impl Pair {
    fn new(folder: Option<tempfile::TempDir>) -> Self {
        let states = BTreeMap::from([(Revision::START, Objects::new())]);
        let mut pair = Self { store: None, folder, states, events: Vec::new(), compacted: Revision::START };
        pair.reopen();
        pair
    }

    fn store(&self) -> &Store {
        self.store.as_ref().unwrap()
    }

    fn reopen(&mut self) {
        match &self.folder {
            Some(folder) => {
                self.store = None;
                self.store = Some(open(folder.path()));
            }
            None if self.store.is_none() => self.store = Some(memory()),
            None => {}
        }
    }

    async fn step(&mut self, step: Step) {
        let mut objects = self.states.last_key_value().unwrap().1.clone();
        let event = match step {
            Step::Put { resource, namespace, name, content } => {
                let key = key(RESOURCES[resource], NAMESPACES[namespace], &name.to_string());
                let value = value(&"x".repeat(content));
                match objects.get(&key).cloned() {
                    None => Event::Added { object: self.store().create(key, value).await.unwrap() },
                    Some(previous) => {
                        let expected = Some(previous.revision());
                        Event::Modified {
                            object: self.store().update(key, value, expected).await.unwrap(),
                            previous,
                        }
                    }
                }
            }
            Step::Delete { resource, namespace, name } => {
                let key = key(RESOURCES[resource], NAMESPACES[namespace], &name.to_string());
                match objects.get(&key).cloned() {
                    None => return drop(self.store().delete(key, None).await.unwrap_err()),
                    Some(previous) => {
                        Event::Deleted { object: self.store().delete(key, None).await.unwrap(), previous }
                    }
                }
            }
            Step::Compact { back } => {
                let wanted = self.store().revision().get().saturating_sub(back);
                self.compacted = self.compacted.max(Revision::new(wanted));
                assert_eq!(self.store().compact(Revision::new(wanted)).await.unwrap(), self.compacted);
                return;
            }
            Step::Reopen => return self.reopen(),
        };
        follow(&mut objects, &event);
        assert!(event.revision() > *self.states.last_key_value().unwrap().0, "revisions count up");
        self.states.insert(event.revision(), objects);
        self.events.push(event);
    }

    fn expected(&self, at: Revision, query: &ListQuery<'_>) -> Vec<Arc<Object>> {
        let fits = |key: &Key| {
            *key.resource == *query.resource
                && query.namespace.is_none_or(|namespace| *key.namespace == *namespace)
        };
        self.states[&at].iter().filter(|(key, _)| fits(key)).map(|(_, object)| object.clone()).collect()
    }

    /// Every revision that history reaches can be listed and watched from; every other is gone.
    fn check_every_revision(&self) {
        let store = self.store();
        for at in self.states.keys().copied() {
            let filter = Filter { resource: Some(RESOURCES[0].into()), namespace: None };
            let query = ListQuery { resource: RESOURCES[0], at: At::Exactly(at), ..ListQuery::default() };
            if at < self.compacted {
                assert!(matches!(store.watch(filter, at), Err(WatchError::Start(ReadError::Gone { .. }))));
                assert!(matches!(store.list(&query), Err(ReadError::Gone { .. })));
                continue;
            }
            let all = drain(&mut store.watch(Filter::default(), at).unwrap()).unwrap();
            let missed: Vec<_> = self.events.iter().filter(|event| event.revision() > at).cloned().collect();
            assert_eq!(all, missed, "events after {at}");
            let page = store.list(&query).unwrap();
            assert_eq!(page.objects, self.expected(at, &query), "list at {at}");
            let mut objects = listed(&page);
            for event in drain(&mut store.watch(filter, at).unwrap()).unwrap() {
                follow(&mut objects, &event);
            }
            let latest = store.list(&ListQuery { at: At::Latest, ..query }).unwrap();
            assert_eq!(objects, listed(&latest), "list at {at}, then watch");
        }
    }
}

fn life(folder: Option<tempfile::TempDir>, steps: Vec<Step>, limit: usize) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let mut pair = Pair::new(folder);
        let half = steps.len() / 2;
        let mut steps = steps.into_iter();
        for step in steps.by_ref().take(half) {
            pair.step(step).await;
        }
        // Pages of a list, with the rest of the life going on between them.
        let query = ListQuery { resource: RESOURCES[0], limit, ..ListQuery::default() };
        let mut page = pair.store().list(&query).unwrap();
        let (at, mut paged) = (page.revision, page.objects.clone());
        let mut whole = true;
        while let Some(next) = page.next.take() {
            for step in steps.by_ref().take(3) {
                pair.step(step).await;
            }
            match pair.store().list(&ListQuery { from: Some(&next), ..query }) {
                Ok(following) => page = following,
                Err(ReadError::Gone { .. }) if at < pair.compacted => whole = false,
                Err(other) => panic!("{other}"),
            }
            assert_eq!(page.revision, at);
            if whole {
                paged.extend(page.objects.iter().cloned());
            }
        }
        if whole {
            assert_eq!(paged, pair.expected(at, &query), "pages at {at}");
        }
        for step in steps {
            pair.step(step).await;
        }
        pair.check_every_revision();
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_revision_can_be_read_and_resumed(steps in steps(150), limit in 1usize..8) {
        life(None, steps, limit);
    }
}

proptest! {
    // Each write waits for the disk.
    #![proptest_config(ProptestConfig::with_cases(8))]

    #[test]
    fn also_across_restarts(steps in steps(80), limit in 1usize..8) {
        life(Some(private()), steps, limit);
    }
}
