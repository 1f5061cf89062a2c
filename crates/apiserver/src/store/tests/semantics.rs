//! Reads, writes and watches, case by case.

use super::*;

async fn sample() -> Store {
    let store = memory();
    for (namespace, name) in [("", "root"), ("a", "one"), ("a", "two"), ("b", "one")] {
        store.create(key("things", namespace, name), value(name)).await.unwrap();
    }
    store.create(key("others", "a", "x"), value("x")).await.unwrap();
    store
}

fn names(page: &Page) -> Vec<String> {
    page.objects.iter().map(|object| format!("{}/{}", object.key().namespace, object.key().name)).collect()
}

#[tokio::test]
async fn a_new_store_is_empty_and_at_the_start() {
    let store = memory();
    assert_eq!(store.revision(), Revision::START);
    let page = store.list(&ListQuery { resource: "things", ..ListQuery::default() }).unwrap();
    assert_eq!((page.objects.len(), page.revision, page.next, page.remaining), (0, Revision::START, None, 0));
    assert_eq!(store.get(&key("things", "a", "one")), None);
}

#[tokio::test]
async fn objects_carry_their_revisions() {
    let store = memory();
    let one = key("things", "a", "one");
    let created = store.create(one.clone(), value("x")).await.unwrap();
    assert_eq!((created.revision().get(), text(&created)), (2, &*rendered("x", 2)));
    let updated = store.update(one.clone(), value("y"), Some(created.revision())).await.unwrap();
    assert_eq!(
        (updated.revision().get(), updated.created().get(), text(&updated)),
        (3, 2, &*rendered("y", 3))
    );
    assert_eq!(store.get(&one), Some(updated.clone()));
    let deleted = store.delete(one.clone(), Some(updated.revision())).await.unwrap();
    assert_eq!((deleted.revision().get(), text(&deleted)), (4, &*rendered("y", 4)));
    assert_eq!(store.get(&one), None);
    let again = store.create(one, Value::plain(&b"as it is"[..])).await.unwrap();
    assert_eq!((again.created().get(), text(&again)), (5, "as it is"));
}

#[tokio::test]
async fn preconditions() {
    let store = sample().await;
    let (there, gone) = (key("things", "a", "one"), key("things", "a", "none"));
    let (right, wrong) = (Some(Revision::new(3)), Some(Revision::new(2)));
    let update = |key: &Key, expected| Op::Update { key: key.clone(), value: value("new"), expected };
    let delete = |key: &Key, expected| Op::Delete { key: key.clone(), expected };
    let require = |key: &Key, expected| Op::Require { key: key.clone(), expected };
    let table = [
        (Op::Create { key: there.clone(), value: value("new") }, "things a/one already exists"),
        (update(&gone, None), "things a/none does not exist"),
        (update(&gone, right), "things a/none does not exist"),
        (update(&there, wrong), "things a/one is at revision 3, not 2"),
        (delete(&gone, None), "things a/none does not exist"),
        (delete(&there, wrong), "things a/one is at revision 3, not 2"),
        (require(&gone, None), "things a/none does not exist"),
        (require(&there, wrong), "things a/one is at revision 3, not 2"),
        (require(&there, right), "ok"),
        (require(&there, None), "ok"),
        (update(&there, right), "ok"),
        (delete(&there, None), "ok"),
    ];
    for (op, expected) in table {
        let shown = format!("{op:?}");
        let (before, changes) = (store.revision(), matches!(op, Op::Update { .. } | Op::Delete { .. }));
        let result = store.write(vec![op]).await;
        let outcome = result.as_ref().map_or_else(ToString::to_string, |_| "ok".to_owned());
        assert_eq!(outcome, expected, "{shown}");
        let taken = store.revision().get() - before.get();
        assert_eq!(taken, u64::from(changes && result.is_ok()), "revisions taken by {shown}");
    }
}

#[tokio::test]
async fn several_steps_are_one_write() {
    let store = sample().await;
    let before = store.snapshot();
    let new = key("things", "c", "new");
    let steps = |last| {
        vec![
            Op::Create { key: new.clone(), value: value("1") },
            Op::Update { key: new.clone(), value: value("2"), expected: None },
            Op::Require { key: key("others", "a", "x"), expected: None },
            Op::Delete { key: last, expected: None },
        ]
    };
    store.write(steps(key("things", "a", "missing"))).await.unwrap_err();
    assert_eq!((store.revision(), store.get(&new)), (before.revision(), None));
    let objects = store.write(steps(key("things", "a", "one"))).await.unwrap();
    let revisions: Vec<_> = objects.iter().map(|object| object.revision().get()).collect();
    assert_eq!(revisions, [7, 8, 6, 9], "each change has its own revision, a requirement takes none");
    assert_eq!(before.get(&new), None, "a snapshot does not change");
    assert!(store.write(Vec::new()).await.unwrap().is_empty());
}

