//! Whose work is done on which threads.

use std::sync::{Condvar, Mutex};

use super::*;

/// Keeps threads, as work without an end would.
#[derive(Default)]
pub struct Gate {
    /// How many are kept, and whether they may go.
    kept: Mutex<(usize, bool)>,
    changed: Condvar,
}

impl Gate {
    pub fn wait(&self) {
        let mut kept = self.kept.lock().unwrap();
        kept.0 += 1;
        while !kept.1 {
            let (now, waited) = self.changed.wait_timeout(kept, DEADLINE).unwrap();
            assert!(!waited.timed_out(), "nobody opened it: the test waits on this thread");
            kept = now;
        }
    }

    fn open(&self) {
        self.kept.lock().unwrap().1 = true;
        self.changed.notify_all();
    }

    fn is_kept(&self) -> bool {
        self.kept.lock().unwrap().0 > 0
    }
}

/// This test has one thread for the server and itself: work of a stranger on it would keep both for ever.
#[tokio::test]
async fn an_administrator_waits_behind_no_work_of_others() {
    for path in ["/healthz", "/readyz"] {
        let house = House::new().await;
        let mut strangers = Vec::new();
        for protocol in ["http/1.1", "h2"] {
            for _ in 0..8 {
                let stream = house.connect(protocol).await;
                strangers.push(tokio::spawn(async move {
                    match protocol {
                        "h2" => Http2::on(stream).await.ask(get(path)).await,
                        _ => Http1::on(stream).await.ask(get(path)).await,
                    }
                }));
            }
        }
        soon(async {
            while !house.api.gate.is_kept() {
                tokio::task::yield_now().await;
            }
        })
        .await;
        assert_eq!(soon(house.ask(house.get("/livez"))).await, (200, "ok".into()), "{path}");
        house.api.gate.open();
        for stranger in strangers {
            assert_eq!(soon(stranger).await.unwrap().unwrap(), (200, "ok".into()), "{path}");
        }
    }
}

/// What nobody waits for any more is not gone on with, wherever it runs.
#[tokio::test]
async fn work_ends_when_its_client_goes() {
    let house = House::new().await;
    let stream = house.connect("http/1.1").await;
    let mut client = Http1::on(stream).await;
    let response = soon(client.0.send_request(get("/version?flood"))).await.unwrap();
    drop((response, client));
    soon(house.api.flood_ended.notified()).await;
}
