//! What a client cannot do: bring too much, dawdle, or make the server hold what it does not read.

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    time::Instant,
};

use super::*;

const SHORT: Duration = Duration::from_millis(150);

/// Reads until the server closes; what it said before.
async fn until_closed(stream: &mut (impl tokio::io::AsyncRead + Unpin)) -> String {
    let mut said = Vec::new();
    // A reset is as good as an end.
    let _ = soon(stream.read_to_end(&mut said)).await;
    String::from_utf8_lossy(&said).into_owned()
}

#[tokio::test]
async fn a_body_is_read_up_to_the_limit() {
    let house = House::limited(Limits { body_bytes: 1000, ..Limits::default() }).await;
    for protocol in ["http/1.1", "h2"] {
        for (length, code) in [(1000, 200), (1001, 413)] {
            let mut request = house.get("/length");
            *request.method_mut() = http::Method::POST;
            *request.body_mut() = Full::from(vec![b'x'; length]);
            let stream = house.connect(protocol).await;
            let (found, body) = match protocol {
                "h2" => Http2::on(stream).await.ask(request).await.unwrap(),
                _ => Http1::on(stream).await.ask(request).await.unwrap(),
            };
            assert_eq!(found, code, "{protocol} {length}");
            if code == 413 {
                let status = parsed(&body);
                assert_eq!(status["message"], "Request entity too large: limit is 1000");
                assert_eq!(status["reason"], "RequestEntityTooLarge");
            }
        }
    }
}

#[tokio::test]
async fn too_much_is_refused_before_it_arrives() {
    let house = House::new().await;
    let token = house.identity.token();
    for body in ["content-length: 3145729\r\n\r\n".to_owned(), {
        // Chunked: no length is declared, so the limit is met while reading.
        format!("transfer-encoding: chunked\r\n\r\n600000\r\n{}", "x".repeat(3 << 20 | 1))
    }] {
        let mut stream = house.connect("http/1.1").await;
        let head = format!("POST /length HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\n{body}");
        stream.write_all(head.as_bytes()).await.unwrap();
        let said = until_closed(&mut stream).await;
        assert!(said.starts_with("HTTP/1.1 413 "), "{said}");
    }
}

#[tokio::test]
async fn strangers_bodies_are_not_read_at_all() {
    let house = House::new().await;
    let mut stream = house.connect("http/1.1").await;
    stream.write_all(b"POST /length HTTP/1.1\r\nhost: x\r\ncontent-length: 3000000\r\n\r\n").await.unwrap();
    let said = until_closed(&mut stream).await;
    assert!(said.starts_with("HTTP/1.1 401 "), "{said}");
}

#[tokio::test]
async fn heads_are_bounded() {
    let house = House::new().await;
    let long = "x".repeat(70 << 10);
    let many: String = (0..110).flat_map(|number| [format!("a{number}"), ": b\r\n".to_owned()]).collect();
    for headers in [format!("a: {long}\r\n"), many] {
        let mut stream = house.connect("http/1.1").await;
        let _ = stream.write_all(format!("GET /livez HTTP/1.1\r\nhost: x\r\n{headers}\r\n").as_bytes()).await;
        let said = until_closed(&mut stream).await;
        assert!(said.starts_with("HTTP/1.1 431 "), "{said}");
    }
    let mut request = get("/livez");
    for number in 0..110 {
        request
            .headers_mut()
            .insert(http::HeaderName::try_from(format!("a{number}")).unwrap(), "b".parse().unwrap());
    }
    let (code, _) = Http2::on(house.connect("h2").await).await.ask(request).await.unwrap();
    assert_eq!(code, 431);
}

#[tokio::test]
async fn dawdlers_are_closed() {
    // The clock here is started before that of the server can be.
    let house = House::limited(Limits { handshake: SHORT, ..Limits::default() }).await;
    let start = Instant::now();
    let mut silent = TcpStream::connect(house.door.address()).await.unwrap();
    assert_eq!(until_closed(&mut silent).await, "");
    assert!(start.elapsed() >= SHORT);

    // A handshake has all the time it takes: only heads are late.
    let house = House::limited(Limits { head: SHORT, ..Limits::default() }).await;
    for head in ["", "GET /livez HTTP/1.1\r\nhost: x\r\n"] {
        let start = Instant::now();
        let mut stream = house.connect("http/1.1").await;
        // On a machine that stands still the server has closed already.
        let _ = stream.write_all(head.as_bytes()).await;
        assert_eq!(until_closed(&mut stream).await, "");
        assert!(start.elapsed() >= SHORT, "a head has its time");
    }
    let start = Instant::now();
    let mut silent = house.connect("h2").await;
    until_closed(&mut silent).await;
    assert!(start.elapsed() >= SHORT);
}

