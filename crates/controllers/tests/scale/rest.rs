//! At rest nothing is written, though everything is looked at again and again.

use std::time::Duration;

use capt_controllers::Options;
use kube::Client;

use crate::fixture::Fixture;

const MACHINES: i32 = 12;
/// Looks at each machine that a test waits for.
const LOOKS: u64 = 5;
/// Rounds of looks after which all that a rollout began has come to its end.
const ROUNDS: usize = 30;

/// How often machines were looked at.
fn looks(fixture: &Fixture) -> u64 {
    fixture.controllers.metrics().reconciles("captmachine")
}

async fn looked(fixture: &Fixture, more: u64) {
    let wanted = looks(fixture) + more * u64::try_from(MACHINES).unwrap();
    let seen = capt_e2e::until("resyncs", Duration::from_secs(120), async || {
        (looks(fixture) >= wanted).then_some(())
    });
    seen.await.unwrap();
}

pub async fn nothing_is_written_at_rest(client: Client) {
    let options = Options { resync: Duration::from_secs(1), ..Options::default() };
    let fixture = Fixture::on(client, &options).await;
    fixture.deploy(MACHINES, "small").await;
    fixture.rolled_out().await;
    // A look after the last change ends what that began: events, and the count of the template's users.
    let mut rests = false;
    for _ in 0..ROUNDS {
        fixture.writes.take();
        looked(&fixture, 2).await;
        rests = fixture.writes.take().is_empty();
        if rests {
            break;
        }
    }
    assert!(rests, "something is written again and again");
    let before = fixture.versions().await;
    if capt_e2e::required() {
        tokio::time::sleep(Duration::from_secs(60)).await;
    }
    looked(&fixture, LOOKS).await;
    assert_eq!(fixture.versions().await, before);
    let written = fixture.writes.take();
    assert!(written.is_empty(), "{written:#?}");
}
