//! A Lease by its own clock: who waits, who stops, and what probes say meanwhile.

use jiff::Timestamp;

use super::*;

fn lease(holder: &str, renewed: i64) -> Lease {
    let renewed = Timestamp::from_second(renewed).expect("a time");
    let spec = LeaseSpec {
        holder_identity: Some(holder.into()),
        lease_duration_seconds: Some(15),
        renew_time: Some(MicroTime(renewed)),
        ..LeaseSpec::default()
    };
    Lease { spec: Some(spec), ..Lease::default() }
}

#[test]
fn a_lease_that_was_given_back_is_nobodys() {
    assert_eq!(holder_of(&lease("a", 0)).as_deref(), Some("a"));
    assert_eq!(holder_of(&lease("", 0)), None);
    assert_eq!(holder_of(&Lease::default()), None);
}

#[test]
fn a_lease_is_over_when_it_was_seen_unchanged_for_its_duration() {
    let start = Instant::now();
    let mut observed = None;
    // The time that it says is of another clock: years behind, or ahead.
    let mut left = |seconds, lease: &Lease| {
        let left = Observed::time_left(&mut observed, lease, start + Duration::from_secs(seconds));
        left.map(|left| left.as_secs())
    };
    assert_eq!(left(0, &lease("a", 1_000)), Some(15), "seen for the first time");
    assert_eq!(left(14, &lease("a", 1_000)), Some(1));
    assert_eq!(left(15, &lease("a", 9_000_000_000)), Some(15), "renewed, whatever its clock says");
    assert_eq!(left(29, &lease("a", 9_000_000_000)), Some(1));
    assert_eq!(left(30, &lease("a", 9_000_000_000)), None);
    assert_eq!(left(31, &lease("b", 9_000_000_000)), Some(15), "another one took it");
    assert_eq!(left(46, &lease("b", 9_000_000_000)), None);
}

/// An API that renews a Lease, but for some seconds.
fn held(refuses: std::ops::Range<u64>) -> Held {
    let start = Instant::now();
    let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        let refuses = refuses.clone();
        async move {
            use http_body_util::BodyExt as _;
            let asks = request.method() == http::Method::GET;
            let body = request.into_body().collect().await?.to_bytes();
            let status = if !asks && refuses.contains(&start.elapsed().as_secs()) { 503 } else { 200 };
            let answer = match status {
                503 => b"{}".to_vec(),
                _ if asks => serde_json::to_vec(&lease("a", 0))?,
                _ => body.to_vec(),
            };
            let answer = http::Response::builder().status(status).body(kube::client::Body::from(answer));
            Ok::<_, Box<dyn std::error::Error + Send + Sync>>(answer.expect("a response"))
        }
    });
    let candidate = Candidate::new("n", "capt", "a", LASTS);
    candidate.health.renewed(LASTS, start);
    Held {
        api: Api::namespaced(Client::new(service, "n"), "n"),
        candidate,
        lease: lease("a", 0),
        asked: Moment::now(),
        begun: start,
        writes: WriteFence::new(Moment::now()),
        term: None,
    }
}

/// A rival begins 15 s after the last renewal that it saw, at the earliest.
#[tokio::test(start_paused = true)]
async fn a_holder_stops_before_a_rival_can_begin() {
    for answers in [0, 9, 30] {
        let start = Instant::now();
        let lost = held(answers..u64::MAX).keep().await;
        assert!(matches!(lost, LeaseError::Lost(_)), "{lost}");
        let last_renewal = answers / 4 * 4;
        assert_eq!(start.elapsed().as_secs(), last_renewal + 10, "renewed for {answers} s");
    }
}

/// The holder in the API's own process: its disk is full for a while.
#[tokio::test(start_paused = true)]
async fn a_holder_that_nobody_can_replace_goes_on() {
    let mut held = held(0..100);
    let health = held.candidate.health.clone();
    let mut rounds = 0;
    let waits = async {
        loop {
            let lost = held.keep().await;
            assert!(matches!(lost, LeaseError::Lost(_)) && held.confirm().await, "{lost}");
            rounds += 1;
            assert!(rounds < 100, "it asks without a pause");
        }
    };
    assert!(timeout(Duration::from_secs(99), waits).await.is_err());
    assert!((5..=12).contains(&rounds), "{rounds} rounds, each as long as a renewal may take");
    let refused = health.ready().unwrap_err();
    assert!(refused.contains("not renewed for 99 s"), "{refused}");
    assert_eq!(health.live(), Ok(()), "it does not hang");
    assert!(held.confirm().await);
    assert!(timeout(Duration::from_secs(60), held.keep()).await.is_err(), "it is renewed again");
    assert_eq!(health.ready().unwrap(), "holds the Lease");
}

/// A holder that wakes up after its Lease ended goes on with what it was doing.
#[tokio::test]
async fn writes_end_with_the_lease() {
    let held = held(u64::MAX..u64::MAX);
    let leases: Api<Lease> = Api::namespaced(held.fenced(&held.api.clone().into_client()), "n");
    let merge = Patch::Merge(json!({}));
    for (left, is_written) in [(Duration::from_secs(60), true), (Duration::ZERO, false)] {
        held.writes.extend(Moment::now().after(left));
        assert!(leases.get("capt").await.is_ok(), "reads go on");
        let created = leases.create(&PostParams::default(), &lease("a", 0)).await.map(drop);
        let patched = leases.patch("capt", &PatchParams::default(), &merge).await.map(drop);
        for written in [created, patched] {
            assert_eq!(written.is_ok(), is_written, "{written:?}");
            let said = written.err().map(|error| error.to_string()).unwrap_or_default();
            assert_eq!(said.contains("somebody else may hold it now"), !is_written, "{said}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn probes_say_how_the_lease_is() {
    let health = LeaseHealth::default();
    assert!(health.ready().is_err() && health.live().is_ok(), "nobody knows yet");
    health.waits_for("b");
    assert_eq!(health.ready().unwrap(), "standby, b holds the Lease");
    assert!(health.is_standby() && !health.is_leading());
    // A holder that hangs: nobody renews.
    health.renewed(LASTS, Instant::now());
    assert!(health.is_leading());
    for (passed, ready, live) in [(10, true, true), (1, false, true), (24, false, true), (1, false, false)] {
        tokio::time::advance(Duration::from_secs(passed)).await;
        assert_eq!((health.ready().is_ok(), health.live().is_ok()), (ready, live), "{health:?}");
    }
    health.renewed(LASTS, Instant::now());
    assert!(health.ready().is_ok() && health.live().is_ok());
    health.lost(&LeaseError::Taken { name: "l".into(), holder: "b".into() });
    assert_eq!(health.ready().unwrap_err(), "Lease l is held by b now");
    assert!(health.live().is_err() && !health.is_leading());
}