#[tokio::test]
async fn a_body_that_does_not_come_is_not_waited_for() {
    let house = House::limited(Limits { body: SHORT, ..Limits::default() }).await;
    let token = house.identity.token();
    let mut stream = house.connect("http/1.1").await;
    let request = format!(
        "POST /length HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\ncontent-length: 10\r\n\r\nxxx"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let said = until_closed(&mut stream).await;
    assert!(said.starts_with("HTTP/1.1 408 "), "{said}");
}

#[tokio::test]
async fn idle_connections_are_closed_and_no_sooner_than_said() {
    // The head must be over in time, on any machine; what follows it may last longer than a head.
    let (head, idle) = (Duration::from_secs(3), Duration::from_secs(4));
    let house = House::limited(Limits { head, idle, ..Limits::default() }).await;
    let mut stream = house.connect("http/1.1").await;
    let start = Instant::now();
    stream.write_all(b"GET /livez HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    let said = until_closed(&mut stream).await;
    assert!(said.ends_with("ok"), "{said}");
    assert!(start.elapsed() >= idle, "{:?}", start.elapsed());
}

#[tokio::test]
async fn connections_beyond_the_limit_wait_for_a_place() {
    let house = House::limited(Limits { connections: 1, ..Limits::default() }).await;
    let mut first = Http1::on(house.connect("http/1.1").await).await;
    assert_eq!(first.ask(get("/livez")).await.unwrap().0, 200);
    let mut second = Box::pin(house.ask(get("/livez")));
    assert!(tokio::time::timeout(SHORT, &mut second).await.is_err());
    drop(first);
    assert_eq!(soon(second).await.0, 200);
}

#[tokio::test]
async fn bodies_wait_for_room_and_are_refused_without() {
    let limits = Limits { body_bytes: 1024, bodies_bytes: 1024, body: SHORT, ..Limits::default() };
    let house = House::limited(limits).await;
    let post = |path| {
        let mut request = house.get(path);
        *request.method_mut() = http::Method::POST;
        *request.body_mut() = Full::from("x");
        request
    };
    let slow = async { house.ask(post("/slow")).await };
    let second = async {
        house.api.entered.notified().await;
        let refused = house.ask(post("/length")).await;
        house.api.released.notify_one();
        refused
    };
    let (slow, refused) = Box::pin(soon(async { tokio::join!(slow, second) })).await;
    assert_eq!((slow.0, refused.0), (200, 429));
    assert_eq!(house.ask(post("/length")).await, (200, "1".to_owned()));
}

/// The kernel's own buffers of a loopback connection, which nothing here can bound.
const KERNEL: u64 = 16 << 20;

#[tokio::test]
async fn a_watch_nobody_reads_is_neither_buffered_nor_kept() {
    let house = House::limited(Limits { stalled: SHORT * 2, ..Limits::default() }).await;
    let token = house.identity.token();
    let mut stream = house.connect("http/1.1").await;
    let request = format!("GET /flood HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    soon(house.api.flood_ended.notified()).await;
    let sent = house.api.flooded.load(Relaxed);
    assert!(sent > 0 && sent < KERNEL, "{sent} bytes were taken from a watch that nobody reads");
}

#[tokio::test]
async fn an_unread_http2_watch_leaves_the_others_alone() {
    let house = House::new().await;
    let mut client = Http2::on(house.connect("h2").await).await;
    let unread = client.0.send_request(house.get("/flood")).await.unwrap();
    for _ in 0..200 {
        assert_eq!(client.ask(get("/livez")).await.unwrap().0, 200);
    }
    let sent = house.api.flooded.load(Relaxed);
    assert!(sent > 0 && sent < KERNEL, "{sent} bytes were taken from a watch that nobody reads");
    drop(unread);
    soon(house.api.flood_ended.notified()).await;
}

#[tokio::test]
async fn a_panic_ends_one_request_alone() {
    let house = House::new().await;
    let mut client = Http2::on(house.connect("h2").await).await;
    let (code, body) = client.ask(house.get("/panic")).await.unwrap();
    assert_eq!((code, &parsed(&body)["reason"]), (500, &json!("InternalError")));
    assert_eq!(client.ask(get("/livez")).await.unwrap().0, 200);
}
