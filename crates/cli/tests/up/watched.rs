//! What whoever operates `capt up` reads of it: metrics, health and the audit log.

use std::time::Instant;

use crate::plane::{PAUSE, Plane, SOON, get, metrics_address};

#[test]
fn metrics_health_and_audit_log() {
    let place = tempfile::tempdir().unwrap();
    let (folder, log) = (place.path().join("data"), place.path().join("audit.log"));
    let plane = Plane::start(&folder, &["--metrics", "127.0.0.1:0", "--audit-log", log.to_str().unwrap()]);
    let address = metrics_address(&folder).expect("it serves before it listens");
    let deadline = Instant::now() + SOON;
    while !get(&address, "/readyz").starts_with("HTTP/1.1 200 ") {
        assert!(Instant::now() < deadline, "{}", get(&address, "/readyz"));
        std::thread::sleep(PAUSE);
    }
    let answer = get(&address, "/metrics");
    assert!(answer.contains("\nleader_election_master_status{name=\"capt-controller\"} 1\n"), "{answer}");
    assert!(answer.contains("\ncapt_runs_active 0\n") && answer.ends_with("# EOF\n"), "{answer}");
    plane.until(&["status"], |_| std::fs::read_to_string(&log).unwrap().contains("\"verb\":\"list\""));
}
