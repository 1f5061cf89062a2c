//! At rest nothing is written, though everything is looked at again and again.

use std::time::Duration;

use capt_controllers::Options;
use kube::Client;

use crate::plant::Plant;

const MACHINES: i32 = 12;
/// Looks at each machine that a test waits for.
const LOOKS: u64 = 5;
/// Rounds of looks after which all that a rollout began has come to its end.
const ROUNDS: usize = 30;

/// How often machines were looked at.
fn looks(plant: &Plant) -> u64 {
    let text = plant.controllers.metrics().text();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("controller_reconcile_total{controller=\"captmachine\"} "));
    line.map_or(0, |count| count.parse().unwrap())
}

async fn looked(plant: &Plant, more: u64) {
    let wanted = looks(plant) + more * u64::try_from(MACHINES).unwrap();
    let seen =
        capt_e2e::until("resyncs", Duration::from_secs(120), async || (looks(plant) >= wanted).then_some(()));
    seen.await.unwrap();
}

pub async fn nothing_is_written_at_rest(client: Client) {
    let options = Options { resync: Duration::from_secs(1), ..Options::default() };
    let plant = Plant::on(client, &options).await;
    plant.deploy(MACHINES, "small").await;
    plant.rolled_out().await;
    // A look after the last change ends what that began: events, and the count of the template's users.
    let mut rests = false;
    for _ in 0..ROUNDS {
        plant.writes.take();
        looked(&plant, 2).await;
        rests = plant.writes.take().is_empty();
        if rests {
            break;
        }
    }
    assert!(rests, "something is written again and again");
    let before = plant.versions().await;
    if capt_e2e::required() {
        tokio::time::sleep(Duration::from_secs(60)).await;
    }
    looked(&plant, LOOKS).await;
    assert_eq!(plant.versions().await, before);
    let written = plant.writes.take();
    assert!(written.is_empty(), "{written:#?}");
}
