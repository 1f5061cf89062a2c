//! Answers that nobody reads.

use http::Request;
use http_body_util::{BodyExt as _, Full};
use serde_json::{Map, Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use crate::sized;
use crate::target::{Client, DEADLINE, Target};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
/// Bytes of one object.
const OBJECT: usize = 200 << 10;
/// What an unread answer may take: buffers of TLS and HTTP, a frame, and what a compressor needs.
pub const ANSWER: u64 = 1 << 20;
/// What else happens in a process meanwhile.
pub const ELSE: u64 = 32 << 20;

async fn fill(client: &mut Client, bytes: usize) {
    let text = "0123456789abcdef".repeat(OBJECT / 16);
    for n in 0..bytes / OBJECT {
        let object = json!({"metadata": {"name": format!("large-{n}")}, "data": {"text": text}});
        let (code, answer) = client.create(MAPS, &object).await;
        assert_eq!(code, 201, "{}", answer["message"]);
    }
}

/// Asks, reads the head of the answer, and no further.
async fn unread(target: &Target, query: &str, accept: &str) -> TlsStream<TcpStream> {
    begun(target, &format!("GET {MAPS}{query}"), accept, "", "HTTP/1.1 200").await
}

pub async fn begun(
    target: &Target,
    asked: &str,
    header: &str,
    body: &str,
    code: &str,
) -> TlsStream<TcpStream> {
    let mut stream = target.tls().await;
    let (token, length) = (target.token(), body.len());
    let head = format!("{asked} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\n{header}\r\n");
    let request = format!("{head}content-length: {length}\r\n\r\n{body}");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut begun = [0; 12];
    stream.read_exact(&mut begun).await.unwrap();
    assert!(begun.starts_with(code.as_bytes()), "{}", String::from_utf8_lossy(&begun));
    stream
}

#[tokio::test]
async fn lists_that_nobody_reads_take_no_memory() {
    let target = Target::start();
    let mut client = target.client().await;
    let bytes = sized(12 << 20, 36 << 20);
    fill(&mut client, bytes).await;
    // Forms that cost processor time are asked for less often: memory is what counts here.
    let (many, some) = (sized(60, 250), sized(20, 60));
    let before = target.most_memory();
    let most = ELSE + ANSWER * many as u64;
    for (count, query, accept) in [
        (many, "", "accept: application/json"),
        (some, "", "accept: application/json\r\naccept-encoding: gzip"),
        (some, "?pretty=true", "accept: application/json"),
        (some, "?includeObject=Object", "accept: application/json;as=Table;v=v1;g=meta.k8s.io"),
        (some, "?watch=true", "accept: application/json"),
    ] {
        let mut answers = Vec::new();
        for _ in 0..count {
            answers.push(unread(&target, query, accept).await);
        }
        assert_eq!(client.get("/api/v1/namespaces/default").await.0, 200);
        let grown = target.most_memory().saturating_sub(before);
        assert!(grown < most, "{grown} bytes for {count} unread answers of {bytes} bytes: {query} {accept}");
    }
}

#[tokio::test]
async fn lists_are_whole_for_those_who_read() {
    let target = Target::start();
    let mut client = target.client().await;
    fill(&mut client, 4 << 20).await;
    let (code, list) = client.get(MAPS).await;
    assert_eq!((code, &list["kind"]), (200, &json!("ConfigMapList")));
    let names = |list: &Value| -> Vec<String> {
        let items = list["items"].as_array().unwrap().iter();
        items.map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&list).len(), (4 << 20) / OBJECT);
    let (_, pretty) = client.get(&format!("{MAPS}?pretty=true")).await;
    assert_eq!(names(&pretty), names(&list));
}

/// What looking at one mistake takes for a moment: the other thread of the server has not had to before.
const LOOK: u64 = 2 << 10;

/// A hundred mistakes are told, of however many: an answer is in memory until it is read.
#[tokio::test]
async fn mistakes_that_nobody_reads_take_no_memory() {
    let target = Target::start();
    let mut client = target.client().await;
    let (keys, count) = (sized(20_000, 180_000), sized(60, 20));
    let data: Map<String, Value> = (0..keys).map(|n| (format!("!!{n}"), "".into())).collect();
    let object = json!({"metadata": {"name": "wrong"}, "data": data});
    let (code, answer) = client.create(MAPS, &object).await;
    assert_eq!((code, answer["details"]["causes"].as_array().unwrap().len()), (422, 101));
    let before = target.most_memory();
    let (body, mut answers) = (object.to_string(), Vec::new());
    for _ in 0..count {
        let kind = "content-type: application/json";
        answers.push(begun(&target, &format!("POST {MAPS}"), kind, &body, "HTTP/1.1 422").await);
    }
    let grown = target.most_memory().saturating_sub(before);
    let most = ELSE + ANSWER * count as u64 + LOOK * keys as u64;
    assert!(grown < most, "{grown} bytes for {count} unread answers to an object with {keys} mistakes");
}

/// What a watch may take that is not read: its task, its stream, and a frame.
const WATCH: u64 = 128 << 10;
/// What may wait of events that are not as the store has them.
const MADE: u64 = 64 << 20;

