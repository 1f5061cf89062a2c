//! Until when `capt up` runs, and what is told meanwhile.

use std::io;
use std::time::Duration;

use kube::Client;
use tokio::time::Instant;

use super::super::live::Wake;
use super::apply::Applied;
use super::show::{Event, Show};
use crate::tree::judge::{is_ready, is_stalled};
use crate::tree::object_summary::{Kind, ObjectSummary};
use crate::tree::source::Follower;
use crate::tree::{Cause, Node, State, build};

/// Time that the tree waits for the first reconciles: a large fleet takes longer, and should be shown meanwhile.
const PATIENCE: Duration = Duration::from_millis(500);

/// Why it ends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum End {
    /// Somebody asked for it.
    Asked,
    /// All is ready.
    Ready,
    /// Not all became ready.
    NotReady,
}

/// Objects to wait for.
pub struct Waiting {
    applied: Applied,
    /// True if the process ends with the wait.
    ends: bool,
    timeout: Duration,
    demo: bool,
}

/// State of what was applied.
#[derive(Debug, PartialEq)]
enum Stand {
    Ready,
    Under,
    /// Nothing moves, and something cannot become ready before somebody changes it.
    Stuck,
}

impl Waiting {
    pub fn new(applied: Applied, ends: bool, timeout: Duration, demo: bool) -> Self {
        Self { applied, ends, timeout, demo }
    }

    /// Shows what happens. Without `--wait` it never ends by itself. Nothing is judged before the controllers have `looked` at
    /// all of it: until then a status tells of an earlier time.
    pub async fn until_the_end(
        &self,
        client: &Client,
        looked: impl Future<Output = ()>,
        show: &mut Show,
    ) -> io::Result<End> {
        let started = Instant::now();
        tokio::pin!(looked);
        let mut judged = tokio::time::timeout(PATIENCE, &mut looked).await.is_ok();
        let mut follower = Follower::start(client, None);
        let deadline = (self.ends && !self.timeout.is_zero()).then(|| started + self.timeout);
        let mut was_ready = false;
        loop {
            let (stand, roots) = follower.with(|things| {
                let roots = build::build(things);
                (self.stand(things, &roots), roots)
            });
            let stand = if judged && follower.is_complete() { stand } else { Stand::Under };
            show.tree(&roots)?;
            if stand == Stand::Ready && !was_ready && !self.applied.is_empty() {
                was_ready = true;
                // Whoever waits is told once nothing runs any more.
                show.ready(&roots, started.elapsed(), self.demo && !self.ends)?;
            }
            if self.ends {
                match stand {
                    Stand::Ready => return Ok(End::Ready),
                    Stand::Stuck => {
                        show.event(&Event::NotReady {
                            why: "it cannot become ready",
                            reasons: &reasons(&roots),
                        })?;
                        return Ok(End::NotReady);
                    }
                    Stand::Under => {}
                }
            }
            tokio::select! {
                () = &mut looked, if !judged => {
                    judged = true;
                    // What was written until now is in what is listed now.
                    follower = Follower::start(client, None);
                }
                () = self.next_look(&mut follower, was_ready) => {}
                wake = show.wake() => if wake == Wake::Quit {
                    return Ok(End::Asked);
                },
                () = at(deadline) => {
                    let roots = follower.with(build::build);
                    show.tree(&roots)?;
                    show.event(&Event::NotReady { why: "it took too long", reasons: &reasons(&roots) })?;
                    return Ok(End::NotReady);
                }
            }
        }
    }

    /// Waits until something changed, and then for more of it; not once all is ready that is waited for.
    async fn next_look(&self, follower: &mut Follower, was_ready: bool) {
        follower.changed().await;
        let enough = tokio::time::sleep(follower.pause());
        tokio::pin!(enough);
        while was_ready || self.applied.is_empty() || !follower.all(&self.applied, is_ready) {
            tokio::select! {
                () = &mut enough => return,
                () = follower.changed() => {}
            }
        }
    }

    fn stand(&self, things: &[(Kind, &ObjectSummary)], roots: &[Node]) -> Stand {
        let find = |(kind, namespace, name): &(Kind, String, String)| {
            things
                .iter()
                .find(|(of, thing)| of == kind && thing.name() == name && thing.namespace() == namespace)
        };
        let ready = |wanted: &(Kind, String, String)| {
            find(wanted).is_some_and(|(kind, thing)| is_ready(*kind, thing))
        };
        // Who names no file means what was applied before.
        let all = self.applied.is_empty() && things.iter().all(|(kind, thing)| is_ready(*kind, thing));
        if all || !self.applied.is_empty() && self.applied.iter().all(ready) {
            return Stand::Ready;
        }
        let moves = |state: State| matches!(state, State::Working | State::Deleting);
        // What failed and is tried again tells of its failure until it ends; others may not have heard that it is.
        let mut still = !things.iter().any(|(_, thing)| thing.status.progress.is_some());
        for root in roots {
            // A parent of what is stuck is on its way for ever: only what has no parts tells.
            root.walk(&mut |node| still &= !(node.children.is_empty() && moves(node.state)));
        }
        let stalled = things.iter().any(|(_, thing)| is_stalled(thing).is_some());
        if still && stalled { Stand::Stuck } else { Stand::Under }
    }
}

async fn at(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

/// The cause of each tree that is not ready.
fn reasons(roots: &[Node]) -> Vec<Cause> {
    roots.iter().filter_map(|root| root.cause.clone()).collect()
}
