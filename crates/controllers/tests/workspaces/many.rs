//! Many at once.

use serde_json::json;

use crate::stage::Stage;

pub async fn fifty_at_once(stage: &Stage) {
    stage.template("thing", &stage.module()).await;
    let before = stage.processes();
    for number in 0..50 {
        stage
            .apply(&format!("w{number}"), "thing", json!({"variables": {"name": format!("w{number}")}}))
            .await;
    }
    for number in 0..50 {
        stage.ready(&format!("w{number}")).await;
    }
    let mut traces = stage.traces();
    traces.sort();
    traces.dedup();
    assert_eq!(traces.len(), 50, "each once: {traces:?}");
    assert_eq!(stage.processes() - before, 50, "one process each, and no init");
    for number in 0..50 {
        stage.delete(&format!("w{number}")).await;
    }
    for number in 0..50 {
        stage.gone(&format!("w{number}")).await;
    }
    let traces = stage.traces();
    assert_eq!(traces.iter().filter(|line| line.starts_with("destroyed")).count(), 50);
    assert_eq!(traces.len(), 100);
}