#[tokio::test]
async fn watches_that_nobody_reads_take_no_memory() {
    let target = Target::start();
    let mut client = target.client().await;
    let labels: Map<String, Value> =
        (0..20_000).map(|n| (format!("label-{n}"), "0123456789".repeat(6).into())).collect();
    let object = json!({"metadata": {"name": "large", "labels": labels}});
    assert_eq!(client.create(MAPS, &object).await.0, 201);
    let bytes = object.to_string().len();
    let partial = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
    for (count, accept, most) in
        [(sized(300, 600), "application/json", ELSE), (sized(100, 300), partial, ELSE + MADE)]
    {
        let before = target.most_memory();
        let mut watches = Vec::new();
        for n in 0..count {
            if n % 200 == 0 {
                watches.push((target.http2().await, Vec::new()));
            }
            let (sender, answers) = watches.last_mut().unwrap();
            let request = Request::get(format!("https://localhost{MAPS}?watch=true"))
                .header("authorization", format!("Bearer {}", target.token()))
                .header("accept", accept);
            let answer = sender.send_request(request.body(Full::default()).unwrap());
            let mut answer = tokio::time::timeout(DEADLINE, answer).await.unwrap().unwrap();
            assert_eq!(answer.status().as_u16(), 200);
            if accept != partial {
                // The event has begun.
                tokio::time::timeout(DEADLINE, answer.body_mut().frame()).await.unwrap();
            }
            answers.push(answer);
        }
        assert_eq!(client.get("/api/v1/namespaces/default").await.0, 200);
        let grown = target.most_memory().saturating_sub(before);
        let most = most + WATCH * count as u64;
        assert!(grown < most, "{grown} bytes for {count} unread watches of {bytes} bytes: {accept}");
    }
}

/// A config map of a megabyte, and a change of it that hardly anything is sent for.
async fn megabyte(client: &mut Client, name: &str) {
    let object = json!({"metadata": {"name": name}, "data": {"text": "x".repeat(1_000_000)}});
    assert_eq!(client.create(MAPS, &object).await.0, 201);
}

async fn change(client: &mut Client, name: &str, round: usize) {
    let patch = json!({"metadata": {"annotations": {"round": round.to_string()}}}).to_string();
    let kind = "application/merge-patch+json";
    let (code, answer) = client.ask("PATCH", &format!("{MAPS}/{name}"), kind, patch.into_bytes()).await;
    assert_eq!(code, 200, "{}", answer["message"]);
}

/// What history keeps, and what a write takes while it is made.
const HISTORY: u64 = 48 << 20;
/// What answers may hold of objects that the store has no more.
const HELD: u64 = 64 << 20;

/// Each list once held the objects as they were: forty of them took a gigabyte, read slowly or not at all.
#[tokio::test]
async fn lists_of_what_has_changed_take_no_memory() {
    let target = Target::start();
    let mut client = target.client().await;
    let (objects, lists) = (8, sized(40, 120));
    for n in 0..objects {
        megabyte(&mut client, &format!("large-{n}")).await;
    }
    let before = target.most_memory();
    let mut answers = Vec::new();
    for round in 0..lists {
        let one = format!("GET {MAPS}/large-{}", round % objects);
        answers.push(begun(&target, &one, "accept: application/json", "", "HTTP/1.1 200").await);
        answers.push(unread(&target, "", "accept: application/json").await);
        for n in 0..objects {
            change(&mut client, &format!("large-{n}"), round).await;
        }
        // Slow is not the same as unread; some are cut by now.
        for answer in &mut answers {
            let _ = tokio::time::timeout(DEADLINE, answer.read(&mut [0; 4096])).await.unwrap();
        }
    }
    let grown = target.most_memory().saturating_sub(before);
    let most = ELSE + HISTORY + HELD + ANSWER * answers.len() as u64;
    assert!(grown < most, "{grown} bytes for {lists} lists of {objects} megabytes each");
}

/// Each watch once queued 64 events with their objects.
#[tokio::test]
async fn watches_of_what_has_changed_take_no_memory() {
    let target = Target::start();
    let mut client = target.client().await;
    megabyte(&mut client, "large").await;
    let before = target.most_memory();
    let (mut sender, mut answers) = (target.http2().await, Vec::new());
    let count = sized(6, 30);
    for round in 0..count {
        let request = Request::get(format!("https://localhost{MAPS}?watch=true"))
            .header("authorization", format!("Bearer {}", target.token()));
        let answer = sender.send_request(request.body(Full::default()).unwrap());
        let mut answer = tokio::time::timeout(DEADLINE, answer).await.unwrap().unwrap();
        tokio::time::timeout(DEADLINE, answer.body_mut().frame()).await.unwrap();
        answers.push(answer);
        for n in 0..70 {
            change(&mut client, "large", round * 100 + n).await;
        }
    }
    let grown = target.most_memory().saturating_sub(before);
    let most = ELSE + HISTORY + HELD + WATCH * count as u64;
    assert!(grown < most, "{grown} bytes for {count} unread watches of a megabyte that changes");
}

#[tokio::test]
async fn watches_are_whole_for_those_who_read() {
    let target = Target::start();
    let mut client = target.client().await;
    fill(&mut client, OBJECT * 3).await;
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
    for accept in ["application/json", "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io", table]
    {
        let request =
            Request::get(format!("https://localhost{MAPS}?watch=true&timeoutSeconds=1&includeObject=Object"))
                .header("authorization", format!("Bearer {}", target.token()))
                .header("accept", accept);
        let answer = target.http2().await.send_request(request.body(Full::default()).unwrap()).await.unwrap();
        let body = tokio::time::timeout(DEADLINE, answer.into_body().collect()).await.unwrap();
        let body = body.unwrap().to_bytes();
        let events: Vec<Value> = body
            .split_inclusive(|byte| *byte == b'\n')
            .map(|line| serde_json::from_slice(line).unwrap())
            .collect();
        assert!(events.len() >= 3 && events.iter().all(|event| event["type"] == "ADDED"), "{accept}");
    }
}
