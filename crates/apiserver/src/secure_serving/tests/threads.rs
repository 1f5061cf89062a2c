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

/// A server, and a connection of a user who is no administrator.
async fn users(protocol: &str, folder: &tempfile::TempDir, harness: &Harness) -> TlsStream<TcpStream> {
    let (certificate, key) = who::sign(folder.path(), "ann", "devs");
    let client = Some((certificate.as_str(), key.as_str()));
    connect(harness.serving.address(), harness.identity.ca_certificate(), client, protocol).await.unwrap()
}

async fn harness() -> (tempfile::TempDir, Harness) {
    let folder = tempfile::tempdir().unwrap();
    let identity = Identity::in_folder(folder.path(), &[], SystemTime::now()).unwrap();
    let harness = Harness::of(identity, Settings::default()).await;
    (folder, harness)
}

/// This test has one thread for the server and itself: work of a user on it would keep both for ever.
#[tokio::test]
async fn an_administrator_waits_behind_no_work_of_others() {
    let kept: &[(&str, &str)] = &[("impersonate-user", "kept")];
    for (path, headers, wanted) in
        [("/kept", &[][..], "ok"), ("/kept/body", &[], "ok"), ("/asking", kept, "ann")]
    {
        let (folder, harness) = harness().await;
        let mut others = Vec::new();
        for protocol in ["http/1.1", "h2"] {
            for _ in 0..8 {
                let stream = users(protocol, &folder, &harness).await;
                others.push(tokio::spawn(async move {
                    match protocol {
                        "h2" => Http2::on(stream).await.ask(who::with(get(path), headers)).await,
                        _ => Http1::on(stream).await.ask(who::with(get(path), headers)).await,
                    }
                }));
            }
        }
        soon(async {
            while !harness.api.gate.is_kept() {
                tokio::task::yield_now().await;
            }
        })
        .await;
        for asked in [harness.get("/livez"), harness.get("/length"), get("/livez")] {
            assert_eq!(
                soon(harness.ask(asked)).await.0,
                200,
                "the administrator, and whoever asks whether it is up"
            );
        }
        harness.api.gate.open();
        for other in others {
            assert_eq!(soon(other).await.unwrap().unwrap(), (200, wanted.into()), "{path}");
        }
    }
}

/// What nobody waits for any more is not gone on with, wherever it runs.
#[tokio::test]
async fn work_ends_when_its_client_goes() {
    let (folder, harness) = harness().await;
    let mut client = Http1::on(users("http/1.1", &folder, &harness).await).await;
    let response = soon(client.0.send_request(get("/flood"))).await.unwrap();
    drop((response, client));
    soon(harness.api.flood_ended.notified()).await;
}
