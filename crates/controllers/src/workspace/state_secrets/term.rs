//! Whose term a write is of, and what it may be written over.
//!
//! A number alone does not tell two terms apart: it begins anew with a Lease that was deleted, and with that of another cluster. So a head
//! names the holder that wrote it, and what another one wrote is written over by the one alone that is seen to hold the Lease.

use std::time::Duration;

use capt_terraform::state_backend::StateBackendError;

use super::chunked_secret::{Head, Run};
use super::failed;
use crate::runtime::lease::Claim;

/// The lease term of a writer.
pub struct Term {
    /// Counts holders of the Lease.
    pub fence: u64,
    holder: Holder,
}

/// Knowledge of the holder beside that.
enum Holder {
    /// Nothing: numbers decide.
    Unknown,
    /// Its name; it may be the holder no more.
    Former(String),
    /// It can be asked for.
    Claimed(Box<Claim>),
}

impl Term {
    pub fn new(fence: u64) -> Self {
        Self { fence, holder: Holder::Unknown }
    }

    pub fn of(fence: u64, holder: String) -> Self {
        Self { fence, holder: Holder::Former(holder) }
    }

    pub fn claimed(fence: u64, claim: Claim) -> Self {
        Self { fence, holder: Holder::Claimed(Box::new(claim)) }
    }

    fn name(&self) -> Option<&str> {
        match &self.holder {
            Holder::Unknown => None,
            Holder::Former(name) => Some(name),
            Holder::Claimed(claim) => Some(claim.holder()),
        }
    }

    /// The holder, as a head has it.
    pub fn holder(&self) -> Option<String> {
        self.name().map(str::to_owned)
    }

    /// Returns true if a head was written in this term.
    pub fn wrote(&self, head: &Head) -> bool {
        match self.name() {
            Some(name) => head.by.as_deref() == Some(name),
            None => head.fence >= self.fence,
        }
    }

    /// The number to write over a head with. Refused where that is of a later controller.
    pub async fn over(&self, secret: &str, head: &Head) -> Result<u64, StateBackendError> {
        let Head { fence, by, .. } = head;
        let may = match &self.holder {
            Holder::Unknown => *fence <= self.fence,
            _ if self.wrote(head) => true,
            Holder::Former(_) => *fence < self.fence || (by.is_none() && *fence == self.fence),
            // Whoever stands still after this writes over the head that was read, and over no later one.
            Holder::Claimed(claim) => claim.is_held().await.map_err(failed)?,
        };
        if !may {
            let ours = self.fence;
            let text =
                format!("Secret {secret} was written by a later controller ({fence}, and ours is {ours})");
            return Err(StateBackendError::Fenced(text));
        }
        let next = if self.wrote(head) { *fence } else { fence.saturating_add(1) };
        Ok(match self.holder {
            Holder::Unknown => self.fence,
            Holder::Former(_) | Holder::Claimed(_) => self.fence.max(next),
        })
    }

    /// Returns the time for which the run of a head can still be under way, so long after this term began. One of this term is not waited
    /// for.
    pub fn ends_within(&self, head: &Head, run: &Run, since: Duration) -> Duration {
        if self.wrote(head) { Duration::ZERO } else { Duration::from_secs(run.seconds).saturating_sub(since) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_run_of_another_controller_is_waited_for() {
        let run = Run { id: "r".into(), seconds: 100 };
        let rows = [
            // Fence and holder of the head, ours, since we have the lease -> wait.
            ((1, None), (2, None), 0, 100),
            ((1, None), (2, None), 40, 60),
            ((1, None), (2, None), 100, 0),
            ((1, None), (2, None), 1000, 0),
            ((2, None), (2, None), 0, 0),
            ((3, None), (2, None), 0, 0),
            // With holders, numbers decide nothing.
            ((1, Some("a")), (2, Some("a")), 0, 0),
            ((1, Some("a")), (1, Some("b")), 0, 100),
            ((3, Some("a")), (1, Some("b")), 40, 60),
            ((3, None), (1, Some("b")), 40, 60),
        ];
        for ((fence, by), (ours, holder), since, wait) in rows {
            let head = Head {
                generation: 1,
                chunks: 1,
                sha256: String::new(),
                fence,
                by: by.map(str::to_owned),
                running: None,
            };
            let term = holder.map_or_else(|| Term::new(ours), |holder| Term::of(ours, holder.to_owned()));
            let left = term.ends_within(&head, &run, Duration::from_secs(since));
            assert_eq!(left.as_secs(), wait, "{head:?} {ours} {holder:?} {since}");
        }
    }
}
