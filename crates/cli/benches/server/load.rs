//! The load: the same requests, in the same order, for every server. Each answer is checked, so that a wrong one
//! does not count as a fast one.

use std::{
    cell::{Cell, RefCell},
    fs::File,
    future::Future,
    io::{Read as _, Seek as _, Write as _},
    path::Path,
    rc::Rc,
    time::{Duration, Instant},
};

use flate2::read::GzDecoder;
use serde_json::{Value, json};
use tokio::{
    sync::Mutex,
    task::{JoinSet, spawn_local},
};

use crate::{
    client::{Client, request},
    subject::Subject,
};

pub const OBJECTS: usize = 10_000;
pub const CLIENTS: usize = 16;
/// The lists that are timed: all or the sixteenth of one label, as they are or with gzip as Go's clients ask for it.
const LISTS: [(&str, usize, bool); 4] =
    [("", OBJECTS, false), ("", OBJECTS, true), (LABEL, OBJECTS / 16, false), (LABEL, OBJECTS / 16, true)];
const LABEL: &str = "?labelSelector=shard%3Ds3";
/// How often each of them is asked for.
const REPEATS: usize = 7;
/// Writes that are followed by watches, and how many a second at the moderate pace.
const FOLLOWED: usize = 500;
const PACE: u64 = 100;

const COLLECTION: &str = "/apis/bench.example.dev/v1/namespaces/default/gadgets";
const MERGE: &str = "application/merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

/// Requests a second, and what one of them costs the server.
#[derive(Clone, Copy)]
pub struct Rate {
    pub per_second: f64,
    pub processor_us: f64,
}

/// Times from just before a write is sent to the arrival of its event.
#[derive(Clone, Copy)]
pub struct Delivery {
    pub p50: Duration,
    pub p99: Duration,
}

impl Delivery {
    fn of(mut times: Vec<Duration>) -> Self {
        times.sort();
        let at = |percent: usize| times[(times.len() - 1) * percent / 100];
        Self { p50: at(50), p99: at(99) }
    }
}

/// What one run found out; memory in MB.
#[derive(Clone, Copy)]
pub struct Figures {
    pub idle: f64,
    pub full: f64,
    pub creates: Rate,
    pub gets: Rate,
    /// In the order of [`LISTS`].
    pub lists: [Duration; 4],
    pub patches: Rate,
    pub applies: Rate,
    pub paced: Delivery,
    pub loaded: Delivery,
    pub busy: f64,
}

/// Everything, on a server without data. `seconds` is how long a rate is measured; `tell` hears what comes next.
pub async fn run(subject: &Subject, seconds: u64, tell: impl Fn(&str)) -> Figures {
    tell("creates");
    let clients = connect(subject, CLIENTS).await;
    let idle = subject.memory();
    define(subject).await;
    let creates = count(subject, &clients, Until::Count(OBJECTS), |n| {
        (request("POST", COLLECTION, "application/json", &object(n).to_string()), 201)
    });
    let creates = creates.await;
    let full = subject.memory();
    let time = Until::Time(Duration::from_secs(seconds));
    tell("gets");
    let gets = count(subject, &clients, time, |n| (request("GET", &path(n), "", ""), 200)).await;
    tell("lists");
    let mut lists = [Duration::ZERO; LISTS.len()];
    for (list, time) in LISTS.iter().zip(&mut lists) {
        *time = timed(&clients[0], *list).await;
    }
    tell("patches");
    let patches = count(subject, &clients, time, |n| (status_patch(n), 200)).await;
    tell("applies");
    let applies = count(subject, &clients, time, |n| (apply(n), 200)).await;
    tell("watches");
    let paced = deliveries(subject, &clients[..1], CLIENTS, Some(PACE)).await;
    tell("watches under load");
    let loaded = deliveries(subject, &clients, 1, None).await;
    Figures { idle, full, creates, gets, lists, patches, applies, paced, loaded, busy: subject.memory() }
}

/// A connection that one task after the other uses.
type Shared = Rc<Mutex<Client>>;

async fn connect(subject: &Subject, number: usize) -> Vec<Shared> {
    let mut clients = Vec::new();
    for _ in 0..number {
        clients.push(Rc::new(Mutex::new(subject.client().await)));
    }
    clients
}