#[tokio::test]
async fn of_many_who_expect_the_same_revision_one_wins() {
    let store = memory();
    let one = key("things", "", "one");
    let start = store.create(one.clone(), value("0")).await.unwrap().revision();
    let attempts: Vec<_> = (0..50)
        .map(|n| {
            let (store, one) = (store.clone(), one.clone());
            tokio::spawn(async move { store.update(one, value(&n.to_string()), Some(start)).await })
        })
        .collect();
    let (mut won, mut lost) = (Vec::new(), 0);
    for attempt in attempts {
        match attempt.await.unwrap() {
            Ok(object) => won.push(object),
            Err(WriteError::Conflict { .. }) => lost += 1,
            Err(other) => panic!("{other}"),
        }
    }
    assert_eq!((won.len(), lost), (1, 49));
    assert_eq!(store.get(&one), won.pop());
}

#[tokio::test]
async fn lists() {
    let store = sample().await;
    let all = ListQuery { resource: "things", ..ListQuery::default() };
    let table = [
        (all, vec!["/root", "a/one", "a/two", "b/one"], 0),
        (ListQuery { namespace: Some("a"), ..all }, vec!["a/one", "a/two"], 0),
        (ListQuery { namespace: Some(""), ..all }, vec!["/root"], 0),
        (ListQuery { namespace: Some("c"), ..all }, vec![], 0),
        (ListQuery { resource: "nothing", ..all }, vec![], 0),
        (ListQuery { limit: 3, ..all }, vec!["/root", "a/one", "a/two"], 1),
        (ListQuery { limit: 4, ..all }, vec!["/root", "a/one", "a/two", "b/one"], 0),
        (ListQuery { limit: 1, namespace: Some("a"), ..all }, vec!["a/one"], 1),
        (ListQuery { at: At::Exactly(Revision::new(3)), ..all }, vec!["/root", "a/one"], 0),
        (ListQuery { at: At::Exactly(Revision::new(3)), limit: 1, ..all }, vec!["/root"], 1),
        (ListQuery { at: At::Exactly(Revision::START), ..all }, vec![], 0),
        (
            ListQuery { at: At::NotOlderThan(Revision::new(3)), ..all },
            vec!["/root", "a/one", "a/two", "b/one"],
            0,
        ),
    ];
    for (query, expected, remaining) in table {
        let page = store.list(&query).unwrap();
        assert_eq!(
            (names(&page), page.remaining),
            (expected.iter().map(ToString::to_string).collect(), remaining)
        );
        assert_eq!(page.next.is_some(), remaining > 0, "{query:?}");
    }
    let current = store.revision();
    let future = Revision::new(current.get() + 1);
    for at in [At::Exactly(future), At::NotOlderThan(future)] {
        assert_eq!(store.list(&ListQuery { at, ..all }), Err(ReadError::Future { asked: future, current }));
    }
    store.compact(Revision::new(4)).await.unwrap();
    let gone = ListQuery { at: At::Exactly(Revision::new(3)), ..all };
    let expected = ReadError::Gone { asked: Revision::new(3), compacted: Revision::new(4) };
    assert_eq!(store.list(&gone), Err(expected));
}

#[tokio::test]
async fn a_limit_counts_what_matches() {
    let store = sample().await;
    let query = ListQuery { resource: "things", limit: 1, ..ListQuery::default() };
    let is_one = |object: &Object| *object.key().name == *"one";
    let first = store.snapshot().list_matching(&query, is_one).unwrap();
    assert_eq!(names(&first), ["a/one"]);
    let second =
        store.snapshot().list_matching(&ListQuery { from: first.next.as_ref(), ..query }, is_one).unwrap();
    assert_eq!((names(&second), second.next), (vec!["b/one".to_owned()], None));
}

