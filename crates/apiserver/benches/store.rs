//! Measures the store on disk, in a fresh folder or in the one that `CAPT_BENCH_FOLDER` names; where that is empty,
//! in memory.
#![allow(clippy::print_stdout, clippy::unwrap_used, clippy::cast_precision_loss)]

use std::{
    fs,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use capt_apiserver::store::{Event, Filter, Key, ListQuery, Op, Options, Store, Value};

const OBJECTS: usize = 10_000;
const CLIENTS: usize = 16;
const SIZE: usize = 1_400;
const OPENS: usize = 20;

fn key(n: usize) -> Key {
    Key::new("example.dev/machines", format!("ns-{}", n % 10), format!("machine-{n:06}"))
}

fn value(n: usize) -> Value {
    let before = format!(
        "{{\"apiVersion\":\"example.dev/v1\",\"kind\":\"Machine\",\"metadata\":{{\"name\":\"machine-{n:06}\",\"resourceVersion\":\""
    );
    let after = format!("\"}},\"spec\":\"{}\"}}", "x".repeat(SIZE - before.len() - 16));
    Value::with_gap(before, after)
}

fn rss() -> String {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap_or("VmRSS: ? kB");
    let kib: f64 = line.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).unwrap_or_default();
    format!("{:.1} MiB", kib / 1024.0)
}

fn percentiles(mut times: Vec<Duration>) -> String {
    times.sort();
    let at = |percent: usize| times[(times.len() - 1) * percent / 100];
    format!("p50 {:?} p99 {:?} max {:?}", at(50), at(99), at(100))
}

/// Runs `step` for every number below `count`, split over `clients` tasks, and prints rate and latency.
async fn load<F, Fut>(what: &str, count: usize, clients: usize, step: F)
where
    F: Fn(usize) -> Fut + Clone + Send + 'static,
    Fut: Future<Output = ()> + Send,
{
    let next = Arc::new(AtomicUsize::new(0));
    let started = Instant::now();
    let tasks: Vec<_> = (0..clients)
        .map(|_| {
            let (next, step) = (next.clone(), step.clone());
            tokio::spawn(async move {
                let mut times = Vec::new();
                loop {
                    let n = next.fetch_add(1, Ordering::Relaxed);
                    if n >= count {
                        return times;
                    }
                    let started = Instant::now();
                    step(n).await;
                    times.push(started.elapsed());
                }
            })
        })
        .collect();
    let mut times = Vec::new();
    for task in tasks {
        times.extend(task.await.unwrap());
    }
    let rate = count as f64 / started.elapsed().as_secs_f64();
    println!("{what:<34} {rate:>10.0}/s   {}", percentiles(times));
}

/// Spawns a watcher that measures the time from just before the write to delivery.
fn follow(
    store: &Store,
    sent: Arc<Vec<std::sync::Mutex<Option<Instant>>>>,
) -> tokio::task::JoinHandle<Vec<Duration>> {
    let filter = Filter { resource: Some("example.dev/machines".into()), namespace: None };
    let mut watcher = store.watch(filter, store.revision()).unwrap();
    let count = sent.len();
    tokio::spawn(async move {
        let mut times = Vec::new();
        while times.len() < count {
            if let Event::Modified { object, .. } = watcher.next().await.unwrap() {
                let n: usize = object.key().name["machine-".len()..].parse().unwrap();
                times.push(sent[n].lock().unwrap().unwrap().elapsed());
            }
        }
        times
    })
}

async fn reads(store: &Store) {
    let reader = store.clone();
    let keys: Arc<Vec<Key>> = Arc::new((0..OBJECTS).map(key).collect());
    load("get", 1_000_000, CLIENTS, move |n| {
        let object = reader.get(&keys[n % OBJECTS]).unwrap();
        async move { assert!(object.bytes().len() > 1000) }
    })
    .await;
    let query = ListQuery { resource: "example.dev/machines", ..ListQuery::default() };
    let mut times = Vec::new();
    for _ in 0..50 {
        let started = Instant::now();
        assert_eq!(store.list(&query).unwrap().objects.len(), OBJECTS);
        times.push(started.elapsed());
    }
    println!("list of {OBJECTS}: {}", percentiles(times));
    let first = store.list(&ListQuery { limit: 500, ..query }).unwrap();
    for n in 0..OBJECTS {
        store.update(key(n), value(n), None).await.unwrap();
    }
    let (mut next, mut times, mut count) = (first.next, Vec::new(), first.objects.len());
    while let Some(from) = next.take() {
        let started = Instant::now();
        let page = store.list(&ListQuery { limit: 500, from: Some(&from), ..query }).unwrap();
        times.push(started.elapsed());
        (next, count) = (page.next, count + page.objects.len());
    }
    println!("page of 500, {count} changes undone: {}", percentiles(times));
}