/// Registers the kind and waits until it is served.
async fn define(subject: &Subject) {
    let text = json!({"type": "string"});
    let schema = json!({"type": "object", "properties": {
        "spec": {"type": "object", "required": ["size"], "properties": {
            "size": {"type": "integer", "minimum": 0, "maximum": 1_000_000_000},
            "color": {"type": "string", "enum": ["red", "green"], "default": "red"},
            "note": text,
            "tags": {"type": "object", "additionalProperties": text},
            "parts": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                "items": {"type": "object", "required": ["name"], "properties": {"name": text, "image": text}}},
        }},
        "status": {"type": "object", "properties": {"seen": {"type": "integer"}, "phase": text}},
    }});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "gadgets.bench.example.dev"},
        "spec": {
            "group": "bench.example.dev", "scope": "Namespaced",
            "names": {"kind": "Gadget", "plural": "gadgets", "singular": "gadget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": schema}}],
        },
    });
    let mut client = subject.client().await;
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let made = client.send(&request("POST", path, "application/json", &definition.to_string())).await;
    assert_eq!(made.expect("an answer"), 201, "{}", String::from_utf8_lossy(&client.body));
    // kube-apiserver serves a new kind a moment later, and before it has a watch cache answers some requests 429.
    let mut good = 0;
    while good < 20 {
        let status = client.send(&request("GET", COLLECTION, "", "")).await.expect("an answer");
        good = if status == 200 { good + 1 } else { 0 };
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn name(n: usize) -> String {
    format!("gadget-{:05}", n % OBJECTS)
}

fn path(n: usize) -> String {
    format!("{COLLECTION}/{}", name(n))
}

/// 1.4 KB as it is read back, a third of it managedFields.
fn object(n: usize) -> Value {
    let part =
        |at: usize| json!({"name": format!("part-{at}"), "image": format!("registry.example.dev/part:{at}")});
    json!({
        "apiVersion": "bench.example.dev/v1", "kind": "Gadget",
        "metadata": {"name": name(n), "labels": {"app": "bench", "shard": format!("s{}", n % 16)}},
        "spec": {
            "size": n,
            "note": "x".repeat(350),
            "tags": {"owner": "team-a", "stage": "test"},
            "parts": [part(0), part(1), part(2)],
        },
    })
}

fn status_patch(n: usize) -> Vec<u8> {
    let body = json!({"status": {"seen": n, "phase": "Running"}}).to_string();
    request("PATCH", &format!("{}/status", path(n)), MERGE, &body)
}

fn apply(n: usize) -> Vec<u8> {
    let mut object = object(n);
    // Always another size, so that every apply is a write.
    object["spec"]["size"] = (n + OBJECTS).into();
    request("PATCH", &format!("{}?fieldManager=applier&force=true", path(n)), APPLY, &object.to_string())
}

#[derive(Clone, Copy)]
enum Until {
    Count(usize),
    Time(Duration),
}

/// Sends numbered requests from all clients, each as fast as it is answered.
async fn count(
    subject: &Subject,
    clients: &[Shared],
    until: Until,
    make: impl Fn(usize) -> (Vec<u8>, u16) + Copy + 'static,
) -> Rate {
    let next = Rc::new(Cell::new(0));
    let (started, processor) = (Instant::now(), subject.processor());
    let work = |client: &Shared| {
        let (client, next) = (Rc::clone(client), Rc::clone(&next));
        async move {
            let mut client = client.lock().await;
            loop {
                let n = next.get();
                match until {
                    Until::Count(count) if n >= count => return,
                    Until::Time(time) if started.elapsed() >= time => return,
                    Until::Count(_) | Until::Time(_) => next.set(n + 1),
                }
                let (request, expected) = make(n);
                let status = client.send(&request).await.expect("an answer");
                check(&client.body, status, expected, n);
            }
        }
    };
    all(clients.iter().map(work)).await;
    let done = number(next.get());
    Rate {
        per_second: done / started.elapsed().as_secs_f64(),
        processor_us: (subject.processor() - processor) * 1e6 / done,
    }
}

/// Does all of this at once.
async fn all(work: impl Iterator<Item = impl Future<Output = ()> + 'static>) {
    let mut tasks = JoinSet::new();
    work.for_each(|one| drop(tasks.spawn_local(one)));
    while let Some(done) = tasks.join_next().await {
        done.expect("a client does its work");
    }
}

/// The answer is about the object that was asked for, and whole.
fn check(body: &[u8], status: u16, expected: u16, n: usize) {
    let said = || String::from_utf8_lossy(body).into_owned();
    assert_eq!(status, expected, "{}", said());
    assert!(body.len() > 1_100 && body.trim_ascii_end().ends_with(b"}"), "{}", said());
    let name = name(n);
    assert!(body.windows(name.len()).any(|window| window == name.as_bytes()), "{}", said());
}

/// The median time of one of the lists.
async fn timed(client: &Shared, (query, count, gzip): (&str, usize, bool)) -> Duration {
    let mut client = client.lock().await;
    let mut list = request("GET", &format!("{COLLECTION}{query}"), "", "");
    if gzip {
        let end = list.len() - 2;
        list.splice(end..end, *b"Accept-Encoding: gzip\r\n");
    }
    let mut times = Vec::new();
    for _ in 0..REPEATS {
        let started = Instant::now();
        let status = client.send(&list).await.expect("an answer");
        times.push(started.elapsed());
        assert_eq!(status, 200);
    }
    let mut body = std::mem::take(&mut client.body);
    if gzip {
        let mut plain = Vec::new();
        GzDecoder::new(&body[..]).read_to_end(&mut plain).expect("large answers are compressed");
        body = plain;
    }
    let list: Value = serde_json::from_slice(&body).expect("a list is JSON");
    let items = list["items"].as_array().expect("items");
    assert_eq!(items.len(), count);
    assert!(items.iter().all(|item| item["spec"]["parts"][2]["name"] == "part-2"));
    let size = body.len() / count;
    assert!((1_300..1_500).contains(&size), "objects have {size} bytes");
    times.sort();
    times[REPEATS / 2]
}

/// Follows writes by `watchers` connections. Each of them must see every write once and in order of its revision.
async fn deliveries(subject: &Subject, writers: &[Shared], watchers: usize, pace: Option<u64>) -> Delivery {
    let total = if pace.is_some() { FOLLOWED } else { FOLLOWED * 10 };
    // A number that no object has yet tells the event of a write; an equal one would be no change and have none.
    let mark = MARK * watchers;
    let sent: Rc<RefCell<Vec<Instant>>> = Rc::new(RefCell::new(vec![Instant::now(); total]));
    let revision = revision(&writers[0]).await;
    let mut followers = Vec::new();
    for _ in 0..watchers {
        let mut client = subject.client().await;
        let watch = format!("{COLLECTION}?watch=true&resourceVersion={revision}&timeoutSeconds=600");
        assert_eq!(client.open_stream(&request("GET", &watch, "", "")).await.expect("an answer"), 200);
        followers.push(spawn_local(follow(client, Rc::clone(&sent), mark)));
    }
    let (next, started) = (Rc::new(Cell::new(0)), tokio::time::Instant::now());
    let work = |client: &Shared| {
        let (client, sent, next) = (Rc::clone(client), Rc::clone(&sent), Rc::clone(&next));
        async move {
            let mut client = client.lock().await;
            loop {
                let n = next.replace(next.get() + 1);
                if n >= total {
                    return;
                }
                if let Some(pace) = pace {
                    let due = Duration::from_millis(1000 / pace) * u32::try_from(n).unwrap_or(u32::MAX);
                    tokio::time::sleep_until(started + due).await;
                }
                let body = json!({"status": {"seen": mark + n}}).to_string();
                let patch = request("PATCH", &format!("{}/status", path(n)), MERGE, &body);
                sent.borrow_mut()[n] = Instant::now();
                assert_eq!(client.send(&patch).await.expect("an answer"), 200);
            }
        }
    };
    all(writers.iter().map(work)).await;
    let mut times = Vec::new();
    for follower in followers {
        times.extend(follower.await.expect("a watcher sees all"));
    }
    Delivery::of(times)
}

/// Time that a disk takes for the same writes at the moderate pace, with no server at all: one commit's pages, over and over the same
/// file, each synced.
pub fn bare(folder: &Path) -> Delivery {
    let mut pages = File::create(folder.join("bare")).expect("a file");
    let commit = vec![b'x'; COMMIT];
    pages.write_all(&commit.repeat(FOLLOWED)).and_then(|()| pages.sync_all()).expect("room");
    pages.rewind().expect("a file");
    let (started, mut times) = (Instant::now(), Vec::new());
    for n in 0..FOLLOWED {
        let due = Duration::from_millis(1000 / PACE) * u32::try_from(n).unwrap_or(u32::MAX);
        std::thread::sleep(due.saturating_sub(started.elapsed()));
        let sent = Instant::now();
        pages.write_all(&commit).and_then(|()| pages.sync_data()).expect("a sync");
        times.push(sent.elapsed());
    }
    Delivery::of(times)
}

/// Bytes that one commit of the store adds to its log.
const COMMIT: usize = 3 * 8192;

const MARK: usize = 10_000_000;

async fn revision(client: &Shared) -> String {
    let mut client = client.lock().await;
    let list = request("GET", &format!("{COLLECTION}?limit=1"), "", "");
    assert_eq!(client.send(&list).await.expect("an answer"), 200);
    let list: Value = serde_json::from_slice(&client.body).expect("a list is JSON");
    list["metadata"]["resourceVersion"].as_str().expect("a list has a version").to_owned()
}

async fn follow(mut client: Client, sent: Rc<RefCell<Vec<Instant>>>, mark: usize) -> Vec<Duration> {
    let total = sent.borrow().len();
    let (mut seen, mut times, mut last) = (vec![false; total], Vec::new(), 0);
    while times.len() < total {
        let line = client.line().await.expect("an event");
        let arrived = Instant::now();
        let n = integer(&line, b"\"seen\":") - mark;
        let revision = integer(&line, b"\"resourceVersion\":\"");
        assert!(!std::mem::replace(&mut seen[n], true), "write {n} is seen twice");
        assert!(revision > last, "{revision} comes after {last}");
        last = revision;
        times.push(arrived - sent.borrow()[n]);
    }
    times
}

/// The number behind a key; parsing all of an event would cost more than sending it.
fn integer(line: &[u8], key: &[u8]) -> usize {
    let at = line.windows(key.len()).rposition(|window| window == key).expect("an event has the key");
    let digits = line[at + key.len()..].iter().take_while(|byte| byte.is_ascii_digit());
    digits.fold(0, |number, digit| number * 10 + usize::from(digit - b'0'))
}

#[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^52")]
fn number(count: usize) -> f64 {
    count as f64
}