#[tokio::test]
async fn counts_and_stats() {
    let store = sample().await;
    let snapshot = store.snapshot();
    assert_eq!((snapshot.count("things", None), snapshot.count("things", Some("a"))), (4, 2));
    assert_eq!(snapshot.count("nothing", None), 0);
    let watchers: Vec<_> =
        (0..3).map(|_| store.watch(Filter::default(), store.revision()).unwrap()).collect();
    store.watch(Filter::default(), Revision::new(0)).unwrap_err();
    let stats = store.stats();
    assert_eq!(stats.objects, [("others".into(), 1), ("things".into(), 4)]);
    assert_eq!((stats.revision.get(), stats.history_events, stats.watchers), (6, 5, 3));
    assert_eq!((stats.commit_seconds.count(), stats.group_writes.sum()), (5, 5.0));
    assert_eq!((stats.disk_bytes, stats.failed_commits, stats.read_only), (0, 0, None));
    drop(watchers);
    assert_eq!(store.stats().watchers, 0);
}

#[tokio::test]
async fn watches_are_filtered() {
    let store = sample().await;
    store.update(key("things", "a", "one"), value("new"), None).await.unwrap();
    store.delete(key("things", "b", "one"), None).await.unwrap();
    let table = [
        (Some("things"), None, 1, vec!["+2 root", "+3 one", "+4 two", "+5 one", "~7 one", "-8 one"]),
        (Some("things"), None, 4, vec!["+5 one", "~7 one", "-8 one"]),
        (Some("things"), Some("a"), 1, vec!["+3 one", "+4 two", "~7 one"]),
        (None, Some("a"), 3, vec!["+4 two", "+6 x", "~7 one"]),
        (None, None, 6, vec!["~7 one", "-8 one"]),
        (Some("things"), None, 8, vec![]),
    ];
    for (resource, namespace, from, expected) in table {
        let filter = Filter { resource: resource.map(Into::into), namespace: namespace.map(Into::into) };
        let mut watcher = store.watch(filter.clone(), Revision::new(from)).unwrap();
        let events: Vec<_> = drain(&mut watcher).unwrap().iter().map(short).collect();
        assert_eq!(events, expected, "{filter:?} from {from}");
        assert_eq!(watcher.progress(), Ok(store.revision()));
    }
}

#[tokio::test]
async fn a_waiting_watcher_is_woken_and_told_of_the_end() {
    let store = memory();
    let filter = Filter { resource: Some("things".into()), namespace: None };
    let mut watcher = store.watch(filter, store.revision()).unwrap();
    let waiting = tokio::spawn(async move {
        let first = watcher.next().await.map(|event| short(&event));
        let second = watcher.next().await.map(|event| short(&event));
        (first, second, watcher.next().await)
    });
    tokio::task::yield_now().await;
    store.create(key("others", "", "x"), value("x")).await.unwrap();
    store.create(key("things", "", "a"), value("a")).await.unwrap();
    tokio::task::yield_now().await;
    store.create(key("things", "", "b"), value("b")).await.unwrap();
    drop(store);
    let expected = (Ok("+3 a".to_owned()), Ok("+4 b".to_owned()), Err(WatchError::Closed));
    let ended = tokio::time::timeout(DEADLINE, waiting).await.expect("the watcher ends");
    assert_eq!(ended.unwrap(), expected);
}

#[tokio::test]
async fn progress_never_passes_an_event_not_taken() {
    let store = memory();
    let filter = Filter { resource: Some("things".into()), namespace: None };
    let mut watcher = store.watch(filter, store.revision()).unwrap();
    store.create(key("others", "", "x"), value("x")).await.unwrap();
    assert_eq!(watcher.progress(), Ok(Revision::new(2)), "what does not match is passed");
    store.create(key("things", "", "a"), value("a")).await.unwrap();
    store.create(key("others", "", "y"), value("y")).await.unwrap();
    assert_eq!(watcher.progress(), Ok(Revision::new(2)), "an event waits");
    assert_eq!(watcher.next().await.map(|event| short(&event)), Ok("+3 a".to_owned()));
    assert_eq!(watcher.progress(), Ok(Revision::new(4)));
}

#[tokio::test]
async fn a_watch_from_a_revision_yet_to_come_passes_over_what_is_before_it() {
    let store = memory();
    let mut watcher = store.watch(Filter::default(), Revision::new(3)).unwrap();
    for name in ["a", "b", "c"] {
        store.create(key("things", "", name), value(name)).await.unwrap();
    }
    assert_eq!(watcher.next().await.map(|event| short(&event)), Ok("+4 c".to_owned()));
    assert_eq!(watcher.try_next(), Ok(None));
}