/// The shortest of several starts, as other work only makes one longer.
fn best_of(count: usize, open: &dyn Fn() -> Store) -> Duration {
    let once = || {
        let started = Instant::now();
        let store = open();
        let took = started.elapsed();
        drop(store);
        took
    };
    (0..count).map(|_| once()).min().unwrap_or_default()
}

async fn run(folder: Option<PathBuf>) {
    println!("{:<34} RSS {}", "before", rss());
    let open = || match &folder {
        Some(folder) => Store::open(folder, &Options::default()).unwrap(),
        None => Store::in_memory(&Options::default()).unwrap(),
    };
    let started = Instant::now();
    let store = open();
    println!("open, empty {:?}, RSS {}", started.elapsed(), rss());
    let writer = store.clone();
    let step = move |n| {
        let writer = writer.clone();
        async move { drop(writer.create(key(n), value(n)).await.unwrap()) }
    };
    load("create, 16 clients", OBJECTS, CLIENTS, step).await;
    println!("{:<34} RSS {}", "10,000 objects", rss());
    let writer = store.clone();
    let step = move |n| {
        let writer = writer.clone();
        async move { drop(writer.update(key(n), value(n), None).await.unwrap()) }
    };
    load("update, 1 client", 1_000, 1, step.clone()).await;
    load("update, 16 clients", OBJECTS, CLIENTS, step.clone()).await;
    load("update, 64 clients", OBJECTS, 64, step).await;
    let sent: Arc<Vec<_>> = Arc::new((0..5_000).map(|_| std::sync::Mutex::new(None)).collect());
    let followers: Vec<_> = (0..4).map(|_| follow(&store, sent.clone())).collect();
    let (writer, stamps) = (store.clone(), sent.clone());
    let step = move |n: usize| {
        let writer = writer.clone();
        *stamps[n].lock().unwrap() = Some(Instant::now());
        async move { drop(writer.update(key(n), value(n), None).await.unwrap()) }
    };
    load("update, 16 clients, 4 watchers", 5_000, CLIENTS, step).await;
    let mut times = Vec::new();
    for follower in followers {
        times.extend(follower.await.unwrap());
    }
    println!("write sent to event taken: {}", percentiles(times));
    reads(&store).await;
    let ops = (0..1_000).map(|n| Op::Update { key: key(n), value: value(n), expected: None }).collect();
    let started = Instant::now();
    store.write(ops).await.unwrap();
    println!("one write of 1,000 updates: {:?}", started.elapsed());
    let stats = store.stats();
    println!(
        "groups {} of {:.1} writes, commit {:.2} ms, disk {} KiB, history {} events {} KiB, RSS {}",
        stats.group_writes.count(),
        stats.group_writes.sum() / stats.group_writes.count() as f64,
        1000.0 * stats.commit_seconds.sum() / stats.commit_seconds.count() as f64,
        stats.disk_bytes / 1024,
        stats.history_events,
        stats.history_bytes / 1024,
        rss()
    );
    if folder.is_some() {
        let started = Instant::now();
        drop(store);
        println!("close: {:?}", started.elapsed());
        println!("open with 10,000 objects and full history: {:?}", best_of(OPENS, &open));
        let store = open();
        store.compact(store.revision()).await.unwrap();
        drop(store);
        let best = best_of(OPENS, &open);
        println!("open with 10,000 objects: {best:?}, disk {} KiB", open().stats().disk_bytes / 1024);
    }
}

fn main() {
    let fresh = tempfile::tempdir().unwrap();
    let folder = match std::env::var_os("CAPT_BENCH_FOLDER") {
        Some(folder) if folder.is_empty() => None,
        Some(folder) => Some(PathBuf::from(folder)),
        None => Some(fresh.path().to_owned()),
    };
    tokio::runtime::Builder::new_multi_thread().build().unwrap().block_on(run(folder));
}
