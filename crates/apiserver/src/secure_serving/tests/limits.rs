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
    let harness = Harness::limited(Limits { body_bytes: 1000, ..Limits::default() }).await;
    for protocol in ["http/1.1", "h2"] {
        for (length, code) in [(1000, 200), (1001, 413)] {
            let mut request = harness.get("/length");
            *request.method_mut() = http::Method::POST;
            *request.body_mut() = Full::from(vec![b'x'; length]);
            let stream = harness.connect(protocol).await;
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
    let harness = Harness::new().await;
    let token = harness.identity.token();
    for body in ["content-length: 3145729\r\n\r\n".to_owned(), {
        // Chunked: no length is declared, so the limit is met while reading.
        format!("transfer-encoding: chunked\r\n\r\n600000\r\n{}", "x".repeat(3 << 20 | 1))
    }] {
        let mut stream = harness.connect("http/1.1").await;
        let head = format!("POST /length HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\n{body}");
        stream.write_all(head.as_bytes()).await.unwrap();
        let said = until_closed(&mut stream).await;
        assert!(said.starts_with("HTTP/1.1 413 "), "{said}");
    }
}

#[tokio::test]
async fn strangers_bodies_are_not_read_at_all() {
    let harness = Harness::new().await;
    let mut stream = harness.connect("http/1.1").await;
    stream.write_all(b"POST /length HTTP/1.1\r\nhost: x\r\ncontent-length: 3000000\r\n\r\n").await.unwrap();
    let said = until_closed(&mut stream).await;
    assert!(said.starts_with("HTTP/1.1 401 "), "{said}");
}

/// A stranger that does not read its answers holds its own connection, and no probe of others.
#[tokio::test]
async fn probes_are_answered_whatever_a_stranger_holds() {
    let harness = Harness::limited(Limits { requests: 4, ..Limits::default() }).await;
    let io = TokioIo::new(harness.connect("h2").await);
    let mut builder = hyper::client::conn::http2::Builder::new(TokioExecutor::new());
    let (sender, connection) = builder.initial_stream_window_size(0).handshake(io).await.unwrap();
    tokio::spawn(connection);
    let mut codes = Vec::new();
    let mut unread = Vec::new();
    for _ in 0..12 {
        let response = sender.clone().send_request(get("/livez")).await.unwrap();
        codes.push(response.status().as_u16());
        unread.push(response);
    }
    assert_eq!(codes, [[200; 8].as_slice(), &[429; 4]].concat());
    for _ in 0..20 {
        assert_eq!(harness.ask(get("/livez")).await.0, 200);
    }
}

#[tokio::test]
async fn heads_are_bounded() {
    let harness = Harness::new().await;
    let long = "x".repeat(70 << 10);
    let many: String = (0..110).flat_map(|number| [format!("a{number}"), ": b\r\n".to_owned()]).collect();
    for headers in [format!("a: {long}\r\n"), many] {
        let mut stream = harness.connect("http/1.1").await;
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
    let (code, _) = Http2::on(harness.connect("h2").await).await.ask(request).await.unwrap();
    assert_eq!(code, 431);
}

#[tokio::test]
async fn dawdlers_are_closed() {
    // The clock here is started before that of the server can be.
    let harness = Harness::limited(Limits { handshake: SHORT, ..Limits::default() }).await;
    let start = Instant::now();
    let mut silent = TcpStream::connect(harness.serving.address()).await.unwrap();
    assert_eq!(until_closed(&mut silent).await, "");
    assert!(start.elapsed() >= SHORT);

    // A handshake has all the time it takes: only heads are late.
    let harness = Harness::limited(Limits { head: SHORT, ..Limits::default() }).await;
    for head in ["", "GET /livez HTTP/1.1\r\nhost: x\r\n"] {
        let start = Instant::now();
        let mut stream = harness.connect("http/1.1").await;
        // On a machine that stands still the server has closed already.
        let _ = stream.write_all(head.as_bytes()).await;
        assert_eq!(until_closed(&mut stream).await, "");
        assert!(start.elapsed() >= SHORT, "a head has its time");
    }
    let start = Instant::now();
    let mut silent = harness.connect("h2").await;
    until_closed(&mut silent).await;
    assert!(start.elapsed() >= SHORT);
}

#[tokio::test]
async fn a_body_that_does_not_come_is_not_waited_for() {
    let harness = Harness::limited(Limits { body: SHORT, ..Limits::default() }).await;
    let token = harness.identity.token();
    let mut stream = harness.connect("http/1.1").await;
    let request = format!(
        "POST /length HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\ncontent-length: 10\r\n\r\nxxx"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let said = until_closed(&mut stream).await;
    assert!(said.starts_with("HTTP/1.1 408 "), "{said}");
}

/// It is refused by its length, and read for a while so that the client sees the answer.
#[tokio::test]
async fn a_body_that_is_too_long_is_not_read_for_as_long_as_it_comes() {
    let harness = Harness::limited(Limits { body: SHORT, ..Limits::default() }).await;
    let token = harness.identity.token();
    for (method, length) in [("POST", 4_000_000), ("GET", 4_000_000), ("POST", 4_000)] {
        let (mut read, mut write) = tokio::io::split(harness.connect("http/1.1").await);
        let head = format!(
            "{method} /length HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\ncontent-length: {length}\r\n\r\n"
        );
        write.write_all(head.as_bytes()).await.unwrap();
        let dribble = async {
            // A byte now and then, never so late that it is taken for the end.
            while write.write_all(b"x").await.is_ok() && write.flush().await.is_ok() {
                tokio::time::sleep(SHORT / 10).await;
            }
            std::future::pending::<()>().await;
        };
        let said = tokio::select! { said = until_closed(&mut read) => said, () = dribble => unreachable!() };
        let code = if method == "GET" {
            "200"
        } else if length > 4_000 {
            "413"
        } else {
            "408"
        };
        assert!(said.starts_with(&format!("HTTP/1.1 {code} ")), "{method} {length}: {said}");
    }
}

#[tokio::test]
async fn idle_connections_are_closed_and_no_sooner_than_said() {
    // The head must be over in time, on any machine; what follows it may last longer than a head.
    let (head, idle) = (Duration::from_secs(3), Duration::from_secs(4));
    let harness = Harness::limited(Limits { head, idle, ..Limits::default() }).await;
    let mut stream = harness.connect("http/1.1").await;
    let start = Instant::now();
    stream.write_all(b"GET /livez HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    let said = until_closed(&mut stream).await;
    assert!(said.ends_with("ok"), "{said}");
    assert!(start.elapsed() >= idle, "{:?}", start.elapsed());
}

#[tokio::test]
async fn a_stranger_loses_its_place_to_the_next() {
    let harness =
        Harness::limited(Limits { connections: 1, reserved_connections: 1, ..Limits::default() }).await;
    let mut first = harness.connect("http/1.1").await;
    first.write_all(b"GET /livez HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    let closed = until_closed(&mut first);
    let others = async {
        // Until the first was there long enough to make room, others are sent away or wait.
        while soon(harness.ask(get("/livez"))).await.0 != 200 {}
    };
    let (said, ()) = tokio::join!(closed, others);
    assert!(said.starts_with("HTTP/1.1 200 "), "{said}");
}

#[tokio::test]
async fn requests_keep_their_places_and_the_administrator_gets_in() {
    let harness =
        Harness::limited(Limits { connections: 1, reserved_connections: 1, ..Limits::default() }).await;
    let request = harness.get("/slow");
    let mut busy = Http1::on(harness.connect("http/1.1").await).await;
    let asked = tokio::spawn(async move { busy.ask(request).await });
    soon(harness.api.entered.notified()).await;
    assert_eq!(harness.ask(get("/livez")).await.0, 429);
    assert_eq!(harness.ask(harness.get("/whoami")).await.0, 200);
    harness.api.released.notify_one();
    assert_eq!(soon(asked).await.unwrap().unwrap().0, 200);
}

#[tokio::test]
async fn a_closed_window_closes_the_connection() {
    let harness = Harness::limited(Limits { stalled: SHORT * 2, ..Limits::default() }).await;
    let mut client = Http2::on(harness.connect("h2").await).await;
    let _unread = client.0.send_request(harness.get("/flood")).await.unwrap();
    soon(harness.api.flood_ended.notified()).await;
}

#[tokio::test]
async fn bodies_wait_for_room_and_are_refused_without() {
    let limits = Limits { body_bytes: 1024, bodies_bytes: 1024, body: SHORT, ..Limits::default() };
    let harness = Harness::limited(limits).await;
    let post = |path| {
        let mut request = harness.get(path);
        *request.method_mut() = http::Method::POST;
        *request.body_mut() = Full::from("x");
        request
    };
    let slow = async { harness.ask(post("/slow")).await };
    let second = async {
        harness.api.entered.notified().await;
        let refused = harness.ask(post("/length")).await;
        harness.api.released.notify_one();
        refused
    };
    let (slow, refused) = Box::pin(soon(async { tokio::join!(slow, second) })).await;
    assert_eq!((slow.0, refused.0), (200, 429));
    assert_eq!(harness.ask(post("/length")).await, (200, "1".to_owned()));
}

#[tokio::test]
async fn a_body_keeps_its_room_until_its_answer_is_read() {
    let limits = Limits { body_bytes: 1024, bodies_bytes: 1024, body: SHORT, ..Limits::default() };
    let harness = Harness::limited(limits).await;
    let post = |path| {
        let mut request = harness.get(path);
        *request.method_mut() = http::Method::POST;
        *request.body_mut() = Full::from("x");
        request
    };
    let mut client = Http2::on(harness.connect("h2").await).await;
    let unread = client.0.send_request(post("/flood")).await.unwrap();
    assert_eq!(harness.ask(post("/length")).await.0, 429);
    drop((unread, client));
    soon(harness.api.flood_ended.notified()).await;
    assert_eq!(harness.ask(post("/length")).await, (200, "1".to_owned()));
}

#[tokio::test]
async fn an_answer_that_is_made_takes_room_until_it_is_read() {
    let limits = Limits { body_bytes: 1024, bodies_bytes: 3072, ..Limits::default() };
    let harness = Harness::limited(limits).await;
    let mut first = Http2::on(harness.connect("h2").await).await;
    let unread = first.0.send_request(harness.get("/made")).await.unwrap();
    assert_eq!(unread.status().as_u16(), 200);
    let mut second = Http2::on(harness.connect("h2").await).await;
    // An answer is dropped here before it is read: there is no end of it.
    let mut status = async |request| second.0.send_request(request).await.unwrap().status().as_u16();
    assert_eq!(status(harness.get("/made")).await, 429);
    assert_eq!(status(with_body(harness.get("/made"), http::Method::POST)).await, 504, "it was done");
    assert_eq!(status(harness.get("/livez")).await, 200);
    drop((unread, first));
    // The server sees a moment later that the client is gone.
    soon(async { while status(harness.get("/made")).await == 429 {} }).await;
}

fn with_body(mut request: Request<Full<Bytes>>, method: http::Method) -> Request<Full<Bytes>> {
    *request.method_mut() = method;
    *request.body_mut() = Full::from("x");
    request
}

#[tokio::test]
async fn a_read_that_waits_keeps_nothing_of_its_body() {
    let limits = Limits {
        body_bytes: 1024,
        bodies_bytes: 1024,
        decoded_bytes: 1024,
        body: SHORT,
        ..Limits::default()
    };
    let harness = Harness::limited(limits).await;
    let slow = async { harness.ask(with_body(harness.get("/slow"), http::Method::GET)).await };
    let write = async {
        harness.api.entered.notified().await;
        let written = harness.ask(with_body(harness.get("/length"), http::Method::POST)).await;
        harness.api.released.notify_one();
        written
    };
    let (slow, written) = Box::pin(soon(async { tokio::join!(slow, write) })).await;
    assert_eq!((slow.0, written), (200, (200, "1".to_owned())));
    for protocol in ["http/1.1", "h2"] {
        let request = with_body(harness.get("/length"), http::Method::GET);
        let stream = harness.connect(protocol).await;
        let answer = match protocol {
            "h2" => Http2::on(stream).await.ask(request).await.unwrap(),
            _ => Http1::on(stream).await.ask(request).await.unwrap(),
        };
        assert_eq!(answer, (200, "0".to_owned()), "{protocol}");
    }
}

#[tokio::test]
async fn bodies_of_users_keep_no_administrator_waiting() {
    let folder = tempfile::tempdir().unwrap();
    let identity = Identity::in_folder(folder.path(), &[], SystemTime::now()).unwrap();
    let limits = Limits { body_bytes: 1024, decoded_bytes: 1024, body: SHORT, ..Limits::default() };
    let harness = Harness::of(identity, Settings { limits, ..Settings::default() }).await;
    let (certificate, key) = who::sign(folder.path(), "ann", "devs");
    let ca = harness.identity.ca_certificate();
    let stream =
        connect(harness.serving.address(), ca, Some((&certificate, &key)), "http/1.1").await.unwrap();
    let mut ann = Http1::on(stream).await;
    let slow = ann.ask(with_body(get("/slow"), http::Method::POST));
    let write = async {
        harness.api.entered.notified().await;
        let written = harness.ask(with_body(harness.get("/length"), http::Method::POST)).await;
        harness.api.released.notify_one();
        written
    };
    let (slow, written) = Box::pin(soon(async { tokio::join!(slow, write) })).await;
    assert_eq!((slow.unwrap().0, written), (200, (200, "1".to_owned())));
}

/// The kernel's own buffers of a loopback connection, which nothing here can bound.
const KERNEL: u64 = 16 << 20;

#[tokio::test]
async fn a_watch_nobody_reads_is_neither_buffered_nor_kept() {
    let harness = Harness::limited(Limits { stalled: SHORT * 2, ..Limits::default() }).await;
    let token = harness.identity.token();
    let mut stream = harness.connect("http/1.1").await;
    let request = format!("GET /flood HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    soon(harness.api.flood_ended.notified()).await;
    let sent = harness.api.flooded.load(Relaxed);
    assert!(sent > 0 && sent < KERNEL, "{sent} bytes were taken from a watch that nobody reads");
}

#[tokio::test]
async fn an_unread_http2_watch_leaves_the_others_alone() {
    let harness = Harness::new().await;
    let mut client = Http2::on(harness.connect("h2").await).await;
    let unread = client.0.send_request(harness.get("/flood")).await.unwrap();
    for _ in 0..200 {
        assert_eq!(client.ask(get("/livez")).await.unwrap().0, 200);
    }
    let sent = harness.api.flooded.load(Relaxed);
    assert!(sent > 0 && sent < KERNEL, "{sent} bytes were taken from a watch that nobody reads");
    drop(unread);
    soon(harness.api.flood_ended.notified()).await;
}

#[tokio::test]
async fn a_panic_ends_one_request_alone() {
    let harness = Harness::new().await;
    let mut client = Http2::on(harness.connect("h2").await).await;
    let (code, body) = client.ask(harness.get("/panic")).await.unwrap();
    assert_eq!((code, &parsed(&body)["reason"]), (500, &json!("InternalError")));
    assert_eq!(client.ask(get("/livez")).await.unwrap().0, 200);
}

/// What a client may send of a body that nobody has begun to read, as the server's settings say it.
#[tokio::test]
async fn bodies_that_wait_for_room_wait_with_their_clients() {
    const INITIAL_WINDOW_SIZE: u16 = 4;
    let harness = Harness::new().await;
    let mut stream = harness.connect("h2").await;
    let no_settings = [0, 0, 0, 4, 0, 0, 0, 0, 0];
    stream.write_all(&[&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], &no_settings].concat()).await.unwrap();
    let mut head = [0; 9];
    soon(stream.read_exact(&mut head)).await.unwrap();
    assert_eq!(head[3], 4, "a frame of settings comes first");
    let mut settings = vec![0; usize::from(head[2])];
    soon(stream.read_exact(&mut settings)).await.unwrap();
    let window = settings.chunks(6).find_map(|setting| {
        let is_it = setting[..2] == INITIAL_WINDOW_SIZE.to_be_bytes();
        is_it.then(|| u32::from_be_bytes(setting[2..].try_into().unwrap()))
    });
    assert!(window.is_some_and(|window| window <= 64 << 10), "{window:?}");
}
