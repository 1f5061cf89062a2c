//! Waiting for something another process does: ask again and again, up to a deadline.

use std::time::Duration;

use tokio::time::{Instant, sleep};

/// Short enough to add nothing noticeable to a start-up, long enough to leave the cores to those waited for.
const EVERY: Duration = Duration::from_millis(10);

/// What was waited for did not come about.
#[derive(Debug, thiserror::Error)]
#[error("not within {within:?}: {what}")]
pub struct TimedOut {
    what: String,
    within: Duration,
}

/// Asks `probe` until it answers `Some`, for at most `within`; `what` names the expected event in the error.
///
/// A probe under way when the time is up is cut off, so a peer that accepts and never answers cannot hold a test.
pub async fn until<T>(
    what: &str,
    within: Duration,
    mut probe: impl AsyncFnMut() -> Option<T>,
) -> Result<T, TimedOut> {
    let asking = async {
        loop {
            let asked = Instant::now();
            if let Some(answer) = probe().await {
                return answer;
            }
            // A slow probe is followed by as long a pause: polling takes at most half of what it costs.
            sleep(EVERY.max(asked.elapsed())).await;
        }
    };
    tokio::time::timeout(within, asking).await.map_err(|_| TimedOut { what: what.to_owned(), within })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn answers_as_soon_as_the_probe_does() {
        let mut asked = 0;
        let answer = until("third time", Duration::from_secs(1), async || {
            asked += 1;
            (asked == 3).then_some(asked)
        });
        assert_eq!(answer.await.unwrap(), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn gives_up_on_a_probe_that_hangs() {
        let answer =
            until("an answer", Duration::from_secs(1), async || std::future::pending::<Option<()>>().await);
        assert_eq!(answer.await.unwrap_err().to_string(), "not within 1s: an answer");
    }
}
