//! How it ends.

use super::*;
use crate::secure_serving::Metrics;

/// Nothing is cut off because a machine is slow.
fn patient() -> Limits {
    Limits { shutdown: DEADLINE, ..Limits::default() }
}

#[tokio::test]
async fn watches_end_whole_and_the_port_is_free() {
    let metrics = Arc::new(Metrics::default());
    let harness =
        Harness::with(Settings { metrics: metrics.clone(), limits: patient(), ..Settings::default() }).await;
    let address = harness.serving.address();
    let mut http1 = Http1::on(harness.connect("http/1.1").await).await;
    let mut http2 = Http2::on(harness.connect("h2").await).await;
    let watches = [
        http1.0.send_request(harness.get("/api/v1/things?watch=1")).await.unwrap(),
        http2.0.send_request(harness.get("/api/v1/things?watch=1")).await.unwrap(),
        http2.0.send_request(harness.get("/api/v1/things?watch=1")).await.unwrap(),
    ];
    assert!(metrics.render().contains("apiserver_longrunning_requests 3\n"));
    let idle = harness.connect("h2").await;

    let mut bodies = Vec::new();
    for watch in watches {
        let mut body = watch.into_body();
        // The event is out before the end begins.
        let event = soon(body.frame()).await.unwrap().unwrap().into_data().unwrap();
        assert_eq!(event, "{\"type\":\"ADDED\"}\n");
        bodies.push(body);
    }
    let closing = tokio::spawn(harness.serving.close());
    for body in bodies {
        // Collecting fails on a body that is cut off.
        assert_eq!(soon(body.collect()).await.unwrap().to_bytes(), "");
    }
    assert_eq!(soon(closing).await.unwrap(), 0);
    drop(idle);
    assert!(TcpStream::connect(address).await.is_err());
    let text = metrics.render();
    assert!(text.contains("apiserver_longrunning_requests 0\n"), "{text}");
    assert!(
        text.contains(r#"apiserver_request_total{verb="watch",group="",resource="things",code="200"} 3"#),
        "{text}"
    );
    assert!(text.contains("apiserver_connections 0\n"), "{text}");
}

#[tokio::test]
async fn an_event_that_has_begun_is_sent_to_its_end() {
    let harness = Harness::limited(patient()).await;
    let api = harness.api.clone();
    let mut client = Http2::on(harness.connect("h2").await).await;
    let mut body = client.0.send_request(harness.get("/api/v1/parts?watch=1")).await.unwrap().into_body();
    let begun = soon(body.frame()).await.unwrap().unwrap().into_data().unwrap();
    assert_eq!(begun, "{\"type\":");
    let address = harness.serving.address();
    let closing = tokio::spawn(harness.serving.close());
    soon(async { while TcpStream::connect(address).await.is_ok() {} }).await;
    api.released.notify_one();
    assert_eq!(soon(body.collect()).await.unwrap().to_bytes(), "\"ADDED\"}\n");
    assert_eq!(soon(closing).await.unwrap(), 0);
}

#[tokio::test]
async fn requests_under_way_are_answered() {
    let harness = Harness::limited(patient()).await;
    let api = harness.api.clone();
    let request = harness.get("/slow");
    let mut client = Http1::on(harness.connect("http/1.1").await).await;
    let asked = tokio::spawn(async move { client.ask(request).await });
    soon(api.entered.notified()).await;
    let address = harness.serving.address();
    let closing = tokio::spawn(harness.serving.close());
    soon(async { while TcpStream::connect(address).await.is_ok() {} }).await;
    api.released.notify_one();
    assert_eq!(soon(asked).await.unwrap().unwrap(), (200, "done".to_owned()));
    assert_eq!(soon(closing).await.unwrap(), 0);
}

#[tokio::test]
async fn what_does_not_end_is_cut_off() {
    let harness =
        Harness::limited(Limits { shutdown: Duration::from_millis(100), ..Limits::default() }).await;
    let request = harness.get("/slow");
    let mut client = Http1::on(harness.connect("http/1.1").await).await;
    let asked = tokio::spawn(async move { client.ask(request).await });
    soon(harness.api.entered.notified()).await;
    assert_eq!(soon(harness.serving.close()).await, 1);
    assert!(soon(asked).await.unwrap().is_err());
}
