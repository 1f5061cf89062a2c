//! When work that was refused is tried again.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(60);

/// Waits after a refusal: a second, then twice as long after each further one, up to a minute. Whatever else happens meanwhile
/// does not bring it forward, so that nobody's writes make the server repeat work that fails.
#[derive(Debug, Default)]
pub struct Backoff {
    last: Duration,
    due: Option<Instant>,
}

impl Backoff {
    /// Takes note of how the work went.
    pub fn note(&mut self, refused: bool) {
        self.last = if refused { (self.last * 2).clamp(FIRST, LONGEST) } else { Duration::ZERO };
        self.due = refused.then(|| Instant::now() + self.last);
    }

    /// Waits until the work is due; for ever if none was refused.
    pub async fn is_due(&self) {
        match self.due {
            Some(due) => sleep_until(due).await,
            None => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn refused_work_waits_longer_each_time() {
        let mut backoff = Backoff::default();
        for seconds in [1, 2, 4, 8, 16, 32, 60, 60] {
            let begun = Instant::now();
            backoff.note(true);
            backoff.is_due().await;
            assert_eq!(begun.elapsed().as_secs(), seconds);
        }
        backoff.note(false);
        assert!(backoff.due.is_none(), "nothing is due after a success");
        backoff.note(true);
        advance(FIRST).await;
        backoff.is_due().await;
    }
}
