//! Many at once.

use serde_json::json;

use crate::fixture::Fixture;

pub async fn fifty_at_once(fixture: &Fixture) {
    fixture.template("thing", &fixture.module()).await;
    let before = fixture.processes();
    for number in 0..50 {
        fixture
            .apply(&format!("w{number}"), "thing", json!({"variables": {"name": format!("w{number}")}}))
            .await;
    }
    for number in 0..50 {
        fixture.ready(&format!("w{number}")).await;
    }
    let mut traces = fixture.traces();
    traces.sort();
    traces.dedup();
    assert_eq!(traces.len(), 50, "each once: {traces:?}");
    assert_eq!(fixture.processes() - before, 50, "one process each, and no init");
    for number in 0..50 {
        fixture.delete(&format!("w{number}")).await;
    }
    for number in 0..50 {
        fixture.gone(&format!("w{number}")).await;
    }
    let traces = fixture.traces();
    assert_eq!(traces.iter().filter(|line| line.starts_with("destroyed")).count(), 50);
    assert_eq!(traces.len(), 100);
}
