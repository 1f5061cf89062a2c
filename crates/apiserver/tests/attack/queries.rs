//! Options of requests that are as long as a head may be.

use http::Request;
use http_body_util::Full;

use crate::answers::ELSE;
use crate::sized;
use crate::target::{DEADLINE, Target};
use crate::work::{MOST_OF_FOUR, NOTHING};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
/// What fits into the head of a request.
const LONG: usize = 60_000;

/// As many bytes of this text, or a little less.
fn long(text: &str) -> String {
    text.repeat(LONG / text.len())
}

/// One of them took 9.3 GB: each wrong character was told with all the others.
#[tokio::test]
async fn options_that_are_wrong_take_no_memory() {
    let target = Target::start();
    let mut client = target.client().await;
    let one = format!("{MAPS}/none");
    let before = target.most_memory();
    for (method, path, query) in [
        ("POST", MAPS, format!("fieldManager={}", long("%01"))),
        ("PUT", &one, format!("fieldManager={}", long("%01"))),
        ("PATCH", &one, format!("fieldManager={}", long("%C2%AD"))),
        ("POST", MAPS, format!("fieldManager={}", "%01".repeat(100))),
        ("POST", MAPS, long("dryRun=%01&")),
        ("POST", MAPS, format!("fieldValidation={}", long("%01"))),
        ("DELETE", &one, long("dryRun=%01&")),
        ("DELETE", &one, format!("propagationPolicy={}", long("%01"))),
        ("GET", MAPS, format!("labelSelector=a+in+({})", long("-,.,_,"))),
        ("GET", MAPS, format!("labelSelector={}", long("!a,"))),
        ("GET", MAPS, format!("labelSelector={}", long("%01"))),
        ("GET", MAPS, format!("labelSelector={}", long("a/"))),
        ("GET", MAPS, format!("fieldSelector={}", long("%01="))),
        ("GET", MAPS, format!("fieldSelector={}", long("a,"))),
        ("GET", MAPS, format!("continue={}", long("%01"))),
        ("GET", MAPS, format!("resourceVersion={}", long("%01"))),
        ("GET", MAPS, format!("resourceVersion=1&resourceVersionMatch={}", long("%01"))),
        ("GET", MAPS, format!("limit={}", long("%01"))),
        ("GET", MAPS, format!("watch=true&timeoutSeconds={}", long("9"))),
    ] {
        let kind = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let body = if method == "GET" { Vec::new() } else { b"{}".to_vec() };
        let (code, answer) = client.ask(method, &format!("{path}?{query}"), kind, body).await;
        assert!((400..=500).contains(&code), "{code} {method} {}: {answer}", &query[..40]);
        let grown = target.most_memory().saturating_sub(before);
        assert!(grown < ELSE, "{grown} bytes for {method} {}", &query[..40]);
    }
}

/// What all watches of an administrator may take for their selectors.
const SELECTORS: u64 = 64 << 20;

/// Of 60 KB, each took 1.5 MB.
#[tokio::test]
async fn selectors_of_watches_take_no_memory_without_end() {
    let target = Target::start();
    let mut client = target.client().await;
    assert_eq!(client.get(MAPS).await.0, 200);
    let before = target.most_memory();
    let (count, mut held, mut refused) = (sized(200, 800), Vec::new(), 0);
    let values: Vec<String> = (0..9_000).map(|n| format!("b{n},")).collect();
    let values = values.concat();
    for (n, selector) in [long("!a,"), long("a=b,"), format!("a in ({values}c)")].iter().cycle().enumerate() {
        if n == count {
            break;
        }
        if n % 100 == 0 {
            held.push((target.http2().await, Vec::new()));
        }
        let selector = selector.trim_end_matches(',').replace(' ', "+");
        let request = Request::get(format!("https://localhost{MAPS}?watch=true&labelSelector={selector}"))
            .header("authorization", format!("Bearer {}", target.token()));
        let (sender, answers) = held.last_mut().unwrap();
        let answer = sender.send_request(request.body(Full::default()).unwrap());
        let answer = tokio::time::timeout(DEADLINE, answer).await.unwrap().unwrap();
        match answer.status().as_u16() {
            200 => answers.push(answer),
            429 => refused += 1,
            code => panic!("{code}"),
        }
    }
    let grown = target.most_memory().saturating_sub(before);
    assert!(grown < ELSE + SELECTORS, "{grown} bytes for {count} watches, {refused} of them refused");
    assert!(refused > 0 && refused < count);
}

#[tokio::test]
async fn options_that_are_wrong_take_work_as_they_are_long() {
    let target = Target::start();
    let mut client = target.client().await;
    let mut ticks = Vec::new();
    for part in [4, 1] {
        let begun = target.ticks();
        for _ in 0..sized(2, 8) {
            let manager = "%01".repeat(20_000 / part);
            let path = format!("{MAPS}?fieldManager={manager}");
            assert_eq!(client.create(&path, &serde_json::json!({})).await.0, 422);
            let values = "-x%01,".repeat(10_000 / part);
            assert_eq!(client.get(&format!("{MAPS}?labelSelector=a+in+({values})")).await.0, 400);
        }
        ticks.push(target.ticks() - begun);
    }
    let (one, four) = (ticks[0], ticks[1]);
    assert!(four <= MOST_OF_FOUR * one.max(NOTHING / 4), "{one} ticks, and {four} for four times as much");
}
