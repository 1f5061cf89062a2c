//! Connections that are held and not used.

use bytes::Bytes;
use futures::FutureExt as _;
use http::Request;
use http_body_util::Full;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::timeout;

use crate::answers::ELSE;
use crate::sized;
use crate::target::{DEADLINE, Target};

#[tokio::test]
async fn idle_strangers_do_not_keep_the_administrator_out() {
    let places = sized(64, 512);
    let target = Target::with_connections(places);
    let mut held = Vec::new();
    for _ in 0..places + places / 8 {
        // A request that anybody may make, and then nothing for as long as the server lets it.
        let mut stream = target.tls().await;
        stream.write_all(b"GET /livez HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
        let mut begun = [0; 12];
        stream.read_exact(&mut begun).await.unwrap();
        assert_eq!(&begun, b"HTTP/1.1 200");
        held.push(stream);
    }
    let mut silent = Vec::new();
    for _ in 0..places {
        silent.push(target.tcp().await);
    }
    for _ in 0..10 {
        let mut client = timeout(DEADLINE, target.client()).await.unwrap();
        assert_eq!(client.get("/api/v1/namespaces/default").await.0, 200);
    }
}

#[tokio::test]
async fn slow_bodies_of_others_leave_room_for_a_write() {
    let target = Target::start();
    let mut held = Vec::new();
    // More than fit into the room for bodies: the last ones wait for it.
    for _ in 0..40 {
        let mut stream = target.tls().await;
        let head = format!(
            "POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}\r\n\
             content-type: application/json\r\ncontent-length: 3145728\r\n\r\n{{",
            target.token()
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        held.push(stream);
    }
    let mut client = target.client().await;
    let object = serde_json::json!({"metadata": {"name": "a"}});
    assert_eq!(client.create("/api/v1/namespaces/default/configmaps", &object).await.0, 201);
    // It did not wait until those were given up.
    assert!(held[0].read_u8().now_or_never().is_none(), "was answered before");
}

/// Each answer that is not read kept the path of its request: 60 connections took 1.4 GB.
#[tokio::test]
async fn refusals_that_strangers_do_not_read_keep_no_paths() {
    let target = Target::start();
    let before = target.most_memory();
    let path = format!("https://localhost/api/v1/{}", "x".repeat(60_000));
    let mut held = Vec::new();
    for _ in 0..sized(2, 60) {
        let mut sender = target.http2_taking(0).await;
        for _ in 0..240 {
            let request = Request::get(&path).body(Full::<Bytes>::default()).unwrap();
            let answer = timeout(DEADLINE, sender.send_request(request)).await.unwrap().unwrap();
            assert!(answer.status().is_client_error(), "{}", answer.status());
            held.push(answer);
        }
    }
    let grown = target.most_memory().saturating_sub(before);
    assert!(grown < ELSE, "{grown} bytes for {} refusals", held.len());
}

/// Each byte was kept as a piece of its own: a body took 36 times its length.
#[tokio::test]
async fn a_body_in_chunks_of_a_byte_takes_no_more_than_one() {
    let target = Target::start();
    let before = target.most_memory();
    let mut stream = target.tls().await;
    let head = format!(
        "POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}\r\n\
         content-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n",
        target.token()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let piece = "1\r\nx\r\n".repeat(10_000);
    for _ in 0..250 {
        stream.write_all(piece.as_bytes()).await.unwrap();
    }
    stream.write_all(b"0\r\n\r\n").await.unwrap();
    let mut begun = [0; 12];
    timeout(DEADLINE, stream.read_exact(&mut begun)).await.unwrap().unwrap();
    assert_eq!(&begun, b"HTTP/1.1 400");
    let grown = target.most_memory().saturating_sub(before);
    assert!(grown < ELSE, "{grown} bytes for a body of 2.5 MB");
}
